//! Making tasks.

use std::any::type_name;

use super::{Budget, Group, GroupShared};
use crate::failure::Failure;
use crate::sync::{Arc, Mutex};
use crate::task::{
    self, Attached, Attachment, Extra, Fixed, Hooks, Lifecycle, Mail, Mailbox, Of, Overflow, Parts,
    Task,
};
use crate::worker;

/// Why a task was not spawned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpawnErrorKind {
    /// The group shuts down or has ended.
    GroupClosed,
    /// A mailbox for zero jobs would refuse everything.
    NoMailbox,
    /// A bound beyond [`MAILBOX_JOBS_MAX`](crate::limits::MAILBOX_JOBS_MAX) jobs.
    MailboxTooLarge,
    /// An overflow policy other than `Reject` needs a bound that fits into memory.
    Unbounded,
}

/// A task that was not spawned; gives the state back.
#[derive(thiserror::Error)]
#[error("{}", kind.text())]
#[must_use]
pub struct SpawnError<S> {
    /// Why.
    pub kind: SpawnErrorKind,
    /// The state.
    pub state: S,
}

impl SpawnErrorKind {
    fn text(self) -> &'static str {
        match self {
            Self::GroupClosed => "the group has been shut down",
            Self::NoMailbox => "a mailbox for zero jobs would refuse everything",
            Self::MailboxTooLarge => "a mailbox is bounded to at most 1,048,575 jobs, or unbounded",
            Self::Unbounded => "an overflow policy needs a bounded mailbox",
        }
    }
}

debug_fields!(impl<S> SpawnError<S>, self => kind: self.kind);

impl<S> From<SpawnError<S>> for Failure {
    fn from(error: SpawnError<S>) -> Self {
        match error.kind {
            SpawnErrorKind::GroupClosed => Self::Closed,
            kind => Self::Refused(kind.text()),
        }
    }
}

type RegisterFn<S, K> = fn(Parts<S, K>, Option<usize>) -> Result<Task<S>, SpawnError<S>>;

/// Describes a task; every value has a default.
#[must_use = "a task is made by `spawn`"]
pub struct TaskBuilder<S, K = ()> {
    group: Arc<GroupShared>,
    state: S,
    attachment: K,
    class: Option<String>,
    /// Type whose name is the class by default.
    class_type: &'static str,
    mailbox: Option<Mailbox>,
    lifecycle: Option<Box<dyn Lifecycle<S>>>,
    /// Spawns a task with hooks of a fixed type.
    fixed: Option<RegisterFn<S, K>>,
    tag: u64,
    is_system: bool,
    /// Name, labels and budget, if there are any.
    extra: Option<Box<Extra>>,
}

debug_fields!(impl<S, K> TaskBuilder<S, K>, self => class: self.class);

impl Group {
    /// Spawns a task without hooks; the short form of [`Group::task`].
    ///
    /// Cost: one allocation of 128 bytes plus the state, and two short locks.
    ///
    /// # Errors
    ///
    /// The group shuts down; the state comes back.
    pub fn spawn<S: Send + 'static>(&self, state: S) -> Result<Task<S>, SpawnError<S>> {
        self.task(state).spawn()
    }

    /// Describes a task with this state.
    pub fn task<S: Send + 'static>(&self, state: S) -> TaskBuilder<S> {
        TaskBuilder {
            group: Arc::clone(self.shared()),
            state,
            attachment: (),
            class: None,
            class_type: type_name::<S>(),
            mailbox: None,
            lifecycle: None,
            fixed: None,
            tag: 0,
            is_system: false,
            extra: None,
        }
    }
}

impl<S: Attached> TaskBuilder<S> {
    /// Puts a value beside the state that every handle of the task may read. Call it before the
    /// hooks.
    #[doc(hidden)]
    pub fn attach(self, attachment: S::Attachment) -> TaskBuilder<S, Of<S::Attachment>> {
        assert!(self.fixed.is_none(), "the hooks are described after it");
        TaskBuilder {
            attachment: Of(attachment),
            fixed: None,
            group: self.group,
            state: self.state,
            class: self.class,
            class_type: self.class_type,
            mailbox: self.mailbox,
            lifecycle: self.lifecycle,
            tag: self.tag,
            is_system: self.is_system,
            extra: self.extra,
        }
    }
}

impl<S: Send + 'static, K: Attachment> TaskBuilder<S, K> {
    setters! {
        /// A name for logs and listings; by default the class's.
        name(self, name: &str) => self.extra.get_or_insert_default().name = Some(name.into());

        /// The class under which metrics are kept; by default the name of the state's type. Keep
        /// the number of classes small: each has histograms, and lives as long as the group.
        class(self, class: &str) => self.class = Some(class.to_owned());

        /// Makes the name of another type than the state's the class, for layers that wrap the
        /// state. Cheaper than [`TaskBuilder::class`], which counts if both are given.
        class_of<T>(self) => self.class_type = type_name::<T>();

        /// A number that handles answer with [`Task::tag`], for layers that tell tasks apart their
        /// way.
        tag(self, tag: u64) => self.tag = tag;

        /// A label for logs and listings.
        label(self, key: &str, value: &str) =>
            self.extra.get_or_insert_default().labels.push((key.into(), value.into()));

        /// Puts the task into the system class: never behind user tasks. For supervision and the
        /// like, with short jobs.
        system(self) => self.is_system = true;

        /// Bounds of the mailbox; by default the group's.
        mailbox(self, mailbox: Mailbox) => self.mailbox = Some(mailbox);

        /// Limits of one turn; by default the group's.
        budget(self, budget: Budget) => self.extra.get_or_insert_default().budget = Some(budget);
    }

    /// Hooks for start, end and failure.
    pub fn lifecycle(mut self, hooks: impl Lifecycle<S>) -> Self {
        self.lifecycle = Some(Box::new(hooks));
        self.fixed = None;
        self
    }

    /// As [`TaskBuilder::lifecycle`] with hooks of a type that needs no value of the caller's: a
    /// type without fields takes no room in the task and no allocation. Of the two the last counts.
    ///
    /// ```
    /// use turnwheel_runtime::{Context, Failure, Group, Lifecycle};
    /// #[derive(Default)]
    /// struct Counted;
    /// impl Lifecycle<u64> for Counted {
    ///     fn starting(
    ///         &mut self,
    ///         count: &mut u64,
    ///         _: &mut Context<'_, u64>,
    ///     ) -> Result<(), Failure> {
    ///         *count += 1;
    ///         Ok(())
    ///     }
    /// }
    /// let group = Group::builder("doc").workers(1).build()?;
    /// let task = group.task(0).hooks::<Counted>().tag(7).spawn()?;
    /// assert_eq!(task.call(|count, _| *count).wait()?, 1);
    /// assert_eq!(task.tag(), 7);
    /// # group.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn hooks<H: Lifecycle<S> + Default>(mut self) -> Self {
        self.lifecycle = None;
        self.fixed = Some(|parts, place| register(parts, Fixed::<H>::default(), place));
        self
    }

    /// Spawns the task.
    ///
    /// # Errors
    ///
    /// [`SpawnErrorKind`] says why; the state comes back.
    pub fn spawn(self) -> Result<Task<S>, SpawnError<S>> {
        let shared = self.group;
        let mailbox = self.mailbox.unwrap_or(shared.config.mailbox);
        let (state, mut extra) = (self.state, self.extra);
        if mailbox.capacity == 0 {
            return Err(SpawnError { kind: SpawnErrorKind::NoMailbox, state });
        }
        if mailbox.is_too_large() {
            return Err(SpawnError { kind: SpawnErrorKind::MailboxTooLarge, state });
        }
        let is_plain = mailbox.overflow == Overflow::Reject;
        if !is_plain {
            let bound = usize::try_from(mailbox.capacity).ok().filter(|bound| *bound < usize::MAX);
            let Some(bound) = bound else {
                return Err(SpawnError { kind: SpawnErrorKind::Unbounded, state });
            };
            let mail = Mutex::new(Mail::new(bound, mailbox.overflow));
            extra.get_or_insert_default().mail = Some(mail);
        }
        let (class, place) = worker::with_current(|local| {
            let local = local.filter(|local| local.is_of(&shared));
            let class = match (&self.class, local) {
                (Some(class), _) => shared.class(class),
                (None, Some(local)) => local.class(self.class_type),
                (None, None) => shared.class(self.class_type),
            };
            (class, local.map(|local| local.index))
        });
        let parts = Parts {
            state,
            attachment: self.attachment,
            tag: self.tag,
            capacity: if is_plain { mailbox.capacity } else { 0 },
            class,
            group: shared,
            system: self.is_system,
            extra,
        };
        match (self.fixed, self.lifecycle) {
            (Some(register_fixed), _) => register_fixed(parts, place),
            (None, Some(hooks)) => register(parts, Some(hooks), place),
            (None, None) => register(parts, (), place),
        }
    }
}

/// Makes a task and lists it in its group; a task with hooks is scheduled.
fn register<S: Send + 'static, H: Hooks<S>, K: Attachment>(
    parts: Parts<S, K>,
    mut hooks: H,
    place: Option<usize>,
) -> Result<Task<S>, SpawnError<S>> {
    let is_scheduled = hooks.look().is_some();
    let made = task::make(parts, hooks);
    if made.group.registry.add(&made, place).is_err() {
        let state = task::unmake::<S, H, K>(made);
        return Err(SpawnError { kind: SpawnErrorKind::GroupClosed, state });
    }
    if is_scheduled {
        super::schedule(made.ptr());
    }
    Ok(Task::new(made))
}

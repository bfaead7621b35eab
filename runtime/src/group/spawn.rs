//! Making tasks.

use std::any::type_name;
use std::fmt;

use super::{Budget, Group};
use crate::failure::Failure;
use crate::sync::Arc;
use crate::task::{self, Extra, Fixed, Lifecycle, Mail, Mailbox, Overflow, Parts, Task, TaskRef};
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
#[must_use]
pub struct SpawnError<S> {
    /// Why.
    pub kind: SpawnErrorKind,
    /// The state.
    pub state: S,
}

impl<S> fmt::Debug for SpawnError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpawnError").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl<S> fmt::Display for SpawnError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            SpawnErrorKind::GroupClosed => "the group has been shut down",
            SpawnErrorKind::NoMailbox => "a mailbox for zero jobs would refuse everything",
            SpawnErrorKind::MailboxTooLarge => {
                "a mailbox is bounded to at most 1,048,575 jobs, or unbounded"
            }
            SpawnErrorKind::Unbounded => "an overflow policy needs a bounded mailbox",
        })
    }
}

impl<S> std::error::Error for SpawnError<S> {}

impl<S> From<SpawnError<S>> for Failure {
    fn from(error: SpawnError<S>) -> Self {
        match error.kind {
            SpawnErrorKind::GroupClosed => Self::Closed,
            SpawnErrorKind::NoMailbox => Self::Refused("a mailbox for zero jobs"),
            SpawnErrorKind::MailboxTooLarge => {
                Self::Refused("a mailbox is bounded to at most 1,048,575 jobs, or unbounded")
            }
            SpawnErrorKind::Unbounded => {
                Self::Refused("an overflow policy needs a bounded mailbox")
            }
        }
    }
}

/// Describes a task; every value has a default.
pub struct TaskBuilder<S> {
    group: Group,
    state: S,
    name: Option<Box<str>>,
    class: Option<String>,
    /// The type whose name is the class if none is given.
    class_type: &'static str,
    mailbox: Option<Mailbox>,
    budget: Option<Budget>,
    lifecycle: Option<Box<dyn Lifecycle<S>>>,
    /// How a cell with hooks of a fixed type is made.
    fixed: Option<Shape<S>>,
    tag: u64,
    labels: Vec<(Box<str>, Box<str>)>,
    is_system: bool,
}

/// Makes a cell of one shape, and takes it apart.
struct Shape<S> {
    make: fn(Parts<S>) -> TaskRef,
    unmake: fn(TaskRef) -> S,
}

impl<S> fmt::Debug for TaskBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}

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
            group: self.clone(),
            state,
            name: None,
            class: None,
            class_type: type_name::<S>(),
            mailbox: None,
            budget: None,
            lifecycle: None,
            fixed: None,
            tag: 0,
            labels: Vec::new(),
            is_system: false,
        }
    }
}

impl<S: Send + 'static> TaskBuilder<S> {
    /// A name for logs and listings; by default the class's.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The class under which metrics are kept; by default the name of the state's type. Keep the
    /// number of classes small: each has histograms, and lives as long as the group.
    #[must_use]
    pub fn class(mut self, class: &str) -> Self {
        self.class = Some(class.to_owned());
        self
    }

    /// Makes the name of another type than the state's the class, for layers that wrap the state.
    /// Cheaper than [`TaskBuilder::class`], which counts if both are given.
    #[must_use]
    pub fn class_of<T>(mut self) -> Self {
        self.class_type = type_name::<T>();
        self
    }

    /// How much may be queued; by default the group's.
    #[must_use]
    pub fn mailbox(mut self, mailbox: Mailbox) -> Self {
        self.mailbox = Some(mailbox);
        self
    }

    /// How much one turn may take; by default the group's.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Hooks for start, end and failure.
    #[must_use]
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
    #[must_use]
    pub fn hooks<H: Lifecycle<S> + Default>(mut self) -> Self {
        self.lifecycle = None;
        self.fixed = Some(Shape {
            make: |parts| task::make(parts, Fixed::<H>::default()),
            unmake: task::unmake::<S, Fixed<H>>,
        });
        self
    }

    /// A number that handles answer with [`Task::tag`], for layers that tell tasks apart their way.
    #[must_use]
    pub fn tag(mut self, tag: u64) -> Self {
        self.tag = tag;
        self
    }

    /// A label for logs and listings.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.push((key.into(), value.into()));
        self
    }

    /// Puts the task into the system class: never behind user tasks. For supervision and the like,
    /// with short jobs.
    #[must_use]
    pub fn system(mut self) -> Self {
        self.is_system = true;
        self
    }

    /// Spawns the task.
    ///
    /// # Errors
    ///
    /// [`SpawnErrorKind`] says why; the state comes back.
    pub fn spawn(self) -> Result<Task<S>, SpawnError<S>> {
        let shared = Arc::clone(self.group.shared());
        let mailbox = self.mailbox.unwrap_or(shared.config.mailbox);
        let state = self.state;
        if mailbox.capacity == 0 {
            return Err(SpawnError { kind: SpawnErrorKind::NoMailbox, state });
        }
        if mailbox.is_too_large() {
            return Err(SpawnError { kind: SpawnErrorKind::MailboxTooLarge, state });
        }
        let is_plain = mailbox.overflow == Overflow::Reject;
        let mail = if is_plain {
            None
        } else {
            match usize::try_from(mailbox.capacity) {
                Ok(capacity) if capacity < usize::MAX => {
                    Some(Mail::new(capacity, mailbox.overflow))
                }
                _ => return Err(SpawnError { kind: SpawnErrorKind::Unbounded, state }),
            }
        };
        let has_extra = self.name.is_some()
            || !self.labels.is_empty()
            || self.budget.is_some()
            || mail.is_some();
        let extra = has_extra.then(|| {
            let mut extra = Box::<Extra>::default();
            extra.name = self.name;
            extra.labels = self.labels;
            extra.budget = self.budget;
            extra.mail = mail.map(crate::sync::Mutex::new);
            extra
        });
        let is_scheduled = self.fixed.is_some();
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
            tag: self.tag,
            capacity: if is_plain { mailbox.capacity } else { 0 },
            class,
            group: Arc::clone(&shared),
            system: self.is_system,
            extra,
        };
        let shape = match (self.fixed, self.lifecycle) {
            (Some(shape), _) => shape,
            (None, None) => {
                Shape { make: |parts| task::make(parts, ()), unmake: task::unmake::<S, ()> }
            }
            (None, Some(hooks)) => return spawn_hooked(parts, hooks, place),
        };
        let made = (shape.make)(parts);
        if shared.registry.add(&made, place).is_err() {
            let state = (shape.unmake)(made);
            return Err(SpawnError { kind: SpawnErrorKind::GroupClosed, state });
        }
        if is_scheduled {
            super::schedule(made.ptr());
        }
        Ok(Task::new(made))
    }
}

/// Spawns a task with hooks of its own.
fn spawn_hooked<S: Send + 'static>(
    parts: Parts<S>,
    hooks: Box<dyn Lifecycle<S>>,
    place: Option<usize>,
) -> Result<Task<S>, SpawnError<S>> {
    let group = Arc::clone(&parts.group);
    let made = task::make(parts, Some(hooks));
    if group.registry.add(&made, place).is_err() {
        let state = task::unmake::<S, Option<Box<dyn Lifecycle<S>>>>(made);
        return Err(SpawnError { kind: SpawnErrorKind::GroupClosed, state });
    }
    super::schedule(made.ptr());
    Ok(Task::new(made))
}

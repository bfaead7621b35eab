//! Making actors.

use turnwheel_runtime::{self as runtime, Budget, Group, Mailbox};

use crate::actor::{Actor, ActorCell, Address, Hooks, Restart, Restarter};
use crate::error::SpawnError;
use crate::system::{next_id, Chain, Interceptor, System};

/// Describes an actor; every value has a default.
#[must_use]
pub struct ActorBuilder<A: Actor> {
    system: System,
    actor: A,
    restarter: Option<Restarter<A>>,
    options: TaskOptions,
    incoming: Chain,
}

/// Settings of an actor's task. Unset ones are the group's, or follow the actor's type.
#[derive(Clone, Default)]
pub(crate) struct TaskOptions {
    pub(crate) group: Option<Group>,
    pub(crate) name: Option<String>,
    pub(crate) class: Option<String>,
    pub(crate) mailbox: Option<Mailbox>,
    pub(crate) budget: Option<Budget>,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) is_system: bool,
}

impl TaskOptions {
    /// Spawns the task of an actor.
    pub(crate) fn spawn<A: Actor>(
        self,
        cell: ActorCell<A>,
        system: System,
    ) -> Result<Address<A>, runtime::SpawnError<ActorCell<A>>> {
        let id = cell.state.id;
        let group = self.group.as_ref().unwrap_or(system.group());
        let mut task = group.task(cell).attach(system).hooks::<Hooks>().tag(id);
        task = match &self.class {
            Some(class) => task.class(class),
            None => task.class_of::<A>(),
        };
        if let Some(name) = &self.name {
            task = task.name(name);
        }
        if let Some(mailbox) = self.mailbox {
            task = task.mailbox(mailbox);
        }
        if let Some(budget) = self.budget {
            task = task.budget(budget);
        }
        for (key, value) in &self.labels {
            task = task.label(key, value);
        }
        if self.is_system {
            task = task.system();
        }
        task.spawn().map(Address::new)
    }
}

debug_fields!(impl<A: Actor> ActorBuilder<A>, self => name: self.options.name);

impl System {
    /// Spawns an actor; the short form of [`System::actor`].
    ///
    /// # Errors
    ///
    /// The group shuts down; the actor comes back.
    pub fn spawn<A: Actor>(&self, actor: A) -> Result<Address<A>, SpawnError<A>> {
        self.actor(actor).spawn()
    }

    /// Describes an actor.
    pub fn actor<A: Actor>(&self, actor: A) -> ActorBuilder<A> {
        ActorBuilder {
            system: self.clone(),
            actor,
            restarter: None,
            options: TaskOptions::default(),
            incoming: self.shared().incoming.clone(),
        }
    }
}

impl<A: Actor> ActorBuilder<A> {
    setters! {
        /// The group it runs in; by default the system's.
        on(self, group: &Group) => self.options.group = Some(group.clone());

        /// Factory of a fresh actor after a failure, with the restart policy.
        restart(self, policy: Restart, factory: impl FnMut() -> A + Send + 'static) =>
            self.restarter = Some(Restarter::new(policy, factory));

        /// A name for logs, listings and call chains; by default the class's.
        name(self, name: &str) => self.options.name = Some(name.to_owned());

        /// The class under which metrics are kept; by default the name of the actor's type.
        class(self, class: &str) => self.options.class = Some(class.to_owned());

        /// Bounds of the mailbox; by default the group's.
        mailbox(self, mailbox: Mailbox) => self.options.mailbox = Some(mailbox);

        /// Limits of one turn; by default the group's.
        budget(self, budget: Budget) => self.options.budget = Some(budget);

        /// A label for logs and listings.
        label(self, key: &str, value: &str) =>
            self.options.labels.push((key.to_owned(), value.to_owned()));

        /// Puts the actor into the system class: never behind others. For supervision and the like.
        system_class(self) => self.options.is_system = true;

        /// Puts an interceptor around every message that the actor handles, inside those of the
        /// system and earlier ones. See [`intercept`](crate::intercept).
        intercept(self, interceptor: impl Interceptor) => self.incoming.push(interceptor);
    }

    /// Leaves out the interceptors of the system: for actors that are part of the works.
    pub(crate) fn unintercepted(mut self) -> Self {
        self.incoming = Chain::default();
        self
    }

    /// Spawns the actor.
    ///
    /// # Errors
    ///
    /// [`SpawnErrorKind`](turnwheel_runtime::SpawnErrorKind) says why; the actor comes back.
    pub fn spawn(self) -> Result<Address<A>, SpawnError<A>> {
        let id = next_id(&self.system);
        let cell = ActorCell::new(Some(self.actor), id, self.restarter);
        self.options
            .spawn(cell.intercepted(self.incoming, None), self.system)
            .map_err(|error| SpawnError { kind: error.kind, actor: error.state.into_actor() })
    }
}

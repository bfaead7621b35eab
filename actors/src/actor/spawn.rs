//! Making actors.

use std::fmt;

use turnwheel_runtime::{Budget, Group, Mailbox};

use crate::actor::address::Address;
use crate::actor::cell::hooks::Hooks;
use crate::actor::cell::ActorCell;
use crate::actor::restart::{Restart, Restarter};
use crate::actor::Actor;
use crate::error::SpawnError;
use crate::system::id::next_id;
use crate::system::intercept::{Chain, Interceptor};
use crate::system::System;

/// Describes an actor; every value has a default.
#[must_use]
pub struct ActorBuilder<A: Actor> {
    system: System,
    group: Option<Group>,
    actor: A,
    restarter: Option<Restarter<A>>,
    name: Option<String>,
    class: Option<String>,
    mailbox: Option<Mailbox>,
    budget: Option<Budget>,
    labels: Vec<(String, String)>,
    is_system: bool,
    incoming: Chain,
    is_bare: bool,
}

impl<A: Actor> fmt::Debug for ActorBuilder<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActorBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}

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
        ActorBuilder::new(self.clone(), actor)
    }
}

impl<A: Actor> ActorBuilder<A> {
    pub(crate) fn new(system: System, actor: A) -> Self {
        Self {
            system,
            group: None,
            actor,
            restarter: None,
            name: None,
            class: None,
            mailbox: None,
            budget: None,
            labels: Vec::new(),
            is_system: false,
            incoming: Chain::default(),
            is_bare: false,
        }
    }

    /// The group it runs in; by default the system's.
    pub fn on(mut self, group: &Group) -> Self {
        self.group = Some(group.clone());
        self
    }

    /// How a fresh actor is made after a failure, and how often.
    pub fn restart(mut self, policy: Restart, factory: impl FnMut() -> A + Send + 'static) -> Self {
        self.restarter = Some(Restarter::new(policy, factory));
        self
    }

    /// A name for logs, listings and call chains; by default the class's.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// The class under which metrics are kept; by default the name of the actor's type.
    pub fn class(mut self, class: &str) -> Self {
        self.class = Some(class.to_owned());
        self
    }

    /// How many messages may be queued; by default the group's.
    pub fn mailbox(mut self, mailbox: Mailbox) -> Self {
        self.mailbox = Some(mailbox);
        self
    }

    /// How much one turn may take; by default the group's.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// A label for logs and listings.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Puts the actor into the system class: never behind others. For supervision and the like.
    pub fn system_class(mut self) -> Self {
        self.is_system = true;
        self
    }

    /// Puts an interceptor around every message that the actor handles, inside those of the system
    /// and those that were put before. See [`intercept`](crate::intercept).
    pub fn intercept(mut self, interceptor: impl Interceptor) -> Self {
        self.incoming.push(interceptor);
        self
    }

    /// Leaves out the interceptors of the system: for actors that are part of the works.
    pub(crate) fn unintercepted(mut self) -> Self {
        self.is_bare = true;
        self
    }

    /// Spawns the actor.
    ///
    /// # Errors
    ///
    /// [`SpawnErrorKind`](turnwheel_runtime::SpawnErrorKind) says why; the actor comes back.
    pub fn spawn(self) -> Result<Address<A>, SpawnError<A>> {
        let id = next_id(&self.system);
        let cell = ActorCell::new(self.actor, id, self.system.clone(), self.restarter);
        let cell = match self.is_bare {
            true => cell,
            false => {
                let chain = self.system.shared().incoming.around(&self.incoming);
                cell.intercepted(chain, None)
            }
        };
        let group = self.group.as_ref().unwrap_or(self.system.group());
        let mut task = group.task(cell).hooks::<Hooks>().tag(id);
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
        match task.spawn() {
            Ok(task) => Ok(Address::new(task, self.system)),
            Err(error) => {
                let kind = error.kind;
                let actor = error.state.into_actor();
                Err(SpawnError { kind, actor })
            }
        }
    }
}

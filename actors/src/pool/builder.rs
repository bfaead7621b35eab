//! Describing a pool.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use turnwheel_runtime::{Budget, Group, Mailbox, SpawnErrorKind};

use super::shared::{Factory, Grown, Settings, Shared};
use super::supervisor::{PoolSupervisor, Supervise};
use super::{Pool, Routing, POOL_IDLE_DEFAULT, POOL_MEMBERS_MAX};
use crate::actor::cell::envelope::Bare;
use crate::actor::handler::kind;
use crate::actor::restart::{Restart, RestartCounter};
use crate::actor::Actor;
use crate::system::intercept::{Chain, Interceptor};
use crate::system::upkeep::submit_own;
use crate::system::System;

/// Why a pool was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// It may have no member at all.
    #[error("the pool {name} may have no member: give it a size of one or more")]
    NoMembers {
        /// The pool.
        name: String,
    },
    /// More than [`POOL_MEMBERS_MAX`].
    #[error("the pool {name} may have {max} members, more than {POOL_MEMBERS_MAX}")]
    TooManyMembers {
        /// The pool.
        name: String,
        /// How many it was to have.
        max: usize,
    },
    /// The least number is more than the most.
    #[error("the pool {name} is to have at least {min} members, and {max} at most")]
    LeastAboveMost {
        /// The pool.
        name: String,
        /// At least.
        min: usize,
        /// At most.
        max: usize,
    },
    /// Its group did not take a member, or the actor behind the pool.
    #[error("no member of the pool {name} was spawned: {}", said(*kind))]
    NotSpawned {
        /// The pool.
        name: String,
        /// Why.
        kind: SpawnErrorKind,
    },
}

fn said(kind: SpawnErrorKind) -> turnwheel_runtime::SpawnError<()> {
    turnwheel_runtime::SpawnError { kind, state: () }
}

/// Describes a [`Pool`]; every value has a default.
#[must_use]
pub struct PoolBuilder<A: Actor> {
    system: System,
    factory: Factory<A>,
    name: Option<String>,
    size: Option<(usize, usize)>,
    routing: Routing,
    restart: Restart,
    idle_limit: Duration,
    group: Option<Group>,
    mailbox: Option<Mailbox>,
    budget: Option<Budget>,
    incoming: Chain,
}

impl<A: Actor> fmt::Debug for PoolBuilder<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("PoolBuilder");
        shown.field("name", &self.name).field("size", &self.size).finish_non_exhaustive()
    }
}

impl<A: Actor> PoolBuilder<A> {
    pub(super) fn new(system: System, factory: Factory<A>) -> Self {
        Self {
            system,
            factory,
            name: None,
            size: None,
            routing: Routing::LeastLoaded,
            restart: Restart::default(),
            idle_limit: POOL_IDLE_DEFAULT,
            group: None,
            mailbox: None,
            budget: None,
            incoming: Chain::default(),
        }
    }

    /// So many members from the start, always.
    pub fn fixed(self, members: usize) -> Self {
        self.growing(members, members)
    }

    /// From `min` members, made at the start, to `max`: one more when all are busy. Without this
    /// or [`PoolBuilder::fixed`] from none to one for each worker of its group.
    pub fn growing(mut self, min: usize, max: usize) -> Self {
        self.size = Some((min, max));
        self
    }

    /// Which member gets a message without a key; by default the least loaded.
    pub fn routing(mut self, routing: Routing) -> Self {
        self.routing = routing;
        self
    }

    /// How often a member that fails begins anew, and after which pauses; and how many members that
    /// fail for good are replaced, in the same time, before the pool gives up.
    pub fn restart(mut self, policy: Restart) -> Self {
        self.restart = policy;
        self
    }

    /// After how long without a message a member above the least number is closed; by default
    /// [`POOL_IDLE_DEFAULT`]. [`Duration::MAX`] for never.
    pub fn idle_limit(mut self, limit: Duration) -> Self {
        self.idle_limit = limit;
        self
    }

    /// A name for logs and listings; by default that of the actors' type. The members are called
    /// `name#place`.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// The group that the members run in; by default the system's.
    pub fn on(mut self, group: &Group) -> Self {
        self.group = Some(group.clone());
        self
    }

    /// How many messages may be queued at each member; by default the group's.
    pub fn mailbox(mut self, mailbox: Mailbox) -> Self {
        self.mailbox = Some(mailbox);
        self
    }

    /// How much one turn of a member may take; by default the group's.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Puts an interceptor around every message that a member handles, inside those of the system
    /// and those that were put before. See [`intercept`](crate::intercept).
    pub fn intercept(mut self, interceptor: impl Interceptor) -> Self {
        self.incoming.push(interceptor);
        self
    }

    /// Makes the pool and its first members.
    ///
    /// # Errors
    ///
    /// [`PoolError`]: sizes that cannot be, or the group takes no more tasks.
    pub fn build(self) -> Result<Pool<A>, PoolError> {
        let name = self.name.unwrap_or_else(|| short_name::<A>().to_owned());
        let group = self.group.unwrap_or_else(|| self.system.group().clone());
        let workers = group.workers().clamp(1, POOL_MEMBERS_MAX);
        let (min, max) = self.size.unwrap_or((0, workers));
        if max == 0 {
            return Err(PoolError::NoMembers { name });
        } else if max > POOL_MEMBERS_MAX {
            return Err(PoolError::TooManyMembers { name, max });
        } else if min > max {
            return Err(PoolError::LeastAboveMost { name, min, max });
        }
        // Here, and not when the first member is made: an impossible mailbox is a mistake of now.
        let trial = self.mailbox.map(|mailbox| group.task(()).mailbox(mailbox).spawn());
        if let Some(Err(error)) = trial {
            return Err(PoolError::NotSpawned { name, kind: error.kind });
        }
        let supervisor = PoolSupervisor::new(RestartCounter::new(self.restart.clone()));
        let supervisor = self.system.actor(supervisor).on(&group).name(&name).class("pool");
        let supervisor = supervisor.unintercepted().spawn();
        let supervisor = match supervisor {
            Ok(supervisor) => supervisor,
            Err(error) => return Err(PoolError::NotSpawned { name, kind: error.kind }),
        };
        let incoming = self.system.shared().incoming.around(&self.incoming);
        let settings = Settings {
            name,
            system: self.system,
            group,
            factory: self.factory,
            min,
            max,
            routing: self.routing,
            restart: self.restart,
            idle_limit: self.idle_limit,
            mailbox: self.mailbox,
            budget: self.budget,
            incoming,
        };
        let shared = Arc::new(Shared::new(settings, supervisor));
        // The supervisor is new, so that it has room; if its group has closed meanwhile, so is the
        // pool.
        let supervise = Bare::<_, kind::Plain>::new(Supervise(Arc::downgrade(&shared)));
        drop(submit_own(&shared.supervisor.task, supervise).map_err(|error| error.job.open()));
        for _ in 0..min {
            if let Grown::Refused(_, kind) = shared.grow(min, false) {
                let name = shared.settings.name.clone();
                shared.end();
                return Err(PoolError::NotSpawned { name, kind });
            }
        }
        Ok(Pool { shared })
    }
}

/// The name of a type without its path.
fn short_name<A>() -> &'static str {
    let name = std::any::type_name::<A>();
    let path_end = name.split('<').next().map_or(0, |head| head.rfind("::").map_or(0, |at| at + 2));
    &name[path_end..]
}

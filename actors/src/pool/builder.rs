//! Describing a pool.

use std::sync::Arc;
use std::time::Duration;

use turnwheel_runtime::{Budget, Group, Mailbox, SpawnErrorKind};

use super::shared::{Factory, Grown, Settings, Shared};
use super::supervisor::{PoolSupervisor, Supervise};
use super::{Pool, Routing, POOL_IDLE_DEFAULT, POOL_MEMBERS_MAX};
use crate::actor::{kind, Actor, Bare, Restart, RestartCounter, TaskOptions};
use crate::error::said;
use crate::system::upkeep::submit_own;
use crate::system::{Interceptor, System};

/// Why a pool was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the text of an error names its fields")]
pub enum PoolError {
    /// It may have no member at all.
    #[error("the pool {name} may have no member: give it a size of one or more")]
    NoMembers { name: String },
    /// More than [`POOL_MEMBERS_MAX`].
    #[error("the pool {name} may have {max} members, more than {POOL_MEMBERS_MAX}")]
    TooManyMembers { name: String, max: usize },
    /// The least number is more than the most.
    #[error("the pool {name} is to have at least {min} members, and {max} at most")]
    LeastAboveMost { name: String, min: usize, max: usize },
    /// Its group did not take a member, or the actor behind the pool.
    #[error("no member of the pool {name} was spawned: {}", said(*kind))]
    NotSpawned { name: String, kind: SpawnErrorKind },
}

/// Describes a [`Pool`]; every value has a default.
#[must_use]
pub struct PoolBuilder<A: Actor> {
    settings: Settings<A>,
    size: Option<(usize, usize)>,
}

debug_fields!(impl<A: Actor> PoolBuilder<A>, self => name: self.settings.name, size: self.size);

impl<A: Actor> PoolBuilder<A> {
    pub(super) fn new(system: System, factory: Factory<A>) -> Self {
        let incoming = system.shared().incoming.clone();
        let settings = Settings {
            name: short_name::<A>().to_owned(),
            system,
            options: TaskOptions::default(),
            factory,
            min: 0,
            max: 0,
            routing: Routing::LeastLoaded,
            restart: Restart::default(),
            idle_limit: POOL_IDLE_DEFAULT,
            incoming,
        };
        Self { settings, size: None }
    }

    /// So many members from the start, always.
    pub fn fixed(self, members: usize) -> Self {
        self.growing(members, members)
    }

    setters! {
        /// From `min` members, made at the start, to `max`: one more when all are busy. Without
        /// this or [`PoolBuilder::fixed`] from none to one for each worker of its group.
        growing(self, min: usize, max: usize) => self.size = Some((min, max));

        /// Choice of the member for a message without a key; by default the least loaded.
        routing(self, routing: Routing) => self.settings.routing = routing;

        /// Policy for failed members: number and pauses of restarts; also the number of finally
        /// failed members that are replaced in that time before the pool gives up.
        restart(self, policy: Restart) => self.settings.restart = policy;

        /// After how long without a message a member above the least number is closed; by default
        /// [`POOL_IDLE_DEFAULT`]. [`Duration::MAX`] for never.
        idle_limit(self, limit: Duration) => self.settings.idle_limit = limit;

        /// A name for logs and listings; by default that of the actors' type. The members are
        /// called `name#place`.
        name(self, name: &str) => name.clone_into(&mut self.settings.name);

        /// The group that the members run in; by default the system's.
        on(self, group: &Group) => self.settings.options.group = Some(group.clone());

        /// Bounds of each member's mailbox; by default the group's.
        mailbox(self, mailbox: Mailbox) => self.settings.options.mailbox = Some(mailbox);

        /// Limits of one turn of a member; by default the group's.
        budget(self, budget: Budget) => self.settings.options.budget = Some(budget);

        /// Puts an interceptor around every message that a member handles, inside those of the
        /// system and earlier ones. See [`intercept`](crate::intercept).
        intercept(self, interceptor: impl Interceptor) => self.settings.incoming.push(interceptor);
    }

    /// Makes the pool and its first members.
    ///
    /// # Errors
    ///
    /// [`PoolError`]: sizes that cannot be, or the group takes no more tasks.
    pub fn build(self) -> Result<Pool<A>, PoolError> {
        let Self { mut settings, size } = self;
        let name = settings.name.clone();
        let group = settings.options.group.as_ref().unwrap_or(settings.system.group());
        let workers = group.workers().clamp(1, POOL_MEMBERS_MAX);
        let (min, max) = size.unwrap_or((0, workers));
        if max == 0 {
            return Err(PoolError::NoMembers { name });
        } else if max > POOL_MEMBERS_MAX {
            return Err(PoolError::TooManyMembers { name, max });
        } else if min > max {
            return Err(PoolError::LeastAboveMost { name, min, max });
        }
        // Here, and not when the first member is made: an impossible mailbox is a mistake of now.
        let mailbox = settings.options.mailbox;
        let trial = mailbox.map(|mailbox| group.task(()).mailbox(mailbox).spawn());
        if let Some(Err(error)) = trial {
            return Err(PoolError::NotSpawned { name, kind: error.kind });
        }
        let supervisor = PoolSupervisor::new(RestartCounter::new(settings.restart.clone()));
        let supervisor = settings.system.actor(supervisor).on(group).name(&name).class("pool");
        let supervisor = match supervisor.unintercepted().spawn() {
            Ok(supervisor) => supervisor,
            Err(error) => return Err(PoolError::NotSpawned { name, kind: error.kind }),
        };
        (settings.min, settings.max) = (min, max);
        let shared = Arc::new(Shared::new(settings, supervisor));
        // The supervisor is new, so that it has room; if its group has closed meanwhile, so is the
        // pool.
        let supervise = Bare::<_, kind::Plain>::new(Supervise(Arc::downgrade(&shared)));
        drop(submit_own(&shared.supervisor.task, supervise).map_err(|error| error.job.open()));
        for _ in 0..min {
            if let Grown::Refused(_, kind) = shared.grow(min, false) {
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

//! How a world is described.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_actors::{Entities, System};
use turnwheel_runtime::completion::block_on;
use turnwheel_runtime::{Group, Pinning};

use super::extending::LastCalls;
use super::Letters;
use super::{Ids, Opening, Queue, Shared, Watchers, World};
use crate::action::{Action, Batches, Registry};
use crate::error::BuildError;
use crate::journal::Journal;
use crate::limits::PLANS_IN_MEMORY;
use crate::run::{Queues, Wakes};
use crate::schedule::Timetable;
use crate::store::Store;

/// Threads of the group that waits for the disk: the writer, one that reads meanwhile, and one that
/// keeps the store in order.
const IO_WORKERS: usize = 3;

/// Describes a world; made by [`World::builder`].
#[derive(Debug, Default)]
#[must_use]
pub struct WorldBuilder {
    pub(super) registry: Registry,
    pub(super) problem: Option<BuildError>,
    group: Option<Group>,
    io: Option<Group>,
    seed: Option<u64>,
    idle: Option<Duration>,
    in_memory: Option<usize>,
    always_pauses: bool,
    queues: Vec<Queue>,
    pub(super) opening: Opening,
    pub(super) last_calls: LastCalls,
}

impl WorldBuilder {
    /// Adds an action.
    pub fn action<A: Action>(mut self, action: A) -> Self {
        if let Err(problem) = self.registry.add(action) {
            self.problem.get_or_insert(problem);
        }
        self
    }

    /// Adds a queue, or describes the default one.
    pub fn queue(mut self, queue: Queue) -> Self {
        if let Err(problem) = queue.check() {
            self.problem.get_or_insert(problem);
        } else if self.queues.iter().any(|known| known.name == queue.name) {
            self.problem.get_or_insert(BuildError::DuplicateQueue(queue.name));
        } else {
            self.queues.push(queue);
        }
        self
    }

    /// The group whose workers run plans, instead of one of the world's own.
    pub fn group(mut self, group: &Group) -> Self {
        self.group = Some(group.clone());
        self
    }

    /// The group whose workers wait for the disk, instead of one of the world's own.
    pub fn io_group(mut self, group: &Group) -> Self {
        self.io = Some(group.clone());
        self
    }

    /// Makes the same ids in each run: for simulations.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// How long a plan that waits stays in memory after the last thing that happened to it, instead
    /// of [`PLAN_IDLE`](crate::limits::PLAN_IDLE).
    pub fn plan_idle(mut self, idle: Duration) -> Self {
        self.idle = Some(idle);
        self
    }

    /// How many plans are in memory at once, instead of
    /// [`PLANS_IN_MEMORY`](crate::limits::PLANS_IN_MEMORY). Beyond it those that wait leave memory at
    /// once, and what is new waits while all others are under way.
    pub fn plans_in_memory(mut self, plans: usize) -> Self {
        self.in_memory = Some(plans);
        self
    }

    /// Pauses every plan whose steps have failed, whatever its actions suggest.
    pub fn always_pause(mut self) -> Self {
        self.always_pauses = true;
        self
    }

    /// Opens the store, goes on with the plans in it that were under way, and takes new ones.
    ///
    /// # Errors
    ///
    /// Two actions or queues have the same name, a queue makes no sense, the store cannot be used, or
    /// no threads can be made.
    ///
    /// Called on a worker of a group it is refused; use [`WorldBuilder::open`] there.
    pub fn build(self, store: impl Store) -> Result<World, BuildError> {
        block_on(self.open(store)).map_err(|refused| BuildError::Threads(refused.to_string()))?
    }

    /// As [`WorldBuilder::build`], for code that may not wait in its thread.
    ///
    /// # Errors
    ///
    /// As [`WorldBuilder::build`].
    pub async fn open(self, store: impl Store) -> Result<World, BuildError> {
        let world = self.prepare(&store)?;
        world.recover().await?;
        Ok(world)
    }

    fn prepare(mut self, store: &dyn Store) -> Result<World, BuildError> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        self.registry.check()?;
        let threads = |error: &dyn std::fmt::Display| BuildError::Threads(error.to_string());
        let mut own = Vec::new();
        let mut group = |given: Option<Group>, make: fn() -> turnwheel_runtime::GroupBuilder| {
            given.map_or_else(
                || {
                    let made = make().build().map_err(|error| threads(&error))?;
                    own.push(made.clone());
                    Ok::<Group, BuildError>(made)
                },
                Ok,
            )
        };
        let cpu = group(self.group, || Group::builder("plans"))?;
        let io = group(self.io, || {
            Group::builder("journal").workers(IO_WORKERS).pinning(Pinning::None)
        })?;
        let journal = Journal::open(store, &io)?;
        let in_memory = self.in_memory.unwrap_or(PLANS_IN_MEMORY);
        let mut plans = Entities::builder(&System::new(&cpu)).active_max(in_memory);
        if let Some(idle) = self.idle {
            plans = plans.idle_of::<crate::run::PlanActor>(idle);
        }
        let plans = plans.build();
        let queues = Queues::new(self.queues, &cpu);
        queues.start().map_err(BuildError::Threads)?;
        let shared = Arc::new(Shared {
            registry: Arc::new(self.registry),
            group: cpu.clone(),
            journal,
            plans,
            wakes: OnceLock::new(),
            queues,
            timetable: OnceLock::new(),
            watchers: Watchers::default(),
            letters: Letters::default(),
            ids: Arc::new(Ids::new(self.seed)),
            store: store.name(),
            is_rescuing: !self.always_pauses,
            last_calls: Mutex::new(self.last_calls),
            batches: Batches::default(),
            opening: self.opening,
            began: cpu.wall().into(),
            fresh: Mutex::new(HashSet::new()),
            own,
        });
        let wakes = Wakes::start(Arc::downgrade(&shared), &cpu).map_err(BuildError::Threads)?;
        shared.wakes.set(wakes).expect("a world is made once");
        let timetable = Timetable::start(Arc::downgrade(&shared), &cpu);
        let timetable = timetable.map_err(BuildError::Threads)?;
        shared.timetable.set(timetable).expect("a world is made once");
        Ok(World { shared })
    }
}

//! The simulation itself: its groups, its clock, its generator.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use super::builder::SimBuilder;
use super::hub::Hub;
use super::random::Random;
use crate::completion;
use crate::group::{BuildError, Group, GroupBuilder, GroupShared};
use crate::sync::{Arc, AtomicU64};
use crate::time::clock::ClockSource;
use crate::time::ManualClock;

/// A world of groups without threads, in virtual time.
///
/// It belongs to the thread that made it, which is the one worker of all its groups: nothing runs
/// but in a call of [`run_until_idle`](Sim::run_until_idle), [`advance`](Sim::advance) and their
/// kin. Handles of its groups and tasks may be used from any thread.
///
/// **Do not block on this thread.** While a simulation lives, waiting on its thread for a completion
/// that is not done is refused with [`Failure::WouldBlock`](crate::Failure::WouldBlock), since nobody
/// would ever complete it; use [`Sim::wait`] or [`Sim::block_on`].
///
/// Dropping it kills the tasks that are left, see [`Sim::leaks`].
pub struct Sim {
    pub(super) world: Rc<World>,
}

/// What a [`Sim`] consists of.
pub(super) struct World {
    pub(super) config: SimBuilder,
    pub(super) clock: ManualClock,
    /// The same clock as groups read it: never backwards.
    pub(super) source: ClockSource,
    /// Nothing if all goes in order.
    pub(super) random: Option<Random>,
    pub(super) groups: RefCell<Vec<Rc<Simulated>>>,
    order: Arc<AtomicU64>,
    /// Whether a step is under way on this thread.
    pub(super) is_driving: Cell<bool>,
    pub(super) block_ns: Cell<u64>,
    _thread: OnThread,
}

/// One group of a simulation.
#[derive(Debug)]
pub(super) struct Simulated {
    pub(super) shared: Arc<GroupShared>,
    pub(super) hub: Arc<Hub>,
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim")
            .field("seed", &self.seed())
            .field("now_ns", &self.world.source.now_ns())
            .field("groups", &self.world.groups.borrow().len())
            .finish_non_exhaustive()
    }
}

impl Sim {
    /// A simulation in which this seed decides what a real machine decides by chance.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::builder().seed(seed).build()
    }

    /// A simulation in which nothing is left to chance: with one worker a group, and what became
    /// ready first runs first. For plain unit tests.
    #[must_use]
    pub fn fifo() -> Self {
        Self::builder().fifo().workers(1).build()
    }

    /// Describes a simulation.
    pub fn builder() -> SimBuilder {
        SimBuilder::new()
    }

    pub(super) fn start(config: SimBuilder, clock: ManualClock, random: Option<Random>) -> Self {
        let world = Rc::new(World {
            config,
            source: ClockSource::custom(std::sync::Arc::new(clock.clone())),
            clock,
            random,
            groups: RefCell::default(),
            order: Arc::new(AtomicU64::new(0)),
            is_driving: Cell::new(false),
            block_ns: Cell::new(0),
            _thread: OnThread::enter(),
        });
        Self { world }
    }

    /// The seed; none for [`Sim::fifo`].
    pub fn seed(&self) -> Option<u64> {
        self.world.config.seed
    }

    /// The group of this name; made at first use with the simulation's number of workers.
    ///
    /// # Panics
    ///
    /// If the name is no name for a group, see [`BuildError::BadName`].
    pub fn group(&self, name: &str) -> Group {
        if let Some(group) = self.world.find(name) {
            return Group::from_shared(Arc::clone(&group.shared));
        }
        match self.build(Group::builder(name)) {
            Ok(group) => group,
            Err(error) => panic!("{error}"),
        }
    }

    /// Builds a group as described, but without threads and on the simulation's clock.
    ///
    /// Options that concern threads (pinning, stack, idle policy) have no effect. Without a count
    /// of its own the group has as many virtual workers as the simulation says, so that a run is
    /// the same on every machine.
    ///
    /// # Errors
    ///
    /// As [`GroupBuilder::build`], and [`BuildError::DuplicateName`] for a name in use.
    pub fn build(&self, builder: GroupBuilder) -> Result<Group, BuildError> {
        if self.world.find(builder.name()).is_some() {
            return Err(BuildError::DuplicateName { group: builder.name().to_owned() });
        }
        let world = &self.world;
        let builder = builder.workers_default(world.config.workers);
        let clock = std::sync::Arc::new(world.clock.clone());
        let (config, clock) = builder.clock(clock).checked()?;
        let is_random = world.random.is_some();
        let hub = Hub::new(config.workers, Arc::clone(&world.order), is_random, config.is_stealing);
        let hub = Arc::new(hub);
        hub.set_now_ns(world.source.now_ns());
        hub.set_block_ns(world.block_ns.get());
        let (shared, _queues) = GroupShared::new(config, clock, Some(Arc::clone(&hub) as Arc<_>));
        world.groups.borrow_mut().push(Rc::new(Simulated { shared: Arc::clone(&shared), hub }));
        Ok(Group::from_shared(shared))
    }
}

impl World {
    fn find(&self, name: &str) -> Option<Rc<Simulated>> {
        self.groups.borrow().iter().find(|group| group.shared.config.name == name).cloned()
    }

    /// The groups now; a copy, since user code may add one.
    pub(super) fn all(&self) -> Vec<Rc<Simulated>> {
        self.groups.borrow().clone()
    }
}

thread_local! {
    /// Simulations that live on this thread.
    static LIVING: Cell<usize> = const { Cell::new(0) };
}

/// Refuses blocking waits on this thread while a simulation lives on it.
#[derive(Debug)]
struct OnThread;

impl OnThread {
    fn enter() -> Self {
        LIVING.set(LIVING.get() + 1);
        completion::mark_worker_thread(true);
        Self
    }
}

impl Drop for OnThread {
    fn drop(&mut self) {
        let left = LIVING.get() - 1;
        LIVING.set(left);
        if left == 0 {
            completion::mark_worker_thread(false);
        }
    }
}

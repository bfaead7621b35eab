//! The simulation itself: its groups, its clock, its generator.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use super::builder::SimBuilder;
use super::hub::{Common, Hub};
use super::random::Random;
use super::record::{Events, FailedJob};
use crate::completion;
use crate::failure::contain;
use crate::group::{BuildError, Group, GroupBuilder, GroupShared, WorkerHook};
use crate::sync::Arc;
use crate::time::clock::ClockSource;
use crate::time::ManualClock;

/// Simulation of groups without threads, in virtual time.
///
/// It belongs to the thread that made it, which is the only worker of all its groups: tasks run
/// only in calls of [`run_until_idle`](Sim::run_until_idle), [`advance`](Sim::advance) and similar
/// methods. Handles of its groups and tasks may be used from any thread.
///
/// **Do not block on this thread.** While a simulation lives, waiting on its thread for a
/// completion that is not done is refused with [`Failure::WouldBlock`](crate::Failure::WouldBlock),
/// since no thread would complete it; use [`Sim::wait`] or [`Sim::block_on`].
///
/// Dropping it kills the remaining tasks, see [`Sim::leaks`].
pub struct Sim {
    pub(super) state: Rc<SimState>,
}

/// State of a [`Sim`].
pub(super) struct SimState {
    pub(super) config: SimBuilder,
    pub(super) clock: ManualClock,
    /// `None` if choices go in order.
    pub(super) random: Option<Random>,
    groups: RefCell<Rc<[SimGroup]>>,
    pub(super) common: Arc<Common>,
    /// Whether a step is under way on this thread.
    pub(super) is_driving: Cell<bool>,
    _thread: OnThread,
}

/// One group of a simulation.
#[derive(Clone)]
pub(super) struct SimGroup {
    pub(super) shared: Arc<GroupShared>,
    pub(super) hub: Arc<Hub>,
    /// One for each virtual worker: whether it has found nothing and rests.
    pub(super) is_parked: Rc<[Cell<bool>]>,
}

debug_fields!(impl Sim, self => seed: self.seed(), now: self.now(), groups: self.state.all().len());

impl Sim {
    /// A simulation in which this seed makes the choices that are chance on a real machine.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::builder().seed(seed).build()
    }

    /// A simulation without random choices: one worker a group, and tasks run in the order in which
    /// they became ready. For plain unit tests.
    #[must_use]
    pub fn fifo() -> Self {
        Self::builder().fifo().workers(1).build()
    }

    /// Describes a simulation.
    pub fn builder() -> SimBuilder {
        SimBuilder::new()
    }

    pub(super) fn start(config: SimBuilder, random: Option<Random>) -> Self {
        let clock = config.wall.map_or_else(ManualClock::new, ManualClock::pinned_at);
        let source = ClockSource::custom(std::sync::Arc::new(clock.clone()));
        let state = Rc::new(SimState {
            config,
            clock,
            common: Common::new(source, random.is_some()),
            random,
            groups: RefCell::new(Rc::from([])),
            is_driving: Cell::new(false),
            _thread: OnThread::enter(),
        });
        LIVING.with_borrow_mut(|living| living.push(Rc::downgrade(&state)));
        Self { state }
    }

    /// The seed; none for [`Sim::fifo`].
    #[must_use]
    pub fn seed(&self) -> Option<u64> {
        self.state.config.seed
    }

    /// The group of this name; made at first use with the simulation's number of workers.
    ///
    /// # Panics
    ///
    /// If the name is no name for a group, see [`BuildError::BadName`].
    #[must_use]
    pub fn group(&self, name: &str) -> Group {
        let groups = self.state.all();
        if let Some(group) = groups.iter().find(|group| *group.hub.group == *name) {
            return Group::from_shared(Arc::clone(&group.shared));
        }
        self.build(Group::builder(name)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Builds a group as described, but without threads and on the simulation's clock.
    ///
    /// Options that concern threads (pinning, stack, idle policy, long turns) have no effect; the
    /// hooks for the start and stop of workers are called on this thread. Without a count of its
    /// own the group has as many virtual workers as the simulation says, so that a run is the same
    /// on every machine. Its metrics are in virtual time, and measure every turn.
    ///
    /// # Errors
    ///
    /// As [`GroupBuilder::build`], and [`BuildError::DuplicateName`] for a name in use.
    pub fn build(&self, builder: GroupBuilder) -> Result<Group, BuildError> {
        let state = &self.state;
        if state.all().iter().any(|group| *group.hub.group == *builder.name()) {
            return Err(BuildError::DuplicateName { group: builder.name().to_owned() });
        }
        let builder = builder.workers_default(state.config.workers);
        let clock = std::sync::Arc::new(state.clock.clone());
        let (config, clock) = builder.clock(clock).checked()?;
        let workers = config.workers;
        let hub = Arc::new(Hub::new(&config.name, workers, config.is_stealing, &state.common));
        let (shared, _queues) = GroupShared::new(config, clock, Some(Arc::clone(&hub) as Arc<_>));
        let group = Group::from_shared(Arc::clone(&shared));
        let is_parked = (0..workers).map(|_| Cell::new(false)).collect();
        let all = state.all();
        let groups = all.iter().cloned().chain([SimGroup { shared, hub, is_parked }]).collect();
        *state.groups.borrow_mut() = groups;
        let shared = group.shared();
        (0..workers).for_each(|worker| call_hook(shared.config.on_start.as_ref(), worker));
        Ok(group)
    }

    /// Records events from now on; see [`Sim::events`].
    pub fn record(&self) {
        self.state.common.recorder.switch(true);
    }

    /// Stops recording; recorded events stay.
    pub fn stop_recording(&self) {
        self.state.common.recorder.switch(false);
    }

    /// Returns the recorded events, at most the first million. Equal seeds and equal programs give
    /// equal events, to the byte.
    #[must_use]
    pub fn events(&self) -> Events {
        self.state.common.recorder.events()
    }

    /// The jobs and hooks that have failed, recorded or not; at most the first ten thousand.
    ///
    /// A panic in a job ends up here and not in the test, since it belongs to the task.
    #[must_use]
    pub fn failures(&self) -> Vec<FailedJob> {
        self.state.common.recorder.failures()
    }

    /// Checks that no job and no hook has failed.
    ///
    /// # Panics
    ///
    /// If one has; the message names all.
    #[track_caller]
    pub fn assert_no_failures(&self) {
        let failures: Vec<_> = self.failures().iter().map(ToString::to_string).collect();
        assert!(failures.is_empty(), "jobs have failed: {}", failures.join("; "));
    }
}

impl SimState {
    /// The groups now; a copy, since user code may add one.
    pub(super) fn all(&self) -> Rc<[SimGroup]> {
        Rc::clone(&self.groups.borrow())
    }

    /// The living simulation of this thread that has this group, and the group's number.
    pub(super) fn of(hub: &Hub) -> Option<(Rc<Self>, usize)> {
        let living = LIVING.try_with(|living| living.borrow().clone()).ok()?;
        living.iter().filter_map(Weak::upgrade).find_map(|state| {
            let is_it = |group: &SimGroup| std::ptr::eq(&*group.hub, hub);
            let index = state.all().iter().position(is_it)?;
            Some((state, index))
        })
    }
}

/// Calls a hook that a real group calls on a worker's thread.
pub(super) fn call_hook(hook: Option<&WorkerHook>, worker: usize) {
    let Some(hook) = hook else { return };
    contain("a hook of a virtual worker", || hook(worker));
}

thread_local! {
    /// Simulations that live on this thread.
    static LIVING: RefCell<Vec<Weak<SimState>>> = const { RefCell::new(Vec::new()) };
}

/// Refuses blocking waits on this thread while a simulation lives on it.
#[derive(Debug)]
struct OnThread;

impl OnThread {
    fn enter() -> Self {
        completion::refuse_blocking();
        Self
    }
}

impl Drop for OnThread {
    fn drop(&mut self) {
        completion::allow_blocking();
        // A simulation that is dropped at the end of its thread may find the list gone.
        let _ = LIVING.try_with(|living| {
            living.borrow_mut().retain(|state| state.strong_count() > 0);
        });
    }
}

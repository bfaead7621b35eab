//! The hub of a simulated group: its queues, in place of worker threads.
//!
//! Any thread may make a task ready; only the simulation's thread takes one out of the queues. So
//! the runner of every task of the group is that thread.

use std::cell::Cell;
use std::ptr;
use std::time::Duration;

use super::fault::Faults;
use super::queues::{Picked, Queues, ReadyTask};
use super::random::Random;
use super::record::{EventKind, Recorder};
use crate::completion::Completer;
use crate::failure::{contain, Failure};
use crate::group::{ShutdownError, ShutdownReport, Simulated};
use crate::sync::{Arc, AtomicU64, Mutex, Ordering};
use crate::task::{Header, Phase, TaskPtr};
use crate::time::clock::ClockSource;

/// State shared by all groups of a simulation.
#[derive(Debug)]
pub(super) struct Common {
    /// The clock as groups read it: never backwards.
    pub(super) clock: Arc<ClockSource>,
    pub(super) recorder: Recorder,
    pub(super) faults: Faults,
    /// Number of the next task that becomes ready.
    order: AtomicU64,
    /// Counts jobs.
    jobs: AtomicU64,
    /// Duration of blocking closures, in nanoseconds.
    pub(super) block_ns: AtomicU64,
    /// Whether choices are random; otherwise tasks run in order.
    is_random: bool,
}

impl Common {
    pub(super) fn new(clock: ClockSource, is_random: bool) -> Arc<Self> {
        let clock = Arc::new(clock);
        Arc::new(Self {
            recorder: Recorder::new(Arc::clone(&clock)),
            clock,
            faults: Faults::default(),
            order: AtomicU64::new(0),
            jobs: AtomicU64::new(0),
            block_ns: AtomicU64::new(0),
            is_random,
        })
    }
}

/// A closure that blocks for a virtual time.
struct Blocking {
    end_ns: u64,
    run: Box<dyn FnOnce() + Send>,
}

/// A waiter for the end of the group.
#[derive(Debug)]
pub(super) struct Ending {
    /// Tasks that were asked to close.
    pub(super) tasks: usize,
    /// Time at which the remaining tasks are killed.
    pub(super) end_ns: u64,
    pub(super) report: Completer<ShutdownReport>,
}

#[derive(Default)]
struct State {
    queues: Queues,
    blocking: Vec<Blocking>,
    endings: Vec<Ending>,
    is_over: bool,
}

/// See the module's documentation.
pub(super) struct Hub {
    pub(super) group: Arc<str>,
    common: Arc<Common>,
    is_stealing: bool,
    state: Mutex<State>,
}

/// The virtual worker whose turn runs on this thread.
#[derive(Clone, Copy, Debug)]
struct VirtualWorker {
    hub: *const Hub,
    worker: usize,
}

thread_local! {
    static CURRENT: Cell<Option<VirtualWorker>> = const { Cell::new(None) };
}

/// Makes a virtual worker the current one of this thread until it is dropped.
#[derive(Debug)]
pub(super) struct Entered(Option<VirtualWorker>);

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

impl Hub {
    pub(super) fn new(
        group: &str,
        workers: usize,
        is_stealing: bool,
        common: &Arc<Common>,
    ) -> Self {
        let state = State { queues: Queues::new(workers), ..State::default() };
        let common = Arc::clone(common);
        Self { group: group.into(), common, is_stealing, state: Mutex::new(state) }
    }

    /// Begins a turn of a virtual worker on this thread.
    pub(super) fn enter(&self, worker: usize) -> Entered {
        Entered(CURRENT.replace(Some(VirtualWorker { hub: ptr::from_ref(self), worker })))
    }

    /// The virtual worker of this thread, if it is one of this group.
    fn worker(&self) -> Option<usize> {
        let place = CURRENT.try_with(Cell::get).ok().flatten()?;
        ptr::eq(place.hub, self).then_some(place.worker)
    }

    /// The virtual worker of this thread, of any group.
    fn any_worker() -> Option<usize> {
        CURRENT.try_with(Cell::get).ok().flatten().map(|place| place.worker)
    }

    /// Ready tasks.
    pub(super) fn ready_count(&self) -> usize {
        self.state.lock().queues.len()
    }

    /// Calls `look` with the name of each ready task.
    pub(super) fn each_ready(&self, mut look: impl FnMut(&str)) {
        self.state.lock().queues.each(|entry| {
            // SAFETY: a task in a queue is alive; no thread takes it out under the lock.
            look(unsafe { entry.task.header() }.name());
        });
    }

    /// Whether a blocking closure has ended by then.
    pub(super) fn is_blocking_over(&self, now_ns: u64) -> bool {
        self.next_end_ns().is_some_and(|end_ns| end_ns <= now_ns)
    }

    /// When the next blocking closure ends.
    pub(super) fn next_end_ns(&self) -> Option<u64> {
        self.state.lock().blocking.iter().map(|blocking| blocking.end_ns).min()
    }

    /// Blocking closures under way.
    pub(super) fn blocking_count(&self) -> usize {
        self.state.lock().blocking.len()
    }

    /// Takes the blocking closure that ends first, if it is due.
    pub(super) fn take_blocking(&self, now_ns: u64) -> Option<Box<dyn FnOnce() + Send>> {
        let mut state = self.state.lock();
        let ends = state.blocking.iter().enumerate();
        let (index, end_ns) = ends.map(|(index, b)| (index, b.end_ns)).min_by_key(|b| b.1)?;
        (end_ns <= now_ns).then(|| state.blocking.remove(index).run)
    }

    /// When the next waiter for the end gives up.
    pub(super) fn next_ending_ns(&self) -> Option<u64> {
        self.state.lock().endings.iter().map(|ending| ending.end_ns).min()
    }

    /// Takes a waiter for the end: any if the group has ended, else one whose deadline has passed.
    pub(super) fn take_ending(&self, has_come: bool, now_ns: u64) -> Option<Ending> {
        let mut state = self.state.lock();
        let index = state.endings.iter().position(|e| has_come || e.end_ns <= now_ns)?;
        Some(state.endings.remove(index))
    }

    /// Virtual workers that could take a task now.
    pub(super) fn able(&self, tell: impl FnMut(usize)) {
        let mut state = self.state.lock();
        state.queues.watch();
        state.queues.able(self.is_stealing, tell);
    }

    /// When the oldest ready task became ready.
    pub(super) fn oldest(&self) -> Option<u64> {
        let mut state = self.state.lock();
        state.queues.watch();
        state.queues.oldest()
    }

    /// Takes a task out of its queue: by chance as this worker might, or the oldest.
    pub(super) fn pick(&self, worker: usize, random: Option<&Random>) -> Option<Picked> {
        let queues = &mut self.state.lock().queues;
        match random {
            Some(random) => queues.pick_random(worker, self.is_stealing, random),
            None => queues.pick_oldest(),
        }
    }

    /// Puts a task with a used-up turn behind all others.
    pub(super) fn requeue(&self, picked: Picked) {
        let mut state = self.state.lock();
        // SAFETY: the turn is over and has left the task to us.
        let header = unsafe { picked.task.header() };
        let entry = self.entry(header);
        state.queues.push_shared(entry);
    }

    /// No task is run any more.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.is_over = true;
        let dropped = (std::mem::take(&mut state.blocking), std::mem::take(&mut state.endings));
        drop(state);
        contain("dropping a blocking closure", || drop(dropped));
    }

    /// The entry for a task that is ready now. Every turn is measured: virtual time costs nothing.
    fn entry(&self, header: &Header) -> ReadyTask {
        header.scheduled_ns.store(self.common.clock.now_ns().max(1), Ordering::Relaxed);
        // Relaxed: the lock of the queues orders the numbers of one group.
        let order = self.common.order.fetch_add(1, Ordering::Relaxed);
        ReadyTask { task: TaskPtr(header.into()), order, is_system: header.system }
    }

    fn record(&self, header: &Header, kind: EventKind) {
        self.common.recorder.of_task(&self.group, Self::any_worker(), header, kind);
    }
}

impl Simulated for Hub {
    fn ready(&self, task: TaskPtr) {
        // SAFETY: the task is scheduled, by the caller, and in no queue yet.
        let header = unsafe { task.header() };
        self.record(header, EventKind::Ready);
        let is_lost = self.common.faults.is_lost();
        if is_lost {
            self.record(header, EventKind::Fault { fault: "lost hint" });
        }
        let mut state = self.state.lock();
        let entry = self.entry(header);
        match self.worker() {
            // No task is run any more: the entry is forgotten, and the memory of its task with it.
            _ if state.is_over => {}
            _ if is_lost => state.queues.lose(entry),
            Some(worker) if self.common.is_random && !entry.is_system => {
                state.queues.push_own(worker, entry);
            }
            _ => state.queues.push_shared(entry),
        }
    }

    fn block(&self, run: Box<dyn FnOnce() + Send>) {
        let now_ns = self.common.clock.now_ns();
        let end_ns = now_ns.saturating_add(self.common.block_ns.load(Ordering::Relaxed));
        let mut state = self.state.lock();
        if state.is_over {
            drop(state);
            return drop(run);
        }
        state.blocking.push(Blocking { end_ns, run });
    }

    fn submitted(&self, header: &Header) {
        self.record(header, EventKind::Submit);
    }

    fn begins(&self, header: &Header) -> bool {
        let number = self.common.jobs.fetch_add(1, Ordering::Relaxed) + 1;
        self.record(header, EventKind::Job { number });
        let is_to_panic = self.common.faults.is_to_panic(header);
        if is_to_panic {
            self.record(header, EventKind::Fault { fault: "panic" });
        }
        is_to_panic
    }

    fn phase(&self, header: &Header, phase: Phase) {
        self.record(header, EventKind::Phase(phase));
    }

    fn failed(&self, header: &Header, failure: &Failure) {
        self.record(header, EventKind::Failed { failure: failure.to_string() });
        self.common.recorder.failed(&self.group, header, failure);
    }

    fn is_in_turn(&self) -> bool {
        self.worker().is_some()
    }

    fn shut_down(&self, deadline: Duration) -> Result<ShutdownReport, ShutdownError> {
        super::end::shut_down(self, deadline).ok_or(ShutdownError::Simulated)
    }

    fn shut_down_later(&self, tasks: usize, within: Duration, report: Completer<ShutdownReport>) {
        let end_ns = self.common.clock.deadline_after(within);
        let mut state = self.state.lock();
        if !state.is_over {
            return state.endings.push(Ending { tasks, end_ns, report });
        }
        drop(state);
        // The simulation is over and has left nothing.
        let _ = report.complete(ShutdownReport::default());
    }
}

//! State shared by all workers and tasks of a group.

use std::collections::HashMap;
use std::ptr::{self, NonNull};
use std::time::Duration;

use super::blocking::BlockingPool;
use super::class::Class;
use super::memory::Memory;
use super::registry::Registry;
use super::timers::{TimerEntry, TimerKey, Timers, TimersFull};
use super::watchdog::Watchdog;
use super::{Budget, ShutdownError, ShutdownReport};
use crate::completion::Completer;
use crate::failure::{contain, log, Failure};
use crate::subscription::Source;
use crate::sync::{Arc, AtomicBool, AtomicUsize, Injector, JoinHandle, Mutex, Ordering, Worker};
use crate::task::{AnyTask, Header, Mailbox, Phase, TaskPtr};
use crate::time::clock::{ClockListener, ClockSource};
use crate::worker::{self, sleep::Sleep, Local, Pinning, Remote};

/// Hook for escalated failures.
pub(crate) type EscalateHook = Arc<dyn Fn(&AnyTask, &Failure) + Send + Sync>;
/// Hook for turns that last too long.
pub(crate) type LongTurnHook = Arc<dyn Fn(&AnyTask, Duration) + Send + Sync>;
/// Hook for the start or stop of a worker.
pub(crate) type WorkerHook = Arc<dyn Fn(usize) + Send + Sync>;

/// A group's description.
pub(crate) struct Config {
    pub(crate) name: String,
    pub(crate) workers: usize,
    pub(crate) pinning: Pinning,
    pub(crate) stack_bytes: usize,
    pub(crate) budget: Budget,
    /// Time for which a worker without work spins before it parks.
    pub(crate) spin_ns: u64,
    pub(crate) mailbox: Mailbox,
    pub(crate) memory_bytes: u64,
    pub(crate) is_stealing: bool,
    /// Workers are futures of an executor's.
    pub(crate) is_hosted: bool,
    pub(crate) long_turn: Duration,
    pub(crate) on_start: Option<WorkerHook>,
    pub(crate) on_stop: Option<WorkerHook>,
    pub(crate) on_escalate: Option<EscalateHook>,
    pub(crate) on_long_turn: Option<LongTurnHook>,
    #[cfg(feature = "tokio")]
    pub(crate) tokio: Option<tokio::runtime::Handle>,
}

/// Receives tasks that become ready in a group without worker threads: the simulation.
pub(crate) trait Simulated: Send + Sync {
    /// A task is ready.
    fn ready(&self, task: TaskPtr);
    /// A blocking closure is to run.
    fn block(&self, run: Box<dyn FnOnce() + Send>);
    /// A job was queued.
    fn submitted(&self, header: &Header);
    /// A job is about to run. Answers whether it is to panic instead.
    fn begins(&self, header: &Header) -> bool;
    /// A task is in another phase.
    fn phase(&self, header: &Header, phase: Phase);
    /// A job or hook has failed.
    fn failed(&self, header: &Header, failure: &Failure);
    /// Whether a turn of the group is under way on this thread.
    fn is_in_turn(&self) -> bool;
    /// Runs the group to its end.
    fn shut_down(&self, deadline: Duration) -> Result<ShutdownReport, ShutdownError>;
    /// Reports the end of the group; its `tasks` tasks have been asked to close.
    fn shut_down_later(&self, tasks: usize, within: Duration, report: Completer<ShutdownReport>);
}

/// A running group.
pub(crate) struct GroupShared {
    pub(crate) config: Config,
    pub(crate) clock: ClockSource,
    /// Tasks made ready from outside, and tasks with a used-up budget.
    pub(crate) injector: Injector<TaskPtr>,
    /// Tasks of the system class: never behind others.
    pub(crate) system: Injector<TaskPtr>,
    pub(crate) workers: Box<[Arc<Remote>]>,
    pub(crate) sleep: Sleep,
    pub(crate) timers: Timers,
    pub(crate) registry: Registry,
    pub(crate) memory: Memory,
    pub(crate) blocking: BlockingPool,
    pub(crate) watchdog: Watchdog,
    /// The classes seen so far; they live as long as the group.
    classes: Mutex<HashMap<Box<str>, Box<Class>>>,
    /// Whether the workers are to end.
    is_stopping: AtomicBool,
    /// Threads to join at the end.
    pub(crate) joins: Mutex<Vec<JoinHandle<()>>>,
    /// Held while a shutdown is under way.
    pub(crate) ending: Mutex<()>,
    pub(crate) has_ended: AtomicBool,
    /// Handles of the group. Counted apart from memory references, which tasks and threads hold
    /// too.
    pub(crate) handles: AtomicUsize,
    /// Whether it was said that the last handle is gone.
    is_forgotten: AtomicBool,
    pub(crate) simulation: Option<Arc<dyn Simulated>>,
}

debug_fields!(impl GroupShared, self => name: self.config.name);

impl GroupShared {
    /// A group without threads yet, and the queues for its workers.
    pub(crate) fn new(
        config: Config,
        clock: ClockSource,
        simulation: Option<Arc<dyn Simulated>>,
    ) -> (Arc<Self>, Vec<Worker<TaskPtr>>) {
        let queues: Vec<_> = (0..config.workers).map(|_| Worker::new_fifo()).collect();
        let shared = Self {
            injector: Injector::new(),
            system: Injector::new(),
            workers: queues.iter().map(|queue| Arc::new(Remote::new(queue.stealer()))).collect(),
            sleep: Sleep::new(config.workers, config.is_hosted),
            timers: Timers::new(config.workers, clock.now_ns()),
            registry: Registry::new(),
            memory: Memory::new(config.memory_bytes),
            blocking: BlockingPool::new(&config.name),
            watchdog: Watchdog::new(),
            classes: Mutex::new(HashMap::new()),
            is_stopping: AtomicBool::new(false),
            joins: Mutex::new(Vec::new()),
            ending: Mutex::new(()),
            has_ended: AtomicBool::new(false),
            handles: AtomicUsize::new(0),
            is_forgotten: AtomicBool::new(false),
            simulation,
            config,
            clock,
        };
        (Arc::new(shared), queues)
    }

    /// Nanoseconds on the group's clock; 31 to 47 ns.
    #[inline(always)]
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// The group time after `delay`.
    pub(crate) fn deadline_after(&self, delay: Duration) -> u64 {
        self.clock.deadline_after(delay)
    }

    /// Whether the workers are to end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Runs when the last handle is gone: warns if the group was not shut down.
    #[cold]
    pub(crate) fn forgotten(&self) {
        let is_over = self.simulation.is_some() || self.has_ended.load(Ordering::Acquire);
        if is_over || self.is_forgotten.swap(true, Ordering::Relaxed) {
            return;
        }
        crate::failure::log(|| {
            let (group, threads) = (&self.config.name, self.workers.len());
            tracing::warn!(
                group,
                threads,
                "the last handle of a group was dropped without a shutdown: its threads stay"
            );
        });
    }

    /// Makes the workers end after their current turn.
    pub(crate) fn stop_workers(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        for worker in &self.workers {
            worker.unpark();
        }
    }

    /// Queues a task that was made ready by a thread outside of the group.
    pub(crate) fn inject(&self, task: TaskPtr) {
        if let Some(simulation) = &self.simulation {
            return simulation.ready(task);
        }
        if self.is_sampled() {
            self.stamp(task);
        }
        let queue = self.queue_of(task);
        let is_offered = self.config.is_hosted && ptr::eq(queue, &self.injector);
        let rest = if is_offered { worker::assist::offer(self, task) } else { Some(task) };
        rest.into_iter().for_each(|task| queue.push(task));
        self.wake_one();
    }

    /// Whether tasks wait in a place that all workers share.
    pub(crate) fn has_shared_work(&self) -> bool {
        let is_offered = || self.config.is_hosted && self.workers.iter().any(|one| one.has_offer());
        !(self.injector.is_empty() && self.system.is_empty()) || is_offered()
    }

    /// Notes when a task was queued, for the latencies of its class.
    #[cold]
    pub(crate) fn stamp(&self, task: TaskPtr) {
        // SAFETY: the task is scheduled, by the caller.
        let header = unsafe { task.header() };
        header.scheduled_ns.store(self.now_ns().max(1), Ordering::Relaxed);
    }

    fn is_sampled(&self) -> bool {
        thread_local! {
            static PUSHES: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
        }
        let pushes = PUSHES.try_with(|pushes| pushes.replace(pushes.get().wrapping_add(1)));
        pushes.is_ok_and(|pushes| pushes % crate::limits::SAMPLE_TURNS == 0)
    }

    /// Queues a task whose budget is used up behind all others.
    pub(crate) fn requeue(&self, task: TaskPtr) {
        if let Some(simulation) = &self.simulation {
            return simulation.ready(task);
        }
        self.queue_of(task).push(task);
        self.notify(self.sleep.wake_for_local_push());
    }

    fn queue_of(&self, task: TaskPtr) -> &Injector<TaskPtr> {
        // SAFETY: the task is scheduled, by us.
        if unsafe { task.header() }.system {
            &self.system
        } else {
            &self.injector
        }
    }

    /// Wakes a worker for the shared queues unless one searches already.
    pub(crate) fn wake_one(&self) {
        self.notify(self.sleep.wake_for_push());
    }

    /// Unparks the worker that [`Sleep`] has chosen, if any.
    #[inline(always)]
    pub(crate) fn notify(&self, worker: Option<usize>) {
        if let Some(worker) = worker {
            self.workers[worker].unpark();
            if self.config.is_hosted {
                // It may wait behind a task that blocks the executor's thread.
                self.watchdog.awake();
            }
        }
    }

    /// Arms a subscription's timer.
    pub(crate) fn arm_timer(
        self: &Arc<Self>,
        deadline_ns: u64,
        source: &Arc<Source>,
    ) -> Result<(), TimersFull> {
        self.arm(deadline_ns, TimerEntry::Source(Arc::clone(source))).map(drop)
    }

    /// Arms any entry after a delay.
    pub(crate) fn arm_entry(
        &self,
        delay: Duration,
        entry: TimerEntry,
    ) -> Result<TimerKey, TimersFull> {
        self.arm(self.deadline_after(delay), entry)
    }

    /// Arms any entry for a time.
    pub(crate) fn arm(&self, deadline_ns: u64, entry: TimerEntry) -> Result<TimerKey, TimersFull> {
        let index = worker::with_current(|local| {
            local.filter(|local| local.is_of(self)).map(|local| local.index)
        });
        let (key, is_earliest) = self.timers.arm(index, deadline_ns, entry)?;
        if is_earliest && self.simulation.is_none() {
            self.tell_of_earlier_timer(index.is_some());
        }
        Ok(key)
    }

    /// Wakes a worker that may park beyond the new deadline.
    fn tell_of_earlier_timer(&self, by_worker: bool) {
        if by_worker && !self.config.is_hosted {
            // The arming worker services its timers itself. During a long turn the worker on watch
            // does.
            self.notify(self.sleep.wake_for_local_push());
        } else {
            self.wake_timekeeper();
        }
    }

    /// Makes the timekeeper look at the earliest deadline again.
    pub(crate) fn wake_timekeeper(&self) {
        if self.config.is_hosted {
            return self.watchdog.unpark();
        }
        self.notify(self.sleep.for_earlier_timer());
    }

    /// The class of this name; made at its first use.
    pub(crate) fn class(&self, name: &str) -> NonNull<Class> {
        let mut classes = self.classes.lock();
        if let Some(class) = classes.get(name) {
            return NonNull::from(&**class);
        }
        let class = Box::new(Class::new(name, classes.len()));
        let pointer = NonNull::from(&*class);
        classes.insert(name.into(), class);
        pointer
    }

    /// The class of a task; lives as long as the group.
    pub(crate) fn class_of<'a>(&'a self, header: &Header) -> &'a Class {
        // SAFETY: classes are never removed and their boxes never move; the header's class
        // belongs to this group.
        unsafe { NonNull::from(header.class()).as_ref() }
    }

    /// Calls `look` for each class.
    pub(crate) fn each_class(&self, mut look: impl FnMut(&Class)) {
        for class in self.classes.lock().values() {
            look(class);
        }
    }

    /// A task's policy hook has answered «escalate».
    pub(crate) fn escalate(&self, header: &Header, failure: &Failure) {
        log(|| tracing::error!(task = header.name(), %failure, "a failure was escalated"));
        if let Some(hook) = &self.config.on_escalate {
            // SAFETY: the task is registered until its last turn ends, and this is a turn of it.
            let task = unsafe { AnyTask::registered(NonNull::from(header)) };
            contain("the escalation hook of a group", || hook(&task, failure));
        }
    }
}

impl ClockListener for GroupShared {
    /// Makes the timekeeper read the clock again; workers that are awake do so by themselves.
    fn clock_moved(&self) {
        self.wake_timekeeper();
    }
}

/// The worker of this thread if it is one of the task's group.
///
/// # Safety
///
/// As for [`worker::current`].
#[inline(always)]
pub(crate) unsafe fn worker_of<'a>(header: &Header) -> Option<&'a Local> {
    // SAFETY: forwarded to the caller.
    unsafe { worker::current() }.filter(|local| local.is_of(&header.group))
}

/// Queues a task that has become ready.
#[inline(always)]
pub(crate) fn schedule(task: TaskPtr) {
    // SAFETY: the task is scheduled, by the caller.
    let header = unsafe { task.header() };
    // SAFETY: used within this function alone.
    schedule_on(unsafe { worker_of(header) }, header);
}

/// As `schedule` for a caller that knows the worker.
#[inline(always)]
pub(crate) fn schedule_on(local: Option<&Local>, header: &Header) {
    let task = TaskPtr(header.into());
    match local {
        Some(local) if !header.system => local.push(task),
        _ => header.group.inject(task),
    }
}

/// Counts mailbox bytes, with the worker if this thread is one of the group's.
#[inline(always)]
pub(crate) fn count_queued(header: &Header, bytes: i64) {
    // SAFETY: used within this function alone.
    count_on(unsafe { worker_of(header) }, header, bytes);
}

/// As `count_queued` for a caller that knows the worker.
#[inline(always)]
pub(crate) fn count_on(local: Option<&Local>, header: &Header, bytes: i64) {
    match local {
        Some(local) => local.count_bytes(bytes),
        None => count_outside(header, bytes),
    }
}

#[cold]
fn count_outside(header: &Header, bytes: i64) {
    let group = &header.group;
    let count = |own: &worker::Remote| own.count_bytes(&group.memory, bytes);
    if !group.config.is_hosted || worker::assist::with_own_of(group, count).is_none() {
        group.memory.add(bytes);
    }
    if let Some(simulation) = header.group.simulation.as_ref().filter(|_| bytes > 0) {
        simulation.submitted(header);
    }
}

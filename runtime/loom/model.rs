//! What the models in `loom-tests/` need: a group whose workers are threads of the model, and plain
//! calls of types that the crate keeps to itself.

#![allow(missing_docs, reason = "only models see it")]

use std::future::Future;
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::group::earliest::Earliest;
use crate::group::watchdog::Watchdog;
use crate::group::{Group, GroupShared};
use crate::handoff::section::Section;
use crate::handoff::slot::Slot;
use crate::subscription::word::{TimerState, TimerWord};
use crate::sync::{self, Arc, Mutex};
use crate::task::lane::pool;
use crate::task::{run_turn, After, Subscription};
use crate::worker::hosted::Host;
use crate::worker::sleep::{ParkMode, Sleep};
use crate::worker::{self, HostedWorker, Local};

pub use crate::handoff::Lender;
pub use crate::sync::Step;

/// Explores a model.
pub fn check(run: impl Fn() + Send + Sync + 'static) {
    explore(loom::model::Builder::new(), None, run);
}

/// Explores a model that leaves this step out.
pub fn check_without(step: Step, run: impl Fn() + Send + Sync + 'static) {
    explore(loom::model::Builder::new(), Some(step), run);
}

/// Explores a model with one preemption, where two take too long.
pub fn check_one_preemption(run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(1);
    explore(builder, None, run);
}

fn explore(
    mut builder: loom::model::Builder,
    without: Option<Step>,
    run: impl Fn() + Send + Sync + 'static,
) {
    let run = Arc::new(run);
    builder.max_branches = 100_000;
    builder.check(move || {
        sync::begin(without);
        let run = Arc::clone(&run);
        // On a stack that the real code fits.
        spawn(move || run()).join();
    });
}

/// Starts a thread of the model.
pub fn spawn<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let handle = sync::ThreadBuilder::new().spawn(run);
    JoinHandle(handle.expect("a model has up to five threads"))
}

/// Lets the other threads run until each is over or asleep.
pub fn until_asleep() {
    sync::until_asleep();
}

/// A thread of the model.
#[derive(Debug)]
pub struct JoinHandle<T>(sync::JoinHandle<T>);

impl<T> JoinHandle<T> {
    pub fn join(self) -> T {
        self.0.join().expect("a panic ends the model")
    }
}

/// A group whose clock stands still, and its workers, which do not run yet and do not steal.
pub fn group(workers: usize) -> (Group, Vec<Worker>) {
    let builder = Group::builder("model").workers(workers).without_stealing();
    let (mut config, clock) = builder.checked().expect("a sound description");
    config.spin_ns = 0;
    let (shared, queues) = GroupShared::new(config, clock, None);
    let worker = |(index, queue)| Worker(Local::new(Arc::clone(&shared), index, queue));
    let workers = queues.into_iter().enumerate().map(worker).collect();
    (Group::from_shared(shared), workers)
}

/// Runs what is ready on the calling thread, which is no worker. For groups without workers.
pub fn run_ready(group: &Group) {
    let shared = group.shared();
    while let Some(task) = shared.injector.pop() {
        // SAFETY: taken from the queue.
        let report = unsafe { run_turn(task, shared.config.budget, 0) };
        if report.after == After::Requeue {
            shared.injector.push(task);
            loom::thread::yield_now();
        }
    }
}

/// A worker of a group.
#[derive(Debug)]
pub struct Worker(Local);

// SAFETY: nobody has used it on another thread.
unsafe impl Send for Worker {}

impl Worker {
    /// The worker's loop, until the group stops.
    pub fn run(self) {
        *self.0.shared().host.lock() = Host::Thread(sync::current_thread());
        self.0.enter(worker::start);
    }
}

/// A group whose clock stands still, with one worker for an executor.
pub fn hosted() -> (Group, HostedWorker) {
    let builder = Group::builder("model").workers(1).without_stealing();
    let (mut config, clock) = builder.checked().expect("a sound description");
    config.is_hosted = true;
    let (shared, mut queues) = GroupShared::new(config, clock, None);
    let worker = HostedWorker::new(&shared, 0, queues.remove(0));
    (Group::from_shared(shared), worker)
}

/// An executor with one thread.
#[derive(Debug)]
pub struct Executor(std::sync::Arc<Woken>);

/// Whether the executor is to poll again. No model sees the flag, so a thread that was told to wake
/// up before it slept does not count as asleep.
#[derive(Debug)]
struct Woken(sync::Thread, std::sync::atomic::AtomicBool);

impl std::task::Wake for Woken {
    fn wake(self: std::sync::Arc<Self>) {
        self.1.store(true, std::sync::atomic::Ordering::SeqCst);
        self.0.unpark();
    }
}

impl Executor {
    /// On the calling thread.
    pub fn here() -> Self {
        Self(std::sync::Arc::new(Woken(sync::current_thread(), false.into())))
    }

    /// Polls a future once.
    pub fn poll<F: Future + Unpin>(&self, future: &mut F) -> Poll<F::Output> {
        let waker = std::sync::Arc::clone(&self.0).into();
        Pin::new(future).poll(&mut Context::from_waker(&waker))
    }

    /// Polls a future to its end, each time that it was woken.
    pub fn run<F: Future + Unpin>(&self, mut future: F) -> F::Output {
        loop {
            if let Poll::Ready(output) = self.poll(&mut future) {
                return output;
            }
            while !self.0 .1.swap(false, std::sync::atomic::Ordering::SeqCst) {
                sync::park(None);
            }
        }
    }
}

/// Ends the workers' loops.
pub fn stop(group: &Group) {
    group.shared().stop_workers();
}

/// Who keeps the group: its handles, its workers and the cells of its tasks.
pub fn keepers(group: &Group) -> usize {
    Arc::strong_count(group.shared())
}

/// Wakers of a future and the like: who counts on its subscription beside the task.
pub fn counted(subscription: &Subscription) -> usize {
    subscription.counted()
}

/// Waits until every task of the group has ended.
pub fn wait_empty(group: &Group) -> bool {
    group.shared().registry.wait_empty(Duration::MAX)
}

/// Sleeps once as the watchdog does, while all workers are parked.
pub fn watchdog_sleep(group: &Group) {
    group.shared().watchdog.begin();
    Watchdog::sleep(group.shared());
}

/// A worker parks, without its thread.
pub fn park_worker(group: &Group, worker: usize) {
    group.shared().sleep.enter(worker, false);
}

/// A parked worker begins to search, and tells the watchdog.
pub fn unpark_worker(group: &Group, worker: usize) {
    group.shared().sleep.leave(worker, true);
    group.shared().watchdog.awake();
}

/// A chunk of nodes, half of which are counted free at a time.
#[derive(Debug)]
pub struct Chunk(pool::Chunk);

impl Default for Chunk {
    fn default() -> Self {
        Self(pool::Chunk::new())
    }
}

impl Chunk {
    /// Whether it was the last half.
    pub fn count_free(&self, is_larger: bool) -> bool {
        let half = pool::CHUNK_NODES / 2;
        self.0.count_free(if is_larger { pool::CHUNK_NODES - half } else { half })
    }
}

/// A timer's word.
#[derive(Debug)]
pub struct Timer(TimerWord);

impl Default for Timer {
    fn default() -> Self {
        Self(TimerWord::new())
    }
}

impl Timer {
    pub fn fire(&self) -> bool {
        self.0.fire()
    }

    pub fn begin(&self) -> bool {
        self.0.begin()
    }

    pub fn rearm(&self) -> bool {
        self.0.step(TimerState::Running, TimerState::Armed)
    }

    /// Whether the cancel was in time.
    pub fn cancel(&self) -> bool {
        self.0.cancel().is_some()
    }
}

/// Wheels of one deadline each, as the group's timers use them.
#[derive(Debug)]
pub struct Wheels {
    earliest: Earliest,
    wheels: Vec<Mutex<Vec<u64>>>,
}

impl Wheels {
    pub fn new(count: usize) -> Self {
        let wheels = (0..count).map(|_| Mutex::new(Vec::new())).collect();
        Self { earliest: Earliest::new(count), wheels }
    }

    pub fn arm(&self, wheel: usize, deadline_ns: u64) {
        let mut pending = self.wheels[wheel].lock();
        pending.push(deadline_ns);
        self.earliest.lower_locked(wheel, deadline_ns);
    }

    /// Takes what is due.
    pub fn service(&self, now_ns: u64) -> usize {
        let seen = self.earliest.get();
        let mut fired = 0;
        for (index, wheel) in self.wheels.iter().enumerate() {
            if self.earliest.is_due(index, now_ns) {
                let mut pending = wheel.lock();
                let before = pending.len();
                pending.retain(|deadline_ns| *deadline_ns > now_ns);
                fired += before - pending.len();
                let next_ns = pending.iter().copied().min().unwrap_or(u64::MAX);
                self.earliest.served_locked(index, next_ns);
            }
        }
        self.earliest.raise(seen);
        fired
    }

    pub fn earliest(&self) -> u64 {
        self.earliest.get()
    }
}

/// The run-next slot, with numbers in the place of tasks.
#[derive(Debug)]
pub struct RunNext(Slot<u32>);

// SAFETY: the slot holds addresses that are never followed here.
unsafe impl Send for RunNext {}
// SAFETY: as above.
unsafe impl Sync for RunNext {}

impl Default for RunNext {
    fn default() -> Self {
        Self(Slot::new())
    }
}

impl RunNext {
    pub fn replace_owner(&self, task: usize) -> Option<usize> {
        self.0.replace_owner(ptr::without_provenance_mut(task)).map(number)
    }

    pub fn take_owner(&self) -> Option<usize> {
        self.0.take_owner().map(number)
    }

    pub fn steal(&self) -> Option<usize> {
        self.0.steal().map(number)
    }
}

fn number(task: NonNull<u32>) -> usize {
    task.as_ptr().addr()
}

/// A number of one owner that others visit.
#[derive(Debug)]
pub struct Visited(Section<u32>);

impl Visited {
    pub fn new(number: u32) -> Self {
        Self(Section::new(number))
    }

    /// As the owner; the model calls it from one thread.
    pub fn add_owner(&self, by: u32) -> u32 {
        let add = |number: &mut u32| {
            *number += by;
            *number
        };
        // SAFETY: one thread of the model calls it.
        unsafe { self.0.enter_owner(add) }
    }

    pub fn add(&self, by: u32) -> u32 {
        self.0.visit(|number| {
            *number += by;
            *number
        })
    }
}

/// The sleep protocol.
#[derive(Debug)]
pub struct Sleepers(Sleep);

impl Sleepers {
    pub fn new(workers: usize) -> Self {
        Self(Sleep::new(workers, false))
    }

    pub fn start_search(&self) -> bool {
        self.0.start_search(true)
    }

    pub fn end_search(&self) -> bool {
        self.0.end_search()
    }

    /// Whether the worker is on watch.
    pub fn enter(&self, worker: usize, was_searching: bool) -> bool {
        self.0.enter(worker, was_searching) == ParkMode::Watch
    }

    pub fn leave(&self, worker: usize, and_search: bool) -> bool {
        self.0.leave(worker, and_search)
    }

    /// Whether the worker is still booked as parked.
    pub fn is_parked(&self, worker: usize) -> bool {
        self.0.reconsider(worker).is_some()
    }

    pub fn wake_for_push(&self) -> Option<usize> {
        self.0.wake_for_push()
    }

    pub fn wake_for_local_push(&self) -> Option<usize> {
        self.0.wake_for_local_push()
    }

    pub fn wake_for_batch(&self) -> Option<usize> {
        self.0.wake_for_batch()
    }

    /// One worker keeps the time.
    pub fn keeps_time(&self, worker: usize, until_ns: u64) -> bool {
        self.0.keeps_time(worker, until_ns)
    }

    pub fn for_earlier_timer(&self) -> Option<usize> {
        self.0.for_earlier_timer()
    }
}

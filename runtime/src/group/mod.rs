//! Groups: a fixed set of workers, the tasks that live on them, and an orderly end.

mod blocking;
mod builder;
mod class;
pub(crate) mod earliest;
mod memory;
mod metrics;
mod per_worker;
mod registry;
mod shared;
mod shutdown;
mod spawn;
mod timers;
pub(crate) mod watchdog;

pub use builder::{Budget, BuildError, GroupBuilder, IdlePolicy};
pub(crate) use class::Class;
pub(crate) use memory::Memory;
pub use metrics::{ClassMetrics, GroupMetrics, Latency, LatencyBucket, TaskInfo, WorkerMetrics};
pub use per_worker::PerWorker;
pub(crate) use shared::{
    count_on, count_queued, schedule, schedule_on, worker_of, GroupShared, Simulated, WorkerHook,
};
pub(crate) use shutdown::begin as begin_shutdown;
pub use shutdown::{ShutdownError, ShutdownReport};
pub use spawn::{SpawnError, SpawnErrorKind, TaskBuilder};
use timers::CancelsTimer;
pub use timers::TimersFull;
pub(crate) use timers::{KeyCell, TimerEntry, TimerKey};

use std::cell::Cell;
use std::time::{Duration, SystemTime};

use crate::completion::{self, completion, Completion};
use crate::failure::Failure;
use crate::sync::{Arc, Ordering, ThreadBuilder, Worker};
use crate::task::{Mailbox, TaskPtr};
use crate::time::ClockListener;
use crate::worker::{self, hosted::Host, Local, Pinning};

/// Handle of a group of workers; clones share it. The group runs until [`Group::shutdown`].
///
/// Dropping the last handle ends nothing: threads and tasks stay until a shutdown or the end of the
/// process. A warning is logged once, since only a task can shut the group down then.
#[doc(alias = "ActorThreadGroup")]
#[doc(alias = "ActorScheduler")]
pub struct Group {
    shared: Arc<GroupShared>,
}

impl Clone for Group {
    fn clone(&self) -> Self {
        Self::from_shared(Arc::clone(&self.shared))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // AcqRel: the last one sees the shutdown that another handle has made.
        if self.shared.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.forgotten();
        }
    }
}

debug_fields!(impl Group, self =>
    name: self.shared.config.name,
    workers: self.shared.workers.len(),
    tasks: self.shared.registry.live());

impl PartialEq for Group {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Eq for Group {}

impl Group {
    /// Describes a group with this name.
    pub fn builder(name: &str) -> GroupBuilder {
        GroupBuilder::new(name)
    }

    pub(crate) fn from_shared(shared: Arc<GroupShared>) -> Self {
        // Relaxed: as in `Arc`.
        shared.handles.fetch_add(1, Ordering::Relaxed);
        Self { shared }
    }

    pub(crate) fn shared(&self) -> &Arc<GroupShared> {
        &self.shared
    }

    /// Starts workers and watchdog; if one cannot be started, the ones started before it end again.
    pub(crate) fn start(
        shared: Arc<GroupShared>,
        queues: Vec<Worker<TaskPtr>>,
    ) -> Result<Self, BuildError> {
        let refused = |worker, source| {
            shared.stop_workers();
            shared.watchdog.unpark();
            BuildError::Thread { group: shared.config.name.clone(), worker, source }
        };
        for (index, queue) in queues.into_iter().enumerate() {
            let local = Local::new(Arc::clone(&shared), index, queue);
            start_worker(local).map_err(|source| refused(index, source))?;
        }
        let watched = Arc::clone(&shared);
        let watchdog = ThreadBuilder::new()
            .name(format!("{}-watchdog", shared.config.name))
            .spawn(move || watchdog::Watchdog::run(&watched));
        let watchdog = watchdog.map_err(|source| refused(shared.workers.len(), source))?;
        shared.joins.lock().push(watchdog);
        let listener: Arc<dyn ClockListener> = Arc::clone(&shared) as _;
        shared.clock.listen(Arc::downgrade(&listener));
        Ok(Self::from_shared(shared))
    }

    /// The name given when it was built.
    pub fn name(&self) -> &str {
        &self.shared.config.name
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.shared.workers.len()
    }

    /// The mailbox of its tasks that name no other.
    pub fn mailbox(&self) -> Mailbox {
        self.shared.config.mailbox
    }

    /// Whether the calling thread is a worker of this group.
    pub fn is_current(&self) -> bool {
        std::ptr::eq(GROUP_OF_THREAD.get(), Arc::as_ptr(&self.shared))
            || worker::with_current(|local| local.is_some_and(|local| local.is_of(&self.shared)))
            || self.shared.simulation.as_ref().is_some_and(|simulation| simulation.is_in_turn())
    }

    /// Nanoseconds on the group's monotonic clock; 31 to 47 ns.
    pub fn now_ns(&self) -> u64 {
        self.shared.now_ns()
    }

    /// The group's clock as its worker has last read it, if the calling thread is one: a few
    /// nanoseconds, and at most some turns old; so also on a thread that polls workers of
    /// [`build_hosted`](GroupBuilder::build_hosted) and has polls left to do. Elsewhere as
    /// [`Group::now_ns`].
    #[inline]
    pub fn recent_ns(&self) -> u64 {
        let own = |local: &worker::Local| local.is_of(&self.shared).then(|| local.now_ns.get());
        let of_worker = worker::with_current(|local| local.and_then(own));
        of_worker.unwrap_or_else(|| self.recent_outside_ns())
    }

    /// [`Group::recent_ns`] on a thread that is no worker of the group.
    #[inline(never)]
    fn recent_outside_ns(&self) -> u64 {
        worker::assist::recent_ns(&self.shared).unwrap_or_else(|| self.now_ns())
    }

    /// Wall time on the group's clock: for dates; it may jump in both directions.
    pub fn wall(&self) -> SystemTime {
        self.shared.clock.wall()
    }

    /// Completes after a delay, never early. Awaitable on any executor. Once the group has ended it
    /// fails with [`Failure::Abandoned`], at once if it is called later. Dropping it cancels the
    /// timer.
    pub fn sleep(&self, delay: Duration) -> Completion<()> {
        let (completer, waiting) = completion();
        match self.shared.arm_entry(delay, TimerEntry::Complete(completer.clone())) {
            Ok(key) => {
                completer.on_cancel(Arc::new(self.cancels(key)).into());
                waiting
            }
            Err(full) => Completion::failed(Failure::error(full)),
        }
    }

    /// Completes as `completion` does, or with [`Failure::TimedOut`] after `limit`; the late one is
    /// cancelled. Without a timer, because the group has ended or has no room, it fails as
    /// [`Group::sleep`] does.
    pub fn timeout<T: Send + 'static>(
        &self,
        completion: Completion<T>,
        limit: Duration,
    ) -> impl std::future::Future<Output = Result<T, Failure>> + Send {
        let sleep = self.sleep(limit);
        completion::timeout_as(completion, async move {
            sleep.await.err().unwrap_or(Failure::TimedOut(limit))
        })
    }

    /// Runs a closure that may block on the group's elastic pool.
    ///
    /// Fails with [`Failure::Panicked`] if it panics, [`Failure::TimedOut`] if `limit` passes (the
    /// closure then ends in its own time), [`Failure::Refused`] if pool and queue are full, and
    /// [`Failure::Closed`] after shutdown.
    pub fn run_blocking<T, F>(&self, block: F, limit: Option<Duration>) -> Completion<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (completer, done) = completion();
        let mut timer = None;
        if let Some(limit) = limit {
            let late = completer.clone();
            let expire = move || drop(late.fail(Failure::TimedOut(limit)));
            match self.shared.arm_entry(limit, TimerEntry::Call(Box::new(expire))) {
                Ok(key) => timer = Some(self.cancels(key)),
                Err(full) => return Completion::failed(Failure::error(full)),
            }
        }
        let for_refusal = completer.clone();
        let job = Box::new(move || {
            let run = std::panic::AssertUnwindSafe(block);
            // The caller may have given up; then the late result is dropped.
            let _ = match std::panic::catch_unwind(run) {
                Ok(value) => completer.complete(value).map_err(drop),
                Err(panic) => completer.fail(Failure::from_panic(panic)).map_err(drop),
            };
            drop(timer);
        });
        let accepted = match &self.shared.simulation {
            Some(_) if self.shared.has_ended.load(Ordering::Acquire) => Err(Failure::Closed),
            Some(simulation) => {
                simulation.block(job);
                Ok(())
            }
            None => self.shared.blocking.run(job),
        };
        if let Err(failure) = accepted {
            let _ = for_refusal.fail(failure);
        }
        done
    }

    fn cancels(&self, key: TimerKey) -> CancelsTimer {
        CancelsTimer { group: Arc::downgrade(&self.shared), key }
    }
}

/// Starts a thread for a worker.
pub(crate) fn start_worker(local: Local) -> Result<(), std::io::Error> {
    let (group, index) = (Arc::clone(&local.group), local.index);
    let thread = ThreadBuilder::new()
        .name(format!("{}-{index}", group.config.name))
        .stack_size(group.config.stack_bytes)
        .spawn(move || worker_thread(&local))?;
    *group.workers[index].host.lock() = Host::Thread(thread.thread().clone());
    group.joins.lock().push(thread);
    // A wake-up before the line above was lost; the worker looks once more.
    group.workers[index].unpark();
    Ok(())
}

thread_local! {
    /// Address of the group whose worker this thread is. Set from the first hook to the end of the
    /// thread, so also for destructors of other thread-locals.
    static GROUP_OF_THREAD: Cell<*const GroupShared> = const { Cell::new(std::ptr::null()) };
}

fn worker_thread(local: &Local) {
    let (group, index) = (&local.group, local.index);
    GROUP_OF_THREAD.set(Arc::as_ptr(group));
    pin(group, index);
    completion::refuse_blocking();
    #[cfg(feature = "tokio")]
    let _tokio = group.config.tokio.as_ref().map(tokio::runtime::Handle::enter);
    local.call_hook(false);
    local.enter(worker::start);
    local.call_hook(true);
}

fn pin(group: &GroupShared, index: usize) {
    let cores = match &group.config.pinning {
        Pinning::None => return,
        Pinning::EachToACore => worker::usable_cores(),
        Pinning::Cores(cores) => cores.clone(),
    };
    let is_default = group.config.pinning == Pinning::EachToACore;
    if cores.is_empty() || (is_default && cores.len() < group.workers.len()) {
        return;
    }
    let core = cores[index % cores.len()];
    if !worker::pin_to(core) {
        let group = &group.config.name;
        tracing::warn!(group, worker = index, core, "the system refused to pin; it runs anywhere");
    }
}

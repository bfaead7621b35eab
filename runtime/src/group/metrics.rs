//! Metrics of a group: counters, latencies, the live tasks.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::class::Sampled;
use super::Group;
use crate::sync::{Arc, Ordering};
use crate::task::{AnyTask, Phase};
use crate::worker::Remote;

/// Counters and latencies of a group at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GroupMetrics {
    /// One entry for each worker.
    pub workers: Vec<WorkerMetrics>,
    /// One entry for each class that was sampled or has live tasks.
    pub classes: Vec<ClassMetrics>,
    /// Live tasks.
    pub tasks: usize,
    /// Tasks waiting in the shared queue.
    pub injected: usize,
    /// Pending timers.
    pub timers: usize,
    /// Bytes queued in all mailboxes, to within 32 KiB a worker.
    pub mailbox_bytes: u64,
    /// Threads of the blocking pool.
    pub blocking_threads: usize,
    /// Workers parked now.
    pub parked: u32,
    /// Turns that the watchdog found to last too long, each once; see
    /// [`GroupBuilder::on_long_turn`](crate::GroupBuilder::on_long_turn).
    pub long_turns: u64,
}

/// Exact counters of one worker since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerMetrics {
    /// Turns begun.
    pub turns: u64,
    /// Jobs run.
    pub jobs: u64,
    /// Jobs that failed.
    pub failures: u64,
    /// Times it took work of a sibling.
    pub steals: u64,
    /// Times it parked.
    pub parks: u64,
    /// Times it was woken for work.
    pub wakes: u64,
    /// Timers it fired.
    pub timers: u64,
    /// Turns that used up their budget.
    pub requeues: u64,
    /// Tasks waiting in its own queue.
    pub queued: u64,
    /// Nanoseconds without work: it was parked, the time until now included if it is.
    pub idle_ns: u64,
    /// For how long its turn lasts, to within the watchdog's period of 100 ms; nothing for a turn
    /// that the watchdog has not seen yet.
    pub running_ns: Option<u64>,
}

/// Sampled latencies of one class: about one turn in 256.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ClassMetrics {
    /// Name of the class.
    pub class: String,
    /// Live tasks.
    pub tasks: usize,
    /// Turns sampled.
    pub turns: u64,
    /// Jobs in the sampled turns.
    pub jobs: u64,
    /// From being ready to the start of the turn.
    pub waited: Latency,
    /// Length of the turn.
    pub ran: Latency,
    /// Distribution of the waits.
    pub waited_spread: Vec<LatencyBucket>,
    /// Distribution of the lengths.
    pub ran_spread: Vec<LatencyBucket>,
}

/// Turns whose latency is between the previous bucket's limit and this one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LatencyBucket {
    /// The longest latency of the bucket; each limit is twice the previous one.
    pub upto: Duration,
    /// Turns.
    pub turns: u64,
}

/// Quantiles of a latency, to two digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Latency {
    /// Half are faster.
    pub p50: Duration,
    /// Nine of ten are faster.
    pub p90: Duration,
    /// 99 of 100 are faster.
    pub p99: Duration,
    /// The slowest.
    pub max: Duration,
}

impl Latency {
    /// Of quantiles that were measured elsewhere, by a layer above.
    pub fn new(p50: Duration, p90: Duration, p99: Duration, max: Duration) -> Self {
        Self { p50, p90, p99, max }
    }

    fn of(histogram: &Histogram<u32>) -> Self {
        let at = |quantile| Duration::from_nanos(histogram.value_at_quantile(quantile));
        Self {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: Duration::from_nanos(histogram.max()),
        }
    }
}

/// The shortest latency, in nanoseconds, that a distribution distinguishes.
const BUCKET_NS: u64 = 1_000;

fn spread(histogram: &Histogram<u32>) -> Vec<LatencyBucket> {
    let bucket = |step: hdrhistogram::iterators::IterationValue<u32>| LatencyBucket {
        upto: Duration::from_nanos(step.value_iterated_to()),
        turns: step.count_since_last_iteration(),
    };
    histogram.iter_log(BUCKET_NS, 2.0).map(bucket).collect()
}

/// One live task at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TaskInfo {
    /// See [`Task::id`](crate::Task::id).
    pub id: u64,
    /// Name, or the class's if it has none of its own.
    pub name: String,
    /// Class.
    pub class: String,
    /// Labels.
    pub labels: Vec<(String, String)>,
    /// Phase.
    pub phase: Phase,
    /// Submitted jobs not yet run.
    pub queued: u64,
    /// For how long it has waited in a run queue; known for sampled turns only.
    pub waiting: Option<Duration>,
    /// The worker that runs it now.
    pub running_on: Option<usize>,
    /// For how long its turn holds that worker, to within the watchdog's period of 100 ms; nothing
    /// for a turn that the watchdog has not seen yet.
    pub running_for: Option<Duration>,
    /// Bytes of its cell, state included.
    pub bytes: usize,
}

impl Group {
    /// Counters and latencies now. Reads counters while they move; never stops a worker.
    pub fn metrics(&self) -> GroupMetrics {
        let shared = self.shared();
        let now_ns = shared.now_ns();
        let mut classes = shared.class_metrics();
        classes.sort_by(|one, other| one.class.cmp(&other.class));
        GroupMetrics {
            workers: shared.workers.iter().map(|worker| worker_metrics(worker, now_ns)).collect(),
            classes,
            tasks: shared.registry.live(),
            injected: shared.injector.len() + shared.system.len(),
            timers: shared.timers.pending(),
            mailbox_bytes: u64::try_from(shared.memory.bytes()).unwrap_or(0),
            blocking_threads: shared.blocking.threads(),
            parked: shared.sleep.parked(),
            long_turns: shared.watchdog.long_turns(),
        }
    }

    /// Tasks whose turn the watchdog reported as long, with the worker of each; none in a healthy
    /// group. Cost: one search of the list of live tasks for each.
    pub fn long_turns(&self) -> Vec<TaskInfo> {
        let shared = self.shared();
        let lasts = |worker: &&Arc<Remote>| held_ns(worker, shared.now_ns()).is_some();
        let running =
            |worker: &Arc<Remote>| shared.registry.find(worker.running.load(Ordering::Acquire));
        let tasks = shared.workers.iter().filter(lasts).filter_map(running);
        tasks.map(|task| self.info(&task)).filter(|info| info.running_for.is_some()).collect()
    }

    /// The live tasks. Takes one of sixteen locks at a time, each for a copy of its pointers.
    pub fn tasks(&self) -> Vec<TaskInfo> {
        self.shared().registry.all().iter().map(|task| self.info(task)).collect()
    }

    /// Handles of the live tasks.
    pub fn handles(&self) -> Vec<AnyTask> {
        self.shared().registry.all()
    }

    fn info(&self, task: &AnyTask) -> TaskInfo {
        let shared = self.shared();
        let header = task.header();
        let is_here =
            |worker: &Arc<Remote>| std::ptr::eq(worker.running.load(Ordering::Acquire), header);
        let age = |since| Duration::from_nanos(shared.now_ns().saturating_sub(since));
        let scheduled_ns = header.scheduled_ns.load(Ordering::Relaxed);
        let running_on = shared.workers.iter().position(is_here);
        let running_ns = running_on.and_then(|index| {
            let worker = &shared.workers[index];
            // Still the same task, so it was its turn.
            held_ns(worker, shared.now_ns()).filter(|_| is_here(worker))
        });
        TaskInfo {
            id: shared.registry.id_of(header),
            name: header.name().to_owned(),
            class: header.class().name().to_owned(),
            labels: task.labels(),
            phase: header.phase(),
            queued: task.queue_len(),
            waiting: (scheduled_ns > 0).then(|| age(scheduled_ns)),
            running_on,
            running_for: running_ns.map(Duration::from_nanos),
            bytes: header.vtable.bytes,
        }
    }
}

impl crate::group::GroupShared {
    fn class_metrics(&self) -> Vec<ClassMetrics> {
        let mut found = Vec::new();
        self.each_class(|class| {
            found.push((class.index(), class.name().to_owned(), class.sampled()))
        });
        let live = self.registry.by_class(found.len());
        let metrics = |(index, class, sampled): (usize, String, Option<Sampled>)| {
            let unsampled = ClassMetrics { class, tasks: live[index], ..ClassMetrics::default() };
            let Some(sampled) = sampled else { return (unsampled.tasks > 0).then_some(unsampled) };
            Some(ClassMetrics {
                turns: sampled.ran.len(),
                jobs: sampled.jobs,
                waited: Latency::of(&sampled.waited),
                ran: Latency::of(&sampled.ran),
                waited_spread: spread(&sampled.waited),
                ran_spread: spread(&sampled.ran),
                ..unsampled
            })
        };
        found.into_iter().filter_map(metrics).collect()
    }
}

/// For how long the turn of a worker lasts, if the watchdog has seen it.
fn held_ns(worker: &Remote, now_ns: u64) -> Option<u64> {
    if worker.running.load(Ordering::Acquire).is_null() {
        return None;
    }
    let since_ns = worker.held.since_ns(worker.stats.turns.get())?;
    Some(now_ns.saturating_sub(since_ns))
}

fn worker_metrics(worker: &Remote, now_ns: u64) -> WorkerMetrics {
    let stats = &worker.stats;
    WorkerMetrics {
        turns: stats.turns.get(),
        jobs: stats.jobs.get(),
        failures: stats.failures.get(),
        steals: stats.steals.get(),
        parks: stats.parks.get(),
        wakes: stats.wakes.get(),
        timers: stats.timers.get(),
        requeues: stats.requeues.get(),
        queued: worker.waiting(),
        idle_ns: stats.idle_ns(now_ns),
        running_ns: held_ns(worker, now_ns),
    }
}

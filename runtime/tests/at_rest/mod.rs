//! Groups at rest, for tests of a group's work on an event, and of its inactivity without one.

use std::thread;
use std::time::{Duration, Instant};

use turnwheel_runtime::{Group, IdlePolicy, Pinning};

/// Longer than any sound machine takes; a wait that ends by it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A group that sleeps as soon as it can.
pub(crate) fn build(name: &str, workers: usize) -> Group {
    let group = Group::builder(name).workers(workers).pinning(Pinning::None);
    group.idle(IdlePolicy::PowerFirst).build().expect("a group with few workers")
}

/// Runs a test on 1, 2 and 4 workers.
pub(crate) fn on_workers(name: &str, test: impl Fn(&Group)) {
    for workers in [1, 2, 4] {
        let group = build(name, workers);
        test(&group);
        assert!(group.shutdown().expect("not on a worker").is_clean(), "{workers} workers");
    }
}

/// Waits for something that only other threads bring about.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "not in time: {what}");
        thread::yield_now();
    }
}

/// Whether all workers sleep beside empty queues.
pub(crate) fn is_at_rest(group: &Group) -> bool {
    let metrics = group.metrics();
    let is_empty = metrics.injected == 0 && metrics.workers.iter().all(|one| one.queued == 0);
    is_empty && metrics.parked as usize == group.workers()
}

/// Number of turns and of jobs so far. A turn that could not continue, for instance because a
/// sender was preempted in the middle of sending, counts with its next one.
pub(crate) fn work_done(group: &Group) -> (u64, u64) {
    let workers = group.metrics().workers;
    workers.iter().fold((0, 0), |sum, one| (sum.0 + one.turns - one.requeues, sum.1 + one.jobs))
}

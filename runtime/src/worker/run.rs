//! The loop of a worker thread: find a task, run it, or search and park.
//!
//! 1. Find ([`next`]): the system class, the worker's own queue, the injector.
//! 2. Run ([`execute`]): one turn of the task, then its accounts.
//! 3. Search ([`Search::find`]) when nothing was found: spin over injector, timers and siblings;
//!    park after a while; return with a task, or when the group stops.

use super::search::Search;
use super::Local;
use crate::limits::{CLOCK_PERIOD_NS, CLOCK_STRIDE_TURNS_MAX, INJECTOR_TURNS};
use crate::sync::Ordering;
use crate::task::{run_turn, After, Report, TaskPtr};

/// Finds and runs tasks until the group stops.
pub(crate) fn start(local: &Local) {
    let mut search = Search::new(local.group.workers.len());
    let mut pace = Pace::default();
    local.now_ns.set(local.group.now_ns());
    let mut find = || {
        local.shared().running.store(std::ptr::null_mut(), Ordering::Release);
        let task = search.find(local)?;
        local.now_ns.set(local.group.now_ns());
        Some(task)
    };
    loop {
        let found = match pace.next(local) {
            Some(task) => Some(task),
            None => find(),
        };
        let Some(task) = found else { break };
        pace.run(local, task);
    }
    local.flush_bytes();
}

/// Turns of a worker until it looks at the clock, and at the injector. The shorter the turns, the
/// rarer it reads the clock.
#[derive(Debug)]
pub(super) struct Pace {
    stride: u32,
    until_clock: u32,
    until_injector: u32,
}

default_value!(Pace => Self { stride: 1, until_clock: 0, until_injector: INJECTOR_TURNS });

impl Pace {
    /// The next task, without a search.
    #[inline(always)]
    pub(super) fn next(&mut self, local: &Local) -> Option<TaskPtr> {
        self.until_injector = self.until_injector.saturating_sub(1);
        if self.until_clock == 0 {
            self.look_at_clock(local);
        }
        self.until_clock -= 1;
        next(local, &mut self.until_injector)
    }

    /// Runs a turn of the task.
    #[inline(always)]
    pub(super) fn run(&mut self, local: &Local, task: TaskPtr) {
        let report = execute(local, task);
        if report.now_ns != local.now_ns.get() {
            // The turn has read the clock: use its reading.
            local.now_ns.set(report.now_ns);
            self.until_clock = 0;
        }
        if report.after == After::Requeue {
            self.until_injector = 0;
        }
    }

    #[cold]
    fn look_at_clock(&mut self, local: &Local) {
        let now_ns = local.group.now_ns();
        let took_ns = now_ns.saturating_sub(local.now_ns.get());
        local.now_ns.set(now_ns);
        local.shared().clock_read(now_ns);
        if took_ns > CLOCK_PERIOD_NS {
            self.stride = (self.stride / 2).max(1);
        } else if took_ns * 2 < CLOCK_PERIOD_NS {
            self.stride = (self.stride * 2).min(CLOCK_STRIDE_TURNS_MAX);
        }
        self.until_clock = self.stride;
        if local.group.timers.is_due(now_ns) {
            service_timers(local, now_ns);
        }
    }
}

/// The next task: system class, own, injected. Every so often injected tasks are put behind the
/// worker's own, so that neither can starve the other.
#[inline(always)]
fn next(local: &Local, until_injector: &mut u32) -> Option<TaskPtr> {
    if let Some(task) = local.pop_system() {
        return Some(task);
    }
    if *until_injector == 0 {
        *until_injector = INJECTOR_TURNS;
        local.fetch_injected();
    }
    local.pop().or_else(|| local.take_injected())
}

/// One turn of a task on this worker, and its book-keeping.
#[inline(always)]
pub(crate) fn execute(local: &Local, task: TaskPtr) -> Report {
    let shared = local.shared();
    shared.stats.turns.add_owner(1);
    shared.running.store(task.0.as_ptr(), Ordering::Release);
    // SAFETY: we took the task from a queue, so its turn is ours; the borrow ends here.
    let scheduled_ns = unsafe { task.header() }.scheduled_ns.load(Ordering::Relaxed);
    let report = if scheduled_ns == 0 {
        // SAFETY: as above.
        unsafe { run_turn(task, local.group.config.budget, local.now_ns.get()) }
    } else {
        execute_sampled(local, task, scheduled_ns)
    };
    shared.stats.jobs.add_owner(u64::from(report.jobs));
    if report.failures > 0 {
        shared.stats.failures.add_owner(u64::from(report.failures));
    }
    local.count_bytes(-report.bytes);
    if report.after == After::Requeue {
        shared.stats.requeues.add_owner(1);
        local.group.requeue(task);
    }
    report
}

#[cold]
fn execute_sampled(local: &Local, task: TaskPtr, scheduled_ns: u64) -> Report {
    // SAFETY: the turn is ours; the borrow ends before it begins.
    let header = unsafe { task.header() };
    header.scheduled_ns.store(0, Ordering::Relaxed);
    let class = local.group.class_of(header);
    let start_ns = local.group.now_ns();
    local.now_ns.set(start_ns);
    // SAFETY: as above.
    let mut report = unsafe { run_turn(task, local.group.config.budget, start_ns) };
    let end_ns = local.group.now_ns();
    report.now_ns = end_ns;
    class.sample(
        start_ns.saturating_sub(scheduled_ns),
        end_ns.saturating_sub(start_ns),
        report.jobs,
    );
    report
}

/// Fires due timers.
pub(crate) fn service_timers(local: &Local, now_ns: u64) {
    let group = &local.group;
    let fired = group.timers.service(now_ns, || group.wake_timekeeper());
    local.shared().stats.timers.add_owner(fired as u64);
}

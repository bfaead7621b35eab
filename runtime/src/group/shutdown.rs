//! The end of a group, in numbered steps.

use std::time::Duration;

use super::{Group, GroupShared};
use crate::completion::{completion, Completion};
use crate::failure::Failure;
use crate::limits::SHUTDOWN_DEADLINE;
use crate::sync::{self, current_thread, Arc, Ordering, ThreadBuilder};
use crate::worker::hosted::{to_thread, Host};
use crate::worker::Remote;

/// This part of a shutdown's deadline is left to tasks that were stopped, to end in order.
const STOP_SHARE: u32 = 8;

/// Time that the end waits for killed tasks, and for threads.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// Pause between two looks for workers that are on their way to a thread.
const MOVE_LOOK: Duration = Duration::from_micros(50);

/// Report of a shutdown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Tasks that closed in order.
    pub closed: usize,
    /// Names of tasks that were killed because they did not close within the deadline.
    pub killed: Vec<String>,
    /// Names of tasks that did not even end when killed: a job of theirs never returned. Their
    /// threads are left behind.
    pub left: Vec<String>,
}

impl ShutdownReport {
    /// Whether every task closed in order.
    pub fn is_clean(&self) -> bool {
        self.killed.is_empty() && self.left.is_empty()
    }
}

/// Why a shutdown was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShutdownError {
    /// A worker cannot wait for its own end.
    #[error("a group cannot be shut down from one of its own workers; use `shutdown_later`")]
    OnWorker,
    /// Only the thread of a simulation can run its groups to their end, and not inside of a turn.
    #[error("a simulated group ends on the thread of its living simulation, outside of turns")]
    Simulated,
}

impl Group {
    /// Closes all tasks in order, then ends the threads; waits at most 30 s for the tasks.
    ///
    /// Spawning is refused from now on. A second call also waits for the end; its report counts
    /// only tasks that the first has not counted.
    ///
    /// # Errors
    ///
    /// On a worker of this group, which would wait for itself.
    pub fn shutdown(&self) -> Result<ShutdownReport, ShutdownError> {
        self.shutdown_within(SHUTDOWN_DEADLINE)
    }

    /// As [`Group::shutdown`] with another deadline.
    ///
    /// # Errors
    ///
    /// As [`Group::shutdown`].
    pub fn shutdown_within(&self, deadline: Duration) -> Result<ShutdownReport, ShutdownError> {
        if self.is_current() {
            return Err(ShutdownError::OnWorker);
        }
        if let Some(simulation) = &self.shared().simulation {
            return simulation.shut_down(deadline);
        }
        Ok(run(self.shared(), deadline))
    }

    /// As [`Group::shutdown_within`] on a thread of its own: for workers and async hosts.
    pub fn shutdown_later(&self, deadline: Duration) -> Completion<ShutdownReport> {
        let (completer, report) = completion();
        let group = self.clone();
        if let Some(simulation) = &self.shared().simulation {
            let tasks = begin(self.shared(), deadline);
            simulation.shut_down_later(tasks, deadline, completer);
            return report;
        }
        let refused = completer.clone();
        let thread =
            ThreadBuilder::new().name(format!("{}-shutdown", self.name())).spawn(move || {
                // The caller may have given up.
                let _ = completer.complete(run(group.shared(), deadline));
            });
        if let Err(error) = thread {
            let _ = refused.fail(Failure::error(error));
        }
        report
    }
}

/// Asks all tasks to close, and returns their number.
pub(crate) fn begin(group: &GroupShared, deadline: Duration) -> usize {
    // 1. No task is added any more.
    group.registry.close();
    // 2. Every task closes in order. A task that has not is stopped then, with time left to end in
    // order before it is killed.
    let tasks = group.registry.all();
    let stop = deadline - deadline / STOP_SHARE;
    for task in &tasks {
        drop(task.close_within(stop));
    }
    tasks.len()
}

fn run(group: &Arc<GroupShared>, deadline: Duration) -> ShutdownReport {
    let _one_at_a_time = group.ending.lock();
    let mut report = ShutdownReport::default();
    // 0. Hosted workers go on on threads of their own: their executor may be gone, or may wait for
    // this call.
    for index in 0..group.workers.len() {
        to_thread(group, index);
    }
    let count = begin(group, deadline);
    if !group.registry.wait_empty(deadline) {
        // 3. The tasks that are left are killed.
        let late = group.registry.all();
        for task in &late {
            report.killed.push(task.name());
            drop(task.kill());
        }
        drop(late);
        group.registry.wait_empty(LAST_WAIT);
        for task in group.registry.all() {
            report.left.push(task.name());
            task.give_up();
        }
    }
    report.killed.retain(|name| !report.left.contains(name));
    report.closed = count.saturating_sub(report.killed.len() + report.left.len());
    // 4. The threads end. A hosted worker in a poll is still on its way to its thread.
    group.stop_workers();
    group.watchdog.unpark();
    group.blocking.close();
    let end = sync::deadline(LAST_WAIT);
    let is_moving = |one: &Arc<Remote>| matches!(*one.host.lock(), Host::Moving);
    while group.workers.iter().any(is_moving) && sync::until(end).is_some() {
        sync::park(Some(MOVE_LOOK));
    }
    join(group, report.left.is_empty());
    // 5. Pending timers are dropped, and their waiters notified.
    group.timers.clear();
    group.has_ended.store(true, Ordering::Release);
    report
}

fn join(group: &GroupShared, is_clean: bool) {
    let threads = std::mem::take(&mut *group.joins.lock());
    for thread in threads {
        let is_self = thread.thread().id() == current_thread().id();
        // A thread in a job that never returns cannot be joined: it is left behind.
        if !is_self && (is_clean || thread.is_finished()) && thread.join().is_err() {
            tracing::error!(group = group.config.name, "a worker thread panicked");
        }
    }
}

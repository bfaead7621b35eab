//! Ending an actor within a limit, with a report of the leftovers.

use std::future::Future;
use std::time::Duration;

use turnwheel_runtime::completion::timeout;
use turnwheel_runtime::{AnyTask, Group};

use crate::actor::{Actor, Address, Exit};

/// Time between stop and kill of a drained actor: for its closing hook.
pub const DRAIN_GRACE: Duration = Duration::from_secs(1);

/// Outcome of a drain.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Drained {
    /// Exit of the actor; `None` if it has not ended: one of its handlers does not return.
    pub exit: Option<Exit>,
    /// Messages that it had not handled at the limit, about; they are dead letters.
    pub left: u64,
    /// Whether the limit stopped it; then futures of its hooks may also have been dropped.
    pub was_stopped: bool,
    /// Whether it was killed, since it did not stop in time.
    pub was_killed: bool,
}

impl Drained {
    /// Whether everything was handled and the actor has closed in order.
    pub fn is_complete(&self) -> bool {
        !self.was_stopped && matches!(self.exit, Some(Exit::Closed))
    }
}

impl<A: Actor> Address<A> {
    /// Closes the actor in order and reports the leftovers.
    ///
    /// Messages sent before are handled, up to the limit; then the rest is skipped, and the future
    /// that holds the actor is dropped. An actor that has not stopped [`DRAIN_GRACE`] later is
    /// killed. Admission ends with the call; the limit counts from the first poll.
    pub fn drain(&self, limit: Duration) -> impl Future<Output = Drained> + Send + 'static {
        self.task.close().detach();
        let task = self.task.erased();
        let group = self.task.group();
        async move { drain(&task, limit, &group).await }
    }
}

pub(crate) async fn drain(task: &AnyTask, limit: Duration, group: &Group) -> Drained {
    if let Some(exit) = within(task, limit, group).await {
        return Drained { exit: Some(exit), left: 0, was_stopped: false, was_killed: false };
    }
    let left = task.queue_len();
    task.stop().detach();
    if let Some(exit) = within(task, DRAIN_GRACE, group).await {
        return Drained { exit: Some(exit), left, was_stopped: true, was_killed: false };
    }
    task.kill().detach();
    let exit = within(task, DRAIN_GRACE, group).await;
    if exit.is_none() {
        tracing::error!(actor = task.name(), "a handler does not return: the actor was left");
    }
    Drained { exit, left, was_stopped: true, was_killed: true }
}

/// Closes a child in order; at the limit the remaining messages are skipped.
pub(crate) async fn end_within(task: &AnyTask, limit: Duration, group: &Group) {
    // The timer of the task stops it, also if this future is dropped.
    task.close_within(limit).detach();
    let drained = drain(task, limit, group).await;
    if drained.was_stopped {
        let Drained { left, was_killed, .. } = drained;
        tracing::warn!(actor = task.name(), left, was_killed, "a child did not close in time");
    }
}

/// Exit of the task, if it ends within the limit.
async fn within(task: &AnyTask, limit: Duration, group: &Group) -> Option<Exit> {
    let outcome = timeout(task.closed(), group.sleep(limit), limit).await;
    match outcome {
        Err(_) if !task.phase().is_over() => None,
        outcome => Some(outcome.into()),
    }
}

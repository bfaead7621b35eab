//! Threads of an executor that wait for an answer run the turn that gives it.
//!
//! A task of the executor asks a task of a hosted group, and polls the answer next. The question
//! would wait for the executor to poll a worker, and the answer for it to poll the task again. So
//! each thread that polls workers has one of them as its own: it offers the tasks that it makes
//! ready there, and a poll of an answer that is not there takes the worker's seat and runs its
//! turns. A sibling may take an offered task as it takes injected ones.

use std::cell::Cell;
use std::mem;
use std::ptr::NonNull;

use super::hosted::{self, Host};
use super::Remote;
use crate::completion::blocking_refused;
use crate::group::GroupShared;
use crate::handoff::assist_by;
use crate::limits::ASSISTS_IN_A_ROW;
use crate::sync::{Arc, Ordering};
use crate::task::TaskPtr;

/// The worker of a thread.
struct Own {
    remote: Arc<Remote>,
    /// Answers that this thread has waited for.
    waits: u32,
}

thread_local! {
    static OWN: Cell<Option<Own>> = const { Cell::new(None) };
}

impl Drop for Own {
    fn drop(&mut self) {
        *self.remote.has_thread.lock() = false;
    }
}

/// Looks at the thread's worker, which is not there meanwhile.
#[inline(always)]
fn with_own<R>(look: impl FnOnce(&mut Own) -> R) -> Option<R> {
    let mut own = OWN.try_with(Cell::take).ok()??;
    let result = look(&mut own);
    OWN.set(Some(own));
    Some(result)
}

/// Gives this thread, which polls a worker of the group, a worker of its own, if one is free.
pub(super) fn settle(group: &GroupShared) {
    let is_served = |own: &mut Own| matches!(*own.remote.host.lock(), Host::Future { .. });
    if with_own(is_served) == Some(true) {
        return;
    }
    let free = |one: &&Arc<Remote>| !mem::replace(&mut *one.has_thread.lock(), true);
    if let Some(remote) = group.workers.iter().find(free) {
        let own = Own { remote: Arc::clone(remote), waits: 0 };
        // Gone only if the thread ends.
        let _ = OWN.try_with(|place| place.set(Some(own)));
        assist_by(assist);
    }
}

/// Looks at the thread's worker if it is one of the group's.
#[inline(always)]
pub(crate) fn with_own_of<R>(group: &GroupShared, look: impl FnOnce(&Remote) -> R) -> Option<R> {
    with_own(|own| own.remote.is_of(group).then(|| look(&own.remote)))?
}

/// Queues a task that became ready outside of a turn for this thread's own worker. Returns a task
/// for the injector, if there is one.
#[inline(always)]
pub(crate) fn offer(group: &GroupShared, task: TaskPtr) -> Option<TaskPtr> {
    // Release: shows the task to its taker; Acquire: shows the one before.
    let swap = |own: &Remote| own.offered.swap(task.0.as_ptr(), Ordering::AcqRel);
    with_own_of(group, swap).map_or(Some(task), |before| NonNull::new(before).map(TaskPtr))
}

/// The clock as this thread's own worker has last read it, unless it is parked. The keeper reads it
/// for a worker that the executor does not poll.
pub(crate) fn recent_ns(group: &GroupShared) -> Option<u64> {
    let recent_ns = with_own_of(group, |own| own.recent_ns.load(Ordering::Relaxed));
    recent_ns.filter(|recent_ns| *recent_ns > 0)
}

/// Runs turns of this thread's own worker until `is_done`, if a task was offered to it.
fn assist(is_done: &dyn Fn() -> bool) {
    with_own(|own| {
        if own.remote.has_offer() && !blocking_refused() {
            own.waits = own.waits.wrapping_add(1);
            // Now and then the executor gets its thread back.
            if own.waits % ASSISTS_IN_A_ROW != 0 {
                hosted::assist(&own.remote, is_done);
            }
        }
    });
}

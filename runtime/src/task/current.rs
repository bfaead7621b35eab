//! What runs on this thread: the task of the turn under way and its fast lane's insertion point.

use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use super::cell::{Header, TaskRef};
use super::node::Node;
use crate::limits::FAST_JOBS_MAX;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Current {
    header: *const Header,
    /// Where the next job of the fast lane goes: its head, or the link of the last job that the
    /// current job has made.
    insert: *mut *mut Node,
}

const NONE: Current = Current { header: ptr::null(), insert: ptr::null_mut() };

thread_local! {
    static CURRENT: Cell<Current> = const { Cell::new(NONE) };
}

/// Begins a turn; the answer goes to `leave`.
pub(crate) fn enter(header: NonNull<Header>) -> Current {
    CURRENT.replace(Current { header: header.as_ptr(), insert: ptr::null_mut() })
}

/// Ends a turn.
pub(crate) fn leave(outer: Current) {
    CURRENT.set(outer);
}

thread_local! {
    static LOSING: Cell<*const Header> = const { Cell::new(ptr::null()) };
}

/// Runs what drops a job of this task unrun.
#[cold]
pub(crate) fn losing<R>(header: NonNull<Header>, run: impl FnOnce() -> R) -> R {
    let outer = LOSING.try_with(|losing| losing.replace(header.as_ptr()));
    let answer = run();
    if let Ok(outer) = outer {
        // Gone only if the thread ends meanwhile, and then nobody asks.
        let _ = LOSING.try_with(|losing| losing.set(outer));
    }
    answer
}

/// The task whose job this thread drops unrun.
pub(crate) fn losing_ref() -> Option<TaskRef> {
    let header = NonNull::new(LOSING.try_with(Cell::get).ok()?.cast_mut())?;
    // SAFETY: whoever discards a job of the task keeps it alive until that is done.
    Some(unsafe { TaskRef::new_ref(header) })
}

/// Begins a job: what it makes goes to the head of the fast lane.
#[inline(always)]
pub(crate) fn start_job(head: *mut *mut Node) {
    let header = CURRENT.get().header;
    CURRENT.set(Current { header, insert: head });
}

/// Whether the turn under way on this thread is this task's.
#[inline(always)]
pub(crate) fn is_current(header: &Header) -> bool {
    ptr::eq(CURRENT.try_with(Cell::get).unwrap_or(NONE).header, header)
}

/// The task of the turn under way on this thread.
pub(crate) fn current_ref() -> Option<TaskRef> {
    let header = NonNull::new(CURRENT.try_with(Cell::get).ok()?.header.cast_mut())?;
    // SAFETY: this thread runs the task's turn, so it is alive.
    Some(unsafe { TaskRef::new_ref(header) })
}

/// Puts a job behind those the current job has made and ahead of everything queued earlier.
/// Gives the node back if the lane is full.
///
/// The turn under way on this thread must be this task's.
#[inline(always)]
pub(crate) fn insert_fast(header: &Header, node: *mut Node) -> Result<(), *mut Node> {
    debug_assert!(is_current(header), "the fast lane belongs to the turn");
    // SAFETY: this thread is the runner; the borrow ends here.
    let owner = unsafe { header.owner() };
    if owner.fast_len >= FAST_JOBS_MAX {
        return Err(node);
    }
    owner.fast_len += 1;
    let Current { header, insert } = CURRENT.get();
    let insert = if insert.is_null() { &raw mut owner.fast } else { insert };
    // SAFETY: the insertion point is the lane's head, or the link of a job still in the lane.
    let next = unsafe { insert.read() };
    // SAFETY: the node is ours until it is linked.
    let link = unsafe { &(*node).next };
    link.store(next, Ordering::Relaxed);
    // SAFETY: as above.
    unsafe { insert.write(node) };
    CURRENT.set(Current { header, insert: link.as_ptr() });
    Ok(())
}

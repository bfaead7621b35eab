//! The turn of this thread: its task, and the insertion point of the fast lane.

use crate::limits::FAST_JOBS_MAX;
use crate::sync::Ordering;
use crate::task::cell::layout::{Header, Owner};
use crate::task::cell::reference::TaskRef;
use crate::task::lane::node::Node;
use std::cell::Cell;
use std::ptr::{self, NonNull};

#[derive(Clone, Copy, Debug)]
struct Current {
    header: *const Header,
    /// Insertion point of the fast lane: the last job that the current job has put there. Null: the
    /// next one goes to the head. Taking a job out of the lane resets it.
    insert: *mut Node,
}

const NONE: Current = Current { header: ptr::null(), insert: ptr::null_mut() };

thread_local! {
    static CURRENT: Cell<Current> = const { Cell::new(NONE) };
}

/// A turn under way on this thread; dropping it restores the outer turn.
#[derive(Debug)]
pub(crate) struct Entered(Current);

impl Drop for Entered {
    #[inline(always)]
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Begins a turn, until the answer is dropped.
#[inline(always)]
#[must_use]
pub(crate) fn enter(header: NonNull<Header>) -> Entered {
    Entered(CURRENT.replace(Current { header: header.as_ptr(), insert: ptr::null_mut() }))
}

/// The turn under way has ended its task: from here on destructors run while the memory of the task
/// is freed, and none of them may get a new handle to it.
pub(crate) fn forget() {
    CURRENT.set(NONE);
}

thread_local! {
    static LOSING: Cell<*const Header> = const { Cell::new(ptr::null()) };
}

/// Runs `run`, which drops a job of this task unrun.
#[cold]
pub(crate) fn losing<R>(header: NonNull<Header>, run: impl FnOnce() -> R) -> R {
    let outer = LOSING.try_with(|losing| losing.replace(header.as_ptr()));
    let answer = run();
    if let Ok(outer) = outer {
        // Gone only if the thread ends meanwhile; then it is not read again.
        let _ = LOSING.try_with(|losing| losing.set(outer));
    }
    answer
}

/// The task whose job this thread drops unrun.
pub(crate) fn losing_ref() -> Option<TaskRef> {
    let header = NonNull::new(LOSING.try_with(Cell::get).ok()?.cast_mut())?;
    // SAFETY: the code that discards a job of the task keeps it alive until that is done.
    Some(unsafe { TaskRef::new_ref(header) })
}

/// Begins a job: its fast-lane jobs go to the head of the lane.
#[inline(always)]
pub(crate) fn start_job() {
    let header = CURRENT.get().header;
    CURRENT.set(Current { header, insert: ptr::null_mut() });
}

/// Takes the first job out of the fast lane. Jobs that it makes go to the head.
#[inline(always)]
pub(crate) fn take_fast(owner: &Owner) -> Option<*mut Node> {
    let node = owner.fast.get();
    if node.is_null() {
        return None;
    }
    // The insertion point may be this node, which its taker frees.
    start_job();
    // SAFETY: the fast lane owns its nodes; relaxed, since only the runner links them.
    owner.fast.set(unsafe { (*node).next.load(Ordering::Relaxed) });
    owner.fast_len.set(owner.fast_len.get() - 1);
    Some(node)
}

/// In the count of the fast lane: it takes no job any more.
const FAST_CLOSED: u32 = 1 << 31;

const _: () = assert!(FAST_JOBS_MAX < FAST_CLOSED);

/// Closes the fast lane: the task ends.
pub(crate) fn close_fast(owner: &Owner) {
    owner.fast_len.set(owner.fast_len.get() | FAST_CLOSED);
}

/// Whether the fast lane of this task is closed; its turn is under way on this thread.
pub(crate) fn is_fast_closed(header: &Header) -> bool {
    debug_assert!(is_current(header), "the fast lane belongs to the turn");
    // SAFETY: this thread is the runner; the borrow ends here.
    unsafe { header.owner() }.fast_len.get() & FAST_CLOSED != 0
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

/// Puts a job behind the current job's earlier ones and ahead of everything queued earlier. Returns
/// the node if the lane is full or closed.
///
/// The turn under way on this thread must be this task's.
#[inline(always)]
pub(crate) fn insert_fast(header: &Header, node: *mut Node) -> Result<(), *mut Node> {
    debug_assert!(is_current(header), "the fast lane belongs to the turn");
    // SAFETY: this thread is the runner; the borrow ends here.
    let owner = unsafe { header.owner() };
    if owner.fast_len.get() >= FAST_JOBS_MAX {
        return Err(node);
    }
    owner.fast_len.set(owner.fast_len.get() + 1);
    let insert = CURRENT.get().insert;
    let behind = if insert.is_null() {
        owner.fast.replace(node)
    } else {
        // SAFETY: the job before is in the lane still: `take_fast` resets the insertion point.
        let queued = unsafe { (*insert).queued };
        queued.check(&header.life);
        // SAFETY: as above.
        let before = unsafe { &(*insert).next };
        let behind = before.load(Ordering::Relaxed);
        before.store(node, Ordering::Relaxed);
        behind
    };
    // SAFETY: the node is in this lane alone.
    unsafe { (*node).next.store(behind, Ordering::Relaxed) };
    CURRENT.set(Current { header, insert: node });
    Ok(())
}

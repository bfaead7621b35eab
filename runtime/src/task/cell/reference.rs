//! Counted references to a task of any type, and the work of the last one.

use std::ptr::NonNull;

use super::layout::{Header, TaskPtr};
use super::refs::Leave;
use crate::task::lane::inbox::bits;

/// A counted reference to a task of any type.
pub(crate) struct TaskRef(pub(in crate::task) NonNull<Header>);

// SAFETY: through a reference only the header's shared parts are reached; the state is `Send` and
// only ever touched in a turn.
unsafe impl Send for TaskRef {}
// SAFETY: as above.
unsafe impl Sync for TaskRef {}

impl TaskRef {
    /// One more reference to a task that is known to be alive.
    ///
    /// # Safety
    ///
    /// The caller is the runner of the task, or holds its registration or another reference.
    pub(crate) unsafe fn new_ref(header: NonNull<Header>) -> Self {
        // SAFETY: the caller says it is alive.
        let shared = unsafe { header.as_ref() };
        shared.refs().add();
        Self(header)
    }

    /// The reference that was counted already.
    ///
    /// # Safety
    ///
    /// The caller has counted it, and makes no other of it.
    pub(in crate::task) unsafe fn counted(header: NonNull<Header>) -> Self {
        Self(header)
    }

    /// The entry for a run queue.
    pub(crate) fn ptr(&self) -> TaskPtr {
        TaskPtr(self.0)
    }
}

impl std::ops::Deref for TaskRef {
    type Target = Header;

    #[inline(always)]
    fn deref(&self) -> &Header {
        // SAFETY: a reference keeps the header alive.
        unsafe { self.0.as_ref() }.alive()
    }
}

impl Clone for TaskRef {
    fn clone(&self) -> Self {
        // SAFETY: we hold a reference.
        unsafe { Self::new_ref(self.0) }
    }
}

impl Drop for TaskRef {
    fn drop(&mut self) {
        drop_reference(self.0);
    }
}

debug_fields!(impl TaskRef, self => name: self.name());

/// Gives one reference back. The last handle tells the runner with `ORPHAN` before it goes.
fn drop_reference(header: NonNull<Header>) {
    // SAFETY: the caller owns a reference, so the header is alive.
    let shared = unsafe { header.as_ref() };
    let mut leave = shared.refs().leave();
    if leave == Leave::Last {
        shared.signal(bits::ORPHAN);
        leave = shared.refs().left();
    }
    if leave == Leave::Free {
        // SAFETY: no reference is left and the task is over; the vtable fits the cell.
        unsafe { (shared.vtable.dealloc)(header) };
    }
}

/// Gives the task's own reference back: its last turn is over. Frees it if no handle is left.
pub(crate) fn release_own(header: NonNull<Header>) {
    // SAFETY: the own reference is still counted.
    let shared = unsafe { header.as_ref() };
    if shared.refs().release_own() {
        // SAFETY: no reference is left; the vtable fits the cell.
        unsafe { (shared.vtable.dealloc)(header) };
    }
}

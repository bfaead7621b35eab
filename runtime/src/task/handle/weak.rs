//! Weak handles: they keep the memory of a task, not its life.
//!
//! A weak handle is counted like a leaving handle (`cell/refs.rs`): it holds the cell, but does not
//! keep the task alive.

use std::marker::PhantomData;
use std::ptr::NonNull;

use super::task::Task;
use crate::sync::Ordering;
use crate::task::cell::layout::Header;
use crate::task::cell::reference::TaskRef;
use crate::task::cell::refs::Leave;

/// A handle that does not keep its task: with no other handle left the task closes, as if this one
/// were not there. The memory of the task's cell, not that of its state, is held until it is
/// dropped.
///
/// ```
/// use turnwheel_runtime::Group;
/// let group = Group::builder("doc").workers(1).build()?;
/// let task = group.spawn(5)?;
/// let weak = task.downgrade();
/// assert!(weak.upgrade() == Some(task.clone()));
/// let closed = task.closed();
/// drop(task);
/// closed.wait()?;
/// assert!(weak.upgrade().is_none());
/// # group.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WeakTask<S> {
    inner: WeakRef,
    /// Invariant: jobs write the state, so a handle of a subtype must not become one of a
    /// supertype.
    state: PhantomData<fn(S) -> S>,
}

impl<S> Task<S> {
    /// A handle that does not keep the task. One atomic operation.
    pub fn downgrade(&self) -> WeakTask<S> {
        WeakTask { inner: WeakRef::of(self.header()), state: PhantomData }
    }
}

impl<S> WeakTask<S> {
    /// As [`Task::tag`].
    pub fn tag(&self) -> u64 {
        self.inner.header().tag
    }

    /// A handle that keeps the task; `None` if it is over. A task that is closing is answered
    /// still, and takes no more work.
    pub fn upgrade(&self) -> Option<Task<S>> {
        self.inner.upgrade().map(Task::new)
    }
}

impl<S> Clone for WeakTask<S> {
    fn clone(&self) -> Self {
        Self { inner: WeakRef::of(self.inner.header()), state: PhantomData }
    }
}

debug_fields!(impl<S> WeakTask<S>, self => name: self.inner.header().name());

impl Header {
    /// The same; under `turnwheel_checked` the process ends unless it lives.
    #[inline(always)]
    pub(crate) fn alive(&self) -> &Self {
        self.life.check();
        self
    }
}

/// A counted reference that is no reason to stay.
pub(crate) struct WeakRef(NonNull<Header>);

// SAFETY: as for `TaskRef`: only the header's shared parts are reached through it.
unsafe impl Send for WeakRef {}
// SAFETY: as above.
unsafe impl Sync for WeakRef {}

impl WeakRef {
    /// Of a header that the caller's own reference keeps.
    pub(crate) fn of(header: &Header) -> Self {
        header.refs().weaken();
        Self(NonNull::from(header))
    }

    #[inline(always)]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: our reference keeps the cell.
        unsafe { self.0.as_ref() }.alive()
    }

    fn upgrade(&self) -> Option<TaskRef> {
        // The task is settled before waiters for the end are notified, and the count ends after
        // that.
        if self.header().is_settled.load(Ordering::Acquire) || !self.header().refs().strengthen() {
            return None;
        }
        // SAFETY: `strengthen` has counted this one.
        Some(unsafe { TaskRef::counted(self.0) })
    }
}

debug_fields!(impl WeakRef, self => name: self.header().name());

impl Drop for WeakRef {
    fn drop(&mut self) {
        let header = self.header();
        let dealloc = header.vtable.dealloc;
        if header.refs().left() == Leave::Free {
            // SAFETY: no reference is left and the task is over; the vtable fits the cell.
            unsafe { dealloc(self.0) };
        }
    }
}

//! The waker of a task's future: it takes its task, idle or held, without a mark, and reuses its
//! reference count from wake-up to wake-up.
//!
//! A waiting future leaves a clone of its waker and is woken by it, again and again. The count of
//! the clone is reused: the turn gives it away with the clone, the wake-up returns it, and the
//! source keeps it (`has_spare`) for the next clone. So neither a clone nor a wake-up changes the
//! count.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr;
use std::task::{RawWaker, RawWakerVTable, Waker};

use super::Source;
use crate::sync::{keeps, Arc, Ordering, Step};
use crate::task::turn::current;

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

/// A waker that makes this source ready, lent: clones of it last as long as they like.
#[derive(Debug)]
pub(crate) struct LentWaker<'a>(ManuallyDrop<Waker>, PhantomData<&'a Arc<Source>>);

impl Deref for LentWaker<'_> {
    type Target = Waker;

    #[inline(always)]
    fn deref(&self) -> &Waker {
        &self.0
    }
}

/// A waker for as long as the count of the source lasts.
#[inline(always)]
pub(crate) fn waker(source: &Arc<Source>) -> LentWaker<'_> {
    let data = Arc::as_ptr(source).cast();
    // SAFETY: the functions of the table treat the pointer as one reference count. Here that count
    // is only borrowed: this waker is never dropped, nor woken by value.
    let waker = unsafe { Waker::from_raw(RawWaker::new(data, &VTABLE)) };
    LentWaker(ManuallyDrop::new(waker), PhantomData)
}

/// The source behind a waker, without its count.
///
/// # Safety
///
/// The pointer came from `Arc::into_raw`, and its count lasts for as long as the answer is used.
unsafe fn borrow(data: *const ()) -> ManuallyDrop<Arc<Source>> {
    // SAFETY: forwarded to the caller; not dropped, so the count stays.
    ManuallyDrop::new(unsafe { Arc::from_raw(data.cast::<Source>()) })
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: the waker that is cloned holds a count.
    let source = unsafe { borrow(data) };
    if !source.take_spare() {
        let _ = ManuallyDrop::new(Arc::clone(&source));
    }
    RawWaker::new(data, &VTABLE)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: the waker's count is consumed by this call.
    let source = unsafe { Arc::from_raw(data.cast::<Source>()) };
    source.woken();
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: the waker that is used holds a count.
    let source = unsafe { borrow(data) };
    Arc::clone(&source).woken();
}

unsafe fn drop_waker(data: *const ()) {
    // SAFETY: the waker's count is consumed by this call.
    drop(unsafe { Arc::from_raw(data.cast::<Source>()) });
}

impl Source {
    /// Takes the count that the source keeps, if this is a turn of its task and it keeps one.
    #[inline]
    fn take_spare(&self) -> bool {
        // Only turns of the task use the flag; on other threads the result is false.
        let is_in_turn = current::is_current(self.task.header()) || !keeps(Step::SpareInTurn);
        let has = is_in_turn && self.has_spare.load(Ordering::Relaxed);
        if has {
            self.has_spare.store(false, Ordering::Relaxed);
        }
        has
    }

    /// Keeps a count for the next waker. Only in a turn of its task.
    #[inline]
    pub(crate) fn keep_spare_owner(self: Arc<Self>) {
        if self.mark.is_attached() && !self.has_spare.load(Ordering::Relaxed) {
            self.has_spare.store(true, Ordering::Relaxed);
            let _ = Arc::into_raw(self);
        }
    }

    /// Gives the kept count back, before the source is cut off. The caller has another one.
    pub(crate) fn drop_spare_owner(&self) {
        if self.has_spare.load(Ordering::Relaxed) {
            self.has_spare.store(false, Ordering::Relaxed);
            // SAFETY: `keep_spare_owner` has left this count here, and no clone took it.
            drop(unsafe { Arc::from_raw(ptr::from_ref(self)) });
        }
    }
}

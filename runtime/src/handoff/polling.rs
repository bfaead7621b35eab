//! The waker of the future that this thread polls in a turn.
//!
//! A call made inside the poll puts a clone of it into its new channel, where no other thread
//! looks yet. So the first poll of the answer finds its own waker there and stores none: one
//! read-modify-write less for each call that is awaited where it is made.

use std::cell::Cell;
use std::ptr;
use std::task::Waker;

thread_local! {
    static POLLING: Cell<*const Waker> = const { Cell::new(ptr::null()) };
}

/// Restores the waker of the poll around this one, also after a panic.
struct Restore(*const Waker);

impl Drop for Restore {
    #[inline(always)]
    fn drop(&mut self) {
        POLLING.set(self.0);
    }
}

/// Runs the poll of a future with this waker.
#[inline(always)]
pub(crate) fn polling<R>(waker: &Waker, poll: impl FnOnce() -> R) -> R {
    // Cells and no `Scoped`: the compiler would make a call of its closure.
    let _restore = Restore(POLLING.replace(waker));
    poll()
}

/// A clone of the waker of the poll under way, if a turn polls a future.
#[inline(always)]
pub(super) fn polling_waker() -> Option<Waker> {
    // SAFETY: a `polling` that has not returned put it there. The place belongs to this thread, so
    // this call runs inside that `polling`, which holds the borrow.
    unsafe { POLLING.get().as_ref() }.cloned()
}

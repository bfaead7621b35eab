//! The reference count of a task: handles, plus the task's own reference until it is over.
//!
//! The last handle tells the runner that the task is unreachable now. It keeps its count until the
//! signal is sent: without the count, the runner could free the cell meanwhile.

use crate::sync::{AtomicU64, Ordering};

/// The task is over and its own reference is gone.
const OVER: u64 = 1 << 63;
/// One handle that leaves: still counted, but no reason to stay.
const LEAVING: u64 = 1 << 32;

/// References beyond which the process is aborted, as by `Arc`: forgotten handles must not overflow
/// the count. Half of the field's range, so that threads that count at once stay below the range
/// too.
const REFERENCES_MAX: u64 = 1 << 30;

const _: () = assert!(REFERENCES_MAX * 2 * LEAVING <= OVER, "those that leave fit below the mark");

/// The count.
#[derive(Debug)]
pub(crate) struct References(AtomicU64);

/// Ends the process if this count is beyond the limit.
#[inline(always)]
fn check(refs: u64) {
    if refs & (LEAVING - 1) > REFERENCES_MAX {
        std::process::abort();
    }
}

/// Next step of a handle that is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// Nothing to do: the reference is counted out.
    Done,
    /// It was the last reference of a task that is over: free the cell.
    Free,
    /// This is the last handle: signal the runner, then call `left`.
    Last,
}

impl References {
    /// The task's own and one handle's.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(2))
    }

    /// One more, made from an existing one.
    pub(crate) fn add(&self) {
        // Relaxed: a reference is always made from an existing one, as in `Arc`.
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        debug_assert!(before & !OVER > 0, "a task came back from the dead");
        check(before);
    }

    /// One more that is no reason to stay, made from an existing one.
    pub(crate) fn weaken(&self) {
        // Relaxed: as in `add`.
        let before = self.0.fetch_add(LEAVING + 1, Ordering::Relaxed);
        debug_assert!(before & !OVER > 0, "a task came back from the dead");
        check(before);
    }

    /// Adds a handle, made from a weak one. False if the task is over.
    pub(crate) fn strengthen(&self) -> bool {
        let mut seen = self.0.load(Ordering::Relaxed);
        while seen & OVER == 0 {
            check(seen);
            // AcqRel: in line with the handles that have left, as if it had been one of them.
            match self.0.compare_exchange(seen, seen + 1, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Whether only the task's own reference is left; leaving handles do not count.
    pub(crate) fn is_unreferenced(&self) -> bool {
        // Acquire: pairs with the exchange in `leave`.
        staying(self.0.load(Ordering::Acquire)) == 1
    }

    /// Removes a handle.
    pub(crate) fn leave(&self) -> Leave {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            if seen & OVER != 0 {
                return self.release(1);
            }
            let is_last = staying(seen) == 2;
            let next = if is_last { seen + LEAVING } else { seen - 1 };
            // Release: the thread's writes happen before the end; pairs with `release` and
            // `is_unreferenced`.
            match self.0.compare_exchange(seen, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) if is_last => return Leave::Last,
                Ok(_) => return Leave::Done,
                Err(now) => seen = now,
            }
        }
    }

    /// Removes the last handle after its signal, or a weak handle.
    pub(crate) fn left(&self) -> Leave {
        self.release(LEAVING + 1)
    }

    fn release(&self, count: u64) -> Leave {
        // AcqRel: pairs with every other release.
        let before = self.0.fetch_sub(count, Ordering::AcqRel);
        if before == OVER + count {
            Leave::Free
        } else {
            Leave::Done
        }
    }

    /// Removes the task's own reference after its last turn. Returns whether to free the cell.
    pub(crate) fn release_own(&self) -> bool {
        // AcqRel: as in `release`.
        let before = self.0.fetch_add(OVER - 1, Ordering::AcqRel);
        debug_assert!(before & OVER == 0, "a task ended twice");
        before == 1
    }
}

/// References that are not about to go.
fn staying(refs: u64) -> u64 {
    (refs & (LEAVING - 1)) - (refs & !OVER) / LEAVING
}

#[cfg(test)]
#[path = "../../../tests/unit/references.rs"]
mod tests;

//! A value that is lent out and given back, without a lock.
//!
//! The value is in a *cell*, moved once in and once out; the borrower uses it in place. One word
//! records its state, and the last of the two sides frees the cell. Model:
//! `loom-tests/tests/models/lending.rs`.

use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::sync::{AtomicU8, Ordering, UnsafeCell};

/// Nothing is in the cell.
const EMPTY: u8 = 0;
/// The value is there, and the borrower's.
const OUT: u8 = 1;
/// The value is there, given back.
const BACK: u8 = 2;
/// The lender has gone: cell and value belong to the borrower.
const LEFT: u8 = 3;

struct LoanCell<T> {
    /// From `EMPTY` and to it by the lender alone; from `OUT` by one exchange of either side.
    place: AtomicU8,
    value: UnsafeCell<MaybeUninit<T>>,
}

/// Lends one value at a time.
///
/// ```
/// use turnwheel_runtime::internal::Lender;
/// let mut lender = Lender::new();
/// let mut lent = lender.lend(1);
/// *lent += 1;
/// assert_eq!(lender.fetch(), None);
/// drop(lent);
/// assert_eq!(lender.fetch(), Some(2));
/// ```
pub struct Lender<T>(Option<NonNull<LoanCell<T>>>);

/// A value on loan; dropping it gives it back, or drops it if its lender has gone.
pub struct Lent<T>(NonNull<LoanCell<T>>);

// SAFETY: only the value is sent between threads with it.
unsafe impl<T: Send> Send for Lender<T> {}
// SAFETY: through a borrow only the word is read.
unsafe impl<T: Send> Sync for Lender<T> {}
// SAFETY: as for the lender.
unsafe impl<T: Send> Send for Lent<T> {}
// SAFETY: a borrow of it is a borrow of the value.
unsafe impl<T: Sync> Sync for Lent<T> {}

impl<T> Lender<T> {
    /// Returns a lender that has lent nothing. No allocation.
    pub const fn new() -> Self {
        Self(None)
    }

    /// Lends a value. One allocation at the first time, and while another value is out: that one is
    /// dropped when it is given back.
    pub fn lend(&mut self, value: T) -> Lent<T> {
        let cell = match self.0 {
            Some(cell) if self.is_empty() => cell,
            _ => self.make_cell(),
        };
        // SAFETY: a lender keeps its cell.
        let place = unsafe { cell.as_ref() };
        debug_assert!(place.place.load(Ordering::Relaxed) == EMPTY, "one value at a time");
        // SAFETY: the cell is empty, so that no other thread reaches it.
        place.value.with_mut(|to| unsafe { to.cast::<T>().write(value) });
        // Relaxed: only the lender looks, and the thread that the loan is sent to.
        place.place.store(OUT, Ordering::Relaxed);
        Lent(cell)
    }

    /// Makes an empty cell in place of the previous one.
    #[cold]
    fn make_cell(&mut self) -> NonNull<LoanCell<T>> {
        let place = AtomicU8::new(EMPTY);
        let made = Box::new(LoanCell { place, value: UnsafeCell::new(MaybeUninit::uninit()) });
        let cell = NonNull::from(Box::leak(made));
        drop(std::mem::replace(self, Self(Some(cell))));
        cell
    }

    /// The value, if it was given back.
    #[inline]
    pub fn fetch(&mut self) -> Option<T> {
        // SAFETY: a lender keeps its cell.
        let cell = unsafe { self.0?.as_ref() };
        // Acquire: pairs with the exchange that gave it back.
        if cell.place.load(Ordering::Acquire) != BACK {
            return None;
        }
        cell.place.store(EMPTY, Ordering::Relaxed);
        // SAFETY: the borrower gave the value back, so it is initialized and ours; it is read once.
        Some(cell.value.with(|value| unsafe { value.cast::<T>().read() }))
    }

    /// Whether nothing is lent, nor given back and not fetched.
    pub fn is_empty(&self) -> bool {
        self.0.is_none_or(|cell| {
            // SAFETY: a lender keeps its cell.
            unsafe { cell.as_ref() }.place.load(Ordering::Acquire) == EMPTY
        })
    }
}

/// Frees the cell, and drops the value in it.
///
/// # Safety
///
/// No other thread reaches it, and the value is there.
unsafe fn free_with_value<T>(cell: NonNull<LoanCell<T>>) {
    // SAFETY: made of a box; no other thread reaches it.
    let cell = unsafe { Box::from_raw(cell.as_ptr()) };
    // SAFETY: the value is initialized, and read once.
    let value = cell.value.with(|value| unsafe { value.cast::<T>().read() });
    // In this order: the value's drop may panic.
    drop(cell);
    drop(value);
}

impl<T> Drop for Lender<T> {
    fn drop(&mut self) {
        let Some(cell) = self.0.take() else { return };
        // SAFETY: the lender has kept its cell until now.
        let place = unsafe { &cell.as_ref().place };
        // AcqRel: one exchange decides between lender and borrower; shows the value.
        match place.swap(LEFT, Ordering::AcqRel) {
            // It belongs to the borrower, and may be gone.
            OUT => {}
            // SAFETY: given back, so the other side reaches it no more.
            BACK => unsafe { free_with_value(cell) },
            // SAFETY: made from a box; the other side is gone.
            _ => drop(unsafe { Box::from_raw(cell.as_ptr()) }),
        }
    }
}

impl<T> Drop for Lent<T> {
    fn drop(&mut self) {
        // SAFETY: the cell lasts while the value is out.
        let place = unsafe { &self.0.as_ref().place };
        // AcqRel: publishes the value; shows that the lender has gone. After it, nothing is
        // touched.
        let back = place.compare_exchange(OUT, BACK, Ordering::AcqRel, Ordering::Acquire);
        if let Err(seen) = back {
            debug_assert!(seen == LEFT, "who has the value gives it back once");
            // SAFETY: the lender has gone and has left both to us.
            unsafe { free_with_value(self.0) };
        }
    }
}

impl<T> Deref for Lent<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the value is there and ours while it is out.
        self.value().with(|value| unsafe { &*value.cast::<T>() })
    }
}

impl<T> DerefMut for Lent<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above; the whole value is borrowed.
        self.value().with_mut(|value| unsafe { &mut *value.cast::<T>() })
    }
}

impl<T> Lent<T> {
    #[inline(always)]
    fn value(&self) -> &UnsafeCell<MaybeUninit<T>> {
        // SAFETY: the cell lasts while the value is out.
        unsafe { &self.0.as_ref().value }
    }
}

impl<T> Default for Lender<T> {
    fn default() -> Self {
        Self::new()
    }
}

debug_fields!(impl<T> Lender<T>, self => is_empty: self.is_empty());

debug_fields!(impl<T> Lent<T>, self =>);

//! The memory of an exchange: who counts on it, and the handles that know it without its value.
//!
//! The counts lie in the same word as the states, so that a giver gives and goes in one step. What a
//! value's type is, only giver and taker know; they are the only ones that reach it.

use std::fmt;
use std::mem::{offset_of, ManuallyDrop, MaybeUninit};
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::task::{RawWakerVTable, Waker};

use crate::sync::{AtomicPtr, AtomicU64, Ordering, UnsafeCell};

/// One that counts: giver, taker, [`SharedExchange`].
pub(super) const STRONG: u64 = 1 << 8;
/// All that count.
const STRONG_ALL: u64 = (WEAK - 1) & !(STRONG - 1);
/// One that holds the memory; all that count are one together.
pub(super) const WEAK: u64 = 1 << 32;
/// Handles of a kind beyond which the process is aborted, as by `Arc`: forgotten ones must not bring the
/// count round to zero, nor into what is beside it. Half of what fits, so that threads which count at
/// once stay below that too.
const COUNT_MAX: u64 = 1 << 23;

const _: () =
    assert!(2 * COUNT_MAX * STRONG <= WEAK, "the handles that count fit below the others");

/// What giver and taker share, and the notes `N` that both can read.
#[repr(C)]
pub struct Exchange<N> {
    /// States and counts; see `README.md`. Any thread, by read-modify-write only.
    pub(super) word: AtomicU64,
    /// The two halves of the taker's waker, while `WAKER` is set and nothing is settled.
    waker_data: AtomicPtr<()>,
    waker_table: AtomicPtr<RawWakerVTable>,
    /// Gives the memory back; knows the type of the value.
    free: unsafe fn(NonNull<Self>),
    /// There while anybody counts.
    notes: ManuallyDrop<N>,
}

/// An exchange with the place for its value.
#[repr(C)]
pub(super) struct Whole<T, N> {
    head: Exchange<N>,
    /// There while `GIVEN` is set and the taker has not taken it.
    value: UnsafeCell<MaybeUninit<T>>,
}

impl<N> Exchange<N> {
    /// One that `strong` count on.
    pub(super) fn make<T>(notes: N, strong: u64) -> NonNull<Self> {
        let whole = Whole::<T, N> {
            head: Self {
                word: AtomicU64::new(strong * STRONG + WEAK),
                waker_data: AtomicPtr::new(ptr::null_mut()),
                waker_table: AtomicPtr::new(ptr::null_mut()),
                free: free::<T, N>,
                notes: ManuallyDrop::new(notes),
            },
            value: UnsafeCell::new(MaybeUninit::uninit()),
        };
        memory::put(whole).cast()
    }

    /// What both sides can read.
    #[inline(always)]
    pub fn notes(&self) -> &N {
        &self.notes
    }

    /// Puts a waker down; the caller is the taker, and `WAKER` is not set.
    #[inline]
    pub(super) fn put_waker(&self, waker: Waker) {
        let waker = ManuallyDrop::new(waker);
        // Release: who reads a half of it sees that the one before was taken back.
        self.waker_data.store(waker.data().cast_mut(), Ordering::Release);
        self.waker_table.store(ptr::from_ref(waker.vtable()).cast_mut(), Ordering::Release);
    }

    /// What lies in the place of the waker. Acquire: see `put_waker`.
    #[inline]
    pub(super) fn waker_parts(&self) -> Parts {
        Parts(
            self.waker_data.load(Ordering::Acquire),
            self.waker_table.load(Ordering::Acquire).cast_const(),
        )
    }

    /// One more that counts, made from an existing one.
    fn count(&self) {
        // Relaxed: as in `Arc`.
        let before = self.word.fetch_add(STRONG, Ordering::Relaxed);
        check((before & STRONG_ALL) / STRONG);
    }

    /// One more that holds the memory, made from an existing one.
    fn hold(&self) {
        // Relaxed: as in `Arc`.
        let before = self.word.fetch_add(WEAK, Ordering::Relaxed);
        check(before / WEAK);
    }
}

/// Ends the process if there are that many. Not by a panic: the handle is counted already, and who
/// caught the panic could count again.
#[inline(always)]
fn check(count: u64) {
    if count > COUNT_MAX {
        std::process::abort();
    }
}

/// The two halves of a waker.
#[derive(Clone, Copy)]
pub(super) struct Parts(*mut (), *const RawWakerVTable);

impl Parts {
    #[inline]
    pub(super) fn is(self, waker: &Waker) -> bool {
        ptr::eq(self.0, waker.data()) && ptr::eq(self.1, waker.vtable())
    }

    /// The waker.
    ///
    /// # Safety
    ///
    /// They are the halves of one waker, and the caller's.
    #[inline]
    pub(super) unsafe fn into_waker(self) -> Waker {
        // SAFETY: the table of a waker lasts for ever.
        let table = unsafe { &*self.1 };
        // SAFETY: forwarded to the caller.
        unsafe { Waker::new(self.0, table) }
    }
}

/// The place of the value.
///
/// # Safety
///
/// The exchange was made for a `T`, and the caller counts on it.
#[inline(always)]
pub(super) unsafe fn value_of<'a, T, N>(
    exchange: NonNull<Exchange<N>>,
) -> &'a UnsafeCell<MaybeUninit<T>> {
    let offset = offset_of!(Whole<T, N>, value);
    // SAFETY: the pointer was made from the whole, which has the value at this place.
    let place = unsafe { exchange.byte_add(offset) }.cast::<UnsafeCell<MaybeUninit<T>>>();
    // SAFETY: as above; the caller's count keeps it.
    unsafe { place.as_ref() }
}

unsafe fn free<T, N>(exchange: NonNull<Exchange<N>>) {
    // SAFETY: made by `make::<T>`; nobody holds the memory any more.
    unsafe { memory::drop_place(exchange.cast::<Whole<T, N>>()) };
}

/// One that counts goes.
///
/// # Safety
///
/// The caller's count goes with this call.
#[inline]
pub(super) unsafe fn release<N>(exchange: NonNull<Exchange<N>>) {
    // SAFETY: the caller counts on it.
    let shared = unsafe { exchange.as_ref() };
    // Acquire: pairs with the going of all others. With nobody else there, nobody comes.
    let seen = shared.word.load(Ordering::Acquire);
    if seen & !(STRONG - 1) == STRONG + WEAK {
        // SAFETY: the caller is the only one that counts, and nobody holds the memory beside it.
        return unsafe { end(exchange) };
    }
    // AcqRel: pairs with itself and the look above.
    let before = shared.word.fetch_sub(STRONG, Ordering::AcqRel);
    if before & STRONG_ALL == STRONG {
        // SAFETY: the last one that counted has gone.
        unsafe { drop_notes(exchange) };
        // SAFETY: all that counted have held the memory together.
        unsafe { let_go(exchange) };
    }
}

/// Nobody counts and nobody holds the memory.
unsafe fn end<N>(exchange: NonNull<Exchange<N>>) {
    // SAFETY: nobody counts any more.
    unsafe { drop_notes(exchange) };
    // SAFETY: nobody else holds the memory.
    let free = unsafe { exchange.as_ref() }.free;
    // SAFETY: as above; the function was made for this exchange.
    unsafe { free(exchange) };
}

unsafe fn drop_notes<N>(exchange: NonNull<Exchange<N>>) {
    // SAFETY: within the exchange, whose memory is held.
    let notes = unsafe { exchange.byte_add(offset_of!(Exchange<N>, notes)) }.cast::<N>();
    // SAFETY: nobody counts, so that nobody reads them; dropped once, by the last one that did.
    unsafe { notes.drop_in_place() };
}

/// One that holds the memory goes.
unsafe fn let_go<N>(exchange: NonNull<Exchange<N>>) {
    // SAFETY: the caller holds the memory.
    let shared = unsafe { exchange.as_ref() };
    let free = shared.free;
    // AcqRel: pairs with itself.
    if shared.word.fetch_sub(WEAK, Ordering::AcqRel) / WEAK == 1 {
        // SAFETY: nobody holds the memory any more; the function was made for this exchange.
        unsafe { free(exchange) };
    }
}

/// A handle of an exchange that is neither giver nor taker; it keeps the notes.
pub struct SharedExchange<N>(pub(super) NonNull<Exchange<N>>);

// SAFETY: through it only the head is reached, which any thread may touch; the last one drops the
// notes where it is.
unsafe impl<N: Send + Sync> Send for SharedExchange<N> {}
// SAFETY: as above.
unsafe impl<N: Send + Sync> Sync for SharedExchange<N> {}

impl<N> SharedExchange<N> {
    /// Of an exchange that a giver, a taker or another handle counts on.
    pub(super) fn of(exchange: &Exchange<N>, whole: NonNull<Exchange<N>>) -> Self {
        debug_assert!(ptr::eq(exchange, whole.as_ptr()), "both are the same");
        exchange.count();
        Self(whole)
    }

    /// A handle that keeps the memory alone.
    pub fn downgrade(&self) -> WeakExchange<N> {
        WeakExchange::of(self, self.0)
    }
}

impl<N> Deref for SharedExchange<N> {
    type Target = Exchange<N>;

    #[inline(always)]
    fn deref(&self) -> &Exchange<N> {
        // SAFETY: our count keeps it.
        unsafe { self.0.as_ref() }
    }
}

impl<N> Clone for SharedExchange<N> {
    fn clone(&self) -> Self {
        Self::of(self, self.0)
    }
}

impl<N> Drop for SharedExchange<N> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: our count goes.
        unsafe { release(self.0) };
    }
}

impl<N> fmt::Debug for SharedExchange<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedExchange").field(&**self).finish()
    }
}

/// A handle of an exchange that keeps its memory, and neither its notes nor whoever gives or takes.
pub struct WeakExchange<N>(NonNull<Exchange<N>>);

// SAFETY: as for `SharedExchange`, which it may become.
unsafe impl<N: Send + Sync> Send for WeakExchange<N> {}
// SAFETY: as above.
unsafe impl<N: Send + Sync> Sync for WeakExchange<N> {}

impl<N> WeakExchange<N> {
    /// Of an exchange that a giver, a taker or another handle counts on.
    pub(super) fn of(exchange: &Exchange<N>, whole: NonNull<Exchange<N>>) -> Self {
        debug_assert!(ptr::eq(exchange, whole.as_ptr()), "both are the same");
        exchange.hold();
        Self(whole)
    }

    /// A handle that keeps the notes; `None` if giver, taker and all other such handles are gone.
    pub fn upgrade(&self) -> Option<SharedExchange<N>> {
        // SAFETY: we hold the memory; the notes, which may be gone, are not touched.
        let word = &unsafe { self.0.as_ref() }.word;
        let mut seen = word.load(Ordering::Relaxed);
        while seen & STRONG_ALL != 0 {
            check((seen & STRONG_ALL) / STRONG);
            // Acquire: as in `Arc`.
            match word.compare_exchange(seen, seen + STRONG, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(SharedExchange(self.0)),
                Err(newer) => seen = newer,
            }
        }
        None
    }
}

impl<N> Clone for WeakExchange<N> {
    fn clone(&self) -> Self {
        // SAFETY: we hold the memory; the notes, which may be gone, are not touched.
        unsafe { self.0.as_ref() }.hold();
        Self(self.0)
    }
}

impl<N> Drop for WeakExchange<N> {
    fn drop(&mut self) {
        // SAFETY: what we hold goes.
        unsafe { let_go(self.0) };
    }
}

impl<N> fmt::Debug for WeakExchange<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakExchange").finish_non_exhaustive()
    }
}

/// Where exchanges lie: reused like the cells of tasks.
#[cfg(not(turnwheel_loom))]
mod memory {
    use std::alloc::Layout;
    use std::ptr::NonNull;

    use crate::slab;

    #[inline]
    pub(super) fn put<W>(whole: W) -> NonNull<W> {
        let place = slab::take(Layout::new::<W>()).cast::<W>();
        // SAFETY: the place is exclusive, large enough and aligned.
        unsafe { place.write(whole) };
        NonNull::new(place).expect("the allocator answers no null")
    }

    /// # Safety
    ///
    /// It came from `put`, and nobody reaches it any more.
    #[inline]
    pub(super) unsafe fn drop_place<W>(place: NonNull<W>) {
        // SAFETY: forwarded to the caller.
        unsafe { place.drop_in_place() };
        // SAFETY: it came from there with this layout.
        unsafe { slab::give(place.as_ptr().cast(), Layout::new::<W>()) };
    }
}

/// The model's atomics are more than their value: the model wants each where it was made.
#[cfg(turnwheel_loom)]
mod memory {
    use std::ptr::NonNull;

    pub(super) fn put<W>(whole: W) -> NonNull<W> {
        NonNull::from(Box::leak(Box::new(whole)))
    }

    pub(super) unsafe fn drop_place<W>(place: NonNull<W>) {
        // SAFETY: forwarded to the caller; made by `put`.
        drop(unsafe { Box::from_raw(place.as_ptr()) });
    }
}

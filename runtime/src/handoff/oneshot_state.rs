//! Memory of a oneshot channel: its reference counts, and handles that do not know the value's
//! type.
//!
//! Counts and state share one word, so that the sender sends and releases its count in one step.
//! Only sender and receiver know the type of the value, and only they reach it.

use std::mem::{offset_of, ManuallyDrop, MaybeUninit};
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::task::{RawWakerVTable, Waker};

use crate::checked::Life;
use crate::failure::contain;
use crate::sync::{AtomicPtr, AtomicU64, Ordering, UnsafeCell};

/// The receiver has stored a waker, unless a bit of `SETTLED` was set before.
pub(super) const WAKER: u64 = 1;
/// One strong reference: sender, receiver or [`SharedOneshot`].
pub(super) const STRONG: u64 = 1 << 8;
/// Mask of the strong references.
const STRONG_ALL: u64 = (WEAK - 1) & !(STRONG - 1);
/// One weak reference, which keeps the memory. All strong references share one.
pub(super) const WEAK: u64 = 1 << 32;
/// Handles of a kind beyond which the process is aborted, as by `Arc`: forgotten handles must not
/// overflow the count into the neighbouring bits. Half of the field's range, so that threads that
/// count at once stay below the range too.
const COUNT_MAX: u64 = 1 << 23;

const _: () =
    assert!(2 * COUNT_MAX * STRONG <= WEAK, "the handles that count fit below the others");

/// State that sender and receiver share, and the metadata `N`.
#[repr(C)]
pub struct Oneshot<N> {
    /// States and counts; see `README.md`. Any thread, by read-modify-write only.
    pub(super) word: AtomicU64,
    /// The two halves of the receiver's waker; valid while `WAKER` is set and nothing is settled.
    waker_data: AtomicPtr<()>,
    waker_table: AtomicPtr<RawWakerVTable>,
    /// Frees the memory; instantiated for the type of the value.
    free: unsafe fn(NonNull<Self>),
    /// Nothing unless checked.
    life: Life,
    /// Initialized while a strong reference exists.
    metadata: ManuallyDrop<N>,
}

/// The shared state followed by the place for the value.
#[repr(C)]
pub(super) struct OneshotMemory<T, N> {
    head: Oneshot<N>,
    /// Initialized while `SENT` is set and the receiver has not read it.
    value: UnsafeCell<MaybeUninit<T>>,
}

impl<N> Oneshot<N> {
    /// Allocates one with so many strong references, and the receiver's waker if it has one.
    #[inline(always)]
    pub(super) fn make<T>(metadata: N, strong: u64, waker: Option<Waker>) -> NonNull<Self> {
        let counts = strong * STRONG + WEAK;
        let (word, parts) = match waker.map(ManuallyDrop::new) {
            None => (counts, Parts(ptr::null_mut(), ptr::null())),
            Some(waker) => (counts | WAKER, Parts::of(&waker)),
        };
        let head = Self {
            word: AtomicU64::new(word),
            waker_data: AtomicPtr::new(parts.0),
            waker_table: AtomicPtr::new(parts.1.cast_mut()),
            free: free::<T, N>,
            life: Life::new(),
            metadata: ManuallyDrop::new(metadata),
        };
        memory::put::<T, N>(head)
    }

    /// The same; under `turnwheel_checked` the process ends unless it lives.
    #[inline(always)]
    pub(super) fn alive(&self) -> &Self {
        self.life.check();
        self
    }

    /// Data that both sides can read.
    #[inline(always)]
    pub fn metadata(&self) -> &N {
        &self.metadata
    }

    /// Stores a waker. Only the receiver calls it, while `WAKER` is not set.
    #[inline]
    pub(super) fn put_waker(&self, waker: Waker) {
        let Parts(data, table) = Parts::of(&ManuallyDrop::new(waker));
        // Release: a thread that reads one half also sees that the former waker was taken back.
        self.waker_data.store(data, Ordering::Release);
        self.waker_table.store(table.cast_mut(), Ordering::Release);
    }

    /// Reads both halves of the waker. Acquire: pairs with `put_waker`.
    #[inline]
    pub(super) fn waker_parts(&self) -> Parts {
        Parts(
            self.waker_data.load(Ordering::Acquire),
            self.waker_table.load(Ordering::Acquire).cast_const(),
        )
    }

    /// Adds a strong reference; the caller has one.
    fn count(&self) {
        // Relaxed: as in `Arc`.
        let before = self.word.fetch_add(STRONG, Ordering::Relaxed);
        check((before & STRONG_ALL) / STRONG);
    }

    /// Adds a weak reference; the caller keeps the memory.
    fn hold(&self) {
        // Relaxed: as in `Arc`.
        let before = self.word.fetch_add(WEAK, Ordering::Relaxed);
        check(before / WEAK);
    }
}

/// Aborts the process at the maximum. A panic would not do: the handle is counted already, and a
/// caller that catches the panic could count again.
#[inline(always)]
fn check(count: u64) {
    if count > COUNT_MAX {
        std::process::abort();
    }
}

/// Data pointer and table of a waker.
#[derive(Clone, Copy)]
pub(super) struct Parts(*mut (), *const RawWakerVTable);

impl Parts {
    #[inline]
    fn of(waker: &Waker) -> Self {
        Self(waker.data().cast_mut(), waker.vtable())
    }

    #[inline]
    pub(super) fn is(self, waker: &Waker) -> bool {
        ptr::eq(self.0, waker.data()) && ptr::eq(self.1, waker.vtable())
    }

    /// Rebuilds the waker.
    ///
    /// # Safety
    ///
    /// Both halves belong to one waker, which the caller owns.
    #[inline]
    pub(super) unsafe fn into_waker(self) -> Waker {
        // SAFETY: the table of a waker lasts for ever.
        let table = unsafe { &*self.1 };
        // SAFETY: forwarded to the caller.
        unsafe { Waker::new(self.0, table) }
    }
}

/// Drops a waker that is not to wake any more. It is user code: a panic must not keep a channel
/// from its next step.
pub(super) fn let_go(waker: Option<Waker>) {
    if let Some(waker) = waker {
        contain("dropping a waker", || drop(waker));
    }
}

/// Returns the place of the value.
///
/// # Safety
///
/// The channel was made for a `T`, and the caller holds a strong reference.
#[inline(always)]
pub(super) unsafe fn value_of<'a, T, N>(
    state: NonNull<Oneshot<N>>,
) -> &'a UnsafeCell<MaybeUninit<T>> {
    let offset = offset_of!(OneshotMemory<T, N>, value);
    // SAFETY: the pointer was made from the whole allocation, which has the value at this offset.
    let place = unsafe { state.byte_add(offset) }.cast::<UnsafeCell<MaybeUninit<T>>>();
    // SAFETY: as above; the caller's reference keeps it.
    unsafe { place.as_ref() }
}

unsafe fn free<T, N>(state: NonNull<Oneshot<N>>) {
    // SAFETY: made by `make::<T>`; no reference is left.
    unsafe { memory::drop_place(state.cast::<OneshotMemory<T, N>>()) };
}

/// Releases a strong reference.
///
/// # Safety
///
/// The caller gives up one strong reference.
#[inline]
pub(super) unsafe fn release<N>(state: NonNull<Oneshot<N>>) {
    // SAFETY: the caller holds a strong reference.
    let shared = unsafe { state.as_ref() }.alive();
    // Acquire: pairs with all other releases. A sole owner needs no atomic write: no new handle can
    // appear.
    let seen = shared.word.load(Ordering::Acquire);
    if seen & !(STRONG - 1) == STRONG + WEAK {
        // SAFETY: the caller holds the only reference of either kind.
        return unsafe { end(state) };
    }
    // AcqRel: pairs with itself and the load above.
    let before = shared.word.fetch_sub(STRONG, Ordering::AcqRel);
    if before & STRONG_ALL == STRONG {
        // SAFETY: this was the last strong reference.
        unsafe { drop_metadata(state) };
        // SAFETY: releases the weak reference that the strong ones shared.
        unsafe { release_memory(state) };
    }
}

/// Drops the metadata and frees the memory. No reference is left.
unsafe fn end<N>(state: NonNull<Oneshot<N>>) {
    // SAFETY: no strong reference is left.
    unsafe { drop_metadata(state) };
    // SAFETY: the memory is still ours.
    let free = unsafe { state.as_ref() }.free;
    // SAFETY: as above; `free` was instantiated for this value type.
    unsafe { free(state) };
}

unsafe fn drop_metadata<N>(state: NonNull<Oneshot<N>>) {
    // SAFETY: within the allocation, which is still held.
    let metadata = unsafe { state.byte_add(offset_of!(Oneshot<N>, metadata)) }.cast::<N>();
    // SAFETY: no strong reference is left, so nothing reads it; the last one drops it once.
    unsafe { metadata.drop_in_place() };
}

/// Releases a weak reference.
unsafe fn release_memory<N>(state: NonNull<Oneshot<N>>) {
    // SAFETY: the caller holds a weak reference.
    let shared = unsafe { state.as_ref() }.alive();
    let free = shared.free;
    // AcqRel: pairs with itself.
    if shared.word.fetch_sub(WEAK, Ordering::AcqRel) / WEAK == 1 {
        // SAFETY: no reference is left; `free` was instantiated for this value type.
        unsafe { free(state) };
    }
}

/// Handle on the state of a channel, besides sender and receiver; keeps the metadata.
pub struct SharedOneshot<N>(pub(super) NonNull<Oneshot<N>>);

// SAFETY: it reaches the head only, which any thread may use; the last one drops the metadata on
// its own thread.
unsafe impl<N: Send + Sync> Send for SharedOneshot<N> {}
// SAFETY: as above.
unsafe impl<N: Send + Sync> Sync for SharedOneshot<N> {}

impl<N> SharedOneshot<N> {
    /// Adds a handle; the caller has a strong reference.
    pub(super) fn of(state: &Oneshot<N>, pointer: NonNull<Oneshot<N>>) -> Self {
        debug_assert!(ptr::eq(state, pointer.as_ptr()), "both are the same");
        state.count();
        Self(pointer)
    }

    /// Returns a handle that keeps the memory, not the metadata.
    pub fn downgrade(&self) -> WeakOneshot<N> {
        WeakOneshot::of(self, self.0)
    }
}

impl<N> SharedOneshot<N> {
    /// Drops the handle. Returns the metadata if it was the last strong reference.
    pub fn into_metadata(self) -> Option<N> {
        let state = ManuallyDrop::new(self).0;
        // SAFETY: our reference keeps it.
        let shared = unsafe { state.as_ref() }.alive();
        // AcqRel: as in `release`.
        if shared.word.fetch_sub(STRONG, Ordering::AcqRel) & STRONG_ALL != STRONG {
            return None;
        }
        // SAFETY: within the allocation, which the weak reference of the strong ones holds.
        let metadata = unsafe { state.byte_add(offset_of!(Oneshot<N>, metadata)) }.cast::<N>();
        // SAFETY: no strong reference is left, so nothing reads it, and it is read once.
        let metadata = unsafe { metadata.read() };
        // SAFETY: releases the weak reference that the strong ones shared.
        unsafe { release_memory(state) };
        Some(metadata)
    }
}

impl<N> Deref for SharedOneshot<N> {
    type Target = Oneshot<N>;

    #[inline(always)]
    fn deref(&self) -> &Oneshot<N> {
        // SAFETY: our reference keeps it.
        unsafe { self.0.as_ref() }.alive()
    }
}

impl<N> Clone for SharedOneshot<N> {
    fn clone(&self) -> Self {
        Self::of(self, self.0)
    }
}

impl<N> Drop for SharedOneshot<N> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: releases our reference.
        unsafe { release(self.0) };
    }
}

debug_fields!(impl<N> SharedOneshot<N>, self => state: **self);

/// Weak handle: keeps the memory of a channel, and neither its metadata nor its two ends.
pub struct WeakOneshot<N>(NonNull<Oneshot<N>>);

// SAFETY: as for `SharedOneshot`, which it may become.
unsafe impl<N: Send + Sync> Send for WeakOneshot<N> {}
// SAFETY: as above.
unsafe impl<N: Send + Sync> Sync for WeakOneshot<N> {}

impl<N> WeakOneshot<N> {
    /// Adds a handle; the caller has a strong reference.
    pub(super) fn of(state: &Oneshot<N>, pointer: NonNull<Oneshot<N>>) -> Self {
        debug_assert!(ptr::eq(state, pointer.as_ptr()), "both are the same");
        state.hold();
        Self(pointer)
    }

    /// Returns a strong handle; `None` if no strong reference is left.
    pub fn upgrade(&self) -> Option<SharedOneshot<N>> {
        // SAFETY: we keep the memory; the metadata, which may be dropped, is not touched.
        let word = &unsafe { self.0.as_ref() }.word;
        let mut seen = word.load(Ordering::Relaxed);
        while seen & STRONG_ALL != 0 {
            check((seen & STRONG_ALL) / STRONG);
            // Acquire: as in `Arc`.
            match word.compare_exchange(seen, seen + STRONG, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(SharedOneshot(self.0)),
                Err(newer) => seen = newer,
            }
        }
        None
    }
}

impl<N> Clone for WeakOneshot<N> {
    fn clone(&self) -> Self {
        // SAFETY: we keep the memory; the metadata, which may be dropped, is not touched.
        unsafe { self.0.as_ref() }.hold();
        Self(self.0)
    }
}

impl<N> Drop for WeakOneshot<N> {
    fn drop(&mut self) {
        // SAFETY: releases our weak reference.
        unsafe { release_memory(self.0) };
    }
}

debug_fields!(impl<N> WeakOneshot<N>, self =>);

/// Allocation: memory is reused, like that of task cells.
mod memory {
    use std::alloc::Layout;
    use std::ptr::NonNull;

    use super::{Oneshot, OneshotMemory};
    use crate::slab;

    /// The value's place stays as it is: it may be large, and is not moved there by way of a stack.
    #[inline]
    pub(super) fn put<T, N>(head: Oneshot<N>) -> NonNull<Oneshot<N>> {
        let place = slab::take(Layout::new::<OneshotMemory<T, N>>()).cast::<Oneshot<N>>();
        // SAFETY: the memory is exclusive, large enough and aligned. The head comes first; the
        // value's place behind it needs no initialization.
        unsafe { place.write(head) };
        #[cfg(turnwheel_loom)]
        {
            // A cell of the models is more than its value.
            let value = crate::sync::UnsafeCell::new(std::mem::MaybeUninit::<T>::uninit());
            // SAFETY: the field is within the memory.
            let at = unsafe { &raw mut (*place.cast::<OneshotMemory<T, N>>()).value };
            // SAFETY: the place is exclusive, and nothing was there.
            unsafe { at.write(value) };
        }
        NonNull::new(place).expect("the allocator answers no null")
    }

    /// # Safety
    ///
    /// The pointer came from `put`, and no other thread or handle reaches it any more.
    #[inline]
    pub(super) unsafe fn drop_place<W>(place: NonNull<W>) {
        // SAFETY: forwarded to the caller.
        unsafe { place.drop_in_place() };
        // SAFETY: it came from there with this layout.
        unsafe { slab::give(place.as_ptr().cast(), Layout::new::<W>()) };
    }
}

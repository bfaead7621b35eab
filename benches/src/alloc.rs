//! A global allocator that counts: allocations so far, and bytes that live.
//!
//! One of the two named exceptions to «unsafe only in the runtime» (design.md section 9). Counters
//! are kept per thread, so that counting does not make threads share a cache line.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

#[cfg(feature = "mimalloc")]
static INNER: mimalloc::MiMalloc = mimalloc::MiMalloc;
#[cfg(not(feature = "mimalloc"))]
static INNER: std::alloc::System = std::alloc::System;

/// Threads with a counter of their own; later ones share the last. A child process of the harness
/// starts about twenty.
const SLOTS: usize = 512;

/// The counters of one thread, alone on their cache lines.
#[repr(align(128))]
struct Slot {
    allocations: AtomicU64,
    live_bytes: AtomicI64,
}

static COUNTERS: [Slot; SLOTS] =
    [const { Slot { allocations: AtomicU64::new(0), live_bytes: AtomicI64::new(0) } }; SLOTS];
static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Counts, and leaves the work to the system's allocator (or mimalloc, as a feature).
#[derive(Debug)]
pub(crate) struct Counting;

/// Heap allocations of the process so far, reallocations included.
pub(crate) fn allocations() -> u64 {
    COUNTERS.iter().map(|slot| slot.allocations.load(Ordering::Relaxed)).sum()
}

/// Bytes allocated and not freed, as asked for: without what the allocator adds.
pub(crate) fn live_bytes() -> i64 {
    COUNTERS.iter().map(|slot| slot.live_bytes.load(Ordering::Relaxed)).sum()
}

fn count(allocations: u64, bytes: i64) {
    // A thread whose locals are gone counts in the shared slot.
    let index = MINE.try_with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed).min(SLOTS - 1));
        }
        mine.get()
    });
    let index = index.unwrap_or(SLOTS - 1);
    let slot = &COUNTERS[index];
    if index == SLOTS - 1 {
        slot.allocations.fetch_add(allocations, Ordering::Relaxed);
        slot.live_bytes.fetch_add(bytes, Ordering::Relaxed);
    } else {
        // Only this thread writes the slot, so load and store lose nothing.
        let so_far = slot.allocations.load(Ordering::Relaxed);
        slot.allocations.store(so_far + allocations, Ordering::Relaxed);
        let so_far = slot.live_bytes.load(Ordering::Relaxed);
        slot.live_bytes.store(so_far + bytes, Ordering::Relaxed);
    }
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

// SAFETY: every call goes to `INNER` unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, signed(layout.size()));
        // SAFETY: the caller's promise, passed on.
        unsafe { INNER.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, -signed(layout.size()));
        // SAFETY: the caller's promise, passed on.
        unsafe { INNER.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(1, signed(layout.size()));
        // SAFETY: the caller's promise, passed on.
        unsafe { INNER.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(1, signed(new_size) - signed(layout.size()));
        // SAFETY: the caller's promise, passed on.
        unsafe { INNER.realloc(pointer, layout, new_size) }
    }
}

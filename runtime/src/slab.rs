//! Memory of task cells and exchanges: aligned to cache lines without the cost of aligned
//! allocation.
//!
//! Size classes of whole cache lines. Each thread keeps two batches of each class; a shared list
//! holds the rest. After the magazines of Bonwick and Adams (USENIX 2001). Memory is reused and
//! never given back to the system: the memory of a million ended tasks serves the next million.

use std::alloc::{self, Layout};
use std::cell::UnsafeCell;

use crate::sync::PoolMutex;

/// A cache line; the alignment of every place.
const LINE: usize = 64;
/// The largest class in lines (1 KiB); larger cells come from the allocator.
const CLASSES: usize = 16;
/// Places that move between a thread and the common list at a time.
const BATCH: usize = 64;

/// Free memory of one class.
struct FreeBlock(*mut u8);
// SAFETY: a free place is owned memory without any reference into it.
unsafe impl Send for FreeBlock {}

type Batch = Vec<FreeBlock>;

static COMMON: [PoolMutex<Vec<Batch>>; CLASSES] = [const { PoolMutex::new(Vec::new()) }; CLASSES];

struct Magazines([Batch; CLASSES]);

thread_local! {
    static MINE: UnsafeCell<Magazines> =
        const { UnsafeCell::new(Magazines([const { Vec::new() }; CLASSES])) };
}

impl Drop for Magazines {
    fn drop(&mut self) {
        for (class, batch) in self.0.iter_mut().enumerate() {
            if !batch.is_empty() {
                COMMON[class].lock().push(std::mem::take(batch));
            }
        }
    }
}

/// The class for a layout, if it has one.
const fn class_of(layout: Layout) -> Option<usize> {
    let lines = layout.size().div_ceil(LINE);
    if layout.align() <= LINE && lines >= 1 && lines <= CLASSES {
        Some(lines - 1)
    } else {
        None
    }
}

/// Memory for this layout. In line, where the layout is known: then a few instructions.
#[inline(always)]
pub(crate) fn take(layout: Layout) -> *mut u8 {
    let Some(class) = class_of(layout) else { return from_system(layout) };
    MINE.try_with(|mine| {
        // SAFETY: the magazines belong to this thread, and no call below re-enters them.
        let batch = unsafe { &mut (*mine.get()).0[class] };
        match batch.pop() {
            Some(place) => place.0,
            None => refill(batch, class),
        }
    })
    .unwrap_or_else(|_| from_system(line_layout(class, 1)))
}

/// Takes memory back.
///
/// # Safety
///
/// It came from [`take`] with the same layout and no other code uses it any more.
#[inline(always)]
pub(crate) unsafe fn give(place: *mut u8, layout: Layout) {
    let Some(class) = class_of(layout) else {
        // SAFETY: without a class it came from the allocator with this layout.
        unsafe { alloc::dealloc(place, layout) };
        return;
    };
    let kept = MINE.try_with(|mine| {
        // SAFETY: the magazines belong to this thread, and no call below re-enters them.
        let batch = unsafe { &mut (*mine.get()).0[class] };
        if batch.len() == batch.capacity() {
            make_room(batch, class);
        }
        batch.push(FreeBlock(place));
    });
    if kept.is_err() {
        give_at_thread_exit(place, class);
    }
}

/// Passes the later half of a full batch on.
#[cold]
#[inline(never)]
fn make_room(batch: &mut Batch, class: usize) {
    if batch.len() >= 2 * BATCH {
        let half = batch.split_off(BATCH);
        COMMON[class].lock().push(half);
    } else {
        batch.reserve_exact(2 * BATCH - batch.len());
    }
}

/// The thread is ending and its magazines are gone.
#[cold]
#[inline(never)]
fn give_at_thread_exit(place: *mut u8, class: usize) {
    COMMON[class].lock().push(vec![FreeBlock(place)]);
}

/// Fills an empty batch, and answers one of its places.
#[cold]
#[inline(never)]
fn refill(batch: &mut Batch, class: usize) -> *mut u8 {
    *batch = fresh(class);
    batch.pop().map_or_else(|| from_system(line_layout(class, 1)), |place| place.0)
}

fn fresh(class: usize) -> Batch {
    if let Some(batch) = COMMON[class].lock().pop() {
        return batch;
    }
    let chunk = from_system(line_layout(class, BATCH));
    let size = (class + 1) * LINE;
    // The last is handed out first: ascending addresses.
    let mut batch = Vec::with_capacity(2 * BATCH);
    // SAFETY: the chunk is `BATCH` places long.
    batch.extend((0..BATCH).rev().map(|index| FreeBlock(unsafe { chunk.add(index * size) })));
    batch
}

fn line_layout(class: usize, places: usize) -> Layout {
    Layout::from_size_align((class + 1) * LINE * places, LINE)
        .expect("64 KiB at most, aligned to a line")
}

fn from_system(layout: Layout) -> *mut u8 {
    // SAFETY: a cell is never of size zero.
    let memory = unsafe { alloc::alloc(layout) };
    if memory.is_null() {
        alloc::handle_alloc_error(layout);
    }
    memory
}

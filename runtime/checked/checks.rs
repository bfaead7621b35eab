//! The checks under `--cfg turnwheel_checked`.

use std::alloc::{self, Layout};
use std::collections::VecDeque;
use std::io::Write;
use std::mem::{align_of, size_of};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

use crate::sync::PoolMutex;

/// Pattern that fills freed memory.
const POISON: u8 = 0xdb;
const POISON_WORD: u64 = u64::from_ne_bytes([POISON; 8]);
/// Bytes that tell whether a place is freed already: no living thing begins like that.
const BEGIN: usize = 16;
/// Bytes in quarantine before the oldest go back to the system; `QUARANTINE` in the environment
/// overrides it. With 0 a sanitizer sees each free at once.
const QUARANTINE_BYTES: usize = 32 << 20;
const QUARANTINE: &str = "TURNWHEEL_QUARANTINE_BYTES";

/// Ends the process. A panic would be contained, and look like a job's.
#[cold]
fn fail(what: &str) -> ! {
    let trace = std::backtrace::Backtrace::force_capture();
    // Not `eprintln!`: a test would keep it for its end, which does not come.
    let text = format!("turnwheel_checked: {what}\n{trace}\n");
    let _ = std::io::stderr().write_all(text.as_bytes());
    std::process::abort();
}

#[derive(Debug)]
pub(crate) struct Life {
    number: u64,
    inverse: u64,
}

impl Life {
    pub(crate) fn new() -> Self {
        // Of `std`: a number is no part of a protocol, so the models need not know of it.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { number, inverse: !number }
    }

    pub(crate) fn check(&self) {
        if self.number != !self.inverse {
            fail("a task or a oneshot channel was used after its end");
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued(u64);

impl Queued {
    pub(crate) fn on(life: &Life) -> Self {
        life.check();
        Self(life.number)
    }

    pub(crate) fn check(self, life: &Life) {
        life.check();
        if self.0 != life.number {
            fail("a job lies in the lane of another task, or its node was freed");
        }
    }
}

struct Freed(*mut u8, Layout);

// SAFETY: freed memory without any reference into it.
unsafe impl Send for Freed {}

#[derive(Default)]
struct Quarantine {
    freed: VecDeque<Freed>,
    bytes: usize,
}

static FREED: PoolMutex<Option<Quarantine>> = PoolMutex::new(None);

fn limit() -> usize {
    static LIMIT: OnceLock<usize> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let given = std::env::var(QUARANTINE).ok();
        given.and_then(|bytes| bytes.parse().ok()).unwrap_or(QUARANTINE_BYTES)
    })
}

/// Memory for this layout, which is never of size zero.
pub(crate) fn take(layout: Layout) -> *mut u8 {
    // SAFETY: the caller asks for at least one byte.
    let place = unsafe { alloc::alloc(layout) };
    if place.is_null() {
        alloc::handle_alloc_error(layout);
    }
    place
}

/// Whether the words of a place are as they were freed.
///
/// # Safety
///
/// It is memory of so many bytes, aligned for words.
unsafe fn is_poisoned(place: *mut u8, bytes: usize) -> bool {
    let words = place.cast::<u64>();
    // Volatile: a wrong write is one that the compiler does not know of.
    (0..bytes / size_of::<u64>()).all(|index| {
        let word = words.wrapping_add(index);
        // SAFETY: within the place.
        POISON_WORD == unsafe { word.read_volatile() }
    })
}

/// Poisons a place and keeps it; gives the oldest back to the system.
///
/// # Safety
///
/// It came from [`take`] with the same layout and no other code uses it any more.
pub(crate) unsafe fn give(place: *mut u8, layout: Layout) {
    let limit = limit();
    debug_assert!(layout.align() >= align_of::<u64>());
    let begin = layout.size().min(BEGIN);
    // SAFETY: forwarded to the caller. In quarantine or not, it is memory still.
    if limit > 0 && unsafe { is_poisoned(place, begin) } {
        fail("a node, a task or a oneshot channel was freed twice");
    }
    // SAFETY: forwarded to the caller.
    unsafe { place.write_bytes(POISON, layout.size()) };
    let mut gone = Vec::new();
    let mut quarantine = FREED.lock();
    let quarantined = quarantine.get_or_insert_with(Quarantine::default);
    quarantined.freed.push_back(Freed(place, layout));
    quarantined.bytes += layout.size();
    while quarantined.bytes > limit {
        let Some(oldest) = quarantined.freed.pop_front() else { break };
        quarantined.bytes -= oldest.1.size();
        gone.push(oldest);
    }
    drop(quarantine);
    for Freed(place, layout) in gone {
        // SAFETY: it was in quarantine until now.
        if !unsafe { is_poisoned(place, layout.size()) } {
            fail("a node, a task or a oneshot channel was written after its end");
        }
        // SAFETY: as above; it came from the allocator with this layout.
        unsafe { alloc::dealloc(place, layout) };
    }
}

#[cfg(test)]
#[path = "../tests/unit/checked.rs"]
mod tests;

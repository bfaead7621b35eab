//! The earliest deadline of several wheels, read before a worker parks.
//!
//! Invariant: once an arming call has returned, `earliest` is not later than its deadline until a
//! servicer has fired it. Each wheel's word is written under that wheel's lock.

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU64, Ordering};

/// The words.
#[derive(Debug)]
pub(crate) struct Earliest {
    earliest_ns: CachePadded<AtomicU64>,
    /// For each wheel: not later than its earliest deadline; `u64::MAX` if it is empty.
    next_ns: Box<[CachePadded<AtomicU64>]>,
}

impl Earliest {
    pub(crate) fn new(wheels: usize) -> Self {
        let empty = || CachePadded::new(AtomicU64::new(u64::MAX));
        Self { earliest_ns: empty(), next_ns: (0..wheels).map(|_| empty()).collect() }
    }

    /// The earliest deadline, or somewhat earlier; `u64::MAX` if there is none.
    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        self.earliest_ns.load(Ordering::Acquire)
    }

    /// Whether a wheel may have something due.
    pub(crate) fn is_due(&self, wheel: usize, now_ns: u64) -> bool {
        self.next_ns[wheel].load(Ordering::Acquire) <= now_ns
    }

    /// A timer was armed; the caller holds the wheel's lock. Whether it is the earliest of all.
    #[inline]
    pub(crate) fn lower_locked(&self, wheel: usize, deadline_ns: u64) -> bool {
        let next_ns = &self.next_ns[wheel];
        if deadline_ns >= next_ns.load(Ordering::Relaxed) {
            // The thread that made it so early has lowered `earliest_ns` too, under this lock.
            return false;
        }
        next_ns.store(deadline_ns, Ordering::Release);
        // AcqRel: pairs with the exchange in `raise`; either the servicer sees our wheel's word,
        // or our minimum comes after its exchange.
        deadline_ns < self.earliest_ns.fetch_min(deadline_ns, Ordering::AcqRel)
    }

    /// A wheel was served; the caller holds its lock.
    pub(crate) fn served_locked(&self, wheel: usize, next_ns: u64) {
        self.next_ns[wheel].store(next_ns, Ordering::Release);
    }

    /// All wheels were served by a caller that had read `seen` before. Returns whether the word was
    /// too late for a moment: the timekeeper may have read it then and must be woken.
    pub(crate) fn raise(&self, seen: u64) -> bool {
        // AcqRel: raises the word past the served deadlines. An arming thread whose minimum came
        // before this exchange is seen by the second look; a later minimum lowers the new value.
        let next = self.next_of_all();
        let _ = self.earliest_ns.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Acquire);
        let next = self.next_of_all();
        next < self.earliest_ns.fetch_min(next, Ordering::AcqRel)
    }

    fn next_of_all(&self) -> u64 {
        let next = self.next_ns.iter().map(|next| next.load(Ordering::Acquire));
        next.min().unwrap_or(u64::MAX)
    }
}

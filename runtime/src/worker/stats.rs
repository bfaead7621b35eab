//! Exact counters of one worker, written by it alone, readable by anybody.

use crate::sync::{AtomicU64, Ordering};

/// A counter with one writer: a plain load and store, no read-modify-write.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds; only the owner may.
    #[inline(always)]
    pub(crate) fn add_owner(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + count, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters of a worker.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    /// Turns begun. Siblings judge by it whether the worker makes progress.
    pub(crate) turns: Count,
    pub(crate) jobs: Count,
    pub(crate) failures: Count,
    pub(crate) steals: Count,
    pub(crate) parks: Count,
    pub(crate) wakes: Count,
    pub(crate) timers: Count,
    pub(crate) requeues: Count,
    /// Nanoseconds that it was parked.
    idle_ns: Count,
    /// Since when it is parked; 0 while it is not.
    idle_since_ns: AtomicU64,
}

impl Stats {
    /// The worker is about to park.
    pub(crate) fn parks_owner(&self, now_ns: u64) {
        self.idle_since_ns.store(now_ns.max(1), Ordering::Relaxed);
    }

    /// It was parked until now.
    pub(crate) fn unparked_owner(&self, now_ns: u64) {
        let since_ns = self.idle_since_ns.load(Ordering::Relaxed);
        self.idle_ns.add_owner(now_ns.saturating_sub(since_ns));
        self.idle_since_ns.store(0, Ordering::Relaxed);
    }

    /// Total time parked, including the current park up to now.
    pub(crate) fn idle_ns(&self, now_ns: u64) -> u64 {
        let current_ns = match self.idle_since_ns.load(Ordering::Relaxed) {
            0 => 0,
            since_ns => now_ns.saturating_sub(since_ns),
        };
        self.idle_ns.get() + current_ns
    }
}

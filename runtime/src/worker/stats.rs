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

/// What a worker counts.
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
}

//! The state of the database as this process has seen it, to find out after a fail-over whether it
//! is still there.
//!
//! A standby that follows asynchronously may lack the last commits: places, epochs and versions are
//! then given out a second time. Memory of this process would be written behind them, so it stops
//! for good. Each promotion of a standby begins a new timeline; that is when it is looked.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

/// The newest of what a process has seen. A connection is opened with each check of it.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    timeline: Mutex<Option<String>>,
    /// The version of the table of worlds.
    worlds: AtomicU64,
    /// An own entry that is in the journal; 0 if it may have been removed.
    entry: AtomicU64,
    is_lost: AtomicBool,
}

impl Seen {
    /// The version of the table of worlds was read or written.
    pub(crate) fn worlds(&self, version: u64) {
        // Relaxed: each thread compares what it has seen itself at least.
        self.worlds.fetch_max(version, Ordering::Relaxed);
    }

    /// An entry of this process was acknowledged.
    pub(crate) fn entry(&self, seq: u64) {
        self.entry.store(seq, Ordering::Relaxed);
    }

    /// Entries were removed.
    pub(crate) fn removed(&self) {
        self.entry.store(0, Ordering::Relaxed);
    }

    /// The version of the table of worlds and the entry that must be there.
    pub(crate) fn newest(&self) -> (u64, u64) {
        (self.worlds.load(Ordering::Relaxed), self.entry.load(Ordering::Relaxed))
    }

    /// Whether a connection is to another timeline than the one before.
    pub(crate) fn is_other(&self, timeline: &str) -> bool {
        let mut known = self.timeline.lock();
        known.get_or_insert_with(|| timeline.to_owned()) != timeline
    }

    /// All that was seen is on this timeline.
    pub(crate) fn is_on(&self, timeline: &str) {
        *self.timeline.lock() = Some(timeline.to_owned());
    }

    /// Some of it is gone.
    pub(crate) fn lose(&self) {
        self.is_lost.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }
}

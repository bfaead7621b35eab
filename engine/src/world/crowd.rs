//! How many plans a world has in memory, so that plans which sleep for long make room in time.
//!
//! The directory of plans makes room too, when its limit is reached and a plan waits for that: it
//! looks for plans that were unused the longest. A plan that sleeps leaves before that is needed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// Counts the plans in memory. Relaxed: a count that is late by a few changes nothing.
#[derive(Debug)]
pub(crate) struct Crowd {
    plans: AtomicUsize,
    /// From this number on, plans that sleep leave at once.
    many: usize,
}

/// A plan in memory, as long as this lives.
#[derive(Debug)]
pub(crate) struct InMemory(Arc<Crowd>);

impl Crowd {
    /// `most` is the limit of plans in memory.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { plans: AtomicUsize::new(0), many: most / 2 })
    }

    /// Counts a plan.
    pub(crate) fn enter(self: &Arc<Self>) -> InMemory {
        self.plans.fetch_add(1, Ordering::Relaxed);
        InMemory(Arc::clone(self))
    }

    /// Whether half of the room is taken.
    pub(crate) fn is_large(&self) -> bool {
        self.plans.load(Ordering::Relaxed) > self.many
    }
}

impl Drop for InMemory {
    fn drop(&mut self) {
        self.0.plans.fetch_sub(1, Ordering::Relaxed);
    }
}

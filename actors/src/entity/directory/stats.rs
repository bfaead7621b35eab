//! Counters of the entities of one type.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::entity::{Directory, Entity};

/// The entities of one type at one moment; see [`Entities::stats`](crate::entity::Entities::stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntityStats {
    /// Current activations, including ending ones.
    pub active: usize,
    /// Keys that wait for room.
    pub waiting: usize,
    /// Bytes that the activations take, as far as they say so.
    pub bytes: u64,
    /// Activations that were passivated to make room, by this type's need.
    pub shed: u64,
    /// Keys whose messages were refused for lack of room.
    pub refused: u64,
    /// Activations that were stuck and replaced.
    pub replaced: u64,
}

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) activations: AtomicU64,
    pub(crate) shed: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) replaced: AtomicU64,
}

impl<E: Entity> Directory<E> {
    /// Activations since the begin.
    pub(crate) fn activations(&self) -> u64 {
        self.counters.activations.load(Ordering::Relaxed)
    }

    pub(crate) fn stats(&self) -> EntityStats {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        EntityStats {
            active: self.active(),
            waiting: self.waiting(),
            bytes: self.memory.total(),
            shed: count(&self.counters.shed),
            refused: count(&self.counters.refused),
            replaced: count(&self.counters.replaced),
        }
    }
}

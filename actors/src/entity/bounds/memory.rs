//! Memory of the entities of a system, and the choice of entities to passivate beyond the budget.
//!
//! Each activation is charged with an expected size, and after its begin with its reported size
//! ([`Entity::size`](crate::entity::Entity::size)). A charge beyond the budget is refused, its key
//! waits for room, and the least recently used idle entities, of any type, are passivated.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// The part of the budget that an activation is charged with while no size of its type is known.
const UNKNOWN_PART: u64 = 64;

/// The share of one more size in the size that is expected of a type: one in so many.
const EXPECTED_WEIGHT: u64 = 8;

/// The memory of all entities of a system.
pub(crate) struct Memory {
    budget: u64,
    total: AtomicU64,
    types: Mutex<Vec<Weak<dyn Sheds>>>,
}

/// The entities of one type, of which some may go.
pub(crate) trait Sheds: Send + Sync {
    /// Adds some of the idle ones.
    fn add_idle(&self, idle: &mut Vec<Idle>);
}

/// An idle entity that may go.
pub(crate) struct Idle {
    /// Its place in the order in which they go.
    pub(crate) order: u64,
    pub(crate) bytes: u64,
    pub(crate) shed: Box<dyn FnOnce() + Send>,
}

debug_fields!(impl Memory, self => budget: self.budget, total: self.total());

impl Memory {
    /// With a budget in bytes; `u64::MAX` for none.
    pub(crate) fn new(budget: u64) -> Self {
        Self { budget, total: AtomicU64::new(0), types: Mutex::default() }
    }

    pub(crate) fn register(&self, entities: Weak<dyn Sheds>) {
        self.types.lock().push(entities);
    }

    /// Bytes charged now.
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    pub(crate) fn has_budget(&self) -> bool {
        self.budget != u64::MAX
    }

    /// Whether more is charged than the budget.
    pub(crate) fn is_over(&self) -> bool {
        self.total() > self.budget
    }

    /// Charges so many bytes if there is room. A single entity always has room, even a large one.
    pub(crate) fn reserve(&self, bytes: u64) -> bool {
        let charge = |total: u64| {
            let charged = total.saturating_add(bytes);
            (total == 0 || charged <= self.budget).then_some(charged)
        };
        self.total.fetch_update(Ordering::Relaxed, Ordering::Relaxed, charge).is_ok()
    }

    /// Corrects a charge.
    pub(crate) fn change(&self, from: u64, to: u64) {
        self.total.fetch_add(to, Ordering::Relaxed);
        self.total.fetch_sub(from, Ordering::Relaxed);
    }

    /// Charge of one more entity before it says its size: `usual` of its type, 0 if that
    /// is not known yet.
    pub(crate) fn expected(&self, usual: u64, least: u64) -> u64 {
        match usual {
            0 if self.has_budget() => least.max(self.budget / UNKNOWN_PART),
            usual => least.max(usual),
        }
    }

    /// Passivates idle entities until `wanted` bytes more fit, the least recently used first, as
    /// far as a sample of each type shows. Returns how many.
    pub(crate) fn shed(&self, wanted: u64) -> usize {
        let excess = self.total().saturating_add(wanted).saturating_sub(self.budget);
        if excess == 0 {
            return 0;
        }
        let types: Vec<Arc<dyn Sheds>> = {
            let mut types = self.types.lock();
            types.retain(|entities| entities.strong_count() > 0);
            types.iter().filter_map(Weak::upgrade).collect()
        };
        let mut idle = Vec::new();
        types.iter().for_each(|entities| entities.add_idle(&mut idle));
        idle.sort_by_key(|idle| idle.order);
        let (mut freed, mut count) = (0_u64, 0);
        for Idle { bytes, shed, .. } in idle {
            if freed >= excess {
                break;
            }
            freed = freed.saturating_add(bytes.max(1));
            count += 1;
            shed();
        }
        count
    }
}

/// The memory of the entities of one type.
#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) all: Arc<Memory>,
    total: AtomicU64,
    /// Usual size of one of them; 0 while none has said.
    usual: AtomicU64,
    /// Least size of each.
    least: u64,
}

impl Share {
    pub(crate) fn new(all: &Arc<Memory>, least: usize) -> Self {
        let (total, usual) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { all: Arc::clone(all), total, usual, least: least as u64 }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Expected size of one more.
    pub(crate) fn expected(&self) -> u64 {
        self.all.expected(self.usual.load(Ordering::Relaxed), self.least)
    }

    /// Whether every activation so far was charged with so many bytes.
    pub(crate) fn is_constant(&self, bytes: u64) -> bool {
        let usual = self.usual.load(Ordering::Relaxed);
        !self.all.has_budget() && usual == 0 && bytes == self.least
    }

    /// Charges one more activation; returns the charged bytes, or `None` without room.
    pub(crate) fn reserve(&self) -> Option<u64> {
        let bytes = self.expected();
        let is_charged = self.all.reserve(bytes);
        is_charged.then(|| {
            self.total.fetch_add(bytes, Ordering::Relaxed);
            bytes
        })
    }

    /// Corrects the charge of one activation.
    pub(crate) fn change(&self, from: u64, to: u64) {
        if from != to {
            self.all.change(from, to);
            self.total.fetch_add(to, Ordering::Relaxed);
            self.total.fetch_sub(from, Ordering::Relaxed);
        }
    }

    /// Updates the expected size with a reported one.
    pub(crate) fn learn(&self, bytes: u64) {
        let usual = self.usual.load(Ordering::Relaxed);
        let learnt = match usual {
            0 => bytes,
            usual => usual - usual / EXPECTED_WEIGHT + bytes / EXPECTED_WEIGHT,
        };
        if learnt.max(1) != usual {
            // A lost update of two at once costs a little precision.
            self.usual.store(learnt.max(1), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/memory.rs"]
mod tests;

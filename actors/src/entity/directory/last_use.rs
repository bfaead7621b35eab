//! Last use of an activation, as its directory knows it.
//!
//! The directory notes each message that it sends. An activation is also used in other ways: by its
//! address, by its own messages, by a long request. It notes those itself, in its turn, and reports
//! them to the directory when the collector asks.

use crate::entity::{Directory, Entity};

/// Set in a time: the activation had something under way when it was to make room.
const ENGAGED: u64 = 1 << 63;

/// A time on the clock of the group, nanoseconds, and whether the activation refused to make room
/// since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastUse(u64);

impl LastUse {
    pub(crate) fn at(ns: u64) -> Self {
        debug_assert!(ns & ENGAGED == 0, "no clock runs for centuries");
        Self(ns & !ENGAGED)
    }

    /// The time.
    pub(crate) fn ns(self) -> u64 {
        self.0 & !ENGAGED
    }

    /// Position in the order in which activations make room: the least recently used first, and
    /// those with work under way last.
    pub(crate) fn order(self) -> u64 {
        self.0
    }
}

/// The unit in which the begin of an activation is kept, as a power of two nanoseconds: 67 ms, so
/// that four bytes last for nine years.
const BEGUN_SHIFT: u32 = 26;

/// The begin of an activation, in few bytes. Rounded up: its age is never overestimated.
pub(crate) fn begun_at(now_ns: u64) -> u32 {
    u32::try_from((now_ns >> BEGUN_SHIFT) + 1).unwrap_or(u32::MAX)
}

/// Time since an activation began.
pub(crate) fn age_ns(begun: u32, now_ns: u64) -> u64 {
    now_ns.saturating_sub(u64::from(begun) << BEGUN_SHIFT)
}

impl<E: Entity> Directory<E> {
    /// An activation was in use at this time, as it says itself. Returns when it was last in use,
    /// as far as both know; `None` if it is on its way out.
    pub(crate) fn was_used(&self, key: &E::Key, id: u64, used_ns: u64) -> Option<u64> {
        let mut shard = self.shard(key);
        let active = shard.active_mut(key, id)?;
        active.last_use = LastUse::at(active.last_use.ns().max(used_ns));
        Some(active.last_use.ns())
    }

    /// Marks an activation that had work under way when asked to make room: others go first, until
    /// it is used or asked again.
    pub(crate) fn is_engaged(&self, key: &E::Key, id: u64) {
        if let Some(active) = self.shard(key).active_mut(key, id) {
            active.last_use = LastUse(active.last_use.ns() | ENGAGED);
        }
    }
}

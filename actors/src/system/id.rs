//! The numbers of actors, and what is kept in them.

use std::sync::atomic::{AtomicU64, Ordering};

use super::System;

/// The numbers of actors, in the order of their making.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Part of the number of an actor that must not be sent to without a look at the interceptors of
/// its system: an address finds it without following a pointer.
pub(crate) const OUTGOING_BIT: u64 = 1 << 63;

/// The lower bits of the number of an actor, which count. Above them is the number of its system,
/// by which a message that is lost finds where to be counted.
const COUNT_BITS: u32 = 48;

/// The number of a system, at most; 0 is for those beyond.
pub(crate) const SYSTEM_MAX: u64 = (OUTGOING_BIT >> COUNT_BITS) - 1;

pub(crate) fn next_id(system: &System) -> u64 {
    NEXT_ID.fetch_add(1, Ordering::Relaxed) | system.shared().marks.load(Ordering::Relaxed)
}

/// The part of an actor's number that says of which system it is.
pub(crate) fn mark_of(system: u64) -> u64 {
    debug_assert!(system <= SYSTEM_MAX, "there is room for it");
    system << COUNT_BITS
}

/// The number of the system in the number of an actor.
pub(crate) fn system_of(id: u64) -> u64 {
    (id & !OUTGOING_BIT) >> COUNT_BITS
}

/// The number of an actor without what is kept in it.
pub(crate) fn bare(id: u64) -> u64 {
    id & ((1 << COUNT_BITS) - 1)
}

/// Spreads the bits of a number over all of it (the finalizer of splitmix64).
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

//! The numbers of actors, and their flag bits.

use std::sync::atomic::{AtomicU64, Ordering};

use super::System;

/// The numbers of actors, in the order of their making.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Part of the number of an actor that must not be sent to without a look at the interceptors of
/// its system: an address finds it without following a pointer.
pub(crate) const OUTGOING_BIT: u64 = 1 << 63;

pub(crate) fn next_id(system: &System) -> u64 {
    let mark = if system.shared().outgoing.is_empty() { 0 } else { OUTGOING_BIT };
    NEXT_ID.fetch_add(1, Ordering::Relaxed) | mark
}

/// The number of an actor without its flag bits.
pub(crate) fn bare(id: u64) -> u64 {
    id & !OUTGOING_BIT
}

/// Spreads the bits of a number over all of it (the finalizer of splitmix64).
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

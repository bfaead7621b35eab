//! Node memory under `turnwheel_checked`: each node by itself, freed into quarantine.

use std::alloc::Layout;

use super::node::Node;
use crate::checked;

const LAYOUT: Layout = Layout::new::<Node>();

/// Gives memory for one node; the contents are undefined.
pub(crate) fn alloc() -> *mut Node {
    let node = checked::take(LAYOUT);
    let end = node.addr() as u64 + LAYOUT.size() as u64;
    assert!(end <= 1 << 48, "the state word of a task needs addresses of at most 48 bits");
    node.cast()
}

/// Takes a node back.
///
/// # Safety
///
/// The node came from [`alloc`] and no other code uses it any more.
pub(crate) unsafe fn free(node: *mut Node) {
    // SAFETY: forwarded to the caller.
    unsafe { checked::give(node.cast(), LAYOUT) };
}

//! The memory of a task: header and state, the rarely used part, the reference count.

#[cfg(not(turnwheel_loom))]
pub(super) mod extra;
#[cfg(not(turnwheel_loom))]
pub(super) mod layout;
#[cfg(not(turnwheel_loom))]
pub(super) mod reference;
pub(crate) mod refs;

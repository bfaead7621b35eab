//! The memory of a task: header and state, the rarely used part, the reference count.

#[cfg(not(turnwheel_loom))]
pub(super) mod extra;
#[cfg(not(turnwheel_loom))]
pub(super) mod layout;
pub(crate) mod refs;

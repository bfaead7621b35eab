//! The queues of a task, the nodes in them, and the calls that fill them.

pub(crate) mod inbox;
pub(super) mod mail;
pub(crate) mod node;
#[cfg(any(not(turnwheel_checked), turnwheel_loom))]
pub(crate) mod pool;
#[cfg(all(turnwheel_checked, not(turnwheel_loom)))]
#[path = "../../../checked/pool.rs"]
mod pool;
pub(crate) mod room;
pub(super) mod submit;
pub(super) mod urgent;
pub(crate) mod word;

//! The queues of a task, the nodes in them, and the calls that fill them.

pub(crate) mod inbox;
#[cfg(not(turnwheel_loom))]
pub(super) mod mail;
#[cfg(not(turnwheel_loom))]
pub(crate) mod node;
#[cfg(turnwheel_loom)]
#[path = "node_model.rs"]
pub(crate) mod node;
#[cfg(not(any(turnwheel_loom, turnwheel_checked)))]
mod pool;
#[cfg(all(turnwheel_checked, not(turnwheel_loom)))]
#[path = "pool_checked.rs"]
mod pool;
#[cfg(not(turnwheel_loom))]
pub(crate) mod room;
#[cfg(not(turnwheel_loom))]
pub(super) mod submit;
#[cfg(not(turnwheel_loom))]
pub(super) mod urgent;
pub(crate) mod word;

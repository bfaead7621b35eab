//! Limits of the number of entities and of their memory.

mod capacity;
mod memory;

pub use capacity::NoRoom;
pub(crate) use capacity::Waiter;
pub(crate) use memory::{Idle, Memory, Share, Sheds};

//! How many entities there may be, and how much memory they may take.

mod capacity;
mod memory;

pub use capacity::NoRoom;
pub(crate) use capacity::Waiter;
pub(crate) use memory::{Idle, Memory, Share, Sheds};

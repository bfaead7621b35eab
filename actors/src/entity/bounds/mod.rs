//! How many entities there may be, and how much memory they may take.

pub(crate) mod capacity;
pub(crate) mod memory;

pub use capacity::NoRoom;
pub(crate) use memory::Memory;

//! The addresses of an actor: those that keep it, and those that do not.

mod strong;
mod weak;

pub use strong::{Address, Place, With};
pub use weak::WeakAddress;

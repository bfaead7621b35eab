//! The addresses of an actor: those that keep it, and those that do not.

mod forward;
mod place;
mod strong;
mod weak;
mod with;

pub use place::Place;
pub use strong::Address;
pub use weak::WeakAddress;
pub use with::With;

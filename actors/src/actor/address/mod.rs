//! The addresses of an actor: strong ones keep it alive, weak ones do not.

mod forward;
mod place;
mod strong;
mod weak;
mod with;

pub use place::Place;
pub use strong::Address;
pub use weak::WeakAddress;
pub use with::With;

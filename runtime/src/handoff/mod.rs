//! Hand-over of values and ownership between two threads, without a lock.

mod barrier;
mod lending;
pub mod oneshot;
mod oneshot_state;
#[cfg(not(turnwheel_loom))]
mod scoped;
pub(crate) mod section;
pub(crate) mod slot;

pub use lending::{Lender, Lent};
#[cfg(not(turnwheel_loom))]
pub use scoped::Scoped;
#[cfg(not(turnwheel_loom))]
pub(crate) use section::Section;

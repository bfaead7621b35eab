//! Hand-over of values and ownership between two threads, without a lock.

mod barrier;
mod lending;
pub mod oneshot;
mod oneshot_state;
mod scoped;
pub(crate) mod section;
pub(crate) mod slot;

pub use lending::{Lender, Lent};
pub use scoped::Scoped;
pub(crate) use section::Section;

//! Hand-over of values and ownership between two threads, without a lock.

mod assisted;
mod barrier;
mod lending;
pub mod oneshot;
mod oneshot_state;
mod polling;
mod scoped;
pub(crate) mod section;
pub(crate) mod slot;

pub(crate) use assisted::assist_by;
pub use lending::{Lender, Lent};
pub(crate) use polling::polling;
pub(crate) use scoped::hidden;
pub use scoped::{hide_from_turns, Scoped};
pub(crate) use section::Section;

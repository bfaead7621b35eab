//! Hand-over of values and ownership between two threads, without a lock.

mod barrier;
mod exchange;
mod exchange_ref;
mod lending;
#[cfg(not(turnwheel_loom))]
mod scoped;
pub(crate) mod section;
pub(crate) mod slot;

pub use exchange::{exchange, exchange_shared, Giver, Notes, Taken, Taker};
pub use exchange_ref::{Exchange, SharedExchange, WeakExchange};
pub use lending::{Lender, Lent};
#[cfg(not(turnwheel_loom))]
pub use scoped::Scoped;
#[cfg(not(turnwheel_loom))]
pub(crate) use section::Section;

//! Completions: the runtime's futures. One value, given once; standard futures on any executor.
//!
//! A task waits for one with `Context::on_completion`, async code with `.await`, a plain thread
//! with [`Completion::wait`]. The first completion wins and the loser is told; a completion whose
//! producers are all gone fails with [`Failure::Abandoned`](crate::Failure::Abandoned).

mod cell;
#[cfg(not(turnwheel_loom))]
mod chain;
#[cfg(not(turnwheel_loom))]
mod combine;
#[cfg(not(turnwheel_loom))]
mod shared;
#[cfg(not(turnwheel_loom))]
mod stamp;
#[cfg(not(turnwheel_loom))]
mod wait;

pub use cell::{completion, AlreadyCompleted, Completer, Completion};
#[cfg(not(turnwheel_loom))]
pub(crate) use chain::OrClosed;
#[cfg(not(turnwheel_loom))]
pub use chain::{Executor, InlineExecutor, Rejected};
#[cfg(not(turnwheel_loom))]
pub(crate) use combine::timeout_as;
#[cfg(not(turnwheel_loom))]
pub use combine::{all, first_success, race, timeout, traverse};
#[cfg(not(turnwheel_loom))]
pub use shared::SharedCompletion;
#[cfg(not(turnwheel_loom))]
pub use stamp::Stamped;
#[cfg(not(turnwheel_loom))]
pub(crate) use wait::{allow_blocking, blocking_refused, refuse_blocking};
#[cfg(not(turnwheel_loom))]
pub use wait::{block_on, block_on_timeout};

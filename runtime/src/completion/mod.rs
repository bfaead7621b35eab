//! Completions: the runtime's futures. One value, given once; standard futures on any executor.
//!
//! A task waits for one with `Context::on_completion`, async code with `.await`, a plain thread
//! with [`Completion::wait`]. The first completion wins and later ones get their value back; a
//! completion whose
//! producers are all gone fails with [`Failure::Abandoned`](crate::Failure::Abandoned).

mod call;
mod cell;
pub(crate) mod chain;
mod combine;
mod wait;

pub(crate) use call::call;
pub use cell::{completion, AlreadyCompleted, Completer, Completion};
use chain::unrun;
pub use chain::{Executor, InlineExecutor, Rejected};
pub(crate) use combine::timeout_as;
pub use combine::{all, timeout};
pub(crate) use wait::{allow_blocking, blocking_refused, refuse_blocking};
pub use wait::{block_on, block_on_timeout};

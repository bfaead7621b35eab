//! Services on top of the runtime: several groups as one, ordered startup, health, retries.
//!
//! Everything here is built on the public API of `turnwheel-runtime`, without `unsafe`. The
//! runtime, actors and the engine do not depend on it.
//!
//! | item | purpose |
//! | --- | --- |
//! | [`Runtime`] | the groups of a process: one for computing, one for I/O, further ones by name |
//! | [`startup`] | ordered start and end of the parts of a service, with rollback |
//! | [`health`] | a tree of components, their status, and the cause of the worst |
//! | [`Retry`] | retrying an operation of a task, with limits, conditions and back-off |
//! | [`Share`], [`SharedCompletion`] | a completion with many consumers |
//! | [`race`], [`first_success`], [`traverse`] | several completions as one |
//! | [`Stamped`] | a completion with the time at which it was completed |
//! | [`OffsetClock`] | the system's clock with controls: move, pin, reset |

#![forbid(unsafe_code)]
#![warn(clippy::disallowed_methods)]

mod completions;
pub mod health;
pub mod limits;
mod offset_clock;
mod retry;
mod runtime;
mod shared;
mod stamped;
pub mod startup;

pub use completions::{first_success, race, traverse};
pub use offset_clock::OffsetClock;
pub use retry::{Attempt, Retried, Retry, RetryError};
pub use runtime::{Runtime, RuntimeBuilder, RuntimeReport};
pub use shared::{Share, SharedCompletion};
pub use stamped::{Stamp, Stamped};

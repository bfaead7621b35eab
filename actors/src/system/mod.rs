//! The system of actors: their group, dead letters, names, interceptors, and defaults.

mod dead_letter;
mod handle;
pub(crate) mod id;
pub mod intercept;
pub mod registry;
pub(crate) mod upkeep;

pub use dead_letter::{DeadLetter, DeadLetterReason};
pub(crate) use dead_letter::{DeadLetters, Undelivered};
pub(crate) use handle::Shared;
pub use handle::{System, SystemBuilder, ASK_LIMIT_DEFAULT};
pub(crate) use id::{next_id, OUTGOING_BIT};
pub(crate) use intercept::{Chain, Interceptor};
pub(crate) use registry::holders;

//! Why a name was not given, or not found.

use std::time::Duration;

use super::{NAMES_MAX, NAME_BYTES_MAX, NAME_WAITERS_MAX};

/// Why an actor did not get a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// Somebody has it.
    #[error("the name {name:?} belongs to the actor {holder} ({type_name}): unregister it first")]
    Taken {
        /// The name.
        name: String,
        /// The actor that has it.
        holder: String,
        /// As what it is registered.
        type_name: &'static str,
    },
    /// The actor has ended.
    #[error("the actor {actor} has ended and cannot get the name {name:?}")]
    Ended {
        /// The name.
        name: String,
        /// The actor.
        actor: String,
    },
    /// The name is empty, or longer than [`NAME_BYTES_MAX`].
    #[error("a name has 1 to {NAME_BYTES_MAX} bytes, not {bytes}")]
    NameLength {
        /// How long it is.
        bytes: usize,
    },
    /// There are [`NAMES_MAX`] names.
    #[error("the system has {NAMES_MAX} names already: use entities for things in great number")]
    TooMany,
}

/// Why a name was not found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// Nobody has it.
    #[error("nobody has the name {name:?}")]
    Unknown {
        /// The name.
        name: String,
    },
    /// It was registered with another type.
    #[error("the name {name:?} is registered as {registered}, not as {wanted}")]
    WrongType {
        /// The name.
        name: String,
        /// The type it was registered with.
        registered: &'static str,
        /// The type it was looked up by.
        wanted: &'static str,
    },
    /// Nobody has got it in time.
    #[error("nobody got the name {name:?} within {limit:?}")]
    TimedOut {
        /// The name.
        name: String,
        /// How long it was waited for.
        limit: Duration,
    },
    /// [`NAME_WAITERS_MAX`] look-ups wait already.
    #[error("{NAME_WAITERS_MAX} look-ups wait for names already, and {name:?} is one too many")]
    TooManyWaiting {
        /// The name.
        name: String,
    },
}

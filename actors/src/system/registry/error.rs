//! Why a name was not given, or not found.

use std::time::Duration;

use super::{NAMES_MAX, NAME_BYTES_MAX, NAME_WAITERS_MAX};

/// Why an actor did not get a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the text of an error names its fields")]
pub enum RegisterError {
    /// Another actor has the name.
    #[error("the name {name:?} belongs to the actor {holder} ({type_name}): unregister it first")]
    Taken { name: String, holder: String, type_name: &'static str },
    /// The actor has ended.
    #[error("the actor {actor} has ended and cannot get the name {name:?}")]
    Ended { name: String, actor: String },
    /// The name is empty, or longer than [`NAME_BYTES_MAX`].
    #[error("a name has 1 to {NAME_BYTES_MAX} bytes, not {bytes}")]
    NameLength { bytes: usize },
    /// There are [`NAMES_MAX`] names.
    #[error("the system has {NAMES_MAX} names already: use entities for things in great number")]
    TooMany,
}

/// Why a name was not found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the text of an error names its fields")]
pub enum LookupError {
    /// No actor has the name.
    #[error("nobody has the name {name:?}")]
    Unknown { name: String },
    /// It was registered with another type.
    #[error("the name {name:?} is registered as {registered}, not as {wanted}")]
    WrongType { name: String, registered: &'static str, wanted: &'static str },
    /// No actor got the name in time.
    #[error("nobody got the name {name:?} within {limit:?}")]
    TimedOut { name: String, limit: Duration },
    /// [`NAME_WAITERS_MAX`] look-ups wait already.
    #[error("{NAME_WAITERS_MAX} look-ups wait for names already, and {name:?} is one too many")]
    TooManyWaiting { name: String },
}

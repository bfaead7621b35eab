//! Completions with the time at which they were completed.

use crate::failure::Failure;

/// An outcome and the time at which it was given.
#[derive(Clone, Debug)]
pub struct Stamped<T> {
    /// The outcome of the completion.
    pub outcome: Result<T, Failure>,
    /// Time of completion, in nanoseconds on the monotonic clock of the requested group.
    pub completed_ns: u64,
}

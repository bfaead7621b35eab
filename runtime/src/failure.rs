//! The one failure type.

use std::sync::Arc;
use std::time::Duration;

/// Why a job, a task or a completion ended without a value.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Failure {
    /// An error returned by user code.
    Error(Arc<dyn std::error::Error + Send + Sync + 'static>),
    /// User code panicked; the text of the panic.
    Panicked(Arc<str>),
    /// The task is closed.
    Closed,
    /// Cancelled before it completed.
    Cancelled,
    /// Not done within this time.
    TimedOut(Duration),
    /// Every completer was dropped without an answer.
    Abandoned,
    /// A blocking wait was asked for on a worker thread, where waiting is refused.
    WouldBlock,
    /// Refused, with what and why.
    Refused(&'static str),
    /// Several failures, in the order of their sources.
    Many(Arc<[Failure]>),
}

//! Requests to a world that take a moment.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use turnwheel_runtime::completion::block_on;

use crate::error::StoreError;

/// An answer that will be there. Await it, or [`wait`](Asking::wait) off the workers; nothing is asked
/// before.
#[must_use = "nothing is asked unless it is awaited"]
pub struct Asking<T, E> {
    answer: Pin<Box<dyn Future<Output = Result<T, E>> + Send>>,
}

impl<T, E> fmt::Debug for Asking<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asking").finish_non_exhaustive()
    }
}

impl<T, E> Asking<T, E> {
    pub(super) fn new(answer: impl Future<Output = Result<T, E>> + Send + 'static) -> Self {
        Self { answer: Box::pin(answer) }
    }
}

impl<T, E: From<StoreError>> Asking<T, E> {
    /// Waits for the answer.
    ///
    /// # Errors
    ///
    /// Those of the request. On a worker of a group it is refused: that worker may be needed for
    /// the answer.
    pub fn wait(self) -> Result<T, E> {
        block_on(self).unwrap_or_else(|failure| Err(StoreError::unanswered(&failure).into()))
    }
}

impl<T, E> Future for Asking<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.answer.as_mut().poll(cx)
    }
}

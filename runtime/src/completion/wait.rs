//! Blocking waits, for plain threads only.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::Completion;
use crate::failure::Failure;

thread_local! {
    /// Reasons to refuse blocking waits: the thread is a worker, or simulations live on it. Waiting
    /// would stop the very work that is waited for.
    static REFUSALS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    static UNPARK: Waker = unpark_waker();
}

/// Refuses blocking waits on this thread.
pub(crate) fn refuse_blocking() {
    REFUSALS.set(REFUSALS.get() + 1);
}

/// Takes one [`refuse_blocking`] back.
pub(crate) fn allow_blocking() {
    REFUSALS.set(REFUSALS.get() - 1);
}

/// Whether blocking waits are refused on this thread.
pub(crate) fn blocking_refused() -> bool {
    REFUSALS.get() > 0
}

impl<T> Completion<T> {
    /// Waits for the value, blocking the thread. On a worker thread only a completed one is
    /// answered; else it is refused with [`Failure::WouldBlock`], and given up.
    ///
    /// # Errors
    ///
    /// The failure it was completed with.
    pub fn wait(self) -> Result<T, Failure> {
        self.wait_until(None)
    }

    /// As [`Completion::wait`] for at most `limit` in all; then it is [`Failure::TimedOut`], and
    /// given up.
    ///
    /// # Errors
    ///
    /// The failure it was completed with, or the time-out.
    pub fn wait_timeout(self, limit: Duration) -> Result<T, Failure> {
        self.wait_until(Some(limit))
    }

    fn wait_until(mut self, limit: Option<Duration>) -> Result<T, Failure> {
        if let Some(outcome) = self.try_take() {
            return outcome;
        }
        block_until(&mut self, limit).unwrap_or_else(|failure| self.give_up(failure))
    }
}

/// Wakes a blocked thread.
struct Unpark(crate::sync::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn unpark_waker() -> Waker {
    Waker::from(Arc::new(Unpark(crate::sync::current_thread())))
}

/// Polls a future on this plain thread until it is done, parked in between.
///
/// On a worker thread it is polled once, and refused if that does not end it.
///
/// ```
/// use turnwheel_runtime::completion::block_on;
/// assert_eq!(block_on(async { 42 })?, 42);
/// # Ok::<(), turnwheel_runtime::Failure>(())
/// ```
///
/// # Errors
///
/// [`Failure::WouldBlock`] on a worker thread.
pub fn block_on<F: Future>(future: F) -> Result<F::Output, Failure> {
    block_until(future, None)
}

/// As [`block_on`] for at most `limit` in all; then the future is dropped.
///
/// # Errors
///
/// [`Failure::WouldBlock`] on a worker thread; [`Failure::TimedOut`].
pub fn block_on_timeout<F: Future>(future: F, limit: Duration) -> Result<F::Output, Failure> {
    block_until(future, Some(limit))
}

fn block_until<F: Future>(future: F, limit: Option<Duration>) -> Result<F::Output, Failure> {
    let deadline = limit.map(crate::sync::deadline);
    // One allocation for each thread that ever waits.
    let waker = UNPARK.try_with(Waker::clone);
    let waker = waker.unwrap_or_else(|_| unpark_waker());
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Ok(value);
        }
        if blocking_refused() {
            return Err(Failure::WouldBlock);
        }
        match (deadline, limit) {
            (Some(deadline), Some(limit)) => {
                let left = crate::sync::until(deadline).ok_or(Failure::TimedOut(limit))?;
                crate::sync::park(Some(left));
            }
            _ => crate::sync::park(None),
        }
    }
}

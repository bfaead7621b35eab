//! Blocking waits, for plain threads only.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::Completion;
use crate::failure::Failure;

thread_local! {
    /// Whether this thread is a worker, or runs a simulation's turn: waiting here would stop the
    /// very work that is waited for.
    static ON_WORKER: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Says whether blocking waits are refused on this thread. Returns what held before.
pub(crate) fn mark_worker_thread(is_worker: bool) -> bool {
    ON_WORKER.replace(is_worker)
}

/// Whether blocking waits are refused on this thread.
pub(crate) fn blocking_refused() -> bool {
    ON_WORKER.get()
}

impl<T> Completion<T> {
    /// Waits for the value, blocking the thread. On a worker thread only a completed one is
    /// answered; else it is refused with [`Failure::WouldBlock`], and given up.
    ///
    /// # Errors
    ///
    /// The failure it was completed with.
    pub fn wait(self) -> Result<T, Failure> {
        if blocking_refused() && !self.is_done() {
            return Err(Failure::WouldBlock);
        }
        self.wait_blocked()
    }

    /// As [`Completion::wait`] for at most `limit` in all; then it is [`Failure::TimedOut`], and
    /// given up.
    ///
    /// # Errors
    ///
    /// The failure it was completed with, or the time-out.
    pub fn wait_timeout(self, limit: Duration) -> Result<T, Failure> {
        if blocking_refused() && !self.is_done() {
            return Err(Failure::WouldBlock);
        }
        let deadline = crate::sync::deadline(limit);
        let mut state = self.shared.state.lock();
        loop {
            if let Some(result) = state.take() {
                return result;
            }
            if self.shared.changed.wait_until(&mut state, deadline).timed_out() {
                drop(state);
                // Decided by one exchange: the producer is told that it lost, or its value counts.
                if self.cancel() {
                    return Err(Failure::TimedOut(limit));
                }
                let late = self.shared.state.lock().take();
                return late.unwrap_or(Err(Failure::TimedOut(limit)));
            }
        }
    }
}

/// Wakes a blocked thread.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
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
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
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

//! Blocks a thread until a future is done. The threads that call a store may block.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls a future on this thread until it is done, for at most `limit`.
#[expect(
    clippy::disallowed_methods,
    reason = "a database is never simulated: its answers come in real time"
)]
pub(crate) fn wait<F: Future>(future: F, limit: Duration) -> Option<F::Output> {
    let deadline = Instant::now() + limit;
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        let left = deadline.checked_duration_since(Instant::now())?;
        std::thread::park_timeout(left);
    }
}

/// Blocks the thread for a while: between two attempts.
#[expect(clippy::disallowed_methods, reason = "a store is called on a thread that may block")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

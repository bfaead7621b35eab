//! When a connection has nothing to do: requests that are under way, until the end of their answers.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;

/// What is under way on a connection.
#[derive(Clone, Debug)]
pub(super) struct UnderWay(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    requests: usize,
    /// When there was one last.
    last: Instant,
}

/// A request that is under way as long as this is there.
#[derive(Debug)]
pub(super) struct One(UnderWay);

impl UnderWay {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(State { requests: 0, last: Instant::now() })))
    }

    /// A request begins.
    pub(super) fn begin(&self) -> One {
        self.0.lock().requests += 1;
        One(self.clone())
    }

    /// Ends when there was nothing under way for so long.
    pub(super) async fn idle(&self, within: Duration) {
        loop {
            let until = self.0.lock().idle_at(Instant::now(), within);
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

impl State {
    /// When it is idle at the earliest.
    fn idle_at(&self, now: Instant, within: Duration) -> Instant {
        let since = if self.requests > 0 { now } else { self.last };
        since + within
    }
}

impl Drop for One {
    fn drop(&mut self) {
        let mut state = self.0 .0.lock();
        state.requests -= 1;
        state.last = Instant::now();
    }
}

/// The body of an answer, which is under way until it is sent or given up.
pub(super) struct Counted {
    body: Body,
    _one: One,
}

impl Counted {
    pub(super) fn new(body: Body, one: One) -> Self {
        Self { body, _one: one }
    }
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_idle_when_nothing_is_under_way_for_long_enough() {
        let within = Duration::from_secs(60);
        let under_way = UnderWay::new();
        let begun = under_way.0.lock().last;
        let later = begun + Duration::from_secs(100);
        assert_eq!(under_way.0.lock().idle_at(later, within), begun + within);
        let (one, other) = (under_way.begin(), under_way.begin());
        drop(other);
        assert_eq!(under_way.0.lock().idle_at(later, within), later + within);
        drop(one);
        let ended = under_way.0.lock().last;
        assert!(ended >= begun);
        assert_eq!(under_way.0.lock().idle_at(later, within), ended + within);
    }
}

//! When a connection has nothing to do: requests that are under way, until the end of their answers.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Running requests of a connection.
#[derive(Clone, Debug)]
pub(super) struct UnderWay(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Notified when the connection becomes idle.
    idle: Arc<Notify>,
}

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
    /// Without requests; `idle` is notified whenever the last request has ended.
    pub(super) fn new(idle: Arc<Notify>) -> Self {
        let state = Mutex::new(State { requests: 0, last: Instant::now() });
        Self(Arc::new(Shared { state, idle }))
    }

    /// Time since which no request runs, if none does.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let state = self.0.state.lock();
        (state.requests == 0).then_some(state.last)
    }

    /// The time without requests begins now.
    pub(super) fn touch(&self) {
        self.0.state.lock().last = Instant::now();
    }

    /// A request begins.
    pub(super) fn begin(&self) -> One {
        self.0.state.lock().requests += 1;
        One(self.clone())
    }

    /// Ends when there was nothing under way for so long.
    pub(super) async fn idle(&self, within: Duration) {
        loop {
            let until = self.0.state.lock().idle_at(Instant::now(), within);
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
        let shared = &self.0 .0;
        let mut state = shared.state.lock();
        state.requests -= 1;
        state.last = Instant::now();
        if state.requests == 0 {
            drop(state);
            shared.idle.notify_waiters();
        }
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
        let under_way = UnderWay::new(Arc::default());
        let begun = under_way.0.state.lock().last;
        let later = begun + Duration::from_secs(100);
        assert_eq!(under_way.0.state.lock().idle_at(later, within), begun + within);
        let (one, other) = (under_way.begin(), under_way.begin());
        drop(other);
        assert_eq!(under_way.0.state.lock().idle_at(later, within), later + within);
        drop(one);
        let ended = under_way.0.state.lock().last;
        assert!(ended >= begun);
        assert_eq!(under_way.0.state.lock().idle_at(later, within), ended + within);
    }
}

//! When a connection has nothing to do: requests that are under way, until the end of their answers.
//! A request whose peer holds its body back is nothing to do either.

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
    /// Requests that wait for the rest of their bodies.
    stalled: usize,
    /// When the last of them began to wait.
    stalled_at: Instant,
}

/// State of a connection on which no request is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// No request has come since then.
    Idle(Instant),
    /// Each request waits for the rest of its body, the last one since then.
    Stalled(Instant),
}

/// A request that is under way as long as this is there.
#[derive(Debug)]
pub(super) struct One(UnderWay);

impl UnderWay {
    /// Without requests; `idle` is notified whenever the last request has ended.
    pub(super) fn new(idle: Arc<Notify>) -> Self {
        let now = Instant::now();
        let state = State { requests: 0, last: now, stalled: 0, stalled_at: now };
        Self(Arc::new(Shared { state: Mutex::new(state), idle }))
    }

    /// Since when no request is served, if none is.
    pub(super) fn rest(&self) -> Option<Rest> {
        let state = self.0.state.lock();
        if state.requests == 0 {
            return Some(Rest::Idle(state.last));
        }
        (state.stalled >= state.requests).then_some(Rest::Stalled(state.stalled_at))
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

    /// A request begins to wait for the rest of its body.
    pub(super) fn stall(&self) -> Stall {
        let shared = &self.0;
        let mut state = shared.state.lock();
        state.stalled += 1;
        state.stalled_at = Instant::now();
        drop(state);
        shared.idle.notify_waiters();
        Stall(self.clone())
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

/// A request waits for the rest of its body as long as this is there.
#[derive(Debug)]
pub(super) struct Stall(UnderWay);

impl Drop for Stall {
    fn drop(&mut self) {
        self.0 .0.state.lock().stalled -= 1;
    }
}

/// The body of a request. From the first wait for a part of it until its end the request is
/// stalled, however many parts come meanwhile: a peer that drips holds its place no longer than a
/// silent one.
pub(super) struct Expected<B> {
    body: B,
    under_way: UnderWay,
    stall: Option<Stall>,
}

impl<B> Expected<B> {
    pub(super) fn new(body: B, under_way: UnderWay) -> Self {
        Self { body, under_way, stall: None }
    }
}

impl<B: HttpBody + Unpin> HttpBody for Expected<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        match &frame {
            Poll::Pending if self.stall.is_none() => self.stall = Some(self.under_way.stall()),
            Poll::Ready(Some(Ok(_))) if !self.body.is_end_stream() => {}
            Poll::Pending => {}
            Poll::Ready(_) => self.stall = None,
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
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
    use std::task::Waker;

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
    /// A body that gives these parts, and where there is none has to be waited for.
    struct Parts(std::collections::VecDeque<Option<&'static str>>);

    impl HttpBody for Parts {
        type Data = Bytes;
        type Error = axum::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
            match self.0.pop_front() {
                Some(None) => Poll::Pending,
                part => Poll::Ready(part.flatten().map(|part| Ok(Frame::data(part.into())))),
            }
        }
    }

    #[test]
    fn a_request_is_stalled_from_the_first_wait_for_its_body_to_its_end() {
        let under_way = UnderWay::new(Arc::default());
        let _request = under_way.begin();
        let parts = [Some("a"), None, Some("b"), None, Some("c")];
        let mut body = Expected::new(Parts(parts.into()), under_way.clone());
        let mut poll = || {
            let _part = Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop()));
            under_way.rest()
        };
        assert_eq!(poll(), None, "its first part came with its head");
        let Some(Rest::Stalled(since)) = poll() else { panic!("it is stalled") };
        for _ in 0..3 {
            assert_eq!(poll(), Some(Rest::Stalled(since)), "a part does not change that");
        }
        let other = under_way.begin();
        assert_eq!(under_way.rest(), None, "another request of the connection is served");
        drop(other);
        let mut poll = || {
            let _end = Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop()));
            under_way.rest()
        };
        assert_eq!(poll(), None, "its body has come");
    }
}

//! A completion with many consumers.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker};

use super::{Completion, InlineExecutor};
use crate::failure::Failure;
use crate::sync::{Arc, Mutex};

/// A completion whose value every clone gets; told in the order in which they first asked.
pub struct SharedCompletion<T> {
    inner: Arc<Inner<T>>,
    /// This clone's place among the waiters, once it has one.
    place: Option<usize>,
}

struct Inner<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    source: Option<Completion<T>>,
    value: Option<Result<T, Failure>>,
    wakers: Vec<Option<Waker>>,
}

impl<T: Send + 'static> Wake for Inner<T> {
    fn wake(self: Arc<Self>) {
        // The source is done: everybody polls again and the first takes the value.
        let wakers = std::mem::take(&mut self.state.lock().wakers);
        for waker in wakers.into_iter().flatten() {
            let call = std::panic::AssertUnwindSafe(|| waker.wake());
            if let Err(panic) = std::panic::catch_unwind(call) {
                let failure = Failure::from_panic(panic);
                tracing::error!(%failure, "the waker of a completion panicked");
            }
        }
    }
}

impl<T: Clone + Send + 'static> Completion<T> {
    /// Makes it a completion that can be cloned. One more heap allocation.
    pub fn shared(self) -> SharedCompletion<T> {
        let state = State { source: Some(self), value: None, wakers: Vec::new() };
        SharedCompletion { inner: Arc::new(Inner { state: Mutex::new(state) }), place: None }
    }
}

impl<T: Clone + Send + 'static> SharedCompletion<T> {
    /// Whether the value is there.
    pub fn is_done(&self) -> bool {
        let state = self.inner.state.lock();
        state.value.is_some() || state.source.as_ref().is_some_and(Completion::is_done)
    }

    /// Waits for the value, blocking the thread; see [`Completion::wait`].
    ///
    /// # Errors
    ///
    /// As [`Completion::wait`].
    pub fn wait(&self) -> Result<T, Failure> {
        super::chain::spawn_inline(self.clone()).wait()
    }

    /// A completion of its own for one consumer.
    pub fn subscribe(&self) -> Completion<T> {
        super::chain::drive(self.clone(), InlineExecutor)
    }
}

impl<T> Clone for SharedCompletion<T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), place: None }
    }
}

impl<T> fmt::Debug for SharedCompletion<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedCompletion").finish_non_exhaustive()
    }
}

impl<T: Clone + Send + 'static> Future for SharedCompletion<T> {
    type Output = Result<T, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let inner = Arc::clone(&self.inner);
        let mut state = inner.state.lock();
        if let Some(value) = &state.value {
            return Poll::Ready(value.clone());
        }
        // The waiters come first: the source may wake them from its own poll.
        match self.place.and_then(|place| state.wakers.get_mut(place)) {
            Some(waker) => *waker = Some(cx.waker().clone()),
            None => {
                self.place = Some(state.wakers.len());
                state.wakers.push(Some(cx.waker().clone()));
            }
        }
        let Some(source) = &mut state.source else {
            return Poll::Pending;
        };
        let waker = Waker::from(Arc::clone(&inner));
        let polled = Pin::new(source).poll(&mut Context::from_waker(&waker));
        let Poll::Ready(value) = polled else {
            return Poll::Pending;
        };
        let done = state.source.take();
        state.value = Some(value.clone());
        drop(state);
        drop(done);
        waker.wake();
        Poll::Ready(value)
    }
}

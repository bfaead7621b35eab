//! A completion with many consumers.

use std::fmt;
use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_runtime::completion::{block_on, block_on_timeout, completion};
use turnwheel_runtime::internal::{contain, spawn_inline};
use turnwheel_runtime::{Completion, Failure};

/// A completion whose value every clone gets, in the order in which they were first polled. When
/// the last clone is dropped before the value is there, the producer is notified of the cancel.
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
    value: Option<Arc<Result<T, Failure>>>,
    /// Wakers of the clones; a clone that is dropped leaves its place to the next one.
    wakers: Vec<Option<Waker>>,
}

/// Wakes all waiters. Does not keep them: the source must not hold its own consumers.
struct Tell<T>(Weak<Inner<T>>);

impl<T: Send + Sync + 'static> Wake for Tell<T> {
    fn wake(self: Arc<Self>) {
        if let Some(inner) = self.0.upgrade() {
            inner.wake_all();
        }
    }
}

impl<T> Inner<T> {
    fn wake_all(&self) {
        // The source is done: all clones poll again and the first takes the value.
        let wakers: Vec<Waker> =
            self.state.lock().wakers.iter_mut().filter_map(Option::take).collect();
        for waker in wakers {
            contain("the waker of a completion", || waker.wake());
        }
    }
}

impl<T> State<T> {
    /// Puts a waker in this place, or in a free one.
    fn register(&mut self, place: Option<usize>, waker: Waker) -> (usize, Option<Waker>) {
        let place = place.or_else(|| self.wakers.iter().position(Option::is_none));
        let place = place.unwrap_or_else(|| {
            self.wakers.push(None);
            self.wakers.len() - 1
        });
        (place, self.wakers[place].replace(waker))
    }
}

/// Completions that can have many consumers.
pub trait Share<T> {
    /// Makes it a completion that can be cloned. One more heap allocation.
    fn shared(self) -> SharedCompletion<T>;
}

impl<T: Clone + Send + Sync + 'static> Share<T> for Completion<T> {
    fn shared(self) -> SharedCompletion<T> {
        let state = State { source: Some(self), value: None, wakers: Vec::new() };
        SharedCompletion { inner: Arc::new(Inner { state: Mutex::new(state) }), place: None }
    }
}

impl<T: Clone + Send + Sync + 'static> SharedCompletion<T> {
    /// Whether the value is there.
    pub fn is_done(&self) -> bool {
        let state = self.inner.state.lock();
        state.value.is_some() || state.source.as_ref().is_some_and(Completion::is_done)
    }

    /// Waits for the value, blocking the thread; refused on a worker unless it is done.
    ///
    /// # Errors
    ///
    /// The failure it was completed with; [`Failure::WouldBlock`] on a worker.
    pub fn wait(&self) -> Result<T, Failure> {
        block_on(self.clone())?
    }

    /// As [`SharedCompletion::wait`] for at most `limit` in all. A time-out gives nothing up: the
    /// other clones, and this one, go on waiting.
    ///
    /// ```
    /// use std::time::Duration;
    /// use turnwheel_extras::Share;
    /// use turnwheel_runtime::completion::completion;
    /// let (completer, answer) = completion();
    /// let shared = answer.shared();
    /// assert!(shared.wait_timeout(Duration::from_millis(1)).is_err());
    /// completer.complete(7)?;
    /// assert_eq!(shared.wait_timeout(Duration::from_millis(1))?, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`SharedCompletion::wait`], and [`Failure::TimedOut`].
    pub fn wait_timeout(&self, limit: Duration) -> Result<T, Failure> {
        block_on_timeout(self.clone(), limit)?
    }

    /// A completion of its own for one consumer. Dropping it gives up this consumer only.
    pub fn subscribe(&self) -> Completion<T> {
        let (completer, answer) = completion();
        let mut source = self.clone();
        let forward = poll_fn(move |cx| {
            if let Poll::Ready(outcome) = Pin::new(&mut source).poll(cx) {
                // The consumer may have given up.
                let _ = completer.complete_with(outcome);
                return Poll::Ready(Ok(()));
            }
            completer.on_cancel(cx.waker().clone());
            // It may have given up before the waker was stored.
            if completer.is_cancelled() {
                return Poll::Ready(Ok(()));
            }
            Poll::Pending
        });
        spawn_inline(forward).detach();
        answer
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

impl<T: Clone + Send + Sync + 'static> Future for SharedCompletion<T> {
    type Output = Result<T, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let own = cx.waker().clone();
        let inner = Arc::clone(&self.inner);
        let mut state = inner.state.lock();
        if let Some(value) = state.value.clone() {
            drop(state);
            return Poll::Ready((*value).clone());
        }
        // The waiters come first: the source may wake them from its own poll.
        let (place, before) = state.register(self.place, own);
        self.place = Some(place);
        let waker = Waker::from(Arc::new(Tell(Arc::downgrade(&inner))));
        let polled = state
            .source
            .as_mut()
            .map(|source| Pin::new(source).poll(&mut Context::from_waker(&waker)));
        let Some(Poll::Ready(value)) = polled else {
            drop(state);
            drop(before);
            return Poll::Pending;
        };
        let value = Arc::new(value);
        state.value = Some(Arc::clone(&value));
        let done = state.source.take();
        drop(state);
        inner.wake_all();
        drop((done, before));
        // User code, with nothing locked and all clones woken.
        Poll::Ready((*value).clone())
    }
}

impl<T> Drop for SharedCompletion<T> {
    fn drop(&mut self) {
        let Some(place) = self.place else { return };
        let waker = self.inner.state.lock().wakers.get_mut(place).and_then(Option::take);
        drop(waker);
    }
}

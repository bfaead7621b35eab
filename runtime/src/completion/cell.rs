//! A completion and its completers: one value, one consumer, any number of racing producers.
//!
//! The value lies behind a lock that is held only to move it; `is_done` mirrors it for readers.
//! Wakers are called outside the lock, and a panicking one is contained. The answer to a call has a
//! single producer, so it uses a oneshot channel without a lock.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::call::Answer;
use crate::failure::{contain, Failure};
use crate::sync::{Arc, AtomicBool, AtomicUsize, Mutex, Ordering};

/// Error of a completer that comes too late; gives the value back.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the completion was completed already")]
#[must_use]
pub struct AlreadyCompleted<T>(pub T);

debug_fields!(impl<T> AlreadyCompleted<T>, self =>);

/// The value's way.
enum Value<T> {
    Pending,
    Ready(Result<T, Failure>),
    Taken,
}

struct State<T> {
    value: Value<T>,
    /// Waker of the consumer.
    waker: Option<Waker>,
    /// Waker of the producer for a consumer that gives up.
    on_cancel: Option<Waker>,
}

/// State shared by both sides; one heap allocation.
struct Inner<T> {
    state: Mutex<State<T>>,
    is_done: AtomicBool,
    is_cancelled: AtomicBool,
    completers: AtomicUsize,
}

impl<T> State<T> {
    /// Takes the value if there is one; a value taken before is a failure.
    fn take(&mut self) -> Option<Result<T, Failure>> {
        match std::mem::replace(&mut self.value, Value::Taken) {
            Value::Ready(result) => Some(result),
            Value::Taken => Some(Err(Failure::Refused("the value was taken already"))),
            Value::Pending => {
                self.value = Value::Pending;
                None
            }
        }
    }
}

impl<T> Inner<T> {
    fn new(value: Value<T>, completers: usize) -> Arc<Self> {
        let is_done = !matches!(value, Value::Pending);
        Arc::new(Self {
            state: Mutex::new(State { value, waker: None, on_cancel: None }),
            is_done: AtomicBool::new(is_done),
            is_cancelled: AtomicBool::new(false),
            completers: AtomicUsize::new(completers),
        })
    }

    fn complete(&self, result: Result<T, Failure>) -> Result<(), Result<T, Failure>> {
        let mut state = self.state.lock();
        if !matches!(state.value, Value::Pending) {
            return Err(result);
        }
        state.value = Value::Ready(result);
        // Release: pairs with the load in `is_done`.
        self.is_done.store(true, Ordering::Release);
        let waker = state.waker.take();
        let on_cancel = state.on_cancel.take();
        drop(state);
        wake(waker);
        contain("dropping a waker", || drop(on_cancel));
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Acquire)
    }

    /// The consumer gives up. Returns whether it came first.
    fn cancel(&self) -> bool {
        let (waker, on_cancel) = {
            let mut state = self.state.lock();
            if !matches!(state.value, Value::Pending) {
                return false;
            }
            state.value = Value::Ready(Err(Failure::Cancelled));
            self.is_cancelled.store(true, Ordering::Release);
            self.is_done.store(true, Ordering::Release);
            (state.waker.take(), state.on_cancel.take())
        };
        wake(on_cancel);
        // The consumer polls no more; the producer may keep the rest for long.
        contain("dropping a waker", || drop(waker));
        true
    }
}

fn wake(waker: Option<Waker>) {
    let Some(waker) = waker else { return };
    contain("the waker of a completion", || waker.wake());
}

/// A pair of producer and consumer. One heap allocation.
///
/// ```
/// use turnwheel_runtime::completion::completion;
/// let (completer, answer) = completion();
/// assert!(completer.complete(42).is_ok());
/// assert!(completer.complete(43).is_err(), "the first wins, the second gets its value back");
/// assert_eq!(answer.wait()?, 42);
/// # Ok::<(), turnwheel_runtime::Failure>(())
/// ```
pub fn completion<T>() -> (Completer<T>, Completion<T>) {
    let shared = Inner::new(Value::Pending, 1);
    (Completer { shared: Arc::clone(&shared) }, Completion::of(shared))
}

/// The producing side. Clones race: the first completion wins. If the last clone is dropped without
/// an answer, the consumer gets [`Failure::Abandoned`] (see [the rule](crate#handles)).
#[must_use = "dropping the last one fails the completion"]
pub struct Completer<T> {
    shared: Arc<Inner<T>>,
}

impl<T> Completer<T> {
    /// Completes with a value. Waits at most while another producer moves its value.
    ///
    /// # Errors
    ///
    /// Another completer was faster, or the consumer gave up; the value comes back.
    pub fn complete(&self, value: T) -> Result<(), AlreadyCompleted<T>> {
        let given = self.shared.complete(Ok(value)).map_err(Result::ok);
        given.map_err(|value| AlreadyCompleted(value.expect("the value comes back as given")))
    }

    /// Completes with a failure.
    ///
    /// # Errors
    ///
    /// As [`Completer::complete`].
    pub fn fail(&self, failure: Failure) -> Result<(), AlreadyCompleted<Failure>> {
        let given = self.shared.complete(Err(failure)).map_err(Result::err);
        given.map_err(|failure| AlreadyCompleted(failure.expect("it comes back as given")))
    }

    /// Completes with either.
    ///
    /// # Errors
    ///
    /// As [`Completer::complete`].
    pub fn complete_with(
        &self,
        result: Result<T, Failure>,
    ) -> Result<(), AlreadyCompleted<Result<T, Failure>>> {
        self.shared.complete(result).map_err(AlreadyCompleted)
    }

    /// Whether it is completed, by whomever.
    pub fn is_done(&self) -> bool {
        self.shared.is_done()
    }

    /// Whether the consumer gave up: the work may be spared.
    pub fn is_cancelled(&self) -> bool {
        self.shared.is_cancelled.load(Ordering::Acquire)
    }

    /// Wakes `waker` when the consumer gives up; at once if it has. One waker at a time.
    pub fn on_cancel(&self, waker: Waker) {
        let mut state = self.shared.state.lock();
        if matches!(state.value, Value::Pending) {
            let before = state.on_cancel.replace(waker);
            drop(state);
            contain("dropping a waker", || drop(before));
        } else if self.is_cancelled() {
            drop(state);
            wake(Some(waker));
        }
    }
}

impl<T> Clone for Completer<T> {
    fn clone(&self) -> Self {
        // Relaxed: made from an existing one, as in `Arc`.
        self.shared.completers.fetch_add(1, Ordering::Relaxed);
        Self { shared: Arc::clone(&self.shared) }
    }
}

debug_fields!(impl<T> Completer<T>, self => is_done: self.is_done());

impl<T> Drop for Completer<T> {
    fn drop(&mut self) {
        // AcqRel: the last completer sees the completions of all others.
        if self.shared.completers.fetch_sub(1, Ordering::AcqRel) == 1 && !self.shared.is_done() {
            // A consumer that gave up meanwhile is no error.
            let _ = self.shared.complete(Err(Failure::Abandoned));
        }
    }
}

/// The consuming side: a standard future of one value. Dropping it notifies the producer but
/// cancels nothing (see [the rule](crate#handles)): a close begun by `Task::close` goes on.
pub struct Completion<T> {
    source: Source<T>,
    /// Dropping it gives nothing up.
    is_detached: bool,
}

/// Source of the value.
enum Source<T> {
    Shared(Arc<Inner<T>>),
    Call(Answer<T>),
}

impl<T> Completion<T> {
    fn of(shared: Arc<Inner<T>>) -> Self {
        Self { source: Source::Shared(shared), is_detached: false }
    }

    /// Of the answer to a call.
    pub(crate) fn answered(answer: Answer<T>) -> Self {
        Self { source: Source::Call(answer), is_detached: false }
    }

    /// Returns a completed one.
    pub fn done(value: T) -> Self {
        Self::of(Inner::new(Value::Ready(Ok(value)), 0))
    }

    /// Returns a failed one.
    pub fn failed(failure: Failure) -> Self {
        Self::of(Inner::new(Value::Ready(Err(failure)), 0))
    }

    /// Whether it is completed. One load.
    pub fn is_done(&self) -> bool {
        match &self.source {
            Source::Shared(shared) => shared.is_done(),
            Source::Call(answer) => answer.is_done(),
        }
    }

    /// Calls `look` with the outcome if it is there and not taken; it stays there.
    pub fn peek<R>(&mut self, look: impl FnOnce(&Result<T, Failure>) -> R) -> Option<R> {
        /// Puts the outcome back, also when `look` panics.
        struct PutBack<'a, T>(&'a Inner<T>, Option<Result<T, Failure>>);
        impl<T> Drop for PutBack<'_, T> {
            fn drop(&mut self) {
                if let Some(result) = self.1.take() {
                    self.0.state.lock().value = Value::Ready(result);
                }
            }
        }
        if !self.is_done() {
            return None;
        }
        let shared = match &mut self.source {
            Source::Shared(shared) => shared,
            Source::Call(answer) => return answer.peek(look),
        };
        // Taken for the time of the call, which holds no lock; only this consumer could see it.
        let value = std::mem::replace(&mut shared.state.lock().value, Value::Taken);
        let Value::Ready(result) = value else { return None };
        let there = PutBack(shared, Some(result));
        there.1.as_ref().map(look)
    }

    /// Takes the value if it is there; a second time it is [`Failure::Refused`].
    pub fn try_take(&mut self) -> Option<Result<T, Failure>> {
        if !self.is_done() {
            return None;
        }
        match &mut self.source {
            Source::Shared(shared) => shared.state.lock().take(),
            Source::Call(answer) => answer.take(),
        }
    }

    /// Gives up: it completes with [`Failure::Cancelled`]. Returns whether it came before the
    /// producer.
    pub fn cancel(&self) -> bool {
        match &self.source {
            Source::Shared(shared) => shared.cancel(),
            Source::Call(answer) => answer.cancel(),
        }
    }

    /// Cancels it and returns `failure`; a value that came before the cancel is not lost.
    pub(super) fn give_up(&mut self, failure: Failure) -> Result<T, Failure> {
        let late = if self.cancel() { None } else { self.try_take() };
        late.unwrap_or(Err(failure))
    }

    /// Drops this side without a cancel: the producer is not notified.
    pub fn detach(mut self) {
        self.is_detached = true;
    }
}

// The value is moved in and out as a whole, never pinned.
impl<T> Unpin for Completion<T> {}

impl<T> Future for Completion<T> {
    type Output = Result<T, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let shared = match &mut self.source {
            Source::Shared(shared) => shared,
            Source::Call(answer) => return answer.poll(cx.waker()),
        };
        // User code, so it runs without the lock.
        let own = (!shared.is_done()).then(|| cx.waker().clone());
        let mut state = shared.state.lock();
        if let Some(result) = state.take() {
            drop(state);
            contain("dropping a waker", || drop(own));
            return Poll::Ready(result);
        }
        let before = std::mem::replace(&mut state.waker, own);
        drop(state);
        contain("dropping a waker", || drop(before));
        Poll::Pending
    }
}

debug_fields!(impl<T> Completion<T>, self => is_done: self.is_done());

impl<T> Drop for Completion<T> {
    fn drop(&mut self) {
        let Source::Shared(shared) = &self.source else { return };
        if !self.is_detached && !shared.is_done() {
            shared.cancel();
        }
    }
}

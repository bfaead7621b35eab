//! The answer to a call, on its way back: one slot that the answering and the asking side share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;
use turnwheel_runtime::Failure;

use crate::request::Link;

/// Where the answer goes. Dropped without one, the caller is told that there will be none.
///
/// A handler that answers later, or lets another actor answer, passes it on; see
/// [`Address::forward`](crate::Address::forward).
#[derive(Debug)]
#[must_use = "dropping it tells the caller that there is no answer"]
pub struct ReplyTo<R> {
    slot: Option<Arc<Slot<R>>>,
}

/// The shared place of an answer.
#[derive(Debug)]
pub(crate) struct Slot<R> {
    state: Mutex<State<R>>,
    /// When the handler began, on the group's clock; 0 before.
    pub(crate) started_ns: AtomicU64,
    /// When the caller gives up; `u64::MAX` never.
    pub(crate) deadline_ns: u64,
    /// The chain of calls that waits for this one.
    pub(crate) chain: Option<Arc<Link>>,
}

#[derive(Debug)]
enum State<R> {
    Empty,
    Awaited(Waker),
    Answered(Result<R, Failure>),
    /// The answer was taken, or nobody waits for it any more.
    Over,
}

impl<R> Slot<R> {
    pub(crate) fn new(deadline_ns: u64, chain: Option<Arc<Link>>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::Empty),
            started_ns: AtomicU64::new(0),
            deadline_ns,
            chain,
        })
    }

    fn answer(&self, answer: Result<R, Failure>) {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Over) {
            State::Empty => *state = State::Answered(answer),
            State::Awaited(waker) => {
                *state = State::Answered(answer);
                drop(state);
                waker.wake();
            }
            // Given up: the answer goes nowhere. Dropped without the lock, it is the user's.
            over @ (State::Over | State::Answered(_)) => {
                *state = over;
                drop(state);
                drop(answer);
            }
        }
    }

    /// Takes the answer, or leaves a waker for it.
    pub(crate) fn take(&self, waker: Option<&Waker>) -> Option<Result<R, Failure>> {
        let mut state = self.state.lock();
        match &*state {
            State::Answered(_) => match std::mem::replace(&mut *state, State::Over) {
                State::Answered(answer) => Some(answer),
                _ => None,
            },
            State::Awaited(known) if waker.is_some_and(|waker| known.will_wake(waker)) => None,
            State::Empty | State::Awaited(_) => {
                if let Some(waker) = waker {
                    *state = State::Awaited(waker.clone());
                }
                None
            }
            State::Over => Some(Err(Failure::Cancelled)),
        }
    }

    /// Gives up waiting, unless the answer has come.
    pub(crate) fn give_up(&self) -> Option<Result<R, Failure>> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Over) {
            State::Answered(answer) => Some(answer),
            former => {
                drop(state);
                drop(former);
                None
            }
        }
    }

    /// Whether nobody waits any more.
    pub(crate) fn is_over(&self) -> bool {
        matches!(*self.state.lock(), State::Over)
    }
}

impl<R> ReplyTo<R> {
    pub(crate) fn new(slot: Arc<Slot<R>>) -> Self {
        Self { slot: Some(slot) }
    }

    /// Answers.
    pub fn send(mut self, answer: R) {
        if let Some(slot) = self.slot.take() {
            slot.answer(Ok(answer));
        }
    }

    /// Tells the caller that there is no answer, and why.
    pub fn fail(mut self, failure: Failure) {
        if let Some(slot) = self.slot.take() {
            slot.answer(Err(failure));
        }
    }

    /// Whether the caller waits no longer: it has given up, or its deadline has passed.
    pub fn is_abandoned(&self) -> bool {
        self.slot.as_ref().is_none_or(|slot| slot.is_over())
    }

    pub(crate) fn slot(&self) -> Option<&Arc<Slot<R>>> {
        self.slot.as_ref()
    }

    /// Notes that the handler begins. False if the deadline has passed: then it must not.
    #[inline]
    pub(crate) fn begin(&self, now_ns: u64) -> bool {
        let Some(slot) = &self.slot else { return false };
        if now_ns >= slot.deadline_ns {
            return false;
        }
        slot.started_ns.store(now_ns.max(1), Ordering::Relaxed);
        true
    }
}

impl<R> Drop for ReplyTo<R> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            let failure = if std::thread::panicking() {
                Failure::Panicked("the handler panicked before it answered".into())
            } else {
                Failure::Closed
            };
            slot.answer(Err(failure));
        }
    }
}

//! The answer to a call, on its way back: one slot that the answering and the asking side share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;
use turnwheel_runtime::Failure;

use crate::deadline::Expire;
use crate::pool::Load;
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
    /// When it was last forwarded; 0 if it was not.
    pub(crate) forwarded_ns: AtomicU64,
    /// When the caller gives up; `u64::MAX` never.
    pub(crate) deadline_ns: u64,
    /// The chain of calls that waits for this one.
    pub(crate) chain: Option<Arc<Link>>,
    /// Where the message counts as in flight, if it went through a pool.
    load: Option<Arc<Load>>,
    /// Nobody asked: the slot is there for the count alone.
    is_told: bool,
}

#[derive(Debug)]
enum State<R> {
    Empty,
    Awaited(Waker),
    Answered(Result<R, Failure>),
    /// The deadline has passed, and the caller was woken for it.
    Expired,
    /// The answer was taken, or nobody waits for it any more.
    Over,
}

impl<R> Slot<R> {
    pub(crate) fn new(deadline_ns: u64, chain: Option<Arc<Link>>) -> Arc<Self> {
        Self::counted(deadline_ns, chain, None)
    }

    /// As [`Slot::new`], of a message that counts as in flight until its answer.
    pub(crate) fn counted(
        deadline_ns: u64,
        chain: Option<Arc<Link>>,
        load: Option<Arc<Load>>,
    ) -> Arc<Self> {
        Arc::new(Self::make(State::Empty, deadline_ns, chain, load))
    }

    /// Of a message that nobody waits for the answer of, and that counts as in flight.
    pub(crate) fn told(load: Arc<Load>) -> Arc<Self> {
        let slot = Self::make(State::Over, u64::MAX, None, Some(load));
        Arc::new(Self { is_told: true, ..slot })
    }

    fn make(
        state: State<R>,
        deadline_ns: u64,
        chain: Option<Arc<Link>>,
        load: Option<Arc<Load>>,
    ) -> Self {
        let (started_ns, forwarded_ns) = (AtomicU64::new(0), AtomicU64::new(0));
        let state = Mutex::new(state);
        Self { state, started_ns, forwarded_ns, deadline_ns, chain, load, is_told: false }
    }

    /// The message is in flight no more: called once, by the side that answers.
    fn settle_load(&self) {
        // One that was forwarded has been another actor's since.
        if self.forwarded_ns.load(Ordering::Relaxed) == 0 {
            if let Some(load) = &self.load {
                load.leave();
            }
        }
    }

    fn answer(&self, answer: Result<R, Failure>) {
        self.settle_load();
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Over) {
            State::Empty => *state = State::Answered(answer),
            State::Awaited(waker) => {
                *state = State::Answered(answer);
                drop(state);
                waker.wake();
            }
            // Given up: the answer goes nowhere. Dropped without the lock, it is the user's.
            over @ (State::Over | State::Expired | State::Answered(_)) => {
                *state = over;
                drop(state);
                drop(answer);
            }
        }
    }

    /// Takes the answer, or leaves a waker for it.
    pub(crate) fn take(&self, waker: &Waker) -> Option<Outcome<R>> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Over) {
            State::Answered(answer) => Some(Outcome::Answered(answer)),
            State::Expired => Some(Outcome::Expired),
            State::Over => Some(Outcome::Answered(Err(Failure::Cancelled))),
            State::Awaited(known) if known.will_wake(waker) => {
                *state = State::Awaited(known);
                None
            }
            former => {
                *state = State::Awaited(waker.clone());
                drop(state);
                // Without the lock: a waker's destructor is user code.
                drop(former);
                None
            }
        }
    }

    /// The deadline has passed: there will be no answer, unless it has come.
    fn end_late(&self) {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Expired) {
            State::Empty => {}
            State::Awaited(waker) => {
                drop(state);
                waker.wake();
            }
            settled => *state = settled,
        }
    }

    /// Gives up waiting; an answer that has come is dropped.
    pub(crate) fn give_up(&self) {
        let former = std::mem::replace(&mut *self.state.lock(), State::Over);
        drop(former);
    }

    /// Whether nobody waits any more.
    pub(crate) fn is_over(&self) -> bool {
        matches!(*self.state.lock(), State::Over | State::Expired)
    }
}

/// What became of a call.
#[derive(Debug)]
pub(crate) enum Outcome<R> {
    Answered(Result<R, Failure>),
    Expired,
}

impl<R: Send> Expire for Slot<R> {
    fn expire(&self) {
        self.end_late();
    }

    fn is_settled(&self) -> bool {
        !matches!(*self.state.lock(), State::Empty | State::Awaited(_))
    }
}

impl<R> ReplyTo<R> {
    pub(crate) fn new(slot: Arc<Slot<R>>) -> Self {
        Self { slot: Some(slot) }
    }

    /// Of a message that was told: the answer is dropped.
    pub(crate) fn nobody() -> Self {
        Self { slot: None }
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

    /// Whether somebody asked.
    pub(crate) fn is_asked(&self) -> bool {
        self.slot.as_ref().is_some_and(|slot| !slot.is_told)
    }

    pub(crate) fn slot(&self) -> Option<&Arc<Slot<R>>> {
        self.slot.as_ref()
    }

    /// Notes that another actor is to answer.
    pub(crate) fn forwarded(&self, now_ns: u64) {
        if let Some(slot) = &self.slot {
            slot.settle_load();
            slot.forwarded_ns.store(now_ns.max(1), Ordering::Relaxed);
            slot.started_ns.store(0, Ordering::Relaxed);
        }
    }

    /// Notes that the handler begins. False if the deadline has passed: then it must not.
    #[inline]
    pub(crate) fn begin(&self, now_ns: u64) -> bool {
        let Some(slot) = &self.slot else { return false };
        if now_ns >= slot.deadline_ns {
            // Said here, and not left to the timer: what comes next is that the reply is dropped.
            slot.end_late();
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

//! The answer to a call, on its way back through an exchange that both sides share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use turnwheel_runtime::oneshot::{self, Receiver, Sender, SharedOneshot, WeakOneshot};
use turnwheel_runtime::{Failure, Group};

use crate::call::{is_abandoned, CallChain, Load, Watchers};
use crate::error::CallCycle;
use crate::large::is_large;

/// Result of a call.
pub(crate) type Answer<R> = Result<R, Failure>;

/// Destination of the answer. If it is dropped without one, the caller gets an error.
///
/// A handler that answers later, or lets another actor answer, passes it on; see
/// [`Address::forward`](crate::Address::forward).
#[derive(Debug)]
#[must_use = "dropping it tells the caller that there is no answer"]
pub struct ReplyTo<R> {
    sender: Option<Sender<Answer<R>, Call>>,
}

/// In place of the begin of a handler: the call was cancelled before it.
const CANCELLED: u64 = u64::MAX;

/// Begin and end of the time that a caller waits, on the group's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Term {
    pub(crate) asked_ns: u64,
    pub(crate) deadline_ns: u64,
}

impl Term {
    /// Of a message without a caller.
    pub(crate) const ENDLESS: Self = Self { asked_ns: 0, deadline_ns: u64::MAX };
}

/// Data of a call that both of its sides share.
#[derive(Debug)]
pub(crate) struct Call {
    /// When the handler began, on the group's clock; 0 before, [`CANCELLED`] if it never will. One
    /// exchange of this word decides between the begin and a cancellation.
    pub(crate) started_ns: AtomicU64,
    /// When it was last forwarded; 0 if it was not.
    pub(crate) forwarded_ns: AtomicU64,
    /// When the caller asked.
    pub(crate) asked_ns: u64,
    /// When the caller gives up; `u64::MAX` never.
    pub(crate) deadline_ns: u64,
    /// The caller, and the calls that wait for this one.
    pub(crate) chain: CallChain,
    /// Futures that wait for the caller to give up.
    pub(crate) watchers: Watchers,
    /// In-flight count of the message, if it went through a pool.
    load: Option<Arc<Load>>,
    /// No caller: the channel is there for the count, or for the end of the handler.
    is_told: bool,
}

impl Call {
    pub(crate) fn new(term: Term, chain: CallChain) -> Self {
        Self::counted(term, chain, None)
    }

    /// As [`Call::new`], of a message that counts as in flight until its answer.
    #[inline(always)]
    pub(crate) fn counted(term: Term, chain: CallChain, load: Option<Arc<Load>>) -> Self {
        let Term { asked_ns, deadline_ns } = term;
        Self {
            started_ns: AtomicU64::new(0),
            forwarded_ns: AtomicU64::new(0),
            asked_ns,
            deadline_ns,
            chain,
            watchers: Watchers::default(),
            load,
            is_told: false,
        }
    }

    /// For a message without a caller, whose end is observed.
    pub(crate) fn unasked() -> Self {
        Self { is_told: true, ..Self::new(Term::ENDLESS, CallChain::default()) }
    }

    /// Notes that the handler begins. False if the call was cancelled before.
    #[inline]
    fn start(&self, now_ns: u64) -> bool {
        let started_ns = now_ns.clamp(1, CANCELLED - 1);
        // Relaxed: the word itself is all that both sides look at.
        let started =
            self.started_ns.compare_exchange(0, started_ns, Ordering::Relaxed, Ordering::Relaxed);
        started != Err(CANCELLED)
    }

    /// Cancels the call, unless its handler has begun. False if it has.
    pub(crate) fn cancel(&self) -> bool {
        // Acquire: pairs with the release in `forwarded`, which takes the begin back.
        let cancelled =
            self.started_ns.compare_exchange(0, CANCELLED, Ordering::Acquire, Ordering::Relaxed);
        matches!(cancelled, Ok(_) | Err(CANCELLED))
    }

    /// Cancels it at its end. Whether no handler has begun, nor has forwarded it: then none will.
    pub(crate) fn end_unbegun(&self) -> bool {
        self.cancel() && !self.is_forwarded()
    }

    fn is_forwarded(&self) -> bool {
        self.forwarded_ns.load(Ordering::Relaxed) != 0
    }

    /// The message is in flight no more: called once, by the side that answers.
    #[inline]
    fn settle_load(&self) {
        let Some(load) = &self.load else { return };
        // A forwarded message is another actor's.
        if !self.is_forwarded() {
            load.leave();
        }
    }

    /// Both sides of a call, and the handle for its deadline.
    #[inline(always)]
    pub(crate) fn begin<R>(self) -> (ReplyTo<R>, Receiver<Answer<R>, Self>, SharedOneshot<Self>) {
        let (sender, receiver, shared) = oneshot::channel_shared(self);
        (ReplyTo { sender: Some(sender) }, receiver, shared)
    }
}

impl<R> ReplyTo<R> {
    /// For a message without a caller: the answer is dropped.
    pub(crate) fn nobody() -> Self {
        Self { sender: None }
    }

    /// Whether there is a call to answer, or a message to count.
    pub(crate) fn is_anybody(&self) -> bool {
        self.sender.is_some()
    }

    /// For a message without a caller that counts as in flight.
    pub(crate) fn told(load: Arc<Load>) -> Self {
        let call = Call {
            is_told: true,
            ..Call::counted(Term::ENDLESS, CallChain::default(), Some(load))
        };
        Self { sender: Some(oneshot::channel(call).0) }
    }

    /// Answers.
    #[inline(always)]
    pub fn send(mut self, answer: R) {
        match const { is_large::<R>() } {
            true => self.send_large(answer),
            false => self.answer(|| Ok(answer)),
        }
    }

    /// In a frame of its own: in line, the copies of a debug build are in the handler's.
    #[inline(never)]
    fn send_large(&mut self, answer: R) {
        self.answer_boxed(Box::new(Ok(answer)));
    }

    fn answer_boxed(&mut self, answer: Box<Answer<R>>) {
        if let Some(sender) = self.sender.take() {
            sender.state().metadata().settle_load();
            // If the caller gave up, the answer is dropped here.
            let _ = sender.send_boxed(answer);
        }
    }

    /// Answers the caller with a failure.
    pub fn fail(mut self, failure: Failure) {
        self.refuse(failure);
    }

    #[inline(never)]
    fn refuse(&mut self, failure: Failure) {
        match const { is_large::<R>() } {
            true => self.answer_boxed(Box::new(Err(failure))),
            false => self.answer(|| Err(failure)),
        }
    }

    #[inline(always)]
    fn answer(&mut self, answer: impl FnOnce() -> Answer<R>) {
        if let Some(sender) = self.sender.take() {
            sender.state().metadata().settle_load();
            // Made last, so that it is built in its place. If the caller gave up, it is dropped
            // here.
            let _ = sender.send(answer());
        }
    }

    /// Whether the caller waits no longer: it has given up, or its deadline has passed.
    pub fn is_abandoned(&self) -> bool {
        self.sender.as_ref().is_none_or(|sender| sender.state().is_closed())
    }

    /// The call that it answers, for observers of its caller.
    pub(crate) fn asked(&self) -> Option<WeakOneshot<Call>> {
        self.asking().map(Sender::downgrade)
    }

    /// The call that it answers, for calls that its handler waits for.
    pub(crate) fn handled(&self) -> Option<SharedOneshot<Call>> {
        self.asking().map(Sender::share)
    }

    fn asking(&self) -> Option<&Sender<Answer<R>, Call>> {
        self.sender.as_ref().filter(|sender| !sender.state().metadata().is_told)
    }

    /// Its deadline has passed.
    pub(crate) fn expire(self) {
        if let Some(sender) = &self.sender {
            // Expired here, and not by the timer: the reply is dropped next.
            sender.state().expire();
        }
    }

    /// Whether this actor waits for the answer and takes nothing meanwhile.
    pub(crate) fn is_awaited_by(&self, actor: u64) -> bool {
        self.call().is_some_and(|call| call.chain.blocks(actor))
    }

    /// Answers the caller with a cycle: the actor of this name, which was to answer, waits for the
    /// answer.
    pub(crate) fn fail_with_cycle(self, name: String) {
        let mut names = self.call().map(|call| call.chain.names()).unwrap_or_default();
        names.push(name);
        self.fail(Failure::error(CallCycle { names }));
    }

    /// Whether there is a caller.
    pub(crate) fn is_asked(&self) -> bool {
        self.call().is_some_and(|call| !call.is_told)
    }

    #[inline]
    pub(crate) fn call(&self) -> Option<&Call> {
        self.sender.as_ref().map(|sender| sender.state().metadata())
    }

    /// Notes that another actor is to answer.
    pub(crate) fn forwarded(&self, now_ns: u64) {
        if let Some(call) = self.call() {
            call.settle_load();
            call.forwarded_ns.store(now_ns.max(1), Ordering::Relaxed);
            // Release: whoever finds it not begun sees that it was forwarded.
            call.started_ns.store(0, Ordering::Release);
        }
    }

    /// Whether a handler has passed it on.
    pub(crate) fn is_forwarded(&self) -> bool {
        self.call().is_some_and(Call::is_forwarded)
    }

    /// Notes that the handler begins. False if the deadline has passed, or the caller has given the
    /// call up: then it must not begin.
    #[inline]
    pub(crate) fn begin(&self, now_ns: u64) -> bool {
        let Some(sender) = &self.sender else { return false };
        let call = sender.state().metadata();
        if now_ns >= call.deadline_ns {
            // Expired here, and not by the timer: the reply is dropped next.
            sender.state().expire();
            return false;
        }
        // A message without a caller has no receiver, so its channel is closed from the beginning.
        (call.is_told || !sender.state().is_closed()) && call.start(now_ns)
    }

    /// Whether the deadline of a call whose handler was skipped has passed; otherwise its caller
    /// gave up.
    #[cold]
    pub(crate) fn has_expired(&self, group: &Group) -> bool {
        // A fresh reading: the thread that expired the call may have had a newer one than the
        // worker.
        self.call().is_some_and(|call| group.now_ns() >= call.deadline_ns)
    }
}

impl<R: Send> Caller for ReplyTo<R> {
    fn has_given_up(&self, group: &Group) -> bool {
        self.asking().is_some_and(|sender| is_abandoned(sender.state(), group))
    }
}

/// A caller, as a running plain handler can check it.
pub(crate) trait Caller {
    /// Whether it waits no longer.
    fn has_given_up(&self, group: &Group) -> bool;
}

impl<R> Drop for ReplyTo<R> {
    #[inline]
    fn drop(&mut self) {
        if self.sender.is_some() {
            self.end_unanswered();
        }
    }
}

impl<R> ReplyTo<R> {
    #[cold]
    fn end_unanswered(&mut self) {
        self.refuse(if std::thread::panicking() {
            Failure::Panicked("the handler panicked before it answered".into())
        } else {
            Failure::Closed
        });
    }
}

//! The asking side of a call.

use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_runtime::completion::block_on;
use turnwheel_runtime::oneshot::{Received, Receiver, SharedOneshot};
use turnwheel_runtime::Failure;

use super::deadlines::{Deadlines, ABANDONED};
use crate::call::{Answer, Call};
use crate::error::{AskError, CallCycle, Carried, TimeSpent};
use crate::large::{is_large, Large, Open};

/// The answer to a call: a future on any executor. Dropping it gives the call up: a handler that
/// has not begun is skipped; see [`Ask::cancel`].
///
/// The message is sent already; waiting is all that is left to do.
#[must_use = "a call whose answer is not awaited is a `tell`"]
// Fields and no variants: so its words stay in registers from the call to the wait. Moved through
// memory they are read back in pieces of other sizes than they were written in, and that stalls.
pub struct Ask<M, R> {
    waiting: Option<Waiting<R>>,
    /// If it does not only wait. Both are empty once that is over.
    other: Option<Box<Other<M, R>>>,
}

/// States of a call besides waiting for its answer.
pub(crate) enum Other<M, R> {
    Refused(AskError<M>),
    Intercepted(Intercepted<M, R>),
}

impl<M, R> Other<M, R> {
    #[cold]
    #[inline(never)]
    pub(crate) fn refused(error: AskError<M>) -> Box<Self> {
        Box::new(Self::Refused(error))
    }

    /// A call whose first attempt was made, with the interceptors that see its answer.
    pub(crate) fn intercepted(
        call: impl Future<Output = Result<R, AskError<M>>> + Send + 'static,
    ) -> Box<Self> {
        Box::new(Self::Intercepted(Mutex::new(Box::pin(call))))
    }
}

/// A call with interceptors around it. The lock is for `Sync` alone, and is never taken.
type Intercepted<M, R> = Mutex<Pin<Box<dyn Future<Output = Result<R, AskError<M>>> + Send>>>;

/// Two words, which the function that sends a call returns in registers.
pub(crate) struct Waiting<R> {
    /// An answer sent after this is dropped has no receiver, and is dropped by its sender.
    receiver: Receiver<Answer<R>, Call>,
}

impl<M, R> std::fmt::Debug for Ask<M, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = match (&self.waiting, self.other.as_deref()) {
            (_, Some(Other::Refused(error))) => error.to_string(),
            (_, Some(Other::Intercepted(_))) => "waiting".to_owned(),
            (Some(waiting), None) if !waiting.receiver.is_received() => "waiting".to_owned(),
            _ => "over".to_owned(),
        };
        f.debug_struct("Ask").field("state", &state).finish()
    }
}

// Message and answer are moved in and out by value, never pinned.
impl<M, R> Unpin for Ask<M, R> {}

impl<M, R> Ask<M, R> {
    #[inline(always)]
    pub(crate) fn refused(error: AskError<M>) -> Self {
        Self::rare(Other::refused(error))
    }

    /// A call in another state than waiting for its answer.
    #[inline(always)]
    pub(crate) fn rare(other: Box<Other<M, R>>) -> Self {
        Self { waiting: None, other: Some(other) }
    }

    /// A call whose message was accepted; its deadline starts now.
    #[inline(always)]
    pub(crate) fn waiting(
        receiver: Receiver<Answer<R>, Call>,
        shared: SharedOneshot<Call>,
        deadlines: &Deadlines,
    ) -> Self {
        let deadline_ns = shared.metadata().deadline_ns;
        if deadline_ns != u64::MAX {
            deadlines.add(deadline_ns, shared);
        }
        Self { waiting: Some(Waiting { receiver }), other: None }
    }

    /// The data of the call; nothing if it was refused at once.
    pub(crate) fn call(&self) -> Option<SharedOneshot<Call>> {
        self.waiting.as_ref().map(|waiting| waiting.receiver.share())
    }

    /// Puts a call together that was taken apart to leave a function in registers.
    #[inline(always)]
    pub(crate) fn of(waiting: Option<Waiting<R>>, other: Option<Box<Other<M, R>>>) -> Self {
        Self { waiting, other }
    }

    /// Takes a call apart: its rare state goes to `other`.
    #[inline(always)]
    pub(crate) fn apart(self, other: &mut Option<Box<Other<M, R>>>) -> Option<Waiting<R>> {
        if self.other.is_some() {
            *other = self.other;
        }
        self.waiting
    }

    /// Gives the call up: a handler that has not begun is skipped, and its message is a dead letter
    /// ([`DeadLetterReason::Cancelled`](crate::DeadLetterReason::Cancelled)). A handler that has
    /// begun runs on, and sees that its caller [has given up](crate::Context::is_abandoned).
    ///
    /// Returns whether it is certain that the handler never runs: one atomic exchange decides
    /// between its begin and the cancellation. False, too, for a call with interceptors around its
    /// sending.
    ///
    /// Dropping an `Ask` does the same, without the answer.
    ///
    /// ```
    /// # use turnwheel_actors_testkit::Stage;
    /// # use turnwheel_actors::{Actor, Context, Handler};
    /// struct Printer(u32);
    /// impl Actor for Printer { type Error = std::convert::Infallible; }
    /// struct Print;
    /// impl Handler<Print> for Printer {
    ///     type Reply = ();
    ///     fn handle(&mut self, _: Print, _: &mut Context<'_, Self>) { self.0 += 1 }
    /// }
    /// let stage = Stage::new(1);
    /// let printer = stage.spawn(Printer(0));
    /// let printed = printer.ask(Print);
    /// assert!(printed.cancel(), "it still waits in the mailbox");
    /// assert_eq!(stage.answer(printer.with(|printer, _| printer.0)), 0);
    /// ```
    pub fn cancel(self) -> bool {
        match (&self.waiting, self.other.as_deref()) {
            (Some(waiting), _) => waiting.receiver.state().metadata().cancel(),
            (None, Some(Other::Refused(_))) => true,
            (None, _) => false,
        }
    }

    /// Waits for the answer, blocking the thread; only off the workers.
    ///
    /// # Errors
    ///
    /// [`AskError`]; on a worker thread [`Failure::WouldBlock`] within it, unless the answer is
    /// there.
    pub fn wait(self) -> Result<R, AskError<M>> {
        match const { is_large::<R>() || is_large::<M>() } {
            true => self.wait_large(),
            false => self.wait_small(),
        }
    }

    fn wait_small(self) -> Result<R, AskError<M>> {
        block_on(self).unwrap_or_else(|failure| Err(AskError::Unanswered(failure)))
    }

    #[inline(never)]
    fn wait_large(mut self) -> Result<R, AskError<M>> {
        if let Some(Other::Refused(_)) = self.other.as_deref() {
            return self.refusal();
        }
        let Some(waiting) = &mut self.waiting else { return self.wait_small() };
        match block_on(poll_fn(|cx| waiting.receiver.poll_boxed(cx.waker()))) {
            Ok(received) => self.open_received(received),
            Err(failure) => Err(AskError::Unanswered(failure)),
        }
    }

    /// Result of a call whose answer came in a box.
    fn open_received(&mut self, received: Received<Box<Answer<R>>>) -> Result<R, AskError<M>> {
        let taken = match received {
            Received::Value(answer) => return (*answer).map_err(unanswered),
            Received::Expired => Received::Expired,
            Received::SenderDropped | Received::AlreadyReceived => Received::SenderDropped,
        };
        Err(self.unanswered(taken))
    }

    #[inline(never)]
    fn poll_large(&mut self, cx: &mut Context<'_>) -> Poll<Result<R, AskError<M>>> {
        let Some(waiting) = &mut self.waiting else { return self.poll_otherwise(cx) };
        match waiting.receiver.poll_boxed(cx.waker()) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(received) => Poll::Ready(self.open_received(received)),
        }
    }

    /// The error of a call that was refused.
    fn refusal(&mut self) -> Result<R, AskError<M>> {
        match self.other.take().map(|other| *other) {
            Some(Other::Refused(error)) => Err(error),
            _ => Err(AskError::Unanswered(Failure::Cancelled)),
        }
    }
}

impl<M: Send + 'static, R: Send + 'static> Open for Ask<Large<M>, R> {
    type Opened = Ask<M, R>;

    fn open(self) -> Ask<M, R> {
        #[cold]
        #[inline(never)]
        fn refused<M, R>(error: AskError<Large<M>>) -> Box<Other<M, R>> {
            Other::refused(error.map(Large::open))
        }
        let other = self.other.map(|other| match *other {
            Other::Refused(error) => refused(error),
            Other::Intercepted(call) => {
                let call = call.into_inner();
                Other::intercepted(
                    async move { call.await.map_err(|error| error.map(Large::open)) },
                )
            }
        });
        Ask { waiting: self.waiting, other }
    }
}

impl<M, R> Future for Ask<M, R> {
    type Output = Result<R, AskError<M>>;

    // Without the rare states it is small enough to inline into the poller; by default the compiler
    // makes it a call, which doubles the cost.
    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if const { is_large::<R>() || is_large::<M>() } {
            return self.poll_large(cx);
        }
        if let Some(waiting) = &mut self.waiting {
            return match waiting.receiver.poll(cx.waker()) {
                Poll::Pending => Poll::Pending,
                // It stays: a further poll gets «over» from the receiver.
                Poll::Ready(Received::Value(Ok(answer))) => Poll::Ready(Ok(answer)),
                Poll::Ready(taken) => Poll::Ready(Err(self.unanswered(taken))),
            };
        }
        self.poll_otherwise(cx)
    }
}

impl<M, R> Ask<M, R> {
    /// Result without an answer.
    #[cold]
    #[inline(never)]
    fn unanswered(&mut self, taken: Received<Answer<R>>) -> AskError<M> {
        match (taken, self.waiting.take()) {
            (Received::Value(Err(failure)), _) => unanswered(failure),
            (Received::Expired, Some(waiting)) => waiting
                .time_spent()
                .map_or_else(|| unanswered(Failure::Abandoned), AskError::TimedOut),
            // A reply always answers, and an accepted message is not returned.
            _ => unanswered(Failure::Cancelled),
        }
    }

    /// Polls a call that does not only wait for its answer.
    #[cold]
    #[inline(never)]
    fn poll_otherwise(&mut self, cx: &mut Context<'_>) -> Poll<Result<R, AskError<M>>> {
        if let Some(Other::Intercepted(call)) = self.other.as_deref_mut() {
            let polled = call.get_mut().as_mut().poll(cx);
            if polled.is_ready() {
                self.other = None;
            }
            return polled;
        }
        Poll::Ready(self.refusal())
    }
}

/// The error of a call that failed.
fn unanswered<M>(failure: Failure) -> AskError<M> {
    if let Some(cycle) = failure.downcast_ref::<CallCycle>() {
        return AskError::Cycle { chain: cycle.names.clone(), message: None };
    }
    match failure.downcast_ref::<Carried>() {
        Some(Carried(error)) => AskError::Remote(error.clone()),
        None => AskError::Unanswered(failure),
    }
}

impl<R> Waiting<R> {
    /// `None` if the deadline was not kept any more.
    fn time_spent(&self) -> Option<TimeSpent> {
        let since = |from_ns: u64, to_ns: u64| Duration::from_nanos(to_ns.saturating_sub(from_ns));
        let call = self.receiver.state().metadata();
        let end_ns = call.deadline_ns;
        let depth = call.chain.depth();
        let queued_ns = match call.forwarded_ns.load(Ordering::Relaxed) {
            0 => call.asked_ns,
            ABANDONED => return None,
            forwarded_ns => forwarded_ns,
        };
        let hops = since(call.asked_ns, queued_ns);
        Some(match call.started_ns.load(Ordering::Relaxed) {
            0 => TimeSpent { hops, queued: since(queued_ns, end_ns), running: None, depth },
            started_ns => {
                // The worker's clock is read now and then, so it may show a time before the call.
                let started_ns = started_ns.max(queued_ns);
                let running = Some(since(started_ns, end_ns));
                TimeSpent { hops, queued: since(queued_ns, started_ns), running, depth }
            }
        })
    }
}

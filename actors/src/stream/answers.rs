//! Streams of answers: a call that is answered with a stream.
//!
//! A handler returns [`Answers`] as its reply. The sink produces the answers beside the actor's
//! messages, and waits while the agreed number of answers has not been taken, so a slow receiver
//! slows the producer down.

use std::collections::VecDeque;
use std::future::{poll_fn, Future};
use std::mem;
use std::pin::{pin, Pin};
use std::sync::Arc;
use std::task::{Context as PollContext, Poll, Waker};
use std::time::Duration;

use futures_core::Stream;
use parking_lot::Mutex;
use turnwheel_runtime::completion::block_on;
use turnwheel_runtime::{Completion, Failure, Group};

use crate::actor::{Actor, Context};
use crate::request::scope;
use crate::request::{self, Ambient, Panic};

/// The receiving end: a stream of answers. Dropping it ends the producer.
///
/// Answers arrive in the order in which they were made. If the producer did not end in order, its
/// failure comes last: [`Failure::Closed`] if its actor has closed, or its entity was passivated.
#[must_use = "dropping it ends the stream"]
pub struct Answers<T>(Arc<Shared<T>>);

/// The producing end; see [`Context::answers`] and [`Answers::bounded`]. Dropped without
/// [`AnswerSink::end`], the receiver gets [`Failure::Closed`], unless the producing actor sets the
/// end.
#[must_use = "dropping it ends the stream with a failure"]
pub struct AnswerSink<T> {
    shared: Arc<Shared<T>>,
    /// The producing future reports its end.
    has_producer: bool,
}

/// An answer without a receiver; gives it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody takes the answers any more")]
pub struct AnswerUnsent<T>(pub T);

struct Shared<T>(Mutex<State<T>>);

struct State<T> {
    queue: VecDeque<T>,
    bound: usize,
    /// Answers taken so far, modulo 2^64.
    taken: u64,
    /// Set once; `Some` until the receiver has got it.
    end: Option<Result<(), Failure>>,
    has_ended: bool,
    /// The receiver has gone.
    is_abandoned: bool,
    /// Woken for an answer, for room, and when the receiver has gone.
    receiver: Option<Waker>,
    sender: Option<Waker>,
    producer: Option<Waker>,
}

impl<T> Shared<T> {
    fn end(&self, end: Result<(), Failure>) {
        // No answer comes any more: wakers of the producer would keep data alive.
        let (receiver, _makers) = {
            let mut state = self.0.lock();
            if mem::replace(&mut state.has_ended, true) {
                return;
            }
            state.end = Some(end);
            (state.receiver.take(), [state.sender.take(), state.producer.take()])
        };
        wake(receiver);
    }

    fn poll_take(&self, waker: &Waker) -> Poll<Option<Result<T, Failure>>> {
        let mut own = None;
        loop {
            let mut state = self.0.lock();
            if let Some(answer) = state.queue.pop_front() {
                state.taken = state.taken.wrapping_add(1);
                let sender = state.sender.take();
                drop(state);
                wake(sender);
                return Poll::Ready(Some(Ok(answer)));
            }
            if state.has_ended {
                return Poll::Ready(state.end.take().and_then(Result::err).map(Err));
            }
            // A waker is cloned and dropped without the lock: it may use the stream.
            if own.is_some() {
                std::mem::swap(&mut state.receiver, &mut own);
                return Poll::Pending;
            }
            drop(state);
            own = Some(waker.clone());
        }
    }

    /// Puts the answer there if there is room and a receiver.
    fn poll_send(&self, answer: &mut Option<T>, waker: &Waker) -> Poll<bool> {
        let mut own = None;
        loop {
            let mut state = self.0.lock();
            if state.is_abandoned || state.has_ended {
                return Poll::Ready(false);
            }
            if state.queue.len() < state.bound {
                state.queue.extend(answer.take());
                let receiver = state.receiver.take();
                drop(state);
                wake(receiver);
                return Poll::Ready(true);
            }
            if own.is_some() {
                std::mem::swap(&mut state.sender, &mut own);
                return Poll::Pending;
            }
            drop(state);
            own = Some(waker.clone());
        }
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        scope::contain("the waker of a stream of answers", || waker.wake());
    }
}

impl<T> Answers<T> {
    /// Both ends of a stream of answers, of which at most `bound` wait, at least one. For answers
    /// that are not made by an actor's own future; otherwise use [`Context::answers`], which looks
    /// after the end.
    ///
    /// ```
    /// use turnwheel_actors::Answers;
    /// let (mut sink, mut answers) = Answers::bounded(2);
    /// assert!(sink.try_send("first").is_ok());
    /// sink.end(Ok(()));
    /// assert_eq!(answers.wait_next()?, Some("first"));
    /// assert_eq!(answers.wait_next()?, None);
    /// # Ok::<(), turnwheel_runtime::Failure>(())
    /// ```
    pub fn bounded(bound: usize) -> (AnswerSink<T>, Self) {
        let shared = Arc::new(Shared(Mutex::new(State {
            queue: VecDeque::new(),
            bound: bound.max(1),
            taken: 0,
            end: None,
            has_ended: false,
            is_abandoned: false,
            receiver: None,
            sender: None,
            producer: None,
        })));
        (AnswerSink { shared: Arc::clone(&shared), has_producer: false }, Self(shared))
    }

    /// The next answer; `None` at the end, and after a failure. May be dropped and called again
    /// without the loss of an answer. It has no deadline of its own: a maker may be slow.
    pub async fn next(&mut self) -> Option<Result<T, Failure>> {
        poll_fn(|cx| self.0.poll_take(cx.waker())).await
    }

    /// Waits for the next answer and takes it together with further ready ones, up to `max`, at
    /// least one. Empty at the end.
    ///
    /// # Errors
    ///
    /// The failure of the producer, after all its answers.
    pub async fn next_batch(&mut self, max: usize) -> Result<Vec<T>, Failure> {
        let mut batch = Vec::new();
        batch.extend(self.next().await.transpose()?);
        while !batch.is_empty() && batch.len() < max && !self.0 .0.lock().queue.is_empty() {
            batch.extend(self.next().await.transpose()?);
        }
        Ok(batch)
    }

    /// Waits for the next answer, blocking the thread; only off the workers.
    ///
    /// # Errors
    ///
    /// The failure of the maker; on a worker thread [`Failure::WouldBlock`], unless an answer is
    /// there.
    pub fn wait_next(&mut self) -> Result<Option<T>, Failure> {
        block_on(pin!(self.next()))?.transpose()
    }
}

impl<T> Stream for Answers<T> {
    type Item = Result<T, Failure>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut PollContext<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_take(cx.waker())
    }
}

debug_fields!(impl<T> Answers<T>, self =>
    waiting: self.0 .0.lock().queue.len(), has_ended: self.0 .0.lock().has_ended);

impl<T> Drop for Answers<T> {
    fn drop(&mut self) {
        let (_queue, _receiver, makers) = {
            let mut state = self.0 .0.lock();
            state.is_abandoned = true;
            let makers = [state.sender.take(), state.producer.take()];
            (mem::take(&mut state.queue), state.receiver.take(), makers)
        };
        makers.into_iter().for_each(wake);
    }
}

impl<T> AnswerSink<T> {
    /// Gives an answer; waits, without blocking a worker, while the agreed number has not been
    /// taken.
    ///
    /// # Errors
    ///
    /// The receiver is gone; the answer comes back.
    pub async fn send(&mut self, answer: T) -> Result<(), AnswerUnsent<T>> {
        let mut answer = Some(answer);
        let sent = poll_fn(|cx| self.shared.poll_send(&mut answer, cx.waker())).await;
        debug_assert_eq!(sent, answer.is_none(), "what was not sent is there");
        answer.map_or(Ok(()), |answer| Err(AnswerUnsent(answer)))
    }

    /// Gives an answer if there is room and a receiver.
    ///
    /// # Errors
    ///
    /// There is no room, or the receiver is gone; the answer comes back.
    pub fn try_send(&mut self, answer: T) -> Result<(), AnswerUnsent<T>> {
        let mut answer = Some(answer);
        // The noop waker: the next take wakes no future for it.
        let _ = self.shared.poll_send(&mut answer, Waker::noop());
        answer.map_or(Ok(()), |answer| Err(AnswerUnsent(answer)))
    }

    /// Whether the receiver is gone.
    pub fn is_abandoned(&self) -> bool {
        self.shared.0.lock().is_abandoned
    }

    /// Ends the stream: in order, or with a failure that follows the answers so far.
    pub fn end(self, end: Result<(), Failure>) {
        self.shared.end(end);
    }
}

debug_fields!(impl<T> AnswerSink<T>, self => is_abandoned: self.is_abandoned());

impl<T> Drop for AnswerSink<T> {
    fn drop(&mut self) {
        if !self.has_producer {
            self.shared.end(Err(Failure::Closed));
        }
    }
}

/// Ends the stream also where its future is dropped before it is done.
struct Producer<T> {
    shared: Arc<Shared<T>>,
    group: Group,
    /// Time that answers may wait before one is taken.
    limit: Duration,
    /// Runs while the producer waits for room, with the number of answers taken at its begin.
    stall_timer: Option<(Completion<()>, u64)>,
}

impl<T> Producer<T> {
    /// Whether the maker is to go on; if not, it is over.
    fn poll_gone(&self, cx: &mut PollContext<'_>) -> bool {
        let mut state = self.shared.0.lock();
        if !state.is_abandoned {
            state.producer = Some(cx.waker().clone());
        }
        state.is_abandoned
    }

    /// Whether the answers have waited for too long.
    fn poll_stalled(&mut self, cx: &mut PollContext<'_>) -> bool {
        loop {
            let (taken, is_waiting) = {
                let state = self.shared.0.lock();
                (state.taken, state.sender.is_some())
            };
            if !is_waiting {
                return false;
            }
            let (sleep, since) =
                self.stall_timer.get_or_insert_with(|| (self.group.sleep(self.limit), taken));
            match Pin::new(sleep).poll(cx) {
                Poll::Pending => return false,
                Poll::Ready(_) if *since == taken => return true,
                // One was taken in between: the time begins anew.
                Poll::Ready(_) => self.stall_timer = None,
            }
        }
    }

    async fn run<F>(mut self, make: F, ambient: Ambient) -> Option<Panic>
    where
        F: Future<Output = Result<(), Failure>>,
    {
        let mut make = pin!(scope::contained(make, ambient));
        let (end, panic) = poll_fn(|cx| {
            if self.poll_gone(cx) {
                return Poll::Ready((Ok(()), None));
            }
            match make.as_mut().poll(cx) {
                Poll::Ready(Ok(end)) => return Poll::Ready((end, None)),
                Poll::Ready(Err(panic)) => {
                    let failure = Failure::from_panic_ref(panic.as_ref());
                    return Poll::Ready((Err(failure), Some(panic)));
                }
                Poll::Pending => {}
            }
            if self.poll_stalled(cx) {
                let text = format!("no answer of the stream was taken for {:?}", self.limit);
                return Poll::Ready((Err(Failure::message(text)), None));
            }
            Poll::Pending
        })
        .await;
        self.shared.end(end);
        panic
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.shared.end(Err(Failure::Closed));
    }
}

impl<A: Actor> Context<'_, A> {
    /// Answers a call with a stream: `make` sends its answers to the sink, beside the messages of
    /// this actor; its result is the end. At most `bound` answers wait, at least one.
    ///
    /// The future of `make` ends, at its next await point, when the [`Answers`] are dropped, when
    /// the actor closes, or when it waits for room and no answer was taken for the time limit of a
    /// call. A panic goes to the receiver and to the actor's policy. An entity is not idle while
    /// the stream is open. Calls of `make` carry the values of the request, but neither its
    /// deadline nor its call chain: these apply only until the stream is returned.
    ///
    /// Cost: three allocations for the stream, and for an answer two short locks.
    ///
    /// ```
    /// # use turnwheel_actors::{Actor, Context, Handler, System};
    /// # use turnwheel_runtime::Group;
    /// # use std::convert::Infallible;
    /// use turnwheel_actors::Answers;
    /// struct Counter;
    /// # impl Actor for Counter { type Error = Infallible; }
    /// struct Count(u32);
    /// impl Handler<Count> for Counter {
    ///     type Reply = Answers<u32>;
    ///     fn handle(&mut self, Count(to): Count, cx: &mut Context<'_, Self>) -> Answers<u32> {
    ///         cx.answers(16, move |mut sink| async move {
    ///             for number in 1..=to {
    ///                 if sink.send(number).await.is_err() {
    ///                     break;
    ///                 }
    ///             }
    ///             Ok(())
    ///         })
    ///     }
    /// }
    /// # let group = Group::builder("doc").workers(1).build()?;
    /// # let counter = System::new(&group).spawn(Counter)?;
    /// let mut answers = counter.ask(Count(100)).wait()?;
    /// let mut sum = 0;
    /// while let Some(number) = answers.wait_next()? {
    ///     sum += number;
    /// }
    /// assert_eq!(sum, 5_050);
    /// # group.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn answers<T: Send + 'static, F: Future<Output = Result<(), Failure>> + Send + 'static>(
        &mut self,
        bound: usize,
        make: impl FnOnce(AnswerSink<T>) -> F,
    ) -> Answers<T> {
        let (mut sink, answers) = Answers::bounded(bound);
        sink.has_producer = true;
        let limit = self.system().shared().ask_limit;
        let group = self.system().group().clone();
        let producer =
            Producer { shared: Arc::clone(&sink.shared), group, limit, stall_timer: None };
        let ambient = Ambient { baggage: request::baggage(), ..Ambient::default() };
        let producing = producer.run(make(sink), ambient);
        let open = self.open_stream();
        let producing = async move {
            let panic = producing.await;
            drop(open);
            panic
        };
        self.turn_mut().await_interleaved(producing, |cell, cx, panic| cell.go_on(panic, true, cx));
        answers
    }
}

//! Streams of messages in: the actor pulls, so a slow actor slows its stream down.

use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context as Poll1, Poll, Wake, Waker};

use futures_core::Stream;
use parking_lot::Mutex;
use turnwheel_channel::Channel;
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completer, Completion, Condition, ConditionMode, Failure};

use crate::actor::{Actor, ActorCell, Address, MessageFor, Release, Turn};
use crate::request::{self, scope, Ambient, Baggage, Delivery};

/// A stream attached to an actor. Dropping this changes nothing; the stream stays attached.
pub struct Attached {
    signal: Arc<Signal>,
    ended: Completion<()>,
}

debug_fields!(impl Attached, self => has_ended: self.ended.is_done());

impl Attached {
    /// Detaches the stream, from any thread: it is dropped, and its remaining items are not
    /// handled.
    pub fn cancel(&self) {
        self.signal.cancel();
    }

    /// Completes when the stream has ended and its last item was handed to the actor; fails with
    /// [`Failure::Abandoned`] if it was detached, or the actor ended, before.
    pub fn ended(self) -> Completion<()> {
        self.ended
    }
}

/// Wakes the actor for its stream.
struct Signal(OnceLock<Condition>);

impl Signal {
    fn signal(&self) {
        self.0.get().map(Condition::signal);
    }

    fn cancel(&self) {
        self.0.get().map(Condition::cancel);
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.signal();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.signal();
    }
}

/// An attached stream as the actor holds it. Gone, its subscription ends.
struct Open<S> {
    stream: Pin<Box<S>>,
    ended: Completer<()>,
    signal: Arc<Signal>,
}

impl<S> Drop for Open<S> {
    fn drop(&mut self) {
        self.signal.cancel();
    }
}

impl<A: Actor> Address<A> {
    /// Hands every item of a stream to the actor as a message, one after the other.
    ///
    /// The actor polls the stream in its own turns, one item a round, between its other messages: a
    /// stream that always has an item starves nothing, and is pulled no faster than the items are
    /// handled. While the actor keeps its items out, the stream waits in line with the messages,
    /// and is pulled in its turn. The stream belongs to the actor: it is dropped with it, and keeps
    /// an otherwise unreachable actor alive until it ends. Items carry the request context of
    /// this call.
    ///
    /// Cost: four allocations for the stream; one for each item that has to wait.
    ///
    /// # Errors
    ///
    /// The mailbox is full or closed; [`Failure::Closed`] or [`Failure::Refused`]. The stream is
    /// dropped.
    pub fn attach<S: Stream<Item: MessageFor<A, K>> + Send + 'static, K: 'static>(
        &self,
        stream: S,
    ) -> Result<Attached, Failure> {
        let signal = Arc::new(Signal(OnceLock::new()));
        let (completer, ended) = completion();
        let open = Open { stream: Box::pin(stream), ended: completer, signal: Arc::clone(&signal) };
        let pull = Arc::new(Pull {
            open: Mutex::new(Some(open)),
            is_waiting: AtomicBool::new(false),
            waker: Waker::from(Arc::clone(&signal)),
            baggage: request::baggage(),
        });
        let own = Arc::clone(&signal);
        let register = move |_: &mut ActorCell<A>, cx: &mut Turn<'_, A>| {
            let look = move |cell: &mut ActorCell<A>, cx: &mut Turn<'_, A>| pull.look(cell, cx);
            // Empty so far: only this job sets it.
            let _ = own.0.set(cx.condition(ConditionMode::Coalescing, look));
            own.signal();
        };
        self.task.submit(register).map_err(Failure::from)?;
        Ok(Attached { signal, ended })
    }

    /// As [`Address::attach`] with the items of a channel; ends when the channel is closed and
    /// empty. Several actors share the items, each going to one of them.
    ///
    /// # Errors
    ///
    /// As [`Address::attach`].
    pub fn attach_channel<M: MessageFor<A, K>, K: 'static>(
        &self,
        channel: &Channel<M>,
    ) -> Result<Attached, Failure> {
        self.attach(Items(channel.clone()))
    }
}

/// A channel as the stream of its items.
struct Items<T>(Channel<T>);

impl<T: Send + 'static> Stream for Items<T> {
    type Item = T;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Poll1<'_>) -> Poll<Option<T>> {
        self.0.poll_take(cx)
    }
}

/// An attached stream, shared by its subscription and its place at the gate.
struct Pull<S> {
    /// `None` while it is polled: a stream that panics is not polled again.
    open: Mutex<Option<Open<S>>>,
    /// Set while it has a place at the gate. Only turns of the actor use it.
    is_waiting: AtomicBool,
    waker: Waker,
    baggage: Option<Arc<Baggage>>,
}

impl<S: Stream + Send + 'static> Pull<S> {
    /// Takes the next item, now or in its turn at the gate: a stream waits there as a message of
    /// its items would, so messages that always overlap do not starve it.
    fn look<A: Actor, K: 'static>(self: &Arc<Self>, cell: &mut ActorCell<A>, cx: &mut Turn<'_, A>)
    where
        S::Item: MessageFor<A, K>,
    {
        let access = <S::Item as MessageFor<A, K>>::GATE_ACCESS;
        if self.is_waiting.load(Ordering::Relaxed) {
            return;
        }
        if cell.admits_stream(access) {
            return self.step(cell, cx.reborrow());
        }
        self.is_waiting.store(true, Ordering::Relaxed);
        // The actor may drop the stream before it is pulled.
        let pull = Arc::downgrade(self);
        let waiter = move |cell: &mut ActorCell<A>, turn: Turn<'_, A>, release| {
            let Some(pull) = pull.upgrade() else { return };
            pull.is_waiting.store(false, Ordering::Relaxed);
            if release == Release::Admitted {
                pull.step(cell, turn);
            }
        };
        cell.keep_stream(access, Box::new(waiter), cx);
    }

    fn step<A: Actor, K: 'static>(&self, cell: &mut ActorCell<A>, cx: Turn<'_, A>)
    where
        S::Item: MessageFor<A, K>,
    {
        let Some(mut open) = self.open.lock().take() else { return };
        let baggage = || self.baggage.clone();
        let ambient = Ambient { baggage: baggage(), ..Ambient::default() };
        let mut poll = Poll1::from_waker(&self.waker);
        let polled = catch_unwind(AssertUnwindSafe(|| {
            ambient.within(|| open.stream.as_mut().poll_next(&mut poll))
        }));
        match polled {
            Err(panic) => {
                // Not by the unwinding: it may panic again.
                scope::contain("dropping a stream", || drop(open));
                resume_unwind(panic);
            }
            Ok(Poll::Pending) => *self.open.lock() = Some(open),
            Ok(Poll::Ready(None)) => {
                // The handle may be gone.
                let _ = open.ended.complete(());
            }
            Ok(Poll::Ready(Some(message))) => {
                open.signal.signal();
                *self.open.lock() = Some(open);
                let delivery = Delivery { message, baggage: baggage(), reply: None };
                cell.handle_admitted::<S::Item, K>(delivery, cx);
            }
        }
    }
}

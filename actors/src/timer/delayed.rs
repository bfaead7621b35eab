//! Messages sent later, from anywhere. Handlers use
//! [`Context::tell_after`](crate::Context::tell_after), whose timer ends with the actor.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_runtime::{Completion, SubmitErrorKind};

use crate::actor::address::Address;
use crate::actor::handler::{kind, Receive};
use crate::actor::Actor;
use crate::error::TellError;
use crate::large::{self, is_any_large, Large};
use crate::request::RequestContext;

/// A message that is to be sent; see [`Address::tell_after`]. Dropping this changes nothing.
#[derive(Clone)]
pub struct Delayed {
    pending: Arc<dyn Cancel>,
}

impl fmt::Debug for Delayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delayed").field("is_pending", &self.is_pending()).finish_non_exhaustive()
    }
}

impl Delayed {
    /// Drops the message unsent. Returns whether it was still to be sent.
    pub fn cancel(&self) -> bool {
        self.pending.cancel()
    }

    /// Whether it is still to be sent.
    pub fn is_pending(&self) -> bool {
        self.pending.is_pending()
    }
}

trait Cancel: Send + Sync {
    fn cancel(&self) -> bool;
    fn is_pending(&self) -> bool;
}

/// A message and whom it is for, until its time.
struct DelayedMessage<A: Actor, M, K> {
    contents: Mutex<Option<Contents<A, M>>>,
    /// The timer; it holds this pending as its waker until it has fired.
    timer: Mutex<Option<Completion<()>>>,
    kind: PhantomData<fn() -> K>,
}

struct Contents<A: Actor, M> {
    to: Address<A>,
    message: M,
    request: RequestContext,
}

impl<A, M, K> Wake for DelayedMessage<A, M, K>
where
    A: Receive<M, K>,
    M: Send + 'static,
    K: 'static,
{
    fn wake(self: Arc<Self>) {
        let contents = self.contents.lock().take();
        let timer = self.timer.lock().take();
        drop(timer);
        if let Some(Contents { to, message, request }) = contents {
            // A refused message is counted as a dead letter; its sender is gone.
            drop(request.scope(|| to.tell(message)));
        }
    }
}

impl<A: Actor, M: Send, K> Cancel for DelayedMessage<A, M, K> {
    fn cancel(&self) -> bool {
        let contents = self.contents.lock().take();
        let timer = self.timer.lock().take();
        drop(timer);
        contents.is_some()
    }

    fn is_pending(&self) -> bool {
        self.contents.lock().is_some()
    }
}

impl<A: Actor> Address<A> {
    /// Sends a message after a delay, never early, whatever becomes of the sender. The request
    /// context of now goes with it.
    ///
    /// The message keeps the actor reachable until then; if it is refused when its time comes it is
    /// a dead letter. Cost: one timer and three allocations.
    ///
    /// # Errors
    ///
    /// `GroupMemory` if the group holds as many timers as it may; the message comes back.
    pub fn tell_after<M, K>(&self, delay: Duration, message: M) -> Result<Delayed, TellError<M>>
    where
        A: Receive<M, K>,
        M: Send + 'static,
        K: 'static,
    {
        match const { is_any_large::<M, A::Reply>() } {
            true => large::send(message, |message| {
                self.tell_after_as::<Large<M>, kind::Boxed<K>>(delay, message)
            }),
            false => self.tell_after_as::<M, K>(delay, message),
        }
    }

    fn tell_after_as<M, K>(&self, delay: Duration, message: M) -> Result<Delayed, TellError<M>>
    where
        A: Receive<M, K>,
        M: Send + 'static,
        K: 'static,
    {
        let request = RequestContext::current();
        let contents = Contents { to: self.clone(), message, request };
        let pending = Arc::new(DelayedMessage::<A, M, K> {
            contents: Mutex::new(Some(contents)),
            timer: Mutex::new(None),
            kind: PhantomData,
        });
        let mut timer = self.system().group().sleep(delay);
        let waker = Waker::from(Arc::clone(&pending));
        let polled = Pin::new(&mut timer).poll(&mut Context::from_waker(&waker));
        match polled {
            Poll::Pending => *pending.timer.lock() = Some(timer),
            Poll::Ready(Ok(())) => waker.wake(),
            Poll::Ready(Err(_)) => {
                if let Some(Contents { message, .. }) = pending.contents.lock().take() {
                    return Err(TellError { kind: SubmitErrorKind::GroupMemory, message });
                }
            }
        }
        if !Cancel::is_pending(&*pending) {
            // It fired before its timer was put away.
            drop(pending.timer.lock().take());
        }
        Ok(Delayed { pending })
    }
}

//! Messages sent later, from anywhere. Handlers use [`Context::tell_after`](crate::Context::tell_after),
//! whose timer ends with the actor.

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
use crate::actor::handler::Receive;
use crate::actor::Actor;
use crate::error::TellError;
use crate::request::RequestContext;

/// A message that is to be sent; see [`Address::tell_after`]. Dropping this changes nothing.
#[derive(Clone)]
pub struct Delayed {
    parcel: Arc<dyn Cancel>,
}

impl fmt::Debug for Delayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delayed").field("is_pending", &self.is_pending()).finish_non_exhaustive()
    }
}

impl Delayed {
    /// Drops the message unsent. Returns whether it was still to be sent.
    pub fn cancel(&self) -> bool {
        self.parcel.cancel()
    }

    /// Whether it is still to be sent.
    pub fn is_pending(&self) -> bool {
        self.parcel.is_pending()
    }
}

trait Cancel: Send + Sync {
    fn cancel(&self) -> bool;
    fn is_pending(&self) -> bool;
}

/// A message and whom it is for, until its time.
struct Parcel<A: Actor, M, K> {
    inside: Mutex<Option<Inside<A, M>>>,
    /// The timer; it holds this parcel as its waker until it has fired.
    timer: Mutex<Option<Completion<()>>>,
    kind: PhantomData<fn() -> K>,
}

struct Inside<A: Actor, M> {
    to: Address<A>,
    message: M,
    request: RequestContext,
}

impl<A, M, K> Wake for Parcel<A, M, K>
where
    A: Receive<M, K>,
    M: Send + 'static,
    K: 'static,
{
    fn wake(self: Arc<Self>) {
        let inside = self.inside.lock().take();
        let timer = self.timer.lock().take();
        drop(timer);
        if let Some(Inside { to, message, request }) = inside {
            // One that is refused is counted as a dead letter, and has nobody to go back to.
            drop(request.scope(|| to.tell(message)));
        }
    }
}

impl<A: Actor, M: Send, K> Cancel for Parcel<A, M, K> {
    fn cancel(&self) -> bool {
        let inside = self.inside.lock().take();
        let timer = self.timer.lock().take();
        drop(timer);
        inside.is_some()
    }

    fn is_pending(&self) -> bool {
        self.inside.lock().is_some()
    }
}

impl<A: Actor> Address<A> {
    /// Sends a message after a delay, never early, whatever becomes of the sender. The request
    /// context of now goes with it.
    ///
    /// The message keeps the actor reachable until then; if it is refused when its time comes it is a
    /// dead letter. Cost: one timer and three allocations.
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
        let request = RequestContext::current();
        let inside = Inside { to: self.clone(), message, request };
        let parcel = Arc::new(Parcel::<A, M, K> {
            inside: Mutex::new(Some(inside)),
            timer: Mutex::new(None),
            kind: PhantomData,
        });
        let mut timer = self.system().group().sleep(delay);
        let waker = Waker::from(Arc::clone(&parcel));
        let polled = Pin::new(&mut timer).poll(&mut Context::from_waker(&waker));
        match polled {
            Poll::Pending => *parcel.timer.lock() = Some(timer),
            Poll::Ready(Ok(())) => waker.wake(),
            Poll::Ready(Err(_)) => {
                if let Some(Inside { message, .. }) = parcel.inside.lock().take() {
                    return Err(TellError { kind: SubmitErrorKind::GroupMemory, message });
                }
            }
        }
        if !Cancel::is_pending(&*parcel) {
            // It fired before its timer was put away.
            drop(parcel.timer.lock().take());
        }
        Ok(Delayed { parcel })
    }
}

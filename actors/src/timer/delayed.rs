//! Messages sent later, from anywhere. Handlers use
//! [`Context::tell_after`](crate::Context::tell_after), whose timer ends with the actor.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_runtime::{Completion, SubmitErrorKind};

use crate::actor::{kind, Actor, Address, MessageFor};
use crate::error::TellError;
use crate::large::{self, is_any_large, Large};
use crate::request::scope::contain;
use crate::request::RequestContext;

/// A message that is to be sent; see [`Address::tell_after`]. Dropping this changes nothing.
#[derive(Clone)]
pub struct Delayed {
    pending: Arc<Pending>,
}

debug_fields!(impl Delayed, self => is_pending: self.is_pending());

impl Delayed {
    /// Drops the message unsent. Returns whether it was still to be sent. A panic of the message's
    /// destructor is logged.
    pub fn cancel(&self) -> bool {
        let send = self.pending.take();
        let was_pending = send.is_some();
        contain("dropping a message that was to be sent later", || drop(send));
        was_pending
    }

    /// Whether it is still to be sent.
    pub fn is_pending(&self) -> bool {
        self.pending.0.lock().send.is_some()
    }
}

/// A message until its time.
struct Pending(Mutex<State>);

struct State {
    /// Sends the message.
    send: Option<Box<dyn FnOnce() + Send>>,
    /// The timer; it holds this pending as its waker until it has fired.
    timer: Option<Completion<()>>,
}

impl Pending {
    fn take(&self) -> Option<Box<dyn FnOnce() + Send>> {
        let (send, timer) = {
            let mut state = self.0.lock();
            (state.send.take(), state.timer.take())
        };
        drop(timer);
        send
    }
}

impl Wake for Pending {
    fn wake(self: Arc<Self>) {
        if let Some(send) = self.take() {
            send();
        }
    }
}

impl<A: Actor> Address<A> {
    /// Sends a message after a delay, never early, even if the sender ends. The current request
    /// context goes with it.
    ///
    /// The message keeps the actor reachable until then; if it is refused when due it is a dead
    /// letter. Cost: one timer and four allocations.
    ///
    /// # Errors
    ///
    /// `GroupMemory` if the group holds as many timers as it may; the message comes back.
    pub fn tell_after<M: MessageFor<A, K>, K: 'static>(
        &self,
        delay: Duration,
        message: M,
    ) -> Result<Delayed, TellError<M>> {
        match const { is_any_large::<M, M::Reply>() } {
            true => large::send(message, |message| {
                self.tell_after_as::<Large<M>, kind::Boxed<K>>(delay, message)
            }),
            false => self.tell_after_as::<M, K>(delay, message),
        }
    }

    fn tell_after_as<M: MessageFor<A, K>, K: 'static>(
        &self,
        delay: Duration,
        message: M,
    ) -> Result<Delayed, TellError<M>> {
        let mut timer = self.system().group().sleep(delay);
        let now = timer.try_take();
        if let Some(Err(_)) = now {
            return Err(TellError { kind: SubmitErrorKind::GroupMemory, message });
        }
        let (to, request) = (self.clone(), RequestContext::current());
        // A refused message is counted as a dead letter; its sender is gone.
        let send = Box::new(move || drop(request.scope(|| to.tell(message))));
        let pending = Arc::new(Pending(Mutex::new(State { send: Some(send), timer: None })));
        let waker = Waker::from(Arc::clone(&pending));
        if now.is_some() || Pin::new(&mut timer).poll(&mut Context::from_waker(&waker)).is_ready() {
            waker.wake();
            return Ok(Delayed { pending });
        }
        let fired = {
            let mut state = pending.0.lock();
            match state.send {
                Some(_) => state.timer.replace(timer),
                None => Some(timer),
            }
        };
        drop(fired);
        Ok(Delayed { pending })
    }
}

//! Messages whose answer goes to the caller of another message.

use std::cell::Cell;

use turnwheel_runtime::SubmitErrorKind;

use super::Address;
use crate::actor::{Actor, Envelope, MessageFor};
use crate::call::ReplyTo;
use crate::error::TellError;
use crate::large::{by_size, Carry};
use crate::request::{self, Delivery};
use crate::system::intercept::outgoing::{self, Destination};

impl<A: Actor> Address<A> {
    /// Sends a message whose answer goes to the caller of `reply`.
    ///
    /// # Errors
    ///
    /// As [`Address::tell`]; the caller gets an error. `Refused` if this actor itself waits for the
    /// answer and takes no messages meanwhile: the caller gets the cycle.
    pub fn forward<M: MessageFor<A, K>, K: 'static>(
        &self,
        message: M,
        reply: ReplyTo<M::Reply>,
    ) -> Result<(), TellError<M>> {
        by_size!(<M, K> self.forward_as(message, reply))
    }

    fn forward_as<M: Send + 'static, P: MessageFor<A, K> + Carry<M>, K: 'static>(
        &self,
        message: P,
        reply: ReplyTo<P::Reply>,
    ) -> Result<(), TellError<P>> {
        let reply = Cell::new(Some(reply));
        let send = |message| {
            // A message without a caller is forwarded without one.
            let reply = reply.take().filter(ReplyTo::is_anybody);
            if reply.as_ref().is_some_and(|reply| reply.is_awaited_by(self.raw_id())) {
                return Err(self.forward_cycle(message, reply));
            }
            if let Some(reply) = &reply {
                reply.forwarded(self.system().group().recent_ns());
            }
            let delivery = Delivery { message, baggage: request::baggage(), reply };
            let envelope = Envelope::<P, P::Reply, K>::new(delivery);
            self.task.submit_job(envelope).map_err(|error| self.refused(error))
        };
        if !self.is_intercepted() {
            return send(message);
        }
        outgoing::tell::<M, P>(self.target(), message, send, |failure, info| {
            if let Some(reply) = reply.take() {
                reply.fail(failure.clone());
            }
            outgoing::lost(failure, info);
        })
    }

    /// The actor waits for the answer that it is to give.
    #[cold]
    fn forward_cycle<M, R>(&self, message: M, reply: Option<ReplyTo<R>>) -> TellError<M> {
        if let Some(reply) = reply {
            reply.fail_with_cycle(self.name());
        }
        self.unsent(TellError { kind: SubmitErrorKind::Refused, message })
    }
}

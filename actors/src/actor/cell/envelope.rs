//! A message on its way to an actor.

use std::marker::PhantomData;
use std::sync::Arc;

use turnwheel_runtime::oneshot::{Receiver, SharedOneshot};
use turnwheel_runtime::{Context, SubmitError, TaskJob};

use crate::actor::{Actor, ActorCell, MessageFor};
use crate::call::{Answer, Call, Load, ReplyTo, Term};
use crate::error::TellError;
use crate::request::{self, Ambient, Delivery};
use crate::system::Undelivered;

/// A queued message without metadata: the most frequent kind, no bigger than the message.
pub(crate) struct Bare<M, K> {
    message: M,
    guard: Undelivered<M>,
    kind: PhantomData<fn() -> K>,
}

impl<M, K> Bare<M, K> {
    #[inline(always)]
    pub(crate) fn new(message: M) -> Self {
        Self { message, guard: Undelivered::new(), kind: PhantomData }
    }

    /// Opens it: from here on it is no dead letter.
    #[inline(always)]
    pub(crate) fn open(self) -> M {
        self.guard.delivered();
        self.message
    }
}

impl<A: Actor, M: MessageFor<A, K>, K: 'static> TaskJob<ActorCell<A>> for Bare<M, K> {
    #[inline(always)]
    fn run(self, cell: &mut ActorCell<A>, cx: &mut Context<'_, ActorCell<A>>) {
        M::receive_told(cell, self.open(), cx.reborrow());
    }
}

/// A queued message: a job of the actor's task.
pub(crate) struct Envelope<M, R, K> {
    delivery: Delivery<M, R>,
    guard: Undelivered<M>,
    kind: PhantomData<fn() -> K>,
}

impl<M, R, K> Envelope<M, R, K> {
    #[inline(always)]
    pub(crate) fn new(delivery: Delivery<M, R>) -> Self {
        Self { delivery, guard: Undelivered::new(), kind: PhantomData }
    }

    /// Opens it: from here on it is no dead letter.
    #[inline(always)]
    pub(crate) fn open(self) -> Delivery<M, R> {
        self.guard.delivered();
        self.delivery
    }

    /// A message without an answer, with the metadata of the current request.
    #[inline(always)]
    pub(crate) fn told(message: M) -> Self {
        Self::new(Delivery { message, baggage: request::baggage(), reply: None })
    }

    /// A call's message, with the caller's side and the entry for its deadline.
    #[inline(always)]
    pub(crate) fn asked(
        message: M,
        outgoing: Ambient,
        term: Term,
        load: Option<Arc<Load>>,
    ) -> (Self, Receiver<Answer<R>, Call>, SharedOneshot<Call>) {
        let Ambient { baggage, chain, .. } = outgoing;
        let (reply, receiver, shared) = Call::counted(term, chain, load).begin();
        (Self::new(Delivery { message, baggage, reply: Some(reply) }), receiver, shared)
    }

    /// Whether this actor waits for the answer.
    pub(crate) fn comes_back_to(&self, actor: u64) -> bool {
        let call = self.delivery.reply.as_ref().and_then(ReplyTo::call);
        call.is_some_and(|call| call.chain.contains(actor))
    }
}

impl<A: Actor, M: MessageFor<A, K>, K: 'static> TaskJob<ActorCell<A>> for Envelope<M, M::Reply, K> {
    #[inline(always)]
    fn run(self, cell: &mut ActorCell<A>, cx: &mut Context<'_, ActorCell<A>>) {
        M::receive(cell, self.open(), cx.reborrow());
    }
}

impl<M, R, K> From<SubmitError<Envelope<M, R, K>>> for TellError<M> {
    fn from(error: SubmitError<Envelope<M, R, K>>) -> Self {
        Self { kind: error.kind, message: error.job.open().message }
    }
}

//! Messages that move on, unopened, to another task of the same type, or to another process.

use std::any::{Any, TypeId};

use turnwheel_runtime::{Failure, SubmitErrorKind, Task};

use crate::actor::{Actor, ActorCell, Envelope, MessageFor, Turn};
use crate::system::{DeadLetterReason, System};

/// A message that waits for an actor.
pub(crate) trait Pending<A: Actor>: Send {
    /// Sends it to the actor; comes back if it is refused.
    fn send(self: Box<Self>, task: &Task<ActorCell<A>>) -> Result<(), Unsent<A>>;
    /// Is taken here and now.
    fn receive(self: Box<Self>, cell: &mut ActorCell<A>, turn: Turn<'_, A>);
    /// Answers its sender with the failure.
    fn fail(self: Box<Self>, system: &System, failure: &Failure);
    /// Goes to the owner of its key in another process; comes back if its type does not cross.
    fn carry(self: Box<Self>, way: &dyn Carrying) -> Result<(), Box<dyn Pending<A>>>;
}

/// Takes the messages of one key to its owner in another process.
pub(crate) trait Carrying {
    /// Whether messages of this type cross.
    fn crosses(&self, message: TypeId) -> bool;
    /// Takes a message that crosses: its [`Delivery`](crate::request::Delivery).
    fn carry(&self, message: TypeId, delivery: Box<dyn Any + Send>);
}

/// A message that an actor did not take.
pub(crate) struct Unsent<A: Actor> {
    pub(crate) kind: SubmitErrorKind,
    pub(crate) message: Box<dyn Pending<A>>,
}

/// Destination of the messages of an actor that handles none any more.
pub(crate) trait Forwarder<A: Actor>: Send + Sync {
    /// Takes a message; messages of one sender keep their order.
    fn take(&self, message: Box<dyn Pending<A>>);
}

impl<A: Actor, M: MessageFor<A, K>, K: 'static> Pending<A> for Envelope<M, M::Reply, K> {
    fn send(self: Box<Self>, task: &Task<ActorCell<A>>) -> Result<(), Unsent<A>> {
        task.submit_job(*self)
            .map_err(|error| Unsent { kind: error.kind, message: Box::new(error.job) })
    }

    fn receive(self: Box<Self>, cell: &mut ActorCell<A>, turn: Turn<'_, A>) {
        M::receive(cell, self.open(), turn);
    }

    fn fail(self: Box<Self>, system: &System, failure: &Failure) {
        if let Some(reply) = self.open().reply {
            reply.fail(failure.clone());
        }
        let recipient = || std::any::type_name::<A>().to_owned();
        system.lose::<M>(recipient, DeadLetterReason::Dropped);
    }

    fn carry(self: Box<Self>, way: &dyn Carrying) -> Result<(), Box<dyn Pending<A>>> {
        (*self).carry(way).map_err(|envelope| Box::new(envelope) as _)
    }
}

impl<M: Send + 'static, R: Send + 'static, K> Envelope<M, R, K> {
    /// Goes to the owner of its key in another process; comes back if its type does not cross.
    pub(crate) fn carry(self, way: &dyn Carrying) -> Result<(), Self> {
        let message = TypeId::of::<M>();
        if !way.crosses(message) {
            return Err(self);
        }
        way.carry(message, Box::new(self.open()));
        Ok(())
    }
}

impl<A: Actor> ActorCell<A> {
    /// From now on this actor handles only calls that its own futures wait for: all other messages
    /// are forwarded, those at the gate first.
    pub(crate) fn forward_messages(
        &mut self,
        forwarder: Box<dyn Forwarder<A>>,
        turn: &mut Turn<'_, A>,
    ) {
        self.state.is_plain = false;
        self.state.rare().forwarder = Some(forwarder);
        self.readmit_waiting(turn);
    }
}

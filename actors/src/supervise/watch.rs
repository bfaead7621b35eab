//! Notification of the end of another actor.

use std::future::Future;

use crate::actor::{Actor, ActorCell, Address, Context, Exit, MessageFor};
use crate::request::Delivery;

impl<A: Actor> Context<'_, A> {
    /// Handles the message that `map` makes of the other actor's end, once; also if it has ended
    /// already. The message is not queued, so a full mailbox does not lose it.
    ///
    /// Watching keeps neither actor from closing. An actor that closes first gets no message.
    pub fn watch<B: Actor, M: MessageFor<A, K>, K: 'static>(
        &mut self,
        other: &Address<B>,
        map: impl FnOnce(Exit) -> M + Send + 'static,
    ) {
        let closed = other.task.closed();
        self.once_started(move |turn| {
            turn.on_completion(
                closed,
                move |cell: &mut ActorCell<A>, turn, outcome: Result<(), _>| {
                    let delivery =
                        Delivery { message: map(outcome.into()), baggage: None, reply: None };
                    M::receive(cell, delivery, turn.reborrow());
                },
            );
        });
    }

    /// Runs a closure when a future is done that does not keep the actor from closing.
    pub(crate) fn when_done<F: Future + Send + 'static>(
        &mut self,
        future: F,
        then: impl FnOnce(&mut A, &mut Context<'_, A>, F::Output) + Send + 'static,
    ) {
        self.turn_mut().await_interleaved(future, move |cell: &mut ActorCell<A>, turn, output| {
            cell.with_actor(turn, |actor, cx| then(actor, cx, output));
        });
    }

    /// As [`Context::when_done`], but does not hold the start either.
    pub(crate) fn when_done_started<F: Future + Send + 'static>(
        &mut self,
        future: F,
        then: impl FnOnce(&mut A, &mut Context<'_, A>, F::Output) + Send + 'static,
    ) {
        self.once_started(move |turn| {
            turn.await_interleaved(future, move |cell: &mut ActorCell<A>, turn, output| {
                cell.with_actor(turn, |actor, cx| then(actor, cx, output));
            });
        });
    }
}

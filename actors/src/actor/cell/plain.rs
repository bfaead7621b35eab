//! Plain messages in a cell: handled by a function, without a future.
//!
//! The most frequent message has no caller, and its actor no interceptors: it takes a single
//! branch; all other code is out of line.

use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};

use crate::actor::{settle, Actor, ActorCell, Context, Turn};
use crate::call::ReplyTo;
use crate::request::{Ambient, Delivery, Panic};

impl<A: Actor> ActorCell<A> {
    /// Handles a plain message without caller and metadata: the most frequent kind.
    #[inline(always)]
    pub(crate) fn run_told<M, R: Send + 'static>(
        &mut self,
        message: M,
        turn: Turn<'_, A>,
        handle: impl FnOnce(&mut A, M, &mut Context<'_, A>) -> R,
    ) {
        let Some(actor) = &mut self.actor else { return self.drop_without_actor::<M>(&turn) };
        self.state.note_begin(turn.now_ns());
        // The answer is dropped: there is no caller.
        drop(handle(actor, message, &mut Context::new(turn, &mut self.state)));
    }

    /// Handles a plain message: no future, no waiting.
    #[inline(always)]
    pub(crate) fn run_plain<M, R: Send + 'static>(
        &mut self,
        delivery: Delivery<M, R>,
        turn: Turn<'_, A>,
        handle: impl FnOnce(&mut A, M, &mut Context<'_, A>) -> R,
    ) {
        let Delivery { message, baggage, reply } = delivery;
        let Some(actor) = &mut self.actor else { return self.drop_without_actor::<M>(&turn) };
        self.state.note_begin(turn.now_ns());
        let mut cx = Context::new(turn, &mut self.state);
        let Some(reply) = reply else {
            let ambient = Ambient::plain(baggage, u64::MAX);
            drop(ambient.within(|| handle(actor, message, &mut cx)));
            return;
        };
        if !reply.begin(cx.system().group().recent_ns()) {
            return cx.unbegun::<M>(reply.has_expired(cx.system().group()));
        }
        let deadline_ns = reply.call().map_or(u64::MAX, |call| call.deadline_ns);
        let ambient = Ambient::plain(baggage, deadline_ns);
        let mut reply = Some(reply);
        // The answer is given inside: carried out, it would go through memory.
        let run = AssertUnwindSafe(|| {
            let answer = match &reply {
                Some(reply) => {
                    let mut cx = cx.asked_by(reply);
                    ambient.within(|| handle(actor, message, &mut cx))
                }
                None => unreachable!("it is given below"),
            };
            if let Some(reply) = reply.take() {
                reply.send(answer);
            }
        });
        let outcome = catch_unwind(run);
        ambient.end_plain();
        if let Err(panic) = outcome {
            end_panicked(reply, panic);
        }
    }
}

/// Continues a panic; its caller gets it if there is no answer yet.
#[cold]
#[inline(never)]
pub(crate) fn end_panicked<R>(reply: Option<ReplyTo<R>>, panic: Panic) {
    if let Some(panic) = settle(reply, Err(panic)) {
        resume_unwind(panic);
    }
}

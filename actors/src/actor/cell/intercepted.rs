//! The path of an intercepted message through a cell; `state.rs` has the path of all others.

use std::future::Future;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::pin::{pin, Pin};
use std::task::Poll;
use std::time::Duration;

use turnwheel_runtime::Failure;

use crate::actor::{
    Actor, ActorCell, Admits, AsyncContext, AsyncHandler, Context, InterleavedHandler,
    ReplyHandler, Turn,
};
use crate::call::ReplyTo;
use crate::error::AskError;
use crate::large::Carry;
use crate::request::{scope, Ambient, Delivery, Panic, RequestContext};
use crate::system::intercept::interception::Interception;
use crate::system::intercept::outcome::End;
use crate::system::intercept::{Direction, MessageInfo};
use crate::system::DeadLetterReason;

/// The end of a message: for its caller, and the panic for its actor's policy.
type Ended<R> = (End<R>, Option<Panic>);

/// The future of an interleaved handler.
type Made<R> = Pin<Box<dyn Future<Output = R> + Send>>;

fn failed<R>(failure: Failure) -> End<R> {
    End::Failed(AskError::Unanswered(failure))
}

/// Outcome of a handler, if it was run.
fn end_of<T, R>(
    around: Result<(), Failure>,
    outcome: Option<Result<T, Panic>>,
    ended: impl FnOnce(T) -> End<R>,
) -> Ended<R> {
    if let Err(failure) = around {
        return (failed(failure), outcome.and_then(Result::err));
    }
    match outcome {
        Some(Ok(output)) => (ended(output), None),
        Some(Err(panic)) => (failed(Failure::from_panic_ref(panic.as_ref())), Some(panic)),
        None => (End::Open, None),
    }
}

/// Runs a handler inside the interceptors and reports its outcome to them.
fn between<T, R: Send + 'static>(
    interception: &mut Interception,
    ambient: &Ambient,
    run: impl FnOnce() -> T,
    ended: impl FnOnce(T) -> End<R>,
) -> Ended<R> {
    ambient.within(|| {
        let (outcome, around) = interception.within(|| catch_unwind(AssertUnwindSafe(run)));
        let (mut end, panic) = end_of(around, outcome, ended);
        interception.end(&mut end);
        (end, panic)
    })
}

impl<A: Actor> ActorCell<A> {
    /// Takes a message and begins with its interceptors; returns also whether it counts as activity.
    /// If there is no actor, the message is late, or an interceptor refuses, it is answered here.
    fn take_in<M: Send + 'static, P: Carry<M>, R: Send + 'static>(
        &mut self,
        mut delivery: Delivery<P, R>,
        ambient: &mut Ambient,
        turn: &Turn<'_, A>,
    ) -> Option<(Interception, P, Option<ReplyTo<R>>, bool)> {
        if self.actor.is_none() {
            self.drop_without_actor::<M>(turn);
            return None;
        }
        let is_activity = self.begin(&delivery, turn)?;
        let info = MessageInfo {
            actor: self.name(turn),
            class: self.class(turn),
            message: std::any::type_name::<M>(),
            direction: Direction::Incoming,
            is_ask: delivery.reply.as_ref().is_some_and(ReplyTo::is_asked),
            attempt: 0,
            limit: Duration::MAX,
            request: RequestContext::of(delivery.baggage.clone()),
            system: turn.attachment().clone(),
        };
        let mut interception = Interception::new(self.state.chain(), info);
        let begun = ambient.within(|| interception.begin(delivery.message.message()));
        ambient.baggage = interception.info.request.baggage();
        let Delivery { message, reply, .. } = delivery;
        let Err(failure) = begun else { return Some((interception, message, reply, is_activity)) };
        let mut end = failed::<R>(failure);
        ambient.within(|| interception.end(&mut end));
        self.close_with::<M, _>(reply, end, false, turn);
        None
    }

    /// Answers the caller. A message failed by an interceptor is a dead letter if it has no caller.
    fn close_with<M, R>(
        &self,
        reply: Option<ReplyTo<R>>,
        end: End<R>,
        has_panicked: bool,
        turn: &Turn<'_, A>,
    ) {
        match end {
            End::Failed(error) => {
                let waits = |reply: &ReplyTo<R>| reply.is_asked() && !reply.is_abandoned();
                if !has_panicked && !reply.as_ref().is_some_and(waits) {
                    self.dead_letter::<M>(turn, DeadLetterReason::Intercepted);
                }
                if let Some(reply) = reply {
                    reply.fail(error.into());
                }
            }
            End::Replied(answer) => {
                if let Some(reply) = reply {
                    reply.send(answer);
                }
            }
            End::Open => {}
        }
    }

    /// As `run_plain`.
    #[cold]
    pub(crate) fn plain_intercepted<M, P, R>(
        &mut self,
        delivery: Delivery<P, R>,
        mut turn: Turn<'_, A>,
        handle: impl FnOnce(&mut A, P, &mut Context<'_, A>) -> R,
    ) where
        M: Send + 'static,
        P: Carry<M>,
        R: Send + 'static,
    {
        let deadline_ns = delivery
            .reply
            .as_ref()
            .and_then(ReplyTo::call)
            .map_or(u64::MAX, |call| call.deadline_ns);
        let mut ambient = Ambient::plain(delivery.baggage.clone(), deadline_ns);
        let taken = self.take_in::<M, P, _>(delivery, &mut ambient, &turn);
        let Some((mut interception, message, reply, _)) = taken else { return };
        let Some(actor) = &mut self.actor else { return };
        let mut cx = Context::new(turn.reborrow(), &mut self.state);
        if let Some(reply) = &reply {
            cx = cx.asked_by(reply);
        }
        let run = || handle(actor, message, &mut cx);
        let (end, panic) = between(&mut interception, &ambient, run, End::Replied);
        self.close_with::<M, _>(reply, end, panic.is_some(), &turn);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// As `run_replying`.
    #[cold]
    pub(crate) fn replying_intercepted<M, P: Carry<M>>(
        &mut self,
        delivery: Delivery<P, <A as ReplyHandler<M>>::Reply>,
        mut turn: Turn<'_, A>,
    ) where
        A: ReplyHandler<M>,
        M: Send + 'static,
    {
        let mut ambient = Ambient::of(&delivery, None);
        let taken = self.take_in::<M, P, _>(delivery, &mut ambient, &turn);
        let Some((mut interception, message, reply, _)) = taken else { return };
        let Some(actor) = &mut self.actor else { return };
        let mut held = Some(reply.unwrap_or_else(ReplyTo::nobody));
        let mut cx = Context::new(turn.reborrow(), &mut self.state);
        let run = || {
            let reply = held.take().unwrap_or_else(ReplyTo::nobody);
            actor.handle(message.open(), reply, &mut cx);
        };
        let (end, panic) = between(&mut interception, &ambient, run, |()| End::Open);
        // Only a message that was never handed over is answered here.
        if held.is_some() {
            self.close_with::<M, _>(held, end, false, &turn);
        }
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// As `run_exclusive`.
    #[cold]
    pub(crate) fn exclusive_intercepted<M, P: Carry<M>>(
        &mut self,
        delivery: Delivery<P, <A as AsyncHandler<M>>::Reply>,
        mut turn: Turn<'_, A>,
    ) where
        A: AsyncHandler<M>,
        M: Send + 'static,
    {
        let mut ambient = Ambient::of(&delivery, Some(self.asker(&turn, false)));
        let taken = self.take_in::<M, P, _>(delivery, &mut ambient, &turn);
        let Some((interception, message, reply, is_activity)) = taken else { return };
        let cx = AsyncContext::new(self.state.address(&turn));
        let Some(mut lent) = self.lend() else { return };
        let future = async move {
            let make = || P::keep(lent.handle(message.open(), cx));
            scope::made_contained(make, &mut ambient).await.map(P::answer)
        };
        let future = around(future, interception);
        turn.await_exclusive(future, move |cell, turn, (end, panic)| {
            cell.take_back();
            cell.after::<M, _>(reply, end, panic, is_activity, turn);
        });
    }

    /// As `run_interleaved`.
    #[cold]
    pub(crate) fn interleaved_intercepted<M, P: Carry<M>>(
        &mut self,
        delivery: Delivery<P, <A as InterleavedHandler<M>>::Reply>,
        mut turn: Turn<'_, A>,
    ) where
        A: InterleavedHandler<M>,
        M: Send + 'static,
    {
        let asker = (A::ADMITS != Admits::All).then(|| self.asker(&turn, true));
        let mut ambient = Ambient::of(&delivery, asker);
        let taken = self.take_in::<M, P, _>(delivery, &mut ambient, &turn);
        let Some((mut interception, message, reply, is_activity)) = taken else { return };
        let Some(actor) = &mut self.actor else { return };
        let mut cx = Context::new(turn.reborrow(), &mut self.state);
        let (made, ran) = interception.within(|| {
            catch_unwind(AssertUnwindSafe(|| {
                ambient.within(|| -> Made<<A as InterleavedHandler<M>>::Reply> {
                    Box::pin(actor.handle(message.open(), &mut cx))
                })
            }))
        });
        let future = match (ran, made) {
            (Ok(()), Some(Ok(future))) => future,
            (ran, made) => {
                let (mut end, panic) =
                    end_of(ran, made.and_then(Result::err).map(Err), End::Replied);
                interception.end(&mut end);
                return self.after::<M, _>(reply, end, panic, is_activity, &mut turn);
            }
        };
        self.enter(A::ADMITS);
        let future = around(scope::contained(future, ambient), interception);
        turn.await_holding(future, move |cell, turn, (end, panic)| {
            cell.leave(A::ADMITS);
            cell.after::<M, _>(reply, end, panic, is_activity, turn);
        });
    }

    /// After a handler's future.
    fn after<M, R>(
        &mut self,
        reply: Option<ReplyTo<R>>,
        end: End<R>,
        panic: Option<Panic>,
        is_activity: bool,
        turn: &mut Turn<'_, A>,
    ) {
        self.close_with::<M, _>(reply, end, panic.is_some(), turn);
        self.go_on(panic, is_activity, turn);
    }
}

/// A handler's future with the interceptors around each poll of it, and their ends behind it.
async fn around<F: Future<Output = Result<R, Panic>>, R: Send + 'static>(
    future: F,
    mut interception: Interception,
) -> Ended<R> {
    let (around, outcome) = {
        let mut future = pin!(future);
        std::future::poll_fn(|cx| {
            let (polled, around) = interception.within(|| future.as_mut().poll(cx));
            match (around, polled) {
                (Ok(()), Some(Poll::Pending)) => Poll::Pending,
                (around, Some(Poll::Ready(outcome))) => Poll::Ready((around, Some(outcome))),
                (around, _) => Poll::Ready((around, None)),
            }
        })
        .await
    };
    let (mut end, panic) = end_of(around, outcome, End::Replied);
    interception.end(&mut end);
    (end, panic)
}

//! The ways of an intercepted message through a cell; `state.rs` has those of all others.

use std::future::Future;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::pin::{pin, Pin};
use std::task::Poll;
use std::time::Duration;

use turnwheel_runtime::Failure;

use crate::actor::cell::ActorCell;
use crate::actor::context::{AsyncContext, Context};
use crate::actor::handler::{Admits, AsyncHandler, InterleavedHandler, ReplyHandler, Turn};
use crate::actor::Actor;
use crate::call::chain::CallChain;
use crate::call::reply::ReplyTo;
use crate::error::AskError;
use crate::large::Carry;
use crate::request::scope::{self, Panic};
use crate::request::Delivery;
use crate::request::{Ambient, RequestContext};
use crate::system::dead_letter::DeadLetterReason;
use crate::system::intercept::interception::Interception;
use crate::system::intercept::outcome::End;
use crate::system::intercept::{Direction, MessageInfo};

/// The end of a message: for its caller, and the panic for its actor's policy.
type Ended<R> = (End<R>, Option<Panic>);

/// The future of an interleaved handler.
type Made<R> = Pin<Box<dyn Future<Output = R> + Send>>;

fn failed<R>(failure: Failure) -> End<R> {
    End::Failed(AskError::Unanswered(failure))
}

/// The end that a handler has come to, if it was run.
fn end_of<R>(around: Result<(), Failure>, outcome: Option<Result<R, Panic>>) -> Ended<R> {
    if let Err(failure) = around {
        return (failed(failure), outcome.and_then(Result::err));
    }
    match outcome {
        Some(Ok(reply)) => (End::Replied(reply), None),
        Some(Err(panic)) => (failed(Failure::from_panic_ref(panic.as_ref())), Some(panic)),
        None => (End::Open, None),
    }
}

impl<A: Actor> ActorCell<A> {
    /// Takes a message whose turn it is, and begins with its interceptors; with whether it is
    /// activity. If there is no actor, it has come too late, or one refuses, all is said.
    fn take_in<M, P, R>(
        &mut self,
        delivery: &mut Delivery<P, R>,
        ambient: &mut Ambient,
        turn: &Turn<'_, A>,
    ) -> Option<(Interception, bool)>
    where
        M: Send + 'static,
        P: Carry<M>,
        R: Send + 'static,
    {
        if self.actor.is_none() {
            self.drop_without_actor::<M>(turn);
            return None;
        }
        let is_activity = self.begin(delivery, turn)?;
        let interception = self.begin_interception::<M, P, R>(delivery, ambient, turn)?;
        Some((interception, is_activity))
    }

    /// Begins with the interceptors of a message whose turn it is. If one refuses, all is said.
    fn begin_interception<M, P, R>(
        &mut self,
        delivery: &mut Delivery<P, R>,
        ambient: &mut Ambient,
        turn: &Turn<'_, A>,
    ) -> Option<Interception>
    where
        M: Send + 'static,
        P: Carry<M>,
        R: Send + 'static,
    {
        let info = MessageInfo {
            actor: self.name(turn),
            class: self.class(turn),
            message: std::any::type_name::<M>(),
            direction: Direction::Incoming,
            is_ask: delivery.reply.as_ref().is_some_and(ReplyTo::is_asked),
            attempt: 0,
            limit: Duration::MAX,
            request: RequestContext::of(delivery.baggage.clone()),
            system: self.state.system.clone(),
        };
        let mut interception = Interception::new(self.state.chain(), info);
        let begun = ambient.within(|| interception.begin(delivery.message.message()));
        ambient.baggage = interception.info.request.baggage();
        let Err(failure) = begun else {
            return Some(interception);
        };
        let mut end = failed::<R>(failure);
        ambient.within(|| interception.end(&mut end));
        self.close_with::<M, _>(delivery.reply.take(), end, false, turn);
        None
    }

    /// Tells the caller; what an interceptor has failed and nobody waits for is a dead letter.
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
        mut delivery: Delivery<P, R>,
        mut turn: Turn<'_, A>,
        handle: impl FnOnce(&mut A, P, &mut Context<'_, A>) -> R,
    ) where
        M: Send + 'static,
        P: Carry<M>,
        R: Send + 'static,
    {
        let mut ambient = Ambient { chain: CallChain::default(), ..Ambient::of(&delivery) };
        let Some((mut interception, _)) =
            self.take_in::<M, P, _>(&mut delivery, &mut ambient, &turn)
        else {
            return;
        };
        let Delivery { message, reply, .. } = delivery;
        let Some(actor) = &mut self.actor else { return };
        let mut held = Some((message, handle));
        let mut outcome = None;
        let mut cx = Context::new(turn.reborrow(), &mut self.state);
        let (end, panic) = ambient.within(|| {
            let around = interception.within(&mut || {
                let Some((message, handle)) = held.take() else { return };
                let run = AssertUnwindSafe(|| handle(actor, message, &mut cx));
                outcome = Some(catch_unwind(run));
            });
            let (mut end, panic) = end_of(around, outcome);
            interception.end(&mut end);
            (end, panic)
        });
        self.close_with::<M, _>(reply, end, panic.is_some(), &turn);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// As `run_replying`.
    #[cold]
    pub(crate) fn replying_intercepted<M, P: Carry<M>>(
        &mut self,
        mut delivery: Delivery<P, <A as ReplyHandler<M>>::Reply>,
        mut turn: Turn<'_, A>,
    ) where
        A: ReplyHandler<M>,
        M: Send + 'static,
    {
        let mut ambient = Ambient::of(&delivery);
        let Some((mut interception, _)) =
            self.take_in::<M, P, _>(&mut delivery, &mut ambient, &turn)
        else {
            return;
        };
        let Delivery { message, reply, .. } = delivery;
        let Some(actor) = &mut self.actor else { return };
        let mut held = Some((message, reply.unwrap_or_else(ReplyTo::nobody)));
        let mut outcome = None;
        let mut cx = Context::new(turn.reborrow(), &mut self.state);
        let (end, panic) = ambient.within(|| {
            let around = interception.within(&mut || {
                let Some((message, reply)) = held.take() else { return };
                let run = AssertUnwindSafe(|| actor.handle(message.open(), reply, &mut cx));
                outcome = Some(catch_unwind(run));
            });
            let (mut end, panic) = end_of(around, outcome.map(|outcome| outcome.map(drop)));
            if matches!(end, End::Replied(())) {
                end = End::Open;
            }
            interception.end(&mut end);
            (end, panic)
        });
        // Only what was never handed over is answered here.
        if let (Some((_, reply)), End::Failed(error)) = (held, end) {
            let end = End::Failed(error);
            self.close_with::<M, <A as ReplyHandler<M>>::Reply>(Some(reply), end, false, &turn);
        }
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// As `run_exclusive`.
    #[cold]
    pub(crate) fn exclusive_intercepted<M, P: Carry<M>>(
        &mut self,
        mut delivery: Delivery<P, <A as AsyncHandler<M>>::Reply>,
        mut turn: Turn<'_, A>,
    ) where
        A: AsyncHandler<M>,
        M: Send + 'static,
    {
        let mut ambient = Ambient::of(&delivery);
        let Some((interception, is_activity)) =
            self.take_in::<M, P, _>(&mut delivery, &mut ambient, &turn)
        else {
            return;
        };
        ambient.asker = Some(self.asker(&turn, false));
        let Delivery { message, reply, .. } = delivery;
        let Some(actor) = self.actor.take() else { return };
        let cx = AsyncContext::new(self.state.address(&turn));
        let mut lent = self.state.rare().lender.lend(actor);
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
        mut delivery: Delivery<P, <A as InterleavedHandler<M>>::Reply>,
        mut turn: Turn<'_, A>,
    ) where
        A: InterleavedHandler<M>,
        M: Send + 'static,
    {
        let mut ambient = Ambient::of(&delivery);
        let Some((mut interception, is_activity)) =
            self.take_in::<M, P, _>(&mut delivery, &mut ambient, &turn)
        else {
            return;
        };
        ambient.asker = (A::ADMITS != Admits::All).then(|| self.asker(&turn, true));
        let Delivery { message, reply, .. } = delivery;
        let Some(actor) = &mut self.actor else { return };
        let mut held = Some(message);
        let mut made = None;
        let mut cx = Context::new(turn.reborrow(), &mut self.state);
        let ran = interception.within(&mut || {
            let Some(message) = held.take() else { return };
            let run = AssertUnwindSafe(|| {
                // Boxed, since its type names the borrows of this closure.
                ambient.within(|| -> Made<<A as InterleavedHandler<M>>::Reply> {
                    Box::pin(actor.handle(message.open(), &mut cx))
                })
            });
            made = Some(catch_unwind(run));
        });
        let future = match (ran, made) {
            (Ok(()), Some(Ok(future))) => future,
            (ran, made) => {
                let (mut end, panic) = end_of(ran, made.and_then(Result::err).map(Err));
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
async fn around<F, R>(future: F, mut interception: Interception) -> Ended<R>
where
    F: Future<Output = Result<R, Panic>>,
    R: Send + 'static,
{
    let (around, outcome) = {
        let mut future = pin!(future);
        std::future::poll_fn(|cx| {
            let mut polled = None;
            let around = interception.within(&mut || {
                if polled.is_none() {
                    polled = Some(future.as_mut().poll(cx));
                }
            });
            match (around, polled) {
                (Ok(()), Some(Poll::Pending)) => Poll::Pending,
                (around, Some(Poll::Ready(outcome))) => Poll::Ready((around, Some(outcome))),
                (around, _) => Poll::Ready((around, None)),
            }
        })
        .await
    };
    let (mut end, panic) = end_of(around, outcome);
    interception.end(&mut end);
    (end, panic)
}

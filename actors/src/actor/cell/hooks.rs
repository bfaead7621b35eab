//! The hooks of an actor's task: from the runtime's lifecycle to the actor's.

use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};

use turnwheel_runtime::{Failure, Lifecycle, OnFailure};

use crate::actor::{Actor, ActorCell, Context, Directive, Exit, MessageFor, Turn};
use crate::request::Delivery;

/// The lifecycle of every actor; has no state of its own.
#[derive(Debug, Default)]
pub(crate) struct Hooks;

pub(crate) type Outcome = Result<(), Failure>;

impl<A: Actor> Lifecycle<ActorCell<A>> for Hooks {
    fn starting(&mut self, cell: &mut ActorCell<A>, cx: &mut Turn<'_, A>) -> Outcome {
        cell.make();
        cell.start(cx)
    }

    fn started(&mut self, cell: &mut ActorCell<A>, cx: &mut Turn<'_, A>) -> Outcome {
        cell.state.take_deferred().into_iter().for_each(|register| register(cx));
        Ok(())
    }

    fn closing(&mut self, cell: &mut ActorCell<A>, cx: &mut Turn<'_, A>) -> Outcome {
        cell.close_in_order(true, cx)
    }

    fn closed(&mut self, cell: &mut ActorCell<A>, _: &mut Turn<'_, A>) -> Outcome {
        cell.end(&Exit::Closed);
        Ok(())
    }

    fn failed(&mut self, cell: &mut ActorCell<A>, cx: &mut Turn<'_, A>, failure: &Failure) {
        cell.state.take_children().close_alone(&cx.group());
        cell.end(&Exit::Failed(failure.clone()));
    }

    fn on_failure(
        &mut self,
        cell: &mut ActorCell<A>,
        cx: &mut Turn<'_, A>,
        failure: &Failure,
    ) -> OnFailure {
        match cell.with_actor(cx, |actor, cx| actor.on_failure(failure, cx)) {
            Some(Directive::Resume) => OnFailure::Resume,
            Some(Directive::Stop) => OnFailure::Stop,
            // Without an actor its factory, or its end before a restart, has panicked.
            Some(Directive::Escalate) | None => OnFailure::Escalate,
            Some(Directive::Restart) => cell.restart(cx, failure),
        }
    }
}

impl<A: Actor> ActorCell<A> {
    /// Calls the actor, if it is there.
    pub(crate) fn with_actor<R>(
        &mut self,
        turn: &mut Turn<'_, A>,
        run: impl FnOnce(&mut A, &mut Context<'_, A>) -> R,
    ) -> Option<R> {
        self.take_back();
        let actor = self.actor.as_mut()?;
        Some(run(actor, &mut Context::new(turn.reborrow(), &mut self.state)))
    }

    /// Begins the actor's life: the hook `starting`.
    pub(crate) fn start(&mut self, turn: &mut Turn<'_, A>) -> Outcome {
        let started = self.with_actor(turn, |actor, cx| actor.starting(cx));
        started.unwrap_or(Ok(())).map_err(Failure::error)
    }

    /// Closes the children, and then calls the actor's hook `closing` if it `is_told`.
    pub(crate) fn close_in_order(&mut self, is_told: bool, turn: &mut Turn<'_, A>) -> Outcome {
        let children = self.state.take_children();
        if !children.is_empty() {
            turn.await_holding(children.close(turn.group()), move |cell: &mut Self, turn, ()| {
                if let Err(failure) = cell.close_in_order(is_told, turn) {
                    turn.fail(failure);
                }
            });
            return Ok(());
        }
        if !is_told {
            return Ok(());
        }
        let told = self.with_actor(turn, |actor, cx| actor.closing(cx));
        told.unwrap_or(Ok(())).map_err(Failure::error)
    }

    /// Runs the start of a restarted actor: futures that it awaits hold messages back, as
    /// at its first start.
    pub(crate) fn run_as_start(&mut self, begin: impl FnOnce(&mut Self)) {
        self.state.rare().is_restarting = true;
        let begun = catch_unwind(AssertUnwindSafe(|| begin(self)));
        self.state.rare().is_restarting = false;
        if let Err(panic) = begun {
            resume_unwind(panic);
        }
    }

    /// Takes a message that is part of the start of a restarted actor: behind the activation
    /// of an entity, if that has it.
    pub(crate) fn receive_at_start<M: MessageFor<A, K>, K: 'static>(
        &mut self,
        delivery: Delivery<M, M::Reply>,
        turn: &mut Turn<'_, A>,
    ) {
        self.take_back();
        if self.actor.is_some() {
            return self.run_as_start(|cell| M::receive(cell, delivery, turn.reborrow()));
        }
        turn.await_exclusive(std::future::ready(()), move |cell, turn, ()| {
            cell.run_as_start(|cell| M::receive(cell, delivery, turn.reborrow()));
        });
    }

    /// Calls the actor's last hook, and drops it.
    pub(crate) fn end(&mut self, exit: &Exit) {
        self.take_back();
        let Some(mut actor) = self.actor.take() else { return };
        let told = catch_unwind(AssertUnwindSafe(|| actor.ended(exit)));
        // Apart from each other: a second panic in the unwinding of the first aborts the process.
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(actor)));
        match (told, dropped) {
            (Ok(()), Ok(())) => {}
            (Err(panic), Ok(())) | (Ok(()), Err(panic)) => resume_unwind(panic),
            (Err(panic), Err(further)) => {
                let failure = Failure::from_panic(further);
                tracing::error!(%failure, "an actor panicked when it was dropped");
                resume_unwind(panic);
            }
        }
    }

    /// Ends the failed actor and starts a fresh one, at once or after a pause.
    fn restart(&mut self, turn: &mut Turn<'_, A>, failure: &Failure) -> OnFailure {
        let now_ns = turn.group().now_ns();
        let seed = self.state.id;
        let Some(restarter) = self.state.rare().restarter.as_mut() else { return OnFailure::Stop };
        let Some(pause) = restarter.next(now_ns, seed) else {
            tracing::error!(actor = turn.name(), %failure, "failed too often to be restarted again");
            return OnFailure::Escalate;
        };
        self.end(&Exit::Failed(failure.clone()));
        tracing::warn!(actor = turn.name(), %failure, ?pause, "restarting an actor");
        let children = self.state.take_children();
        if pause.is_zero() && children.is_empty() {
            self.begin_again(turn);
        } else {
            let group = turn.group();
            let ready = async move {
                children.close(group.clone()).await;
                if !pause.is_zero() {
                    // A group without room for a timer restarts at once.
                    let _ = group.sleep(pause).await;
                }
            };
            turn.await_exclusive(ready, |cell, turn, ()| {
                cell.begin_again(turn);
                cell.drain_after_start(turn);
            });
        }
        OnFailure::Resume
    }

    fn begin_again(&mut self, turn: &mut Turn<'_, A>) {
        self.actor = None;
        self.make();
        let mut begun = Ok(());
        self.run_as_start(|cell| begun = cell.start(turn));
        if let Err(failure) = begun {
            self.actor = None;
            turn.fail(failure);
        }
    }
}

//! Calling the code of steps, when what calls for it is durable.

use std::future::Future;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, Waker};

use turnwheel_actors::Context;

use super::message::CallReturned;
use super::migrate::check_version;
use super::queue::Place;
use super::traced::Traced;
use super::{on_pool, PlanActor};
use crate::action::{
    drop_quietly, panic_message, Begun as BegunCall, Call, CallKind, CancelFlag, Cause, Facts,
    Returned,
};
use crate::error::{unanswered, ActionError, UNKNOWN_ACTION};
use crate::id::StepId;
use crate::payload::Payload;
use crate::plan::{resolve, Plan, PlanState, StepKind, StepState};

impl PlanActor {
    /// Calls the code of a step; a result that comes at once is decided at once.
    pub(super) fn call(&mut self, step: StepId, cx: &mut Context<'_, Self>) {
        let Some(plan) = &self.plan else { return };
        let call = plan.step(step).calls;
        // Released when the code has ended, or is dropped.
        let place = self.places.remove(&step);
        // A call that was decided before a pause is made.
        if !matches!(plan.state, PlanState::Running | PlanState::Paused)
            || !matches!(plan.step(step).state, StepState::Running | StepState::Reverting)
        {
            return;
        }
        let begun_ns = cx.now_ns();
        let cancelled = CancelFlag::default();
        if plan.cancel.is_some() && !plan.step(step).is_ending {
            // The cancel came while the call was on its way to the journal.
            cancelled.set();
        }
        let begun = self.begin(plan, step, cancelled.clone());
        match begun {
            Err(error) => self.returned(step, call, Returned::not_called(error), 0),
            Ok(BegunCall::Blocking(code)) => {
                self.running.insert(step, (call, cancelled));
                let group = cx.group();
                let timed = move || {
                    let begun_ns = group.now_ns();
                    let returned = code();
                    drop(place);
                    (returned, (group.now_ns() - begun_ns) / 1_000)
                };
                cx.pipe(on_pool(cx.group(), timed), move |outcome| {
                    let (returned, ran_us) = outcome.unwrap_or_else(|failure| {
                        (Returned::failed(ActionError::new("failure", unanswered(&failure))), 0)
                    });
                    CallReturned { step, call, returned, ran_us }
                });
            }
            Ok(BegunCall::Async(future)) => {
                let mut future = Guarded { future, place };
                // Most calls that do not wait end here: they need no subscription.
                let mut noop = std::task::Context::from_waker(Waker::noop());
                match Pin::new(&mut future).poll(&mut noop) {
                    Poll::Ready(mut returned) => {
                        // Of one that has panicked.
                        returned.wishes.chunks.extend(cancelled.take_chunks(usize::MAX));
                        let ran_us = (cx.group().now_ns() - begun_ns) / 1_000;
                        self.returned(step, call, returned, ran_us);
                        // It may have dropped others.
                        self.tell_unwanted();
                    }
                    Poll::Pending => {
                        self.running.insert(step, (call, cancelled));
                        let group = cx.group();
                        cx.pipe(future, move |returned| {
                            let ran_us = (group.now_ns() - begun_ns) / 1_000;
                            CallReturned { step, call, returned, ran_us }
                        });
                    }
                }
            }
        }
    }

    /// The input of a step, with the outputs that it refers to.
    pub(super) fn input_of(&self, plan: &Plan, id: StepId) -> Result<Payload, ActionError> {
        let data = plan.action(plan.step(id).action);
        if data.needs.is_empty() {
            return Ok(data.input.clone());
        }
        resolve(&data.name, &data.input, |step| {
            let step = plan.find_step(step)?;
            Some(&plan.action(step.action).output)
        })
    }

    pub(super) fn begin(
        &self,
        plan: &Plan,
        id: StepId,
        cancelled: CancelFlag,
    ) -> Result<BegunCall, ActionError> {
        let step = plan.step(id);
        let data = plan.action(step.action);
        let Some(action) = self.world.registry().find(&data.name) else {
            let message = format!(
                "the plan needs the action «{}», which is not registered with this world: was it \
                 renamed or removed?",
                data.name
            );
            return Err(ActionError::new(UNKNOWN_ACTION, message).and_final());
        };
        check_version(&**action, data)?;
        let input = self.input_of(plan, id)?;
        let facts = Facts {
            plan: plan.id,
            step: id,
            action: step.action,
            attempt: step.attempt,
            is_first_call: step.is_first_call(),
            run: plan.run_number,
            event: step.in_event.then(|| step.inbox.front().cloned()).flatten(),
            now: self.world.now(),
            cause: step.cause,
            cancelled,
            sub_plans: plan.children.round(id),
            asked: plan.children.asked(id).map(|asked| asked.facts()),
            ids: Arc::clone(self.world.ids()),
            beat: step.beat.as_ref().and_then(|beat| beat.details.clone()),
            world: Arc::downgrade(&self.world),
            chunk_bytes: plan.chunk_bytes,
            trace: Some(plan.trace_of_call(step)),
            root: plan.root().map(|root| root.input.clone()).unwrap_or_default(),
            created_at: plan.created.at,
            failure: step
                .error
                .clone()
                .filter(|_| step.state == StepState::Reverting || step.cause == Cause::Skip),
        };
        let kind = match (step.state, step.kind) {
            (StepState::Reverting, _) => CallKind::Revert,
            (_, StepKind::Finalize) => CallKind::Finalize,
            _ => CallKind::Run,
        };
        let traced = Traced::new(plan, step, kind);
        let facts = Box::new(facts);
        let call = Call { kind, facts, input, output: data.output.clone() };
        let begun = self.world.registry().begin(&data.name, action, call);
        Ok(match traced {
            Some(traced) => traced.around(begun),
            None => begun,
        })
    }
}

/// A future whose panic is a failure of the step. It gives its place back when it has ended.
struct Guarded {
    future: Pin<Box<dyn Future<Output = Returned> + Send>>,
    place: Option<Place>,
}

impl Future for Guarded {
    type Output = Returned;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Returned> {
        let polled = catch_unwind(AssertUnwindSafe(|| self.future.as_mut().poll(cx)));
        let polled = polled.unwrap_or_else(|panic| {
            let error = ActionError::new("panic", panic_message(panic));
            Poll::Ready(Returned::failed(error))
        });
        if polled.is_ready() {
            self.place = None;
            // Its destructor is code of users too.
            drop_quietly(std::mem::replace(&mut self.future, Box::pin(std::future::pending())));
        }
        polled
    }
}

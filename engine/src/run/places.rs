//! Requests for places in queues, before the code of steps is called.
//!
//! A step requests a place when its start is handed to the journal and keeps it until its code has
//! ended. The entry of a step that has to wait says so, and its admission is an entry of its own:
//! after a crash this shows that its code was not called.

use turnwheel_actors::{Context, Handler};
use turnwheel_runtime::{Completion, Failure};

use super::decide::{Decisions, Effect};
use super::fair::Number;
use super::queue::{Answer, Asking, Place, Ticket};
use super::PlanActor;
use crate::action::{AnyAction, Cause, Returned};
use crate::error::ActionError;
use crate::id::StepId;
use crate::plan::{End, PlanState, Record, StepKind, StepState};

/// A place has come for a step that waits, or never will.
pub(super) struct Admitted {
    step: StepId,
    ticket: Number,
    place: Result<Place, Failure>,
}

impl Handler<Admitted> for PlanActor {
    type Reply = ();

    fn handle(&mut self, message: Admitted, cx: &mut Context<'_, Self>) {
        let Admitted { step, ticket, place } = message;
        if self.waiting.get(&step).is_none_or(|(_, waiting)| waiting.number() != ticket) {
            return;
        }
        self.waiting.remove(&step);
        let Ok(place) = place else { return };
        self.places.insert(step, place);
        if let Some(mut decisions) = self.decisions() {
            decisions.admitted(step);
        }
        self.settle(cx);
    }
}

impl PlanActor {
    /// Requests places for the decided calls. Calls that have to wait are taken back for now.
    pub(super) fn ask_for_places(&mut self, cx: &mut Context<'_, Self>) {
        self.forget_calls_that_are_over();
        if !self.effects.is_empty() {
            self.is_busy_now();
        }
        if self.world.is_plan_at_rest(self.id) {
            return self.leave_calls_to_others();
        }
        let mut next = 0;
        while let Some(effect) = self.effects.get(next) {
            let Effect::Call(step) = *effect else {
                next += 1;
                continue;
            };
            let is_held = self.places.contains_key(&step);
            let asking = if is_held { Ok(None) } else { self.asking(step) };
            let asking = match asking {
                Ok(Some(asking)) => asking,
                Ok(None) => {
                    // It needs no place here, and may have waited for one in a world that was
                    // ending, or had other queues: from now on a crash is one in its code.
                    self.leave_queue_of(step);
                    next += 1;
                    continue;
                }
                Err(error) => {
                    self.effects.remove(next);
                    let call = self.plan.as_ref().map_or(0, |plan| plan.step(step).calls);
                    self.returned(step, call, Returned::not_called(error), 0);
                    continue;
                }
            };
            match self.world.queues().ask(asking) {
                Answer::Now(place) => {
                    self.places.insert(step, place);
                    self.leave_queue_of(step);
                    next += 1;
                }
                Answer::Later(ticket, place) => {
                    self.effects.remove(next);
                    self.wait_for_place(step, ticket, place, cx);
                }
            }
        }
    }

    /// A step that may have waited for a place waits for none.
    fn leave_queue_of(&mut self, step: StepId) {
        if self.plan.as_ref().is_none_or(|plan| !plan.step(step).is_queued) {
            return;
        }
        if let Some(mut decisions) = self.decisions() {
            decisions.leave_queue(step);
        }
    }

    /// A step that was to be called may have been ended before it could ask, by an order that came in the
    /// same turn as the plan was read.
    fn forget_calls_that_are_over(&mut self) {
        let Some(plan) = &self.plan else { return };
        self.effects.retain(|effect| match effect {
            Effect::Call(step) => {
                matches!(plan.step(*step).state, StepState::Running | StepState::Reverting)
            }
            _ => true,
        });
    }

    /// This world calls nothing: every call waits for a place of another one.
    fn leave_calls_to_others(&mut self) {
        let calls: Vec<StepId> = self
            .effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Call(step) => Some(*step),
                _ => None,
            })
            .collect();
        if calls.is_empty() {
            return;
        }
        self.effects.retain(|effect| !matches!(effect, Effect::Call(_)));
        let Some(mut decisions) = self.decisions() else { return };
        for step in calls {
            let queue = decisions.plan.step(step).queue.clone();
            decisions.enter_queue(step, queue);
        }
        if let Some(is_forced) = decisions.plan.cancel.as_ref().map(|cancel| cancel.is_forced) {
            decisions.end_queued(is_forced);
            decisions.advance();
            self.leave_calls_to_others();
        }
    }

    fn wait_for_place(
        &mut self,
        step: StepId,
        ticket: Ticket,
        place: Completion<Place>,
        cx: &mut Context<'_, Self>,
    ) {
        let Some(plan) = &self.plan else { return };
        let (call, queue) = (plan.step(step).calls, self.world.queues().name(ticket.queue()));
        let number = ticket.number();
        self.waiting.insert(step, (call, ticket));
        if let Some(mut decisions) = self.decisions() {
            decisions.enter_queue(step, queue);
        }
        cx.pipe(place, move |place| Admitted { step, ticket: number, place });
    }

    /// The request of a step; `None` if its code needs no place.
    fn asking(&mut self, id: StepId) -> Result<Option<Asking>, ActionError> {
        let Some(plan) = &self.plan else { return Ok(None) };
        let step = plan.step(id);
        let name = &plan.action(step.action).name;
        let Some(action) = self.world.registry().find(name) else { return Ok(None) };
        let queues = self.world.queues();
        let known = queues.find(&step.queue);
        let queue = known.unwrap_or_default();
        let runs = step.kind == StepKind::Run && step.state != StepState::Reverting;
        let key = if runs { action.concurrency(&|| self.input_of(plan, id).ok())? } else { None };
        let needs_none = runs && action.runs_async() && queues.is_only_blocking(queue);
        let has_key = key.is_some();
        let asking = Asking::new(queue, (plan.id, plan.created.priority), key);
        if known.is_none() && step.is_first_call() {
            let text = format!(
                "queue «{}» is not known to this world: step {id} runs in the default queue",
                step.queue
            );
            if let Some(mut decisions) = self.decisions() {
                decisions.note(text);
            }
        }
        Ok((!needs_none || has_key).then_some(asking))
    }

    /// Steps that do not run any more, or not in this call, wait no more for their places.
    pub(super) fn leave_queues(&mut self) {
        let Some(plan) = &self.plan else { return };
        let is_running = plan.state == PlanState::Running;
        self.waiting.retain(|id, (call, _)| {
            let step = plan.step(*id);
            is_running && step.is_queued && step.calls == *call
        });
    }
}

impl Decisions<'_> {
    fn note(&mut self, text: String) {
        self.record(Record::Note { at: self.now, text });
    }

    fn enter_queue(&mut self, step: StepId, queue: String) {
        if !self.plan.step(step).is_queued {
            self.record(Record::Queued { step, at: self.now, queue });
        }
    }

    fn leave_queue(&mut self, step: StepId) {
        if self.plan.step(step).is_queued {
            self.record(Record::Admitted { step, at: self.now });
        }
    }

    /// A step that has waited has its place.
    fn admitted(&mut self, step: StepId) {
        if self.plan.step(step).is_queued {
            self.record(Record::Admitted { step, at: self.now });
            self.effects.push(Effect::Call(step));
        }
    }

    /// The plan is being cancelled: steps that wait for a place do not begin. Calls for a cancel or
    /// a clean-up are made all the same.
    pub(super) fn end_queued(&mut self, is_forced: bool) {
        let queued: Vec<StepId> = self.plan.queued().iter().copied().collect();
        for id in queued {
            let step = self.plan.step(id);
            let is_cancellable = self.action_of(id).is_some_and(AnyAction::is_cancellable);
            match step.cause {
                _ if step.state == StepState::Reverting => {}
                Cause::Cancel { .. } => {}
                Cause::Event | Cause::SubPlans if is_cancellable => {
                    let reason = "the end of the plan".to_owned();
                    let end = End::Suspended { reason, progress: None };
                    self.record(Record::Ended {
                        step: id,
                        at: self.now,
                        ran_us: 0,
                        end,
                        output: None,
                    });
                    self.tell_to_end(id, is_forced);
                }
                _ => {
                    let why = "the plan is being cancelled, and its code had not begun";
                    self.mark(vec![id], StepState::Cancelled, why);
                }
            }
        }
    }
}

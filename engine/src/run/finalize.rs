//! The finalize phase inside of one transaction of the host's database: all steps are called one after
//! the other as one piece of work. Without a transaction each of them is called by itself.

use std::panic::{catch_unwind, AssertUnwindSafe};

use turnwheel_actors::{Context, Handler};
use turnwheel_runtime::completion::block_on;

use super::decide::{Decisions, Effect};
use super::{on_pool, PlanActor};
use crate::action::{panic_message, Begun, CancelFlag, Cause, Returned};
use crate::error::ActionError;
use crate::id::StepId;
use crate::middleware::{Around, Phase};
use crate::payload::Payload;
use crate::plan::{PlanState, Record, StepKind, StepState};

/// A step of the phase: which call of it, and its code.
struct Part {
    step: StepId,
    call: u32,
    code: Option<Result<Begun, ActionError>>,
    returned: Option<(Returned, u64)>,
}

/// The finalize phase has ended, or as much of it as was reached.
pub(super) struct Finalized(Vec<Part>);

impl Decisions<'_> {
    /// Starts all finalize steps that are not done.
    pub(super) fn finalize_together(&mut self) {
        let open = |step: &StepId| self.plan.step(*step).state == StepState::Pending;
        let steps: Vec<StepId> = self.plan.finalize.iter().copied().filter(open).collect();
        for step in steps {
            self.migrate(step);
            let (at, cause) = (self.now, Cause::Turn);
            self.record(Record::Started { step, at, limit: None, cause, silence: None });
        }
        self.effects.push(Effect::Finalize);
    }

    /// The pause after a failure is over. A failed transaction is repeated in full.
    pub(super) fn call_again(&mut self, id: StepId) {
        let is_together = self.registry.transaction().is_some();
        if is_together && self.plan.step(id).kind == StepKind::Finalize {
            return self.mark(vec![id], StepState::Pending, "the finalize phase is repeated");
        }
        self.call(id, self.plan.cause_again(id));
    }

    /// After a start: the phase is called again as a whole.
    pub(super) fn finalize_again(&mut self) {
        let mut steps = self.plan.in_state(StepState::Retrying);
        let now = self.now;
        let is_due = |step: &crate::plan::Step| step.retry_at.is_none_or(|at| at <= now);
        steps.retain(|step| {
            let step = self.plan.step(*step);
            step.kind == StepKind::Finalize && is_due(step)
        });
        self.mark(steps, StepState::Pending, "the finalize phase is repeated");
    }
}

impl PlanActor {
    /// Calls the steps of the finalize phase that were started.
    pub(super) fn finalize(&mut self, cx: &mut Context<'_, Self>) {
        let Some(transaction) = self.world.registry().transaction() else { return };
        let Some(plan) = &self.plan else { return };
        let mut parts = Vec::new();
        let mut flags = Vec::new();
        for id in plan.finalize.iter().copied() {
            let step = plan.step(id);
            if step.state != StepState::Running {
                continue;
            }
            let cancelled = CancelFlag::default();
            let code = Some(self.begin(plan, id, cancelled.clone()));
            parts.push(Part { step: id, call: step.calls, code, returned: None });
            flags.push((id, (step.calls, cancelled)));
        }
        let first = parts.first().map(|part| plan.action(plan.step(part.step).action).name.clone());
        let first = first.unwrap_or_default();
        let chain: Vec<_> =
            self.world.registry().chains().of(&first).map_or(Vec::new(), |chain| chain.to_vec());
        let (id, mut given) = (plan.id, plan.created.input.clone());
        self.running.extend(flags);
        let group = cx.group();
        let work = move || {
            let mut work = || {
                for part in &mut parts {
                    let begun_ns = group.now_ns();
                    let returned = part.run();
                    let failed = returned.result.as_ref().err().cloned();
                    part.returned = Some((returned, (group.now_ns() - begun_ns) / 1_000));
                    if let Some(error) = failed {
                        return Err(error);
                    }
                }
                Ok(())
            };
            let phase = || {
                let mut is_passed = false;
                let mut inner = |_given: &Payload| {
                    is_passed = true;
                    transaction.transaction(&mut work)
                };
                Around::new(&chain, Phase::FinalizeAll, id, &first, &mut given, &mut inner)
                    .pass()?;
                is_passed.then_some(()).ok_or_else(|| {
                    let message = "a middleware around the finalize phase did not pass";
                    ActionError::new("not_passed", message).and_final()
                })
            };
            let outcome = catch_unwind(AssertUnwindSafe(phase));
            let outcome = outcome
                .unwrap_or_else(|panic| Err(ActionError::new("panic", panic_message(panic))));
            if let Err(error) = outcome {
                fail(&mut parts, error);
            }
            parts
        };
        cx.pipe(on_pool(cx.group(), work), |parts| Finalized(parts.unwrap_or_default()));
    }
}

impl Part {
    fn has_failed(&self) -> bool {
        self.returned.as_ref().is_some_and(|(returned, _)| returned.result.is_err())
    }

    fn run(&mut self) -> Returned {
        match self.code.take() {
            Some(Ok(Begun::Blocking(code))) => {
                let returned = catch_unwind(AssertUnwindSafe(code));
                returned.unwrap_or_else(|panic| {
                    Returned::failed(ActionError::new("panic", panic_message(panic)))
                })
            }
            Some(Ok(Begun::Async(future))) => {
                // The transaction is of this thread.
                let returned = catch_unwind(AssertUnwindSafe(|| block_on(future)));
                let waited = returned.map_err(panic_message).and_then(|waited| {
                    waited.map_err(|refused| crate::error::unanswered(&refused))
                });
                waited
                    .unwrap_or_else(|message| Returned::failed(ActionError::new("panic", message)))
            }
            Some(Err(error)) => Returned::not_called(error),
            None => {
                let message = "the transaction adapter called its work twice";
                Returned::failed(ActionError::new("transaction", message).and_final())
            }
        }
    }
}

/// The transaction did not take place: a step has failed by that, if none has by itself.
fn fail(parts: &mut [Part], error: ActionError) {
    if parts.iter().any(Part::has_failed) {
        return;
    }
    let last = parts.iter().rposition(|part| part.returned.is_some()).unwrap_or(0);
    if let Some(part) = parts.get_mut(last) {
        let ran_us = part.returned.as_ref().map_or(0, |(_, ran_us)| *ran_us);
        part.returned = Some((Returned::failed(error), ran_us));
    }
}

impl Handler<Finalized> for PlanActor {
    type Reply = ();

    fn handle(&mut self, Finalized(parts): Finalized, cx: &mut Context<'_, Self>) {
        for part in &parts {
            if self.running.get(&part.step).is_some_and(|(call, _)| *call == part.call) {
                self.running.remove(&part.step);
            }
        }
        let is_there = |part: &Part| {
            let plan = self.plan.as_ref().filter(|plan| plan.state != PlanState::Stopped);
            let step = plan.and_then(|plan| plan.find_step(part.step));
            step.is_some_and(|step| step.calls == part.call && step.state == StepState::Running)
        };
        let parts: Vec<Part> = parts.into_iter().filter(is_there).collect();
        let has_failed = parts.iter().any(Part::has_failed);
        // One failure takes back what the others have done: they are called again, all of them.
        let (over, again): (Vec<Part>, Vec<Part>) =
            parts.into_iter().partition(|part| part.has_failed() || !has_failed);
        if let Some(mut decisions) = self.decisions() {
            let again = again.iter().map(|part| part.step).collect();
            decisions.mark(again, StepState::Pending, "the finalize phase was rolled back");
            for part in over {
                if let Some((returned, ran_us)) = part.returned {
                    decisions.returned(part.step, part.call, returned, ran_us);
                }
            }
        }
        self.settle(cx);
    }
}

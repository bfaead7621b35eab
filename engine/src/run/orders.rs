//! Orders of operators for plans: pause, resume, skip, retry, edit, cancel, halt, revert.

use serde::{Deserialize, Serialize};

use super::decide::{Decisions, Effect};
use super::plans::as_principal;
use super::refusal::Refusal;
use crate::action::{AnyAction, Cause, Rescue};
use crate::id::{ActionId, StepId};
use crate::payload::Payload;
use crate::plan::{PlanState, Record, StepKind, StepState};
use crate::time::Time;

/// An order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum OrderKind {
    // Variants are added at the end: worlds of several versions send them to one another.
    /// Go on with a paused plan.
    Resume,
    /// Leave a failed step out when the plan goes on.
    Skip(StepId),
    /// Leave all failed steps out, and go on.
    SkipFailed,
    /// Put all failed steps back to their begin, and go on.
    RetryFailed,
    /// Put a step, and all that come after it, back to its begin.
    Restart(StepId),
    /// Change the input of an action.
    EditInput(ActionId, Payload),
    /// End the plan, as its actions want to be ended; with force, without waiting.
    Cancel { is_forced: bool },
    /// Stop the plan where it is.
    Halt,
    /// End a paused plan as failed.
    Fail,
    /// Take back what was done.
    Revert,
    /// Change its labels.
    Label { set: Vec<(String, String)>, removed: Vec<String> },
    /// Plan a delayed plan at another time, or allow it at last.
    Delay { start_at: Option<Time>, start_before: Option<Time>, is_frozen: bool },
    /// Move a timer of a step, or cancel it.
    Timer { step: StepId, name: String, due: Option<Time> },
    /// Complete a promise.
    Complete { name: String, key: String, value: Payload },
    /// Take no new step until it is resumed.
    Pause,
    /// An order of another node, which may ask again: it is carried out once.
    Once { id: String, order: Box<OrderKind> },
}

impl OrderKind {
    /// The order itself, with its id if it may come again.
    pub(crate) fn parts(self) -> (Option<String>, Self) {
        match self {
            Self::Once { id, order } => (Some(id), *order),
            order => (None, order),
        }
    }
}

impl Decisions<'_> {
    /// Does it, or says why not; nothing if it was done under this id.
    pub(crate) fn order_once(
        &mut self,
        id: Option<String>,
        kind: OrderKind,
        by: &str,
    ) -> Result<(), Refusal> {
        if id.as_ref().is_some_and(|id| self.plan.ordered.contains(id)) {
            return Ok(());
        }
        self.order(kind, by)?;
        id.into_iter().for_each(|id| self.record(Record::Ordered(id)));
        Ok(())
    }

    /// Does it, or says why not.
    fn order(&mut self, kind: OrderKind, by: &str) -> Result<(), Refusal> {
        let done = match kind {
            OrderKind::Once { id, order } => return self.order_once(Some(id), *order, by),
            OrderKind::EditInput(action, input) => return self.edit_input(action, input, by),
            OrderKind::Pause => self.pause(by),
            OrderKind::Resume => self.resume(by),
            OrderKind::Skip(step) => self.skip(step, by),
            OrderKind::SkipFailed => self.skip_failed(by),
            OrderKind::RetryFailed => self.retry_failed(by),
            OrderKind::Restart(step) => self.restart(step, by),
            OrderKind::Cancel { is_forced } => self.cancel(is_forced, by),
            OrderKind::Halt => self.halt(by),
            OrderKind::Fail => self.fail(by),
            OrderKind::Revert => self.revert(by),
            OrderKind::Label { set, removed } => self.label(set, removed, by),
            OrderKind::Delay { start_at, start_before, is_frozen } => {
                self.delay_anew(start_at, start_before, is_frozen, by)
            }
            OrderKind::Complete { name, key, value } => self.complete(name, key, value, by),
            OrderKind::Timer { step, name, due } => self.change_timer(step, name, due, by),
        };
        Ok(done?)
    }

    pub(super) fn paused(&self, what: &str) -> Result<(), String> {
        if self.plan.state == PlanState::Paused {
            return Ok(());
        }
        Err(format!("only a paused plan can {what}"))
    }

    fn known_step(&self, step: StepId) -> Result<(), String> {
        self.plan.find_step(step).map(|_| ()).ok_or_else(|| format!("it has no step {step}"))
    }

    /// Takes no new step. Code that runs is not interrupted, and its result counts; events and due
    /// timers wait. The locks of the plan are given back when no code of it runs.
    fn pause(&mut self, by: &str) -> Result<(), String> {
        let problem = match self.plan.state {
            PlanState::Running if self.plan.cancel.is_some() => "it is being cancelled",
            PlanState::Running if self.plan.continues.is_some() => "its next run begins: ask again",
            PlanState::Running => {
                self.become_state(PlanState::Paused, &format!("paused by {by}"));
                return Ok(());
            }
            PlanState::Paused => "it is paused already",
            PlanState::Stopped => "it is over",
            PlanState::Scheduled => "it has not begun: freeze it",
            _ => "it has not begun",
        };
        Err(problem.to_owned())
    }

    /// Goes on: failed steps are tried again.
    pub(super) fn resume(&mut self, by: &str) -> Result<(), String> {
        self.paused("be resumed")?;
        if self.plan.steps.is_empty() {
            self.resume_scheduled(by);
            return Ok(());
        }
        self.may_go_on()?;
        let begun: Vec<StepId> = self.plan.failed_steps().map(|step| step.id).collect();
        self.drop_parts_of(&begun);
        let failed: Vec<(StepId, StepKind)> =
            self.plan.failed_steps().map(|step| (step.id, step.kind)).collect();
        self.become_state(PlanState::Running, &format!("resumed by {by}"));
        self.look_after_plans();
        if self.plan.is_reverting {
            for step in self.plan.in_state(StepState::RevertFailed) {
                self.revert_step(step);
            }
            self.advance();
            return Ok(());
        }
        if failed.iter().any(|(_, kind)| *kind == StepKind::Finalize) {
            let again = |step: &StepId| self.plan.step(*step).state != StepState::Skipped;
            let steps = self.plan.finalize.iter().copied().filter(again).collect();
            self.mark(steps, StepState::Pending, "the finalize phase is repeated");
        }
        for (step, kind) in failed {
            if kind == StepKind::Run {
                self.call(step, self.plan.first_cause(step));
            }
        }
        // Steps that waited for a place when the plan was paused ask again.
        self.effects.extend(self.plan.queued().iter().copied().map(Effect::Call));
        // Steps that wait for their parts: a result may have come meanwhile.
        for step in self.plan.in_state(StepState::Suspended) {
            self.take_event(step);
        }
        self.advance();
        Ok(())
    }

    pub(super) fn skip(&mut self, step: StepId, by: &str) -> Result<(), String> {
        self.paused("have a step skipped")?;
        self.known_step(step)?;
        let state = self.plan.step(step).state;
        if state == StepState::RevertFailed {
            let why = format!("its compensation is left out by {by}");
            self.mark(vec![step], StepState::Kept, &why);
            return Ok(());
        }
        if self.plan.is_reverting {
            return Err("it is being taken back: only a compensation can be skipped".to_owned());
        }
        if state != StepState::Error {
            return Err(format!(
                "only a failed step can be skipped, and step {step} is {}",
                state.name()
            ));
        }
        self.skip_step(step, by);
        Ok(())
    }

    fn restart(&mut self, from: StepId, by: &str) -> Result<(), String> {
        self.paused("begin again from a step")?;
        self.known_step(from)?;
        if self.plan.is_reverting {
            return Err("it is being taken back: resume it".to_owned());
        }
        if self.plan.step(from).kind == StepKind::Plan {
            return Err(format!(
                "step {from} is a planning, which is done once: name a run or finalize step"
            ));
        }
        let steps = self.plan.after(from);
        let begun = |step: &StepId| self.plan.step(*step).state != StepState::Pending;
        let steps: Vec<StepId> = steps.into_iter().filter(begun).collect();
        if steps.is_empty() {
            return Err(format!("step {from} has not begun"));
        }
        if let Some(step) = steps.iter().find(|step| self.plan.runs(**step)) {
            return Err(format!("the code of step {step} still runs: wait until it has ended"));
        }
        let why = format!("from step {from}, by {by}");
        self.record(Record::Reset { at: self.now, steps: steps.clone(), why });
        self.drop_parts_of(&steps);
        Ok(())
    }

    pub(super) fn cancel(&mut self, is_forced: bool, by: &str) -> Result<(), String> {
        if self.plan.state == PlanState::Stopped {
            return Err("it is over".to_owned());
        }
        let caller = self.plan.created.caller.map(|(caller, _)| as_principal(caller));
        let known = self.plan.cancel.as_ref().filter(|it| caller.is_some_and(|by| it.by == by));
        if known.is_some_and(|known| known.by == by && known.is_forced >= is_forced) {
            // The plan that has asked for this one says it again until this one is over.
            return Ok(());
        }
        let by = by.to_owned();
        self.record(Record::CancelRequested { at: self.now, by, is_forced });
        if is_forced {
            self.tell_unwanted_plans(self.plan.children.unwanted().iter().copied().collect());
        }
        self.plan.children.ask_to_end_again();
        // Of a plan that was paused by an order, steps are told to end as those of a running plan.
        let is_live = !self.plan.is_settled() && !self.plan.has_failed();
        let is_paused = self.plan.state == PlanState::Paused;
        if is_paused && (is_live || self.plan.is_busy()) && self.may_go_on().is_ok() {
            self.become_state(PlanState::Running, "resumed to be cancelled");
        }
        if self.plan.state == PlanState::Running {
            self.end_queued(is_forced);
            for step in self.plan.in_state(StepState::Suspended) {
                self.tell_to_end(step, is_forced);
            }
            self.advance();
        } else {
            self.end_cancelled();
        }
        Ok(())
    }

    pub(super) fn tell_to_end(&mut self, step: StepId, is_forced: bool) {
        if self.cancel_plans_of(step) {
            // The answer comes when they are over.
            return;
        }
        if self.action_of(step).is_some_and(AnyAction::is_cancellable) {
            self.call(step, Cause::Cancel { is_forced });
        } else {
            self.mark(vec![step], StepState::Cancelled, "the plan is being cancelled");
        }
    }

    /// A plan that is being cancelled: ends waiting steps, and waits for running ones unless
    /// forced.
    pub(super) fn go_on_cancelling(&mut self) {
        let is_forced = self.plan.cancel.as_ref().is_some_and(|cancel| cancel.is_forced);
        for step in self.plan.in_state(StepState::Suspended) {
            // A step that waits for an event in its clean-up is waited for, unless forced.
            if !self.plan.step(step).is_ending {
                self.tell_to_end(step, is_forced);
            }
        }
        for step in self.plan.in_state(StepState::Retrying) {
            // Its code was called before, and may have begun something.
            let is_run = self.plan.step(step).kind == StepKind::Run;
            if is_run && self.action_of(step).is_some_and(AnyAction::is_cancellable) {
                self.call(step, Cause::Cancel { is_forced });
            }
        }
        let mut ended = self.plan.in_state(StepState::Retrying);
        ended.extend(self.plan.in_state(StepState::RevertRetrying));
        if is_forced {
            // A forced step is waited for: only a halt ends that.
            let forced = Cause::Cancel { is_forced: true };
            let is_asked = |step: &StepId| self.plan.step(*step).cause != forced;
            ended.extend(self.plan.in_state(StepState::Running).into_iter().filter(is_asked));
        }
        self.mark(ended, StepState::Cancelled, "the plan is being cancelled");
        if !self.plan.is_settled() {
            return;
        }
        if self.plan.failed_steps().any(|step| step.is_ending) {
            return self.become_state(PlanState::Paused, "a step could not be cancelled");
        }
        self.end_cancelled();
    }

    fn end_cancelled(&mut self) {
        let steps = [StepState::Pending, StepState::Suspended, StepState::Skipping];
        let mut open: Vec<StepId> =
            steps.into_iter().flat_map(|state| self.plan.in_state(state)).collect();
        if open.is_empty() && self.plan.in_state(StepState::Cancelled).is_empty() {
            open = self.plan.in_state(StepState::Error);
        }
        self.mark(open, StepState::Cancelled, "the plan was cancelled");
        self.become_state(PlanState::Stopped, "cancelled");
    }

    fn halt(&mut self, by: &str) -> Result<(), String> {
        if self.plan.state == PlanState::Stopped {
            return Err("it is over".to_owned());
        }
        self.become_state(PlanState::Stopped, &format!("halted by {by}"));
        Ok(())
    }

    /// Ends a paused plan as failed.
    fn fail(&mut self, by: &str) -> Result<(), String> {
        self.paused("be failed")?;
        let mut failed = self.plan.in_state(StepState::Error);
        failed.extend(self.plan.in_state(StepState::RevertFailed));
        if failed.is_empty() {
            return Err("no step of it has failed: cancel or resume it".to_owned());
        }
        self.record(Record::Rescued {
            at: self.now,
            how: Rescue::Fail,
            steps: failed,
            by: by.to_owned(),
        });
        self.become_state(PlanState::Stopped, &format!("failed by {by}"));
        Ok(())
    }

    fn revert(&mut self, by: &str) -> Result<(), String> {
        self.paused("be taken back")?;
        if self.plan.is_reverting {
            return Err("it is being taken back already: resume it".to_owned());
        }
        self.may_go_on()?;
        let failed = self.plan.in_state(StepState::Error);
        self.record_rescue(Rescue::Revert, failed, by);
        self.become_state(PlanState::Running, &format!("taken back by {by}"));
        self.advance();
        Ok(())
    }
}

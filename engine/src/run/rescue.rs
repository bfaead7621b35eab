//! Treatment of failed steps: by policy when no step is active, and backwards if the policy is to
//! revert the work.

use super::decide::{Decisions, Effect};
use crate::action::{AnyAction, Cause, Rescue};
use crate::id::{ActionId, StepId};
use crate::plan::{PlanState, Record, StepKind, StepState};

impl Decisions<'_> {
    /// Nothing is under way and steps have failed: deals with them as the actions suggest. A step is
    /// dealt with once; if it fails again, the plan is paused.
    pub(super) fn rescue(&mut self) {
        let failed: Vec<StepId> =
            self.plan.failed_steps().filter(|step| !step.is_rescued).map(|step| step.id).collect();
        let how = if failed.is_empty() || !self.is_rescuing || self.wants_pause() {
            Rescue::Pause
        } else {
            self.suggestion()
        };
        match how {
            Rescue::Pause => self.become_state(PlanState::Paused, &self.why_paused()),
            Rescue::Fail => {
                self.record_rescue(how, failed, "policy");
                self.become_state(PlanState::Stopped, "a step has failed");
            }
            Rescue::Revert => self.record_rescue(how, failed, "policy"),
            Rescue::Skip => {
                self.record_rescue(how, failed.clone(), "policy");
                for step in failed {
                    self.skip_step(step, "policy");
                }
            }
        }
    }

    pub(super) fn record_rescue(&mut self, how: Rescue, steps: Vec<StepId>, by: &str) {
        self.record(Record::Rescued { at: self.now, how, steps, by: by.to_owned() });
        if how == Rescue::Revert {
            self.give_up_waiting();
        }
    }

    /// Combined suggestion of the actions, as seen from the root.
    pub(crate) fn suggestion(&self) -> Rescue {
        let count = self.plan.actions.len();
        let mut suggestions: Vec<Vec<Rescue>> = vec![Vec::new(); count];
        for step in self.plan.failed_steps() {
            let action = self.action_of(step.id);
            let error = step.error.as_ref();
            let own =
                action.zip(error).map_or(Rescue::Pause, |(action, error)| action.rescue(error));
            suggestions[step.action.index()].push(own);
        }
        // Children come after their parents: backwards, each has heard all of its own.
        for index in (0..count).rev() {
            let Some(combined) = Rescue::combine(suggestions[index].drain(..)) else { continue };
            let child = &self.plan.actions[index];
            let Some(parent) = child.parent else { return combined };
            let name = &self.plan.action(parent).name;
            let heard = self.registry.find(name);
            let heard =
                heard.map_or(combined, |parent| parent.rescue_of_planned(&child.name, combined));
            suggestions[parent.index()].push(heard);
        }
        Rescue::Skip
    }

    /// Leaves a failed step out, with all steps that need its output.
    pub(super) fn skip_step(&mut self, id: StepId, by: &str) {
        let step = self.plan.step(id);
        if step.kind == StepKind::Finalize {
            return self.mark(vec![id], StepState::Skipped, &format!("by {by}"));
        }
        self.mark(vec![id], StepState::Skipping, &format!("by {by}"));
        let others = self.dependents(id);
        let why = format!("it needs the output of step {id}, which is left out");
        self.mark(others, StepState::Skipped, &why);
    }

    /// The steps that have not begun and need the output of this one, directly or not, and the finalize
    /// steps of their actions and its own.
    fn dependents(&self, id: StepId) -> Vec<StepId> {
        let own = self.plan.step(id).action;
        let mut out_steps = vec![id];
        let mut out_actions: Vec<ActionId> = vec![own];
        // Inputs name outputs of earlier steps only: one pass in the order of planning finds all.
        for action in &self.plan.actions {
            if action.id != own && action.needs.iter().any(|need| out_steps.contains(need)) {
                out_actions.push(action.id);
                out_steps.extend(action.run_step);
            }
        }
        let is_pending = |step: &StepId| self.plan.step(*step).state == StepState::Pending;
        let steps = out_actions.iter().map(|action| self.plan.action(*action));
        steps
            .flat_map(|action| [action.run_step, action.finalize_step])
            .flatten()
            .filter(is_pending)
            .collect()
    }

    /// Ends steps that are to be left out; whether there were any.
    pub(super) fn go_on_skipping(&mut self) -> bool {
        let skipping = self.plan.in_state(StepState::Skipping);
        for step in &skipping {
            if self.action_of(*step).is_some_and(AnyAction::cleans_up_when_skipped) {
                self.call(*step, Cause::Skip);
            } else {
                self.mark(vec![*step], StepState::Skipped, "left out");
                self.part_ended(*step);
            }
        }
        !skipping.is_empty()
    }

    /// Takes back the next step, the last one first.
    pub(super) fn go_on_reverting(&mut self) {
        if !self.plan.is_settled() {
            return;
        }
        if let Some(step) = self.plan.in_state(StepState::RevertFailed).first().copied() {
            let error = self.plan.step(step).revert_error.as_ref();
            let error = error.map_or_else(String::new, ToString::to_string);
            let why = format!("the compensation of step {step} has failed: {error}");
            return self.become_state(PlanState::Paused, &why);
        }
        let wanted = |id: StepId| {
            let step = self.plan.step(id);
            let action = self.action_of(id).filter(|_| step.kind == StepKind::Run);
            action.is_some_and(|action| {
                let is_failed = step.error.as_ref().filter(|_| step.state == StepState::Error);
                action.reverts() && is_failed.is_none_or(|error| action.reverts_failed(error))
            })
        };
        match self.plan.to_revert(wanted) {
            Some(step) => self.revert_step(step),
            None => self.become_state(PlanState::Stopped, "what was done was taken back"),
        }
    }

    /// Calls the compensation of a step.
    pub(super) fn revert_step(&mut self, step: StepId) {
        self.migrate(step);
        self.record(Record::Reverting { step, at: self.now });
        self.effects.push(Effect::Call(step));
    }
}

//! Plans that wait for plans: sub-plans of steps, and plans that a plan comes after.
//!
//! Only the waiting plan remembers it: the ids of the other plans, given beforehand, and the
//! results of those that are over. After a crash it asks for all others again; a plan that exists
//! is not created twice, and a plan that is over answers again.

use super::continued::missing_action;
use super::decide::{Decisions, Effect};
use crate::action::{AnyAction, Cause, Triggered};
use crate::error::ActionError;
use crate::id::{PlanId, StepId};
use crate::plan::{PlanResult, PlanState, Record, StepState};
use crate::time::Time;

/// Name of a plan as the one who gives an order.
pub(super) fn as_principal(plan: PlanId) -> String {
    format!("plan {plan}")
}

impl Decisions<'_> {
    /// A step that is suspended now has asked for plans.
    pub(super) fn ask_for_plans(
        &mut self,
        step: StepId,
        mut asked: Triggered,
        at_once: Option<u32>,
    ) {
        // While the plan is being cancelled only one that was told to end may ask, to clean up.
        let is_late = self.plan.cancel.is_some() && !self.plan.step(step).is_ending;
        if asked.is_empty() || is_late {
            return;
        }
        if let Some(plans) = asked.take_named() {
            self.record(Record::SubPlansNamed { step, plans });
        }
        let plans = asked.into_rest();
        self.record(Record::SubPlans { at: self.now, step, plans, at_once });
        if self.plan.state == PlanState::Running {
            self.begin_more();
        }
    }

    /// Begins the plans that may begin now and might not before.
    pub(super) fn begin_more(&mut self) {
        let fresh = self.plan.children.take_fresh();
        self.effects.extend(fresh.into_iter().map(Effect::Begin));
        let hungry = self.plan.children.take_hungry();
        self.effects.extend(hungry.into_iter().map(Effect::ReadPage));
    }

    /// A plan that this one waits for is over.
    pub(crate) fn plan_ended(&mut self, plan: PlanId, result: PlanResult) {
        match self.plan.state {
            PlanState::Scheduled if self.plan.open_prerequisites().contains(&plan) => {
                self.record(Record::PlanEnded { at: self.now, plan, result });
                self.wake_scheduled();
            }
            _ if self.plan.children.unwanted().contains(&plan) => {
                self.record(Record::PlanEnded { at: self.now, plan, result });
            }
            // A paused plan takes it now, and does not wait for it after its resume.
            PlanState::Running | PlanState::Paused => {
                let child = self.plan.children.find(plan).filter(|child| child.result.is_none());
                let Some(step) = child.map(|child| child.step) else { return };
                self.record(Record::PlanEnded { at: self.now, plan, result });
                if self.plan.state == PlanState::Running {
                    self.begin_more();
                    self.plans_are_over(step);
                    self.advance();
                }
            }
            _ => {}
        }
    }

    /// A step waits for its plans and has none: they are over.
    pub(super) fn waits_for_no_plans(&mut self, step: StepId) {
        let is_suspended = self.plan.step(step).state == StepState::Suspended;
        if is_suspended && self.plan.cancel.is_none() {
            self.call(step, Cause::SubPlans);
        }
    }

    /// Calls a step whose plans are all over, if it waits and does not know it.
    pub(super) fn plans_are_over(&mut self, step: StepId) {
        let is_suspended = self.plan.step(step).state == StepState::Suspended;
        let is_running = self.plan.state == PlanState::Running;
        if !is_running || !is_suspended || !self.plan.children.are_untold(step) {
            return;
        }
        match self.plan.cancel.as_ref().map(|cancel| cancel.is_forced) {
            None => self.call(step, Cause::SubPlans),
            Some(is_forced) if self.action_of(step).is_some_and(AnyAction::is_cancellable) => {
                self.call(step, Cause::Cancel { is_forced });
            }
            Some(_) => self.mark(vec![step], StepState::Cancelled, "the plan is being cancelled"),
        }
    }

    /// Ends the plans that a step has asked for; whether it has to wait for that.
    pub(super) fn cancel_plans_of(&mut self, step: StepId) -> bool {
        let is_forced = self.plan.cancel.as_ref().is_some_and(|cancel| cancel.is_forced);
        if self.plan.children.are_open(step) && self.plan.children.ask_to_end(step, is_forced) {
            let begun = self.plan.children.begun_of(step);
            self.effects.extend(begun.into_iter().map(Effect::CancelPlan));
        }
        if self.plan.children.are_waiting(step) {
            let why = "the plan is being cancelled".to_owned();
            self.record(Record::SubPlansDropped { at: self.now, step, page: None, why });
        }
        self.plan.children.are_open(step)
    }

    /// Tells plans that nobody waits for any more to end, until they are over: they say so
    /// themselves, or do not exist.
    pub(super) fn tell_unwanted_plans(&mut self, plans: Vec<PlanId>) {
        for plan in plans {
            self.effects.extend([Effect::CancelPlan(plan), Effect::Follow(plan)]);
        }
    }

    /// The plan was read from the store: the plans that it waits for may have ended unnoticed, or
    /// never begun, and those that are to end may not know it.
    pub(super) fn look_after_plans(&mut self) {
        self.tell_unwanted_plans(self.plan.children.unwanted().iter().copied().collect());
        match self.plan.state {
            PlanState::Running => {
                self.plan.children.take_fresh();
                let begun = self.plan.children.begun();
                self.effects.extend(begun.into_iter().map(Effect::Begin));
                self.plan.children.ask_for_pages_again();
                self.begin_more();
                self.plan.children.ask_to_end_again();
                for step in self.plan.in_state(StepState::Suspended) {
                    if self.plan.cancel.is_some() && !self.plan.step(step).is_ending {
                        self.cancel_plans_of(step);
                    }
                    self.plans_are_over(step);
                }
            }
            PlanState::Scheduled => self.follow(),
            _ => {}
        }
    }

    /// Asks the plans that must be over before this one to tell.
    pub(crate) fn follow(&mut self) {
        let open = self.plan.open_prerequisites();
        self.effects.extend(open.into_iter().map(Effect::Follow));
    }

    /// A delayed plan looks whether its time has come.
    pub(super) fn wake_scheduled(&mut self) {
        let Some(delayed) = self.plan.delayed.clone().filter(|delayed| !delayed.is_frozen) else {
            return;
        };
        if delayed.start_before.is_some_and(|limit| limit < self.now) {
            let message = "it was not started before its time was over";
            return self.not_planned(ActionError::new("too_late", message).and_final());
        }
        // A reverted plan has not done the work that others need.
        let wanted = |result: &PlanResult| {
            matches!(result, PlanResult::Error | PlanResult::Cancelled | PlanResult::Reverted)
        };
        let failed = delayed.after.iter().find(|(_, result)| result.as_ref().is_some_and(wanted));
        if let Some((plan, result)) = failed {
            let how = match result {
                Some(PlanResult::Cancelled) => "was cancelled, or is not in the store any more",
                Some(PlanResult::Reverted) => "was taken back",
                _ => "has failed",
            };
            let message = format!("plan {plan}, which had to be over before, {how}");
            return self.not_planned(ActionError::new("failed_dependency", message).and_final());
        }
        let is_free = delayed.after.values().all(Option::is_some);
        if is_free && delayed.start_at.is_none_or(|start_at| start_at <= self.now) {
            self.effects.push(Effect::PlanNow);
        }
    }

    /// The planning of a delayed plan has ended.
    pub(crate) fn planned_now(&mut self, next: Record) {
        if self.plan.state != PlanState::Scheduled {
            return;
        }
        if let Some(missing) = missing_action(&next) {
            return self.become_state(PlanState::Paused, &missing);
        }
        self.record(next);
        self.begun();
    }

    /// A plan that was paused because it could not be planned is planned now.
    pub(super) fn resume_scheduled(&mut self, by: &str) {
        self.become_state(PlanState::Scheduled, &format!("resumed by {by}"));
        self.follow();
        self.wake_scheduled();
    }

    pub(super) fn not_planned(&mut self, error: ActionError) {
        self.record(Record::NotPlanned { at: self.now, error });
        self.effects.extend([Effect::TellEnd, Effect::TraceEnd]);
    }

    /// Somebody gives a delayed plan another time.
    pub(super) fn delay_anew(
        &mut self,
        start_at: Option<Time>,
        start_before: Option<Time>,
        is_frozen: bool,
        by: &str,
    ) -> Result<(), String> {
        if self.plan.state != PlanState::Scheduled {
            return Err(
                "only a plan that was delayed and is not planned can be delayed anew".into()
            );
        }
        let (at, by) = (self.now, by.to_owned());
        let after = Vec::new();
        self.record(Record::Delayed { at, start_at, start_before, after, is_frozen, by });
        self.wake_scheduled();
        Ok(())
    }
}

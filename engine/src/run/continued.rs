//! Plans that begin anew when all their steps are done.

use turnwheel_actors::Context;

use super::decide::Decisions;
use super::PlanActor;
use crate::error::{ActionError, UNKNOWN_ACTION};
use crate::payload::Payload;
use crate::plan::{End, PlanState, Record};

impl Decisions<'_> {
    /// The end of a call that wants the plan to continue as new, and the input of the next run.
    pub(super) fn continues(
        &self,
        end: End,
        wanted: Option<(&'static str, Payload)>,
    ) -> (End, Option<Payload>) {
        let Some((action, input)) = wanted.filter(|_| end == End::Success) else {
            return (end, None);
        };
        let root = &self.plan.created.action;
        if action != root {
            let message = format!(
                "a plan continues as new with its root action only: «{root}», not «{action}»"
            );
            return (End::Failed(ActionError::new("continue_as_new", message).and_final()), None);
        }
        (end, Some(input))
    }

    /// The next run is planned, or cannot be.
    pub(super) fn planned_again(&mut self, next: Record) {
        let is_expected = self.plan.state == PlanState::Running
            && self.plan.continues.is_some()
            && self.plan.cancel.is_none();
        if !is_expected {
            // Somebody has ended the plan, or has begun to.
            return self.advance();
        }
        if let Some(missing) = missing_action(&next) {
            return self.become_state(PlanState::Paused, &missing);
        }
        match next {
            Record::Planned(planned) => {
                let names = |locks: &[crate::action::PlanLock]| {
                    let mut names: Vec<_> = locks.iter().map(|lock| lock.name.clone()).collect();
                    names.sort_unstable();
                    names
                };
                if planned.error.is_none() && names(&planned.locks) != names(&self.plan.locks) {
                    let message = "the next run of the plan would need other locks than the first";
                    let error = ActionError::new("continue_as_new", message).and_final();
                    return self.ends_instead(error);
                }
                let run = self.plan.run_number + 1;
                self.record(Record::ContinuedAsNew { at: self.now, run, planned });
                self.begun();
            }
            Record::NotPlanned { error, .. } => self.ends_instead(error),
            _ => {}
        }
    }

    fn ends_instead(&mut self, error: ActionError) {
        self.not_planned(error);
    }
}

/// The action that this world lacks, if that is why a plan could not be planned: with it the plan
/// can go on.
pub(super) fn missing_action(next: &Record) -> Option<String> {
    let error = match next {
        Record::Planned(planned) => planned.error.as_ref(),
        Record::NotPlanned { error, .. } => Some(error),
        _ => None,
    };
    error.filter(|error| error.kind == UNKNOWN_ACTION).map(|error| error.message.clone())
}

impl PlanActor {
    /// Plans the next run.
    pub(super) fn plan_again(&mut self, cx: &mut Context<'_, Self>) {
        let Some(plan) = self.plan.as_ref().filter(|_| !self.is_planning) else { return };
        let Some(input) = plan.continues.clone() else { return };
        let action = plan.created.action.clone();
        self.plan_on_pool(action, input, None, None, cx);
    }
}

//! Orders for all failed steps of a paused plan at once.

use super::decide::Decisions;
use crate::id::StepId;
use crate::plan::{Plan, PlanState, Record, StepState};

impl Plan {
    /// The steps that somebody has to do something about; compensations while it is taken back.
    fn failures(&self) -> Vec<StepId> {
        self.in_state(if self.is_reverting { StepState::RevertFailed } else { StepState::Error })
    }

    /// Why its failed steps cannot be left out.
    pub(crate) fn refuses_skip(&self) -> Option<String> {
        if self.state != PlanState::Paused {
            return Some("only a paused plan can have its failed steps skipped".to_owned());
        }
        self.failures().is_empty().then(|| "none of its steps has failed: resume it".to_owned())
    }

    /// Why its failed steps cannot begin again.
    pub(crate) fn refuses_retry(&self) -> Option<String> {
        if self.state != PlanState::Paused {
            return Some("only a paused plan can have its failed steps begin again".to_owned());
        }
        if self.is_reverting {
            return Some("it is being taken back: resume it".to_owned());
        }
        self.failures().is_empty().then(|| "none of its steps has failed: resume it".to_owned())
    }
}

impl Decisions<'_> {
    /// Leaves all failed steps out and goes on.
    pub(super) fn skip_failed(&mut self, by: &str) -> Result<(), String> {
        if let Some(problem) = self.plan.refuses_skip() {
            return Err(problem);
        }
        self.may_go_on()?;
        for step in self.plan.failures() {
            self.skip(step, by)?;
        }
        self.resume(by)
    }

    /// Puts all failed steps back to their begin, with all that come after them, and goes on.
    pub(super) fn retry_failed(&mut self, by: &str) -> Result<(), String> {
        if let Some(problem) = self.plan.refuses_retry() {
            return Err(problem);
        }
        self.may_go_on()?;
        let mut steps: Vec<StepId> = Vec::new();
        for failed in self.plan.failures() {
            steps.extend(self.plan.after(failed));
        }
        steps.retain(|step| self.plan.step(*step).state != StepState::Pending);
        steps.sort_unstable_by_key(|step| step.0);
        steps.dedup();
        let why = format!("its failed steps are retried by {by}");
        self.record(Record::Reset { at: self.now, steps: steps.clone(), why });
        self.drop_parts_of(&steps);
        self.resume(by)
    }
}

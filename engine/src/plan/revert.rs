//! Effect of compensations on a plan, as part of [`Plan::apply`].
//!
//! | from | by | to |
//! | --- | --- | --- |
//! | success, error, revert_failed, revert_retrying | it is called | reverting |
//! | reverting | it succeeds | reverted |
//! | reverting | it fails, and is tried again | revert_retrying |
//! | reverting | it fails for good | revert_failed: the plan is paused |
//! | reverting | the world ends | revert_retrying |
//! | revert_failed | an operator skips it | kept |

use super::apply::Inconsistent;
use super::record::End;
use super::state::StepState;
use super::Plan;
use crate::id::StepId;
use crate::time::Time;

impl Plan {
    /// The compensation of a step is about to be called.
    pub(super) fn reverting(&mut self, id: StepId, at: Time) -> Result<(), Inconsistent> {
        let from = self.known(id)?.state;
        let is_first = matches!(from, StepState::Success | StepState::Error);
        if !is_first && !matches!(from, StepState::RevertFailed | StepState::RevertRetrying) {
            let problem = format!("step {id} is taken back while it is {}", from.name());
            return Err(self.wrong(&problem));
        }
        self.clear_alarm(id);
        let step = &mut self.steps[id.index()];
        if is_first {
            step.failures = 0;
        }
        (step.ended_at, step.retry_at) = (None, None);
        step.calls += 1;
        self.change(id, StepState::Reverting);
        self.note(at, format!("step {id} is taken back"));
        Ok(())
    }

    /// The compensation of a step has ended.
    pub(super) fn reverted(&mut self, id: StepId, at: Time, end: &End) {
        let step = &mut self.steps[id.index()];
        let state = match end {
            End::Failed(why) | End::NotCalled(why) => {
                step.failures += 1;
                step.revert_error = Some(why.clone());
                StepState::RevertFailed
            }
            End::Retry { error: why, at } => {
                step.failures += 1;
                step.revert_error = Some(why.clone());
                step.retry_at = Some(*at);
                StepState::RevertRetrying
            }
            End::Success | End::Suspended { .. } | End::Cancelled | End::Skipped => {
                step.revert_error = None;
                StepState::Reverted
            }
        };
        if state != StepState::RevertRetrying {
            step.ended_at = Some(at);
        }
        self.change(id, state);
        self.set_alarm(id);
    }

    /// The steps that have to be taken back, the one that ended last first.
    pub(crate) fn to_revert(&self, wanted: impl Fn(StepId) -> bool) -> Option<StepId> {
        let ended = self.steps.iter().filter(|step| {
            let has_failed = step.state == StepState::Error && step.was_called;
            has_failed || step.state == StepState::Success
        });
        let ended = ended.filter(|step| wanted(step.id));
        ended.max_by_key(|step| step.order).map(|step| step.id)
    }
}

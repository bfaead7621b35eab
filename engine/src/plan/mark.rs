//! Effect of records of people and policies on steps, as part of [`Plan::apply`].

use super::apply::Inconsistent;
use super::state::{StepKind, StepState};
use super::Plan;
use crate::action::Rescue;
use crate::id::StepId;
use crate::payload::Payload;
use crate::time::Time;

impl Plan {
    pub(super) fn marked(
        &mut self,
        steps: &[StepId],
        state: StepState,
        at: Time,
        why: &str,
    ) -> Result<(), Inconsistent> {
        for id in steps.iter().copied() {
            self.known(id)?;
            self.clear_alarm(id);
            let step = &mut self.steps[id.index()];
            step.retry_at = None;
            step.limit = None;
            step.ended_at = None;
            if !state.is_live() && state != StepState::Pending {
                step.ended_at = Some(at);
                self.leave_behind(id);
                self.drop_waits(id);
            }
            if state == StepState::Dropped {
                self.children.give_up(id);
            }
            self.change(id, state);
            self.tell_asker(id, at);
        }
        if state != StepState::Pending {
            let steps = &self.steps;
            self.ready.retain(|ready| steps[ready.index()].state == StepState::Pending);
        }
        self.note(at, format!("{} {}: {why}", list(steps), state.name()));
        Ok(())
    }

    pub(super) fn rescued(
        &mut self,
        at: Time,
        how: Rescue,
        steps: &[StepId],
        by: &str,
    ) -> Result<(), Inconsistent> {
        for step in steps {
            self.known(*step)?.is_rescued = true;
        }
        self.is_reverting |= how == Rescue::Revert;
        self.note(at, format!("{} after the failure of {} by {by}", how.name(), list(steps)));
        Ok(())
    }

    /// Puts steps back to where they were before they began.
    pub(super) fn reset(
        &mut self,
        at: Time,
        steps: &[StepId],
        why: &str,
    ) -> Result<(), Inconsistent> {
        for id in steps {
            if self.known(*id)?.state == StepState::Success {
                // Its work is done once more: by new plans.
                self.children.forget_asked(*id);
            }
            self.timeouts.remove(id);
            let step = self.known(*id)?;
            step.state = StepState::Pending;
            step.error = None;
            step.ended_at = None;
            step.retry_at = None;
            step.limit = None;
            step.is_rescued = false;
            step.failures = 0;
            step.revert_error = None;
            step.progress = None;
            step.in_event = false;
            step.is_queued = false;
            step.is_ending = false;
            step.is_skipping = false;
            // It waits for its events again: a repeated one is intended.
            step.seen.clear();
            let (kind, action) = (step.kind, step.action);
            self.leave_behind(*id);
            self.children.told(*id);
            self.drop_waits(*id);
            if kind == StepKind::Run {
                self.actions[action.index()].output = Payload::null();
            }
        }
        self.note(at, format!("{} to begin again: {why}", list(steps)));
        self.rebuild();
        Ok(())
    }
}

/// The first of these steps, for people.
fn list(steps: &[StepId]) -> String {
    let shown: Vec<String> = steps.iter().take(8).map(ToString::to_string).collect();
    let steps_are = if steps.len() == 1 { "step" } else { "steps" };
    let more = if steps.len() > shown.len() { " and more" } else { "" };
    format!("{steps_are} {}{more}", shown.join(", "))
}

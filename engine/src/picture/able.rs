//! Possible orders for a plan, and for a step, in the current state.

use serde::Serialize;

use crate::plan::{Plan, PlanState, Step, StepKind, StepState};

/// Something that people can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Can {
    /// [`PlanHandle::cancel`](crate::PlanHandle::cancel).
    Cancel,
    /// [`PlanHandle::cancel_now`](crate::PlanHandle::cancel_now): running code is not waited for.
    CancelNow,
    /// [`PlanHandle::halt`](crate::PlanHandle::halt).
    #[serde(rename = "terminate")]
    Halt,
    /// [`PlanHandle::pause`](crate::PlanHandle::pause).
    Pause,
    /// [`PlanHandle::resume`](crate::PlanHandle::resume).
    Resume,
    /// [`PlanHandle::revert`](crate::PlanHandle::revert).
    Revert,
    /// [`PlanHandle::freeze`](crate::PlanHandle::freeze).
    Freeze,
    /// [`PlanHandle::delay_until`](crate::PlanHandle::delay_until).
    DelayUntil,
    /// Of a step: [`PlanHandle::skip`](crate::PlanHandle::skip).
    Skip,
    /// Of a step: [`PlanHandle::restart_from`](crate::PlanHandle::restart_from), then resume.
    Retry,
    /// Of a step: [`World::event`](crate::World::event).
    SendEvent,
    /// Of a step's action: [`PlanHandle::edit_input`](crate::PlanHandle::edit_input).
    EditInput,
}

/// Possible orders, in a stable order.
pub type CanDo = Vec<Can>;

impl Plan {
    /// Possible orders for the plan in its current state. An order may still be refused: the state
    /// may have changed, or another plan may hold a lock that it needs.
    pub fn can(&self) -> CanDo {
        match self.state {
            PlanState::Stopped => Vec::new(),
            PlanState::Paused => {
                let mut can = vec![Can::Cancel, Can::Halt, Can::Resume];
                if !self.is_reverting {
                    can.push(Can::Revert);
                }
                can
            }
            PlanState::Scheduled => {
                let mut can = vec![Can::Cancel, Can::Halt];
                if !self.delayed.as_ref().is_some_and(|delayed| delayed.is_frozen) {
                    can.push(Can::Freeze);
                }
                can.push(Can::DelayUntil);
                can
            }
            state => match &self.cancel {
                None => {
                    let mut can = vec![Can::Cancel, Can::CancelNow, Can::Halt];
                    can.extend((state == PlanState::Running).then_some(Can::Pause));
                    can
                }
                Some(cancel) if !cancel.is_forced => vec![Can::CancelNow, Can::Halt],
                Some(_) => vec![Can::Halt],
            },
        }
    }

    /// Possible orders for one of its steps in its current state.
    pub fn can_with(&self, step: &Step) -> CanDo {
        let mut can = Vec::new();
        let is_paused = self.state == PlanState::Paused;
        let can_skip = match step.state {
            StepState::Error => !self.is_reverting,
            state => state == StepState::RevertFailed,
        };
        if is_paused && can_skip {
            can.push(Can::Skip);
        }
        let has_begun = !matches!(step.state, StepState::Pending | StepState::Scheduling);
        if is_paused && has_begun && step.kind == StepKind::Run && !self.is_reverting {
            can.push(Can::Retry);
        }
        let listens =
            matches!(step.state, StepState::Suspended | StepState::Running | StepState::Retrying);
        if listens && step.kind == StepKind::Run && self.state != PlanState::Stopped {
            can.push(Can::SendEvent);
        }
        if is_paused && step.kind == StepKind::Run {
            can.push(Can::EditInput);
        }
        can
    }
}

//! Ends of steps, for people.

use super::task;
use crate::error::ActionError;
use crate::plan::{ActionData, Step, StepState};

/// The state of a step of an action as people see it: a task of a flow that has a fault has
/// failed. Its step
/// has ended well all the same, because a fault is data that the flow can catch.
///
/// Cost: a look at the output of a flow's task that has ended.
pub fn state_of(action: &ActionData, step: &Step) -> StepState {
    match fault_of(action, step) {
        Some(_) => StepState::Error,
        None => step.state,
    }
}

/// Why a step of an action has failed, likewise.
pub fn error_of(action: &ActionData, step: &Step) -> Option<ActionError> {
    step.error.clone().or_else(|| fault_of(action, step))
}

fn fault_of(action: &ActionData, step: &Step) -> Option<ActionError> {
    let is_done = step.state == StepState::Success && action.run_step == Some(step.id);
    is_done.then(|| task::fault_of(action))?
}

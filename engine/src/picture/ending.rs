//! Ends of steps, for people.

use super::words::plain;
use super::{name_of, task};
use crate::error::ActionError;
use crate::plan::{ActionData, Plan, PlanResult, Step, StepState};

/// The most of a failure that is told in lists, in bytes.
const FAILURE_BYTES_MAX: usize = 300;

/// The state of a step of an action as people see it: a task of a flow that has a fault has
/// failed. Its step has ended well all the same, because a fault is data that the flow can catch; or
/// it was dropped, because it took too long.
///
/// Cost: a look at the output of a flow's task that has ended.
pub fn state_of(action: &ActionData, step: &Step) -> StepState {
    match fault_of(action, step) {
        Some(_) => StepState::Error,
        None if is_failed_part(action, step) => StepState::Error,
        None => step.state,
    }
}

/// Why a step of an action has failed, likewise.
pub fn error_of(action: &ActionData, step: &Step) -> Option<ActionError> {
    step.error.clone().or_else(|| fault_of(action, step))
}

/// Why a plan has failed, in one line: the task or action, and its error. The error of a task
/// stands for that of the tasks around it. Of a flow it is the fault that has ended it: one that a
/// task around has caught is no reason, nor is one that came before that task took too long.
/// Nothing for a plan that has not failed.
///
/// Cost: a look at the steps of a plan that has failed.
pub fn failure_of(plan: &Plan) -> Option<String> {
    if plan.result() != PlanResult::Error {
        return None;
    }
    if let Some(error) = &plan.planning_error {
        return Some(told(&format!("planning failed: {error}")));
    }
    let (action, error) = failed_action(plan)?;
    let place = name_of(action);
    let name = place.rsplit('/').next().unwrap_or(&place);
    Some(told(&format!("{name} failed: {error}")))
}

/// The kind of that error.
pub(crate) fn failure_kind_of(plan: &Plan) -> Option<String> {
    if plan.result() != PlanResult::Error {
        return None;
    }
    match &plan.planning_error {
        Some(error) => Some(error.kind.clone()),
        None => failed_action(plan).map(|(_, error)| error.kind),
    }
}

/// The action whose error is the reason for the failure of a plan, and that error.
fn failed_action(plan: &Plan) -> Option<(&ActionData, ActionError)> {
    let failed = plan.steps.iter().filter_map(|step| {
        let action = plan.action(step.action);
        let error = step.revert_error.clone().or_else(|| error_of(action, step))?;
        let is_failed =
            matches!(state_of(action, step), StepState::Error | StepState::RevertFailed);
        (is_failed && !is_caught(plan, action)).then_some((action, error))
    });
    let mut failed: Vec<_> = failed.collect();
    let fault = fault_of_flow(plan);
    if let Some(fault) = &fault {
        // A task may have failed before one around it took too long, or before its handler failed.
        let is_it = |error: ActionError| (error.kind, error.message) == *fault;
        failed.retain(|(_, error)| is_it(error.clone().within_limits()));
    }
    let is_around =
        |outer: &ActionData| failed.iter().any(|(action, _)| action.parent == Some(outer.id));
    let mut inner = failed.iter().filter(|(action, _)| !is_around(action));
    // Of the same fault raised more than once the last one has ended the flow.
    let reason = if fault.is_some() { inner.next_back() } else { inner.next() };
    reason.cloned()
}

/// The kind and message of the fault that a flow has ended with; nothing for another plan.
fn fault_of_flow(plan: &Plan) -> Option<(String, String)> {
    let root = plan.actions.first().filter(|root| root.name == task::FLOW)?;
    let error = plan.step(root.run_step?).error.clone()?.within_limits();
    Some((error.kind, error.message))
}

/// Whether a task of a flow around this one has ended well: it has caught the fault.
fn is_caught(plan: &Plan, action: &ActionData) -> bool {
    let parent = |inner: &&ActionData| inner.parent.map(|outer| plan.action(outer));
    std::iter::successors(parent(&action), parent).any(|outer| {
        let ended = outer.run_step.map(|run| state_of(outer, plan.step(run)));
        task::is_task(outer) && ended == Some(StepState::Success)
    })
}

/// A text in the words of the flow, on one line, and not too long for a list. Lists show it and
/// searches look for its parts, so both have the same.
fn told(text: &str) -> String {
    let line: String =
        plain(text).chars().map(|sign| if sign.is_control() { ' ' } else { sign }).collect();
    match line.char_indices().find(|(at, sign)| at + sign.len_utf8() > FAILURE_BYTES_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Whether a task was dropped for an error.
fn is_failed_part(action: &ActionData, step: &Step) -> bool {
    step.state == StepState::Dropped && step.error.is_some() && task::is_task(action)
}

fn fault_of(action: &ActionData, step: &Step) -> Option<ActionError> {
    let is_done = step.state == StepState::Success && action.run_step == Some(step.id);
    is_done.then(|| task::fault_of(action))?
}

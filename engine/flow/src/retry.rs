//! Retry of a failed run from its failed task.
//!
//! The retry is a plan of its own: the failed one stays as it is, with its history. It begins in the
//! main list at the task that failed, with the data and the context that this task had. A failed task
//! inside of another one is tried again with the task of the main list that has it.

use serde_json::Value;
use turnwheel_engine::action::Action;
use turnwheel_engine::plan::{ActionData, PlanState};
use turnwheel_engine::{internal, Named, Payload, PlanView, TriggerError, TriggerOptions};

use crate::definition::Flow;
use crate::flows::{labelled, result, FlowError, Flows};
use crate::model::Directive;
use crate::run::{Cursor, FlowPlan, FlowStart, TaskInput, TaskOutput};
use crate::Definition;

/// The label of a retry: the plan that failed.
pub const RETRY_OF: &str = "retry.of";

impl Flows {
    /// Starts a failed run anew from its failed task, as a new plan with the label [`RETRY_OF`]. Tasks
    /// that were done are not done again. A second retry of the same plan is the plan of the first one.
    ///
    /// - `flow` is the definition to go on with, such as a repaired version; `None` for that of the
    ///   failed run. The failed task is looked up in it by its name.
    /// - `input` is given to the failed task in place of the data that it had.
    ///
    /// # Errors
    ///
    /// The plan is no flow, is not over, or has not failed; the definition has no such task; the
    /// input cannot be stored.
    pub async fn retry(
        &self,
        failed: &PlanView,
        flow: Option<&Flow>,
        input: Option<Value>,
        options: TriggerOptions,
    ) -> Result<Named, FlowError> {
        let begun = self.start_of(failed)?;
        let before = self.flow_of(&begun).await?;
        let start = start_from(failed, &begun, &before, flow.unwrap_or(&before), input)?;
        let flow = flow.unwrap_or(&before);
        let options = labelled(flow, in_place_of(failed, options))
            .label(RETRY_OF, failed.id.to_string())
            .key(format!("retry:{}", failed.id));
        let start = Payload::of(&start).map_err(|error| {
            let (action, problem) = (flow.id(), error.to_string());
            TriggerError::Input { action, problem }
        })?;
        Ok(self.world.trigger_named(FlowPlan::NAME, options, start))
    }

    /// The definition, the id and the input of a flow's plan.
    ///
    /// # Errors
    ///
    /// The plan is no flow, or its input cannot be read.
    pub fn start_of(&self, plan: &PlanView) -> Result<FlowStart, FlowError> {
        if plan.created.action != FlowPlan::NAME {
            return Err(FlowError::NotRetried(format!(
                "plan {} is no flow: it runs the action «{}»",
                plan.id, plan.created.action
            )));
        }
        let unreadable = |error: turnwheel_engine::PayloadError| {
            FlowError::NotRetried(format!("the input of plan {} {error}", plan.id))
        };
        // The root has the input of the latest run of the plan.
        let input = plan.actions.first().map_or(&plan.created.input, |root| &root.input);
        input.read().map_err(unreadable)
    }

    /// The definition that a plan began with.
    ///
    /// # Errors
    ///
    /// It is not in the store.
    pub async fn flow_of(&self, start: &FlowStart) -> Result<Flow, FlowError> {
        let known = self.bench.flow_later(&start.definition).await;
        known.map_err(|fault| FlowError::Unknown(format!("{} ({fault})", start.flow)))
    }
}

/// Adds the labels and the priority of a plan to the options of one that is run in its place; the
/// labels of its flow are left out.
pub fn in_place_of(before: &PlanView, options: TriggerOptions) -> TriggerOptions {
    let labels = before.labels.iter().filter(|(name, _)| !name.starts_with("flow."));
    let options = options.priority(before.created.priority);
    labels.fold(options, |options, (name, value)| options.label(name, value))
}

fn refused<T>(problem: String) -> Result<T, FlowError> {
    Err(FlowError::NotRetried(problem))
}

/// The begin of a run at the failed task.
fn start_from(
    failed: &PlanView,
    begun: &FlowStart,
    before: &Flow,
    flow: &Flow,
    input: Option<Value>,
) -> Result<FlowStart, FlowError> {
    let id = failed.id;
    if failed.state != PlanState::Stopped {
        return refused(format!(
            "plan {id} is not over: «turnwheel cancel {id}» ends it; a paused one goes on with \
             «turnwheel resume {id}»"
        ));
    }
    if result(failed).is_ok() {
        return refused(format!(
            "plan {id} has succeeded: «turnwheel again {id}» runs it again from its begin"
        ));
    }
    let (old, new) = (before.definition(), flow.definition());
    let from = match last_task(failed, old) {
        Some((action, task)) => Some(cursor_at(action, task, old, new, flow)?),
        // No task of this run has begun; it may be one that another run of the plan has handed on.
        None if new.hash == old.hash => begun.from.as_deref().cloned(),
        None => None,
    };
    let from = match (from, input) {
        (Some(from), Some(input)) => Some(Cursor { value: input, ..from }),
        (None, Some(input)) => return Ok(flow.start(input)),
        (from, None) => from,
    };
    Ok(FlowStart { from: from.map(Box::new), ..flow.start(begun.input.clone()) })
}

/// The task of the main list that was asked for last.
fn last_task<'a>(failed: &'a PlanView, flow: &Definition) -> Option<(&'a ActionData, TaskInput)> {
    failed.actions.iter().skip(1).rev().find_map(|action| {
        if ![internal::TASK, internal::EFFECT].contains(&action.name.as_str()) {
            return None;
        }
        let input: TaskInput = action.input.read().ok()?;
        let is_main = |id: &usize| flow.task(*id).pointer == input.at;
        let is_of_list = input.depth <= 1 && flow.main.iter().any(is_main);
        is_of_list.then_some((action, input))
    })
}

/// The place of a task in the definition that goes on, with the data before it.
fn cursor_at(
    action: &ActionData,
    task: TaskInput,
    old: &Definition,
    new: &Definition,
    flow: &Flow,
) -> Result<Cursor, FlowError> {
    let name_of = |pointer: &str| old.by_pointer.get(pointer).map(|id| &old.task(*id).name);
    let name = name_of(&task.at).cloned().unwrap_or_default();
    let place_of = |name: &str| new.main.iter().position(|id| new.task(*id).name == name);
    let Some(index) = place_of(&name) else {
        return refused(format!(
            "the task «{name}», which failed, is not in the main list of {}: keep its name, or run \
             the flow again from its begin",
            flow.id()
        ));
    };
    let context = Some(task.context).filter(|context| !context.is_null());
    let at_task = Cursor { index, value: task.raw, context, ..Cursor::default() };
    let outcome = action.output.read::<TaskOutput>().ok().and_then(|output| output.outcome);
    let Some(done) = outcome.filter(|outcome| outcome.fault.is_none()) else { return Ok(at_task) };
    // The last task is done: the flow failed after it.
    let index = match &done.then {
        Directive::Continue => index + 1,
        Directive::Exit | Directive::End => new.main.len(),
        Directive::To(name) => place_of(name).unwrap_or(new.main.len()),
    };
    let context = done.context.or(at_task.context);
    Ok(Cursor { index, value: done.output, context, ..Cursor::default() })
}

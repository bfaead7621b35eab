//! Retry of a failed run from its failed task.
//!
//! The retry is a plan of its own: the failed one stays as it is, with its history. It begins at the task
//! that failed, with the data and the context that this task had, also inside of `do`, `for`, `try`, a
//! handler (`catch.do`), a function, the tasks for an event of a `listen`, and a branch of a `fork`,
//! whose finished branches are not run again.

use std::collections::BTreeMap;

use serde_json::Value;
use turnwheel_engine::action::Action;
use turnwheel_engine::plan::{ActionData, PlanState};
use turnwheel_engine::{
    internal, ActionId, Named, Payload, PlanView, TriggerError, TriggerOptions,
};

use crate::definition::Flow;
use crate::flows::{labelled, result, FlowError, Flows};
use crate::model::{Directive, Kind, TaskId};
use crate::run::{Cursor, FlowPlan, FlowStart, Listening, Outcome, Phase, TaskInput, TaskOutput};
use crate::Definition;

/// The label of a retry: the plan that failed.
pub const RETRY_OF: &str = "retry.of";

/// The label of a plan that runs another one again from its begin: the id of that.
pub const AGAIN_OF: &str = "again.of";

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

/// Adds the labels and the priority of a plan to the options of one that is run in its place. Labels
/// of its flow, and those that name the plan before it, are left out.
pub fn in_place_of(before: &PlanView, options: TriggerOptions) -> TriggerOptions {
    let is_own = |name: &str| ["flow.", RETRY_OF, AGAIN_OF].iter().any(|it| name.starts_with(it));
    let labels = before.labels.iter().filter(|(name, _)| !is_own(name));
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
    let places = Places { failed, old, new, flow };
    let mut from = places.find()?;
    if from.is_empty() && new.hash == old.hash {
        // No task of this run has begun; it may be one that another run of the plan has handed on.
        // Of a retry the time begins anew.
        let before = begun.from.as_deref().into_iter().chain(&begun.within);
        from = before.map(|from| Cursor { began: 0, ..from.clone() }).collect();
    }
    match (from.last_mut(), input) {
        (Some(last), Some(input)) => last.value = input,
        (None, Some(input)) => return Ok(flow.start(input)),
        (_, None) => {}
    }
    let mut from = from.into_iter();
    let first = from.next().map(Box::new);
    Ok(FlowStart { from: first, within: from.collect(), ..flow.start(begun.input.clone()) })
}

/// The places at which a retry goes on.
struct Places<'a> {
    failed: &'a PlanView,
    /// The definition of the failed run, and that of the retry.
    old: &'a Definition,
    new: &'a Definition,
    flow: &'a Flow,
}

impl Places<'_> {
    /// The place in the main list, and in each list inside of it that has the failed task.
    fn find(&self) -> Result<Vec<Cursor>, FlowError> {
        let mut places = Vec::new();
        let root = self.failed.actions.first().map(|root| root.id);
        let (old, new) = (&self.old.main[..], &self.new.main[..]);
        let (mut parent, mut lists) = (root, vec![(old, new)]);
        let mut around: Option<(&Kind, Option<Listening>)> = None;
        while let Some(of) = parent.take() {
            let is_fork = matches!(around, Some((Kind::Fork { .. }, _)));
            // A handler has its tasks after those that are tried.
            let last = lists.iter().rev().find_map(|(old, new)| {
                let last = if is_fork { self.failed_of(of, old) } else { self.last_of(of, old) };
                last.map(|(action, input)| (action, input, *old, *new))
            });
            let Some((action, input, old, new)) = last else { break };
            // Parts of a task that is extended are asked for by another step.
            let is_extended = input.is_extended;
            let error = match &around {
                Some((Kind::Try(it), _)) if it.handler.as_deref() == Some(old) => {
                    input.vars.get(&it.variable).cloned()
                }
                _ => None,
            };
            let (mut place, failed) = self.place(action, input, new)?;
            if let Some(error) = error {
                place.phase = Phase::Handling;
                place.error = serde_json::from_value(error).ok();
            }
            if is_fork {
                place.branches = self.branches_of(of, old, new);
            }
            place.listening = around.take().and_then(|(_, listening)| listening);
            places.push(place);
            if let Some((id, other)) = failed.filter(|_| !is_extended) {
                let (old, new) = (&self.old.task(id).kind, &self.new.task(other).kind);
                let (inside, others) = (inner(old), inner(new));
                let is_same = std::mem::discriminant(old) == std::mem::discriminant(new);
                let listening = cursor_of(action).and_then(|cursor| cursor.listening);
                // Without an event that is processed there is no task to go on at.
                let is_busy = listening.as_ref().is_none_or(|listening| listening.is_busy);
                if is_same && is_busy && inside.len() == others.len() {
                    parent = Some(action.id);
                    lists = inside.into_iter().zip(others).collect();
                    around = Some((old, listening));
                }
            }
        }
        Ok(places)
    }

    /// The action with its input, if it is a task of a list that this parent has asked for.
    fn part<'a>(
        &self,
        action: &'a ActionData,
        parent: ActionId,
        list: &[TaskId],
    ) -> Option<(&'a ActionData, TaskInput)> {
        let is_task =
            [internal::TASK, internal::EFFECT, internal::REQUEST].contains(&action.name.as_str());
        if !is_task || action.parent != Some(parent) {
            return None;
        }
        let input: TaskInput = action.input.read().ok()?;
        let is_of_list = list.iter().any(|id| self.old.task(*id).pointer == input.at);
        is_of_list.then_some((action, input))
    }

    /// The task of a list that was asked for last, by this action.
    fn last_of(&self, parent: ActionId, list: &[TaskId]) -> Option<(&ActionData, TaskInput)> {
        self.failed.actions.iter().rev().find_map(|action| self.part(action, parent, list))
    }

    /// The first branch of a fork that has failed.
    fn failed_of(&self, fork: ActionId, list: &[TaskId]) -> Option<(&ActionData, TaskInput)> {
        let has_failed = |action: &&ActionData| {
            outcome_of(action).is_some_and(|outcome| outcome.fault.is_some())
        };
        let mut failed = self.failed.actions.iter().filter(has_failed);
        failed.find_map(|action| self.part(action, fork, list))
    }

    /// The results of the branches of a fork that are done, by their places in the new definition.
    fn branches_of(
        &self,
        fork: ActionId,
        old: &[TaskId],
        new: &[TaskId],
    ) -> BTreeMap<u32, Outcome> {
        let done = |action: &ActionData| {
            let (_, task) = self.part(action, fork, old)?;
            let outcome = outcome_of(action).filter(|outcome| outcome.fault.is_none())?;
            let name = &self.old.task(*self.old.by_pointer.get(&task.at)?).name;
            let index = new.iter().position(|id| self.new.task(*id).name == *name)?;
            Some((u32::try_from(index).ok()?, outcome))
        };
        self.failed.actions.iter().filter_map(done).collect()
    }

    /// The place of a task in a list of the definition that goes on, with the data before it; and the
    /// task in both definitions, if it has failed.
    fn place(
        &self,
        action: &ActionData,
        task: TaskInput,
        list: &[TaskId],
    ) -> Result<(Cursor, Option<(TaskId, TaskId)>), FlowError> {
        let id = self.old.by_pointer.get(&task.at).copied();
        let name = id.map(|id| self.old.task(id).name.clone()).unwrap_or_default();
        let place_of = |name: &str| list.iter().position(|id| self.new.task(*id).name == name);
        let Some(index) = place_of(&name) else {
            return refused(format!(
                "the task «{name}», which failed, is not in the same list of {}: keep its name, or run \
                 the flow again from its begin",
                self.flow.id()
            ));
        };
        let round = self.round_of(action, &task);
        let context = Some(task.context).filter(|context| !context.is_null());
        let at_task = Cursor { index, round, value: task.raw, context, ..Cursor::default() };
        let Some(done) = outcome_of(action).filter(|outcome| outcome.fault.is_none()) else {
            return Ok((at_task, id.map(|id| (id, list[index]))));
        };
        // The last task is done: the flow failed after it.
        let index = match &done.then {
            Directive::Continue => index + 1,
            Directive::Exit | Directive::End => list.len(),
            Directive::To(name) => place_of(name).unwrap_or(list.len()),
        };
        let context = done.context.or(at_task.context);
        Ok((Cursor { index, round, value: done.output, context, ..Cursor::default() }, None))
    }

    /// The round of the loop that has asked for a task, if one has.
    fn round_of(&self, action: &ActionData, task: &TaskInput) -> u32 {
        let asker = action.parent.map(|parent| self.failed.action(parent));
        let asker = asker.and_then(|asker| asker.input.read::<TaskInput>().ok());
        let asker = asker.and_then(|asker| self.old.by_pointer.get(&asker.at).copied());
        let round = match asker.map(|id| &self.old.task(id).kind) {
            Some(Kind::For(it)) => task.vars.get(&it.at).and_then(Value::as_u64),
            _ => None,
        };
        round.and_then(|round| u32::try_from(round).ok()).unwrap_or_default()
    }
}

/// The result of a task, if it is over.
fn outcome_of(action: &ActionData) -> Option<Outcome> {
    action.output.read::<TaskOutput>().ok()?.outcome
}

/// The place of a task that waits, or of one whose tasks for an event have failed.
fn cursor_of(action: &ActionData) -> Option<Cursor> {
    action.output.read::<TaskOutput>().ok()?.cursor
}

/// The lists of a task that can go on in one of them. Other tasks begin anew.
fn inner(kind: &Kind) -> Vec<&[TaskId]> {
    match kind {
        Kind::Do(block) => vec![block],
        Kind::For(it) => vec![&it.block],
        Kind::Try(it) => std::iter::once(&it.block[..]).chain(it.handler.as_deref()).collect(),
        Kind::Fork { branches, .. } => vec![branches],
        Kind::Function { task, .. } => vec![std::slice::from_ref(task)],
        Kind::Listen(it) => it.each.iter().map(|each| &each.block[..]).collect(),
        Kind::Consume(it) => vec![&it.each.block],
        _ => Vec::new(),
    }
}

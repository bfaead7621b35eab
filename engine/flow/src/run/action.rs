//! The actions that flows are made of: the flow, and its tasks that do nothing outside.

use std::sync::Arc;

use serde_json::Value;
use turnwheel_engine::action::{
    Action, ActionView, Cause, Next, Rescue, RunAsync, RunsAsync, StepContext, SubPlanOptions,
};
use turnwheel_engine::plan::Planner;
use turnwheel_engine::{internal, ActionError, Payload, Time};

use super::env::Around;
use super::machine::{turn, Asks, Told, Turn};
use super::outside::{FlowCommand, FlowRequest};
use super::present::{edited, present};
use super::state::{Cursor, FlowStart, Notice, Outcome, TaskInput, TaskOutput, Which};
use super::unclear;
use super::worker::Call;
use crate::bench::Bench;
use crate::event::CloudEvent;
use crate::expr::quickly;
use crate::fault::Fault;
use crate::flows::labels_of;
use crate::listeners::Expected;
use crate::model::{Effect, Kind, SubFlow, Task};
use crate::Definition;

/// The error of a task that runs a flow which is not there.
const UNKNOWN_FLOW: &str = "unknown_flow";

/// The root of a flow's plan.
#[derive(Debug)]
pub struct FlowPlan {
    pub(crate) bench: Arc<Bench>,
}

/// A task of a flow that is no effect.
#[derive(Debug)]
pub(crate) struct FlowTask {
    pub(crate) bench: Arc<Bench>,
}

impl Action for FlowPlan {
    const NAME: &'static str = internal::FLOW;
    type Input = FlowStart;
    type Output = TaskOutput;
    type Phases = RunsAsync;

    fn plan(&self, planner: &mut Planner<'_, Self>, input: FlowStart) -> Result<(), ActionError> {
        planner.label(input.flow.clone());
        planner.plan_self(input)?;
        Ok(())
    }

    /// A fault that a flow does not catch ends it: the flow decides about faults itself.
    fn rescue(&self, _: &ActionError) -> Rescue {
        Rescue::Fail
    }

    fn rescue_of_planned(&self, _: &str, _: Rescue) -> Rescue {
        Rescue::Fail
    }

    fn check_event(&self, event: &Payload) -> Result<(), ActionError> {
        check_event(event)
    }

    fn scheduled(&self, input: &Payload) -> Result<Vec<(String, String)>, ActionError> {
        let input: FlowStart = input.read().map_err(|error| ActionError::new("input", error))?;
        let definition = self.bench.definition(&input.definition).map_err(|_| {
            let message = format!(
                "there is no flow with the definition «{}» here: add the flow first, and let its own \
                 «schedule» start it, or take the input from Flow::start",
                input.definition
            );
            ActionError::new(UNKNOWN_FLOW, message).and_final()
        })?;
        definition.check_input(&input.input).map_err(|problem| {
            let message = format!("{} does not take it: {problem}", input.flow);
            ActionError::new("input", message).and_final()
        })?;
        Ok(labels_of(&definition).to_vec())
    }

    fn present(&self, view: &mut ActionView<'_>) {
        present(view);
    }

    fn edited(&self, stored: &Payload, input: Payload) -> Result<Payload, ActionError> {
        edited(stored, &input)
    }
}

impl RunAsync for FlowPlan {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let definition = self.bench.definition_later(&step.input.definition).await;
        let definition = definition.map_err(faulted)?;
        let input = TaskInput {
            at: String::new(),
            raw: step.input.input.clone(),
            context: Value::Null,
            vars: serde_json::Map::new(),
            is_extended: false,
            extends: None,
            is_retry: false,
            namespace: String::new(),
            depth: 0,
            is_kept: false,
            resume: step
                .input
                .from
                .iter()
                .map(|from| &**from)
                .chain(&step.input.within)
                .cloned()
                .collect(),
            since: None,
        };
        let now = step.now();
        resume(&mut step.output, &input, now);
        let next = run(&self.bench, step, &definition, None, &input).await?;
        if let Some(mut from) = step.output.cursor.clone().filter(|_| next == Next::Done) {
            let within = std::mem::take(&mut from.within);
            let from = Some(Box::new(from));
            let next_run = FlowStart { from, within, ..step.input.clone() };
            step.continue_as_new::<Self>(&next_run)?;
        }
        let outcome = step.output.outcome.as_ref();
        match outcome.and_then(|outcome| outcome.fault.clone()) {
            Some(fault) if next == Next::Done => Err(faulted(fault)),
            _ => Ok(next),
        }
    }
}

/// Puts a task that begins to the place where it goes on.
fn resume(output: &mut TaskOutput, input: &TaskInput, now: Time) {
    let is_fresh = output.cursor.is_none() && output.outcome.is_none();
    if let Some(from) = input.resume.first().cloned().filter(|_| is_fresh) {
        // Of a retry the time begins anew.
        let began = if from.began == 0 { now.0 } else { from.began };
        output.cursor = Some(Cursor { began, ..from });
    }
}

/// A fault that nobody has caught.
pub(super) fn faulted(fault: Fault) -> ActionError {
    ActionError::new(fault.kind.clone(), fault).and_final()
}

impl Action for FlowTask {
    const NAME: &'static str = internal::TASK;
    type Input = TaskInput;
    type Output = TaskOutput;
    type Phases = RunsAsync;

    fn rescue(&self, _: &ActionError) -> Rescue {
        Rescue::Fail
    }

    fn check_event(&self, event: &Payload) -> Result<(), ActionError> {
        check_event(event)
    }

    fn present(&self, view: &mut ActionView<'_>) {
        present(view);
    }

    fn edited(&self, stored: &Payload, input: Payload) -> Result<Payload, ActionError> {
        edited(stored, &input)
    }
}

impl RunAsync for FlowTask {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let next = self.turn(step).await;
        Ok(or_fault(next, step.input.at.clone(), &mut step.output))
    }
}

impl FlowTask {
    async fn turn(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let start: Which = step.plan_input()?;
        let definition = self.bench.definition_later(&start.definition).await.map_err(faulted)?;
        let task = task_of(&definition, &step.input.at)?;
        // The input can be large: it is lent, and not copied for each turn.
        let input = std::mem::take(&mut step.input);
        let now = step.now();
        resume(&mut step.output, &input, now);
        let next = run(&self.bench, step, &definition, Some(task), &input).await;
        step.input = input;
        next
    }
}

/// An error around a task is a fault of the task, which a flow can catch. A failed step instead
/// would not notify the task that added it, which would wait for ever.
pub(super) fn or_fault(
    next: Result<Next, ActionError>,
    at: String,
    output: &mut TaskOutput,
) -> Next {
    next.unwrap_or_else(|error| {
        let fault = match error.kind == UNKNOWN_FLOW {
            true => Fault::configuration(error.message),
            false => Fault::runtime(error),
        };
        output.outcome = Some(Outcome::fault(fault.from_task(&at)));
        Next::Done
    })
}

/// An output that is too large to be stored is a fault of the task, which a flow can catch.
pub(super) fn bounded(outcome: Outcome, task: &Task) -> Outcome {
    match Payload::of(&outcome) {
        Ok(_) => outcome,
        Err(error) => {
            let fault = Fault::runtime(format!("the output {error}"));
            Outcome::fault(fault.from_task(&task.pointer))
        }
    }
}

pub(super) fn task_of<'a>(
    definition: &'a Definition,
    pointer: &str,
) -> Result<&'a Task, ActionError> {
    let id = definition.by_pointer.get(pointer);
    let id = id.ok_or_else(|| {
        ActionError::new("unknown_task", format!("the flow has no task {pointer}")).and_final()
    })?;
    Ok(definition.task(*id))
}

pub(super) fn around<A: Action>(step: &StepContext<A>) -> Around {
    Around {
        plan: step.plan_id(),
        key: step.idempotency_key(),
        created_at: step.plan_created_at(),
        now: step.now(),
        root: internal::root(step).clone(),
        items: None,
    }
}

/// Message to a step, from the cause of its call.
async fn told<A: Action<Output = TaskOutput>>(
    bench: &Bench,
    step: &StepContext<A>,
    task: Option<&Task>,
) -> Result<Told, ActionError> {
    let is_worker = task.is_some_and(|task| matches!(task.kind, Kind::Worker(_)));
    match step.cause() {
        Cause::Event => {
            if let Some((part, output)) = step.part::<TaskOutput>() {
                return Ok(Told::Part(part, output.and_then(|output| output.outcome)));
            }
            let notice: Option<Notice> = step.event()?;
            Ok(notice.map_or(Told::Begin, Told::Notice))
        }
        Cause::SubPlans => {
            let plan = step.output.cursor.as_ref().and_then(|cursor| cursor.plan);
            match plan {
                Some(plan) => Ok(Told::Flow(bench.result_of(plan, is_worker).await)),
                None => Ok(Told::Begin),
            }
        }
        _ => Ok(Told::Begin),
    }
}

/// A turn of a task or of the whole flow, and what it asks for.
async fn run<A: Action<Output = TaskOutput>>(
    bench: &Arc<Bench>,
    step: &mut StepContext<A>,
    definition: &Arc<Definition>,
    task: Option<&Task>,
    input: &TaskInput,
) -> Result<Next, ActionError> {
    let told = told(bench, step, task).await?;
    let heard = match &told {
        Told::Notice(Notice::Event(event)) => event.key(),
        _ => String::new(),
    };
    let mut around = around(step);
    // Items of a step that begins are those of the same step in the run of the plan before.
    let items = bench.loops.take(step.plan_id(), step.step_id());
    around.items = items.filter(|_| step.output.cursor.is_some());
    let here = Here { definition, task, around: &around, input };
    let (ended, mut asks) = take_turn(bench, here, &mut step.output, told).await?;
    for (part, fault) in std::mem::take(&mut asks.drops) {
        match fault {
            Some(fault) => step.fail_part(part, faulted(fault)),
            None => step.drop_part(part),
        }
    }
    if !asks.unclear.is_empty() {
        let mut counts = std::mem::take(&mut step.output.unclear);
        unclear::tell(bench, step, &mut counts, std::mem::take(&mut asks.unclear), &heard);
        step.output.unclear = counts;
    }
    let items = asks.items.clone().or_else(|| around.items.take());
    if let (Turn::Wait(_), Some(items)) = (&ended, items) {
        bench.loops.keep(step.plan_id(), step.step_id(), items);
    }
    let emitted = asks.publish.take();
    if let Some(event) = &emitted {
        bench.emit(event.clone()).await.map_err(|error| ActionError::new("publish", error))?;
    }
    match ended {
        Turn::Done(outcome) => {
            if let (Some(Kind::Flow(sub)), Some(input)) = (task.map(|task| &task.kind), asks.flow) {
                let flow = sub_flow(bench, sub)?;
                let started = bench.start_detached(&flow, input, step.idempotency_key());
                started.await.map_err(|error| ActionError::new("flow", error))?;
            }
            if let Some(task) = task {
                let mut kept = step.output.outcome.take().unwrap_or(outcome);
                // Without filters the event is the output.
                let is_output = |event: &CloudEvent| event.to_value() == kept.output;
                kept.emitted = emitted.filter(|event| !is_output(event)).map(Box::new);
                step.output.outcome = Some(bounded(kept, task));
            }
            Ok(Next::Done)
        }
        Turn::NextRun => Ok(Next::Done),
        Turn::Wait(reason) => {
            wait(bench, step, definition, task, asks)?;
            Ok(Next::suspend(reason))
        }
    }
}

/// Context of a turn.
struct Here<'a> {
    definition: &'a Arc<Definition>,
    task: Option<&'a Task>,
    around: &'a Around,
    input: &'a TaskInput,
}

/// Takes a turn: on this worker if its expressions take a moment, else on a thread that may block.
async fn take_turn(
    bench: &Bench,
    here: Here<'_>,
    state: &mut TaskOutput,
    told: Told,
) -> Result<(Turn, Asks), ActionError> {
    let Here { definition, task, around, input } = here;
    let mut quick = state.clone();
    let turn_here = || turn(definition, task, around, input, &mut quick, told.clone());
    if let Some(taken) = quickly(turn_here) {
        *state = quick;
        return Ok(taken);
    }
    let Some(world) = bench.world() else {
        return Err(ActionError::new("stopping", "the world has ended"));
    };
    let (definition, around, input) = (Arc::clone(definition), around.clone(), input.clone());
    let (is_task, mut slow) = (task.is_some(), state.clone());
    let code = move || {
        let task = is_task.then(|| task_of(&definition, &input.at)).transpose()?;
        let taken = turn(&definition, task, &around, &input, &mut slow, told);
        Ok::<_, ActionError>((taken, slow))
    };
    let taken = internal::on_pool(&world, code).await;
    let (taken, slow) = taken.map_err(|failure| ActionError::new("failure", failure))??;
    *state = slow;
    Ok(taken)
}

fn wait<A: Action<Output = TaskOutput>>(
    bench: &Arc<Bench>,
    step: &mut StepContext<A>,
    definition: &Arc<Definition>,
    task: Option<&Task>,
    asks: Asks,
) -> Result<(), ActionError> {
    for part in asks.parts {
        match part.effect {
            Some(Effect::Request) => step.ask::<FlowRequest>(part.tag, &part.input)?,
            Some(Effect::Command) => step.ask::<FlowCommand>(part.tag, &part.input)?,
            None => step.ask::<FlowTask>(part.tag, &part.input)?,
        };
    }
    for (delay, notice) in &asks.notices {
        step.event_after(*delay, notice)?;
    }
    let kind = task.map(|task| &task.kind);
    if let Some(Kind::Listen(it)) = kind {
        // The index of listeners is kept in memory, and made anew from what is stored here.
        let listening = step.output.cursor.as_ref().and_then(|it| it.listening.as_ref());
        if let (Some(listening), Some(task)) = (listening, task) {
            let expects = listening.expects(&it.strategy);
            listen(bench, step, definition, &task.pointer, expects);
        }
    }
    if let Some(work) = &asks.work {
        let plan = step.trigger::<Call>(work)?;
        if let Some(cursor) = &mut step.output.cursor {
            cursor.plan = Some(plan);
        }
    }
    if let (Some(Kind::Flow(sub)), Some(input)) = (kind, asks.flow) {
        let flow = sub_flow(bench, sub)?;
        let start = flow.start(input);
        let labels = labels_of(flow.definition()).into_iter();
        let options =
            labels.fold(SubPlanOptions::new(), |options, (name, value)| options.label(name, value));
        let plan = step.trigger_with::<FlowPlan>(options, &start)?;
        if let Some(cursor) = &mut step.output.cursor {
            cursor.plan = Some(plan);
        }
    }
    Ok(())
}

/// The step listens for events when the plan has taken the end of this call: a plan that is halted
/// before that listens no more.
pub(super) fn listen<A: Action>(
    bench: &Arc<Bench>,
    step: &mut StepContext<A>,
    definition: &Arc<Definition>,
    pointer: &str,
    expects: Expected,
) {
    let place = (step.plan_id(), step.step_id());
    let (bench, definition) = (Arc::downgrade(bench), Arc::clone(definition));
    let pointer = pointer.to_owned();
    internal::when_taken(step, move || {
        let task = definition.by_pointer.get(&pointer).map(|id| definition.task(*id));
        if let (Some(bench), Some(task)) = (bench.upgrade(), task) {
            bench.bus.listen(place, &definition, task, expects.clone());
        }
    });
}

fn sub_flow(bench: &Bench, sub: &SubFlow) -> Result<crate::Flow, ActionError> {
    bench.find(&sub.namespace, &sub.name, &sub.version).ok_or_else(|| {
        let name = format!("{}/{}:{}", sub.namespace, sub.name, sub.version);
        let message = format!("there is no flow {name}: add its definition first");
        ActionError::new(UNKNOWN_FLOW, message).and_final()
    })
}

/// Events come by way of the bus, which knows who listens.
pub(super) fn check_event(event: &Payload) -> Result<(), ActionError> {
    match event.read() {
        Ok(Notice::Event(_)) => Ok(()),
        _ => {
            let message = "the steps of flows take CloudEvents, which are published to all that listen: \
                           publish it with «turnwheel event emit», with a POST to «/events» or with `Flows::publish`";
            Err(ActionError::new("no_event", message))
        }
    }
}

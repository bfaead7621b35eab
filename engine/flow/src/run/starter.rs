//! Flows that begin with several events: a plan of its own collects them, starts the flow when all
//! are there, and continues with the next ones.
//!
//! Events with different correlation values are collected separately.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use turnwheel_engine::action::{
    Action, ActionView, Next, Rescue, RunAsync, RunsAsync, StepContext,
};
use turnwheel_engine::plan::Planner;
use turnwheel_engine::{internal, ActionError, Payload};

use super::action::{check_event, listen};
use super::env::Around;
use super::machine::{turn, Told, Turn};
use super::state::{FlowStart, Notice, TaskInput, TaskOutput};
use super::unclear::{self, Unclear};
use crate::bench::Bench;
use crate::model::{Kind, Task};
use crate::Definition;

/// Place of a flow's starting events in its definition.
pub(crate) const STARTS: &str = "/schedule/on";

/// Collections that are not complete; further ones take the place of the oldest.
const OPEN_MAX: usize = 1_000;

/// Collects the events that a flow begins with.
#[derive(Debug)]
pub(crate) struct FlowStarter {
    pub(crate) bench: Arc<Bench>,
}

/// Collected events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Collected {
    open: VecDeque<TaskOutput>,
    /// Flows that were begun.
    begun: u64,
    /// Event filters that could not be evaluated, and how often.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    unclear: BTreeMap<String, u64>,
}

impl Action for FlowStarter {
    const NAME: &'static str = "flow.starter";
    type Input = FlowStart;
    type Output = Collected;
    type Phases = RunsAsync;

    fn plan(&self, planner: &mut Planner<'_, Self>, input: FlowStart) -> Result<(), ActionError> {
        planner.label(format!("starts {}", input.flow));
        planner.plan_self(input)?;
        Ok(())
    }

    fn rescue(&self, _: &ActionError) -> Rescue {
        Rescue::Fail
    }

    fn check_event(&self, event: &Payload) -> Result<(), ActionError> {
        check_event(event)
    }

    fn present(&self, view: &mut ActionView<'_>) {
        view.shown.name = "collects the events that a flow begins with".to_owned();
    }
}

impl RunAsync for FlowStarter {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let (bench, start) = (&self.bench, step.input.clone());
        let definition = bench.definition_later(&start.definition).await;
        let definition = definition.map_err(|fault| ActionError::new("definition", fault))?;
        let task = definition.by_pointer.get(STARTS).map(|id| definition.task(*id));
        let Some((task, Kind::Listen(_))) = task.map(|task| (task, &task.kind)) else {
            return Ok(Next::Done);
        };
        let (namespace, name) = (&definition.namespace, &definition.name);
        let newest = bench.find(namespace, name, "latest");
        if newest.is_none_or(|newest| newest.hash() != definition.hash) {
            // The flow was removed, or a newer version has its own.
            return Ok(Next::Done);
        }
        let notice: Option<Notice> = step.event()?;
        if let Some(Notice::Event(event)) = notice {
            let (around, heard) = (around(step), event.key());
            let notice = Notice::Event(event);
            let (complete, unclear) =
                collect(&definition, task, &around, &mut step.output, &notice);
            let mut counts = std::mem::take(&mut step.output.unclear);
            unclear::tell(bench, step, &mut counts, unclear, &heard);
            step.output.unclear = counts;
            if let Some(events) = complete {
                step.output.begun += 1;
                let key = format!("{}/{}", step.idempotency_key(), step.output.begun);
                let flow = bench.find(namespace, name, &definition.version);
                let flow = flow.ok_or_else(|| {
                    ActionError::new("unknown_flow", format!("there is no flow {}", start.flow))
                })?;
                let begun = bench.start_detached(&flow, events, key);
                begun.await.map_err(|error| ActionError::new("flow", error))?;
            }
        }
        listen(bench, step, &definition, STARTS, Vec::new());
        Ok(Next::suspend(format!("the events that {} begins with", start.flow)))
    }
}

fn around(step: &StepContext<FlowStarter>) -> Around {
    Around {
        plan: step.plan_id(),
        key: step.idempotency_key(),
        created_at: step.plan_created_at(),
        now: step.now(),
        root: internal::root(step).clone(),
        items: None,
    }
}

/// Puts an event to those that it belongs to; the events of a collection that is complete with it, and what
/// could not be evaluated.
fn collect(
    definition: &Definition,
    task: &Task,
    around: &Around,
    collected: &mut Collected,
    notice: &Notice,
) -> (Option<Value>, Vec<Unclear>) {
    let input = TaskInput { at: STARTS.to_owned(), ..TaskInput::default() };
    let mut unclear: Vec<Unclear> = Vec::new();
    let mut take = |output: &mut TaskOutput| {
        let told = Told::Notice(notice.clone());
        let (ended, asks) = turn(definition, Some(task), around, &input, output, told);
        // Each collection has the same filters.
        unclear = asks.unclear;
        ended
    };
    let mut fresh = TaskOutput::default();
    turn(definition, Some(task), around, &input, &mut fresh, Told::Begin);
    collected.open.push_back(fresh);
    let mut complete = None;
    for place in 0..collected.open.len() {
        let before = collected.open[place].clone();
        let ended = take(&mut collected.open[place]);
        let is_fresh = place + 1 == collected.open.len();
        match ended {
            Turn::Done(outcome) => {
                collected.open.remove(place);
                if !is_fresh {
                    collected.open.pop_back();
                }
                match outcome.fault {
                    // It starts nothing; later events may.
                    Some(fault) => {
                        tracing::error!(flow = definition.name, %fault, "events cannot be taken");
                    }
                    None => complete = Some(outcome.output),
                }
                return (complete, unclear);
            }
            Turn::Wait(_) if collected.open[place] != before => {
                if !is_fresh {
                    collected.open.pop_back();
                } else if collected.open.len() > OPEN_MAX {
                    tracing::warn!(
                        flow = definition.name,
                        "events that wait for others are dropped"
                    );
                    collected.open.pop_front();
                }
                return (None, unclear);
            }
            Turn::Wait(_) | Turn::NextRun => {}
        }
    }
    collected.open.pop_back();
    (None, unclear)
}

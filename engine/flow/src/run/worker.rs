//! Tasks that external workers do: each is a plan of its own, which offers the work.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use turnwheel_engine::action::{Action, Next, Run, Runs, StepContext};
use turnwheel_engine::{ActionError, PlanResult, PlanView};

use super::env::Env;
use crate::expr::as_text;
use crate::fault::Fault;
use crate::model::WorkerCall;

/// The action whose plans are done by external workers. A host that has workers registers it; its
/// input has the fields `topic`, `input`, `attempts` and `within_ms`, and its output is the worker's.
pub const WORKER_CALL: &str = "external.call";

/// Input of a plan for a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Work {
    topic: String,
    input: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    within_ms: Option<u64>,
}

/// The work of a task, from its input.
pub(super) fn work(env: &Env<'_>, it: &WorkerCall) -> Result<Work, Fault> {
    let topic = as_text(&env.fill_own(&it.topic)?);
    let input = match &it.input {
        Some(template) => env.fill_own(template)?,
        None => env.input.clone(),
    };
    let limit = env.task.and_then(|task| task.timeout.as_ref());
    let limit = limit.map(|span| env.duration(span)).transpose()?;
    let within_ms = limit.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX).max(1));
    Ok(Work { topic, input, attempts: it.attempts, within_ms })
}

/// The worker's output, or its failure as a fault.
pub(crate) fn result(view: &PlanView) -> Result<Value, Fault> {
    if view.result() == PlanResult::Success {
        return view.output::<Call>().map_err(Fault::runtime);
    }
    let Some(error) = view.errors().first().copied() else {
        return Err(match view.result() {
            // It could not be planned: no host of the store has the action.
            PlanResult::Error => {
                Fault::configuration("this host hands out no work to external workers")
            }
            other => Fault::runtime(format!("the worker's plan has ended: {}", other.name())),
        });
    };
    Err(Fault {
        kind: error.kind.clone(),
        status: 500,
        instance: None,
        title: None,
        detail: Some(error.message.clone()),
    })
}

/// Stands for the action of the host: its name, and the types of its input and output.
#[derive(Debug)]
pub(super) struct Call;

impl Action for Call {
    const NAME: &'static str = WORKER_CALL;
    type Input = Work;
    type Output = Value;
    type Phases = Runs;
}

impl Run for Call {
    fn run(&self, _: &mut StepContext<Self>) -> Result<Next, ActionError> {
        Err(ActionError::new("unknown_action", "the host has this action").and_final())
    }
}

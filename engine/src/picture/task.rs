//! Tasks of flows, as they are stored.
//!
//! Pictures are also drawn from the store alone, without a world that knows flows. So what they
//! show of a task is read here, from two fields of its stored data.

use std::fmt::Write as _;

use serde::Deserialize;

use crate::error::ActionError;
use crate::payload::Payload;
use crate::plan::ActionData;

/// Action of a flow: the root of its plan.
pub const FLOW: &str = "flow";

/// Action of a task that is no effect.
pub const TASK: &str = "flow.task";

/// Action of a task that runs a process or a container.
pub const EFFECT: &str = "flow.effect";

/// Action of a task that asks a service.
pub const REQUEST: &str = "flow.request";

/// Returns the place of a task in its definition, without the first slash; nothing for the action
/// of anything else.
pub fn task_place(action: &ActionData) -> Option<String> {
    #[derive(Deserialize)]
    struct Input {
        at: String,
    }
    let Input { at } = is_task(action).then(|| action.input.read().ok())??;
    Some(at.trim_start_matches('/').to_owned()).filter(|at| !at.is_empty())
}

/// Returns the fault of a task as the error of its step; nothing for a task without a fault and
/// for the action of anything else.
pub(super) fn fault_of(action: &ActionData) -> Option<ActionError> {
    is_task(action).then(|| fault_in(&action.output))?
}

/// Returns the fault in the output of a task, if it has one.
pub(crate) fn fault_in(output: &Payload) -> Option<ActionError> {
    #[derive(Deserialize)]
    struct Output {
        outcome: Option<Outcome>,
    }
    #[derive(Deserialize)]
    struct Outcome {
        fault: Option<Fault>,
    }
    #[derive(Deserialize)]
    struct Fault {
        #[serde(rename = "type")]
        kind: String,
        status: u16,
        instance: Option<String>,
        title: Option<String>,
        detail: Option<String>,
    }
    let output: Output = output.read().ok()?;
    let Fault { kind, status, instance, title, detail } = output.outcome?.fault?;
    let title = title.as_deref().unwrap_or(&kind);
    let text = fault_text(title, status, instance.as_deref(), detail.as_deref());
    Some(ActionError::new(kind, text).and_final())
}

/// Describes a fault for people.
pub fn fault_text(
    title: &str,
    status: u16,
    instance: Option<&str>,
    detail: Option<&str>,
) -> String {
    let mut text = format!("{title} ({status})");
    let written = match instance {
        // The pointer to the whole definition.
        Some("") => write!(text, " of the workflow"),
        Some(instance) => write!(text, " at {instance}"),
        None => Ok(()),
    };
    let written = written.and_then(|()| match detail {
        Some(detail) => write!(text, ": {detail}"),
        None => Ok(()),
    });
    written.expect("a text takes what is written to it");
    text
}

pub(super) fn is_task(action: &ActionData) -> bool {
    [TASK, EFFECT, REQUEST].contains(&action.name.as_str())
}

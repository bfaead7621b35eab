//! Steps, and how they follow one another.

use serde::{Deserialize, Serialize};

/// Why something failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct ErrorInfo {
    /// The type of the error, or a code of the action's own.
    pub kind: String,
    /// What happened, with its causes.
    pub message: String,
    /// Whether trying again cannot help.
    pub is_final: bool,
}

/// A step of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct StepInfo {
    /// Its number in the plan, from 1.
    pub id: u32,
    /// Which phase of its action it is: `plan`, `run` or `finalize`.
    pub phase: String,
    /// The number of its action in the plan.
    pub action: u32,
    /// The name of its action.
    pub name: String,
    /// Where it is: `pending`, `running`, `success`, `suspended`, `retrying`, `skipping`, `skipped`, `error`,
    /// `cancelled`, `reverting`, `reverted`, `revert_retrying`, `revert_failed`, `kept` or `scheduling`.
    pub state: String,
    /// Where its action is, in the words of that.
    pub shown: String,
    /// What its action says came of it.
    pub outcome: Option<String>,
    /// Why it failed the last time it ended.
    pub error: Option<ErrorInfo>,
    /// Why its compensation failed the last time.
    pub revert_error: Option<ErrorInfo>,
    /// When its code was first called.
    pub started_at: Option<String>,
    /// When it ended.
    pub ended_at: Option<String>,
    /// When its next attempt is due.
    pub retry_at: Option<String>,
    /// When it must be done.
    pub limit: Option<String>,
    /// How long its code has run in all, in milliseconds.
    pub ran_ms: f64,
    /// How often it was begun from its beginning.
    pub attempt: u32,
    /// How often its code was called in all.
    pub calls: u32,
    /// How far it is, from 0 to 1.
    pub progress: f64,
    /// The queue that its code runs in.
    pub queue: String,
    /// Whether it waits for a place in its queue.
    pub is_queued: bool,
    /// What it waits for while it is suspended.
    pub waits_for: Option<String>,
    /// Events that wait for it.
    pub waiting_events: u32,
    /// When it gave the last sign of life, if it gives any.
    pub beat_at: Option<String>,
    /// What that said.
    pub beat: Option<serde_json::Value>,
    /// What can be done with it now.
    pub possible: Vec<String>,
    /// The input of its action, with sensitive values masked.
    pub input: serde_json::Value,
    /// The output of its action, likewise.
    pub output: serde_json::Value,
}

/// A page of steps, in their order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct StepPage {
    /// The steps.
    pub steps: Vec<StepInfo>,
    /// What to give as `cursor` for the next page; nothing if this is the last one.
    pub next: Option<String>,
}

/// An event for a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct EventFor {
    /// What tells it from others: a second event with the same id is dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What it says.
    #[serde(default)]
    pub event: serde_json::Value,
}

/// The event is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct EventDone {
    /// The plan.
    pub plan: String,
    /// The step.
    pub step: u32,
}

/// A sign of life of what a step has started outside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct HeartbeatFor {
    /// The attempt that lives.
    pub attempt: u32,
    /// How far it is, or what else it has to say; the next attempt is told.
    #[serde(default)]
    pub details: serde_json::Value,
}

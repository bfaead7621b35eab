//! Steps, and how they follow one another.

use serde::{Deserialize, Serialize};

/// Why something failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct ErrorInfo {
    /// The type of the error, or a code of the action's own.
    pub kind: String,
    /// The error, with its causes.
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
    /// Phase of its action: `plan`, `run` or `finalize`.
    pub phase: String,
    /// The number of its action in the plan.
    pub action: u32,
    /// The name of its action.
    pub name: String,
    /// Its state: `pending`, `running`, `success`, `suspended`, `retrying`, `skipping`, `skipped`,
    /// `error`, `cancelled`, `reverting`, `reverted`, `revert_retrying`, `revert_failed`, `kept` or
    /// `scheduling`.
    pub state: String,
    /// State of its action, in the action's words.
    pub shown: String,
    /// Outcome as reported by its action.
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
    /// Total run time of its code, in milliseconds.
    pub ran_ms: f64,
    /// Number of attempts from its beginning.
    pub attempt: u32,
    /// Total number of calls of its code.
    pub calls: u32,
    /// Its progress, from 0 to 1.
    pub progress: f64,
    /// The queue that its code runs in.
    pub queue: String,
    /// Whether it waits for a place in its queue.
    pub is_queued: bool,
    /// What it waits for while it is suspended, for people.
    pub waits_for: Option<String>,
    /// Events that wait for it.
    pub waiting_events: u32,
    /// When it gave the last sign of life, if it gives any.
    pub beat_at: Option<String>,
    /// The data of the last heartbeat.
    pub beat: Option<serde_json::Value>,
    /// The orders that it takes now.
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
    /// The `cursor` of the next page; none on the last one.
    pub next: Option<String>,
}

/// An event for a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct EventFor {
    /// Id of the event: a second event with the same id is dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Data of the event.
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

/// A heartbeat for external work of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct HeartbeatFor {
    /// The attempt that lives.
    pub attempt: u32,
    /// Progress or other data; passed to the next attempt.
    #[serde(default)]
    pub details: serde_json::Value,
}

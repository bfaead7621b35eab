//! Work for programs in other languages.

use serde::{Deserialize, Serialize};

/// Asks for tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Lease {
    /// The topics that the worker takes tasks of.
    pub topics: Vec<String>,
    /// How long the worker may be silent, in milliseconds; 30,000 if nothing is said, twelve hours at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// How many tasks at most; 1 if nothing is said, 100 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// If there is no task, wait so long for one, in milliseconds; 60,000 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// Tasks that the worker has now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Leased {
    /// The tasks, those that have waited longest first; none if there was none in time.
    pub tasks: Vec<Task>,
}

/// A task that a worker has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Task {
    /// What the worker names it by; another lease of it has another id.
    pub id: String,
    /// Its topic.
    pub topic: String,
    /// The plan.
    pub plan: String,
    /// The step.
    pub step: u32,
    /// The attempt of the step, from 1.
    pub attempt: u32,
    /// How often this attempt was handed out, this time included: more than 1 if a worker was lost.
    pub delivery: u32,
    /// The same for each delivery of the attempt: what the worker does outside should be done once for it.
    pub idempotency_key: String,
    /// When the lease ends, unless the worker says that it lives.
    pub until: String,
    /// What the last worker said about how far it was.
    pub last_heartbeat: Option<serde_json::Value>,
    /// What is to be done.
    pub input: serde_json::Value,
}

/// The worker lives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TaskHeartbeat {
    /// How long the worker may be silent from now on, in milliseconds; 30,000 if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// How far it is; the next worker is told if this one is lost.
    #[serde(default)]
    pub details: serde_json::Value,
}

/// The lease is longer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct TaskHeld {
    /// When it ends now.
    pub until: String,
}

/// The task is done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TaskComplete {
    /// What came of it: the output of the step.
    #[serde(default)]
    pub output: serde_json::Value,
}

/// The task has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TaskFail {
    /// A code of the worker's own.
    #[serde(default = "failed")]
    pub kind: String,
    /// What happened.
    pub message: String,
    /// Whether trying again cannot help.
    #[serde(default)]
    pub is_final: bool,
}

fn failed() -> String {
    "failed".to_owned()
}

/// The answer of the worker is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct TaskDone {
    /// The plan.
    pub plan: String,
    /// The step.
    pub step: u32,
}

/// A way to send one event to a step without a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Callback {
    /// The secret in its path.
    pub token: String,
    /// Where to POST the event, relative to where the server is mounted.
    pub path: String,
}

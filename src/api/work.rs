//! Work for programs in other languages.

use serde::{Deserialize, Serialize};

/// A request for tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "server", schema(example = json!({ "topics": ["mail"], "lease_ms": 30000, "wait_ms": 60000 })))]
#[serde(deny_unknown_fields)]
pub struct Lease {
    /// The topics that the worker takes tasks of.
    pub topics: Vec<String>,
    /// Maximum silence of the worker, in milliseconds; 30,000 by default, twelve hours at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// Maximum number of tasks; 1 by default, 100 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Time to wait for a task if there is none, in milliseconds; 60,000 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// Name of the worker, of 200 bytes at most: it is in the log of leases, and in the history of
    /// the plans beside the name of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
}

/// Tasks that the worker has now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Leased {
    /// The tasks, the longest waiting first; empty if none came in time.
    pub tasks: Vec<Task>,
}

/// A task that a worker has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Task {
    /// Id of the task's lease; each lease of a task has its own.
    pub id: String,
    /// Its topic.
    pub topic: String,
    /// The plan.
    pub plan: String,
    /// The step.
    pub step: u32,
    /// The attempt of the step, from 1.
    pub attempt: u32,
    /// Number of deliveries of this attempt, this one included: more than 1 if a worker was lost.
    pub delivery: u32,
    /// The same for each delivery of the attempt: for work that must be done only once.
    pub idempotency_key: String,
    /// When the lease ends, unless the worker says that it lives.
    pub until: String,
    /// When the attempt ends in any case: nobody waits for an answer after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// The trace that the plan belongs to, as a header of W3C: for the worker's own spans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// The header `tracestate` of that trace, if its sender had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
    /// Data of the last worker's last heartbeat.
    pub last_heartbeat: Option<serde_json::Value>,
    /// The input of the task.
    pub input: serde_json::Value,
}

/// The tasks of a topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Topic {
    /// Its name.
    pub topic: String,
    /// Tasks without a worker.
    pub ready: u32,
    /// Tasks that workers have.
    pub leased: u32,
    /// When the one was offered that has been ready longest.
    pub oldest: Option<String>,
    /// Whether there are more tasks than are counted here, which are at most a thousand.
    pub is_more: bool,
}

/// The worker lives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "server", schema(example = json!({ "details": { "sent": 7 } })))]
#[serde(deny_unknown_fields)]
pub struct TaskHeartbeat {
    /// Maximum silence of the worker from now on, in milliseconds; as before by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// Progress data; passed to the next worker if this one is lost.
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
#[cfg_attr(feature = "server", schema(example = json!({ "output": { "id": 7 } })))]
#[serde(deny_unknown_fields)]
pub struct TaskComplete {
    /// The output of the step.
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
    /// The error.
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
    /// Path to POST the event to, relative to the server's mount point.
    pub path: String,
}

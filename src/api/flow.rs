//! Flows of the Serverless Workflow DSL, and events for them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A flow that the server knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct FlowInfo {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The hash of its content.
    pub hash: String,
}

/// A page of the flows, by name and version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct FlowList {
    /// The flows.
    pub flows: Vec<FlowInfo>,
    /// The `cursor` of the next page; none on the last one.
    #[serde(default)]
    pub next: Option<String>,
    /// Events without a listener since the world began.
    pub unheard_events: u64,
    /// Failed evaluations of event filters since the world began: the histories of plans, and the
    /// log, name the filter and the reason.
    #[serde(default)]
    pub unclear_filters: u64,
}

/// A flow with its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct FlowDetail {
    /// Name and version of the flow.
    #[serde(flatten)]
    pub flow: FlowInfo,
    /// Its title, for people.
    pub title: Option<String>,
    /// Its definition as JSON.
    pub source: serde_json::Value,
    /// Its text as it was written, with comments; none if it came as data or together with others.
    #[serde(default)]
    pub text: Option<String>,
    /// The JSON schema of its input, if it has one: for forms.
    pub input_schema: Option<serde_json::Value>,
    /// The names of the secrets that it uses.
    pub secrets: Vec<String>,
    /// Its tasks, in their order.
    pub tasks: Vec<FlowTaskInfo>,
    /// In the answer to an addition, what its author may not expect: that the schedule of another version
    /// goes on, because this one has begun none in its place.
    #[serde(default)]
    pub note: Option<String>,
}

/// A task of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct FlowTaskInfo {
    /// Its place in the definition: a JSON pointer.
    pub path: String,
    /// Its kind in the DSL.
    pub kind: String,
}

/// A problem in the source of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct FlowProblem {
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
    /// The problem, its place in the definition, and the expected value.
    pub message: String,
    /// A similar valid value, or a hint.
    pub suggestion: Option<String>,
    /// The text of the line.
    pub snippet: String,
}

/// A flow is to begin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "server", schema(example = json!({ "input": { "to": "ann" } })))]
#[serde(deny_unknown_fields)]
pub struct FlowRun {
    /// Its input.
    #[serde(default)]
    pub input: serde_json::Value,
    /// Labels, which people see with the plan.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The priority of its steps in queues: higher ones first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// After how long it is cancelled if it still runs, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
}

/// Events that were published on this node lately, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct RecentEvents {
    /// The events, also those that nobody took.
    pub events: Vec<RecentEvent>,
    /// Number of events that nobody took, since the world began.
    pub unheard: u64,
}

/// An event that was published, and who has got it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct RecentEvent {
    /// When it was durable with all who got it.
    pub at: String,
    /// Its type; long attributes are cut off.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its source.
    pub source: String,
    /// Its subject, if it has one.
    pub subject: Option<String>,
    /// Its id.
    pub id: String,
    /// Number of tasks that got it.
    pub delivered: u32,
    /// Number of those that decide themselves whether it is meant.
    pub undecided: u32,
    /// Number of tasks and plans that had got it before, by its source and id.
    #[serde(default)]
    pub repeated: u32,
    /// The first 20 tasks of this node that got it.
    pub takers: Vec<EventTaker>,
    /// Plans that began with it.
    pub started: Vec<String>,
}

/// A task that has got an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct EventTaker {
    /// Its plan.
    pub plan: String,
    /// Its step.
    pub step: u32,
    /// Its flow, as `namespace/name:version`.
    pub flow: String,
    /// Place of the task in its flow: a JSON pointer.
    pub task: String,
}

/// Outcome of published events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct EventsDone {
    /// Number of events.
    pub events: u32,
    /// Steps that got one of them: those whose filter matches, and those that decide by more than
    /// the event.
    pub delivered: u32,
    /// How many of those decide themselves: by a variable, a correlation, earlier events, or
    /// because an expression fails on the event.
    #[serde(default)]
    pub undecided: u32,
    /// Steps that still wait for events, and plans, that had got one of them before, by its source
    /// and id: nothing has changed for them.
    #[serde(default)]
    pub repeated: u32,
    /// Plans that began with one of them, by this request or by an earlier one.
    pub started: Vec<String>,
    /// Each event, in the order of the request.
    #[serde(default)]
    pub each: Vec<PublishedEvent>,
}

/// Outcome of a published event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct PublishedEvent {
    /// Its source.
    pub source: String,
    /// Its id.
    pub id: String,
    /// Whether it was published before, and all who take it had got it then: nothing has changed.
    pub is_repeated: bool,
    /// Steps that got it.
    pub delivered: u32,
    /// How many of those decide themselves whether it is meant.
    pub undecided: u32,
    /// Steps and plans that had got it before.
    pub repeated: u32,
    /// Plans that began with it, by this request or by an earlier one.
    pub started: Vec<String>,
}

//! Events of plans.

use serde::{Deserialize, Serialize};

/// One thing that happened to a plan, and is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct HappeningInfo {
    /// Its place in the journal; later events have greater places. Give it as `after`, or as
    /// `Last-Event-ID`, to continue from there.
    pub cursor: String,
    /// The plan.
    pub plan: String,
    /// The label of the plan.
    pub label: String,
    /// When.
    pub at: String,
    /// Kind: `plan` or `step` for a change of state, `event` for an event that reached a step,
    /// `cancel` for a request to end the plan, or `note` for other messages.
    pub what: String,
    /// The step that it is about.
    pub step: Option<u32>,
    /// The name of its action.
    pub action: Option<String>,
    /// Phase of its action.
    pub phase: Option<String>,
    /// The state before; nothing if the plan came into being.
    pub from: Option<String>,
    /// The new state.
    pub to: Option<String>,
    /// Result of the plan so far.
    pub result: Option<String>,
    /// Number of the step's attempt.
    pub attempt: Option<u32>,
    /// The id that the sender of the event gave.
    pub event: Option<String>,
    /// Whether the end is not to wait for code that runs.
    pub is_forced: Option<bool>,
    /// The principal, if there is one.
    pub by: Option<String>,
    /// Why, for people.
    pub why: Option<String>,
}

/// The reader of a stream was too slow: the stream ends, and can be continued after the last event
/// read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct CutOff {
    /// Number of journal entries that were not sent.
    pub missed: u64,
    /// The last place that was sent.
    pub after: String,
}

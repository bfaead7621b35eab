//! What happens to plans.

use serde::{Deserialize, Serialize};

/// One thing that happened to a plan, and is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct HappeningInfo {
    /// Its place among all that has happened: what comes later is greater. Give it as `after`, or as
    /// `Last-Event-ID`, to go on from there.
    pub cursor: String,
    /// The plan.
    pub plan: String,
    /// What the plan is called.
    pub label: String,
    /// When.
    pub at: String,
    /// What: `plan` or `step` went into another state, an `event` has come for a step, somebody wants the
    /// plan to end (`cancel`), or a `note` says something else.
    pub what: String,
    /// The step that it is about.
    pub step: Option<u32>,
    /// The name of its action.
    pub action: Option<String>,
    /// Which phase of its action it is.
    pub phase: Option<String>,
    /// The state before; nothing if the plan came into being.
    pub from: Option<String>,
    /// The new state.
    pub to: Option<String>,
    /// What came of the plan so far.
    pub result: Option<String>,
    /// Which attempt of the step it is.
    pub attempt: Option<u32>,
    /// The id that the sender of the event gave.
    pub event: Option<String>,
    /// Whether the end is not to wait for code that runs.
    pub is_forced: Option<bool>,
    /// Who, if it was somebody.
    pub by: Option<String>,
    /// Why, for people.
    pub why: Option<String>,
}

/// The reader of a stream was too slow: the stream ends, and goes on after the last event that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct CutOff {
    /// How many entries of the journal were not told.
    pub missed: u64,
    /// The last place that was told.
    pub after: String,
}

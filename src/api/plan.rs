//! Plans.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ErrorInfo;

/// A plan in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct PlanSummary {
    /// Its id: a UUID.
    pub id: String,
    /// What it is called.
    pub label: String,
    /// The name of its root action.
    pub action: String,
    /// Who or what has triggered it.
    pub by: String,
    /// Its labels, by name.
    pub labels: BTreeMap<String, String>,
    /// Where it is: `pending`, `scheduled`, `planning`, `planned`, `running`, `paused` or `stopped`.
    pub state: String,
    /// What came of it: `pending`, `success`, `warning`, `error`, `cancelled` or `reverted`.
    pub result: String,
    /// When it was created.
    pub created_at: String,
    /// When its planning began.
    pub started_at: Option<String>,
    /// When it was stopped.
    pub ended_at: Option<String>,
    /// When it does something by itself the next time.
    pub wakes_at: Option<String>,
    /// What kind of thing it waits for: `nothing`, `decision`, `permission`, `plan`, `time`, `lock`, `sub-plans`,
    /// `event`, `timer`, `retry` or `place`.
    pub waits: String,
    /// Why it waits, if it does: one reason, for people.
    pub waits_for: Option<String>,
    /// The step that has asked for it, if one has.
    pub caller: Option<CallerInfo>,
}

/// The step that has asked for a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct CallerInfo {
    /// Its plan.
    pub plan: String,
    /// The step.
    pub step: u32,
}

/// A page of plans, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct PlanPage {
    /// The plans.
    pub plans: Vec<PlanSummary>,
    /// What to give as `cursor` for the next page; nothing if this is the last one.
    pub next: Option<String>,
}

/// Which plans are meant; what is not said does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Filter {
    /// Plans in one of these states.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<String>,
    /// Plans with one of these results.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<String>,
    /// Plans that wait for one of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<String>,
    /// Plans that are called so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Plans with all of these labels; `null` for any value.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, Option<String>>,
    /// Plans with this root action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The plan with this idempotency key: that of whoever asks, else the one whose `key` is this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Plans that this one has triggered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Plans that a step of this plan has asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// Plans that were created at this time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_from: Option<String>,
    /// Plans that were created before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_before: Option<String>,
    /// Plans that were stopped at this time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_from: Option<String>,
    /// Plans that were stopped before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_before: Option<String>,
}

/// A plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct PlanDetail {
    /// What lists show of it.
    #[serde(flatten)]
    pub summary: PlanSummary,
    /// Its idempotency key.
    pub key: Option<String>,
    /// The W3C trace that it belongs to.
    pub traceparent: Option<String>,
    /// The priority of its steps in queues.
    pub priority: i32,
    /// When it is cancelled if it still runs.
    pub deadline: Option<String>,
    /// How far it is, from 0 to 1.
    pub progress: f64,
    /// How long the code of its steps has run in all, in milliseconds.
    pub ran_ms: f64,
    /// The input of its root action, with sensitive values masked.
    pub input: serde_json::Value,
    /// The output of its root action, likewise.
    pub output: serde_json::Value,
    /// What the root action says came of it.
    pub outcome: Option<String>,
    /// Orders that it takes now.
    pub possible: Vec<String>,
    /// Who has asked for its end, if somebody has.
    pub cancel: Option<CancelInfo>,
    /// Whether what was done is being taken back.
    pub is_reverting: bool,
    /// Why planning failed.
    pub planning_error: Option<ErrorInfo>,
    /// How many steps are in which state.
    pub steps: BTreeMap<String, u32>,
    /// Locks that it holds or waits for.
    pub locks: Vec<String>,
    /// When and after what it is planned, if it was to be planned later.
    pub delayed: Option<DelayInfo>,
    /// Timers of its steps that are not over.
    pub timers: Vec<TimerInfo>,
    /// Plans that its steps have asked for, at most the first 1,000.
    pub sub_plans: Vec<SubPlanInfo>,
    /// What happened, for people; oldest first.
    pub history: Vec<HistoryLine>,
}

/// Who has asked for the end of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct CancelInfo {
    /// When.
    pub at: String,
    /// Who.
    pub by: String,
    /// Whether code that runs is not waited for.
    pub is_forced: bool,
}

/// When and after what a plan is planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct DelayInfo {
    /// Not before this.
    pub start_at: Option<String>,
    /// Not after this.
    pub start_before: Option<String>,
    /// Not before somebody allows it.
    pub is_frozen: bool,
    /// The plans that must be over before, with their results; `null` while one is not over.
    pub after: BTreeMap<String, Option<String>>,
}

/// A timer of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct TimerInfo {
    /// The step.
    pub step: u32,
    /// When it is due.
    pub due: String,
}

/// A plan that a step has asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct SubPlanInfo {
    /// The plan.
    pub plan: String,
    /// The step.
    pub step: u32,
    /// The name of its root action.
    pub action: String,
    /// What came of it, once it is over.
    pub result: Option<String>,
}

/// A line of the history of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct HistoryLine {
    /// When.
    pub at: String,
    /// Who or what did what, and why.
    pub text: String,
}

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
    /// Its label.
    pub label: String,
    /// The name of its root action.
    pub action: String,
    /// The principal or plan that triggered it.
    pub by: String,
    /// Its labels, by name.
    pub labels: BTreeMap<String, String>,
    /// Its state: `pending`, `scheduled`, `planning`, `planned`, `running`, `paused` or `stopped`.
    pub state: String,
    /// Its result: `pending`, `success`, `warning`, `error`, `cancelled` or `reverted`.
    pub result: String,
    /// When it was created.
    pub created_at: String,
    /// When its planning began.
    pub started_at: Option<String>,
    /// When it was stopped.
    pub ended_at: Option<String>,
    /// When it does something by itself the next time.
    pub wakes_at: Option<String>,
    /// Reason for waiting: `nothing`, `decision`, `permission`, `plan`, `time`, `lock`,
    /// `sub-plans`, `event`, `timer`, `retry` or `place`.
    pub waits: String,
    /// Why it waits, if it does: one reason, for people.
    pub waits_for: Option<String>,
    /// Why it has failed, in one line, if it is over: the task or action, and its error.
    #[serde(default)]
    pub error: Option<String>,
    /// The step that started it, if a step did.
    pub caller: Option<CallerInfo>,
}

/// The step that started a plan.
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
    /// The `cursor` of the next page; none on the last one.
    pub next: Option<String>,
    /// Whether the search has stopped early: of a filter that few plans fit, 400,000 are looked at
    /// for one page, so this one may have fewer plans than its limit, or none. `next` goes on.
    #[serde(default)]
    pub is_partial: bool,
}

/// Filter of plans; absent fields match every plan.
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
    /// Plans whose name has this part, whatever the case of ASCII letters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Plans whose name, reason to wait or error has this part, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Plans with all of these labels; `null` for any value.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, Option<String>>,
    /// Plans with this root action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The plan with this idempotency key: the caller's own, else the one whose `key` is this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Plans that this one has triggered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Plans started by a step of this plan.
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
    /// Plans of this node, by its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// A plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct PlanDetail {
    /// The fields shown in lists.
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
    /// Its progress, from 0 to 1.
    pub progress: f64,
    /// Total run time of the code of its steps, in milliseconds.
    pub ran_ms: f64,
    /// The input of its root action, with sensitive values masked.
    pub input: serde_json::Value,
    /// The output of its root action, likewise.
    pub output: serde_json::Value,
    /// Outcome as reported by the root action.
    pub outcome: Option<String>,
    /// Orders that it takes now.
    pub possible: Vec<String>,
    /// The request to cancel it, if there is one.
    pub cancel: Option<CancelInfo>,
    /// Whether its steps are being reverted.
    pub is_reverting: bool,
    /// Why planning failed.
    pub planning_error: Option<ErrorInfo>,
    /// Number of steps in each state.
    pub steps: BTreeMap<String, u32>,
    /// Number of tasks in each state, of a flow: each counts once, in the state of its last run.
    #[serde(default)]
    pub tasks: BTreeMap<String, u32>,
    /// Locks that it holds or waits for.
    pub locks: Vec<String>,
    /// Conditions of its planning, if it is planned later.
    pub delayed: Option<DelayInfo>,
    /// Timers of its steps that are not over.
    pub timers: Vec<TimerInfo>,
    /// Plans that its steps have started, at most the first 1,000.
    pub sub_plans: Vec<SubPlanInfo>,
    /// Its history for people, oldest first.
    pub history: Vec<HistoryLine>,
}

/// A request to cancel a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct CancelInfo {
    /// When.
    pub at: String,
    /// The principal.
    pub by: String,
    /// Whether code that runs is not waited for.
    pub is_forced: bool,
}

/// Conditions for planning a plan later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct DelayInfo {
    /// Not before this.
    pub start_at: Option<String>,
    /// Not after this.
    pub start_before: Option<String>,
    /// Whether planning needs permission.
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

/// A plan started by a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct SubPlanInfo {
    /// The plan.
    pub plan: String,
    /// The step.
    pub step: u32,
    /// The name of its root action.
    pub action: String,
    /// Its result, once it has stopped.
    pub result: Option<String>,
}

/// A line of the history of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct HistoryLine {
    /// When.
    pub at: String,
    /// The event, its author and reason.
    pub text: String,
}

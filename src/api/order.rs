//! Orders for plans.

use serde::{Deserialize, Serialize};

use super::Filter;

/// An order for a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(tag = "order", rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// Cancel it, in any state.
    Cancel {
        /// Do not wait for code that runs, as with `cancel_now`.
        #[serde(default)]
        force: bool,
    },
    /// The same, without waiting for code that runs.
    CancelNow {},
    /// End it where it is, without calling any of its code: no compensation, no clean-up.
    #[serde(rename = "terminate", alias = "halt")]
    Halt {},
    /// Take no new step until it is resumed; code that runs is not interrupted.
    Pause {},
    /// Go on with a paused plan: failed steps are tried again.
    Resume {},
    /// End a paused plan in which a step has failed, as it is.
    Fail {},
    /// Revert the finished steps of a paused plan.
    Revert {},
    /// Leave the failed steps of a paused plan out, and go on.
    SkipFailed {},
    /// Reset the failed steps of a paused plan, and all steps after them, and resume.
    RetryFailed {},
    /// Leave a failed step of a paused plan out, when it is resumed.
    Skip {
        /// The step.
        step: u32,
    },
    /// Reset a step of a paused plan, and all steps after it.
    #[serde(alias = "restart")]
    Retry {
        /// The step.
        step: u32,
    },
    /// Change the input of an action of a paused plan.
    EditInput {
        /// The number of the action in the plan.
        action: u32,
        /// The new input.
        input: serde_json::Value,
    },
    /// Give a delayed plan another time, and allow it; without a time it is planned at once.
    DelayUntil {
        /// The time.
        #[serde(default)]
        start_at: Option<String>,
    },
    /// Hold a delayed plan until it is given a time.
    Freeze {},
    /// Give it a label, or another value of it.
    Label {
        /// The name of the label.
        name: String,
        /// Its value.
        #[serde(default)]
        value: String,
    },
    /// Take a label from it.
    RemoveLabel {
        /// The name of the label.
        name: String,
    },
}

impl Order {
    /// Its name, as in the field `order`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Cancel { .. } => "cancel",
            Self::CancelNow {} => "cancel_now",
            Self::Halt {} => "terminate",
            Self::Pause {} => "pause",
            Self::Resume {} => "resume",
            Self::Fail {} => "fail",
            Self::Revert {} => "revert",
            Self::SkipFailed {} => "skip_failed",
            Self::RetryFailed {} => "retry_failed",
            Self::Skip { .. } => "skip",
            Self::Retry { .. } => "retry",
            Self::EditInput { .. } => "edit_input",
            Self::DelayUntil { .. } => "delay_until",
            Self::Freeze {} => "freeze",
            Self::Label { .. } => "label",
            Self::RemoveLabel { .. } => "remove_label",
        }
    }
}

/// The order was carried out, and that is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct OrderDone {
    /// The plan.
    pub plan: String,
    /// The order.
    pub order: String,
    /// The principal noted in the history of the plan.
    pub by: String,
}

/// An order for all plans that fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "server", schema(example = json!({
    "filter": { "states": ["paused"], "labels": { "flow.name": "mail" } }, "order": "resume", "dry_run": true,
})))]
#[serde(deny_unknown_fields)]
pub struct BulkOrder {
    /// Filter of the plans. It must not be empty, unless plans are named.
    #[serde(default)]
    pub filter: Filter,
    /// Only these of the matching plans, by their ids; 1,000 at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "server", schema(max_items = 1000))]
    pub plans: Vec<String>,
    /// The order for each of them.
    pub order: ManyOrder,
    /// Only say which plans would be touched, and which not and why.
    #[serde(default)]
    pub dry_run: bool,
    /// At most so many plans, the newest first; 1,000 if nothing is said, 10,000 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The oldest first instead.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub oldest_first: bool,
    /// Only plans after this one: the `next` of the previous answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// An order for many plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ManyOrder {
    /// Cancel each, in any state.
    Cancel,
    /// The same, without waiting for code that runs.
    CancelNow,
    /// Pause the running ones: they take no new step until they are resumed.
    Pause,
    /// Resume the paused ones.
    Resume,
    /// Leave failed steps out, and go on.
    SkipFailed,
    /// Reset and resume failed steps, with all steps after them.
    RetryFailed,
    /// Stop each where it is.
    #[serde(rename = "terminate", alias = "halt")]
    Halt,
    /// Delete stopped plans that no other plan waits for.
    Delete,
}

/// Outcome of an order for many plans.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct BulkDone {
    /// The order.
    pub order: ManyOrder,
    /// The matching plans, with the outcome of each.
    pub plans: Vec<BulkPlan>,
    /// Number of plans changed, or that would be changed.
    pub touched: u32,
    /// Number of plans left unchanged, or that would be.
    pub left: u32,
    /// Number of plans whose order failed.
    pub failed: u32,
    /// Whether more plans fit than the limit.
    pub has_more: bool,
    /// The `after` of the next request, if plans are left.
    pub next: Option<String>,
    /// Whether nothing was changed.
    pub is_dry_run: bool,
}

/// Outcome for one plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct BulkPlan {
    /// The plan.
    pub plan: String,
    /// Its label.
    pub label: String,
    /// `would`, `done`, `left` or `failed`.
    pub outcome: String,
    /// Why it was left, or failed.
    pub why: Option<String>,
}

//! The states of plans and steps, and the result of a plan.

use serde::{Deserialize, Serialize};

/// State of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanState {
    /// Made, not planned.
    Pending,
    /// To be planned at a later time.
    Scheduled,
    /// Being planned.
    Planning,
    /// Planned, not begun.
    Planned,
    /// Under way: steps run, or wait for events, timers or places.
    Running,
    /// Under way no more, until somebody resumes, skips or ends it.
    Paused,
    /// Over.
    Stopped,
}

impl PlanState {
    /// In lower case, as everywhere outside the code.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Scheduled => "scheduled",
            Self::Planning => "planning",
            Self::Planned => "planned",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
        }
    }

    /// The state with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        let all = [
            Self::Pending,
            Self::Scheduled,
            Self::Planning,
            Self::Planned,
            Self::Running,
            Self::Paused,
            Self::Stopped,
        ];
        all.into_iter().find(|state| state.name() == name)
    }

    /// Whether a plan may go from this state to that one.
    pub const fn may_become(self, next: Self) -> bool {
        use PlanState::{Paused, Pending, Planned, Planning, Running, Scheduled, Stopped};
        match self {
            Pending => matches!(next, Scheduled | Planning | Stopped),
            Scheduled => matches!(next, Planning | Paused | Stopped),
            Planning => matches!(next, Planned | Stopped | Scheduled),
            Planned => matches!(next, Running | Stopped),
            Running => matches!(next, Paused | Stopped),
            Paused => matches!(next, Running | Scheduled | Stopped),
            Stopped => false,
        }
    }
}

/// State of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// The arguments of a delayed plan are being written.
    Scheduling,
    /// Not begun.
    Pending,
    /// Its code runs.
    Running,
    /// Ended well.
    Success,
    /// Waits for an event or a timer; no code runs.
    Suspended,
    /// Failed, and waits for its next attempt.
    Retrying,
    /// To be skipped when the plan goes on.
    Skipping,
    /// Left out.
    Skipped,
    /// Failed.
    Error,
    /// Ended by a request.
    Cancelled,
    /// Its compensation runs.
    Reverting,
    /// Its effect was taken back.
    Reverted,
    /// Its compensation has failed, and waits for its next attempt.
    RevertRetrying,
    /// Its compensation has failed.
    RevertFailed,
    /// Its compensation has failed and was left out: its effect stays.
    Kept,
    /// No longer wanted by the step that had asked for it.
    Dropped,
}

impl StepState {
    /// Number of states.
    pub(crate) const COUNT: usize = 16;

    /// In lower case, as everywhere outside the code.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scheduling => "scheduling",
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Success => "success",
            Self::Suspended => "suspended",
            Self::Retrying => "retrying",
            Self::Skipping => "skipping",
            Self::Skipped => "skipped",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
            Self::Reverting => "reverting",
            Self::Reverted => "reverted",
            Self::RevertRetrying => "revert_retrying",
            Self::RevertFailed => "revert_failed",
            Self::Kept => "kept",
            Self::Dropped => "dropped",
        }
    }

    /// The state with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        let all = [
            Self::Scheduling,
            Self::Pending,
            Self::Running,
            Self::Success,
            Self::Suspended,
            Self::Retrying,
            Self::Skipping,
            Self::Skipped,
            Self::Error,
            Self::Cancelled,
            Self::Reverting,
            Self::Reverted,
            Self::RevertRetrying,
            Self::RevertFailed,
            Self::Kept,
            Self::Dropped,
        ];
        all.into_iter().find(|state| state.name() == name)
    }

    /// Whether the steps that need this one may begin.
    pub const fn is_done(self) -> bool {
        matches!(self, Self::Success | Self::Skipped)
    }

    /// Whether something is under way that ends by itself or by an event.
    pub const fn is_live(self) -> bool {
        let is_compensating = matches!(self, Self::Reverting | Self::RevertRetrying);
        is_compensating || matches!(self, Self::Running | Self::Suspended | Self::Retrying)
    }
}

/// Phase of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// The planning of an action.
    Plan,
    /// The run phase of an action.
    Run,
    /// The finalize phase of an action.
    Finalize,
}

impl StepKind {
    /// In lower case, as everywhere outside the code.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Run => "run",
            Self::Finalize => "finalize",
        }
    }
}

/// Result of a plan, from the states of its steps; it may change until the plan is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanResult {
    /// Not decided.
    Pending,
    /// All steps ended well.
    Success,
    /// A step was skipped.
    Warning,
    /// A step failed.
    Error,
    /// A step was cancelled.
    Cancelled,
    /// The effects of its steps were taken back.
    Reverted,
}

impl PlanResult {
    /// The result with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        let all = [
            Self::Pending,
            Self::Success,
            Self::Warning,
            Self::Error,
            Self::Cancelled,
            Self::Reverted,
        ];
        all.into_iter().find(|result| result.name() == name)
    }

    /// In lower case, as everywhere outside the code.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Success => "success",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
            Self::Reverted => "reverted",
        }
    }
}

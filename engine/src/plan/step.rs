//! Data of one step of a plan, and of an action.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::beat::Beat;
use super::seen::Seen;
use super::state::{StepKind, StepState};
use crate::action::Cause;
use crate::error::ActionError;
use crate::id::{ActionId, StepId};
use crate::payload::Payload;
use crate::time::Time;

/// A step of a plan, as it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Its id.
    pub id: StepId,
    /// Phase of its action.
    pub kind: StepKind,
    /// Its action.
    pub action: ActionId,
    /// Its state.
    pub state: StepState,
    /// Why it failed the last time it ended.
    pub error: Option<ActionError>,
    /// When its code was first called.
    pub started_at: Option<Time>,
    /// When it ended.
    pub ended_at: Option<Time>,
    /// Total run time of its code, in microseconds.
    pub ran_us: u64,
    /// Number of attempts from the beginning: 1 for the first time, one more after each failure or
    /// crash. Events do not count.
    pub attempt: u32,
    /// Total number of calls of its code, also in earlier runs of the plan.
    pub calls: u32,
    /// Number of calls in earlier runs.
    pub(crate) calls_before: u32,
    /// Progress set by it, in thousandths.
    pub progress: Option<u32>,
    /// Its share of the plan's progress, in thousandths.
    pub weight: u32,
    /// The queue that its code runs in.
    pub queue: String,
    /// Why its compensation failed the last time.
    pub revert_error: Option<ActionError>,
    /// Whether its code was called, or may have been: it may have had its effect.
    pub was_called: bool,
    /// Failures in a row, since the plan was resumed; those of its compensation once that was called.
    pub failures: u32,
    /// When it must be done.
    pub limit: Option<Time>,
    /// Whether its failure was dealt with by policy: that is done once.
    pub(crate) is_rescued: bool,
    /// Its place among the steps that have ended: compensation goes backwards.
    pub(crate) order: u32,
    /// Awaited event while it is suspended, for people.
    pub waits_for: String,
    /// When its next attempt is due.
    pub retry_at: Option<Time>,
    /// Events that wait for it, in the order in which they came; the first one is being handled if
    /// `in_event`, also while that waits to be tried again.
    pub(crate) inbox: VecDeque<Event>,
    pub(crate) in_event: bool,
    /// Whether it waits for a place in its queue: it is running, and its code was not called yet.
    pub is_queued: bool,
    /// Why its code was called last.
    pub(crate) cause: Cause,
    /// Whether it was told to end because the plan is being cancelled.
    pub(crate) is_ending: bool,
    /// Whether it was called to clean up before it is left out: its work is not called any more.
    pub(crate) is_skipping: bool,
    /// Its signs of life, if it has given any or has to.
    pub beat: Option<Box<Beat>>,
    /// Ids of the newest events it has got: a second one with the same id is dropped.
    pub(crate) seen: Seen,
    /// The step that has asked for it while the plan ran, and what that calls it.
    pub asker: Option<(StepId, u32)>,
}

/// An event for a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Id of the event.
    pub id: Option<String>,
    /// Content of the event.
    pub payload: Payload,
    /// When it came.
    pub at: Time,
    /// Whether it is one of the plan's own: of a timer, or of a step that was asked for.
    pub(crate) is_own: bool,
}

/// A timer of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanTimer {
    /// The step that gets the event.
    pub step: StepId,
    /// When.
    pub due: Time,
    /// The event.
    pub payload: Payload,
}

/// An action of a plan, as it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActionData {
    /// Its id.
    pub id: ActionId,
    /// Its name.
    pub name: String,
    /// The version that planned it.
    pub version: u32,
    /// The action that planned it.
    pub parent: Option<ActionId>,
    /// Its input, with references where outputs are meant.
    pub input: Payload,
    /// Its output so far.
    pub output: Payload,
    /// The run steps whose outputs its input names.
    pub needs: Vec<StepId>,
    /// Its steps.
    pub plan_step: Option<StepId>,
    /// Its run step, if it has one.
    pub run_step: Option<StepId>,
    /// Its finalize step, if it has one.
    pub finalize_step: Option<StepId>,
}

impl Step {
    /// Total run time of its code.
    pub fn execution_time(&self) -> Duration {
        Duration::from_micros(self.ran_us)
    }

    /// From its first call to its end, waiting included.
    pub fn real_time(&self) -> Duration {
        match (self.started_at, self.ended_at) {
            (Some(started), Some(ended)) => ended.since(started),
            _ => Duration::ZERO,
        }
    }

    /// Its progress, in thousandths.
    pub fn done_thousandths(&self) -> u32 {
        match self.state {
            // A dropped step is no open work.
            StepState::Success | StepState::Skipped | StepState::Reverted | StepState::Dropped => {
                1_000
            }
            StepState::Pending | StepState::Scheduling => 0,
            _ => self.progress.unwrap_or(0).min(1_000),
        }
    }

    /// Whether its code is called for the first time in this run of the plan, or was not called.
    pub(crate) fn is_first_call(&self) -> bool {
        self.calls <= self.calls_before + 1
    }

    /// Events that wait for it.
    pub fn waiting_events(&self) -> usize {
        self.inbox.len()
    }
}

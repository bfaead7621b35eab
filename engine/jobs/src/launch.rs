//! Launches of jobs: the rows of their history.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use turnwheel_engine::{PlanId, Time};

use crate::small::is_default;

/// Why a launch was due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Its time had come.
    Schedule,
    /// Its time was missed, and the job's policy makes up for it.
    CatchUp,
    /// Somebody asked for it.
    Manual {
        /// The user.
        by: String,
    },
    /// A launch of a parent ended.
    After {
        /// The parent.
        job: String,
        /// The launch of the parent.
        launch: u64,
    },
}

/// State of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchState {
    /// It waits for its turn.
    Queued,
    /// Runs of it are under way, or wait for another attempt.
    Running,
    /// Every node's last attempt succeeded.
    Succeeded,
    /// Every node's last attempt failed, no node could run it, or its deadline passed.
    Failed,
    /// Some nodes succeeded, and others failed or took longer than the deadline.
    PartlyFailed,
    /// It was cancelled.
    Cancelled,
    /// Nobody knows the outcome; a person is asked for it.
    Unknown,
    /// A policy left it out.
    Skipped,
    /// Its time passed while nothing launched jobs.
    Missed,
}

impl LaunchState {
    /// Whether nothing more happens to it.
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Queued | Self::Running | Self::Unknown)
    }

    /// Its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::PartlyFailed => "partly_failed",
            Self::Cancelled => "cancelled",
            Self::Unknown => "unknown",
            Self::Skipped => "skipped",
            Self::Missed => "missed",
        }
    }
}

/// The outcome of a launch that nobody knew, as a person says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It has done its work.
    Succeeded,
    /// It has not: the launch has failed.
    Failed,
    /// It has not, and is tried again in a further attempt of the same launch.
    Retry,
}

/// State of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// The attempt begins at this time, or when there is a place for it.
    Waiting(Time),
    /// It is under way.
    Running,
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// Nobody knows its outcome, as after the death of its node, and it counts as failed.
    Lost,
    /// Nobody knows its outcome; a person is asked for it.
    Unknown,
}

impl RunState {
    /// Whether nothing more happens to it.
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Waiting(_) | Self::Running)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting(_) => "waiting",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Lost => "lost",
            Self::Unknown => "unknown",
        }
    }
}

/// One attempt on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Its member of the group, from 0: a launch has one for each node that it is for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub member: u32,
    /// The node; a later attempt may be on another one.
    pub node: String,
    /// Number of the attempt of its member, from 1.
    pub attempt: u32,
    /// Number of nodes that had this attempt before, and have gone before it began.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) moves: u32,
    /// Its state.
    pub state: RunState,
    /// The plan, once it has begun.
    #[serde(default, skip_serializing_if = "is_default")]
    pub plan: Option<PlanId>,
    /// When its work began.
    #[serde(default, skip_serializing_if = "is_default")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ended_at: Option<Time>,
    /// Why it did not succeed; empty if it did.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reason: String,
    /// Bytes that it has written.
    #[serde(default, skip_serializing_if = "is_default")]
    pub output_bytes: u64,
    /// Whether only the end of its output is kept.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_cut: bool,
    /// Problems of its processors; its outcome does not depend on them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub note: String,
}

impl Run {
    pub(crate) fn new(member: u32, node: &str, attempt: u32, state: RunState) -> Self {
        Self {
            member,
            node: node.to_owned(),
            attempt,
            moves: 0,
            state,
            plan: None,
            started_at: None,
            ended_at: None,
            reason: String::new(),
            output_bytes: 0,
            is_cut: false,
            note: String::new(),
        }
    }
}

/// The first launch of a chain of dependants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Root {
    /// Its job.
    pub job: String,
    /// Its number.
    pub launch: u64,
}

fn once() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_once(times: &u64) -> bool {
    *times == 1
}

/// One planned time of a job with its outcome: a group of runs, or the reason why there are none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// Its number in the job, from 1.
    pub id: u64,
    /// The planned time; of one by hand or after a parent, when that was.
    pub planned: Time,
    /// When it was decided.
    pub decided: Time,
    /// Why it was due.
    pub cause: Cause,
    /// Its state.
    pub state: LaunchState,
    /// Why it did not succeed; empty if it did.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reason: String,
    /// Number of planned times that it stands for: more than one only of missed times.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub times: u64,
    /// The last of these times, if there are several.
    #[serde(default, skip_serializing_if = "is_default")]
    pub until: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ended_at: Option<Time>,
    /// The user that has cancelled it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cancelled_by: Option<String>,
    /// The user that has said its outcome, which nobody knew.
    #[serde(default, skip_serializing_if = "is_default")]
    pub answered_by: Option<String>,
    /// The first launch of the chain; itself if nothing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub root: Option<Root>,
    /// Its attempts, in the order of their begin.
    #[serde(default, skip_serializing_if = "is_default")]
    pub runs: Vec<Run>,
}

impl Launch {
    /// The launch as it is kept in memory once it is over: without room for more runs, of which a list has
    /// four from its first one on.
    pub(crate) fn kept(mut self) -> Arc<Self> {
        self.runs.shrink_to_fit();
        Arc::new(self)
    }

    /// Whether a run of it has a place on a node, or is about to.
    pub(crate) fn is_under_way(&self) -> bool {
        self.state == LaunchState::Running
    }

    /// Whether a run of it is at work.
    pub(crate) fn is_at_work(&self) -> bool {
        let works = |run: &Run| run.state == RunState::Running && run.started_at.is_some();
        self.is_under_way() && self.runs.iter().any(works)
    }

    /// Shows runs that have not begun as such: they wait for a place or for their key, and a launch
    /// of which nothing has begun is queued.
    pub(crate) fn show_waiting(&mut self) {
        if !self.is_under_way() {
            return;
        }
        for run in &mut self.runs {
            if run.state == RunState::Running && run.started_at.is_none() {
                run.state = RunState::Waiting(self.decided);
            }
        }
        if self.runs.iter().all(|run| matches!(run.state, RunState::Waiting(_))) {
            self.state = LaunchState::Queued;
        }
    }

    /// Whether it is queued because no node can run it.
    pub(crate) fn waits_for_node(&self) -> bool {
        self.state == LaunchState::Queued && !self.reason.is_empty()
    }

    /// Whether a person is asked for its outcome. The job goes on meanwhile.
    pub(crate) fn is_asked(&self) -> bool {
        self.state == LaunchState::Unknown
    }

    /// Whether it has a planned time of the schedule.
    pub(crate) fn is_scheduled(&self) -> bool {
        matches!(self.cause, Cause::Schedule | Cause::CatchUp)
    }

    /// Whether it stands for a planned time.
    pub(crate) fn covers(&self, planned: Time) -> bool {
        self.is_scheduled()
            && self.planned <= planned
            && planned <= self.until.unwrap_or(self.planned)
    }

    /// The idempotency key of a run's plan: made of the job and the planned time, so that it is
    /// known before, and found after.
    pub(crate) fn key(&self, job: &str, made: Time, run: &Run) -> String {
        let (planned, node, attempt) = (self.planned, &run.node, run.attempt);
        let occasion = match &self.cause {
            Cause::Schedule | Cause::CatchUp => String::new(),
            Cause::Manual { .. } => format!("/by-hand-{}", self.id),
            Cause::After { job, launch } => format!("/after-{job}-{launch}"),
        };
        // Those of the first member are as they were when there was one node.
        let member = match (run.member, run.moves) {
            (0, 0) => String::new(),
            (member, moves) => format!("/member-{member}-{moves}"),
        };
        format!("job/{job}/{}/{planned}{occasion}{member}/{node}/{attempt}", made.0)
    }
}

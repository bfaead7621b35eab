//! State of jobs, their launches and executors.

use serde::{Deserialize, Serialize};

use super::job::JobSpec;

/// A page of jobs, by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<JobInfo>,
    /// The `cursor` of the next page, if there is one.
    pub next: Option<String>,
}

/// A job with its settings and its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct JobInfo {
    /// Its settings.
    pub spec: JobSpec,
    /// Number of edits: its ETag.
    pub revision: u64,
    /// When it was made.
    pub created_at: String,
    /// When it was edited last.
    pub changed_at: String,
    /// The user that has edited it last.
    pub changed_by: String,
    /// When its next launch is due.
    pub next: Option<String>,
    /// Why it does not fire although it should.
    pub problem: Option<String>,
    /// State of the launch that ended last.
    pub status: Option<JobLaunchState>,
    /// Runs that succeeded.
    pub success: u64,
    /// Runs that failed.
    pub error: u64,
    /// Launches that a policy left out.
    pub skipped: u64,
    /// Times that were missed and not made up for.
    pub missed: u64,
    /// Runs whose outcome nobody knows.
    pub lost: u64,
    /// When a run succeeded last.
    pub last_success: Option<String>,
    /// When a run failed last.
    pub last_error: Option<String>,
    /// Launches that are under way, wait, or are asked for, oldest first.
    pub active: Vec<JobLaunch>,
    /// The newest launch that is over.
    pub last: Option<JobLaunch>,
    /// Jobs that run after it.
    pub dependants: Vec<String>,
    /// Parents that are not there any more.
    pub gone: Vec<String>,
}

/// Launches of a job, the newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct JobHistory {
    /// The launches.
    pub launches: Vec<JobLaunch>,
    /// The cursor of the next page, if there is one.
    #[serde(default)]
    pub next: Option<String>,
}

/// A launch of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct JobLaunch {
    /// Its number, of its job.
    pub id: u64,
    /// The time for which it was planned.
    pub planned: String,
    /// When it was decided.
    pub decided: String,
    /// Why it was due.
    pub cause: JobCause,
    /// Its state.
    pub state: JobLaunchState,
    /// Why it did not succeed, or was left out; empty if it did.
    pub reason: String,
    /// Number of times that it stands for, if several were missed.
    pub times: u64,
    /// The last of these times.
    pub until: Option<String>,
    /// When it ended.
    pub ended_at: Option<String>,
    /// Who has cancelled it.
    pub cancelled_by: Option<String>,
    /// Who has said its outcome.
    pub answered_by: Option<String>,
    /// Its attempts, on each node.
    pub runs: Vec<JobRunInfo>,
}

/// Why a launch was due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobCause {
    /// Its time had come.
    Schedule,
    /// Its time was missed, and is made up for.
    CatchUp,
    /// This user asked for it.
    Manual(String),
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
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobLaunchState {
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

/// One attempt on one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct JobRunInfo {
    /// The node.
    pub node: String,
    /// Its member of the group, from 0: a launch has one for each node that it is for.
    pub member: u32,
    /// Number of the attempt of its member, from 1.
    pub attempt: u32,
    /// Its state.
    pub state: JobRunState,
    /// When the attempt begins, if it waits.
    pub begins_at: Option<String>,
    /// The plan, once it has begun.
    pub plan: Option<String>,
    /// When its work began.
    pub started_at: Option<String>,
    /// When it ended.
    pub ended_at: Option<String>,
    /// Why it did not succeed; empty if it did.
    pub reason: String,
    /// Bytes that it has written.
    pub output_bytes: u64,
    /// Whether only the end of its output is kept.
    pub output_truncated: bool,
    /// Problems of its processors.
    pub note: String,
}

/// State of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobRunState {
    /// The attempt begins later.
    Waiting,
    /// It is under way.
    Running,
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// Nobody knows its outcome, and it counts as failed.
    Lost,
    /// Nobody knows its outcome; a person is asked for it.
    Unknown,
}

/// A launch by hand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct JobLaunched {
    /// The number of the launch.
    pub launch: u64,
}

/// Jobs that were checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct JobsChecked {
    /// Why jobs would be refused, one for each that would be.
    pub problems: Vec<String>,
}

/// The next times of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct JobTimes {
    /// When its launches begin, jitter included.
    pub times: Vec<String>,
    /// For when each of them is planned, in the same order.
    #[serde(default)]
    pub planned: Vec<String>,
}

/// The output that a run has kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct JobOutput {
    /// The output.
    pub output: String,
    /// Whether only its end was kept.
    pub output_truncated: bool,
}

/// The executors of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct JobExecutors {
    /// The executors, by name.
    pub executors: Vec<JobExecutorInfo>,
}

/// An executor of jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct JobExecutorInfo {
    /// Its name.
    pub name: String,
    /// Whether it can work; nothing if nobody has looked.
    pub is_ready: Option<bool>,
    /// What it says of itself, or what is missing.
    pub detail: String,
}

/// The outcome of a launch that nobody knew, as a person says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobOutcome {
    /// It has done its work.
    Succeeded,
    /// It has not: the launch has failed.
    Failed,
    /// It has not, and is tried again.
    Retry,
}

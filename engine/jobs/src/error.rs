//! Errors of requests about jobs.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// Why a request about a job was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum JobError {
    /// There is no such job.
    #[error("there is no job «{0}»")]
    Unknown(String),
    /// A job has no such launch or run.
    #[error(
        "the job «{job}» has no launch {launch}: turnwheel job history {job} lists those kept"
    )]
    UnknownLaunch {
        /// The job.
        job: String,
        /// The launch or run.
        launch: String,
    },
    /// A launch has ended, so it cannot be cancelled.
    #[error("launch {launch} of «{job}» is over: it is {state}")]
    LaunchOver {
        /// The job.
        job: String,
        /// The launch.
        launch: u64,
        /// The state of the launch.
        state: Cow<'static, str>,
    },
    /// Nobody is asked for the outcome of a launch.
    #[error(
        "launch {launch} of «{job}» asks for no answer: it is {state}, and only one that is unknown \
         by the job's setting «unknown: ask» does"
    )]
    NotAsked {
        /// The job.
        job: String,
        /// The launch.
        launch: u64,
        /// The state of the launch.
        state: Cow<'static, str>,
    },
    /// A launch has no run yet, or never gets one.
    #[error("launch {launch} of «{job}» has no run: it is {state}")]
    NoRun {
        /// The job.
        job: String,
        /// The launch.
        launch: u64,
        /// The state of the launch.
        state: Cow<'static, str>,
    },
    /// A parent does not exist.
    #[error("the job «{job}» is to run after «{parent}», and there is no such job: add it first")]
    UnknownParent {
        /// The job.
        job: String,
        /// The missing parent.
        parent: String,
    },
    /// A setting is wrong.
    #[error("{}{setting}: {problem}", of_job(job))]
    Setting {
        /// The job.
        job: String,
        /// The setting.
        setting: Cow<'static, str>,
        /// The problem, and its remedy.
        problem: String,
    },
    /// Jobs would run after themselves.
    #[error("job «{job}», after: the jobs would wait for each other: {cycle}")]
    Cycle {
        /// The job.
        job: String,
        /// The names along the cycle.
        cycle: String,
    },
    /// Another edit came first.
    #[error(
        "the job «{job}» was changed meanwhile: its revision is {found}, not {expected}; read it \
         again and repeat the edit"
    )]
    Changed {
        /// The job.
        job: String,
        /// The revision of the edit.
        expected: u64,
        /// The revision now.
        found: u64,
    },
    /// Other jobs run after it.
    #[error(
        "the job «{job}» has dependants: remove {children} first, or let them run after others"
    )]
    HasDependants {
        /// The job.
        job: String,
        /// Their names.
        children: String,
    },
    /// The overlap policy refuses a launch by hand.
    #[error("the job «{job}» is not launched: {problem}; force it to launch all the same")]
    Overlaps {
        /// The job.
        job: String,
        /// The change under way.
        problem: String,
    },
    /// The key of a launch by hand has launched it in another way.
    #[error(
        "the key has launched «{job}» already, as launch {launch}, and with another «force»: take a \
         new key"
    )]
    KeyReused {
        /// The job.
        job: String,
        /// The launch of the first request.
        launch: u64,
    },
    /// A job is being removed.
    #[error(
        "the job «{0}» is being removed: it goes when its runs, which were cancelled, have \
         ended; try again then"
    )]
    Leaving(String),
    /// Changes of jobs are paused.
    #[error("changes of jobs are paused by {by}: unpause them first")]
    Paused {
        /// The user that has paused them.
        by: String,
    },
    /// There is no room for more.
    #[error("there are {0} jobs, which is the limit: remove some")]
    TooMany(usize),
    /// Only a server launches jobs.
    #[error("nothing launches jobs in this process: start turnwheel serve over the store")]
    AtRest,
    /// The store failed, or the jobs have ended.
    #[error("jobs: {0}")]
    Failed(String),
}

/// The job of a setting, if it is known.
fn of_job(job: &str) -> String {
    if job.is_empty() {
        String::new()
    } else {
        format!("job «{job}», ")
    }
}

impl JobError {
    pub(crate) fn setting(job: &str, setting: &'static str, problem: impl Into<String>) -> Self {
        let (job, setting, problem) = (job.to_owned(), Cow::Borrowed(setting), problem.into());
        Self::Setting { job, setting, problem }
    }
}

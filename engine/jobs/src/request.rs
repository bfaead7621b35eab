//! Requests to the jobs of a store, and their answers: one world serves them, and the others ask
//! it.

use serde::{Deserialize, Serialize};
use turnwheel_engine::Time;

use crate::error::JobError;
use crate::launch::{Answer, Launch};
use crate::node::Node;
use crate::spec::JobSpec;
use crate::view::{JobView, NextLaunch};

/// Name of the service, and the key whose owner serves.
pub(crate) const SERVICE: &str = "jobs";

/// A request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum JobRequest {
    Put {
        spec: Box<JobSpec>,
        revision: Option<u64>,
        by: String,
    },
    /// Jobs with the revisions that are edited: would they be stored?
    Check {
        edits: Vec<(JobSpec, Option<u64>)>,
    },
    Get {
        name: String,
    },
    List {
        after: String,
        limit: usize,
    },
    Remove {
        name: String,
        revision: Option<u64>,
    },
    Toggle {
        name: String,
        disabled: Option<bool>,
        by: String,
    },
    Run {
        name: String,
        by: String,
        is_forced: bool,
        /// A second request with this key is answered with the launch of the first one.
        #[serde(default)]
        key: Option<String>,
    },
    Cancel {
        name: String,
        launch: u64,
        by: String,
    },
    Answer {
        name: String,
        launch: u64,
        answer: Answer,
        by: String,
    },
    Forget {
        name: String,
    },
    /// A run has begun, as its node says; the key is that of its plan.
    Began {
        name: String,
        launch: u64,
        key: String,
        at: Time,
    },
    /// The launches at work.
    Busy,
    Recent {
        name: String,
    },
    Times {
        name: String,
        limit: usize,
    },
    Server,
    PausedBy,
    Pause {
        by: Option<String>,
    },
}

impl JobRequest {
    /// The job that it is about, if it is about one.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Put { spec, .. } => Some(&spec.name),
            Self::Get { name }
            | Self::Remove { name, .. }
            | Self::Toggle { name, .. }
            | Self::Run { name, .. }
            | Self::Cancel { name, .. }
            | Self::Answer { name, .. }
            | Self::Forget { name }
            | Self::Began { name, .. }
            | Self::Recent { name }
            | Self::Times { name, .. } => Some(name),
            Self::Busy
            | Self::Check { .. }
            | Self::List { .. }
            | Self::Server
            | Self::PausedBy
            | Self::Pause { .. } => None,
        }
    }
}

/// The newest launches of a job, and where the older ones are.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Recent {
    pub(crate) launches: Vec<Launch>,
    pub(crate) pages: (u64, u64),
    pub(crate) made: Time,
    pub(crate) keep: u32,
    /// Launches that ended before are not shown.
    pub(crate) from: Option<Time>,
}

/// The answer to a request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum JobAnswer {
    View(Box<JobView>),
    Views(Vec<JobView>),
    Launch(u64),
    /// The launch of an earlier request with the same key.
    Repeated(u64),
    Busy(Vec<(String, Launch)>),
    Recent(Box<Recent>),
    Next(Vec<NextLaunch>),
    Problems(Vec<JobError>),
    Node(Node),
    PausedBy(Option<String>),
    Done,
}

pub(crate) type Outcome = Result<JobAnswer, JobError>;

/// Told the answer.
pub(crate) struct Reply {
    tell: Box<dyn FnOnce(Outcome) + Send>,
    /// Whether another world asks: it knows whom to ask again.
    pub(crate) is_remote: bool,
}

impl Reply {
    pub(crate) fn here(tell: impl FnOnce(Outcome) + Send + 'static) -> Self {
        Self { tell: Box::new(tell), is_remote: false }
    }

    pub(crate) fn remote(tell: impl FnOnce(Outcome) + Send + 'static) -> Self {
        Self { tell: Box::new(tell), is_remote: true }
    }

    pub(crate) fn tell(self, outcome: Outcome) {
        (self.tell)(outcome);
    }
}

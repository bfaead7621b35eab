//! Errors of journeys.

use turnwheel_flow::Problems;

/// Why a request was refused, or has failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the text of an error names its fields")]
pub enum JourneyError {
    /// The definition is wrong.
    #[error("{0}")]
    Definition(Box<Problems>),
    /// There is no journey of this name.
    #[error("there is no journey «{0}»: turnwheel journey list shows all")]
    Unknown(String),
    /// A part of a request is wrong.
    #[error("{what}: {problem}")]
    Invalid { what: &'static str, problem: String },
    /// The attributes of a user were changed since they were read.
    #[error("user «{user}» has revision {found} and not {expected}: read it again")]
    Changed { user: String, expected: u64, found: u64 },
    /// A message of a user that is to be sent again was not given up.
    #[error(
        "user «{user}» has no message {}that was given up: see «lost» of turnwheel journey user",
        key.as_ref().map(|key| format!("«{key}» ")).unwrap_or_default()
    )]
    NotLost { user: String, key: Option<String> },
    /// Too many requests are under way. Ask again later.
    #[error("too many requests of journeys are under way: ask again later")]
    Busy,
    /// The store failed, or the journeys have ended. It may be asked again: an event with the same
    /// id counts once.
    #[error("{0}")]
    Failed(String),
}

impl JourneyError {
    pub(crate) fn failed(problem: impl ToString) -> Self {
        Self::Failed(problem.to_string())
    }
}

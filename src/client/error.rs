//! Errors between client and server.

use crate::api::Problem;

/// A request was not answered as it was meant.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server has refused it, and says why.
    #[error("the server refuses: {0}")]
    Refused(Box<Problem>),
    /// There was no answer. The request may have been carried out: an idempotency key makes it safe
    /// to repeat it.
    #[error("no answer from {url}: {problem}")]
    Lost {
        /// The request.
        url: String,
        /// Why.
        problem: String,
    },
    /// Something else than a Turnwheel server has answered.
    #[error("an answer with status {status} that no Turnwheel server gives: {text}")]
    Foreign {
        /// Its status.
        status: u16,
        /// The begin of its text.
        text: String,
    },
    /// The request cannot be written as JSON.
    #[error("the request cannot be written: {0}")]
    Unwritable(#[source] serde_json::Error),
    /// The certificates that are to be trusted cannot be read.
    #[error("the certificates: {0}")]
    Untrusted(String),
    /// The answer has an unexpected form: the server may have another version.
    #[error("the answer cannot be understood: {0}")]
    Unreadable(#[source] serde_json::Error),
}

impl ClientError {
    /// Whether the same request can work later: there was no answer, the server has too many
    /// requests, or it is in trouble. A lease that was not answered may have been given all the same.
    pub fn is_retryable(&self) -> bool {
        let status = match self {
            Self::Lost { .. } => return true,
            Self::Refused(problem) => problem.status,
            Self::Foreign { status, .. } => *status,
            Self::Unwritable(_) | Self::Unreadable(_) | Self::Untrusted(_) => return false,
        };
        matches!(status, 408 | 429 | 500 | 502..=504 | 507)
    }

    /// The code of the problem, if the server has refused the request; see `docs/errors.md`.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(problem) => Some(&problem.code),
            _ => None,
        }
    }
}

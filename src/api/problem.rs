//! Answer to a request that is refused or fails.

use serde::{Deserialize, Serialize};

/// A problem, as RFC 9457 describes it (`application/problem+json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Problem {
    /// The page that explains it.
    #[serde(rename = "type")]
    pub kind: String,
    /// A short title; the same for each problem with this code.
    pub title: String,
    /// The status of the answer.
    pub status: u16,
    /// The problem here, its place, and the remedy.
    pub detail: String,
    /// The code of the problem, for programs; it never changes.
    pub code: String,
    /// The plan that it is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Of the source of a flow: each thing that is wrong, with its place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<super::FlowProblem>,
    /// The trace that the request belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}, {})", self.detail, self.code, self.status)
    }
}

impl std::error::Error for Problem {}

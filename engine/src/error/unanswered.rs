//! Texts for requests that were not taken or not answered, in the words of the engine's users.

use turnwheel_runtime::{Failure, SubmitErrorKind};

use super::StoreError;
use crate::id::PlanId;

/// Says why a request has no answer, and what to do.
pub fn unanswered(failure: &Failure) -> String {
    match failure {
        Failure::Abandoned | Failure::Closed | Failure::Killed | Failure::Cancelled => {
            "the world ended before it answered: ask a world that runs over this store".to_owned()
        }
        Failure::WouldBlock => {
            "a worker thread may not wait for it by blocking: use `.await`".to_owned()
        }
        other => other.to_string(),
    }
}

/// Says why a request was not taken, and what to do.
pub(crate) fn not_taken(kind: SubmitErrorKind) -> String {
    match kind {
        SubmitErrorKind::Closed => "the world has ended: ask a world that runs over this store",
        SubmitErrorKind::Full => "too many requests wait for it: ask again in a moment",
        SubmitErrorKind::GroupMemory => {
            "the requests that wait fill the world's memory budget: ask again in a moment"
        }
        other => return other.to_string(),
    }
    .to_owned()
}

impl StoreError {
    /// The error of a read or write that has no answer.
    pub(crate) fn unanswered(failure: &Failure) -> Self {
        Self::Failed(unanswered(failure))
    }
}

/// The entries that were not written.
pub(super) fn of_plans(plans: &[PlanId]) -> String {
    match plans {
        [] => "the last commits were".to_owned(),
        [plan] => format!("the newest entry of plan {plan} was"),
        [plan, ..] => format!("the newest entries of {} plans, as of {plan}, were", plans.len()),
    }
}

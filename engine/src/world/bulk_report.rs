//! Results of a bulk order, for each of its plans.

use crate::error::PlanError;
use crate::id::PlanId;

/// Outcome for one plan.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum BulkOutcome {
    /// It would be done: a dry run changes nothing.
    Would,
    /// It was done, and is durable.
    Done,
    /// It was not done, or would not be, because the plan is not in a state for it.
    Left {
        /// Why.
        why: String,
    },
    /// It could not be done.
    Failed(PlanError),
}

/// One plan of a bulk operation.
#[derive(Clone, Debug)]
pub struct BulkPlan {
    /// The plan.
    pub plan: PlanId,
    /// Its label.
    pub label: String,
    /// Its outcome.
    pub outcome: BulkOutcome,
}

/// Outcomes of a bulk operation.
#[derive(Clone, Debug, Default)]
pub struct BulkReport {
    /// The plans that fit, in the order of the filter.
    pub plans: Vec<BulkPlan>,
    /// Whether more plans fit than the operation was allowed to take: the first ones were taken.
    pub has_more: bool,
}

impl BulkReport {
    /// Number of plans changed, or that would be changed.
    pub fn touched(&self) -> usize {
        self.count(|outcome| matches!(outcome, BulkOutcome::Would | BulkOutcome::Done))
    }

    /// Number of plans left unchanged, or that would be.
    pub fn left(&self) -> usize {
        self.count(|outcome| matches!(outcome, BulkOutcome::Left { .. }))
    }

    /// Number of plans whose order failed.
    pub fn failed(&self) -> usize {
        self.count(|outcome| matches!(outcome, BulkOutcome::Failed(_)))
    }

    fn count(&self, fits: fn(&BulkOutcome) -> bool) -> usize {
        self.plans.iter().filter(|plan| fits(&plan.outcome)).count()
    }
}

/// Progress of a bulk operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkProgress {
    /// Plans whose outcome is known.
    pub done: usize,
    /// All plans that fit.
    pub total: usize,
}

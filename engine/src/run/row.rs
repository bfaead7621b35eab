//! The row of a plan.

use crate::plan::{Plan, PlanState};
use crate::store::PlanRow;

/// What search shows of a plan.
pub(crate) fn row(plan: &Plan) -> PlanRow {
    PlanRow {
        id: plan.id,
        head: 0,
        state: plan.state,
        result: plan.result(),
        label: plan.label.clone(),
        created_at: plan.created.at,
        started_at: plan.started_at,
        ended_at: plan.ended_at,
        wakes_at: plan.wakes_at(),
        is_busy: plan.is_busy()
            || plan.state == PlanState::Planned
            || plan.waits_for_plans()
            || !plan.hooks_due.is_empty(),
        caller: plan.created.caller,
        waits_for: plan.waits_for(),
        snapshot: None,
    }
}

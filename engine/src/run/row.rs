//! The row of a plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::picture::{failure_of, plain};
use crate::plan::{Plan, PlanState};
use crate::store::PlanRow;

/// Texts that the rows of a plan share.
#[derive(Clone)]
pub(super) struct Names {
    label: Arc<str>,
    action: Arc<str>,
    by: Arc<str>,
}

impl Names {
    fn of(plan: &Plan) -> Self {
        let created = &plan.created;
        Self {
            label: Arc::from(&*plan.label),
            action: Arc::from(&*created.action),
            by: Arc::from(&*created.by),
        }
    }
}

/// The row of a plan for searches.
pub fn row(plan: &Plan) -> PlanRow {
    row_with(plan, &mut None)
}

/// The row of a plan, with the texts of the row before it if they are the same.
pub(super) fn row_with(plan: &Plan, names: &mut Option<Names>) -> PlanRow {
    let known = names.take().filter(|names| *names.label == plan.label);
    let Names { label, action, by } =
        names.insert(known.unwrap_or_else(|| Names::of(plan))).clone();
    let (waits, mut waits_for) = plan.wait();
    waits_for = match plan.state {
        PlanState::Stopped => failure_of(plan).unwrap_or_default(),
        // As it is shown: a search finds it by that.
        _ => plain(&waits_for),
    };
    PlanRow {
        id: plan.id,
        head: 0,
        state: plan.state,
        result: plan.result(),
        label,
        action,
        by,
        labels: labels(plan),
        created_at: plan.created.at,
        started_at: plan.started_at,
        ended_at: plan.ended_at,
        wakes_at: plan.wakes_at(),
        is_busy: !plan.hooks_due.is_empty()
            || plan.undelivered().next().is_some()
            || !plan.children.unwanted().is_empty()
            || (plan.state != PlanState::Stopped && goes_on(plan)),
        caller: plan.created.caller,
        waits,
        waits_for,
        snapshot: None,
    }
}

/// Whether a start has to look after it at once. A halted plan has steps that run no more; one
/// between two of its runs has no step that waits.
fn goes_on(plan: &Plan) -> bool {
    plan.is_busy()
        || plan.state == PlanState::Planned
        || (plan.state == PlanState::Running && plan.is_settled())
        || plan.waits_for_plans()
}

/// Its labels, and those by which its promises are found.
fn labels(plan: &Plan) -> BTreeMap<String, String> {
    let mut labels = plan.labels.clone();
    labels.extend(plan.promise_labels().map(|label| (label, String::new())));
    labels
}

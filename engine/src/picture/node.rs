//! A plan and a step, as they stand, without their values.

use std::collections::HashMap;

use serde::Serialize;

use super::{error_of, name_of, state_of, Can, CanDo};
use crate::error::ActionError;
use crate::id::{ActionId, PlanId, StepId};
use crate::plan::{Plan, PlanResult, PlanState, Step, StepKind, StepState, SubPlanCounts, Waiting};
use crate::time::Time;

/// A plan as it stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PlanHead {
    /// Its id.
    pub id: PlanId,
    /// Its label.
    pub label: String,
    /// Its state.
    pub state: PlanState,
    /// Its result.
    pub result: PlanResult,
    /// The principal or plan that triggered it.
    pub by: String,
    /// The plan and step that have asked for it.
    pub caller: Option<(PlanId, StepId)>,
    /// When it was created.
    pub created_at: Time,
    /// When its planning began.
    pub started_at: Option<Time>,
    /// When it was stopped.
    pub ended_at: Option<Time>,
    /// When it has to do something by itself.
    pub wakes_at: Option<Time>,
    /// Its progress, from 0 to 1.
    pub progress: f64,
    /// Its reason for waiting.
    pub waiting: Waiting,
    /// The same for people; empty if it does not wait.
    pub waits_for: String,
    /// Why planning failed.
    pub error: Option<ActionError>,
    /// The orders that it takes now.
    pub can: CanDo,
}

impl PlanHead {
    pub(super) fn of(plan: &Plan) -> Self {
        Self {
            id: plan.id,
            label: plan.label.clone(),
            state: plan.state,
            result: plan.result(),
            by: plan.created.by.clone(),
            caller: plan.created.caller,
            created_at: plan.created.at,
            started_at: plan.started_at,
            ended_at: plan.ended_at,
            wakes_at: plan.wakes_at(),
            progress: plan.progress(),
            waiting: plan.waiting(),
            waits_for: plan.waits_for(),
            error: plan.planning_error.clone(),
            can: plan.can(),
        }
    }
}

/// Numbers of sub-plans of steps by state.
pub(super) type SubPlanCountsOf = HashMap<StepId, SubPlanCounts>;

/// A step as it stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StepNode {
    /// Its id.
    pub step: StepId,
    /// Its action.
    pub action: ActionId,
    /// Display name of its action; see [`name_of`].
    pub name: String,
    /// Phase of its action.
    pub kind: StepKind,
    /// Its state.
    pub state: StepState,
    /// Attempts so far: failures and crashes count, events do not.
    pub attempts: u32,
    /// Calls of its code so far.
    pub calls: u32,
    /// When its code was first called.
    pub started_at: Option<Time>,
    /// When it ended.
    pub ended_at: Option<Time>,
    /// Total run time of its code, in microseconds.
    pub ran_us: u64,
    /// From its begin to its end, waiting included, in microseconds; 0 if it has not ended.
    pub took_us: u64,
    /// Its progress, in thousandths.
    pub progress: u32,
    /// Its share of the plan's progress, in thousandths.
    pub weight: u32,
    /// The queue that its code runs in.
    pub queue: String,
    /// Whether it waits for a place there.
    pub is_queued: bool,
    /// What it waits for, for people; empty if it does not wait.
    pub waits_for: String,
    /// When its next attempt is due.
    pub retry_at: Option<Time>,
    /// When it must be done.
    pub limit: Option<Time>,
    /// Events that wait for it.
    pub events: usize,
    /// Numbers of its sub-plans by state.
    pub sub_plans: SubPlanCounts,
    /// Why it failed the last time it ended.
    pub error: Option<ActionError>,
    /// The orders that it takes now.
    pub can: Vec<Can>,
}

impl StepNode {
    pub(super) fn of(plan: &Plan, step: &Step, counts: &SubPlanCountsOf) -> Self {
        let counts = counts.get(&step.id).copied().unwrap_or_default();
        let took = u64::try_from(step.real_time().as_micros()).unwrap_or(u64::MAX);
        let waits_for = match step.state {
            StepState::Retrying => format!("attempt {}", step.attempt + 1),
            _ if counts.pending > 0 => format!("{} of {} sub-plans", counts.pending, counts.total),
            StepState::Suspended => step.waits_for.clone(),
            _ if step.is_queued => step.waits_for.clone(),
            _ => String::new(),
        };
        let action = plan.action(step.action);
        Self {
            step: step.id,
            action: step.action,
            name: name_of(action),
            kind: step.kind,
            state: state_of(action, step),
            attempts: step.attempt,
            calls: step.calls,
            started_at: step.started_at,
            ended_at: step.ended_at,
            ran_us: step.ran_us,
            took_us: took,
            progress: step.done_thousandths(),
            weight: step.weight,
            queue: step.queue.clone(),
            is_queued: step.is_queued,
            waits_for,
            retry_at: step.retry_at,
            limit: step.limit,
            events: step.waiting_events(),
            sub_plans: counts,
            error: error_of(action, step),
            can: plan.can_with(step),
        }
    }
}

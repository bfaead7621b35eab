//! Plans and steps.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use turnwheel_engine::picture::{error_of, failure_of, name_of, plain, state_of, task_place, Can};
use turnwheel_engine::plan::{ActionData, Step};
use turnwheel_engine::store::{Count, PlanRow};
use turnwheel_engine::{ActionError, Plan, PlanState, PlanView, Shown, StepKind, StepState, Time};

use super::{Presents, HISTORY_SHOWN, SUB_PLANS_SHOWN};
use crate::api;

/// A time as the API writes it.
pub fn time(time: Time) -> String {
    time.to_string()
}

/// The same, if there is one.
pub fn times(time: Option<Time>) -> Option<String> {
    time.map(|time| time.to_string())
}

/// A text; nothing for an empty one.
pub fn said(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// Milliseconds with their fraction.
pub fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

/// An error of an action.
pub fn error(error: &ActionError) -> api::ErrorInfo {
    api::ErrorInfo {
        kind: error.kind.clone(),
        message: error.message.clone(),
        is_final: error.is_final,
    }
}

/// Plans that are alike.
pub fn count(count: &Count) -> api::CountInfo {
    api::CountInfo {
        state: count.state.name().to_owned(),
        result: count.result.name().to_owned(),
        waits: count.waits.name().to_owned(),
        plans: count.plans,
    }
}

/// The possible orders, by their names.
pub fn names(can: &[Can]) -> Vec<String> {
    let name = |can: &Can| match serde_json::to_value(can) {
        Ok(Value::String(name)) => Some(name),
        _ => None,
    };
    can.iter().filter_map(name).collect()
}

fn possible(plan: &Plan) -> Vec<String> {
    let mut possible = names(&plan.can());
    let failed = |step: &Step| matches!(step.state, StepState::Error | StepState::RevertFailed);
    if plan.state == PlanState::Paused && plan.steps.iter().any(failed) {
        possible.extend(["skip_failed", "retry_failed", "fail"].map(str::to_owned));
    }
    possible
}

/// A row of the list of plans.
pub fn row(row: PlanRow) -> api::PlanSummary {
    // The store has one column for both: a plan that is over waits for nothing.
    let is_over = row.state == PlanState::Stopped;
    let (error, waits_for) =
        if is_over { (row.waits_for, String::new()) } else { (String::new(), row.waits_for) };
    api::PlanSummary {
        id: row.id.to_string(),
        label: row.label.to_string(),
        action: row.action.to_string(),
        by: row.by.to_string(),
        labels: row.labels,
        waits: row.waits.name().to_owned(),
        state: row.state.name().to_owned(),
        result: row.result.name().to_owned(),
        created_at: time(row.created_at),
        started_at: times(row.started_at),
        ended_at: times(row.ended_at),
        wakes_at: times(row.wakes_at),
        waits_for: said(waits_for),
        error: said(error),
        caller: row
            .caller
            .map(|(plan, step)| api::CallerInfo { plan: plan.to_string(), step: step.0 }),
    }
}

fn summary(plan: &Plan) -> api::PlanSummary {
    let caller = plan.created.caller;
    api::PlanSummary {
        id: plan.id.to_string(),
        label: plan.label.clone(),
        action: plan.created.action.clone(),
        by: plan.created.by.clone(),
        labels: plan.labels.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        waits: plan.waiting().name().to_owned(),
        state: plan.state.name().to_owned(),
        result: plan.result().name().to_owned(),
        created_at: time(plan.created.at),
        started_at: times(plan.started_at),
        ended_at: times(plan.ended_at),
        wakes_at: times(plan.wakes_at()),
        waits_for: said(plain(&plan.waits_for())),
        error: failure_of(plan).filter(|_| plan.state == PlanState::Stopped),
        caller: caller.map(|(plan, step)| api::CallerInfo { plan: plan.to_string(), step: step.0 }),
    }
}

/// A plan, without its steps.
pub fn plan(presenter: &impl Presents, plan: &PlanView) -> api::PlanDetail {
    let root = plan.actions.first().and_then(|root| presenter.shown(plan, root.id));
    let root = root.as_ref();
    let mut steps = BTreeMap::new();
    for step in &plan.steps {
        let state = state_of(plan.action(step.action), step);
        *steps.entry(state.name().to_owned()).or_insert(0) += 1;
    }
    let history = &plan.history[plan.history.len().saturating_sub(HISTORY_SHOWN)..];
    api::PlanDetail {
        summary: summary(plan),
        key: plan.created.key.clone(),
        traceparent: plan.created.trace.as_ref().map(|trace| trace.parent.clone()),
        priority: plan.created.priority,
        deadline: times(plan.created.deadline),
        progress: plan.progress(),
        ran_ms: ms(plan.execution_time()),
        input: root.map_or(Value::Null, |root| root.input.clone()),
        output: root.map_or(Value::Null, |root| root.output.clone()),
        outcome: root.and_then(|root| root.summary.clone()),
        possible: possible(plan),
        cancel: plan.cancel.as_ref().map(|cancel| api::CancelInfo {
            at: time(cancel.at),
            by: cancel.by.clone(),
            is_forced: cancel.is_forced,
        }),
        is_reverting: plan.is_reverting,
        planning_error: plan.planning_error.as_ref().map(error),
        steps,
        tasks: tasks(plan),
        locks: plan.locks.iter().map(|lock| lock.name.clone()).collect(),
        delayed: plan.delayed.as_ref().map(|delayed| api::DelayInfo {
            start_at: times(delayed.start_at),
            start_before: times(delayed.start_before),
            is_frozen: delayed.is_frozen,
            after: delayed
                .after
                .iter()
                .map(|(plan, result)| (plan.to_string(), result.map(|r| r.name().to_owned())))
                .collect(),
        }),
        timers: plan
            .timers
            .values()
            .map(|timer| api::TimerInfo { step: timer.step.0, due: time(timer.due) })
            .collect(),
        sub_plans: sub_plans(plan),
        history: history
            .iter()
            .map(|entry| api::HistoryLine { at: time(entry.at), text: entry.text.clone() })
            .collect(),
    }
}

/// Tasks of a flow by state.
fn tasks(plan: &Plan) -> BTreeMap<String, u32> {
    let state = |action: &ActionData| Some(state_of(action, plan.step(action.run_step?)));
    let known =
        plan.actions.iter().filter_map(|action| Some((task_place(action)?, state(action)?)));
    // Later runs of a task replace earlier ones.
    let last: BTreeMap<String, StepState> = known.collect();
    last.into_values().fold(BTreeMap::new(), |mut counts, state| {
        *counts.entry(state.name().to_owned()).or_insert(0) += 1;
        counts
    })
}

fn sub_plans(plan: &Plan) -> Vec<api::SubPlanInfo> {
    let all = plan.sub_plans().take(SUB_PLANS_SHOWN);
    all.map(|(id, child)| api::SubPlanInfo {
        plan: id.to_string(),
        step: child.step.0,
        action: child.action.clone(),
        result: child.result.map(|result| result.name().to_owned()),
    })
    .collect()
}

/// A step, with the state of its action in the action's words.
pub fn step(presenter: &impl Presents, plan: &PlanView, step: &Step) -> api::StepInfo {
    let data = plan.action(step.action);
    let action = presenter.shown(plan, step.action);
    let action = action.as_ref();
    let value = |of: fn(&Shown) -> &Value| action.map_or(Value::Null, |shown| of(shown).clone());
    let beat = step.beat.as_ref();
    api::StepInfo {
        id: step.id.0,
        phase: step.kind.name().to_owned(),
        action: step.action.0,
        name: action.map_or_else(|| name_of(data), |shown| shown.name.clone()),
        state: state_of(data, step).name().to_owned(),
        shown: action.map_or_else(String::new, |shown| shown.state.clone()),
        outcome: action.and_then(|shown| shown.summary.clone()),
        error: error_of(data, step).as_ref().map(error),
        revert_error: step.revert_error.as_ref().map(error),
        started_at: times(step.started_at),
        ended_at: times(step.ended_at),
        retry_at: times(step.retry_at),
        limit: times(step.limit),
        ran_ms: ms(step.execution_time()),
        attempt: step.attempt,
        calls: step.calls,
        progress: f64::from(step.done_thousandths()) / 1_000.0,
        queue: step.queue.clone(),
        is_queued: step.is_queued,
        waits_for: said(step.waits_for.clone()),
        waiting_events: u32::try_from(step.waiting_events()).unwrap_or(u32::MAX),
        beat_at: beat.map(|beat| time(beat.at)),
        beat: beat.and_then(|beat| beat.details.as_ref()?.read().ok()),
        possible: names(&plan.can_with(step)),
        input: value(|shown| &shown.input),
        output: if step.kind == StepKind::Plan {
            Value::Null
        } else {
            value(|shown| &shown.output)
        },
    }
}

//! The steps of a plan.

use axum::extract::State;
use axum::Json as Answer;
use serde::Deserialize;
use turnwheel_engine::picture::state_of;
use turnwheel_engine::plan::Step;
use turnwheel_engine::{StepId, StepState};
use utoipa::IntoParams;

use super::plans::page;
use crate::api::{StepInfo, StepPage};
use crate::http::body::{PlanAt, Query, StepAt};
use crate::http::code::Code;
use crate::http::cursor::{self, List};
use crate::http::limits::STEP_PAGE_MAX;
use crate::http::problem::Problem;
use crate::http::show;
use crate::http::state::Api;

/// The requested steps.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct StepsQuery {
    /// Only steps in these states, with commas between.
    state: Option<String>,
    /// Maximum number of steps; 500 at most.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u32>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// The steps of a plan, in their order
#[utoipa::path(
    get, path = "/plans/{plan}/steps", tag = "steps", operation_id = "listSteps",
    params(("plan" = String, Path, description = "The plan"), StepsQuery),
    responses((status = 200, description = "A page of steps", body = StepPage)),
)]
pub(in crate::http) async fn list(
    State(api): State<Api>,
    PlanAt(id): PlanAt,
    Query(query): Query<StepsQuery>,
) -> Result<Answer<StepPage>, Problem> {
    let limit = page(query.limit, STEP_PAGE_MAX)?;
    let states = step_states(query.state.as_deref())?;
    let from = cursor::place(List::Steps, query.cursor.as_deref())?.map_or(0, u32::from_be_bytes);
    let plan = api.world().plan(id).view().await?;
    let fits = |state: &str| states.is_empty() || states.contains(&state);
    let mut steps = Vec::new();
    let mut next = None;
    let state = |step: &Step| state_of(plan.action(step.action), step);
    for step in plan.steps.iter().skip(from as usize).filter(|step| fits(state(step).name())) {
        if steps.len() == limit {
            // The next page begins with this one.
            next = Some(cursor::write(List::Steps, &(step.id.0 - 1).to_be_bytes()));
            break;
        }
        steps.push(show::step(api.world(), &plan, step));
    }
    Ok(Answer(StepPage { steps, next }))
}

/// The requested states.
pub(in crate::http) fn step_states(words: Option<&str>) -> Result<Vec<&str>, Problem> {
    let words = words.unwrap_or_default().split(',');
    let states: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    match states.iter().find(|name| StepState::from_name(name).is_none()) {
        Some(unknown) => {
            let detail = format!("there is no state of steps «{unknown}»");
            Err(Problem::new(Code::QueryInvalid, detail))
        }
        None => Ok(states),
    }
}

/// A step of a plan
#[utoipa::path(
    get, path = "/plans/{plan}/steps/{step}", tag = "steps", operation_id = "getStep",
    params(
        ("plan" = String, Path, description = "The plan"),
        ("step" = u32, Path, description = "The number of the step"),
    ),
    responses((status = 200, description = "The step", body = StepInfo)),
)]
pub(in crate::http) async fn get(
    State(api): State<Api>,
    PlanAt(id): PlanAt,
    StepAt(step): StepAt,
) -> Result<Answer<StepInfo>, Problem> {
    let plan = api.world().plan(id).view().await?;
    let found = plan.find_step(step).ok_or_else(|| unknown(id, step))?;
    Ok(Answer(show::step(api.world(), &plan, found)))
}

/// The problem that a plan has no such step.
pub(in crate::http) fn unknown(plan: impl ToString, step: StepId) -> Problem {
    let plan = plan.to_string();
    let detail = format!("plan {plan} has no step {step}: GET /plans/{plan}/steps lists them");
    Problem::new(Code::StepUnknown, detail).of_plan(plan)
}

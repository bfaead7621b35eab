//! Plans in place of others: the retry of a failed flow, and the same once more.

use axum::extract::State;
use axum::response::Response;
use turnwheel_engine::{Action, Payload, PlanView, TriggerOptions, MASK};
use turnwheel_flow::{in_place_of, Flow, FlowPlan, FlowStart, Flows, AGAIN_OF};

use super::plans::scoped;
use super::start::{finish, traced};
use crate::api::{Rerun, Started};
use crate::http::body::{Json, Key, PlanAt, Who};
use crate::http::problem::Problem;
use crate::http::state::Api;

/// Starts a failed flow from its failed task; the answer comes when the new plan is durable
///
/// Tasks that were done are not done again. The new plan has the label `retry.of`. A second retry of the
/// same plan answers the plan of the first one.
#[utoipa::path(
    post, path = "/plans/{plan}/retry", tag = "plans", operation_id = "retryPlan",
    request_body = Rerun, params(("plan" = String, Path, description = "The failed plan")),
    responses(
        (status = 201, description = "The new plan is durable", body = Started),
        (status = 200, description = "It was there already", body = Started),
    ),
)]
pub(in crate::http) async fn retry(
    State(api): State<Api>,
    Who(who): Who,
    PlanAt(id): PlanAt,
    Json(rerun): Json<Rerun>,
) -> Result<Response, Problem> {
    api.takes_work()?;
    let failed = api.world().plan(id).view().await?;
    let flows = Flows::new(api.world())?;
    let flow = version_of(&flows, &flows.start_of(&failed)?, &rerun).await?;
    let options = traced(TriggerOptions::new().by(&*who.name));
    let named = flows.retry(&failed, flow.as_ref(), rerun.input, options).await?;
    finish(&who, &format!("retry of {id}"), named, 2).await
}

/// Runs a plan again from its begin, with its input or another one
///
/// The new plan has the labels of the old one, and the label `again.of`.
#[utoipa::path(
    post, path = "/plans/{plan}/again", tag = "plans", operation_id = "runPlanAgain",
    request_body = Rerun,
    params(
        ("plan" = String, Path, description = "The plan"),
        ("Idempotency-Key" = Option<String>, Header,
            description = "A second request with the same key and body answers the plan of the first one"),
    ),
    responses(
        (status = 201, description = "The new plan is durable", body = Started),
        (status = 200, description = "It was there already", body = Started),
    ),
)]
pub(in crate::http) async fn again(
    State(api): State<Api>,
    Who(who): Who,
    Key(key): Key,
    PlanAt(id): PlanAt,
    Json(rerun): Json<Rerun>,
) -> Result<Response, Problem> {
    api.takes_work()?;
    let before = api.world().plan(id).view().await?;
    let mut options = TriggerOptions::new().by(&*who.name);
    if let Some(key) = &key {
        options = options.key(scoped(&who, key));
    }
    let options = traced(in_place_of(&before, options)).label(AGAIN_OF, id.to_string());
    let named = if before.created.action == FlowPlan::NAME {
        let flows = Flows::new(api.world())?;
        let start = flows.start_of(&before)?;
        let flow = match version_of(&flows, &start, &rerun).await? {
            Some(flow) => flow,
            None => flows.flow_of(&start).await?,
        };
        flows.start_named(&flow, rerun.input.unwrap_or(start.input), options)?.0
    } else {
        same_action(&api, &before, rerun, options).await?
    };
    finish(&who, &format!("{id} again"), named, 2).await
}

/// A plan of the same action.
async fn same_action(
    api: &Api,
    before: &PlanView,
    rerun: Rerun,
    options: TriggerOptions,
) -> Result<turnwheel_engine::Named, Problem> {
    let invalid = |detail: String| Problem::new(crate::http::code::Code::InputInvalid, detail);
    if rerun.version.is_some() {
        return Err(invalid("only flows have a «version»".to_owned()));
    }
    let input = match rerun.input {
        Some(input) => {
            let has_mask = |text: &str| text.contains(MASK);
            if has_mask(&input.to_string()) && !has_mask(before.created.input.as_str()) {
                let detail =
                    format!("«{MASK}» in the input stands for what is not shown: write it");
                return Err(invalid(detail));
            }
            Payload::of(&input).map_err(|error| invalid(format!("the input {error}")))?
        }
        None => before.created.input.clone(),
    };
    let (world, action) = (api.world().clone(), before.created.action.clone());
    // Planning runs the action's code, which may be slow.
    let named =
        tokio::task::spawn_blocking(move || world.trigger_named(&action, options, input)).await;
    named.map_err(|error| Problem::new(crate::http::code::Code::Internal, error.to_string()))
}

/// The version that is asked for, of the flow of a plan.
async fn version_of(
    flows: &Flows,
    start: &FlowStart,
    rerun: &Rerun,
) -> Result<Option<Flow>, Problem> {
    let Some(version) = &rerun.version else { return Ok(None) };
    let before = flows.flow_of(start).await?;
    flows.look_again().await?;
    Ok(Some(flows.find(before.namespace(), before.name(), version)?))
}

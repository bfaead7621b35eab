//! Callbacks: a path with a secret in it, for sending one event to a step without a token.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::Json as Answer;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use turnwheel_engine::store::OF_PLAN;
use turnwheel_engine::{PlanId, StepId};

use super::steps::unknown;
use crate::api::{Callback, EventDone};
use crate::http::body::{parse, NameAt, PlanAt, Raw, StepAt, Who};
use crate::http::code::Code;
use crate::http::problem::Problem;
use crate::http::state::Api;
use crate::http::trace;

/// Digits of an id of a plan, with which each token begins.
const PLAN_DIGITS: usize = 32;

/// Writers of states carry an epoch; callbacks compete by versions alone.
const EPOCH: u64 = 1;

/// Target of a callback.
#[derive(Serialize, Deserialize)]
struct Kept {
    plan: PlanId,
    step: StepId,
}

/// The store's key of a callback.
fn key(plan: PlanId, token: &str) -> String {
    format!("{plan}/{token}")
}

/// Makes a path by which one event can be sent to a step without a token
///
/// It is valid until it was used once, or its plan is removed. Knowledge of the path is enough to
/// use it.
#[utoipa::path(
    post, path = "/plans/{plan}/steps/{step}/callback", tag = "steps", operation_id = "makeCallback",
    params(
        ("plan" = String, Path, description = "The plan"),
        ("step" = u32, Path, description = "The number of the step"),
    ),
    responses((status = 201, description = "The path is durable", body = Callback)),
)]
pub(in crate::http) async fn make(
    State(api): State<Api>,
    Who(who): Who,
    PlanAt(plan): PlanAt,
    StepAt(step): StepAt,
) -> Result<(StatusCode, Answer<Callback>), Problem> {
    let view = api.world().plan(plan).view().await?;
    view.find_step(step).ok_or_else(|| unknown(plan, step))?;
    let mut secret = [0_u8; 24];
    getrandom::fill(&mut secret)
        .map_err(|error| Problem::new(Code::Internal, format!("no random numbers: {error}")))?;
    let bytes = plan.to_bytes().into_iter().chain(secret);
    let token: String = bytes.map(|byte| format!("{byte:02x}")).collect();
    let kept = serde_json::to_vec(&Kept { plan, step })
        .map_err(|error| Problem::new(Code::Internal, error.to_string()))?;
    api.world().states().save(OF_PLAN, &key(plan, &token), kept, 0, EPOCH).await?;
    trace::audit(&who, "callback", &format!("{plan}/{step}"), "made");
    let path = format!("api/v1/callbacks/{token}");
    Ok((StatusCode::CREATED, Answer(Callback { token, path })))
}

/// Sends the event of a callback: any JSON, or none
#[utoipa::path(
    post, path = "/callbacks/{name}", tag = "steps", operation_id = "useCallback",
    params(("name" = String, Path, description = "The secret")),
    request_body(content = Option<Value>, content_type = "application/json"),
    responses((status = 200, description = "The event is durable", body = EventDone)),
    security(()),
)]
pub(in crate::http) async fn tell(
    State(api): State<Api>,
    NameAt(token): NameAt,
    request: Request,
) -> Result<Answer<EventDone>, Problem> {
    let states = api.world().states();
    let unknown = || {
        let detail = "there is no such callback, or it was used";
        Problem::new(Code::CallbackUnknown, detail)
    };
    // The callback is stored with its plan, and removed with it.
    let of = token.get(..PLAN_DIGITS).and_then(|plan| plan.parse::<PlanId>().ok());
    let key = key(of.ok_or_else(unknown)?, &token);
    let known = states.load(OF_PLAN, &key).await?;
    let kept = known.bytes.ok_or_else(unknown)?;
    let Kept { plan, step } = parse(&kept)?;
    // Only now: a stranger must not hold a connection with a body that does not come.
    let Raw(body) = Raw::of_stranger(request, &api).await?;
    let event: Value = if body.is_empty() { Value::Null } else { parse(&body)? };
    // The same id each time: a repeated callback is taken once.
    let id = format!("callback/{token}");
    let told = api.world().event_by(plan, step, Some(&id), &event, "callback").await?;
    let outcome = told.as_ref().map_or_else(ToString::to_string, |()| "done".to_owned());
    tracing::info!(
        target: "turnwheel::audit",
        principal = "callback", what = "event", on = format!("{plan}/{step}"), outcome, "change"
    );
    told?;
    match states.clear(OF_PLAN, &key, known.version, EPOCH).await {
        Ok(_) | Err(turnwheel_actors::entity::StoreError::Conflict { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(Answer(EventDone { plan: plan.to_string(), step: step.0 }))
}

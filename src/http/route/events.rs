//! Events and signs of life for steps.

use axum::extract::State;
use axum::Json as Answer;

use super::steps::unknown;
use crate::api::{EventDone, EventFor, HeartbeatFor};
use crate::http::body::{Json, PlanAt, StepAt, Who};
use crate::http::code::Code;
use crate::http::limits::KEY_BYTES_MAX;
use crate::http::problem::Problem;
use crate::http::state::Api;
use crate::http::trace;

/// Sends an event to a step that waits for one, or will; the answer comes when it is durable
#[utoipa::path(
    post, path = "/plans/{plan}/steps/{step}/events", tag = "steps", operation_id = "sendEvent",
    request_body = EventFor,
    params(
        ("plan" = String, Path, description = "The plan"),
        ("step" = u32, Path, description = "The number of the step"),
    ),
    responses((status = 200, description = "The event is durable", body = EventDone)),
)]
pub(in crate::http) async fn send(
    State(api): State<Api>,
    Who(who): Who,
    PlanAt(plan): PlanAt,
    StepAt(step): StepAt,
    Json(event): Json<EventFor>,
) -> Result<Answer<EventDone>, Problem> {
    if event.id.as_ref().is_some_and(|id| id.is_empty() || id.len() > KEY_BYTES_MAX) {
        let detail = format!("the body: the id of an event has 1 to {KEY_BYTES_MAX} bytes");
        return Err(Problem::new(Code::BodyInvalid, detail));
    }
    let view = api.world().plan(plan).view().await?;
    view.find_step(step).ok_or_else(|| unknown(plan, step))?;
    let sent =
        api.world().event_by(plan, step, event.id.as_deref(), &event.event, &who.name).await?;
    let on = format!("{plan}/{step}");
    let outcome = sent.as_ref().map_or_else(ToString::to_string, |()| "done".to_owned());
    trace::audit(&who, "event", &on, &outcome);
    sent?;
    Ok(Answer(EventDone { plan: plan.to_string(), step: step.0 }))
}

/// Sends a heartbeat for external work of a step
#[utoipa::path(
    post, path = "/plans/{plan}/steps/{step}/heartbeat", tag = "steps", operation_id = "sendHeartbeat",
    request_body = HeartbeatFor,
    params(
        ("plan" = String, Path, description = "The plan"),
        ("step" = u32, Path, description = "The number of the step"),
    ),
    responses((status = 200, description = "It was taken", body = EventDone)),
)]
pub(in crate::http) async fn heartbeat(
    State(api): State<Api>,
    PlanAt(plan): PlanAt,
    StepAt(step): StepAt,
    Json(beat): Json<HeartbeatFor>,
) -> Result<Answer<EventDone>, Problem> {
    let view = api.world().plan(plan).view().await?;
    view.find_step(step).ok_or_else(|| unknown(plan, step))?;
    api.world().heartbeat(plan, step, beat.attempt, &beat.details).await??;
    Ok(Answer(EventDone { plan: plan.to_string(), step: step.0 }))
}

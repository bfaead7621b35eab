//! Start of plans.

use std::time::Duration;

use axum::extract::State;
use axum::http::{header, HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::Json as Answer;
use turnwheel_engine::{
    Delay, Named, Payload, PlanHandle, PlanId, Time, TriggerError, TriggerOptions,
};

use super::flows::input_of;
use super::plans::scoped;
use crate::api::{Start, Started};
use crate::http::access::Principal;
use crate::http::body::{plan_id, Json, Key, Who};
use crate::http::code::Code;
use crate::http::problem::Problem;
use crate::http::state::Api;
use crate::http::trace;

/// Header that marks a repeated answer.
const REPEATED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Starts a plan; the answer comes when it is durable
#[utoipa::path(
    post, path = "/plans", tag = "plans", operation_id = "startPlan", request_body = Start,
    params(("Idempotency-Key" = Option<String>, Header,
        description = "A second request with the same key and body answers the plan of the first one")),
    responses(
        (status = 201, description = "The plan is durable", body = Started),
        (status = 200, description = "It was there already", body = Started),
    ),
)]
pub(in crate::http) async fn start(
    State(api): State<Api>,
    Who(who): Who,
    Key(key): Key,
    Json(start): Json<Start>,
) -> Result<Response, Problem> {
    api.takes_work()?;
    let wrong = |detail: String| Problem::new(Code::BodyInvalid, detail);
    let time = |field: &str, text: &Option<String>| -> Result<Option<Time>, Problem> {
        let time = text.as_deref().map(str::parse).transpose();
        time.map_err(|error: turnwheel_engine::TimeError| wrong(format!("{field}: {error}")))
    };
    let start_at = time("start_at", &start.start_at)?;
    let start_before = time("start_before", &start.start_before)?;
    let after: Result<Vec<PlanId>, Problem> = start.after.iter().map(|id| plan_id(id)).collect();
    let id = start.id.as_deref().map(plan_id).transpose()?;
    let input = input_of(&api, &start.action, start.input).await?;
    let input = Payload::of(&input)
        .map_err(|error| Problem::new(Code::InputInvalid, format!("the input {error}")))?;
    let is_delayed =
        start_at.is_some() || start_before.is_some() || start.is_frozen || !start.after.is_empty();
    let mut delay = start_at.map_or_else(Delay::default, Delay::until).and_after(after?);
    if let Some(before) = start_before {
        delay = delay.or_never_after_time(before);
    }
    if start.is_frozen {
        delay = delay.and_frozen();
    }
    let mut options = TriggerOptions::new().by(&*who.name);
    for (name, value) in &start.labels {
        options = options.label(name, value);
    }
    if let Some(key) = &key {
        options = options.key(scoped(&who, key));
    }
    if let Some(id) = id {
        options = options.id(id);
    }
    if let Some(priority) = start.priority {
        options = options.priority(priority);
    }
    if let Some(ms) = start.deadline_ms {
        options = options.deadline(Duration::from_millis(ms));
    }
    let (world, action, options) = (api.world().clone(), start.action, traced(options));
    let of = action.clone();
    // Planning runs the action's code, which may be slow.
    let named = tokio::task::spawn_blocking(move || {
        if is_delayed {
            world.delay_named(&of, options, delay, input)
        } else {
            world.trigger_named(&of, options, input)
        }
    });
    let named = named.await.map_err(|error| Problem::new(Code::Internal, error.to_string()))?;
    finish(&who, &action, named, 0).await
}

/// The started plan belongs to the caller's trace, if there is one.
pub(super) fn traced(options: TriggerOptions) -> TriggerOptions {
    match trace::given() {
        Some(trace) => options.trace(trace),
        None => options,
    }
}

/// Waits until a plan is durable, and reports whether it existed already. `depth` is the number of
/// slashes in the path of the request behind that of `plans`.
pub(super) async fn finish(
    who: &Principal,
    what: &str,
    named: Named,
    depth: usize,
) -> Result<Response, Problem> {
    let Named { id, triggering, .. } = named;
    answer(who, what, id, triggering.await, depth)
}

/// Notes a start whose plan is durable, or refused, and reports whether it existed already.
pub(super) fn answer(
    who: &Principal,
    what: &str,
    id: PlanId,
    begun: Result<PlanHandle, TriggerError>,
    depth: usize,
) -> Result<Response, Problem> {
    let outcome =
        begun.as_ref().map_or_else(|error| error.to_string(), |plan| plan.id().to_string());
    trace::audit(who, "start", what, &outcome);
    let plan = begun?;
    let is_repeated = plan.id() != id;
    Ok(started(plan.id(), is_repeated, depth))
}

/// Makes the answer to a PUT or POST one about something new, at an address relative to that of the
/// request, so that it is right wherever the API is mounted.
pub(super) fn created(at: &str, mut answer: Response) -> Response {
    *answer.status_mut() = StatusCode::CREATED;
    if let Ok(location) = HeaderValue::from_str(at) {
        answer.headers_mut().insert(header::LOCATION, location);
    }
    answer
}

/// A name as a part of a path.
pub(super) fn encoded(name: &str) -> String {
    let part = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    name.bytes().map(part).collect()
}

/// Marks the answer to a request that was answered before.
pub(super) fn repeated(mut answer: Response) -> Response {
    answer.headers_mut().insert(REPEATED, HeaderValue::from_static("true"));
    answer
}

/// The answer to a start.
pub(super) fn started(plan: PlanId, is_repeated: bool, depth: usize) -> Response {
    let status = if is_repeated { StatusCode::OK } else { StatusCode::CREATED };
    let mut headers = HeaderMap::new();
    // Relative to the request, so that it is right wherever the API is mounted.
    let up = "../".repeat(depth);
    if let Ok(location) = HeaderValue::from_str(&format!("{up}plans/{plan}")) {
        headers.insert(header::LOCATION, location);
    }
    let answer =
        (status, headers, Answer(Started { id: plan.to_string(), is_repeated })).into_response();
    if is_repeated {
        repeated(answer)
    } else {
        answer
    }
}

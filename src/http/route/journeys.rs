//! Journeys: definitions, users and their events. `docs/journeys.md` describes it.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::{get, post};
use axum::{Json as Answer, Router};
use serde::Deserialize;
use serde_json::{json, Map, Value};
use turnwheel_flow::CloudEvent;
use turnwheel_journeys::{Definition, Event, JourneyError, Journeys, UserView};

use super::cloudevents;
use crate::http::access::Principal;
use crate::http::body::{Json, NameAt, Part, Query, Raw, Who};
use crate::http::code::Code;
use crate::http::problem::Problem;
use crate::http::state::Api;
use crate::http::trace;

impl From<JourneyError> for Problem {
    fn from(error: JourneyError) -> Self {
        let code = match &error {
            JourneyError::Unknown(_) => Code::JourneyUnknown,
            JourneyError::Definition(_) | JourneyError::Invalid { .. } => Code::JourneyInvalid,
            JourneyError::Changed { .. } => Code::UserChanged,
            _ => Code::StoreFailed,
        };
        Self::new(code, error.to_string())
    }
}

fn journeys(api: &Api) -> Result<&Journeys, Problem> {
    api.options().journeys.as_ref().ok_or_else(|| {
        Problem::new(Code::PathUnknown, "this server has no journeys: turnwheel serve has")
    })
}

/// Notes a change, as done or as refused.
fn note<T>(who: &Principal, what: &str, on: &str, outcome: &Result<T, JourneyError>) {
    let outcome = outcome.as_ref().map_or_else(ToString::to_string, |_| "done".to_owned());
    trace::audit(who, &format!("journey {what}"), on, &outcome);
}

/// The operations.
pub(in crate::http) fn routes() -> Router<Api> {
    Router::new()
        .route("/api/v1/journeys", get(list).post(add))
        .route("/api/v1/journeys/{name}", get(one).delete(remove))
        .route("/api/v1/journeys/{name}/elements", get(elements))
        .route("/api/v1/users/{platform}/{user}", get(user).put(set).delete(forget))
        .route("/api/v1/users/{platform}/{user}/opt-out", post(opt_out))
        .route("/api/v1/platforms/{name}/events", post(events))
}

async fn list(State(api): State<Api>) -> Result<Answer<Value>, Problem> {
    let all = journeys(&api)?.list();
    Ok(Answer(json!({ "journeys": all })))
}

async fn one(State(api): State<Api>, NameAt(name): NameAt) -> Result<Answer<Value>, Problem> {
    Ok(Answer(json!(journeys(&api)?.get(&name)?)))
}

/// Adds a journey, or a version of it: the body is its text, in YAML or JSON.
async fn add(
    State(api): State<Api>,
    Who(who): Who,
    Raw(body): Raw,
) -> Result<Answer<Value>, Problem> {
    let text = String::from_utf8(body.to_vec())
        .map_err(|_| Problem::new(Code::JourneyInvalid, "the body is no text in UTF-8"))?;
    let added = journeys(&api)?.put(&text, &who.name).await;
    note(&who, "add", added.as_ref().map_or("", |added| &added.name), &added);
    Ok(Answer(json!(added?)))
}

async fn remove(
    State(api): State<Api>,
    Who(who): Who,
    NameAt(name): NameAt,
) -> Result<Answer<Value>, Problem> {
    let removed = journeys(&api)?.remove(&name).await;
    note(&who, "remove", &name, &removed);
    Ok(Answer(json!(removed?)))
}

/// The elements, in the ancestor's JSON.
async fn elements(State(api): State<Api>, NameAt(name): NameAt) -> Result<Answer<Value>, Problem> {
    let found = journeys(&api)?.get(&name)?;
    let definition = Definition::read(&found.text, &name)
        .map_err(|problems| Problem::new(Code::JourneyInvalid, problems.to_string()))?;
    Ok(Answer(definition.to_ancestor()))
}

async fn user(
    State(api): State<Api>,
    Part([platform, user]): Part<2>,
) -> Result<Answer<UserView>, Problem> {
    Ok(Answer(journeys(&api)?.user(&platform, &user).await??))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SetQuery {
    /// The revision that is edited.
    revision: Option<u64>,
}

async fn set(
    State(api): State<Api>,
    Who(who): Who,
    Part([platform, user]): Part<2>,
    Query(query): Query<SetQuery>,
    Json(attributes): Json<Map<String, Value>>,
) -> Result<Answer<UserView>, Problem> {
    let set = journeys(&api)?.set_user(&platform, &user, attributes, query.revision).await?;
    note(&who, "user", &format!("{platform}/{user}"), &set);
    Ok(Answer(set?))
}

async fn forget(
    State(api): State<Api>,
    Who(who): Who,
    Part([platform, user]): Part<2>,
) -> Result<Answer<Value>, Problem> {
    let forgotten = journeys(&api)?.forget(&platform, &user).await?;
    note(&who, "forget", &format!("{platform}/{user}"), &forgotten);
    forgotten?;
    Ok(Answer(json!({ "platform": platform, "user": user })))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OptOut {
    out: bool,
}

async fn opt_out(
    State(api): State<Api>,
    Who(who): Who,
    Part([platform, user]): Part<2>,
    Json(OptOut { out }): Json<OptOut>,
) -> Result<Answer<UserView>, Problem> {
    let done = journeys(&api)?.opt_out(&platform, &user, out).await?;
    note(&who, "opt-out", &format!("{platform}/{user}"), &done);
    Ok(Answer(done?))
}

/// Takes events of users: CloudEvents in structured, binary or batch mode, whose subject is the
/// user. The answer comes when all are durable; a repeated one, by source and id, changes nothing.
async fn events(
    State(api): State<Api>,
    NameAt(platform): NameAt,
    headers: HeaderMap,
    Raw(body): Raw,
) -> Result<Answer<Value>, Problem> {
    api.takes_work()?;
    let journeys = journeys(&api)?;
    let events = cloudevents::read(&headers, &body)?;
    let events = events.into_iter().map(|event| of(&platform, event));
    let events = events.collect::<Result<Vec<Event>, Problem>>()?;
    // All are under way at once: they share commits, and those of one user keep their order.
    let asked: Vec<_> = events.into_iter().map(|event| journeys.event(event)).collect();
    let mut taken = Vec::new();
    for asked in asked {
        taken.push(asked.await??);
    }
    Ok(Answer(json!({ "events": taken })))
}

fn of(platform: &str, event: CloudEvent) -> Result<Event, Problem> {
    let Some(user) = &event.subject else {
        let detail = "an event of a user has the user as its «subject»";
        return Err(Problem::new(Code::EventInvalid, detail));
    };
    let data = event.data.clone().unwrap_or_default();
    let made = Event::new(platform, user, event.key(), &event.kind).data(data);
    Ok(match event.time {
        Some(time) => made.time(time),
        None => made,
    })
}

//! Journeys: definitions, users and their events. `docs/journeys.md` describes it.

use std::collections::{BTreeMap, HashMap};

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::Json as Answer;
use serde::Deserialize;
use serde_json::{json, Map, Value};
use turnwheel_flow::CloudEvent;
use turnwheel_journeys::limits::SEEN_MAX;
use turnwheel_journeys::{
    Definition, Event, JourneyCounts, JourneyError, Journeys, Recording, Tried, UserView,
};
use utoipa::{IntoParams, ToSchema};

use super::cloudevents;
use crate::api::{
    self, JourneyElement, JourneyInfo, JourneyPage, JourneyTried, UserEventsDone, UserForgotten,
    UserInfo,
};
use crate::http::access::Principal;
use crate::http::body::{Json, NameAt, Part, Query, Raw, Who};
use crate::http::code::Code;
use crate::http::cursor::List;
use crate::http::etag::{tagged, Precondition};
use crate::http::page::PageQuery;
use crate::http::problem::Problem;
use crate::http::state::Api;
use crate::http::trace;

impl From<JourneyError> for Problem {
    fn from(error: JourneyError) -> Self {
        let code = match &error {
            JourneyError::Unknown(_) => Code::JourneyUnknown,
            JourneyError::Definition(_) | JourneyError::Invalid { .. } => Code::JourneyInvalid,
            JourneyError::Changed { .. } => Code::UserChanged,
            JourneyError::NotLost { .. } => Code::MessageUnknown,
            JourneyError::Busy => Code::TooManyRequests,
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

/// All journeys, by name
#[utoipa::path(
    get, path = "/journeys", tag = "journeys", operation_id = "listJourneys",
    params(PageQuery),
    responses((status = 200, description = "A page of journeys", body = JourneyPage)),
)]
pub(in crate::http) async fn list(
    State(api): State<Api>,
    Query(query): Query<PageQuery>,
) -> Result<Answer<Value>, Problem> {
    let all = journeys(&api)?.list().await?;
    let (all, next) = query.of(List::Journeys, all, |journey| journey.name.clone())?;
    Ok(Answer(json!({ "journeys": all, "next": next })))
}

/// A journey with its definition
#[utoipa::path(
    get, path = "/journeys/{name}", tag = "journeys", operation_id = "getJourney",
    params(("name" = String, Path, description = "The name of the journey")),
    responses((status = 200, description = "The journey", body = JourneyInfo)),
)]
pub(in crate::http) async fn one(
    State(api): State<Api>,
    NameAt(name): NameAt,
) -> Result<Answer<Value>, Problem> {
    Ok(Answer(json!(journeys(&api)?.get(&name).await?)))
}

/// Adds a journey, or a version of it: the body is its text, YAML or JSON
#[utoipa::path(
    post, path = "/journeys", tag = "journeys", operation_id = "addJourney",
    request_body(content = String, content_type = "application/yaml"),
    responses((status = 200, description = "The journey", body = JourneyInfo)),
)]
pub(in crate::http) async fn add(
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

/// Removes a journey: users under way leave it
#[utoipa::path(
    delete, path = "/journeys/{name}", tag = "journeys", operation_id = "removeJourney",
    params(("name" = String, Path, description = "The name of the journey")),
    responses((status = 200, description = "The journey", body = JourneyInfo)),
)]
pub(in crate::http) async fn remove(
    State(api): State<Api>,
    Who(who): Who,
    NameAt(name): NameAt,
) -> Result<Answer<Value>, Problem> {
    let removed = journeys(&api)?.remove(&name).await;
    note(&who, "remove", &name, &removed);
    Ok(Answer(json!(removed?)))
}

/// The elements of a journey, for its picture: also the form of the ancestor
#[utoipa::path(
    get, path = "/journeys/{name}/elements", tag = "journeys", operation_id = "getJourneyElements",
    params(("name" = String, Path, description = "The name of the journey")),
    responses((status = 200, description = "The elements", body = Vec<JourneyElement>)),
)]
pub(in crate::http) async fn elements(
    State(api): State<Api>,
    NameAt(name): NameAt,
) -> Result<Answer<Value>, Problem> {
    let found = journeys(&api)?.get(&name).await?;
    let definition = Definition::read_stored(&found.text, &name)
        .map_err(|problems| Problem::new(Code::JourneyInvalid, problems.to_string()))?;
    Ok(Answer(definition.to_ancestor()))
}

/// Where a user is, why, since when, and what comes next
#[utoipa::path(
    get, path = "/users/{platform}/{user}", tag = "journeys", operation_id = "getUser",
    params(
        ("platform" = String, Path, description = "The platform"),
        ("user" = String, Path, description = "The user"),
    ),
    responses((status = 200, description = "The user", body = UserInfo)),
)]
pub(in crate::http) async fn user(
    State(api): State<Api>,
    Part([platform, user]): Part<2>,
) -> Result<Response, Problem> {
    Ok(shown(&journeys(&api)?.user(&platform, &user).await??))
}

/// A user, with the revision of the attributes as tag.
fn shown(user: &UserView) -> Response {
    tagged(&user.revision.to_string(), user)
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct SetQuery {
    /// The revision that is edited.
    revision: Option<u64>,
}

/// Replaces the attributes of a user
#[utoipa::path(
    put, path = "/users/{platform}/{user}", tag = "journeys", operation_id = "putUser",
    request_body = Object,
    params(
        ("platform" = String, Path, description = "The platform"),
        ("user" = String, Path, description = "The user"),
        SetQuery,
        ("If-Match" = Option<String>, Header, description = "The ETag of the attributes that are edited"),
    ),
    responses((status = 200, description = "The user", body = UserInfo)),
)]
pub(in crate::http) async fn set(
    State(api): State<Api>,
    Who(who): Who,
    Part([platform, user]): Part<2>,
    Query(query): Query<SetQuery>,
    wanted: Precondition,
    Json(attributes): Json<Map<String, Value>>,
) -> Result<Response, Problem> {
    let (journeys, name) = (journeys(&api)?, format!("{platform}/{user}"));
    let mut revision = query.revision;
    if wanted.is_set() {
        let now = journeys.user(&platform, &user).await??.revision;
        let tag = (now > 0).then(|| now.to_string());
        wanted.check(&format!("the attributes of «{name}»"), tag.as_deref())?;
        revision = Some(now);
    }
    let set = journeys.set_user(&platform, &user, attributes, revision).await?;
    note(&who, "user", &name, &set);
    match set {
        // Between the look and the write.
        Err(error @ JourneyError::Changed { .. }) if wanted.is_set() => {
            Err(Problem::new(Code::PreconditionFailed, error.to_string()))
        }
        set => Ok(shown(&set?)),
    }
}

/// Forgets a user: attributes, passes, messages and history
#[utoipa::path(
    delete, path = "/users/{platform}/{user}", tag = "journeys", operation_id = "forgetUser",
    params(
        ("platform" = String, Path, description = "The platform"),
        ("user" = String, Path, description = "The user"),
    ),
    responses((status = 200, description = "It is forgotten", body = UserForgotten)),
)]
pub(in crate::http) async fn forget(
    State(api): State<Api>,
    Who(who): Who,
    Part([platform, user]): Part<2>,
) -> Result<Answer<Value>, Problem> {
    let forgotten = journeys(&api)?.forget(&platform, &user).await?;
    note(&who, "forget", &format!("{platform}/{user}"), &forgotten);
    forgotten?;
    Ok(Answer(json!({ "platform": platform, "user": user })))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct OptOut {
    /// Whether the user wants no messages.
    out: bool,
}

/// Notes that a user wants no messages, or wants them again
#[utoipa::path(
    post, path = "/users/{platform}/{user}/opt-out", tag = "journeys", operation_id = "optOutUser",
    request_body = OptOut,
    params(
        ("platform" = String, Path, description = "The platform"),
        ("user" = String, Path, description = "The user"),
    ),
    responses((status = 200, description = "The user", body = UserInfo)),
)]
pub(in crate::http) async fn opt_out(
    State(api): State<Api>,
    Who(who): Who,
    Part([platform, user]): Part<2>,
    Json(OptOut { out }): Json<OptOut>,
) -> Result<Answer<UserView>, Problem> {
    let done = journeys(&api)?.opt_out(&platform, &user, out).await?;
    note(&who, "opt-out", &format!("{platform}/{user}"), &done);
    Ok(Answer(done?))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Resend {
    /// The key of the message; without one all that the user has under `lost`.
    key: Option<String>,
}

/// Sends messages of a user again that were given up, with their keys
///
/// They leave once the answer says that they are in `outbox`.
#[utoipa::path(
    post, path = "/users/{platform}/{user}/resend", tag = "journeys",
    operation_id = "resendMessages",
    request_body = Resend,
    params(
        ("platform" = String, Path, description = "The platform"),
        ("user" = String, Path, description = "The user"),
    ),
    responses((status = 200, description = "The user", body = UserInfo)),
)]
pub(in crate::http) async fn resend(
    State(api): State<Api>,
    Who(who): Who,
    Part([platform, user]): Part<2>,
    Json(Resend { key }): Json<Resend>,
) -> Result<Answer<UserView>, Problem> {
    let done = journeys(&api)?.resend(&platform, &user, key.as_deref()).await?;
    note(&who, "resend", &format!("{platform}/{user}"), &done);
    Ok(Answer(done?))
}

/// Takes events of users: CloudEvents whose subject is the user
///
/// The answer comes when all are durable; a repeated one, by source and id, changes nothing.
#[utoipa::path(
    post, path = "/platforms/{name}/events", tag = "journeys", operation_id = "publishUserEvents",
    params(("name" = String, Path, description = "The platform")),
    request_body(content(
        (Value = "application/cloudevents+json"), (Vec<Value> = "application/cloudevents-batch+json"),
    )),
    responses((status = 200, description = "They are durable", body = UserEventsDone)),
)]
pub(in crate::http) async fn events(
    State(api): State<Api>,
    NameAt(platform): NameAt,
    headers: HeaderMap,
    Raw(body): Raw,
) -> Result<Answer<Value>, Problem> {
    api.takes_work()?;
    let journeys = journeys(&api)?;
    let events = cloudevents::read(&headers, &body)?;
    let events = events.into_iter().enumerate();
    let events = events.map(|(number, event)| of(&platform, number + 1, event));
    let events = events.collect::<Result<Vec<Event>, Problem>>()?;
    check_batch(&events)?;
    // All are under way at once: they share commits, and those of one user keep their order.
    let asked = journeys.events(events);
    let mut taken = Vec::new();
    for asked in asked {
        taken.push(asked.await??);
    }
    Ok(Answer(json!({ "events": taken })))
}

/// Users at each element of a journey, conversions and drop-offs
///
/// They are counted from the rows of all users of the platform.
#[utoipa::path(
    get, path = "/journeys/{name}/counts", tag = "journeys", operation_id = "countJourney",
    params(("name" = String, Path, description = "The name of the journey")),
    responses((status = 200, description = "The numbers", body = api::JourneyCounts)),
)]
pub(in crate::http) async fn counts(
    State(api): State<Api>,
    NameAt(name): NameAt,
) -> Result<Answer<JourneyCounts>, Problem> {
    Ok(Answer(journeys(&api)?.counts(&name).await?))
}

/// A definition to be tried.
#[derive(Debug, Deserialize, ToSchema)]
pub(in crate::http) struct DryRunSpec {
    /// Its text; without one the newest version of the journey in `journey`.
    definition: Option<String>,
    journey: Option<String>,
    /// CloudEvents with the user as `subject` and a `time` each.
    #[serde(default)]
    events: Vec<Value>,
    /// Attributes by user.
    #[serde(default)]
    users: BTreeMap<String, Map<String, Value>>,
    /// Until when time passes after the events.
    until: Option<String>,
}

/// Tries a definition on recorded events: nothing is stored and nothing is sent
#[utoipa::path(
    post, path = "/journeys/dry-run", tag = "journeys", operation_id = "dryRunJourney",
    request_body = DryRunSpec,
    responses((status = 200, description = "What would have happened", body = JourneyTried)),
)]
pub(in crate::http) async fn dry_run(
    State(api): State<Api>,
    Json(spec): Json<DryRunSpec>,
) -> Result<Answer<Tried>, Problem> {
    let read = match (spec.definition, spec.journey) {
        (Some(text), _) => Definition::read(&text, "definition"),
        (None, Some(name)) => {
            Definition::read_stored(&journeys(&api)?.get(&name).await?.text, &name)
        }
        (None, None) => {
            let detail = "name a «journey», or give the text of a «definition»";
            return Err(Problem::new(Code::JourneyInvalid, detail));
        }
    };
    let definition =
        read.map_err(|problems| Problem::new(Code::JourneyInvalid, problems.to_string()))?;
    let mut recording = Recording::new(spec.events);
    (recording.users, recording.until) = (spec.users, spec.until);
    // It counts in memory and may take long: beside the threads that serve.
    let tried = tokio::task::spawn_blocking(move || recording.on(&definition)).await;
    let tried = tried.map_err(|error| Problem::new(Code::JourneyInvalid, error.to_string()))?;
    Ok(Answer(tried?))
}

/// Refuses a batch with an event that no row can hold, or that would not be known again when it is
/// sent a second time.
fn check_batch(events: &[Event]) -> Result<(), Problem> {
    let mut of_users: HashMap<&str, usize> = HashMap::new();
    for (number, event) in events.iter().enumerate() {
        if let Err(problem) = event.check() {
            let number = number + 1;
            let detail = format!("event {number} («{}»), and none was taken: {problem}", event.id);
            return Err(Problem::new(Code::JourneyInvalid, detail));
        }
        let of_user = of_users.entry(&event.user).or_default();
        *of_user += 1;
        if *of_user > SEEN_MAX {
            let detail = format!(
                "a batch has at most {SEEN_MAX} events of one user, as many as are remembered; \
                 «{}» has more: send them in several batches, one after the other",
                event.user
            );
            return Err(Problem::new(Code::EventInvalid, detail));
        }
    }
    Ok(())
}

fn of(platform: &str, number: usize, event: CloudEvent) -> Result<Event, Problem> {
    let Some(user) = &event.subject else {
        let id = &event.id;
        let detail = format!(
            "event {number} («{id}»), and none was taken: an event of a user has the user as its «subject»"
        );
        return Err(Problem::new(Code::EventInvalid, detail));
    };
    let data = event.data.clone().unwrap_or_default();
    let made = Event::new(platform, user, &event.id, &event.kind).data(data).source(&event.source);
    Ok(match event.time {
        Some(time) => made.time(time),
        None => made,
    })
}

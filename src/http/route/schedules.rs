//! Schedules.

use std::time::{Duration, SystemTime};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::Json as Answer;
use serde::Deserialize;
use turnwheel_engine::schedule::{CatchUp, Overlap, Schedule, ScheduleView, Schedules};
use turnwheel_engine::{Payload, ScheduleError, Time};
use utoipa::IntoParams;

use super::flows::input_of;
use super::plans::{page, scoped};
use super::start::{created, encoded, started};
use crate::api::{
    Backfill, BackfillDone, CatchUpSpec, OverlapSpec, ScheduleInfo, SchedulePage, SchedulePause,
    ScheduleSpec, ScheduleTimes, Started, TimingSpec,
};
use crate::http::body::{Json, Key, NameAt, Query, Who};
use crate::http::code::Code;
use crate::http::cursor::{self, List};
use crate::http::etag::{self, Precondition};
use crate::http::limits::PAGE_MAX;
use crate::http::problem::Problem;
use crate::http::show;
use crate::http::state::Api;
use crate::http::trace;

/// The requested schedules.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct SchedulesQuery {
    /// Maximum number of schedules; 1,000 at most.
    #[param(minimum = 1, maximum = 1000, default = 50)]
    limit: Option<u32>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// The schedules, by name
#[utoipa::path(
    get, path = "/schedules", tag = "schedules", operation_id = "listSchedules",
    params(SchedulesQuery),
    responses((status = 200, description = "A page of schedules", body = SchedulePage)),
)]
pub(in crate::http) async fn list(
    State(api): State<Api>,
    Query(query): Query<SchedulesQuery>,
) -> Result<Answer<SchedulePage>, Problem> {
    let limit = page(query.limit, PAGE_MAX)?;
    let after = match query.cursor.as_deref().map(|text| cursor::read(List::Schedules, text)) {
        None => String::new(),
        Some(place) => String::from_utf8(place?).map_err(|_| {
            Problem::new(
                Code::CursorInvalid,
                "the cursor names no schedule: begin with the first page",
            )
        })?,
    };
    let asked = api.world().schedules().list(&after, limit + 1);
    let mut views = asked.await??;
    let has_more = views.len() > limit;
    views.truncate(limit);
    let last = views.last().filter(|_| has_more);
    let next = last.map(|view| cursor::write(List::Schedules, view.name.as_bytes()));
    Ok(Answer(SchedulePage { schedules: views.into_iter().map(show::schedule).collect(), next }))
}

/// A schedule
#[utoipa::path(
    get, path = "/schedules/{name}", tag = "schedules", operation_id = "getSchedule",
    params(("name" = String, Path, description = "The name of the schedule")),
    responses((status = 200, description = "The schedule", body = ScheduleInfo)),
)]
pub(in crate::http) async fn get(
    State(api): State<Api>,
    NameAt(name): NameAt,
) -> Result<Response, Problem> {
    let asked = api.world().schedules().get(&name);
    Ok(shown(asked.await??))
}

/// A schedule with its entity tag.
fn shown(view: ScheduleView) -> Response {
    let tag = format!("{:016x}", view.revision());
    etag::tagged(&tag, show::schedule(view))
}

/// The schedules, for a change of the state that the request names.
fn wanted<'a>(api: &'a Api, wanted: &Precondition) -> Schedules<'a> {
    api.world().schedules().expecting(wanted.of_schedule())
}

/// Makes a schedule, or changes the one with this name
#[utoipa::path(
    put, path = "/schedules/{name}", tag = "schedules", operation_id = "putSchedule",
    request_body = ScheduleSpec,
    params(
        ("name" = String, Path, description = "The name of the schedule"),
        ("If-Match" = Option<String>, Header, description = "The ETag of the state that is edited"),
    ),
    responses(
        (status = 201, description = "The schedule is new", body = ScheduleInfo),
        (status = 200, description = "The schedule as it is now", body = ScheduleInfo),
    ),
)]
pub(in crate::http) async fn put(
    State(api): State<Api>,
    Who(who): Who,
    NameAt(name): NameAt,
    precondition: Precondition,
    Json(mut spec): Json<ScheduleSpec>,
) -> Result<Response, Problem> {
    spec.input = input_of(&api, &spec.action, spec.input).await?;
    let schedule = schedule(&name, &spec)?;
    let before = api.world().schedules().get(&name).await?;
    let is_new = matches!(before, Err(ScheduleError::Unknown(_)));
    let put = wanted(&api, &precondition).put(schedule).await?;
    note(&who, "put", &name, &put);
    let answer = shown(put?);
    Ok(if is_new { created(&encoded(&name), answer) } else { answer })
}

/// Removes a schedule; its plans that are under way go on
#[utoipa::path(
    delete, path = "/schedules/{name}", tag = "schedules", operation_id = "removeSchedule",
    params(
        ("name" = String, Path, description = "The name of the schedule"),
        ("If-Match" = Option<String>, Header, description = "The ETag of the state that is edited"),
    ),
    responses((status = 204, description = "It is removed")),
)]
pub(in crate::http) async fn remove(
    State(api): State<Api>,
    Who(who): Who,
    NameAt(name): NameAt,
    precondition: Precondition,
) -> Result<StatusCode, Problem> {
    let removed = wanted(&api, &precondition).remove(&name).await?;
    note(&who, "remove", &name, &removed);
    removed?;
    Ok(StatusCode::NO_CONTENT)
}

/// Launches nothing more by itself until it is unpaused
#[utoipa::path(
    post, path = "/schedules/{name}/pause", tag = "schedules", operation_id = "pauseSchedule",
    request_body = SchedulePause,
    params(
        ("name" = String, Path, description = "The name of the schedule"),
        ("If-Match" = Option<String>, Header, description = "The ETag of the state that is edited"),
    ),
    responses((status = 200, description = "The schedule as it is now", body = ScheduleInfo)),
)]
pub(in crate::http) async fn pause(
    State(api): State<Api>,
    Who(who): Who,
    NameAt(name): NameAt,
    precondition: Precondition,
    Json(pause): Json<SchedulePause>,
) -> Result<Response, Problem> {
    let paused = wanted(&api, &precondition).pause(&name, &who.name, &pause.why).await?;
    note(&who, "pause", &name, &paused);
    Ok(shown(paused?))
}

/// Launches again; times that have passed during the pause are not made up for
#[utoipa::path(
    post, path = "/schedules/{name}/unpause", tag = "schedules", operation_id = "unpauseSchedule",
    params(
        ("name" = String, Path, description = "The name of the schedule"),
        ("If-Match" = Option<String>, Header, description = "The ETag of the state that is edited"),
    ),
    responses((status = 200, description = "The schedule as it is now", body = ScheduleInfo)),
)]
pub(in crate::http) async fn unpause(
    State(api): State<Api>,
    Who(who): Who,
    NameAt(name): NameAt,
    precondition: Precondition,
) -> Result<Response, Problem> {
    let unpaused = wanted(&api, &precondition).unpause(&name).await?;
    note(&who, "unpause", &name, &unpaused);
    Ok(shown(unpaused?))
}

/// Launches now, regardless of the overlap policy
#[utoipa::path(
    post, path = "/schedules/{name}/trigger", tag = "schedules", operation_id = "triggerSchedule",
    params(
        ("name" = String, Path, description = "The name of the schedule"),
        ("Idempotency-Key" = Option<String>, Header,
            description = "A second request with the same key answers the plan of the first one"),
    ),
    responses(
        (status = 201, description = "The plan is durable", body = Started),
        (status = 200, description = "It was there already", body = Started),
    ),
)]
pub(in crate::http) async fn trigger(
    State(api): State<Api>,
    Who(who): Who,
    Key(key): Key,
    NameAt(name): NameAt,
) -> Result<Response, Problem> {
    api.takes_work()?;
    let schedules = api.world().schedules();
    let launched = match &key {
        // A key is of one principal and one schedule.
        Some(key) => {
            let before = Time::from(SystemTime::now());
            let key = scoped(&who, &format!("{name}/{key}"));
            let launched = schedules.trigger_once(&name, &who.name, &key).await?;
            match launched {
                Ok(plan) => {
                    let created = api.world().plan(plan).view().await?.created.at;
                    Ok((plan, created < before))
                }
                Err(error) => Err(error),
            }
        }
        None => schedules.trigger_now(&name, &who.name).await?.map(|plan| (plan, false)),
    };
    note(&who, "trigger", &name, &launched);
    let (plan, is_repeated) = launched?;
    Ok(started(plan, is_repeated, 2))
}

/// Launches the times in a range
#[utoipa::path(
    post, path = "/schedules/{name}/backfill", tag = "schedules", operation_id = "backfillSchedule",
    request_body = Backfill,
    params(("name" = String, Path, description = "The name of the schedule")),
    responses((status = 200, description = "It is under way", body = BackfillDone)),
)]
pub(in crate::http) async fn backfill(
    State(api): State<Api>,
    Who(who): Who,
    NameAt(name): NameAt,
    Json(range): Json<Backfill>,
) -> Result<Answer<BackfillDone>, Problem> {
    api.takes_work()?;
    let (from, until) = (moment("from", &range.from)?, moment("until", &range.until)?);
    let filled = api.world().schedules().backfill(&name, from, until).await?;
    note(&who, "backfill", &name, &filled);
    Ok(Answer(BackfillDone { times: filled? }))
}

/// The requested times.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct TimesQuery {
    /// Only times after this one; now if nothing is said.
    after: Option<String>,
    /// Maximum number of times; 1,000 at most.
    #[param(minimum = 1, maximum = 1000, default = 50)]
    limit: Option<u32>,
}

/// The next times of a schedule, without jitter
#[utoipa::path(
    get, path = "/schedules/{name}/times", tag = "schedules", operation_id = "listScheduleTimes",
    params(("name" = String, Path, description = "The name of the schedule"), TimesQuery),
    responses((status = 200, description = "The times", body = ScheduleTimes)),
)]
pub(in crate::http) async fn times(
    State(api): State<Api>,
    NameAt(name): NameAt,
    Query(query): Query<TimesQuery>,
) -> Result<Answer<ScheduleTimes>, Problem> {
    let limit = page(query.limit, PAGE_MAX)?;
    let asked = match &query.after {
        None => api.world().schedules().next(&name, limit),
        Some(after) => {
            let after: Time = after.parse().map_err(|error: turnwheel_engine::TimeError| {
                Problem::new(Code::QueryInvalid, format!("the query: after: {error}"))
            })?;
            api.world().schedules().times(&name, after, limit)
        }
    };
    let times = asked.await??.into_iter().map(show::time).collect();
    Ok(Answer(ScheduleTimes { times }))
}

fn note<T>(
    who: &crate::http::access::Principal,
    what: &str,
    name: &str,
    outcome: &Result<T, ScheduleError>,
) {
    let what = format!("schedule {what}");
    let outcome = outcome.as_ref().map_or_else(ToString::to_string, |_| "done".to_owned());
    trace::audit(who, &what, name, &outcome);
}

fn moment(field: &str, text: &str) -> Result<Time, Problem> {
    text.parse().map_err(|error: turnwheel_engine::TimeError| {
        Problem::new(Code::BodyInvalid, format!("the body: {field}: {error}"))
    })
}

fn schedule(name: &str, spec: &ScheduleSpec) -> Result<Schedule, Problem> {
    let schedule = match &spec.timing {
        TimingSpec::Cron { pattern, zone } => Schedule::cron(name, pattern)?.zone(zone),
        TimingSpec::Every { period_ms, offset_ms } => {
            let period = Schedule::every(name, Duration::from_millis(*period_ms));
            period.offset(Duration::from_millis(*offset_ms))
        }
        TimingSpec::At(time) => Schedule::at(name, moment("timing.at", time)?),
        TimingSpec::Manual {} => Schedule::manual(name),
        TimingSpec::After { pause_ms } => Schedule::after(name, Duration::from_millis(*pause_ms)),
    };
    let overlap = match spec.overlap {
        OverlapSpec::Allow => Overlap::Allow,
        OverlapSpec::Forbid => Overlap::Forbid,
        OverlapSpec::Replace => Overlap::Replace,
        OverlapSpec::Queue => Overlap::Queue,
    };
    let catch_up = match spec.catch_up {
        CatchUpSpec::None => CatchUp::None,
        CatchUpSpec::Latest => CatchUp::Latest,
        CatchUpSpec::All { window_ms } => CatchUp::all_within(Duration::from_millis(window_ms)),
    };
    let input = Payload::of(&spec.input)
        .map_err(|error| Problem::new(Code::InputInvalid, format!("the input {error}")))?;
    let schedule = schedule.overlap(overlap).catch_up(catch_up);
    let schedule = schedule.jitter(Duration::from_millis(spec.jitter_ms));
    Ok(schedule.action_named(&spec.action, input))
}

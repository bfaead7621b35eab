//! Jobs: the API of the command line and the console. `docs/jobs.md` describes it.

use axum::extract::State;
use axum::http::{header, HeaderMap, HeaderName};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json as Answer, Router};
use serde::Deserialize;
use serde_json::{json, Value};
use turnwheel_jobs::{show, JobError, JobSpec, JobView, Jobs};

use super::job_live;
use super::plans::page;
use crate::http::access::Principal;
use crate::http::body::{Json, NameAt, Part, Query, Who};
use crate::http::code::Code;
use crate::http::limits::PAGE_MAX;
use crate::http::problem::Problem;
use crate::http::state::Api;
use crate::http::trace;

impl From<JobError> for Problem {
    fn from(error: JobError) -> Self {
        let code = match &error {
            JobError::Unknown(_) | JobError::UnknownLaunch { .. } => Code::JobUnknown,
            JobError::UnknownParent { .. } => Code::JobUnknown,
            JobError::Setting { .. } | JobError::Cycle { .. } => Code::JobInvalid,
            JobError::Changed { .. }
            | JobError::HasDependants { .. }
            | JobError::Overlaps { .. }
            | JobError::NoRun { .. }
            | JobError::TooMany(_) => Code::JobState,
            JobError::Paused { .. } => Code::JobsPaused,
            _ => Code::StoreFailed,
        };
        Self::new(code, error.to_string())
    }
}

/// The jobs of the server.
pub(super) fn jobs(api: &Api) -> Result<&Jobs, Problem> {
    api.options().jobs.as_ref().ok_or_else(|| {
        Problem::new(Code::PathUnknown, "this server has no jobs: turnwheel serve has")
    })
}

/// Notes a change, as done or as refused.
pub(super) fn note<T>(who: &Principal, what: &str, name: &str, outcome: &Result<T, JobError>) {
    let outcome = outcome.as_ref().map_or_else(ToString::to_string, |_| "done".to_owned());
    trace::audit(who, &format!("job {what}"), name, &outcome);
}

/// The operations.
pub(in crate::http) fn routes() -> Router<Api> {
    Router::new()
        .route("/api/v1/jobs", get(list))
        .route("/api/v1/jobs/{name}", get(one).put(put).delete(remove))
        .route("/api/v1/job-executors", get(executors))
        .route("/api/v1/jobs/{name}/run", post(run))
        .route("/api/v1/jobs/{name}/toggle", post(toggle))
        .route("/api/v1/jobs/{name}/cancel", post(cancel))
        .route("/api/v1/jobs/{name}/history", get(history).delete(forget))
        .route("/api/v1/jobs/{name}/times", get(times))
        .route("/api/v1/jobs/{name}/launches/{launch}/output", get(output))
        .route("/api/v1/jobs/{name}/launches/{launch}/output/live", get(job_live::live))
}

async fn list(State(api): State<Api>) -> Result<Answer<Value>, Problem> {
    let views = jobs(&api)?.list().await??;
    Ok(Answer(json!({ "jobs": views.iter().map(show::job).collect::<Vec<_>>() })))
}

/// The executors of this node, each looked at now.
async fn executors(State(api): State<Api>) -> Result<Answer<Value>, Problem> {
    let executors = jobs(&api)?.executors().clone();
    let looked = tokio::task::spawn_blocking(move || show::executors(&executors)).await;
    looked.map(Answer).map_err(|error| {
        Problem::new(Code::Internal, format!("the executors were not looked at: {error}"))
    })
}

async fn one(State(api): State<Api>, NameAt(name): NameAt) -> Result<Response, Problem> {
    Ok(shown(&jobs(&api)?.get(&name).await??))
}

/// A job with its revision as entity tag.
fn shown(view: &JobView) -> Response {
    let tag = format!("\"{}\"", view.revision);
    ([(header::ETAG, tag)], Answer(show::job(view))).into_response()
}

/// The revision that an edit is for: by the query, by `If-Match`, or none yet by `If-None-Match: *`.
fn revision(query: Option<u64>, headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let wrong = |name: &str, what: &str| {
        let detail = format!("the header {name}: {what}");
        Problem::new(Code::QueryInvalid, detail)
    };
    match (text(header::IF_MATCH), text(header::IF_NONE_MATCH)) {
        (Some("*") | None, None) => Ok(query),
        (Some(tag), None) => {
            let number = tag.trim().trim_start_matches("W/").trim_matches('"').parse();
            let wanted = "give the ETag of GET, such as \"3\"";
            number.map(Some).map_err(|_| wrong("If-Match", wanted))
        }
        (_, Some("*")) => Ok(Some(0)),
        (_, Some(_)) => Err(wrong("If-None-Match", "only * is understood")),
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PutQuery {
    /// The revision that is edited.
    revision: Option<u64>,
}

async fn put(
    State(api): State<Api>,
    Who(who): Who,
    NameAt(name): NameAt,
    Query(query): Query<PutQuery>,
    headers: HeaderMap,
    Json(mut spec): Json<JobSpec>,
) -> Result<Response, Problem> {
    if spec.name.is_empty() {
        spec.name.clone_from(&name);
    }
    refuse_other(&name, &spec.name)?;
    let revision = revision(query.revision, &headers)?;
    let put = jobs(&api)?.put(spec, revision, &who.name).await?;
    note(&who, "put", &name, &put);
    Ok(shown(&put?))
}

/// Refuses a body for another job than the path names.
pub(super) fn refuse_other(path: &str, body: &str) -> Result<(), Problem> {
    if path == body {
        return Ok(());
    }
    let detail = format!("the path names the job «{path}», and the body «{body}»: rename neither");
    Err(Problem::new(Code::JobInvalid, detail))
}

async fn remove(
    State(api): State<Api>,
    Who(who): Who,
    NameAt(name): NameAt,
) -> Result<Answer<Value>, Problem> {
    let removed = jobs(&api)?.remove(&name).await?;
    note(&who, "remove", &name, &removed);
    Ok(Answer(show::job(&removed?)))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Run {
    force: bool,
}

async fn run(
    State(api): State<Api>,
    Who(who): Who,
    NameAt(name): NameAt,
    Json(run): Json<Run>,
) -> Result<Answer<Value>, Problem> {
    api.takes_work()?;
    let launched = jobs(&api)?.run(&name, &who.name, run.force).await?;
    note(&who, "run", &name, &launched);
    Ok(Answer(json!({ "launch": launched? })))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Toggle {
    disabled: Option<bool>,
}

async fn toggle(
    State(api): State<Api>,
    Who(who): Who,
    NameAt(name): NameAt,
    Json(toggle): Json<Toggle>,
) -> Result<Answer<Value>, Problem> {
    let toggled = jobs(&api)?.toggle(&name, toggle.disabled, &who.name).await?;
    note(&who, "toggle", &name, &toggled);
    Ok(Answer(show::job(&toggled?)))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cancel {
    launch: u64,
}

async fn cancel(
    State(api): State<Api>,
    Who(who): Who,
    NameAt(name): NameAt,
    Json(cancel): Json<Cancel>,
) -> Result<Answer<Value>, Problem> {
    let cancelled = jobs(&api)?.cancel(&name, cancel.launch, &who.name).await?;
    note(&who, "cancel", &name, &cancelled);
    Ok(Answer(show::job(&cancelled?)))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryQuery {
    /// Only launches before this one.
    before: Option<u64>,
    limit: Option<u32>,
}

async fn history(
    State(api): State<Api>,
    NameAt(name): NameAt,
    Query(query): Query<HistoryQuery>,
) -> Result<Answer<Value>, Problem> {
    let limit = page(query.limit, PAGE_MAX)?;
    let found = jobs(&api)?.history(&name, query.before, limit).await?;
    Ok(Answer(json!({ "launches": found.iter().map(show::launch).collect::<Vec<_>>() })))
}

async fn forget(
    State(api): State<Api>,
    Who(who): Who,
    NameAt(name): NameAt,
) -> Result<Answer<Value>, Problem> {
    let forgotten = jobs(&api)?.forget(&name).await?;
    note(&who, "forget", &name, &forgotten);
    Ok(Answer(show::job(&forgotten?)))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TimesQuery {
    limit: Option<u32>,
}

async fn times(
    State(api): State<Api>,
    NameAt(name): NameAt,
    Query(query): Query<TimesQuery>,
) -> Result<Answer<Value>, Problem> {
    let limit = page(query.limit, PAGE_MAX)?;
    let times = jobs(&api)?.next(&name, limit).await??;
    let times: Vec<String> = times.iter().map(ToString::to_string).collect();
    Ok(Answer(json!({ "times": times })))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct OutputQuery {
    /// Number of the run in its launch, from 1; the last one if nothing is said.
    run: Option<usize>,
}

async fn output(
    State(api): State<Api>,
    Part([name, launch]): Part<2>,
    Query(query): Query<OutputQuery>,
) -> Result<Answer<Value>, Problem> {
    let jobs = jobs(&api)?;
    let unknown = || JobError::UnknownLaunch { job: name.clone(), launch: launch.clone() };
    let found = jobs.launch(&name, launch.parse().map_err(|_| unknown())?).await?;
    let place = query.run.unwrap_or(found.runs.len()).checked_sub(1);
    let run = place.and_then(|place| found.runs.get(place)).ok_or_else(unknown)?;
    let output = jobs.output(run).await?;
    Ok(Answer(json!({ "output": output, "output_truncated": run.is_cut })))
}

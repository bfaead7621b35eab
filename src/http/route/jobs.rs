//! Jobs: the API of the command line and the console. `docs/jobs.md` describes it.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::Json as Answer;
use serde::Deserialize;
use serde_json::{json, Value};
use turnwheel_jobs::{show, JobError, JobView, Jobs};
use utoipa::{IntoParams, ToSchema};

use super::plans::{page, scoped};
use super::start::{created, encoded, repeated};
use crate::api::{
    JobExecutors, JobInfo, JobLaunched, JobOutcome, JobOutput, JobPage, JobSpec, JobTimes,
};
use crate::http::access::{Principal, Role};
use crate::http::body::{Json, Key, NameAt, Part, Query, Who};
use crate::http::code::Code;
use crate::http::cursor::{self, List};
use crate::http::etag::{self, Precondition};
use crate::http::limits::PAGE_MAX;
use crate::http::page::{NoQuery, PageQuery};
use crate::http::problem::Problem;
use crate::http::state::Api;
use crate::http::told::told;
use crate::http::trace;

impl From<JobError> for Problem {
    fn from(error: JobError) -> Self {
        let code = match &error {
            JobError::Unknown(_) | JobError::UnknownLaunch { .. } => Code::JobUnknown,
            JobError::UnknownParent { .. } => Code::JobUnknown,
            JobError::Setting { .. } | JobError::Cycle { .. } => Code::JobInvalid,
            JobError::Changed { .. } => Code::PreconditionFailed,
            JobError::HasDependants { .. }
            | JobError::NotAsked { .. }
            | JobError::Overlaps { .. }
            | JobError::NoRun { .. }
            | JobError::LaunchOver { .. }
            | JobError::Leaving(_)
            | JobError::TooMany(_) => Code::JobState,
            JobError::KeyReused { .. } => Code::KeyReused,
            JobError::Paused { .. } => Code::JobsPaused,
            _ => Code::StoreFailed,
        };
        Self::new(code, error.to_string())
    }
}

/// What most operations answer.
const JOB: &str = "The job";

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

/// A job as a principal may see it: credentials in its settings are for those who may edit it.
pub(super) fn seen_by(who: &Principal, view: JobView) -> JobView {
    match who.role {
        Role::Operate => view,
        Role::Read => view.masked(),
    }
}

/// All jobs, by name
///
/// The role `read` gets credentials in their settings masked.
#[utoipa::path(
    get, path = "/jobs", tag = "jobs", operation_id = "listJobs",
    params(PageQuery),
    responses((status = 200, description = "A page of jobs", body = JobPage)),
)]
pub(in crate::http) async fn list(
    State(api): State<Api>,
    Who(who): Who,
    Query(query): Query<PageQuery>,
) -> Result<Answer<Value>, Problem> {
    let (after, limit) = query.place(List::Jobs)?;
    // One more than is shown says whether there is a next page.
    let mut views = jobs(&api)?.page(&after, limit + 1).await??;
    let has_more = views.len() > limit;
    views.truncate(limit);
    let last = views.last().filter(|_| has_more);
    let next = last.map(|view| cursor::write(List::Jobs, view.spec.name.as_bytes()));
    let shown = views.into_iter().map(|view| show::job(&seen_by(&who, view)));
    let shown: Vec<Value> = shown.collect();
    Ok(Answer(json!({ "jobs": shown, "next": next })))
}

/// The executors of this node, and whether each can work
///
/// A look at a plugin starts a process: readers see what the last look has found.
#[utoipa::path(
    get, path = "/job-executors", tag = "jobs", operation_id = "listJobExecutors",
    responses((
        status = 200, body = JobExecutors, description = "The executors",
    )),
)]
pub(in crate::http) async fn executors(
    State(api): State<Api>,
    Who(who): Who,
    _: Query<NoQuery>,
) -> Result<Answer<Value>, Problem> {
    let executors = jobs(&api)?.executors().clone();
    let starts = who.role == Role::Operate;
    let looked = tokio::task::spawn_blocking(move || show::executors(&executors, starts)).await;
    looked.map(Answer).map_err(|error| {
        Problem::new(Code::Internal, format!("the executors were not looked at: {error}"))
    })
}

/// A job with its state; its ETag is its revision
///
/// The role `read` gets credentials in its settings masked.
#[utoipa::path(
    get, path = "/jobs/{name}", tag = "jobs", operation_id = "getJob",
    params(
        ("name" = String, Path, description = "The name of the job"),
    ),
    responses((status = 200, description = JOB, body = JobInfo)),
)]
pub(in crate::http) async fn one(
    State(api): State<Api>,
    Who(who): Who,
    NameAt(name): NameAt,
) -> Result<Response, Problem> {
    let mut view = jobs(&api)?.get(&name).await??;
    jobs(&api)?.note_begins(&mut view.active).await;
    Ok(shown(&seen_by(&who, view)))
}

/// A job with its revision as entity tag.
fn shown(view: &JobView) -> Response {
    etag::tagged(&view.revision.to_string(), show::job(view))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct PutQuery {
    /// The revision that is edited.
    revision: Option<u64>,
}

/// The revision that an edit is for; that of now, if it is for any one.
async fn edited(api: &Api, wanted: &Precondition, name: &str) -> Result<Option<u64>, Problem> {
    if wanted.revision().is_some() || !wanted.has_tags() {
        return Ok(wanted.revision());
    }
    let now = found(api, name).await?.map(|view| view.revision);
    let tag = now.map(|revision| revision.to_string());
    wanted.check(&format!("the job «{name}»"), tag.as_deref())?;
    Ok(now)
}

/// A job, if there is one with this name.
async fn found(api: &Api, name: &str) -> Result<Option<JobView>, Problem> {
    match jobs(api)?.get(name).await? {
        Err(JobError::Unknown(_)) => Ok(None),
        found => Ok(Some(found?)),
    }
}

/// Makes a job, or replaces the settings of the one with this name
#[utoipa::path(
    put, path = "/jobs/{name}", tag = "jobs", operation_id = "putJob",
    request_body = JobSpec,
    params(
        ("name" = String, Path, description = "The name of the job"),
        PutQuery,
        ("If-Match" = Option<String>, Header, description = "The ETag of the job that is edited"),
    ),
    responses(
        (status = 201, description = "The job is new", body = JobInfo),
        (status = 200, description = JOB, body = JobInfo),
    ),
)]
pub(in crate::http) async fn put(
    State(api): State<Api>,
    Who(who): Who,
    NameAt(name): NameAt,
    Query(query): Query<PutQuery>,
    wanted: Precondition,
    Json(body): Json<Value>,
) -> Result<Response, Problem> {
    let invalid = |problem: String| Problem::new(Code::BodyInvalid, format!("the body: {problem}"));
    if !body.is_object() {
        return Err(invalid("a job is a JSON object".to_owned()));
    }
    let mut spec: turnwheel_jobs::JobSpec =
        serde_json::from_value(body).map_err(|error| invalid(told(&error)))?;
    if spec.name.is_empty() {
        spec.name.clone_from(&name);
    }
    refuse_other(&name, &spec.name)?;
    let revision = edited(&api, &wanted, &name).await?.or(query.revision);
    let is_new = found(&api, &name).await?.is_none();
    let put = jobs(&api)?.put(spec, revision, &who.name).await?;
    note(&who, "put", &name, &put);
    let answer = shown(&put?);
    Ok(if is_new { created(&encoded(&name), answer) } else { answer })
}

/// Refuses a body for another job than the path names.
pub(super) fn refuse_other(path: &str, body: &str) -> Result<(), Problem> {
    if path == body {
        return Ok(());
    }
    let detail = format!("the path names the job «{path}», and the body «{body}»: rename neither");
    Err(Problem::new(Code::JobInvalid, detail))
}

/// Removes a job that no other one runs after
#[utoipa::path(
    delete, path = "/jobs/{name}", tag = "jobs", operation_id = "removeJob",
    params(
        ("name" = String, Path, description = "The name of the job"),
        ("If-Match" = Option<String>, Header, description = "The ETag of the job that is edited"),
    ),
    responses((status = 200, description = JOB, body = JobInfo)),
)]
pub(in crate::http) async fn remove(
    State(api): State<Api>,
    Who(who): Who,
    NameAt(name): NameAt,
    wanted: Precondition,
) -> Result<Answer<Value>, Problem> {
    let removed = jobs(&api)?.remove_revision(&name, edited(&api, &wanted, &name).await?).await?;
    note(&who, "remove", &name, &removed);
    Ok(Answer(show::job(&removed?)))
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = JobRun)]
pub(in crate::http) struct Run {
    /// Whether it is launched beside launches that are under way.
    force: bool,
}

/// Launches a job by hand
#[utoipa::path(
    post, path = "/jobs/{name}/run", tag = "jobs", operation_id = "runJob",
    request_body = Run,
    params(
        ("name" = String, Path, description = "The name of the job"),
        ("Idempotency-Key" = Option<String>, Header,
            description = "A second request with the same key and body answers the launch of the first one; \
                a job remembers its newest 128 keys"),
    ),
    responses((status = 200, description = "It is launched, or was with this key before", body = JobLaunched)),
)]
pub(in crate::http) async fn run(
    State(api): State<Api>,
    Who(who): Who,
    Key(key): Key,
    NameAt(name): NameAt,
    Json(run): Json<Run>,
) -> Result<Response, Problem> {
    api.takes_work()?;
    let launched = launched(jobs(&api)?, &who, &name, run.force, key).await?;
    note(&who, "run", &name, &launched);
    let (launch, is_repeated) = launched?;
    let answer = Answer(json!({ "launch": launch })).into_response();
    Ok(if is_repeated { repeated(answer) } else { answer })
}

/// Launches a job, once for each key of a principal; tells whether the launch was there already.
pub(super) async fn launched(
    jobs: &Jobs,
    who: &Principal,
    name: &str,
    is_forced: bool,
    key: Option<String>,
) -> Result<Result<(u64, bool), JobError>, Problem> {
    let Some(key) = key else {
        return Ok(jobs.run(name, &who.name, is_forced).await?.map(|launch| (launch, false)));
    };
    Ok(jobs.run_once(name, &who.name, is_forced, &scoped(who, &key)).await?)
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = JobToggle)]
pub(in crate::http) struct Toggle {
    /// Whether it is disabled from now on; the contrary of now if nothing is said. With an
    /// `Idempotency-Key` it has to be said: the contrary twice would be no change.
    disabled: Option<bool>,
}

/// Disables a job, or enables it
#[utoipa::path(
    post, path = "/jobs/{name}/toggle", tag = "jobs", operation_id = "toggleJob",
    request_body = Toggle,
    params(
        ("name" = String, Path, description = "The name of the job"),
        ("Idempotency-Key" = Option<String>, Header,
            description = "The body has to say «disabled» then"),
        ("If-Match" = Option<String>, Header, description = "The ETag of the job that is edited"),
    ),
    responses((status = 200, description = JOB, body = JobInfo)),
)]
pub(in crate::http) async fn toggle(
    State(api): State<Api>,
    Who(who): Who,
    Key(key): Key,
    NameAt(name): NameAt,
    wanted: Precondition,
    Json(toggle): Json<Toggle>,
) -> Result<Answer<Value>, Problem> {
    if key.is_some() && toggle.disabled.is_none() {
        let detail = "with an Idempotency-Key say «disabled»: without it a repeated request would \
                      undo the first one";
        return Err(Problem::new(Code::BodyInvalid, format!("the body: {detail}")));
    }
    let toggled = match found(&api, &name).await?.filter(|_| wanted.has_tags()) {
        None => jobs(&api)?.toggle(&name, toggle.disabled, &who.name).await?,
        Some(view) => {
            wanted.check(&format!("the job «{name}»"), Some(&view.revision.to_string()))?;
            let disabled = toggle.disabled.unwrap_or(!view.spec.disabled);
            let spec = turnwheel_jobs::JobSpec { disabled, ..view.spec };
            jobs(&api)?.put(spec, Some(view.revision), &who.name).await?
        }
    };
    note(&who, "toggle", &name, &toggled);
    Ok(Answer(show::job(&toggled?)))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = JobCancel)]
pub(in crate::http) struct Cancel {
    /// The number of the launch.
    launch: u64,
}

/// Cancels a launch that is under way or waits
#[utoipa::path(
    post, path = "/jobs/{name}/cancel", tag = "jobs", operation_id = "cancelJob",
    request_body = Cancel,
    params(
        ("name" = String, Path, description = "The name of the job"),
    ),
    responses((status = 200, description = JOB, body = JobInfo)),
)]
pub(in crate::http) async fn cancel(
    State(api): State<Api>,
    Who(who): Who,
    NameAt(name): NameAt,
    Json(cancel): Json<Cancel>,
) -> Result<Answer<Value>, Problem> {
    let cancelled = jobs(&api)?.cancel(&name, cancel.launch, &who.name).await?;
    note(&who, "cancel", &name, &cancelled);
    Ok(Answer(show::job(&cancelled?)))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = JobAnswer)]
pub(in crate::http) struct Said {
    /// The number of the launch.
    launch: u64,
    /// `succeeded`, `failed`, or `retry` for a further attempt.
    #[schema(value_type = JobOutcome)]
    outcome: turnwheel_jobs::Answer,
}

/// Says the outcome of a launch that nobody knows
#[utoipa::path(
    post, path = "/jobs/{name}/answer", tag = "jobs", operation_id = "answerJob",
    request_body = Said,
    params(
        ("name" = String, Path, description = "The name of the job"),
    ),
    responses((status = 200, description = JOB, body = JobInfo)),
)]
pub(in crate::http) async fn answer(
    State(api): State<Api>,
    Who(who): Who,
    NameAt(name): NameAt,
    Json(said): Json<Said>,
) -> Result<Answer<Value>, Problem> {
    let answered = jobs(&api)?.answer(&name, said.launch, said.outcome, &who.name).await?;
    note(&who, "answer", &name, &answered);
    Ok(Answer(show::job(&answered?)))
}

/// Forgets the history of a job with its counts
#[utoipa::path(
    delete, path = "/jobs/{name}/history", tag = "jobs", operation_id = "forgetJobHistory",
    params(
        ("name" = String, Path, description = "The name of the job"),
    ),
    responses((status = 200, description = JOB, body = JobInfo)),
)]
pub(in crate::http) async fn forget(
    State(api): State<Api>,
    Who(who): Who,
    NameAt(name): NameAt,
) -> Result<Answer<Value>, Problem> {
    let forgotten = jobs(&api)?.forget(&name).await?;
    note(&who, "forget", &name, &forgotten);
    Ok(Answer(show::job(&forgotten?)))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct TimesQuery {
    /// Maximum number of times; 1,000 at most.
    #[param(minimum = 1, maximum = 1000, default = 50)]
    limit: Option<u32>,
}

/// The next times of a job, when its launches begin
#[utoipa::path(
    get, path = "/jobs/{name}/times", tag = "jobs", operation_id = "listJobTimes",
    params(
        ("name" = String, Path, description = "The name of the job"),
        TimesQuery,
    ),
    responses((status = 200, description = "The times", body = JobTimes)),
)]
pub(in crate::http) async fn times(
    State(api): State<Api>,
    NameAt(name): NameAt,
    Query(query): Query<TimesQuery>,
) -> Result<Answer<Value>, Problem> {
    let limit = page(query.limit, PAGE_MAX)?;
    let launches = jobs(&api)?.next(&name, limit).await??;
    Ok(Answer(show::next(&launches)))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct OutputQuery {
    /// Number of the run in its launch, from 1; the last one if nothing is said.
    run: Option<usize>,
}

/// The output that a run has kept
#[utoipa::path(
    get, path = "/jobs/{name}/launches/{launch}/output", tag = "jobs",
    operation_id = "getJobOutput",
    params(
        ("name" = String, Path, description = "The name of the job"),
        ("launch" = u64, Path, description = "The number of the launch"),
        OutputQuery,
    ),
    responses((status = 200, description = "The output", body = JobOutput)),
)]
pub(in crate::http) async fn output(
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

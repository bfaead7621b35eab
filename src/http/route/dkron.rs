//! Dkron's API, for its clients. `docs/dkron.md` says where it differs.

use std::collections::HashMap;
use std::time::SystemTime;

use axum::extract::State;
use axum::http::{header, HeaderName, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::Router;
use serde_json::{json, Value};
use turnwheel_jobs::{disable_spent, dkron, JobError, JobView, Jobs, Launch, LaunchState, Node};

use super::dkron_lists::{busy, list};
use super::jobs::{jobs, launched, note, refuse_other, seen_by};
use super::start::{encoded, repeated};
use crate::http::access::Principal;
use crate::http::body::{parse, Key, NameAt, Part, Raw, Who};
use crate::http::code::Code;
use crate::http::problem::Problem;
use crate::http::state::Api;

/// Headers of Dkron's answers.
const WHOM: HeaderName = HeaderName::from_static("x-whom");
const TOTAL: HeaderName = HeaderName::from_static("x-total-count");
const EXECUTION: HeaderName = HeaderName::from_static("x-execution-id");

/// Times that fields are merged into a job that others edit at the same time.
const PATCHES_MAX: usize = 10;

/// Executions of one answer, at most: others are reached by `_start`.
const EXECUTIONS_MAX: usize = 1_000;

pub(super) type Given = HashMap<String, String>;

/// The operations.
pub(in crate::http) fn routes() -> Router<Api> {
    Router::new()
        .route("/v1", get(about))
        .route("/v1/", get(about))
        .route("/v1/jobs", get(list).post(put).patch(patch))
        .route("/v1/jobs/{name}", get(one).put(put_at).delete(remove).post(run))
        .route("/v1/jobs/{name}/run", post(run))
        .route("/v1/jobs/{name}/toggle", post(toggle))
        .route("/v1/jobs/{name}/executions", get(executions).delete(forget))
        .route("/v1/jobs/{name}/executions/{id}", get(execution))
        .route("/v1/busy", get(busy))
        .route("/v1/members", get(members))
        .route("/v1/leader", get(leader))
        .route("/v1/isleader", get(is_leader))
        .route("/v1/pause", get(paused).post(pause))
        .route("/v1/unpause", post(unpause))
        .route("/v1/restore", post(restore))
}

/// The parameters of a query; a later one of the same name counts.
pub(super) fn given(uri: &Uri) -> Given {
    let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri);
    pairs.map_or_else(|_| Given::new(), |pairs| pairs.0.into_iter().collect())
}

/// An answer in Dkron's manner.
pub(super) fn answer(jobs: &Jobs, uri: &Uri, status: StatusCode, value: &Value) -> Response {
    let is_pretty = given(uri).contains_key("pretty");
    let text = match is_pretty {
        true => serde_json::to_string_pretty(value),
        false => serde_json::to_string(value),
    };
    let mut answer = (status, text.unwrap_or_default()).into_response();
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Ok(node) = HeaderValue::from_str(&jobs.node().name) {
        headers.insert(WHOM, node);
    }
    answer
}

pub(super) fn with_total(mut answer: Response, total: usize) -> Response {
    answer.headers_mut().insert(TOTAL, HeaderValue::from(total));
    answer
}

async fn about(State(api): State<Api>, uri: Uri) -> Result<Response, Problem> {
    let jobs = jobs(&api)?;
    let nodes = jobs.nodes();
    let left = nodes.iter().filter(|(_, takes_runs)| !takes_runs).count();
    let about = json!({
        "agent": { "name": jobs.node().name, "version": env!("CARGO_PKG_VERSION") },
        "serf": {
            "members": nodes.len().to_string(), "failed": "0", "left": left.to_string(),
        },
        "tags": jobs.node().labels,
    });
    Ok(answer(jobs, &uri, StatusCode::OK, &about))
}

/// The place in a list that a parameter gives.
pub(super) fn place(given: &Given, name: &str) -> Result<Option<usize>, Problem> {
    let Some(text) = given.get(name).filter(|text| !text.is_empty()) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        Problem::new(
            Code::QueryInvalid,
            format!("the query: {name}: «{text}» is no place in a list"),
        )
    })
}

async fn one(
    State(api): State<Api>,
    uri: Uri,
    Who(who): Who,
    NameAt(name): NameAt,
) -> Result<Response, Problem> {
    let jobs = jobs(&api)?;
    let view = seen_by(&who, jobs.get(&name).await??);
    Ok(answer(jobs, &uri, StatusCode::OK, &dkron::job(&view)))
}

/// Stores a job, and runs it at once if the query asks for that. What Dkron has no words for stays
/// as it is: a client sends back what it has read.
async fn store(api: &Api, who: &Principal, uri: &Uri, body: &Value) -> Result<Response, Problem> {
    let spec = dkron::read(body)?.spec;
    let (name, jobs) = (spec.name.clone(), jobs(api)?);
    for _ in 0..PATCHES_MAX {
        let (spec, revision) = match (jobs.get(&name).await?, body.as_object()) {
            (Ok(view), Some(fields)) => (dkron::replace(&view, fields)?, Some(view.revision)),
            (Err(JobError::Unknown(_)), _) => (spec.clone(), Some(0)),
            (Err(error), _) => return Err(error.into()),
            (Ok(_), None) => (spec.clone(), None),
        };
        let put = jobs.put(spec, revision, &who.name).await?;
        if !matches!(put, Err(JobError::Changed { .. })) {
            return stored(jobs, (who, uri, &name), put).await;
        }
    }
    Err(edited_all_the_time(&name))
}

fn edited_all_the_time(name: &str) -> Problem {
    Problem::new(Code::JobState, format!("the job «{name}» is edited all the time: try again"))
}

/// The id of the first run of a launch, for clients that ask what became of it. One that has no
/// node yet has an id without one.
async fn id_of(jobs: &Jobs, name: &str, launch: u64) -> Result<Option<HeaderValue>, Problem> {
    let found = jobs.launch(name, launch).await?;
    Ok(HeaderValue::from_str(&dkron::execution_id(&found, 0)).ok())
}

async fn stored(
    jobs: &Jobs,
    (who, uri, name): (&Principal, &Uri, &str),
    put: Result<JobView, JobError>,
) -> Result<Response, Problem> {
    note(who, "put", name, &put);
    let (mut job, mut execution) = (dkron::job(&put?), None);
    if given(uri).contains_key("runoncreate") {
        // The job is stored, whatever becomes of the launch.
        match jobs.run(name, &who.name, false).await? {
            Ok(launch) => execution = id_of(jobs, name, launch).await?,
            Err(error) => job["turnwheel"]["not_run"] = Value::from(error.to_string()),
        }
    }
    let mut answer = answer(jobs, uri, StatusCode::CREATED, &job);
    let headers = answer.headers_mut();
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/jobs/{}", encoded(name))) {
        headers.insert(header::LOCATION, location);
    }
    execution.map(|id| headers.insert(EXECUTION, id));
    Ok(answer)
}

/// A body that is a job; everything that is wrong with it is a bad request, as in Dkron.
fn body(Raw(bytes): &Raw) -> Result<Value, Problem> {
    parse(bytes)
}

async fn put(
    State(api): State<Api>,
    uri: Uri,
    Who(who): Who,
    raw: Raw,
) -> Result<Response, Problem> {
    store(&api, &who, &uri, &body(&raw)?).await
}

async fn put_at(
    State(api): State<Api>,
    uri: Uri,
    Who(who): Who,
    NameAt(name): NameAt,
    raw: Raw,
) -> Result<Response, Problem> {
    let mut job = body(&raw)?;
    if !job.is_object() {
        return Err(Problem::new(Code::JobInvalid, "the body: a job is a JSON object"));
    }
    match job["name"].as_str() {
        Some(other) if !other.is_empty() => refuse_other(&name, other)?,
        _ => job["name"] = Value::from(name),
    }
    store(&api, &who, &uri, &job).await
}

/// Changes the fields that are sent, and leaves the others.
async fn patch(
    State(api): State<Api>,
    uri: Uri,
    Who(who): Who,
    raw: Raw,
) -> Result<Response, Problem> {
    let sent = body(&raw)?;
    let Some(fields) = sent.as_object() else {
        return Err(Problem::new(Code::JobInvalid, "the body: a job is a JSON object"));
    };
    let name = sent["name"].as_str().or(sent["id"].as_str()).unwrap_or_default().to_owned();
    if name.is_empty() {
        let detail = "the body: it names no job: give its name beside the fields that change";
        return Err(Problem::new(Code::JobInvalid, detail));
    }
    let jobs = jobs(&api)?;
    for _ in 0..PATCHES_MAX {
        let view = jobs.get(&name).await??;
        let put = jobs.put(dkron::merge(&view, fields)?, Some(view.revision), &who.name).await?;
        // Somebody else was faster: the fields are merged into that.
        if !matches!(put, Err(JobError::Changed { .. })) {
            return stored(jobs, (&who, &uri, &name), put).await;
        }
    }
    Err(edited_all_the_time(&name))
}

async fn remove(
    State(api): State<Api>,
    uri: Uri,
    Who(who): Who,
    NameAt(name): NameAt,
) -> Result<Response, Problem> {
    let jobs = jobs(&api)?;
    changed(jobs, &uri, (&who, "remove", &name), jobs.remove(&name).await?)
}

/// Notes a change of a job, and answers the job.
fn changed(
    jobs: &Jobs,
    uri: &Uri,
    (who, what, name): (&Principal, &str, &str),
    outcome: Result<JobView, JobError>,
) -> Result<Response, Problem> {
    note(who, what, name, &outcome);
    Ok(answer(jobs, uri, StatusCode::OK, &dkron::job(&outcome?)))
}

async fn run(
    State(api): State<Api>,
    uri: Uri,
    Who(who): Who,
    Key(key): Key,
    NameAt(name): NameAt,
) -> Result<Response, Problem> {
    api.takes_work()?;
    let jobs = jobs(&api)?;
    let launched = launched(jobs, &who, &name, false, key).await?;
    note(&who, "run", &name, &launched);
    let (launch, is_repeated) = launched?;
    let view = jobs.get(&name).await??;
    let answer = answer(jobs, &uri, StatusCode::ACCEPTED, &dkron::job(&view));
    let mut answer = if is_repeated { repeated(answer) } else { answer };
    if let Some(id) = id_of(jobs, &name, launch).await? {
        answer.headers_mut().insert(EXECUTION, id);
    }
    Ok(answer)
}

async fn toggle(
    State(api): State<Api>,
    uri: Uri,
    Who(who): Who,
    NameAt(name): NameAt,
) -> Result<Response, Problem> {
    let jobs = jobs(&api)?;
    let toggled = jobs.toggle(&name, None, &who.name).await?;
    changed(jobs, &uri, (&who, "toggle", &name), toggled)
}

/// A run with its output.
async fn shown(
    jobs: &Jobs,
    name: &str,
    launch: &Launch,
    run: usize,
    limit: Option<usize>,
) -> Result<Value, Problem> {
    let output = match launch.runs.get(run) {
        Some(run) => jobs.output(run).await?,
        None => String::new(),
    };
    Ok(dkron::execution(name, launch, run, &output, limit))
}

async fn executions(
    State(api): State<Api>,
    uri: Uri,
    NameAt(name): NameAt,
) -> Result<Response, Problem> {
    let (jobs, given) = (jobs(&api)?, given(&uri));
    let limit = place(&given, "output_size_limit")?;
    let mut runs: Vec<(Launch, usize)> = Vec::new();
    for launch in jobs.history(&name, None, usize::MAX).await? {
        // A failed launch without a node has one row, with the reason.
        let is_empty = launch.runs.is_empty() && launch.state == LaunchState::Failed;
        let rows = launch.runs.len() + usize::from(is_empty);
        runs.extend((0..rows).rev().map(|run| (launch.clone(), run)));
    }
    // Newest first by default; the order of the query is that of the list then.
    let is_ascending = given.get("_order").is_some_and(|order| order.eq_ignore_ascii_case("asc"));
    if is_ascending {
        runs.reverse();
    }
    let total = runs.len();
    let (start, end) = (place(&given, "_start")?, place(&given, "_end")?);
    let (start, end) = (start.unwrap_or(0), end.unwrap_or(usize::MAX));
    let mut list = Vec::new();
    let count = end.saturating_sub(start).min(EXECUTIONS_MAX);
    for (launch, run) in runs.iter().skip(start).take(count) {
        list.push(shown(jobs, &name, launch, *run, limit).await?);
    }
    Ok(with_total(answer(jobs, &uri, StatusCode::OK, &Value::from(list)), total))
}

async fn execution(
    State(api): State<Api>,
    uri: Uri,
    Part([name, id]): Part<2>,
) -> Result<Response, Problem> {
    let jobs = jobs(&api)?;
    let unknown = || JobError::UnknownLaunch { job: name.clone(), launch: id.clone() };
    let (launch, run) = dkron::execution_of(&id).ok_or_else(unknown)?;
    let found = jobs.launch(&name, launch).await?;
    // An id that was given before there was a node has none.
    let is_early = id == format!("{launch}-{}-", run + 1) && run <= found.runs.len();
    if dkron::execution_id(&found, run) != id && !is_early {
        return Err(unknown().into());
    }
    let shown = shown(jobs, &name, &found, run, None).await?;
    Ok(answer(jobs, &uri, StatusCode::OK, &shown))
}

async fn forget(
    State(api): State<Api>,
    uri: Uri,
    Who(who): Who,
    NameAt(name): NameAt,
) -> Result<Response, Problem> {
    let jobs = jobs(&api)?;
    changed(jobs, &uri, (&who, "forget", &name), jobs.forget(&name).await?)
}

/// A node as a member; one that takes no new runs is leaving.
fn member(node: &Node, takes_runs: bool) -> Value {
    let (status, text) = if takes_runs { (1, "alive") } else { (2, "leaving") };
    json!({
        "id": node.name, "Name": node.name, "Tags": node.labels, "Status": status,
        "statusText": text,
    })
}

async fn members(State(api): State<Api>, uri: Uri) -> Result<Response, Problem> {
    let jobs = jobs(&api)?;
    let nodes = jobs.nodes();
    let members: Vec<Value> = nodes.iter().map(|(node, takes)| member(node, *takes)).collect();
    let total = members.len();
    Ok(with_total(answer(jobs, &uri, StatusCode::OK, &Value::from(members)), total))
}

/// The node that decides what is due. While none does or it does not answer, there is no leader.
async fn leading(jobs: &Jobs) -> Result<Node, Problem> {
    let asked = jobs.server().await.map_err(|failure| failure.to_string());
    let found = asked.and_then(|found| found.map_err(|error| error.to_string()));
    found.map_err(|error| {
        Problem::new(Code::PathUnknown, format!("there is no leader now: {error}"))
    })
}

async fn leader(State(api): State<Api>, uri: Uri) -> Result<Response, Problem> {
    let jobs = jobs(&api)?;
    let leader = leading(jobs).await?;
    Ok(answer(jobs, &uri, StatusCode::OK, &member(&leader, true)))
}

async fn is_leader(State(api): State<Api>, uri: Uri) -> Result<Response, Problem> {
    let jobs = jobs(&api)?;
    let leader = leading(jobs).await?;
    if leader.name != jobs.node().name {
        let detail = format!("this node is a follower: {} is the leader", leader.name);
        return Err(Problem::new(Code::PathUnknown, detail));
    }
    Ok(answer(jobs, &uri, StatusCode::OK, &json!("I am a leader")))
}

async fn paused(State(api): State<Api>, uri: Uri) -> Result<Response, Problem> {
    let jobs = jobs(&api)?;
    let paused = jobs.paused_by().await??.is_some();
    Ok(answer(jobs, &uri, StatusCode::OK, &json!(paused)))
}

async fn pause(State(api): State<Api>, uri: Uri, Who(who): Who) -> Result<Response, Problem> {
    let jobs = jobs(&api)?;
    let outcome = jobs.pause_changes(Some(&who.name)).await?;
    note(&who, "pause", "all", &outcome);
    outcome?;
    Ok(answer(jobs, &uri, StatusCode::OK, &json!(true)))
}

async fn unpause(State(api): State<Api>, uri: Uri, Who(who): Who) -> Result<Response, Problem> {
    let jobs = jobs(&api)?;
    let outcome = jobs.pause_changes(None).await?;
    note(&who, "unpause", "all", &outcome);
    outcome?;
    Ok(answer(jobs, &uri, StatusCode::OK, &json!(false)))
}

/// Makes the jobs of a backup. A form is refused before: a page of any site can send one.
async fn restore(
    State(api): State<Api>,
    uri: Uri,
    Who(who): Who,
    Raw(bytes): Raw,
) -> Result<Response, Problem> {
    let jobs = jobs(&api)?;
    let backup: Value = parse(&bytes)?;
    let mut report = Vec::new();
    let backup = dkron::read_backup(&backup)?;
    for (name, error) in backup.refused {
        report.push(format!("fail create {name}: {error}"));
    }
    for (mut spec, _) in backup.jobs {
        let disabled = disable_spent(&mut spec, SystemTime::now().into());
        let disabled = disabled.map_or_else(String::new, |note| format!(" ({note})"));
        let name = spec.name.clone();
        let put = jobs.put(spec, None, &who.name).await?;
        note(&who, "restore", &name, &put);
        report.push(match put {
            Ok(_) => format!("success create {name}{disabled}"),
            Err(error) => format!("fail create {name}: {error}"),
        });
    }
    Ok(answer(jobs, &uri, StatusCode::OK, &json!(report)))
}

//! Flows: their sources, and how they are begun.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::Json as Answer;
use serde::Deserialize;
use serde_json::Value;
use turnwheel_engine::{Action as _, PlanError, PlanId, TriggerError, TriggerOptions};
use turnwheel_flow::{self as flow, Flow, FlowEntry, FlowError, FlowPlan, Flows, Problems};
use utoipa::IntoParams;

use super::plans::scoped;
use super::start::{answer, created, encoded, traced};
use crate::api::{FlowDetail, FlowInfo, FlowList, FlowProblem, FlowRun, FlowTaskInfo, Started};
use crate::http::body::{content_type, Json, Key, Part, Query, Raw, Who};
use crate::http::code::Code;
use crate::http::cursor::List;
use crate::http::etag::{self, Precondition};
use crate::http::page::PageQuery;
use crate::http::problem::Problem;
use crate::http::state::Api;
use crate::http::trace;

/// The version that stands for the newest one.
const LATEST: &str = "latest";

/// Options for adding a flow.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct AddQuery {
    /// Whether the flow starts by itself from now on, if it says when; it does if nothing is said.
    schedule: Option<bool>,
}

impl From<FlowError> for Problem {
    fn from(error: FlowError) -> Self {
        let detail = error.to_string();
        match error {
            FlowError::NoFlows => Self::new(Code::PathUnknown, "this server runs no flows"),
            FlowError::Exists(_) => Self::new(Code::FlowExists, detail),
            FlowError::Changed(_) => Self::new(Code::PreconditionFailed, detail),
            FlowError::Unknown(_) => Self::new(Code::FlowUnknown, detail),
            FlowError::Scheduled { .. } => Self::new(Code::FlowInUse, detail),
            FlowError::UnderWay { plan, .. } => Self::new(Code::FlowInUse, detail).of_plan(plan),
            FlowError::Unable { .. } | FlowError::Schedule(_) => {
                Self::new(Code::FlowInvalid, detail)
            }
            FlowError::NotRetried(_) => Self::new(Code::PlanState, detail),
            FlowError::Store(error) => error.into(),
            FlowError::Plan(error) => error.into(),
            FlowError::Trigger(error) => error.into(),
            FlowError::Passing(_) => Self::new(Code::PlanRefused, detail).again_after(1),
            _ => Self::new(Code::Internal, detail),
        }
    }
}

fn info(entry: FlowEntry) -> FlowInfo {
    FlowInfo {
        namespace: entry.namespace,
        name: entry.name,
        version: entry.version,
        hash: entry.hash,
    }
}

/// The problems, each with its place.
fn problems(wrong: &Problems) -> Problem {
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let one = |one: &flow::Problem| FlowProblem {
        line: number(one.line),
        column: number(one.column),
        message: one.message.clone(),
        suggestion: one.suggestion.clone(),
        snippet: one.snippet.clone(),
    };
    let all = wrong.all.iter().map(one).collect();
    Problem::new(Code::FlowInvalid, wrong.to_string()).with_problems(all)
}

fn read(headers: &HeaderMap, body: &[u8]) -> Result<Flow, Problem> {
    let kind = content_type(headers);
    if !(kind.ends_with("yaml") || kind.ends_with("json")) {
        let detail = "a flow is YAML or JSON: send it as application/yaml or application/json";
        return Err(Problem::new(Code::BodyTypeWrong, detail));
    }
    let text = std::str::from_utf8(body).map_err(|error| {
        Problem::new(Code::BodyNotJson, format!("the body is not in UTF-8: {error}"))
    })?;
    flow::load(text, "body").map_err(|wrong| problems(&wrong))
}

/// The flow with the resources that it names, which are read by a thread that may wait.
async fn resolved(flows: &Flows, flow: Flow) -> Result<Flow, FlowError> {
    if flow.missing().next().is_none() {
        return Ok(flow);
    }
    let (flows, id) = (flows.clone(), flow.id());
    let read = tokio::task::spawn_blocking(move || flows.resolve(&flow)).await;
    read.unwrap_or_else(|error| Err(FlowError::Unable { flow: id, problem: error.to_string() }))
}

fn detail(flow: &Flow, text: Option<String>) -> FlowDetail {
    let task =
        |(path, kind): (&str, &str)| FlowTaskInfo { path: path.to_owned(), kind: kind.to_owned() };
    FlowDetail {
        flow: FlowInfo {
            namespace: flow.namespace().to_owned(),
            name: flow.name().to_owned(),
            version: flow.version().to_owned(),
            hash: flow.hash().to_owned(),
        },
        title: flow.title().map(str::to_owned),
        source: flow.source().clone(),
        text,
        input_schema: flow.input_schema().cloned(),
        secrets: flow.secrets().to_vec(),
        tasks: flow.tasks().map(task).collect(),
        note: None,
    }
}

/// The flows that can be started
#[utoipa::path(
    get, path = "/flows", tag = "flows", operation_id = "listFlows",
    params(PageQuery),
    responses((status = 200, description = "A page of the flows, by name and version", body = FlowList)),
)]
pub(in crate::http) async fn list(
    State(api): State<Api>,
    Query(query): Query<PageQuery>,
) -> Result<Answer<FlowList>, Problem> {
    let flows = Flows::new(api.world())?;
    flows.look_again().await?;
    let (unheard_events, unclear_filters) = (flows.unheard(), flows.unclear());
    let (flows, next) = query.of(List::Flows, flows.list(), FlowEntry::id)?;
    let flows = flows.into_iter().map(info).collect();
    Ok(Answer(FlowList { flows, next, unheard_events, unclear_filters }))
}

/// Adds a flow, YAML or JSON; an existing one stays unchanged
///
/// If it has a schedule of its own, the schedule starts now, unless the query says otherwise. The
/// answer has a `note` if the schedule of another version goes on.
#[utoipa::path(
    post, path = "/flows", tag = "flows", operation_id = "addFlow",
    params(AddQuery),
    request_body(content = String, content_type = "application/yaml"),
    responses(
        (status = 201, description = "It is durable", body = FlowDetail),
        (status = 200, description = "It was there already", body = FlowDetail),
    ),
)]
pub(in crate::http) async fn add(
    State(api): State<Api>,
    Who(who): Who,
    Query(query): Query<AddQuery>,
    headers: HeaderMap,
    Raw(body): Raw,
) -> Result<Response, Problem> {
    api.takes_work()?;
    let flows = Flows::new(api.world())?;
    let mut flow = read(&headers, &body)?;
    let added = async {
        flow = resolved(&flows, flow.clone()).await?;
        if query.schedule != Some(false) {
            // Before the flow is stored.
            flow.check_schedule()?;
        }
        let (_, is_new) = flows.add_if_new(&flow).await?;
        if query.schedule != Some(false) {
            flows.schedule(&flow).await?;
        }
        Ok((is_new, flows.other_schedule(&flow).await?))
    };
    let added: Result<(bool, Option<String>), FlowError> = added.await;
    let outcome = added.as_ref().map_or_else(ToString::to_string, |_| "done".to_owned());
    trace::audit(&who, "add flow", &flow.id(), &outcome);
    let (is_new, note) = added?;
    let text = flow.text().map(str::to_owned);
    let answer = Answer(FlowDetail { note, ..detail(&flow, text) }).into_response();
    let parts = [flow.namespace(), flow.name(), flow.version()].map(encoded);
    Ok(if is_new { created(&format!("flows/{}", parts.join("/")), answer) } else { answer })
}

/// Whether a flow could be added; nothing is kept
#[utoipa::path(
    post, path = "/flows/check", tag = "flows", operation_id = "checkFlow",
    request_body(content = String, content_type = "application/yaml"),
    responses((status = 200, description = "It could be", body = FlowDetail)),
)]
pub(in crate::http) async fn check(
    headers: HeaderMap,
    Raw(body): Raw,
) -> Result<Answer<FlowDetail>, Problem> {
    Ok(Answer(detail(&read(&headers, &body)?, None)))
}

/// A flow; its version may be `latest`
#[utoipa::path(
    get, path = "/flows/{namespace}/{name}/{version}", tag = "flows", operation_id = "getFlow",
    params(
        ("namespace" = String, Path, description = "Its namespace"),
        ("name" = String, Path, description = "Its name"),
        ("version" = String, Path, description = "Its version, or `latest`"),
    ),
    responses((status = 200, description = "The flow", body = FlowDetail)),
)]
pub(in crate::http) async fn get(
    State(api): State<Api>,
    Part([namespace, name, version]): Part<3>,
) -> Result<Response, Problem> {
    let flows = Flows::new(api.world())?;
    flows.look_again().await?;
    let flow = flows.find(&namespace, &name, &version)?;
    let text = flows.text(&flow).await?;
    Ok(etag::tagged_whole(flow.hash(), detail(&flow, text)))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct RemoveQuery {
    /// Whether it is removed although schedules start it: they go on with its definition.
    #[serde(default)]
    force: bool,
}

/// Removes a version of a flow, with the schedule that it has said itself
///
/// Plans that are over keep their definition: they can be shown, retried and run again. A version that other
/// schedules start is not removed unless the query forces it.
#[utoipa::path(
    delete, path = "/flows/{namespace}/{name}/{version}", tag = "flows", operation_id = "removeFlow",
    params(
        ("namespace" = String, Path, description = "Its namespace"),
        ("name" = String, Path, description = "Its name"),
        ("version" = String, Path, description = "Its version"),
        RemoveQuery,
        ("If-Match" = Option<String>, Header, description = "The ETag of the content that is removed"),
    ),
    responses((status = 204, description = "It is removed")),
)]
pub(in crate::http) async fn remove(
    State(api): State<Api>,
    Who(who): Who,
    Part([namespace, name, version]): Part<3>,
    Query(query): Query<RemoveQuery>,
    wanted: Precondition,
) -> Result<StatusCode, Problem> {
    let flows = Flows::new(api.world())?;
    flows.look_again().await?;
    let id = format!("{namespace}/{name}:{version}");
    let found = flows.list().into_iter().find(|it| it.id() == id);
    wanted.check(&format!("the flow {id}"), found.as_ref().map(|it| &*it.hash))?;
    let removed = match found {
        // With the content that was checked, or not at all.
        Some(found) if query.force => flows.remove_scheduled(found).await,
        Some(found) => flows.remove_entry(found).await,
        None => Err(FlowError::Unknown(id.clone())),
    };
    let outcome = removed.as_ref().map_or_else(ToString::to_string, |_| "done".to_owned());
    trace::audit(&who, "remove flow", &id, &outcome);
    removed?;
    Ok(StatusCode::NO_CONTENT)
}

/// The input of a plan or schedule of a flow: one that names the flow alone gets the hash of its
/// definition, of the newest version if it names none.
pub(super) async fn input_of(api: &Api, action: &str, input: Value) -> Result<Value, Problem> {
    if action != FlowPlan::NAME || input.get("definition").is_some() {
        return Ok(input);
    }
    let wrong = || {
        let detail =
            "the input of a flow names it, as {\"flow\": \"shop/mail:1.0.0\", \"input\": {}}; \
                      without its version it is the newest one";
        Problem::new(Code::InputInvalid, detail)
    };
    let named = input.get("flow").and_then(Value::as_str).ok_or_else(wrong)?;
    let (path, version) = named.split_once(':').unwrap_or((named, LATEST));
    let (namespace, name) = path.split_once('/').ok_or_else(wrong)?;
    let flows = Flows::new(api.world())?;
    flows.look_again().await?;
    let flow = flows.find(namespace, name, version)?;
    let start = flow.start(input.get("input").cloned().unwrap_or_default());
    serde_json::to_value(start).map_err(|error| Problem::new(Code::Internal, error.to_string()))
}

/// Starts a flow; the answer comes when its plan is durable
#[utoipa::path(
    post, path = "/flows/{namespace}/{name}/{version}/start", tag = "flows", operation_id = "startFlow",
    request_body = FlowRun,
    params(
        ("namespace" = String, Path, description = "Its namespace"),
        ("name" = String, Path, description = "Its name"),
        ("version" = String, Path, description = "Its version, or `latest`"),
        ("Idempotency-Key" = Option<String>, Header,
            description = "A second request with the same key and body answers the plan of the first one"),
    ),
    responses(
        (status = 201, description = "The plan is durable", body = Started),
        (status = 200, description = "It was there already", body = Started),
    ),
)]
pub(in crate::http) async fn start(
    State(api): State<Api>,
    Who(who): Who,
    Key(key): Key,
    Part([namespace, name, version]): Part<3>,
    Json(run): Json<FlowRun>,
) -> Result<Response, Problem> {
    api.takes_work()?;
    let flows = Flows::new(api.world())?;
    flows.look_again().await?;
    let flow = flows.find(&namespace, &name, &version)?;
    let mut options = TriggerOptions::new().by(&*who.name);
    for (name, value) in &run.labels {
        options = options.label(name, value);
    }
    if let Some(key) = &key {
        options = options.key(scoped(&who, key));
    }
    if let Some(priority) = run.priority {
        options = options.priority(priority);
    }
    if let Some(ms) = run.deadline_ms {
        options = options.deadline(Duration::from_millis(ms));
    }
    let options = traced(options);
    let again = (key.is_some() && version == LATEST).then(|| (run.input.clone(), options.clone()));
    let (named, _input) = flows.start_named(&flow, run.input, options)?;
    let (mut id, mut begun) = (named.id, named.triggering.await);
    let reused = match &begun {
        Err(TriggerError::KeyReused { plan, .. }) => Some(*plan),
        _ => None,
    };
    if let Some((plan, (input, options))) = reused.zip(again) {
        // The caller may have sent the same before a version was added.
        if let Some(before) = version_of(&api, &flows, plan, &flow).await? {
            let (named, _input) = flows.start_named(&before, input, options)?;
            (id, begun) = (named.id, named.triggering.await);
        }
    }
    answer(&who, &flow.id(), id, begun, 4)
}

/// The version that a plan has begun, if it is another one of this flow.
async fn version_of(
    api: &Api,
    flows: &Flows,
    plan: PlanId,
    flow: &Flow,
) -> Result<Option<Flow>, Problem> {
    let view = match api.world().plan(plan).view().await {
        // It was removed meanwhile: the key says no more than that it was used.
        Err(PlanError::Unknown(_)) => return Ok(None),
        view => view?,
    };
    let label = |name: &str| view.labels.get(name).map(String::as_str);
    let is_same_flow = label("flow.namespace") == Some(flow.namespace())
        && label("flow.name") == Some(flow.name());
    let version = label("flow.version").filter(|_| is_same_flow);
    let found = version.map(|version| flows.find(flow.namespace(), flow.name(), version));
    match found.transpose() {
        Err(FlowError::Unknown(_)) => Ok(None),
        found => Ok(found?),
    }
}

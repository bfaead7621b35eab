//! Work for programs in other languages: lease, live, complete, fail.

use std::time::{Duration, Instant};

use axum::extract::State;
use axum::Json as Answer;
use serde_json::Value;
use turnwheel_engine::{PlanError, PlanId, PlanState, PlanView, StepId, StepState};

use crate::api::{
    Lease, Leased, Task, TaskComplete, TaskDone, TaskFail, TaskHeartbeat, TaskHeld, Topic,
};
use crate::http::access::Principal;
use crate::http::body::{Json, NameAt, Who};
use crate::http::code::Code;
use crate::http::limits::{LEASES_MAX, TOPICS_MAX, WAIT_MAX, WORKER_BYTES_MAX};
use crate::http::problem::Problem;
use crate::http::show;
use crate::http::state::Api;
use crate::http::trace;
use crate::work::{
    event_id, ExternalTask, LeaseError, Offer, OfferId, Outcome, Workers, LEASE, LEASE_MAX,
};

/// Time after which a waiting worker looks again without a new offer: the lease of another worker
/// may have ended.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Interval of looks for the suspension of a step that has written its offer, and how long they go
/// on: other tasks wait for their worker meanwhile.
const LOOK_SOON: Duration = Duration::from_millis(2);
const AT_REST_WITHIN: Duration = Duration::from_secs(1);

impl From<LeaseError> for Problem {
    fn from(error: LeaseError) -> Self {
        match error {
            LeaseError::Lost => Self::new(Code::LeaseLost, error.to_string()),
            LeaseError::Store(error) => error.into(),
        }
    }
}

fn workers(api: &Api) -> Result<&Workers, Problem> {
    api.options().workers.as_ref().ok_or_else(|| {
        Problem::new(Code::PathUnknown, "this server hands out no work to other programs")
    })
}

fn lease_of(ms: Option<u64>) -> Result<Duration, Problem> {
    let lease = ms.map_or(LEASE, Duration::from_millis);
    if lease.is_zero() || lease > LEASE_MAX {
        let detail = format!("the body: lease_ms has to be from 1 to {}", LEASE_MAX.as_millis());
        return Err(Problem::new(Code::BodyInvalid, detail));
    }
    Ok(lease)
}

/// The principal, with the name of its worker in what is written down.
fn with_worker(who: Principal, worker: Option<&str>) -> Principal {
    match worker {
        Some(worker) => Principal::new(&format!("{} (worker {worker})", who.name), who.role),
        None => who,
    }
}

/// The same, of the worker that has leased a task.
fn worker_of(who: Principal, task: &str) -> Principal {
    let id: Option<OfferId> = task.parse().ok();
    with_worker(who, id.and_then(|id| id.worker).as_deref())
}

fn moment(ms: u64) -> String {
    show::time(turnwheel_engine::Time(ms.saturating_mul(1_000)))
}

/// Leases tasks; waits for one if there is none
#[utoipa::path(
    post, path = "/work/lease", tag = "work", operation_id = "leaseTasks", request_body = Lease,
    responses((status = 200, description = "The tasks that the worker has now", body = Leased)),
)]
pub(in crate::http) async fn lease(
    State(api): State<Api>,
    Who(who): Who,
    Json(asked): Json<Lease>,
) -> Result<Answer<Leased>, Problem> {
    let workers = workers(&api)?;
    let wrong = |detail: String| Problem::new(Code::BodyInvalid, format!("the body: {detail}"));
    if asked.topics.is_empty() {
        return Err(wrong("it names no topic".to_owned()));
    }
    if asked.topics.len() > TOPICS_MAX {
        return Err(wrong(format!("it names more than {TOPICS_MAX} topics")));
    }
    let limit = asked.limit.unwrap_or(1) as usize;
    if limit == 0 || limit > LEASES_MAX {
        return Err(wrong(format!("limit has to be from 1 to {LEASES_MAX}")));
    }
    let wait = Duration::from_millis(asked.wait_ms.unwrap_or(0));
    if wait > WAIT_MAX {
        return Err(wrong(format!("wait_ms is at most {}", WAIT_MAX.as_millis())));
    }
    let lease = lease_of(asked.lease_ms)?;
    let worker = asked.worker.as_deref();
    if worker.is_some_and(|name| name.is_empty() || name.len() > WORKER_BYTES_MAX) {
        return Err(wrong(format!("the name of a worker has 1 to {WORKER_BYTES_MAX} bytes")));
    }
    let who = with_worker(who, worker);
    let _place = if wait.is_zero() { None } else { Some(api.wait()?) };
    let until = Instant::now() + wait;
    loop {
        api.takes_work()?;
        // No offer from here on is missed.
        let pause = until.saturating_duration_since(Instant::now()).min(LOOK_AGAIN);
        let news = workers.wait(&asked.topics, pause);
        let mut news = std::pin::pin!(news);
        let (mut tasks, mut refused) = (Vec::new(), None);
        for offer in workers.lease(&asked.topics, lease, limit).await? {
            // The others are leased too, and must reach the worker.
            match task(&api, workers, offer, worker).await {
                Ok(task) => tasks.extend(task),
                Err(problem) => refused = Some(problem),
            }
        }
        if let Some(problem) = refused {
            tracing::warn!(problem = problem.detail(), "a task cannot be handed out now");
            if tasks.is_empty() {
                return Err(problem);
            }
        }
        if !tasks.is_empty() || Instant::now() >= until {
            for task in &tasks {
                trace::audit(&who, "lease", &task.id, &task.topic);
            }
            return Ok(Answer(Leased { tasks }));
        }
        news.as_mut().await;
    }
}

/// A plan whose step runs no code: it writes its offer before it is suspended, and takes an answer
/// before it ends. That is waited for.
async fn at_rest(api: &Api, plan: PlanId, step: StepId) -> Result<Option<PlanView>, Problem> {
    let (id, of) = (plan, step);
    let until = Instant::now() + AT_REST_WITHIN;
    while Instant::now() < until {
        let plan = match api.world().plan(id).view().await {
            Ok(plan) => plan,
            Err(PlanError::Unknown(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let step = plan.find_step(of);
        if step.is_none_or(|step| step.state != StepState::Running) {
            return Ok(Some(plan));
        }
        tokio::time::sleep(LOOK_SOON).await;
    }
    let detail = "a step does not come to rest: its task is handed out when the lease has ended";
    Err(Problem::new(Code::PlanTimedOut, detail).of_plan(id))
}

/// The task of an offer; nothing if its step waits no more.
async fn task(
    api: &Api,
    workers: &Workers,
    offer: Offer,
    worker: Option<&str>,
) -> Result<Option<Task>, Problem> {
    let plan = at_rest(api, offer.plan, offer.step).await?;
    let step = plan.as_ref().and_then(|plan| plan.find_step(offer.step));
    let (Some(plan), Some(step)) = (&plan, step) else {
        workers.remove(&offer).await?;
        return Ok(None);
    };
    let is_over = plan.state == PlanState::Stopped || step.attempt != offer.attempt;
    if is_over || step.state != StepState::Suspended {
        workers.remove(&offer).await?;
        return Ok(None);
    }
    let input = plan.action(step.action).output.read().unwrap_or(Value::Null);
    let beat = step.beat.as_ref().and_then(|beat| beat.details.as_ref()?.read().ok());
    let given = plan.action(step.action).input.read::<ExternalTask>().ok();
    let within_ms = given.and_then(|task| task.within_ms);
    let deadline = within_ms.map(|ms| moment(offer.offered_ms().saturating_add(ms)));
    let id = OfferId { worker: worker.map(str::to_owned), ..offer.id() };
    let trace = plan.trace_of_call(step);
    Ok(Some(Task {
        id: id.to_string(),
        topic: offer.topic.clone(),
        plan: offer.plan.to_string(),
        step: offer.step.0,
        attempt: offer.attempt,
        delivery: offer.deliveries(),
        idempotency_key: event_id(offer.plan, offer.step, offer.attempt),
        until: moment(offer.until_ms()),
        deadline,
        traceparent: Some(trace.to_string()),
        tracestate: trace.state().map(str::to_owned),
        last_heartbeat: beat,
        input,
    }))
}

fn offer_id(text: &str) -> Result<OfferId, Problem> {
    text.parse().map_err(|error: crate::work::OfferIdError| {
        Problem::new(Code::IdInvalid, format!("«{text}»: {error}"))
    })
}

async fn held(api: &Api, text: &str) -> Result<Offer, Problem> {
    Ok(workers(api)?.held(&offer_id(text)?).await?)
}

/// The tasks of a topic: how many wait for a worker, and since when
///
/// For a decision on the number of workers.
#[utoipa::path(
    get, path = "/work/topics/{name}", tag = "work", operation_id = "getTopic",
    params(("name" = String, Path, description = "The topic")),
    responses((status = 200, description = "Its tasks", body = Topic)),
)]
pub(in crate::http) async fn topic(
    State(api): State<Api>,
    NameAt(topic): NameAt,
) -> Result<Answer<Topic>, Problem> {
    let backlog = workers(&api)?.backlog(&topic).await?;
    let oldest = backlog.oldest_ms.map(moment);
    let (ready, leased, is_more) = (backlog.ready, backlog.leased, backlog.is_more);
    Ok(Answer(Topic { topic, ready, leased, oldest, is_more }))
}

/// Says that the worker lives, and how far it is
#[utoipa::path(
    post, path = "/work/{name}/heartbeat", tag = "work", operation_id = "beatTask",
    request_body = TaskHeartbeat, params(("name" = String, Path, description = "The id of the task")),
    responses((status = 200, description = "The lease is longer", body = TaskHeld)),
)]
pub(in crate::http) async fn heartbeat(
    State(api): State<Api>,
    NameAt(name): NameAt,
    Json(beat): Json<TaskHeartbeat>,
) -> Result<Answer<TaskHeld>, Problem> {
    let lease = beat.lease_ms.map(|ms| lease_of(Some(ms))).transpose()?;
    let offer = held(&api, &name).await?;
    let (plan, step, attempt) = (offer.plan, offer.step, offer.attempt);
    if let Err(error) = api.world().heartbeat(plan, step, attempt, &beat.details).await? {
        // The step does not wait any more: the worker should stop.
        workers(&api)?.remove(&offer).await?;
        return Err(Problem::new(Code::LeaseLost, error.to_string()).of_plan(plan));
    }
    let offer = workers(&api)?.prolong(offer, lease).await?;
    Ok(Answer(TaskHeld { until: moment(offer.until_ms()) }))
}

/// Gives the task back: another worker gets it at once
///
/// For a worker that ends, or cannot do it. It is no failure, and its delivery does not count.
#[utoipa::path(
    post, path = "/work/{name}/release", tag = "work", operation_id = "releaseTask",
    params(("name" = String, Path, description = "The id of the task")),
    responses((status = 200, description = "It is nobody's now", body = TaskDone)),
)]
pub(in crate::http) async fn release(
    State(api): State<Api>,
    Who(who): Who,
    NameAt(name): NameAt,
) -> Result<Answer<TaskDone>, Problem> {
    let who = worker_of(who, &name);
    let offer = held(&api, &name).await?;
    let (plan, step) = (offer.plan.to_string(), offer.step.0);
    let released = workers(&api)?.release(offer).await.map_err(Problem::from);
    let text = released.as_ref().map_or_else(Problem::detail, |()| "done");
    trace::audit(&who, "release", &name, text);
    released?;
    Ok(Answer(TaskDone { plan, step }))
}

/// Completes the task; the answer comes when that is durable
#[utoipa::path(
    post, path = "/work/{name}/complete", tag = "work", operation_id = "completeTask",
    request_body = TaskComplete, params(("name" = String, Path, description = "The id of the task")),
    responses((status = 200, description = "It is durable", body = TaskDone)),
)]
pub(in crate::http) async fn complete(
    State(api): State<Api>,
    Who(who): Who,
    NameAt(name): NameAt,
    Json(done): Json<TaskComplete>,
) -> Result<Answer<TaskDone>, Problem> {
    let who = worker_of(who, &name);
    let outcome = answer(&api, &who, &name, |_| Outcome::Completed(done.output)).await;
    let text = outcome.as_ref().map_or_else(Problem::detail, |_| "done");
    trace::audit(&who, "complete", &name, text);
    outcome
}

/// Fails the task; the answer comes when that is durable
#[utoipa::path(
    post, path = "/work/{name}/fail", tag = "work", operation_id = "failTask",
    request_body = TaskFail, params(("name" = String, Path, description = "The id of the task")),
    responses((status = 200, description = "It is durable", body = TaskDone)),
)]
pub(in crate::http) async fn fail(
    State(api): State<Api>,
    Who(who): Who,
    NameAt(name): NameAt,
    Json(failed): Json<TaskFail>,
) -> Result<Answer<TaskDone>, Problem> {
    let who = worker_of(who, &name);
    let TaskFail { kind, message, is_final } = failed;
    let failed = |attempt| Outcome::Failed { kind, message, is_final, attempt };
    let outcome = answer(&api, &who, &name, failed).await;
    let text = outcome.as_ref().map_or_else(Problem::detail, |_| "done");
    trace::audit(&who, "fail", &name, text);
    outcome
}

/// Whether this answer is the one that has counted for the attempt.
async fn counted(api: &Api, id: &OfferId, outcome: &Outcome) -> Result<bool, Problem> {
    if workers(api)?.is_offered(id).await? {
        return Ok(false);
    }
    let Some(plan) = at_rest(api, id.plan, id.step).await? else { return Ok(false) };
    let Some(step) = plan.find_step(id.step) else { return Ok(false) };
    Ok(match outcome {
        Outcome::Completed(output) => {
            let known = || plan.action(step.action).output.read::<Value>().ok();
            let is_done = step.state == StepState::Success && step.attempt == id.attempt;
            is_done && known().as_ref() == Some(output)
        }
        Outcome::Failed { kind, message, .. } => {
            let error = step.error.as_ref().filter(|_| step.attempt <= id.attempt + 1);
            error.is_some_and(|error| (&*error.kind, &*error.message) == (&**kind, &**message))
        }
    })
}

async fn answer(
    api: &Api,
    who: &Principal,
    name: &str,
    outcome_of: impl FnOnce(u32) -> Outcome,
) -> Result<Answer<TaskDone>, Problem> {
    let id = offer_id(name)?;
    let outcome = outcome_of(id.attempt);
    let offer = match workers(api)?.held(&id).await {
        // The worker may not have heard that its answer was taken.
        Err(LeaseError::Lost) if counted(api, &id, &outcome).await? => {
            return Ok(Answer(TaskDone { plan: id.plan.to_string(), step: id.step.0 }));
        }
        offer => offer?,
    };
    let (plan, step) = (offer.plan, offer.step);
    let id = event_id(plan, step, offer.attempt);
    let told = api.world().event_by(plan, step, Some(&id), &outcome, &who.name).await?;
    if let Err(error) = told {
        if matches!(error, PlanError::State { .. } | PlanError::Unknown(_)) {
            workers(api)?.remove(&offer).await?;
            return Err(Problem::new(Code::LeaseLost, error.to_string()).of_plan(plan));
        }
        return Err(error.into());
    }
    workers(api)?.remove(&offer).await?;
    Ok(Answer(TaskDone { plan: plan.to_string(), step: step.0 }))
}

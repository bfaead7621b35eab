//! The runtime below the world, and its entities.

use std::time::Duration;

use axum::extract::State;
use axum::Json as Answer;
use serde_json::Value;
use turnwheel_actors::entity::{EntityLook, EntityState, EntityType, LookError, Record};
use turnwheel_actors::Entities;
use turnwheel_engine::Time;
use turnwheel_runtime::{ClassMetrics, Group, Latency, LatencyBucket, TaskInfo, WorkerMetrics};

use crate::api::{
    BucketInfo, ClassInfo, EntityInfo, EntityTypeInfo, EntityTypes, GroupInfo, LatencyInfo,
    RuntimeInfo, StoredInfo, TurnInfo, WorkerInfo,
};
use crate::http::body::{Part, Query};
use crate::http::code::Code;
use crate::http::limits::STATE_SHOWN_BYTES;
use crate::http::page::NoQuery;
use crate::http::problem::Problem;
use crate::http::show::{self, ms};
use crate::http::state::Api;

/// The workers, and the actors by class
#[utoipa::path(
    get, path = "/runtime", tag = "world", operation_id = "getRuntime",
    responses((status = 200, description = "The groups of workers", body = RuntimeInfo)),
)]
pub(in crate::http) async fn runtime(
    State(api): State<Api>,
    _: Query<NoQuery>,
) -> Answer<RuntimeInfo> {
    let mut groups = api.world().groups();
    groups.extend_from_slice(&api.options().groups);
    let groups = groups.iter().map(group).collect();
    Answer(RuntimeInfo { now: now(&api), groups })
}

/// The time of the world.
fn now(api: &Api) -> String {
    show::time(Time::from(api.world().plan_entities().system().group().wall()))
}

fn group(group: &Group) -> GroupInfo {
    let metrics = group.metrics();
    let mut classes: Vec<ClassInfo> = metrics.classes.into_iter().map(class).collect();
    classes.sort_by_key(|class| (std::cmp::Reverse(class.tasks), std::cmp::Reverse(class.sampled)));
    GroupInfo {
        name: group.name().to_owned(),
        workers: metrics.workers.into_iter().map(worker).collect(),
        tasks: metrics.tasks as u64,
        injected: metrics.injected as u64,
        timers: metrics.timers as u64,
        mailbox_bytes: metrics.mailbox_bytes,
        blocking_threads: metrics.blocking_threads as u64,
        parked: metrics.parked,
        long_turns: metrics.long_turns,
        running: group.long_turns().into_iter().map(turn).collect(),
        classes,
    }
}

fn worker(worker: WorkerMetrics) -> WorkerInfo {
    WorkerInfo {
        turns: worker.turns,
        jobs: worker.jobs,
        failures: worker.failures,
        steals: worker.steals,
        parks: worker.parks,
        requeues: worker.requeues,
        queued: worker.queued,
        idle_ms: ms(Duration::from_nanos(worker.idle_ns)),
        running_ms: worker.running_ns.map(|running| ms(Duration::from_nanos(running))),
    }
}

fn turn(task: TaskInfo) -> TurnInfo {
    TurnInfo {
        name: task.name,
        class: task.class,
        worker: task.running_on.and_then(|worker| u32::try_from(worker).ok()),
        running_ms: ms(task.running_for.unwrap_or_default()),
        queued: task.queued,
    }
}

fn class(class: ClassMetrics) -> ClassInfo {
    ClassInfo {
        class: class.class,
        tasks: class.tasks as u64,
        sampled: class.turns,
        jobs: class.jobs,
        waited: latency(class.waited, &class.waited_spread),
        ran: latency(class.ran, &class.ran_spread),
    }
}

fn latency(latency: Latency, spread: &[LatencyBucket]) -> LatencyInfo {
    let us = |duration: Duration| duration.as_secs_f64() * 1_000_000.0;
    let bucket =
        |bucket: &LatencyBucket| BucketInfo { upto_us: us(bucket.upto), turns: bucket.turns };
    LatencyInfo {
        p50_us: us(latency.p50),
        p90_us: us(latency.p90),
        p99_us: us(latency.p99),
        max_us: us(latency.max),
        buckets: spread.iter().map(bucket).collect(),
    }
}

/// The types of entities in use
///
/// The plans of the world are entities too; types of a host application are included if it names
/// them.
#[utoipa::path(
    get, path = "/entities", tag = "world", operation_id = "listEntityTypes",
    responses((status = 200, description = "The types, that of plans first", body = EntityTypes)),
)]
pub(in crate::http) async fn types(
    State(api): State<Api>,
    _: Query<NoQuery>,
) -> Answer<EntityTypes> {
    let plans = api.world().plan_entities().types().into_iter().map(|of| kind(of, true));
    let others = api.options().entities.iter().flat_map(Entities::types);
    let types = plans.chain(others.map(|of| kind(of, false))).collect();
    Answer(EntityTypes { now: now(&api), types })
}

fn kind(of: EntityType, is_plan: bool) -> EntityTypeInfo {
    let limit = of.idle_limit;
    EntityTypeInfo {
        name: of.name.to_owned(),
        active: of.stats.active as u64,
        waiting: of.stats.waiting as u64,
        activations: of.activations,
        bytes: of.stats.bytes,
        shed: of.stats.shed,
        refused: of.stats.refused,
        replaced: of.stats.replaced,
        oldest_idle_ms: of.oldest_idle.map(ms),
        idle_limit_ms: (limit != Duration::MAX).then(|| ms(limit)),
        is_stored: of.is_named,
        is_plan,
    }
}

/// An entity, by its type and key; the look-up does not activate it
#[utoipa::path(
    get, path = "/entities/{name}/{key}", tag = "world", operation_id = "getEntity",
    params(
        ("name" = String, Path, description = "The name of its type, as the list of types says it"),
        ("key" = String, Path, description = "Its key"),
    ),
    responses((status = 200, description = "The entity, active or not", body = EntityInfo)),
)]
pub(in crate::http) async fn entity(
    State(api): State<Api>,
    Part([name, key]): Part<2>,
) -> Result<Answer<EntityInfo>, Problem> {
    let mut problem = LookError::UnknownType(name.clone());
    for entities in &api.options().entities {
        match entities.look(&name, &key) {
            Ok(look) => {
                let is_named = entities.types().iter().any(|of| of.name == name && of.is_named);
                let stored = match is_named {
                    true => stored(entities.store().load(&name, &key).await),
                    false => Ok(None),
                };
                return Ok(Answer(shown(name, key, look, stored?)));
            }
            Err(LookError::UnknownType(_)) => {}
            Err(other) => problem = other,
        }
    }
    let detail = format!("{problem}: GET /entities lists the types that have been used");
    Err(Problem::new(Code::EntityUnknown, detail))
}

fn stored(
    loaded: Result<Record, turnwheel_actors::entity::StoreError>,
) -> Result<Option<StoredInfo>, Problem> {
    let record = loaded?;
    if record.version == 0 {
        return Ok(None);
    }
    let short = record.bytes.as_deref().filter(|bytes| bytes.len() <= STATE_SHOWN_BYTES);
    let value = short.and_then(|bytes| serde_json::from_slice(bytes).ok());
    Ok(Some(StoredInfo {
        version: record.version,
        bytes: record.bytes.as_ref().map(|bytes| bytes.len() as u64),
        value: value.unwrap_or(Value::Null),
    }))
}

fn shown(name: String, key: String, look: EntityLook, stored: Option<StoredInfo>) -> EntityInfo {
    let state = match look.state {
        EntityState::Active => "active",
        EntityState::Leaving => "leaving",
        EntityState::Waiting => "waiting",
        EntityState::Held => "held",
        _ => "none",
    };
    EntityInfo {
        name,
        key,
        state: state.to_owned(),
        activation: look.activation,
        phase: look.phase.map(|phase| format!("{phase:?}").to_lowercase()),
        queued: look.queued,
        idle_ms: look.idle.map(ms),
        bytes: look.bytes,
        failure: look.failure,
        held_ms: look.held_for.map(ms),
        stored,
    }
}

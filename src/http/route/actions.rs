//! What the world knows: its actions, queues and locks.

use axum::extract::State;
use axum::Json as Answer;

use crate::api::{ActionEntry, Actions, LockInfo, Locks, QueueInfo, Queues, Stats};
use crate::http::show;
use crate::http::state::Api;

/// The actions that plans can begin with
#[utoipa::path(
    get, path = "/actions", tag = "world", operation_id = "listActions",
    responses((status = 200, description = "The actions, by name", body = Actions)),
)]
pub(in crate::http) async fn actions(State(api): State<Api>) -> Answer<Actions> {
    let entry = |action: turnwheel_engine::ActionInfo| ActionEntry {
        name: action.name,
        version: action.version,
        is_cancellable: action.is_cancellable,
    };
    Answer(Actions { actions: api.world().actions().into_iter().map(entry).collect() })
}

fn all_queues(api: &Api) -> Vec<QueueInfo> {
    let info = |queue: turnwheel_engine::QueueStatus| QueueInfo {
        name: queue.name,
        size: queue.size,
        running: queue.running,
        waiting: queue.waiting,
    };
    api.world().queues().into_iter().map(info).collect()
}

/// The queues
#[utoipa::path(
    get, path = "/queues", tag = "world", operation_id = "listQueues",
    responses((status = 200, description = "The queues, the default one first", body = Queues)),
)]
pub(in crate::http) async fn queues(State(api): State<Api>) -> Answer<Queues> {
    Answer(Queues { queues: all_queues(&api) })
}

/// The locks that plans have or wait for
#[utoipa::path(
    get, path = "/locks", tag = "world", operation_id = "listLocks",
    responses((status = 200, description = "The locks, by name", body = Locks)),
)]
pub(in crate::http) async fn locks(State(api): State<Api>) -> Answer<Locks> {
    let info = |lock: turnwheel_engine::LockView| LockInfo {
        name: lock.name,
        holder: lock.holder.map(|plan| plan.to_string()),
        waiting: lock.waiting.iter().map(ToString::to_string).collect(),
    };
    Answer(Locks { locks: api.world().locks().into_iter().map(info).collect() })
}

/// How the world is
#[utoipa::path(
    get, path = "/stats", tag = "world", operation_id = "getStats",
    responses((status = 200, description = "Its figures now", body = Stats)),
)]
pub(in crate::http) async fn stats(State(api): State<Api>) -> Answer<Stats> {
    let locks = api.world().locks();
    let held = locks.iter().filter(|lock| lock.holder.is_some()).count();
    Answer(Stats {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: show::time(api.began()),
        now: show::time(std::time::SystemTime::now().into()),
        queues: all_queues(&api),
        locks: u32::try_from(held).unwrap_or(u32::MAX),
    })
}

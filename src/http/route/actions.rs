//! Definitions of the world: its actions, queues and locks.

use axum::extract::State;
use axum::Json as Answer;

use crate::api::{ActionEntry, Actions, LockInfo, Locks, QueueInfo, Queues, Stats, WaitingInfo};
use crate::http::problem::Problem;
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

/// The state of the world: reasons for waiting, numbers of plans, counts of work
#[utoipa::path(
    get, path = "/stats", tag = "world", operation_id = "getStats",
    responses((status = 200, description = "Its figures now", body = Stats)),
)]
pub(in crate::http) async fn stats(State(api): State<Api>) -> Result<Answer<Stats>, Problem> {
    let (stats, counts) = (api.world().stats().await?, api.world().counts().await?);
    let waiting = api.world().waiting().await?;
    let of = |of: turnwheel_engine::WaitingPlans| WaitingInfo {
        waits: of.waiting.name().to_owned(),
        plans: of.plans,
        oldest: of.oldest.map(|(plan, _)| plan.to_string()),
        oldest_at: of.oldest.map(|(_, at)| show::time(at)),
        waits_for: show::said(of.text),
    };
    Ok(Answer(Stats {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: show::time(stats.since),
        now: show::time(stats.at),
        plans: counts.groups().iter().map(show::count).collect(),
        waiting: waiting.into_iter().map(of).collect(),
        queues: all_queues(&api),
        locks: stats.locks,
        dead_letters: stats.dead_letters,
        figures: serde_json::to_value(&stats.journal).unwrap_or_default(),
    }))
}

//! Definitions of the world: its actions, queues and locks.

use std::time::{Duration, SystemTime};

use axum::extract::State;
use axum::Json as Answer;
use serde::Deserialize;
use turnwheel_engine::Time;
use utoipa::IntoParams;

use crate::api::{
    ActionEntry, Actions, Ended, LockInfo, Locks, QueueInfo, Queues, Stats, WaitingInfo,
};
use crate::http::body::Query;
use crate::http::code::Code;
use crate::http::cursor::List;
use crate::http::limits::{ENDED_HOURS_MAX, ENDED_PARTS_MAX};
use crate::http::page::{NoQuery, PageQuery};
use crate::http::problem::Problem;
use crate::http::show;
use crate::http::state::Api;

/// The actions that plans can begin with
#[utoipa::path(
    get, path = "/actions", tag = "world", operation_id = "listActions", params(PageQuery),
    responses((status = 200, description = "A page of the actions, by name", body = Actions)),
)]
pub(in crate::http) async fn actions(
    State(api): State<Api>,
    Query(query): Query<PageQuery>,
) -> Result<Answer<Actions>, Problem> {
    let entry = |action: turnwheel_engine::ActionInfo| ActionEntry {
        name: action.name,
        version: action.version,
        is_cancellable: action.is_cancellable,
    };
    let all: Vec<ActionEntry> = api.world().actions().into_iter().map(entry).collect();
    let (actions, next) = query.of(List::Actions, all, |action| action.name.clone())?;
    Ok(Answer(Actions { actions, next }))
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
pub(in crate::http) async fn queues(State(api): State<Api>, _: Query<NoQuery>) -> Answer<Queues> {
    Answer(Queues { queues: all_queues(&api) })
}

/// The locks that plans have or wait for
#[utoipa::path(
    get, path = "/locks", tag = "world", operation_id = "listLocks", params(PageQuery),
    responses((status = 200, description = "A page of the locks, by name", body = Locks)),
)]
pub(in crate::http) async fn locks(
    State(api): State<Api>,
    Query(query): Query<PageQuery>,
) -> Result<Answer<Locks>, Problem> {
    let info = |lock: turnwheel_engine::LockView| LockInfo {
        name: lock.name,
        holder: lock.holder.map(|plan| plan.to_string()),
        waiting: lock.waiting.iter().map(ToString::to_string).collect(),
    };
    let all: Vec<LockInfo> = api.world().locks().into_iter().map(info).collect();
    let (locks, next) = query.of(List::Locks, all, |lock| lock.name.clone())?;
    Ok(Answer(Locks { locks, next }))
}

/// The span of time of ended plans.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct EndedQuery {
    /// Hours until now; 24 at most.
    #[param(minimum = 1, maximum = 24, default = 24)]
    hours: Option<u32>,
    /// In so many parts of at least a minute; 120 at most.
    #[param(minimum = 1, maximum = 120, default = 48)]
    parts: Option<u32>,
    /// Only the runs of this flow: `namespace/name`.
    flow: Option<String>,
}

/// Plans that have ended within the last hours: how many, how many failed, how long they took
///
/// The store counts them by the minute as they end, for a day, so this costs as much with a million
/// plans as with a hundred.
#[utoipa::path(
    get, path = "/stats/ended", tag = "world", operation_id = "getEnded", params(EndedQuery),
    responses((status = 200, description = "The numbers, by time and by name", body = Ended)),
)]
pub(in crate::http) async fn ended(
    State(api): State<Api>,
    Query(query): Query<EndedQuery>,
) -> Result<Answer<Ended>, Problem> {
    let within = |name: &str, value: Option<u32>, usual: u32, max: u32| match value {
        None => Ok(usual),
        Some(value) if (1..=max).contains(&value) => Ok(value),
        Some(value) => {
            let detail = format!("{name} is {value}, and has to be from 1 to {max}");
            Err(Problem::new(Code::QueryInvalid, detail))
        }
    };
    let hours = within("hours", query.hours, 24, ENDED_HOURS_MAX)?;
    let parts = within("parts", query.parts, 48, ENDED_PARTS_MAX)?;
    let span = Duration::from_secs(u64::from(hours) * 3_600);
    let now = Time::from(SystemTime::now());
    let from = Time(now.0.saturating_sub(span.as_micros() as u64));
    let mut tallies = api.world().tallies(from).await?;
    if let Some(flow) = query.flow {
        let start = format!("{flow}:");
        tallies.retain(|tally| tally.name.starts_with(&start));
    }
    Ok(Answer(show::ended(&tallies, now, span, parts as usize)))
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

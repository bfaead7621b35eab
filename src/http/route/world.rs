//! Identity of the world, and incidents of earlier worlds.

use std::time::Duration;

use axum::extract::State;
use axum::Json as Answer;
use turnwheel_engine::KeepingView;

use crate::api::{IncidentInfo, NodeInfo, Nodes, RetentionInfo, WorldInfo};
use crate::http::problem::Problem;
use crate::http::show;
use crate::http::state::Api;
use crate::incident::{self, Incident};

/// Identity and host of the world, and processes before it that ended without closing
#[utoipa::path(
    get, path = "/world", tag = "world", operation_id = "getWorld",
    responses((status = 200, description = "The world", body = WorldInfo)),
)]
pub(in crate::http) async fn get(State(api): State<Api>) -> Result<Answer<WorldInfo>, Problem> {
    let world = api.world();
    let mut incidents = incident::all(world).await?;
    incidents.reverse();
    let stats = world.stats().await?;
    let me = world.worlds().into_iter().find(|known| known.id == world.id());
    let (name, meta) = me.map(|me| (me.name, me.meta)).unwrap_or_default();
    Ok(Answer(WorldInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        name,
        store: world.store_name().to_owned(),
        host: meta.host,
        process: meta.process,
        started_at: show::time(stats.since),
        now: show::time(stats.at),
        incidents: incidents.into_iter().map(info).collect(),
        retention: world.keeping().map(retention),
    }))
}

/// The processes that have the store: the nodes, or this one alone
#[utoipa::path(
    get, path = "/nodes", tag = "world", operation_id = "listNodes",
    responses((status = 200, description = "The nodes, the oldest first", body = Nodes)),
)]
pub(in crate::http) async fn nodes(State(api): State<Api>) -> Result<Answer<Nodes>, Problem> {
    let world = api.world();
    let left = world.leases().await?;
    // One process that has the store for itself has no lease here.
    let left = Some(left).filter(|left| !left.is_empty());
    Ok(Answer(Nodes { nodes: NodeInfo::all(&world.worlds(), left.as_deref()) }))
}

fn retention(keeping: KeepingView) -> RetentionInfo {
    let ms = |length: Duration| u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    RetentionInfo {
        age_ms: ms(keeping.age),
        export: keeping.export.map(|place| place.display().to_string()),
        every_ms: ms(keeping.every),
        removed: keeping.removed,
        kept: keeping.kept,
        last_at: keeping.last.map(show::time),
        problem: keeping.problem,
    }
}

fn info(incident: Incident) -> IncidentInfo {
    let text = incident.to_string();
    IncidentInfo {
        found_at: show::time(incident.found_at),
        name: incident.name,
        host: incident.host,
        process: incident.process,
        since: show::time(incident.since),
        continued: incident.continued,
        paused: incident.paused,
        text,
    }
}

//! Identity of the world, and incidents of earlier worlds.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::Json as Answer;
use turnwheel_engine::KeepingView;

use crate::api::{IncidentInfo, NodeInfo, Nodes, RetentionInfo, SlotMap, WorldInfo};
use crate::http::body::{NameAt, Query, Who};
use crate::http::code::Code;
use crate::http::page::NoQuery;
use crate::http::problem::Problem;
use crate::http::show;
use crate::http::state::Api;
use crate::http::trace;
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
pub(in crate::http) async fn nodes(
    State(api): State<Api>,
    _: Query<NoQuery>,
) -> Result<Answer<Nodes>, Problem> {
    Ok(Answer(Nodes { nodes: all_nodes(&api).await? }))
}

async fn all_nodes(api: &Api) -> Result<Vec<NodeInfo>, Problem> {
    let left = api.world().leases().await?;
    // One process that has the store for itself has no lease here.
    let left = Some(left).filter(|left| !left.is_empty());
    Ok(NodeInfo::all(&api.world().worlds(), left.as_deref()))
}

/// The newest node of a name.
async fn find_node(api: &Api, name: &str) -> Result<NodeInfo, Problem> {
    let found = all_nodes(api).await?.into_iter().rfind(|node| node.name == name);
    found.ok_or_else(|| Problem::new(Code::NodeUnknown, format!("there is no node «{name}»")))
}

/// One node
#[utoipa::path(
    get, path = "/nodes/{name}", tag = "world", operation_id = "getNode",
    params(("name" = String, Path, description = "The name of the node")),
    responses((status = 200, description = "The node", body = NodeInfo)),
)]
pub(in crate::http) async fn node(
    State(api): State<Api>,
    NameAt(name): NameAt,
) -> Result<Answer<NodeInfo>, Problem> {
    Ok(Answer(find_node(&api, &name).await?))
}

/// Has a node give its slots to the others and begin no new plans, until its process ends
///
/// Any node answers. The slots go within moments, a few at a time, each when no code of its plans
/// runs: `GET /nodes/{name}` shows how many are left.
#[utoipa::path(
    post, path = "/nodes/{name}/drain", tag = "world", operation_id = "drainNode",
    params(("name" = String, Path, description = "The name of the node")),
    responses((status = 202, description = "It begins with it", body = NodeInfo)),
)]
pub(in crate::http) async fn drain(
    State(api): State<Api>,
    Who(who): Who,
    NameAt(name): NameAt,
) -> Result<(StatusCode, Answer<NodeInfo>), Problem> {
    let node = find_node(&api, &name).await?;
    let marked = api.world().drain_node(node.id).await;
    let outcome = marked.as_ref().map_or_else(ToString::to_string, |_| "marked".to_owned());
    trace::audit(&who, "drain", &name, &outcome);
    marked?;
    Ok((StatusCode::ACCEPTED, Answer(find_node(&api, &name).await?)))
}

/// The owners of the slots into which plans fall
#[utoipa::path(
    get, path = "/slots", tag = "world", operation_id = "getSlots",
    responses((status = 200, description = "Runs of slots with their owners", body = SlotMap)),
)]
pub(in crate::http) async fn slots(State(api): State<Api>, _: Query<NoQuery>) -> Answer<SlotMap> {
    let world = api.world();
    Answer(SlotMap::of(&world.slot_owners(), &world.worlds()))
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

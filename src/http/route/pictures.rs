//! A plan as data for those who draw it.

use axum::extract::State;
use axum::Json as Answer;

use crate::api::{Graph, History, Timeline, Tree};
use crate::http::body::PlanAt;
use crate::http::picture;
use crate::http::problem::Problem;
use crate::http::state::Api;

/// Which step waits for which
#[utoipa::path(
    get, path = "/plans/{plan}/graph", tag = "steps", operation_id = "getGraph",
    params(("plan" = String, Path, description = "The plan")),
    responses((status = 200, description = "Nodes and edges", body = Graph)),
)]
pub(in crate::http) async fn graph(
    State(api): State<Api>,
    PlanAt(id): PlanAt,
) -> Result<Answer<Graph>, Problem> {
    let plan = api.world().plan(id).view().await?;
    Ok(Answer(picture::graph(plan.graph())))
}

/// Who planned whom
#[utoipa::path(
    get, path = "/plans/{plan}/tree", tag = "steps", operation_id = "getTree",
    params(("plan" = String, Path, description = "The plan")),
    responses((status = 200, description = "The actions, with their steps", body = Tree)),
)]
pub(in crate::http) async fn tree(
    State(api): State<Api>,
    PlanAt(id): PlanAt,
) -> Result<Answer<Tree>, Problem> {
    let plan = api.world().plan(id).view().await?;
    Ok(Answer(picture::tree(plan.tree())))
}

/// When each step did what
#[utoipa::path(
    get, path = "/plans/{plan}/timeline", tag = "steps", operation_id = "getTimeline",
    params(("plan" = String, Path, description = "The plan")),
    responses((status = 200, description = "The steps over time, with each call", body = Timeline)),
)]
pub(in crate::http) async fn timeline(
    State(api): State<Api>,
    PlanAt(id): PlanAt,
) -> Result<Answer<Timeline>, Problem> {
    let history = api.world().plan(id).history().await?;
    Ok(Answer(picture::timeline(history.timeline())))
}

/// All that happened, with who and why, and each call of each step
#[utoipa::path(
    get, path = "/plans/{plan}/history", tag = "steps", operation_id = "getHistory",
    params(("plan" = String, Path, description = "The plan")),
    responses((status = 200, description = "The history, oldest first", body = History)),
)]
pub(in crate::http) async fn history(
    State(api): State<Api>,
    PlanAt(id): PlanAt,
) -> Result<Answer<History>, Problem> {
    let history = api.world().plan(id).history().await?;
    Ok(Answer(picture::history(history)))
}

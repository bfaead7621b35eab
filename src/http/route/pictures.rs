//! A plan as data for those who draw it.

use axum::extract::State;
use axum::Json as Answer;
use serde::Deserialize;
use turnwheel_engine::picture::{StepNode, TreeNode, TreePart};
use turnwheel_engine::ActionId;
use utoipa::IntoParams;

use super::plans::page;
use super::steps::step_states;
use crate::api::{Graph, History, Timeline, Tree};
use crate::http::body::{PlanAt, Query};
use crate::http::code::Code;
use crate::http::cursor::{self, List};
use crate::http::limits::{TREE_PAGE, TREE_PAGE_MAX};
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

/// Which actions, and how many.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct TreeQuery {
    /// Only actions with a step in one of these states, with commas between.
    state: Option<String>,
    /// Only actions whose name has this in it, or with the step of this number.
    text: Option<String>,
    /// Only this action and those below it.
    under: Option<u32>,
    /// Only so many levels below where it begins; 0 is that action alone.
    depth: Option<u32>,
    /// How many actions; 5,000 at most.
    #[param(minimum = 1, maximum = 5000, default = 1000)]
    limit: Option<u32>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// Who planned whom
///
/// Cost: the whole plan is looked through for each page; only the page is sent.
#[utoipa::path(
    get, path = "/plans/{plan}/tree", tag = "steps", operation_id = "getTree",
    params(("plan" = String, Path, description = "The plan"), TreeQuery),
    responses((status = 200, description = "A page of the actions, with their steps", body = Tree)),
)]
pub(in crate::http) async fn tree(
    State(api): State<Api>,
    PlanAt(id): PlanAt,
    Query(query): Query<TreeQuery>,
) -> Result<Answer<Tree>, Problem> {
    let limit = page(query.limit.or(Some(TREE_PAGE as u32)), TREE_PAGE_MAX)?;
    let states = step_states(query.state.as_deref())?;
    let from = match query.cursor.as_deref().map(|text| cursor::read(List::Tree, text)) {
        None => 0,
        Some(place) => <[u8; 4]>::try_from(place?).map(u32::from_be_bytes).map_err(|_| {
            let detail = "the cursor names no action: begin with the first page";
            Problem::new(Code::CursorInvalid, detail)
        })?,
    };
    let text = query.text.unwrap_or_default().to_lowercase();
    let number: Option<u32> = text.parse().ok();
    let fits = |node: &TreeNode| {
        let is_named = text.is_empty()
            || node.name.to_lowercase().contains(&text)
            || node.steps.iter().any(|step| Some(step.step.0) == number);
        let has_state = |step: &StepNode| states.contains(&step.state.name());
        is_named && (states.is_empty() || node.steps.iter().any(has_state))
    };
    let plan = api.world().plan(id).view().await?;
    let mut part = TreePart::all();
    if let Some(action) = query.under {
        if !plan.actions.iter().any(|known| known.id == ActionId(action)) {
            let detail = format!("plan {id} has no action {action}: its tree has their numbers");
            return Err(Problem::new(Code::QueryInvalid, detail).of_plan(id));
        }
        part = part.under(ActionId(action));
    }
    if let Some(depth) = query.depth {
        part = part.depth(depth);
    }
    Ok(Answer(picture::tree(plan.tree_part(part), fits, from as usize, limit)))
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

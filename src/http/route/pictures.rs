//! A plan as data for drawing.

use axum::extract::State;
use axum::Json as Answer;
use serde::Deserialize;
use turnwheel_engine::picture::{Bar, GraphPart, GraphPlace, StepNode, TreeNode, TreePart};
use turnwheel_engine::plan::StepKind;
use turnwheel_engine::ActionId;
use utoipa::IntoParams;

use super::plans::page;
use super::steps::step_states;
use crate::api::{Graph, Timeline, Tree};
use crate::http::body::{PlanAt, Query};
use crate::http::code::Code;
use crate::http::cursor::{self, List};
use crate::http::limits::{PICTURE_PAGE, PICTURE_PAGE_MAX, TREE_PAGE, TREE_PAGE_MAX};
use crate::http::picture;
use crate::http::problem::Problem;
use crate::http::state::Api;

/// The requested part of a graph.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct GraphQuery {
    /// Maximum number of steps of each row, those first that need attention most; the others are
    /// summed up in one of `rests`.
    #[param(minimum = 1)]
    beside: Option<u32>,
    /// Maximum number of nodes; 5,000 at most. A page has up to four times as many edges.
    #[param(minimum = 1, maximum = 5000, default = 500)]
    limit: Option<u32>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// The graph of steps and their dependencies, row by row
///
/// Each page has the edges to its nodes, from it and from earlier pages. A node with very many
/// edges comes once, and the rest of its edges on the next page. Cost: the entire plan is scanned
/// for each page; only the page is sent. A plan that grows meanwhile may have other rows on the
/// next page.
#[utoipa::path(
    get, path = "/plans/{plan}/graph", tag = "steps", operation_id = "getGraph",
    params(("plan" = String, Path, description = "The plan"), GraphQuery),
    responses((status = 200, description = "A page of nodes, and the edges to them", body = Graph)),
)]
pub(in crate::http) async fn graph(
    State(api): State<Api>,
    PlanAt(id): PlanAt,
    Query(query): Query<GraphQuery>,
) -> Result<Answer<Graph>, Problem> {
    let limit = page(query.limit.or(Some(PICTURE_PAGE as u32)), PICTURE_PAGE_MAX)?;
    let mut part = GraphPart::all().limit(limit);
    if let Some(place) = cursor::place::<12>(List::Graph, query.cursor.as_deref())? {
        let number = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|byte| place[at + byte]));
        part = part.after(GraphPlace { row: number(0), node: number(4), from: number(8) });
    }
    match query.beside {
        None => {}
        Some(0) => {
            let detail = "beside is 0: at least one step of each row is shown";
            return Err(Problem::new(Code::QueryInvalid, detail));
        }
        Some(most) => part = part.beside(most as usize),
    }
    let plan = api.world().plan(id).view().await?;
    Ok(Answer(picture::graph(plan.graph_part(part))))
}

/// The requested actions.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct TreeQuery {
    /// Only actions with a step in one of these states, with commas between.
    state: Option<String>,
    /// Only actions whose name contains this text, or with the step of this number.
    text: Option<String>,
    /// Only this action and those below it.
    under: Option<u32>,
    /// Only so many levels below where it begins; 0 is that action alone.
    depth: Option<u32>,
    /// Maximum number of actions; 5,000 at most.
    #[param(minimum = 1, maximum = 5000, default = 1000)]
    limit: Option<u32>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// The tree of actions, each under the action that planned it
///
/// Cost: the entire plan is scanned for each page; only the page is sent.
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
    let from = cursor::place(List::Tree, query.cursor.as_deref())?.map_or(0, u32::from_be_bytes);
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

/// The requested steps.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct TimelineQuery {
    /// Only steps of these phases (`plan`, `run`, `finalize`), with commas between.
    phase: Option<String>,
    /// Maximum number of steps; 5,000 at most. A page has up to four times as many spans, or
    /// 10,000.
    #[param(minimum = 1, maximum = 5000, default = 500)]
    limit: Option<u32>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// The times of each step
///
/// Cost: the entire history of the plan is read for each page; only the page is sent.
#[utoipa::path(
    get, path = "/plans/{plan}/timeline", tag = "steps", operation_id = "getTimeline",
    params(("plan" = String, Path, description = "The plan"), TimelineQuery),
    responses((status = 200, description = "A page of the steps over time, with each call",
        body = Timeline)),
)]
pub(in crate::http) async fn timeline(
    State(api): State<Api>,
    PlanAt(id): PlanAt,
    Query(query): Query<TimelineQuery>,
) -> Result<Answer<Timeline>, Problem> {
    let limit = page(query.limit.or(Some(PICTURE_PAGE as u32)), PICTURE_PAGE_MAX)?;
    let words = query.phase.as_deref().unwrap_or_default().split(',');
    let phases: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let names = [StepKind::Plan, StepKind::Run, StepKind::Finalize].map(StepKind::name);
    if let Some(unknown) = phases.iter().find(|phase| !names.contains(phase)) {
        let detail = format!("there is no phase «{unknown}»: say {}", names.join(", "));
        return Err(Problem::new(Code::QueryInvalid, detail));
    }
    let after = cursor::place::<16>(List::Timeline, query.cursor.as_deref())?;
    let history = api.world().plan(id).history().await?;
    let fits = |bar: &Bar| phases.is_empty() || phases.contains(&bar.kind.name());
    Ok(Answer(picture::timeline(history.timeline(), fits, after, limit)))
}

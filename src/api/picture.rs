//! A plan as data for drawing. Lists are flat, so that a large plan is drawn a part at a time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ErrorInfo, HappeningInfo};

/// A step as a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Node {
    /// Its number in the plan.
    pub id: u32,
    /// Phase of its action.
    pub phase: String,
    /// The number of its action.
    pub action: u32,
    /// The name of its action.
    pub name: String,
    /// Its state.
    pub state: String,
    /// Its progress, from 0 to 1.
    pub progress: f64,
    /// Number of attempts from its beginning.
    pub attempts: u32,
    /// When its code was first called.
    pub started_at: Option<String>,
    /// When it ended.
    pub ended_at: Option<String>,
    /// Total run time of its code, in milliseconds.
    pub ran_ms: f64,
    /// What it waits for, for people; none if nothing.
    pub waits_for: Option<String>,
    /// Why it failed the last time it ended.
    pub error: Option<ErrorInfo>,
    /// The orders that it takes now.
    pub possible: Vec<String>,
}

/// The run and finalize steps of a plan and their dependencies: a page of them, row by row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Graph {
    /// The plan.
    pub plan: String,
    /// Its state.
    pub state: String,
    /// Its result.
    pub result: String,
    /// Number of rows of the graph.
    pub rows: u32,
    /// Number of steps of the graph.
    pub steps: u32,
    /// The steps of this page, by row and by number in a row.
    pub nodes: Vec<GraphNode>,
    /// Nodes without work, which are passed when all before them are done: their numbers are greater than
    /// that of any step. They keep the number of edges small.
    pub joints: Vec<GraphJoint>,
    /// Summaries of steps left out of their rows, if the number of steps beside each other is
    /// limited.
    pub rests: Vec<GraphRest>,
    /// Edges to the nodes of this page, from it and from earlier pages.
    pub edges: Vec<Edge>,
    /// The `cursor` of the next page; none on the last one.
    pub next: Option<String>,
}

/// A step in its row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct GraphNode {
    /// Its row, from 0: below all that it waits for.
    pub row: u32,
    /// The step.
    #[serde(flatten)]
    pub node: Node,
}

/// A node without work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct GraphJoint {
    /// Its number.
    pub id: u32,
    /// Its row.
    pub row: u32,
}

/// A summary of several steps of a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct GraphRest {
    /// The number that edges name them by.
    pub id: u32,
    /// The row.
    pub row: u32,
    /// Number of steps.
    pub steps: u32,
    /// Number of steps in each state.
    pub states: BTreeMap<String, u32>,
}

/// `to` waits for `from`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Edge {
    /// The node before.
    pub from: u32,
    /// The node after.
    pub to: u32,
    /// Why: it needs its `output`, or the plan says so (`flow`).
    pub kind: String,
}

/// The tree of actions: each under the action that planned it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Tree {
    /// The plan.
    pub plan: String,
    /// Its state.
    pub state: String,
    /// Its result.
    pub result: String,
    /// Number of matching actions.
    pub total: u32,
    /// The place of the first one of this page among them, counted from 0.
    pub from: u32,
    /// Its actions in the order in which a tree is drawn.
    pub nodes: Vec<TreeNode>,
    /// The `cursor` of the next page; none on the last one.
    pub next: Option<String>,
}

/// An action in the tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct TreeNode {
    /// Its number in the plan.
    pub action: u32,
    /// Its name.
    pub name: String,
    /// The version that planned it.
    pub version: u32,
    /// Number of the action that planned it.
    pub parent: Option<u32>,
    /// Its depth below the root.
    pub depth: u32,
    /// Number of actions that it planned itself.
    pub children: u32,
    /// Combined state of its steps: the one that needs attention most.
    pub state: String,
    /// Its existing steps: plan, run, finalize.
    pub steps: Vec<Node>,
}

/// The steps over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Timeline {
    /// The plan.
    pub plan: String,
    /// Its state.
    pub state: String,
    /// Its result.
    pub result: String,
    /// When the first thing happened.
    pub from: String,
    /// When the last thing happened that is known.
    pub until: String,
    /// Number of matching steps that have begun.
    pub total: u32,
    /// The steps that have begun, in the order of their begins: a page of them.
    pub bars: Vec<Bar>,
    /// The `cursor` of the next page; none on the last one.
    pub next: Option<String>,
}

/// A step over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Bar {
    /// The step.
    pub step: u32,
    /// The number of its action.
    pub action: u32,
    /// The name of its action.
    pub name: String,
    /// Phase of its action.
    pub phase: String,
    /// Its current state.
    pub state: String,
    /// Number of its earlier spans, on previous pages.
    pub spans_before: u32,
    /// Its spans of time.
    pub spans: Vec<Span>,
}

/// Some time of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Span {
    /// From when.
    pub from: String,
    /// End of the span; none if it continues.
    pub to: Option<String>,
    /// Kind: its code ran, or the reason for waiting.
    pub kind: String,
    /// Number of the attempt.
    pub attempt: u32,
}

/// Events of a plan from its journal: a page of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct History {
    /// The plan.
    pub plan: String,
    /// Total number of events.
    pub total: u64,
    /// Number of the oldest events, which are not available.
    pub left_out: u64,
    /// The events, in the requested order.
    pub happenings: Vec<HappeningInfo>,
    /// The `cursor` of the next page; none on the last one.
    pub next: Option<String>,
}

/// The calls of the steps of a plan, in the order of their begins: a page of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Calls {
    /// The plan.
    pub plan: String,
    /// Number of matching calls that are available.
    pub total: u64,
    /// Number of the plan's oldest calls, which are not available.
    pub left_out: u64,
    /// The calls, in the requested order.
    pub calls: Vec<CallInfo>,
    /// The `cursor` of the next page; none on the last one.
    pub next: Option<String>,
}

/// A call of a step's code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct CallInfo {
    /// The step.
    pub step: u32,
    /// Number of the call within the step, from 1.
    pub call: u32,
    /// Number of its attempt.
    pub attempt: u32,
    /// Why it was called.
    pub why: String,
    /// When it was decided.
    pub began: String,
    /// When it got its place in the queue, if it had to wait for one.
    pub admitted: Option<String>,
    /// When it ended; nothing while it runs.
    pub ended: Option<String>,
    /// Run time of its code, in milliseconds.
    pub ran_ms: f64,
    /// The state of the step afterwards.
    pub state: String,
    /// Why it failed.
    pub error: Option<ErrorInfo>,
    /// Whether it was a call of its compensation.
    pub is_revert: bool,
}

//! A plan as data for those who draw it. Lists are flat, so that a large plan is drawn a part at a time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ErrorInfo, HappeningInfo};

/// A step as a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Node {
    /// Its number in the plan.
    pub id: u32,
    /// Which phase of its action it is.
    pub phase: String,
    /// The number of its action.
    pub action: u32,
    /// The name of its action.
    pub name: String,
    /// Where it is.
    pub state: String,
    /// How far it is, from 0 to 1.
    pub progress: f64,
    /// How often it was begun from its beginning.
    pub attempts: u32,
    /// When its code was first called.
    pub started_at: Option<String>,
    /// When it ended.
    pub ended_at: Option<String>,
    /// How long its code has run in all, in milliseconds.
    pub ran_ms: f64,
    /// What it waits for, for people.
    pub waits_for: Option<String>,
    /// Why it failed the last time it ended.
    pub error: Option<ErrorInfo>,
    /// What can be done with it now.
    pub possible: Vec<String>,
}

/// The run and finalize steps of a plan, and what waits for what: a page of them, row by row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Graph {
    /// The plan.
    pub plan: String,
    /// Its state.
    pub state: String,
    /// Its result.
    pub result: String,
    /// How many rows the whole graph has.
    pub rows: u32,
    /// How many steps the whole graph has.
    pub steps: u32,
    /// The steps of this page, by row and by number in a row.
    pub nodes: Vec<GraphNode>,
    /// Nodes without work, which are passed when all before them are done: their numbers are greater than
    /// that of any step. They keep the number of edges small.
    pub joints: Vec<GraphJoint>,
    /// Steps that have no room in their rows, if the number of those beside each other is limited.
    pub rests: Vec<GraphRest>,
    /// What leads to the nodes of this page, from here and from pages before.
    pub edges: Vec<Edge>,
    /// What to give as `cursor` for the next page; nothing if this is the last one.
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

/// Steps of a row that are told together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct GraphRest {
    /// The number that edges name them by.
    pub id: u32,
    /// The row.
    pub row: u32,
    /// How many they are.
    pub steps: u32,
    /// How many are in which state.
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

/// Who planned whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Tree {
    /// The plan.
    pub plan: String,
    /// Its state.
    pub state: String,
    /// Its result.
    pub result: String,
    /// How many of its actions fit what was asked for.
    pub total: u32,
    /// The place of the first one of this page among them, counted from 0.
    pub from: u32,
    /// Its actions in the order in which a tree is drawn.
    pub nodes: Vec<TreeNode>,
    /// What to give as `cursor` for the next page; nothing if this is the last one.
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
    /// Who planned it.
    pub parent: Option<u32>,
    /// How deep it is below the root.
    pub depth: u32,
    /// How many it has planned itself.
    pub children: u32,
    /// The state of all its steps together: the one that asks for attention most.
    pub state: String,
    /// Its steps: plan, run, finalize, those that it has.
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
    /// How many steps that fit have begun.
    pub total: u32,
    /// The steps that have begun, in the order of their begins: a page of them.
    pub bars: Vec<Bar>,
    /// What to give as `cursor` for the next page; nothing if this is the last one.
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
    /// Which phase of its action it is.
    pub phase: String,
    /// Where it is now.
    pub state: String,
    /// How many of its times came before these, on the page before.
    pub spans_before: u32,
    /// What it did when.
    pub spans: Vec<Span>,
}

/// Some time of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Span {
    /// From when.
    pub from: String,
    /// To when; nothing if it goes on.
    pub to: Option<String>,
    /// What it did: its code ran, or it waited for something.
    pub kind: String,
    /// Which attempt it was.
    pub attempt: u32,
}

/// What happened to a plan, as its journal tells it: a page of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct History {
    /// The plan.
    pub plan: String,
    /// How many things happened in all.
    pub total: u64,
    /// How many of them, the oldest ones, cannot be told.
    pub left_out: u64,
    /// What happened, in the order that was asked for.
    pub happenings: Vec<HappeningInfo>,
    /// What to give as `cursor` for the next page; nothing if this is the last one.
    pub next: Option<String>,
}

/// The calls of the steps of a plan, in the order of their begins: a page of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Calls {
    /// The plan.
    pub plan: String,
    /// How many calls that fit can be told.
    pub total: u64,
    /// How many calls of the plan, the oldest ones, cannot be told.
    pub left_out: u64,
    /// The calls, in the order that was asked for.
    pub calls: Vec<CallInfo>,
    /// What to give as `cursor` for the next page; nothing if this is the last one.
    pub next: Option<String>,
}

/// A call of a step's code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct CallInfo {
    /// The step.
    pub step: u32,
    /// Which call of the step it is, from 1.
    pub call: u32,
    /// Which attempt it belongs to.
    pub attempt: u32,
    /// Why it was called.
    pub why: String,
    /// When it was decided.
    pub began: String,
    /// When it got its place in the queue, if it had to wait for one.
    pub admitted: Option<String>,
    /// When it ended; nothing while it runs.
    pub ended: Option<String>,
    /// How long its code ran, in milliseconds.
    pub ran_ms: f64,
    /// The state of the step afterwards.
    pub state: String,
    /// Why it failed.
    pub error: Option<ErrorInfo>,
    /// Whether it was a call of its compensation.
    pub is_revert: bool,
}

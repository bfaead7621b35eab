//! The graph of steps and their dependencies.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{PlanHead, StepNode};
use crate::id::StepId;
use crate::plan::{Graph, Plan, StepKind};

/// The run and finalize steps of a plan, and what each waits for.
///
/// Between two parts of a sequence that have several steps each there is a *joint* without work, so that
/// two concurrences of 10,000 steps have 20,000 edges and not 100 million.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PlanGraph {
    /// The plan.
    pub plan: PlanHead,
    /// Its run and finalize steps, in the order of planning. The node of a step has the step's number.
    pub nodes: Vec<StepNode>,
    /// Nodes without work; their numbers are greater than that of any step.
    pub joints: Vec<Joint>,
    /// The dependencies.
    pub edges: Vec<Edge>,
}

/// A node without work: it is passed when all its predecessors are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Joint {
    /// Its number.
    pub node: u32,
    /// Whether it stands for the end of the run phase.
    pub ends_run: bool,
}

/// `to` waits for `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub struct Edge {
    /// The node before.
    pub from: u32,
    /// The node after.
    pub to: u32,
    /// Why.
    pub kind: EdgeKind,
}

/// Why one waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EdgeKind {
    /// It needs the output.
    Output,
    /// The plan says so: a sequence, or finalize after run.
    Order,
}

impl Plan {
    /// Its steps as a graph. Cost: linear in steps and edges.
    pub(crate) fn picture_graph(&self) -> PlanGraph {
        let (edges, joints) = self.links();
        let counts = self.all_sub_plan_counts();
        let drawn = self.steps.iter().filter(|step| step.kind != StepKind::Plan);
        let edges = edges.into_iter().map(|(from, to, kind)| Edge { from, to, kind });
        PlanGraph {
            plan: PlanHead::of(self),
            nodes: drawn.map(|step| StepNode::of(self, step, &counts)).collect(),
            joints,
            edges: edges.collect(),
        }
    }

    /// The dependencies, and the nodes without work in between.
    pub(super) fn links(&self) -> (BTreeSet<(u32, u32, EdgeKind)>, Vec<Joint>) {
        let mut edges: BTreeSet<(u32, u32, EdgeKind)> = BTreeSet::new();
        let mut last = self.steps.last().map_or(0, |step| step.id.0);
        for (from, to) in Graph::new(self.steps.len(), &self.run).edges() {
            edges.insert((from, to, EdgeKind::Order));
            last = last.max(from).max(to);
        }
        for action in &self.actions {
            let Some(to) = action.run_step else { continue };
            for from in &action.needs {
                edges.remove(&(from.0, to.0, EdgeKind::Order));
                edges.insert((from.0, to.0, EdgeKind::Output));
            }
        }
        let steps = self.steps.len() as u32;
        let mut joints: Vec<Joint> =
            (steps + 1..=last).map(|node| Joint { node, ends_run: false }).collect();
        if let Some(first) = self.finalize.first() {
            let end = last.max(steps) + 1;
            self.end_of_run(end, &mut edges);
            joints.push(Joint { node: end, ends_run: true });
            edges.insert((end, first.0, EdgeKind::Order));
            for pair in self.finalize.windows(2) {
                edges.insert((pair[0].0, pair[1].0, EdgeKind::Order));
            }
        }
        (edges, joints)
    }

    /// Connects steps without a successor in the run phase to its end.
    fn end_of_run(&self, end: u32, edges: &mut BTreeSet<(u32, u32, EdgeKind)>) {
        let mut has_followers = vec![false; end as usize];
        let mut joints = BTreeSet::new();
        for (from, to, _) in edges.iter() {
            has_followers[*from as usize] = true;
            joints
                .extend([*from, *to].into_iter().filter(|node| *node as usize > self.steps.len()));
        }
        let is_run = |id: &StepId| self.step(*id).kind == StepKind::Run;
        let steps = self.steps.iter().map(|step| step.id).filter(is_run).map(|id| id.0);
        for node in steps.chain(joints) {
            if !has_followers[node as usize] {
                edges.insert((node, end, EdgeKind::Order));
            }
        }
    }
}

//! A graph row by row, a part at a time: for plans that are too large to be drawn at once.

use std::cmp::Reverse;
use std::collections::HashMap;

use serde::Serialize;

use super::graph::{Edge, EdgeKind};
use super::tree::urgency;
use super::{state_of, PlanHead, StepNode};
use crate::plan::{Plan, StepKind, StepState};

/// Part of a graph; by default all of it.
///
/// ```
/// use turnwheel_engine::picture::GraphPart;
///
/// // 500 nodes at a time, at most 20 of them in a row.
/// let part = GraphPart::all().limit(500).beside(20);
/// # let _ = part;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct GraphPart {
    after: Option<GraphPlace>,
    limit: Option<usize>,
    beside: Option<usize>,
}

/// End of a part of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct GraphPlace {
    /// The row.
    pub row: u32,
    /// The last node in it that was told.
    pub node: u32,
    /// The last node before it whose edge was told: 0 if there was none, `u32::MAX` if there are no more.
    pub from: u32,
}

/// Edges of a part, for each node that it may have.
const EDGES_FOR_EACH: usize = 4;

impl GraphPart {
    /// The whole graph.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only what comes after this place.
    pub fn after(mut self, place: GraphPlace) -> Self {
        self.after = Some(place);
        self
    }

    /// Only so many nodes, at least one, and four times as many edges.
    pub fn limit(mut self, nodes: usize) -> Self {
        self.limit = Some(nodes.max(1));
        self
    }

    /// Only so many steps in a row, those first that ask for attention most; the others are told as one
    /// node with their number.
    pub fn beside(mut self, nodes: usize) -> Self {
        self.beside = Some(nodes);
        self
    }
}

/// A graph with the row of each node: below all that it waits for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GraphRows {
    /// The plan.
    pub plan: PlanHead,
    /// Number of rows of the graph.
    pub rows: u32,
    /// Number of steps of the graph.
    pub steps: u32,
    /// The nodes of this part by row, and by number in a row.
    pub nodes: Vec<RowNode>,
    /// Edges to them, from this part and earlier ones.
    pub edges: Vec<Edge>,
    /// End of this part, if there is more.
    pub next: Option<GraphPlace>,
}

/// A node in its row.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RowNode {
    /// Its number, which edges name.
    pub node: u32,
    /// Its row, from 0.
    pub row: u32,
    /// Its content.
    pub what: RowWhat,
}

/// Content of a node of a graph.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RowWhat {
    /// A run or finalize step; the node has its number.
    Step(Box<StepNode>),
    /// None: it is passed when all its predecessors are done.
    Joint,
    /// Steps of the row that have no room in it, by state.
    Rest(Vec<(StepState, u32)>),
}

impl Plan {
    /// A part of its graph. Cost: linear in all steps and edges, sorted; a node for each that is told.
    pub(crate) fn graph_part(&self, part: GraphPart) -> GraphRows {
        let (edges, joints) = self.links();
        let last = joints.last().map_or(self.steps.len() as u32, |joint| joint.node);
        let rows = rows_of(&edges, last);
        let row = |node: u32| rows[node as usize];
        let drawn = self.steps.iter().filter(|step| step.kind != StepKind::Plan);
        let mut steps: Vec<(u32, u32)> = drawn.map(|s| (row(s.id.0), s.id.0)).collect();
        steps.sort_unstable();
        let count = u32::try_from(steps.len()).unwrap_or(u32::MAX);
        let rests = part.beside.map_or_else(Rests::default, |most| self.rests(&steps, most, last));
        let is_shown = |node: &u32| !rests.of.contains_key(node);
        let mut items: Vec<(u32, u32)> = joints.iter().map(|j| (row(j.node), j.node)).collect();
        items.extend(steps.iter().filter(|(_, step)| is_shown(step)));
        items.extend(rests.states.keys().map(|node| (node - last - 1, *node)));
        items.sort_unstable();
        // By the node that they lead to, as the nodes are.
        let mut lines: Vec<(u32, u32, u32, EdgeKind)> = edges
            .iter()
            .map(|(from, to, kind)| (row(*to), rests.shown(*to), rests.shown(*from), *kind))
            .collect();
        lines.sort_unstable();
        lines.dedup_by_key(|(_, to, from, _)| (*to, *from));

        let mut picture = GraphRows {
            plan: PlanHead::of(self),
            rows: items.last().map_or(0, |(row, _)| row + 1),
            steps: count,
            nodes: Vec::new(),
            edges: Vec::new(),
            next: None,
        };
        let counts = self.all_sub_plan_counts();
        let what = |node: u32| match rests.states.get(&node) {
            Some(states) => RowWhat::Rest(states.clone()),
            None => match self.steps.get(node as usize - 1) {
                Some(step) => RowWhat::Step(Box::new(StepNode::of(self, step, &counts))),
                None => RowWhat::Joint,
            },
        };
        picture.take(part, &items, &lines, what);
        picture
    }

    fn shown_state(&self, step: u32) -> StepState {
        let step = &self.steps[step as usize - 1];
        state_of(self.action(step.action), step)
    }

    /// Chooses the steps left out of their rows. The summary of each row has a number after all
    /// others.
    fn rests(&self, steps: &[(u32, u32)], most: usize, last: u32) -> Rests {
        let mut rests = Rests::default();
        for row in steps.chunk_by(|one, other| one.0 == other.0).filter(|row| row.len() > most) {
            let mut ids: Vec<u32> = row.iter().map(|(_, id)| *id).collect();
            let states: HashMap<u32, StepState> =
                ids.iter().map(|id| (*id, self.shown_state(*id))).collect();
            let state = |id: u32| states[&id];
            ids.sort_by_key(|id| Reverse(urgency(state(*id))));
            let node = last + 1 + row[0].0;
            let mut counts: Vec<(StepState, u32)> = Vec::new();
            for id in &ids[most..] {
                rests.of.insert(*id, node);
                match counts.iter_mut().find(|(known, _)| *known == state(*id)) {
                    Some((_, count)) => *count += 1,
                    None => counts.push((state(*id), 1)),
                }
            }
            rests.states.insert(node, counts);
        }
        rests
    }
}

/// Steps that are told together.
#[derive(Default)]
struct Rests {
    /// The node that stands for a step.
    of: HashMap<u32, u32>,
    /// Content of such a node, the states that need attention most first.
    states: HashMap<u32, Vec<(StepState, u32)>>,
}

impl Rests {
    fn shown(&self, node: u32) -> u32 {
        self.of.get(&node).copied().unwrap_or(node)
    }
}

impl GraphRows {
    /// Takes nodes and what leads to them from a place on, as many as are wanted.
    fn take(
        &mut self,
        part: GraphPart,
        items: &[(u32, u32)],
        lines: &[(u32, u32, u32, EdgeKind)],
        what: impl Fn(u32) -> RowWhat,
    ) {
        let limit = part.limit.unwrap_or(usize::MAX);
        let edges_max = limit.saturating_mul(EDGES_FOR_EACH);
        let begin = part.after.map_or((0, 0), |place| (place.row, place.node));
        let mut ended = part.after;
        for item in &items[items.partition_point(|item| *item < begin)..] {
            let (row, node) = *item;
            let mut last = 0;
            match part.after.filter(|place| (place.row, place.node) == *item) {
                // Its node was told, and perhaps not all that leads to it.
                Some(place) => last = place.from,
                None if self.nodes.len() >= limit => {
                    self.next = ended;
                    return;
                }
                None => self.nodes.push(RowNode { node, row, what: what(node) }),
            }
            let first = lines.partition_point(|line| (line.0, line.1, line.2) <= (row, node, last));
            for (_, _, from, kind) in
                lines[first..].iter().take_while(|line| (line.0, line.1) == *item)
            {
                if self.edges.len() >= edges_max {
                    self.next = Some(GraphPlace { row, node, from: last });
                    return;
                }
                self.edges.push(Edge { from: *from, to: node, kind: *kind });
                last = *from;
            }
            ended = Some(GraphPlace { row, node, from: u32::MAX });
        }
    }
}

/// The row of each node: one more than the last row of its predecessors. Nodes of a cycle are in
/// the first row.
fn rows_of(edges: &std::collections::BTreeSet<(u32, u32, EdgeKind)>, last: u32) -> Vec<u32> {
    let mut waits = vec![0_u32; last as usize + 1];
    let mut rows = vec![0_u32; last as usize + 1];
    for (_, to, _) in edges {
        waits[*to as usize] += 1;
    }
    let mut ready: Vec<u32> = (1..=last).filter(|node| waits[*node as usize] == 0).collect();
    while let Some(node) = ready.pop() {
        for (_, to, _) in edges.range((node, 0, EdgeKind::Output)..(node + 1, 0, EdgeKind::Output))
        {
            let to = *to as usize;
            rows[to] = rows[to].max(rows[node as usize] + 1);
            waits[to] -= 1;
            if waits[to] == 0 {
                ready.push(to as u32);
            }
        }
    }
    rows
}

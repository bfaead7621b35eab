//! How the steps of a phase follow one another: the tree as written, and the graph as run.
//!
//! The tree (steps, sequences, concurrences) is for people. The graph decides: a step is ready when
//! all its predecessors are done. Each sequence adds an edge from every last step of one part to
//! every first step of the next; a reference adds one from the step of the output. So two consumers
//! of one output do not wait for each other.

use serde::{Deserialize, Serialize};

use crate::id::StepId;

/// A tree of steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Flow {
    /// One step.
    Step(StepId),
    /// One after the other.
    Sequence(Vec<Flow>),
    /// At the same time.
    Concurrence(Vec<Flow>),
}

impl Flow {
    /// Nothing to do.
    pub const fn empty() -> Self {
        Self::Concurrence(Vec::new())
    }

    /// Whether there is no step in it.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Step(_) => false,
            Self::Sequence(parts) | Self::Concurrence(parts) => parts.iter().all(Self::is_empty),
        }
    }

    /// The same without parts that hold nothing and without nesting that says nothing: a part of the
    /// same kind is merged, a group of one is that one.
    #[must_use]
    pub fn simplified(self) -> Self {
        let is_sequence = matches!(self, Self::Sequence(_));
        let parts = match self {
            Self::Step(_) => return self,
            Self::Sequence(parts) | Self::Concurrence(parts) => parts,
        };
        let mut kept = Vec::with_capacity(parts.len());
        for part in parts.into_iter().map(Self::simplified).filter(|part| !part.is_empty()) {
            match part {
                Self::Sequence(inner) if is_sequence => kept.extend(inner),
                Self::Concurrence(inner) if !is_sequence => kept.extend(inner),
                part => kept.push(part),
            }
        }
        if kept.len() == 1 {
            return kept.remove(0);
        }
        if is_sequence {
            Self::Sequence(kept)
        } else {
            Self::Concurrence(kept)
        }
    }

    /// The steps in the order written.
    pub fn steps(&self) -> Vec<StepId> {
        let mut steps = Vec::new();
        self.collect(&mut steps);
        steps
    }

    fn collect(&self, steps: &mut Vec<StepId>) {
        match self {
            Self::Step(step) => steps.push(*step),
            Self::Sequence(parts) | Self::Concurrence(parts) => {
                parts.iter().for_each(|part| part.collect(steps));
            }
        }
    }
}

/// In the place of an edge that is not there.
const NO_EDGE: u32 = u32::MAX;

/// The graph of a plan's run phase: dependencies of steps.
///
/// Its nodes are the steps and, between two parts of a sequence, one *joint* that has no work: so a
/// sequence of two concurrences of 10,000 steps has 20,000 edges, not 100 million. It is made from
/// the flow and the references when a plan is loaded, and not stored.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    /// For each node, how many it still waits for.
    waits: Vec<u32>,
    /// For each node, its newest edge to a node that waits for it.
    newest: Vec<u32>,
    /// The later node of each edge, and the edge of the same earlier node before it.
    edges: Vec<(u32, u32)>,
    /// Nodes below this are steps.
    steps: u32,
}

impl Graph {
    /// The graph of these steps with this flow.
    pub(crate) fn new(steps: usize, flow: &Flow) -> Self {
        let count = u32::try_from(steps).expect("a plan has at most STEPS_MAX steps");
        let (waits, newest) = (vec![0; steps], vec![NO_EDGE; steps]);
        let mut graph = Self { waits, newest, edges: Vec::with_capacity(steps), steps: count };
        graph.link(flow, None);
        graph
    }

    /// Makes `later` wait for `earlier`.
    pub(crate) fn add(&mut self, earlier: StepId, later: StepId) {
        self.edge(earlier.index() as u32, later.index() as u32);
    }

    /// All edges. Nodes are counted from 1, as steps are; numbers greater than any step are joints.
    pub(crate) fn edges(&self) -> Vec<(u32, u32)> {
        let all = (0..self.newest.len() as u32).flat_map(|node| {
            let mut after: Vec<(u32, u32)> =
                self.after_node(node).map(|next| (node + 1, next + 1)).collect();
            after.reverse();
            after
        });
        all.collect()
    }

    /// The nodes that wait for a node, the newest edge first.
    fn after_node(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        let edge = |at: u32| self.edges.get(at as usize).copied();
        let first = edge(self.newest[node as usize]);
        std::iter::successors(first, move |(_, before)| edge(*before)).map(|(later, _)| later)
    }

    fn edge(&mut self, earlier: u32, later: u32) {
        let newest = &mut self.newest[earlier as usize];
        self.edges.push((later, std::mem::replace(newest, self.edges.len() as u32)));
        self.waits[later as usize] += 1;
    }

    fn joint(&mut self) -> u32 {
        self.waits.push(0);
        self.newest.push(NO_EDGE);
        (self.waits.len() - 1) as u32
    }

    /// Links a part after a node and answers the node that is done when the part is.
    fn link(&mut self, flow: &Flow, after: Option<u32>) -> Option<u32> {
        match flow {
            Flow::Step(step) => {
                let node = step.index() as u32;
                if let Some(after) = after {
                    self.edge(after, node);
                }
                Some(node)
            }
            Flow::Sequence(parts) => parts.iter().fold(after, |after, part| self.link(part, after)),
            Flow::Concurrence(parts) => {
                let ends: Vec<u32> =
                    parts.iter().filter_map(|part| self.link(part, after)).collect();
                match ends.as_slice() {
                    [] => after,
                    [end] => Some(*end),
                    ends => {
                        let joint = self.joint();
                        for end in ends {
                            self.edge(*end, joint);
                        }
                        Some(joint)
                    }
                }
            }
        }
    }

    /// The steps that wait for nothing.
    pub(crate) fn first(&mut self) -> Vec<StepId> {
        let mut ready = Vec::new();
        let free: Vec<u32> =
            (0..self.waits.len() as u32).filter(|node| self.waits[*node as usize] == 0).collect();
        for node in free {
            self.reach(node, &mut ready);
        }
        ready.sort_unstable();
        ready
    }

    /// A step is done: adds the steps that became ready, in the order of planning.
    pub(crate) fn done(&mut self, step: StepId, ready: &mut Vec<StepId>) {
        let from = ready.len();
        self.release(step.index() as u32, ready);
        ready[from..].sort_unstable();
    }

    fn reach(&mut self, node: u32, ready: &mut Vec<StepId>) {
        if node < self.steps {
            ready.push(StepId::at(node as usize));
        } else {
            self.release(node, ready);
        }
    }

    fn release(&mut self, node: u32, ready: &mut Vec<StepId>) {
        // Joints follow one another without work: a list instead of recursion, their chain may be long.
        let mut released = Vec::new();
        let mut next = Some(node);
        while let Some(node) = next {
            let mut edge = std::mem::replace(&mut self.newest[node as usize], NO_EDGE);
            while let Some((follower, before)) = self.edges.get(edge as usize).copied() {
                edge = before;
                let waits = &mut self.waits[follower as usize];
                *waits -= 1;
                if *waits > 0 {
                    continue;
                }
                if follower < self.steps {
                    ready.push(StepId::at(follower as usize));
                } else {
                    released.push(follower);
                }
            }
            next = released.pop();
        }
    }

    /// A step and all that wait for it, directly or not.
    pub(crate) fn after(&self, from: StepId) -> Vec<StepId> {
        let mut is_after = vec![false; self.waits.len()];
        let mut open = vec![from.index() as u32];
        let mut steps = Vec::new();
        while let Some(node) = open.pop() {
            if std::mem::replace(&mut is_after[node as usize], true) {
                continue;
            }
            if node < self.steps {
                steps.push(StepId::at(node as usize));
            }
            open.extend(self.after_node(node));
        }
        steps.sort_unstable();
        steps
    }

    /// Whether each step can be reached: false if steps wait for one another in a circle.
    pub(crate) fn is_acyclic(&self) -> bool {
        let mut graph = self.clone();
        let mut ready = graph.first();
        let mut reached = 0_usize;
        while let Some(step) = ready.pop() {
            reached += 1;
            graph.done(step, &mut ready);
        }
        reached == self.steps as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(id: u32) -> Flow {
        Flow::Step(StepId(id))
    }

    #[test]
    fn a_flow_is_simplified_without_changing_its_order() {
        let flow = Flow::Concurrence(vec![
            Flow::empty(),
            Flow::Sequence(vec![
                Flow::Sequence(vec![step(1), step(2)]),
                Flow::Concurrence(vec![Flow::Concurrence(vec![step(3), step(4)])]),
            ]),
        ]);
        let expected =
            Flow::Sequence(vec![step(1), step(2), Flow::Concurrence(vec![step(3), step(4)])]);
        assert_eq!(flow.simplified(), expected);
    }

    #[test]
    fn a_part_of_a_sequence_waits_for_all_of_the_part_before() {
        let flow = Flow::Sequence(vec![
            Flow::Concurrence(vec![step(1), step(2)]),
            Flow::empty(),
            Flow::Concurrence(vec![step(3), step(4)]),
        ]);
        let mut graph = Graph::new(4, &flow);
        assert!(graph.is_acyclic());
        assert_eq!(graph.first(), [StepId(1), StepId(2)]);
        let mut ready = Vec::new();
        graph.done(StepId(2), &mut ready);
        assert!(ready.is_empty());
        graph.done(StepId(1), &mut ready);
        assert_eq!(ready, [StepId(3), StepId(4)]);
    }

    #[test]
    fn two_consumers_of_one_output_do_not_wait_for_each_other() {
        let flow = Flow::Concurrence(vec![step(1), step(2), step(3)]);
        let mut graph = Graph::new(3, &flow);
        graph.add(StepId(1), StepId(2));
        graph.add(StepId(1), StepId(3));
        assert_eq!(graph.first(), [StepId(1)]);
        let mut ready = Vec::new();
        graph.done(StepId(1), &mut ready);
        assert_eq!(ready, [StepId(2), StepId(3)]);
    }

    #[test]
    fn a_circle_is_noticed() {
        let mut graph = Graph::new(2, &Flow::Concurrence(vec![step(1), step(2)]));
        graph.add(StepId(1), StepId(2));
        graph.add(StepId(2), StepId(1));
        assert!(!graph.is_acyclic());
    }
}

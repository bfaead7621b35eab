//! The tree of a plan.

use std::time::Duration;

use turnwheel_engine::picture::{PlanHead, PlanTree, StepNode, TreeNode};

use super::{error, ms, names, said, times};
use crate::api;

/// Id, state and result of a plan.
pub fn head(head: &PlanHead) -> (String, String, String) {
    (head.id.to_string(), head.state.name().to_owned(), head.result.name().to_owned())
}

/// A step in a picture.
pub fn node(node: StepNode) -> api::Node {
    api::Node {
        id: node.step.0,
        phase: node.kind.name().to_owned(),
        action: node.action.0,
        name: node.name,
        state: node.state.name().to_owned(),
        progress: f64::from(node.progress) / 1_000.0,
        attempts: node.attempts,
        started_at: times(node.started_at),
        ended_at: times(node.ended_at),
        ran_ms: ms(Duration::from_micros(node.ran_us)),
        waits_for: said(node.waits_for),
        error: node.error.as_ref().map(error),
        possible: names(&node.can),
    }
}

/// An action in the tree.
pub fn tree_node(of: TreeNode) -> api::TreeNode {
    api::TreeNode {
        action: of.action.0,
        name: of.name,
        version: of.version,
        parent: of.parent.map(|parent| parent.0),
        depth: of.depth,
        children: of.children,
        state: of.state.name().to_owned(),
        steps: of.steps.into_iter().map(node).collect(),
    }
}

/// The whole tree of actions, as one page.
pub fn tree(tree: PlanTree) -> api::Tree {
    let (plan, state, result) = head(&tree.plan);
    let nodes: Vec<api::TreeNode> = tree.nodes.into_iter().map(tree_node).collect();
    let total = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
    api::Tree { plan, state, result, total, from: 0, nodes, next: None }
}

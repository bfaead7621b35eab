//! The tree of actions.

use serde::Serialize;

use super::node::SubPlanCountsOf;
use super::{name_of, PlanHead, StepNode};
use crate::id::ActionId;
use crate::plan::{ActionData, Plan, StepState};

/// The actions of a plan, each after the one that planned it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PlanTree {
    /// The plan.
    pub plan: PlanHead,
    /// Its actions in the order in which a tree is drawn: children after their parent, before the next
    /// one.
    pub nodes: Vec<TreeNode>,
    /// The last of them, if there are more: the next part begins [after](TreePart::after) it.
    pub next: Option<ActionId>,
}

/// Part of a tree; by default all of it.
///
/// ```
/// use turnwheel_engine::picture::TreePart;
///
/// // The root and what it has planned itself, a hundred at a time.
/// let part = TreePart::all().depth(1).limit(100);
/// # let _ = part;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct TreePart {
    under: Option<ActionId>,
    depth: Option<u32>,
    after: Option<ActionId>,
    limit: Option<usize>,
}

impl TreePart {
    /// The whole tree.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only an action and those below it; depths are counted from the root of the plan all the same.
    pub fn under(mut self, action: ActionId) -> Self {
        self.under = Some(action);
        self
    }

    /// Only so many levels below where it begins; 0 is that action alone.
    pub fn depth(mut self, levels: u32) -> Self {
        self.depth = Some(levels);
        self
    }

    /// Only what is drawn after this action.
    pub fn after(mut self, action: ActionId) -> Self {
        self.after = Some(action);
        self
    }

    /// Only so many actions.
    pub fn limit(mut self, actions: usize) -> Self {
        self.limit = Some(actions);
        self
    }
}

/// An action of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TreeNode {
    /// Its id.
    pub action: ActionId,
    /// Display name; see [`name_of`].
    pub name: String,
    /// The version that planned it.
    pub version: u32,
    /// The action that planned it.
    pub parent: Option<ActionId>,
    /// Its depth below the root.
    pub depth: u32,
    /// Number of actions that it planned itself.
    pub children: u32,
    /// The state of all its steps together: the one that asks for attention most.
    pub state: StepState,
    /// Its steps: plan, run, finalize, those that it has.
    pub steps: Vec<StepNode>,
}

impl Plan {
    /// Its actions as a tree. Cost: one node for each action that is wanted, one for each of their steps;
    /// a look at each action.
    pub(crate) fn tree(&self, part: TreePart) -> PlanTree {
        let mut children: Vec<Vec<ActionId>> = vec![Vec::new(); self.actions.len()];
        let counts = self.all_sub_plan_counts();
        let mut open = Vec::new();
        for action in &self.actions {
            match action.parent {
                Some(parent) => children[parent.index()].push(action.id),
                None => open.push((action.id, 0)),
            }
        }
        open.reverse();
        if let Some(under) = part.under {
            let is_there = self.actions.get(under.index()).is_some_and(|action| action.id == under);
            open = if is_there { vec![(under, self.depth_of(under))] } else { Vec::new() };
        }
        let top = open.last().map_or(0, |(_, depth)| *depth);
        let deepest = part.depth.map_or(u32::MAX, |levels| top.saturating_add(levels));
        let limit = part.limit.unwrap_or(usize::MAX);
        let mut is_wanted = part.after.is_none();
        let mut tree = PlanTree { plan: PlanHead::of(self), nodes: Vec::new(), next: None };
        while let Some((id, depth)) = open.pop() {
            let own = &children[id.index()];
            if is_wanted {
                if tree.nodes.len() >= limit {
                    tree.next = tree.nodes.last().map(|node| node.action);
                    break;
                }
                let count = u32::try_from(own.len()).unwrap_or(u32::MAX);
                tree.nodes.push(self.tree_node(self.action(id), depth, count, &counts));
            }
            is_wanted |= part.after == Some(id);
            if depth < deepest {
                open.extend(own.iter().rev().map(|child| (*child, depth + 1)));
            }
        }
        tree
    }

    /// Depth of an action below its root.
    fn depth_of(&self, action: ActionId) -> u32 {
        let above = |action: &ActionId| self.action(*action).parent;
        let depth = std::iter::successors(Some(action), above).count();
        u32::try_from(depth - 1).unwrap_or(u32::MAX)
    }

    fn tree_node(
        &self,
        action: &ActionData,
        depth: u32,
        children: u32,
        counts: &SubPlanCountsOf,
    ) -> TreeNode {
        let steps = [action.plan_step, action.run_step, action.finalize_step];
        let steps: Vec<StepNode> = steps
            .into_iter()
            .flatten()
            .map(|id| StepNode::of(self, self.step(id), counts))
            .collect();
        let states = steps.iter().map(|step| step.state);
        TreeNode {
            action: action.id,
            name: name_of(action),
            version: action.version,
            parent: action.parent,
            depth,
            children,
            state: states.max_by_key(|state| urgency(*state)).unwrap_or(StepState::Pending),
            steps,
        }
    }
}

/// Rank of a state: of several states the highest rank is shown.
pub(super) const fn urgency(state: StepState) -> u32 {
    match state {
        StepState::Success => 0,
        StepState::Pending | StepState::Scheduling => 1,
        StepState::Skipped | StepState::Kept | StepState::Reverted => 2,
        StepState::Cancelled | StepState::Dropped => 3,
        StepState::Skipping => 4,
        StepState::Suspended => 5,
        StepState::Running | StepState::Reverting => 6,
        StepState::Retrying | StepState::RevertRetrying => 7,
        StepState::Error | StepState::RevertFailed => 8,
    }
}

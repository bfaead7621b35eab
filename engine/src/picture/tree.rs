//! Who planned whom.

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
}

/// An action of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TreeNode {
    /// Its id.
    pub action: ActionId,
    /// What it is called, as [`name_of`] says.
    pub name: String,
    /// The version that planned it.
    pub version: u32,
    /// Who planned it.
    pub parent: Option<ActionId>,
    /// How deep it is below the root.
    pub depth: u32,
    /// How many it has planned itself.
    pub children: u32,
    /// The state of all its steps together: the one that asks for attention most.
    pub state: StepState,
    /// Its steps: plan, run, finalize, those that it has.
    pub steps: Vec<StepNode>,
}

impl Plan {
    /// Its actions as a tree. Cost: one node for each action, one for each step.
    pub(crate) fn tree(&self) -> PlanTree {
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
        let mut nodes = Vec::with_capacity(self.actions.len());
        while let Some((id, depth)) = open.pop() {
            let own = &children[id.index()];
            let count = u32::try_from(own.len()).unwrap_or(u32::MAX);
            nodes.push(self.tree_node(self.action(id), depth, count, &counts));
            open.extend(own.iter().rev().map(|child| (*child, depth + 1)));
        }
        PlanTree { plan: PlanHead::of(self), nodes }
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

/// Which state of several is shown.
const fn urgency(state: StepState) -> u32 {
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

//! Plans that a plan waits for: those that its steps have asked for, and those that it comes after.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::record::{SubPlan, SubPlanLabels};
use super::{Plan, PlanResult, PlanState};
use crate::id::{PlanId, StepId};
use crate::limits::{SUB_PLANS_AT_ONCE, SUB_PLANS_AT_ONCE_MAX, SUB_PLANS_KEPT};
use crate::payload::Payload;
use crate::time::Time;

/// A plan that a step has asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Child {
    /// The step.
    pub step: StepId,
    /// Name of its root action.
    pub action: String,
    /// What came of it, when it is over.
    pub result: Option<PlanResult>,
    /// Its input, until it is over.
    pub(crate) input: Payload,
    /// Its labels, until it is over.
    pub(crate) labels: SubPlanLabels,
    /// Whether it may begin.
    pub(crate) is_begun: bool,
}

/// How the plans of a step stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubPlanCounts {
    /// All that were asked for.
    pub total: u32,
    /// Over, with success.
    pub success: u32,
    /// Over, in another way.
    pub failed: u32,
    /// Not over.
    pub pending: u32,
}

impl SubPlanCounts {
    /// One of them is over.
    fn end(&mut self, result: PlanResult) {
        self.pending -= 1;
        if result == PlanResult::Success {
            self.success += 1;
        } else {
            self.failed += 1;
        }
    }
}

/// When and after what a plan is planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delayed {
    /// Not before this.
    pub start_at: Option<Time>,
    /// Not after this.
    pub start_before: Option<Time>,
    /// The plans that must be over before, and what came of them.
    pub after: BTreeMap<PlanId, Option<PlanResult>>,
    /// Not before somebody allows it.
    pub is_frozen: bool,
}

/// The children of all steps.
///
/// Cost: all that is done for one of them is done without looking at the others.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Children {
    /// Those that are not over, and the newest of those that are.
    all: BTreeMap<PlanId, Child>,
    /// Ended sub-plans that are kept, the oldest first.
    over: VecDeque<PlanId>,
    /// For each step that waits for some: which.
    open: BTreeMap<StepId, Open>,
    counts: BTreeMap<StepId, SubPlanCounts>,
    /// Steps whose plans are all over, and that do not know it yet.
    untold: BTreeSet<StepId>,
    /// Those that may begin and were not told.
    #[serde(skip)]
    fresh: Vec<PlanId>,
    /// Steps whose plans were asked to end since the plan was; whether with force.
    #[serde(skip)]
    asked_to_end: BTreeMap<StepId, bool>,
}

/// The children of a step that are not over.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Open {
    /// The first that was asked for begins first.
    waiting: BTreeSet<PlanId>,
    begun: BTreeSet<PlanId>,
    at_once: u32,
}

impl Children {
    pub(super) fn add(&mut self, step: StepId, plans: &[SubPlan], at_once: Option<u32>) {
        let open = self.open.entry(step).or_default();
        open.at_once = at_once.unwrap_or(SUB_PLANS_AT_ONCE).min(SUB_PLANS_AT_ONCE_MAX);
        for SubPlan { plan, action, input, labels } in plans {
            let (action, input, labels) = (action.clone(), input.clone(), labels.clone());
            let child = Child { step, action, input, labels, result: None, is_begun: false };
            self.all.insert(*plan, child);
            open.waiting.insert(*plan);
        }
        let counts = self.counts.entry(step).or_default();
        counts.total += plans.len() as u32;
        counts.pending += plans.len() as u32;
        self.begin(step);
    }

    /// Lets as many begin as may.
    fn begin(&mut self, step: StepId) {
        let Some(open) = self.open.get_mut(&step) else { return };
        while open.begun.len() < open.at_once as usize {
            let Some(plan) = open.waiting.pop_first() else { break };
            open.begun.insert(plan);
            if let Some(child) = self.all.get_mut(&plan) {
                child.is_begun = true;
                self.fresh.push(plan);
            }
        }
    }

    pub(super) fn ended(&mut self, plan: PlanId, result: PlanResult) {
        let Some(child) = self.all.get_mut(&plan).filter(|child| child.result.is_none()) else {
            return;
        };
        child.result = Some(result);
        child.input = Payload::null();
        child.labels = SubPlanLabels::default();
        let step = child.step;
        self.counts.entry(step).or_default().end(result);
        self.over.push_back(plan);
        if self.over.len() > SUB_PLANS_KEPT {
            self.over.pop_front().and_then(|oldest| self.all.remove(&oldest));
        }
        if let Some(open) = self.open.get_mut(&step) {
            let _was_open = open.begun.remove(&plan) || open.waiting.remove(&plan);
        }
        self.begin(step);
        if self.open.get(&step).is_some_and(|open| open.begun.is_empty()) {
            self.open.remove(&step);
            self.untold.insert(step);
        }
    }

    /// A step knows what came of its plans, or does not care any more.
    pub(super) fn told(&mut self, step: StepId) {
        self.untold.remove(&step);
    }

    /// A step has not heard of it after all: its call has failed, and is repeated.
    pub(super) fn untold(&mut self, step: StepId) {
        self.untold.insert(step);
    }

    /// Whether a step has to be told that its plans are over.
    pub(crate) fn are_untold(&self, step: StepId) -> bool {
        self.untold.contains(&step)
    }

    /// The plans of a step are asked to end; false if they were already, as seriously.
    pub(crate) fn ask_to_end(&mut self, step: StepId, is_forced: bool) -> bool {
        let asked = self.asked_to_end.insert(step, is_forced);
        asked.is_none_or(|was_forced| is_forced && !was_forced)
    }

    /// They are asked again the next time.
    pub(crate) fn ask_to_end_again(&mut self) {
        self.asked_to_end.clear();
    }

    pub(crate) fn find(&self, plan: PlanId) -> Option<&Child> {
        self.all.get(&plan)
    }

    /// Those that may begin now and might not when this was asked before.
    pub(crate) fn take_fresh(&mut self) -> Vec<PlanId> {
        std::mem::take(&mut self.fresh)
    }

    /// Whether a step waits for plans.
    pub(crate) fn are_open(&self, step: StepId) -> bool {
        self.open.contains_key(&step)
    }

    /// Those of a step that have begun and are not over.
    pub(crate) fn begun_of(&self, step: StepId) -> Vec<PlanId> {
        self.open.get(&step).map_or_else(Vec::new, |open| open.begun.iter().copied().collect())
    }

    /// Those of a step that have not begun, the last one first.
    pub(crate) fn waiting_of(&self, step: StepId) -> Vec<PlanId> {
        let waiting = |open: &Open| open.waiting.iter().rev().copied().collect();
        self.open.get(&step).map_or_else(Vec::new, waiting)
    }

    /// All that have begun and are not over.
    pub(crate) fn begun(&self) -> Vec<PlanId> {
        self.open.values().flat_map(|open| open.begun.iter().copied()).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(crate) fn counts(&self, step: StepId) -> SubPlanCounts {
        self.counts.get(&step).copied().unwrap_or_default()
    }
}

impl Plan {
    /// How the plans of all steps stand that have asked for any.
    pub(crate) fn all_sub_plan_counts(&self) -> HashMap<StepId, SubPlanCounts> {
        self.children.counts.iter().map(|(step, counts)| (*step, *counts)).collect()
    }

    /// The plans that its steps have asked for: those that are not over, and of those that are the newest
    /// [`SUB_PLANS_KEPT`]. All of them are counted, and all are found with
    /// [`Filter::caller`](crate::store::Filter::caller).
    pub fn sub_plans(&self) -> impl Iterator<Item = (PlanId, &Child)> {
        self.children.all.iter().map(|(plan, child)| (*plan, child))
    }

    /// How the plans of a step stand.
    pub fn sub_plan_counts(&self, step: StepId) -> SubPlanCounts {
        self.children.counts(step)
    }

    /// Whether it waits for other plans, so that a start has to look after it.
    pub(crate) fn waits_for_plans(&self) -> bool {
        match self.state {
            PlanState::Running => !self.children.is_empty(),
            PlanState::Scheduled => !self.open_prerequisites().is_empty(),
            _ => false,
        }
    }

    /// The plans that must be over before this one is planned, and are not known to be.
    pub(crate) fn open_prerequisites(&self) -> Vec<PlanId> {
        let after = self.delayed.iter().flat_map(|delayed| &delayed.after);
        after.filter(|(_, result)| result.is_none()).map(|(plan, _)| *plan).collect()
    }
}

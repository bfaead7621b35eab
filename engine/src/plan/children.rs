//! Plans that a plan waits for: those that its steps have asked for, and those that it comes after.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::record::{SubPlan, SubPlanLabels};
use super::{Plan, PlanResult, PlanState};
use crate::id::{PlanId, StepId};
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
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
    fn add(&mut self, result: Option<PlanResult>) {
        self.total += 1;
        match result {
            None => self.pending += 1,
            Some(PlanResult::Success) => self.success += 1,
            Some(_) => self.failed += 1,
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
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Children {
    all: BTreeMap<PlanId, Child>,
    /// For each step: how many are not over, how many of those have begun, and how many may at once.
    open: BTreeMap<StepId, Open>,
    /// Steps whose plans are all over, and that do not know it yet.
    untold: BTreeSet<StepId>,
    /// Those that may begin and were not told.
    #[serde(skip)]
    fresh: Vec<PlanId>,
    /// Steps whose plans were asked to end since the plan was; whether with force.
    #[serde(skip)]
    asked_to_end: BTreeMap<StepId, bool>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Open {
    waiting: Vec<PlanId>,
    begun: u32,
    at_once: Option<u32>,
}

impl Children {
    pub(super) fn add(&mut self, step: StepId, plans: &[SubPlan], at_once: Option<u32>) {
        let open = self.open.entry(step).or_default();
        open.at_once = at_once;
        for SubPlan { plan, action, input, labels } in plans {
            let (action, input, labels) = (action.clone(), input.clone(), labels.clone());
            let child = Child { step, action, input, labels, result: None, is_begun: false };
            self.all.insert(*plan, child);
            open.waiting.push(*plan);
        }
        // The first that was asked for begins first: they are taken from the end.
        open.waiting.sort_unstable_by(|one, other| other.cmp(one));
        self.begin(step);
    }

    /// Lets as many begin as may.
    fn begin(&mut self, step: StepId) {
        let Some(open) = self.open.get_mut(&step) else { return };
        let free =
            open.at_once.map_or(usize::MAX, |at_once| at_once.saturating_sub(open.begun) as usize);
        for _ in 0..free {
            let Some(plan) = open.waiting.pop() else { break };
            open.begun += 1;
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
        let (step, is_begun) = (child.step, child.is_begun);
        if let Some(open) = self.open.get_mut(&step) {
            if is_begun {
                open.begun -= 1;
            } else {
                open.waiting.retain(|waiting| *waiting != plan);
            }
        }
        self.begin(step);
        if self.open.get(&step).is_some_and(|open| open.begun == 0 && open.waiting.is_empty()) {
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

    /// Those of a step that are not over.
    pub(crate) fn open_of(&self, step: StepId) -> Vec<PlanId> {
        let is_open = |child: &Child| child.step == step && child.result.is_none();
        self.all.iter().filter(|(_, child)| is_open(child)).map(|(plan, _)| *plan).collect()
    }

    /// All that have begun and are not over.
    pub(crate) fn begun(&self) -> Vec<PlanId> {
        if self.open.is_empty() {
            return Vec::new();
        }
        let is_begun = |child: &Child| child.is_begun && child.result.is_none();
        self.all.iter().filter(|(_, child)| is_begun(child)).map(|(plan, _)| *plan).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(crate) fn counts(&self, step: StepId) -> SubPlanCounts {
        let mut counts = SubPlanCounts::default();
        for child in self.all.values().filter(|child| child.step == step) {
            counts.add(child.result);
        }
        counts
    }
}

impl Plan {
    /// How the plans of all steps stand that have asked for any.
    pub(crate) fn all_sub_plan_counts(&self) -> HashMap<StepId, SubPlanCounts> {
        let mut all: HashMap<StepId, SubPlanCounts> = HashMap::new();
        for child in self.children.all.values() {
            all.entry(child.step).or_default().add(child.result);
        }
        all
    }

    /// The plans that its steps have asked for.
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

//! Plans that a plan waits for: its steps' sub-plans, and the plans that it comes after.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::asked::{Asked, Named, OfStep, SubPlan, SubPlanLabels};
use super::pages::Pages;
use super::{Plan, PlanResult, PlanState};
use crate::id::{PlanId, StepId};
use crate::limits::{
    SUB_PLANS_AT_ONCE, SUB_PLANS_AT_ONCE_MAX, SUB_PLANS_IN_MEMORY, SUB_PLANS_KEPT, SUB_PLANS_PAGE,
};
use crate::payload::Payload;
use crate::store::Seq;
use crate::time::Time;

/// A plan that a step has asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Child {
    /// The step.
    pub step: StepId,
    /// Name of its root action.
    pub action: String,
    /// Its result, when it is over.
    pub result: Option<PlanResult>,
    /// Its input and labels, until it is over; nothing if a page of the journal has them.
    pub(super) contents: Option<(Payload, SubPlanLabels)>,
    /// The page that has its contents; 0 if they are here.
    pub(super) page: u32,
}

/// Numbers of a step's sub-plans by state.
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
    /// So many of them are over.
    fn end(&mut self, result: PlanResult, plans: u32) {
        self.pending -= plans;
        if result == PlanResult::Success {
            self.success += plans;
        } else {
            self.failed += plans;
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
    /// Plans that are not over, and the newest of the others.
    all: BTreeMap<PlanId, Child>,
    /// Ended sub-plans that are kept, the oldest first.
    over: VecDeque<PlanId>,
    /// For each step that waits for some: which.
    pub(super) open: BTreeMap<StepId, Open>,
    counts: BTreeMap<StepId, SubPlanCounts>,
    /// For each step, numbers of those that were over before its newest round: with success, and in
    /// another way.
    before: BTreeMap<StepId, (u32, u32)>,
    /// Steps whose plans are all over, and that do not know it yet.
    untold: BTreeSet<StepId>,
    /// Location of the contents that are not in memory.
    pages: Pages,
    /// The requests; snapshots have them [behind the plan](Plan::more).
    #[serde(skip)]
    pub(super) asked: Asked,
    /// Plans that have begun and that nobody waits for any more: they are told to end until they
    /// are over. Snapshots have them [behind the plan](Plan::more).
    #[serde(skip)]
    pub(super) unwanted: BTreeSet<PlanId>,
    /// Contents that were read from pages, of plans that have not begun.
    #[serde(skip)]
    read: HashMap<PlanId, SubPlan>,
    /// Plans that may begin and were not started yet.
    #[serde(skip)]
    pub(super) fresh: Vec<PlanId>,
    /// Steps that need the next page of their plans.
    #[serde(skip)]
    hungry: BTreeSet<StepId>,
    /// Steps whose plans were asked to end since the plan was; whether with force.
    #[serde(skip)]
    asked_to_end: BTreeMap<StepId, bool>,
}

/// The children of a step that are not over.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Open {
    /// The first that was asked for begins first.
    waiting: BTreeSet<PlanId>,
    pub(super) begun: BTreeSet<PlanId>,
    at_once: u32,
    /// The pages of those that come after `waiting`, in their order.
    pages: VecDeque<u32>,
}

impl Children {
    /// Adds sub-plans of a step: those that were written ahead, and these. Memory keeps the
    /// contents of the first ones; the others stay in the journal.
    pub(super) fn add(&mut self, step: StepId, plans: &[SubPlan], at_once: Option<u32>) -> usize {
        if !self.are_open(step) && !self.are_untold(step) {
            self.begin_round(step);
        }
        let joined = self.asked.add(step, plans);
        if let Some((well, _)) = self.before.get_mut(&step) {
            *well -= joined.min(*well);
        }
        let open = self.open.entry(step).or_default();
        open.at_once = at_once.unwrap_or(SUB_PLANS_AT_ONCE).min(SUB_PLANS_AT_ONCE_MAX);
        let (ahead, mut total) = self.pages.take_ahead(step);
        open.pages.extend(ahead);
        total += plans.len();
        if open.pages.is_empty() && open.waiting.len() + plans.len() <= SUB_PLANS_IN_MEMORY {
            for SubPlan { plan, action, input, labels } in plans {
                let (action, contents) = (action.clone(), Some((input.clone(), labels.clone())));
                let child = Child { step, action, result: None, contents, page: 0 };
                self.all.insert(*plan, child);
                open.waiting.insert(*plan);
            }
        } else if let Some(first) = plans.first() {
            open.pages.push_back(self.pages.add(first.plan, plans.len()));
        }
        let counts = self.counts.entry(step).or_default();
        counts.total += total as u32;
        counts.pending += total as u32;
        self.begin(step);
        // All that was asked for may be known and over.
        self.close_if_over(step);
        total
    }

    /// A call that asks for plans by key names them all, before it adds the new ones.
    pub(super) fn name(&mut self, step: StepId, plans: &[Named]) {
        if !self.are_open(step) && !self.are_untold(step) {
            self.begin_round(step);
        }
        self.asked.name(step, plans);
    }

    /// The requests of a step.
    pub(crate) fn asked(&self, step: StepId) -> Option<&OfStep> {
        self.asked.of(step)
    }

    /// A step that has ended well begins again.
    pub(super) fn forget_asked(&mut self, step: StepId) {
        self.asked.forget(step);
    }

    /// Orders the newest rounds of a snapshot that does not have their order.
    pub(super) fn guess_asked(&mut self) {
        let steps: Vec<StepId> = self.counts.keys().copied().collect();
        for step in steps {
            let count = self.round(step).total as usize;
            let is_its = |(_, child): &(&PlanId, &Child)| child.step == step;
            let mut plans: Vec<PlanId> =
                self.all.iter().filter(is_its).map(|(plan, _)| *plan).collect();
            plans.drain(..plans.len().saturating_sub(count));
            self.asked.guess(step, plans);
        }
    }

    /// The turn of the next page of a step has come: these are its plans, by the names of their actions.
    pub(super) fn turn(&mut self, step: StepId, page: u32, plans: &[(String, Vec<PlanId>)]) {
        let Some(open) = self.open.get_mut(&step).filter(|it| it.pages.front() == Some(&page))
        else {
            return;
        };
        open.pages.pop_front();
        for (action, plans) in plans {
            for plan in plans {
                let child =
                    Child { step, action: action.clone(), result: None, contents: None, page };
                self.all.insert(*plan, child);
                open.waiting.insert(*plan);
            }
        }
        self.begin(step);
    }

    /// Lets as many begin as may.
    fn begin(&mut self, step: StepId) {
        let Some(open) = self.open.get_mut(&step) else { return };
        while open.begun.len() < open.at_once as usize {
            let Some(plan) = open.waiting.pop_first() else { break };
            open.begun.insert(plan);
            self.fresh.push(plan);
        }
        if !open.pages.is_empty() && open.waiting.len() < SUB_PLANS_PAGE / 2 {
            self.hungry.insert(step);
        }
    }

    pub(super) fn ended(&mut self, plan: PlanId, result: PlanResult) {
        self.unwanted.remove(&plan);
        let Some(child) = self.all.get_mut(&plan).filter(|child| child.result.is_none()) else {
            return;
        };
        child.result = Some(result);
        child.contents = None;
        self.read.remove(&plan);
        let (step, page) = (child.step, std::mem::take(&mut child.page));
        self.pages.ended(page, 1);
        self.counts.entry(step).or_default().end(result, 1);
        if result != PlanResult::Success {
            self.asked.failed(step, plan);
        }
        self.over.push_back(plan);
        if self.over.len() > SUB_PLANS_KEPT {
            self.over.pop_front().and_then(|oldest| self.all.remove(&oldest));
        }
        if let Some(open) = self.open.get_mut(&step) {
            let _was_open = open.begun.remove(&plan) || open.waiting.remove(&plan);
        }
        self.begin(step);
        self.close_if_over(step);
    }

    /// Sub-plans of a step that have not begun are not started any more.
    pub(super) fn dropped(&mut self, step: StepId, result: PlanResult) {
        if let Some(first) = self.first_in_pages(step) {
            self.asked.lost(step, first, None);
        }
        let Some(open) = self.open.get_mut(&step) else { return };
        for page in std::mem::take(&mut open.pages) {
            let left = self.pages.remove(page);
            self.counts.entry(step).or_default().end(result, left);
        }
        let waiting = std::mem::take(&mut open.waiting);
        waiting.into_iter().for_each(|plan| self.ended(plan, result));
        self.close_if_over(step);
    }

    /// The next page of a step cannot be read: its plans will not be made.
    pub(super) fn lost(&mut self, step: StepId, page: u32) {
        let Some(open) = self.open.get_mut(&step).filter(|it| it.pages.front() == Some(&page))
        else {
            return;
        };
        open.pages.pop_front();
        let first = self.pages.find(page).map(|page| page.first);
        if let Some(first) = first {
            let next = self.first_in_pages(step);
            self.asked.lost(step, first, next);
        }
        let left = self.pages.remove(page);
        self.counts.entry(step).or_default().end(PlanResult::Error, left);
        self.begin(step);
        self.close_if_over(step);
    }

    fn close_if_over(&mut self, step: StepId) {
        let is_over =
            |open: &Open| open.begun.is_empty() && open.waiting.is_empty() && open.pages.is_empty();
        if self.open.get(&step).is_some_and(is_over) {
            self.open.remove(&step);
            self.untold.insert(step);
        }
    }

    /// A step begins anew, or asks for plans after it was told of those before: from now on it is
    /// told of those that are not over, and of new ones.
    pub(super) fn begin_round(&mut self, step: StepId) {
        self.told(step);
        let (open, in_pages) = (self.open.get(&step), self.first_in_pages(step));
        self.asked.begin_round(step, |plan| {
            in_pages.is_some_and(|first| *plan >= first)
                || open.is_some_and(|it| it.begun.contains(plan) || it.waiting.contains(plan))
        });
        if let Some(counts) = self.counts.get(&step) {
            self.before.insert(step, (counts.success, counts.failed));
        }
    }

    /// The first of a step's plans whose contents are in pages.
    fn first_in_pages(&self, step: StepId) -> Option<PlanId> {
        let page = self.open.get(&step)?.pages.front()?;
        self.pages.find(*page).map(|page| page.first)
    }

    /// Numbers of the plans of a step's newest round.
    pub(crate) fn round(&self, step: StepId) -> SubPlanCounts {
        let SubPlanCounts { total, success, failed, pending } = self.counts(step);
        let (well, badly) = self.before.get(&step).copied().unwrap_or_default();
        let total = total - well - badly;
        SubPlanCounts { total, success: success - well, failed: failed - badly, pending }
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

    /// Takes the plans that may begin now and could not at the last call.
    pub(crate) fn take_fresh(&mut self) -> Vec<PlanId> {
        std::mem::take(&mut self.fresh)
    }

    /// Whether a step waits for plans.
    pub(crate) fn are_open(&self, step: StepId) -> bool {
        self.open.contains_key(&step)
    }

    /// Sub-plans of a step that have begun and are not over.
    pub(crate) fn begun_of(&self, step: StepId) -> Vec<PlanId> {
        self.open.get(&step).map_or_else(Vec::new, |open| open.begun.iter().copied().collect())
    }

    /// Plans that may begin and were not started yet.
    pub(crate) fn fresh(&self) -> &[PlanId] {
        &self.fresh
    }

    /// Sub-plans of a page that have begun and are not over.
    pub(crate) fn begun_of_page(&self, page: u32) -> Vec<PlanId> {
        let is_its = |plan: &PlanId| self.all.get(plan).is_some_and(|child| child.page == page);
        self.begun().into_iter().filter(is_its).collect()
    }

    /// Location of the contents that are not in memory.
    pub(crate) fn pages(&self) -> &Pages {
        &self.pages
    }

    /// The records so far are handed to the journal, as one entry.
    pub(crate) fn hand_over(&mut self) {
        self.pages.hand_over();
    }

    /// The entry that was handed over is at this place.
    pub(crate) fn written(&mut self, entry: Seq) {
        self.pages.written(entry);
    }

    /// Whether some of a step's plans have not begun.
    pub(crate) fn are_waiting(&self, step: StepId) -> bool {
        let waits = |open: &Open| !(open.waiting.is_empty() && open.pages.is_empty());
        self.open.get(&step).is_some_and(waits)
    }

    /// Steps that need the next page of their plans, and did not when this was asked before.
    pub(crate) fn take_hungry(&mut self) -> BTreeSet<StepId> {
        std::mem::take(&mut self.hungry)
    }

    /// All steps ask for their next pages again.
    pub(crate) fn ask_for_pages_again(&mut self) {
        let waits = self.open.iter().filter(|(_, open)| !open.pages.is_empty());
        self.hungry = waits.map(|(step, _)| *step).collect();
    }

    /// The page that a step needs next.
    pub(crate) fn next_page(&self, step: StepId) -> Option<u32> {
        self.open.get(&step).and_then(|open| open.pages.front().copied())
    }

    /// The step whose next page this is.
    pub(crate) fn step_before(&self, page: u32) -> Option<StepId> {
        let mut steps = self.open.iter();
        steps.find(|(_, open)| open.pages.front() == Some(&page)).map(|(step, _)| *step)
    }

    /// Keeps what was read from a page, of plans that have not begun or that are `wanted`.
    pub(crate) fn keep(&mut self, plans: Vec<SubPlan>, wanted: &BTreeSet<PlanId>) {
        for plan in plans {
            let Some(child) = self.all.get(&plan.plan) else { continue };
            let open = self.open.get(&child.step);
            let waits = open.is_some_and(|open| open.waiting.contains(&plan.plan));
            if child.result.is_none() && (waits || wanted.contains(&plan.plan)) {
                self.read.insert(plan.plan, plan);
            }
        }
    }

    /// Contents for starting a plan; the number of its page if they are not in memory.
    pub(crate) fn contents(&mut self, plan: PlanId) -> Option<Result<SubPlan, u32>> {
        let child = self.all.get(&plan).filter(|child| child.result.is_none())?;
        if let Some((input, labels)) = &child.contents {
            let (action, input, labels) = (child.action.clone(), input.clone(), labels.clone());
            return Some(Ok(SubPlan { plan, action, input, labels }));
        }
        Some(self.read.remove(&plan).ok_or(child.page))
    }

    /// All that have begun and are not over.
    pub(crate) fn begun(&self) -> Vec<PlanId> {
        self.open.values().flat_map(|open| open.begun.iter().copied()).collect()
    }

    /// A call has asked for plans before its end.
    pub(super) fn add_ahead(&mut self, step: StepId, plans: &[SubPlan]) {
        if let Some(first) = plans.first() {
            self.pages.add_ahead(step, first.plan, plans.len());
            self.asked.ahead(step, plans);
        }
    }

    /// The step's next call has begun: sub-plans written ahead for the previous one do not count.
    pub(super) fn forget_ahead(&mut self, step: StepId) {
        self.asked.forget_ahead(step);
        let (pages, _) = self.pages.take_ahead(step);
        for page in pages {
            let _not_made = self.pages.remove(page);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(crate) fn counts(&self, step: StepId) -> SubPlanCounts {
        self.counts.get(&step).copied().unwrap_or_default()
    }
}

impl Plan {
    /// Numbers of sub-plans by state, for all steps that have some.
    pub(crate) fn all_sub_plan_counts(&self) -> HashMap<StepId, SubPlanCounts> {
        self.children.counts.iter().map(|(step, counts)| (*step, *counts)).collect()
    }

    /// The sub-plans of its steps: those that are not over, and the newest [`SUB_PLANS_KEPT`] of
    /// the others. All of them are counted, and [`Filter::caller`](crate::store::Filter::caller)
    /// finds them all.
    pub fn sub_plans(&self) -> impl Iterator<Item = (PlanId, &Child)> {
        self.children.all.iter().map(|(plan, child)| (*plan, child))
    }

    /// Numbers of a step's sub-plans by state.
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

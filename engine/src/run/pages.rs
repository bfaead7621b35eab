//! Sub-plans by the page: those of a call that asks for very many are written before its end, and read
//! again when their turn comes. Memory has those that run, and the next ones.

use std::collections::{BTreeSet, VecDeque};

use turnwheel_actors::{Context, Handler};

use super::decide::{Decisions, Effect};
use super::PlanActor;
use crate::action::Returned;
use crate::error::StoreError;
use crate::id::{PlanId, StepId};
use crate::journal::decode;
use crate::plan::{PlanState, Record, StepState, SubPlan};
use crate::store::{Seq, Verdict};

/// Work of an actor on the sub-plans of its plan that are not in memory.
#[derive(Default)]
pub(super) struct Paging {
    /// Calls that have ended and whose sub-plans are being written.
    ahead: VecDeque<Ended>,
    /// Pages that are being read.
    reading: BTreeSet<u32>,
    /// Plans that begin when they are read.
    wanted: BTreeSet<PlanId>,
}

/// A call that has ended.
struct Ended {
    step: StepId,
    call: u32,
    returned: Returned,
    ran_us: u64,
}

/// A page was read, or not.
pub(super) struct PageRead {
    page: u32,
    plans: Result<Vec<SubPlan>, StoreError>,
}

impl Paging {
    /// Whether something of it is under way.
    pub(super) fn is_busy(&self) -> bool {
        !(self.ahead.is_empty() && self.reading.is_empty())
    }
}

impl PlanActor {
    /// A call has ended. If it has asked for very many plans, they are written before its end is.
    pub(super) fn returned(&mut self, step: StepId, call: u32, returned: Returned, ran_us: u64) {
        if returned.asks_for_pages() {
            self.paging.ahead.push_back(Ended { step, call, returned, ran_us });
        } else {
            self.end_call(Ended { step, call, returned, ran_us });
        }
    }

    fn end_call(&mut self, ended: Ended) {
        let Ended { step, call, mut returned, ran_us } = ended;
        let is_owned = self.world.owns(self.id);
        let when_taken = returned.wishes.when_taken.take();
        let when_stored = returned.wishes.when_stored.take();
        let Some(mut decisions) = self.decisions() else { return };
        let is_taken = is_owned && decisions.may_ask(step, call);
        decisions.returned(step, call, returned, ran_us);
        if let Some(stored) = when_stored.filter(|_| is_taken) {
            self.answers.push(Box::new(move |outcome| {
                if matches!(outcome, Ok(Verdict::Written(_))) {
                    stored.work();
                }
            }));
        }
        if let Some(work) = when_taken.filter(|_| is_taken) {
            (work.0)();
            if !self.world.owns(self.id) {
                self.world.forget_lost_plans();
            }
        }
    }

    /// Puts the next page of a call that has ended into the entry that is handed over next, or, after the
    /// last one, the end of the call.
    pub(super) fn take_page(&mut self) {
        let Some(mut ended) = self.paging.ahead.pop_front() else { return };
        let (step, call) = (ended.step, ended.call);
        let plans = ended.returned.wishes.plans.take_page();
        let Some(mut decisions) = self.decisions() else { return };
        match plans {
            Some(plans) if decisions.may_ask(step, call) => {
                decisions.record(Record::SubPlansAhead { step, plans });
                self.paging.ahead.push_front(ended);
            }
            _ => self.end_call(ended),
        }
    }

    /// Reads the next plans that a step has asked for.
    pub(super) fn read_next_page(&mut self, step: StepId, cx: &mut Context<'_, Self>) {
        let next = self.plan.as_ref().and_then(|plan| plan.children.next_page(step));
        if let Some(page) = next {
            self.read_page(page, cx);
        }
    }

    /// A plan begins when the page is read that has its input.
    pub(super) fn begin_from_page(&mut self, plan: PlanId, page: u32, cx: &mut Context<'_, Self>) {
        self.paging.wanted.insert(plan);
        self.read_page(page, cx);
    }

    fn read_page(&mut self, page: u32, cx: &mut Context<'_, Self>) {
        let id = self.id;
        let found = self.plan.as_ref().and_then(|plan| plan.children.pages().find(page));
        let Some(place) = found.filter(|place| place.entry > 0) else { return };
        if !self.paging.reading.insert(page) {
            return;
        }
        let (entry, first) = (place.entry, place.first);
        let read = self.world.journal().read(move |reader| {
            let entries = reader.history_after(id, entry - 1, entry)?;
            plans_of(id, entry, &entries, first)
        });
        let lost = |failure: turnwheel_runtime::Failure| StoreError::unanswered(&failure);
        let read = async move { read.await.map_err(lost).and_then(|plans| plans) };
        cx.pipe(read, move |plans| PageRead { page, plans });
    }
}

/// The plans of the page that begins with this one.
fn plans_of(
    id: PlanId,
    entry: Seq,
    entries: &[(Seq, Vec<u8>)],
    first: PlanId,
) -> Result<Vec<SubPlan>, StoreError> {
    for (_, bytes) in entries {
        for record in decode(id, bytes)? {
            if let Record::SubPlans { plans, .. } | Record::SubPlansAhead { plans, .. } = record {
                if plans.first().is_some_and(|plan| plan.plan == first) {
                    return Ok(plans);
                }
            }
        }
    }
    Err(StoreError::Corrupt(format!("plan {id}: entry {entry} does not have plan {first}")))
}

impl Handler<PageRead> for PlanActor {
    type Reply = ();

    fn handle(&mut self, PageRead { page, plans }: PageRead, cx: &mut Context<'_, Self>) {
        self.paging.reading.remove(&page);
        match plans {
            Ok(plans) => {
                let ids: BTreeSet<PlanId> = plans.iter().map(|plan| plan.plan).collect();
                let wanted: BTreeSet<PlanId> =
                    self.paging.wanted.intersection(&ids).copied().collect();
                self.paging.wanted.retain(|plan| !ids.contains(plan));
                if let Some(mut decisions) = self.decisions() {
                    decisions.page_read(page, plans, wanted);
                }
            }
            Err(error @ StoreError::Corrupt(_)) => {
                tracing::error!(plan = %self.id, %error, "sub-plans cannot be read");
                if let Some(mut decisions) = self.decisions() {
                    decisions.page_lost(page, &error.to_string());
                }
            }
            Err(error) => {
                tracing::warn!(plan = %self.id, %error, "sub-plans begin later");
                self.world.ask_again_later(self.id);
            }
        }
        self.settle(cx);
    }
}

impl Decisions<'_> {
    /// Whether a call that has ended may still ask for plans.
    fn may_ask(&self, id: StepId, call: u32) -> bool {
        let step = self.plan.find_step(id);
        let is_current =
            |step: &crate::plan::Step| step.calls == call && step.state == StepState::Running;
        step.is_some_and(is_current) && self.plan.state != PlanState::Stopped
    }

    /// The plans of a page are in memory.
    fn page_read(&mut self, page: u32, plans: Vec<SubPlan>, wanted: BTreeSet<PlanId>) {
        let next = self.plan.children.step_before(page);
        let is_wanted = self.plan.state == PlanState::Running && self.plan.cancel.is_none();
        if let Some(step) = next.filter(|_| is_wanted) {
            let mut by_action: Vec<(String, Vec<PlanId>)> = Vec::new();
            for SubPlan { plan, action, .. } in &plans {
                match by_action.iter_mut().find(|(name, _)| name == action) {
                    Some((_, ids)) => ids.push(*plan),
                    None => by_action.push((action.clone(), vec![*plan])),
                }
            }
            self.record(Record::SubPlansNext { step, page, plans: by_action });
        }
        let fresh = self.plan.children.fresh();
        self.plan.children.keep(plans, &wanted.iter().chain(fresh).copied().collect());
        self.effects.extend(wanted.into_iter().map(Effect::Begin));
        if self.plan.state == PlanState::Running {
            self.begin_more();
        }
    }

    /// The plans of a page are lost: their step is told that they have failed.
    fn page_lost(&mut self, page: u32, why: &str) {
        if let Some(step) = self.plan.children.step_before(page) {
            let (at, why) = (self.now, why.to_owned());
            self.record(Record::SubPlansDropped { at, step, page: Some(page), why });
            if self.plan.state == PlanState::Running {
                self.begin_more();
                self.plans_are_over(step);
                self.advance();
            }
            return;
        }
        // They may exist: those that do not exist end as unable to begin.
        for plan in self.plan.children.begun_of_page(page) {
            self.plan_ended(plan, crate::plan::PlanResult::Error);
        }
    }
}

//! An entry of a plan: decided records go to the journal, and effects follow when they are durable.

use std::sync::Arc;
use std::time::Duration;

use turnwheel_actors::{Context, Handler};
use turnwheel_runtime::Timer;

use super::actor::{Answer, AFTER_STORE_FAILURE};
use super::decide::Effect;
use super::growth::size;
use super::message::{Committed, WriteAgain};
use super::row::row_with;
use super::PlanActor;
use crate::error::StoreError;
use crate::id::PlanId;
use crate::journal::{encode, EntryOutcome, NewEntry, NotWritten, Tally};
use crate::plan::{Children, Plan, PlanState, Record};
use crate::store::{Append, PlanRow, Verdict};
use crate::world::Undelivered;

/// An entry that was handed to the journal and is not durable.
#[derive(Default)]
pub(super) struct UnderWay {
    /// Effects to carry out then.
    effects: Vec<Effect>,
    answers: Vec<Answer>,
    /// The entry, if the journal has given it back.
    refused: Option<Box<NewEntry>>,
    /// Number of times that it was returned.
    pub(super) tries: u32,
    /// Whether it carries out an order, and no call has ended with it.
    pub(super) is_order: bool,
    /// Its bytes.
    bytes: usize,
    /// The plan as of the entry, if it is time for a snapshot.
    whole: Option<Vec<u8>>,
    again: Option<Timer>,
}

impl Handler<Committed> for PlanActor {
    type Reply = ();

    fn handle(&mut self, Committed(outcome): Committed, cx: &mut Context<'_, Self>) {
        let Some(mut under_way) = self.under_way.take() else { return };
        let outcome = match outcome {
            EntryOutcome::Written(seq) => Ok(Verdict::Written(seq)),
            EntryOutcome::Refused(verdict) => match *verdict {
                Verdict::Moved { owner: newest, .. } => {
                    let error = StoreError::Fenced { epoch: self.world.epoch(), newest };
                    return self.moved_away(under_way, error, cx);
                }
                verdict => Ok(verdict),
            },
            EntryOutcome::NotWritten(refused) => return self.not_written(under_way, *refused, cx),
            EntryOutcome::Unknown(error) => return self.not_known(under_way, &error),
        };
        std::mem::take(&mut under_way.answers).into_iter().for_each(|answer| answer(&outcome));
        match outcome {
            Ok(Verdict::Written(seq)) => {
                self.head = seq;
                self.growth.add(under_way.bytes);
                if let Some(whole) = under_way.whole {
                    self.growth.restart(&whole);
                    self.snapshot = Some((seq, whole));
                }
                self.pages_are(|children| children.written(seq));
                self.beginning = None;
                self.note_trouble(None);
                self.note_left_behind();
                self.tell_plugin();
                self.give_locks_back();
                self.carry_out(under_way.effects, cx);
                self.settle(cx);
                self.tell_watchers();
            }
            Ok(Verdict::LockTaken { .. }) => {
                for answer in std::mem::take(&mut self.answers) {
                    answer(&outcome);
                }
                self.lost_lock(cx);
            }
            // Its key is taken: there is no such plan. Other verdicts are for changes, not for entries.
            _ => self.forget(cx),
        }
    }
}

impl Handler<WriteAgain> for PlanActor {
    type Reply = ();

    fn handle(&mut self, WriteAgain: WriteAgain, cx: &mut Context<'_, Self>) {
        self.write_again(cx);
    }
}

impl PlanActor {
    /// The store has failed: the decided records are kept, and handed over again. A plan that was
    /// to be triggered is refused instead, and a plan that another world owns by now is left to
    /// that world.
    fn not_written(
        &mut self,
        mut under_way: UnderWay,
        refused: NotWritten,
        cx: &mut Context<'_, Self>,
    ) {
        let NotWritten { error, is_unencodable, entry } = refused;
        let is_asked_for = self.plan.as_ref().is_some_and(|plan| plan.created.caller.is_some());
        let is_refused = self.head == 0 && !is_asked_for;
        if is_refused || matches!(error, StoreError::Fenced { .. }) || !self.world.owns(self.id) {
            return self.moved_away(under_way, error, cx);
        }
        self.note_trouble(Some(&error));
        under_way.tries += 1;
        if is_unencodable && under_way.is_given_up() {
            return self.give_up(under_way, error, cx);
        }
        under_way.refused = Some(entry);
        if under_way.tries > 1 {
            // Once may be an accident; from now on callers are told.
            self.answer_all(&mut under_way, &error);
        }
        match under_way.tries {
            1 => {
                self.under_way = Some(under_way);
                self.write_again(cx);
            }
            tries => {
                match cx.tell_after(pause(tries), WriteAgain) {
                    Ok(timer) => under_way.again = Some(timer),
                    Err(error) => tracing::error!(plan = %self.id, %error, "an entry waits"),
                }
                self.under_way = Some(under_way);
            }
        }
        self.settle(cx);
    }

    /// The store does not say whether the entry is written: it stays under way, and callers do not
    /// wait for it any longer.
    fn not_known(&mut self, mut under_way: UnderWay, error: &StoreError) {
        self.note_trouble(Some(error));
        self.answer_all(&mut under_way, error);
        self.under_way = Some(under_way);
    }

    /// Tells everybody who waits for the entry, or for later decisions, that the store fails.
    pub(super) fn answer_all(&mut self, under_way: &mut UnderWay, error: &StoreError) {
        let (now, later) = (&mut under_way.answers, &mut self.answers);
        for answer in std::mem::take(now).into_iter().chain(std::mem::take(later)) {
            answer(&Err(error.clone()));
        }
    }

    /// Decisions made here do not count.
    fn moved_away(
        &mut self,
        mut under_way: UnderWay,
        error: StoreError,
        cx: &mut Context<'_, Self>,
    ) {
        self.answer_all(&mut under_way, &error);
        if self.head > 0 && self.world.owns(self.id) {
            self.world.wakes().set(self.id, self.world.now().after(AFTER_STORE_FAILURE));
        }
        self.forget(cx);
    }

    /// Hands over an entry that was given back, if there is one.
    pub(super) fn write_again(&mut self, cx: &mut Context<'_, Self>) {
        let Some(under_way) = &mut self.under_way else { return };
        let Some(entry) = under_way.refused.take() else { return };
        if let Some(timer) = under_way.again.take() {
            timer.cancel();
        }
        self.hand_over(*entry, cx);
    }

    fn hand_over(&self, entry: NewEntry, cx: &mut Context<'_, Self>) {
        let myself = cx.myself();
        let ticket = Box::new(move |outcome| {
            if myself.tell(Committed(outcome)).is_err() {
                tracing::debug!("a plan's actor ended before its entry was durable");
            }
        });
        self.world.journal().append(entry, ticket, self.world.delivery());
    }

    /// Views of the plan say that the store fails.
    pub(super) fn note_trouble(&mut self, error: Option<&StoreError>) {
        let Some(plan) = &mut self.plan else { return };
        let trouble = error.map(ToString::to_string);
        if trouble.is_some() || plan.trouble.is_some() {
            self.world.unwritten().note(self.id, trouble.clone());
            Arc::make_mut(plan).trouble = trouble;
        }
    }

    /// Tells the pages of sub-plans how far their entry is, if there are new ones.
    fn pages_are(&mut self, tell: impl FnOnce(&mut Children)) {
        let plan = self.plan.as_mut().filter(|plan| plan.children.pages().are_open());
        if let Some(plan) = plan {
            tell(&mut Arc::make_mut(plan).children);
        }
    }

    /// Whether nothing of it is on its way to the journal.
    pub(super) fn is_settled(&self) -> bool {
        self.under_way.is_none() && self.records.is_empty()
    }

    /// Hands over what was decided, as one entry.
    pub(super) fn append(&mut self, cx: &mut Context<'_, Self>) {
        if self.beats.due().is_some() {
            self.take_beats();
        }
        self.note_hooks();
        let (take, release) = self.locking();
        let (follow, unfollow) = self.following();
        self.pages_are(Children::hand_over);
        let Some(plan) = &self.plan else { return };
        let whole = self.snapshot_with(plan, &self.records);
        let tally = Tally::of(&self.records, plan.result());
        let is_order = !self.records.iter().any(|it| matches!(it, Record::Ended { .. }));
        let append = Append {
            plan: self.id,
            prev: self.head,
            epoch: self.epoch,
            records: encode(&self.records),
            key: self.key.take(),
            take,
            release,
            follow,
            unfollow,
        };
        self.records.clear();
        let bytes = size(&append.records);
        let row = PlanRow { snapshot: self.snapshot.take(), ..row_with(plan, &mut self.names) };
        let effects = self.take_effects();
        let answers = std::mem::take(&mut self.answers);
        let is_order = is_order && !answers.is_empty();
        let rest = UnderWay::default();
        self.under_way = Some(UnderWay { effects, answers, is_order, bytes, whole, ..rest });
        self.hand_over(NewEntry { append, row, tally }, cx);
    }

    /// The plans that it waits for since this entry, and those that it waits for no more.
    fn following(&mut self) -> (Vec<PlanId>, Vec<PlanId>) {
        let waits = |plan: &&Plan| plan.state == PlanState::Scheduled;
        let now =
            self.plan.as_deref().filter(waits).map_or_else(Vec::new, Plan::open_prerequisites);
        if now == self.followed {
            return (Vec::new(), Vec::new());
        }
        let before = std::mem::replace(&mut self.followed, now);
        let of = |all: &[PlanId], not: &[PlanId]| {
            all.iter().copied().filter(|plan| !not.contains(plan)).collect()
        };
        (of(&self.followed, &before), of(&before, &self.followed))
    }

    /// The plan was read: sets the plans that it follows, as the store has them.
    pub(super) fn know_followed(&mut self, plan: &Plan) {
        let followers = self.world.journal().followers();
        let stored = |before: &PlanId| followers.has(*before, self.id);
        self.followed = plan.open_prerequisites().into_iter().filter(stored).collect();
    }

    /// Tells the plugin of the world that an entry is durable.
    fn tell_plugin(&self) {
        if let (Some(plugin), Some(plan)) = (self.world.plugin(), &self.plan) {
            plugin.written(plan);
        }
    }

    /// Events that steps have left behind are dead letters.
    fn note_left_behind(&mut self) {
        let plan = self.plan.as_mut().filter(|plan| plan.has_left_behind());
        let Some(plan) = plan.map(Arc::make_mut) else { return };
        for (step, event) in plan.take_left_behind() {
            let (id, payload) = (event.id, event.payload);
            let reason = format!("step {step} ended before it took the event");
            let letter = Undelivered { plan: self.id, step, id, payload, reason };
            self.world.letters().add(self.world.now(), letter);
        }
    }
}

/// Pause of an entry after so many returns. The store is tried often enough that plans continue
/// soon after its recovery.
fn pause(tries: u32) -> Duration {
    const FIRST: Duration = Duration::from_millis(50);
    FIRST.saturating_mul(1 << tries.min(8)).min(AFTER_STORE_FAILURE)
}

//! An entry of a plan: what was decided goes to the journal, and is carried out when it is durable.

use turnwheel_actors::{Context, Handler};

use super::actor::AFTER_STORE_FAILURE;
use super::message::Committed;
use super::{row, PlanActor};
use crate::journal::{encode, Tally};
use crate::store::{Append, Verdict};
use crate::world::Undelivered;

impl Handler<Committed> for PlanActor {
    type Reply = ();

    fn handle(&mut self, Committed(outcome): Committed, cx: &mut Context<'_, Self>) {
        let Some((effects, answers)) = self.under_way.take() else { return };
        let outcome = self.judged(outcome);
        for answer in answers {
            answer(&outcome);
        }
        match outcome {
            Ok(Verdict::Written(seq)) => {
                self.head = seq;
                self.entries += 1;
                self.beginning = None;
                self.note_left_behind();
                self.give_locks_back();
                self.carry_out(effects, cx);
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
            Ok(_) => self.forget(cx),
            Err(error) => {
                for answer in std::mem::take(&mut self.answers) {
                    answer(&Err(error.clone()));
                }
                let again = self.world.now().after(AFTER_STORE_FAILURE);
                if self.head > 0 && self.world.owns(self.id) {
                    self.world.wakes().set(self.id, again);
                }
                self.forget(cx);
            }
        }
    }
}

impl PlanActor {
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
        let Some(plan) = &self.plan else { return };
        let tally = Tally::of(&self.records, plan.result());
        let records = encode(&std::mem::take(&mut self.records));
        let epoch = self.world.epoch();
        let key = self.key.take();
        let append = Append { plan: self.id, prev: self.head, epoch, records, key, take, release };
        let row = row(plan);
        let effects = std::mem::take(&mut self.effects);
        self.under_way = Some((effects, std::mem::take(&mut self.answers)));
        let myself = cx.myself();
        let ticket = Box::new(move |outcome| {
            if myself.tell(Committed(outcome)).is_err() {
                tracing::debug!("a plan's actor ended before its entry was durable");
            }
        });
        self.world.journal().append(append, row, tally, ticket);
    }

    /// Events that steps have left behind are dead letters.
    fn note_left_behind(&mut self) {
        let Some(plan) = &mut self.plan else { return };
        for (step, event) in plan.take_left_behind() {
            let (id, payload) = (event.id, event.payload);
            let reason = format!("step {step} ended before it took the event");
            let letter = Undelivered { plan: self.id, step, id, payload, reason };
            self.world.letters().add(self.world.now(), letter);
        }
    }
}

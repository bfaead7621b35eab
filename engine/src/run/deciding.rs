//! Decisions of a plan's actor, and what it tells the clock of them.

use std::sync::Arc;

use super::decide::{Decisions, Effect};
use super::pages::Paging;
use super::PlanActor;
use crate::plan::Record;
use crate::time::Time;

impl PlanActor {
    /// Decided records that are not handed to the journal yet.
    pub(super) fn decided(&self) -> &[Record] {
        &self.records
    }

    pub(super) fn decisions(&mut self) -> Option<Decisions<'_>> {
        let plan = Arc::make_mut(self.plan.as_mut()?);
        let (now, clock) = (self.world.now(), self.world.clock());
        let is_rescuing = self.world.is_rescuing();
        let (records, effects) = (&mut self.records, &mut self.effects);
        let registry = self.world.registry();
        let locks = &**self.world.journal().locks();
        // Nobody could give signs of life before: there was no world, or the machine slept.
        let alive_since = self.world.began().max(clock.followed());
        let mut decisions =
            Decisions { plan, now, alive_since, registry, is_rescuing, locks, records, effects };
        decisions.move_dues(clock.take_moves(self.id));
        Some(decisions)
    }

    /// Takes the decided effects; room for the next ones is there.
    pub(super) fn take_effects(&mut self) -> Vec<Effect> {
        let spare = std::mem::take(&mut self.spare_effects);
        std::mem::replace(&mut self.effects, spare)
    }

    /// Drops decisions that are not durable.
    pub(super) fn forget_decisions(&mut self) {
        // If it was never stored, nobody must wait for it; else it asks again when it is read.
        self.leave_locks();
        self.note_trouble(None);
        self.plan = None;
        self.records.clear();
        self.effects.clear();
        self.waiting.clear();
        self.places.clear();
        self.followed.clear();
        self.paging = Paging::default();
        self.holds_locks = false;
    }

    /// Tells the clock what was timed, if it is in doubt.
    pub(super) fn note_times(&self) {
        let clock = self.world.clock();
        let Some(plan) = self.plan.as_ref().filter(|_| clock.is_in_doubt()) else { return };
        let dues = self.records.iter().flat_map(|record| plan.dues_of(record)).flatten();
        let dues: Vec<Time> = dues.collect();
        if !dues.is_empty() {
            clock.timed(self.id, dues);
        }
    }
}

//! Sub-plans that nobody waits for any more, because their step was dropped or their plan was
//! cancelled: they are told to end until they are over.

use std::collections::BTreeSet;

use super::{Children, PlanResult};
use crate::id::{PlanId, StepId};

impl Children {
    /// Nobody waits for the plans of a step any more: those that have begun are to end, the others
    /// are not made.
    pub(super) fn give_up(&mut self, step: StepId) {
        self.dropped(step, PlanResult::Cancelled);
        if let Some(open) = self.open.remove(&step) {
            self.fresh.retain(|plan| !open.begun.contains(plan));
            self.unwanted.extend(open.begun);
        }
        self.told(step);
    }

    /// The same for all steps.
    pub(super) fn give_up_all(&mut self) {
        let steps: Vec<StepId> = self.open.keys().copied().collect();
        steps.into_iter().for_each(|step| self.give_up(step));
    }

    /// Plans that have begun, that nobody waits for any more, and that are not over.
    pub(crate) fn unwanted(&self) -> &BTreeSet<PlanId> {
        &self.unwanted
    }
}

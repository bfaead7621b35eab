//! Steps that wait for places in queues.

use std::collections::BTreeSet;

use super::apply::Inconsistent;
use super::state::{PlanState, StepState};
use super::Plan;
use crate::id::StepId;
use crate::time::Time;

impl Plan {
    /// Whether the code of this step runs, or is about to; not if it waits for a place.
    pub(crate) fn runs(&self, id: StepId) -> bool {
        let step = self.step(id);
        matches!(step.state, StepState::Running | StepState::Reverting) && !step.is_queued
    }

    /// Whether the plan has to hold its locks: it runs, or code of it does although it is paused.
    pub(crate) fn needs_locks(&self) -> bool {
        match self.state {
            PlanState::Running => true,
            PlanState::Paused => {
                let busy = self.counts.of(&[StepState::Running, StepState::Reverting]);
                busy as usize > self.queued.len()
            }
            _ => false,
        }
    }

    /// The steps that wait for places in queues.
    pub(crate) fn queued(&self) -> &BTreeSet<StepId> {
        &self.queued
    }

    /// Awaited place, for people, if all active steps wait for places.
    pub(super) fn waits_for_place(&self) -> Option<&str> {
        let busy = self.counts.of(&[StepState::Running, StepState::Reverting]) as usize;
        let first = self.queued.first().filter(|_| busy == self.queued.len())?;
        Some(&self.step(*first).waits_for)
    }

    /// A step that runs waits for a place in a queue, or has got it.
    pub(super) fn place(
        &mut self,
        id: StepId,
        at: Time,
        queue: Option<&String>,
    ) -> Result<(), Inconsistent> {
        self.known(id)?;
        self.clear_alarm(id);
        let step = &mut self.steps[id.index()];
        let runs = matches!(step.state, StepState::Running | StepState::Reverting);
        if !runs || step.is_queued == queue.is_some() {
            let problem = format!("step {id} gets or leaves a queue out of turn");
            return Err(self.wrong(&problem));
        }
        match queue {
            Some(queue) => {
                step.is_queued = true;
                step.waits_for = format!("a place in queue «{queue}»");
                self.queued.insert(id);
            }
            None => {
                step.is_queued = false;
                step.beat.iter_mut().for_each(|beat| beat.at = at);
                self.left_queue(id);
            }
        }
        self.set_alarm(id);
        Ok(())
    }

    /// A step waits for no place any more.
    pub(super) fn left_queue(&mut self, id: StepId) {
        self.queued.remove(&id);
        let step = &mut self.steps[id.index()];
        if step.state != StepState::Suspended {
            step.waits_for.clear();
        }
    }
}

//! Plans that begin anew: the next run replaces the finished one, as part of [`Plan::apply`].
//!
//! The plan keeps its id, its key, its labels, its locks, its caller, its followers and its output
//! stream: several runs look like one from outside. Data that grows with the work is dropped:
//! actions, steps, their outputs and their sub-plans, but for those that are still to be told to
//! end.

use std::mem::take;

use super::apply::Inconsistent;
use super::record::Planned;
use super::step::Step;
use super::{Flow, Plan, PlanState, StepState};
use crate::id::StepId;
use crate::time::Time;

impl Plan {
    pub(super) fn continued_as_new(
        &mut self,
        at: Time,
        run: u32,
        planned: &Planned,
    ) -> Result<(), Inconsistent> {
        if self.state != PlanState::Running || run != self.run_number + 1 {
            return Err(self.wrong("it continues as new and was not about to"));
        }
        let (before, actions) = (take(&mut self.steps), take(&mut self.actions));
        let (locks, started_at) = (take(&mut self.locks), self.started_at);
        self.note(at, format!("run {} is over, continued as run {run}", self.run_number));
        self.run_number = run;
        self.continues = None;
        self.run = Flow::empty();
        self.finalize.clear();
        self.timers.clear();
        self.promises.clear();
        let before_it = take(&mut self.children);
        self.children.unwanted = before_it.unwanted;
        self.delayed = None;
        self.last_order = 0;
        self.planned(planned)?;
        // The locks are those of the first run, and the plan began with that.
        (self.locks, self.started_at) = (locks, started_at);
        for old in before {
            let name = &actions[old.action.index()].name;
            let is_same = |step: &&mut Step| {
                old.kind == step.kind && self.actions[step.action.index()].name == *name
            };
            let mut step = self.steps.get_mut(old.id.index());
            if let Some(step) = &mut step {
                // A call of the run before that returns late must not be taken for one of this run.
                (step.calls, step.calls_before) = (old.calls, old.calls);
            }
            match step.filter(is_same) {
                // An event that is repeated over the border of two runs is dropped too.
                Some(step) => (step.seen, step.inbox) = (old.seen, old.inbox),
                None => {
                    self.left_behind.extend(old.inbox.into_iter().map(|event| (old.id, event)));
                }
            }
        }
        Ok(())
    }

    /// A step is over in this state. Events from outside that it has not taken are for the same
    /// step of the next run, or nobody's.
    pub(super) fn keep_or_leave(&mut self, id: StepId, state: StepState) {
        if self.continues.is_none() || state != StepState::Success {
            return self.leave_behind(id);
        }
        let step = &mut self.steps[id.index()];
        step.in_event = false;
        step.inbox.retain(|event| !event.is_own);
    }

    /// Whether a step is over and its next run takes events that come now.
    pub(crate) fn is_between_runs(&self, step: &Step) -> bool {
        step.state == StepState::Success && self.continues.is_some() && self.cancel.is_none()
    }
}

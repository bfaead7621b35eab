//! Plans that begin anew: one run is over, and the next one has its place, as part of
//! [`Plan::apply`].
//!
//! The plan keeps its id, its key, its labels, its locks, its caller, its followers and its output
//! stream: nobody outside has to know that there were several runs. What grows with the work that
//! was done does not go over: actions, steps, their outputs and the plans that they had asked for.

use std::mem::take;

use super::apply::Inconsistent;
use super::record::Planned;
use super::step::Step;
use super::{Children, Flow, Plan, PlanState};
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
        self.children = Children::default();
        self.delayed = None;
        self.last_order = 0;
        self.planned(planned)?;
        // The locks are those of the first run, and the plan began with that.
        (self.locks, self.started_at) = (locks, started_at);
        for step in &mut self.steps {
            let name = &self.actions[step.action.index()].name;
            let is_same =
                |old: &&Step| old.kind == step.kind && actions[old.action.index()].name == *name;
            if let Some(old) = before.get(step.id.index()).filter(is_same) {
                // An event that is repeated over the border of two runs is dropped too.
                step.seen = old.seen.clone();
            }
            // A call of the run before that returns late must not be taken for one of this run.
            let calls = before.get(step.id.index()).map_or(0, |old| old.calls);
            (step.calls, step.calls_before) = (calls, calls);
        }
        Ok(())
    }
}

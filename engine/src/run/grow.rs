//! Steps that ask for steps of the same plan.

use super::decide::Decisions;
use crate::action::Part;
use crate::error::{ActionError, UNKNOWN_ACTION};
use crate::id::StepId;
use crate::limits::STEPS_MAX;
use crate::plan::{End, GrownStep, Record, StepState};

impl Decisions<'_> {
    /// A step drops steps that it has asked for. One that has failed for it keeps its error, and is
    /// dropped all the same: the plan goes on without it.
    pub(super) fn drop_asked(&mut self, asker: StepId, drops: Vec<(u32, Option<ActionError>)>) {
        for (part, error) in drops {
            let open = self.plan.open_parts(asker, Some(part));
            let first = open.first().map(|step| (*step, self.plan.step(*step).state));
            let is_begun = [StepState::Running, StepState::Suspended];
            match (first, error) {
                (Some((step, state)), Some(error)) if is_begun.contains(&state) => {
                    let end = End::Failed(error);
                    self.record(Record::Ended { step, at: self.now, ran_us: 0, end, output: None });
                }
                _ => {}
            }
            self.mark(open, StepState::Dropped, "no longer wanted");
        }
    }

    /// A step that is suspended now asks for others.
    pub(super) fn ask_for_parts(&mut self, asker: StepId, parts: Vec<Part>) {
        if parts.is_empty() || self.plan.cancel.is_some() {
            return;
        }
        match self.grown(asker, parts) {
            Ok(steps) => self.record(Record::Grown { at: self.now, asker, steps }),
            Err(error) => self.fail_suspended(asker, error),
        }
    }

    fn grown(&self, asker: StepId, parts: Vec<Part>) -> Result<Vec<GrownStep>, ActionError> {
        if self.plan.steps.len() + parts.len() > STEPS_MAX {
            let message = format!("the plan would have more than {STEPS_MAX} steps");
            return Err(ActionError::new("too_many_steps", message).and_final());
        }
        let inherited = &self.plan.step(asker).queue;
        let grown = parts.into_iter().map(|part| {
            let Some(action) = self.registry.find(part.action) else {
                let message = format!("no action «{}» is registered with this world", part.action);
                return Err(ActionError::new(UNKNOWN_ACTION, message).and_final());
            };
            Ok(GrownStep {
                tag: part.tag,
                name: part.action.to_owned(),
                version: action.version(),
                input: part.input,
                weight: action.run_weight(),
                queue: action.queue().map_or_else(|| inherited.clone(), str::to_owned),
            })
        });
        grown.collect()
    }

    fn fail_suspended(&mut self, step: StepId, error: ActionError) {
        let end = End::Failed(error);
        self.record(Record::Ended { step, at: self.now, ran_us: 0, end, output: None });
        self.part_ended(step);
    }

    /// The work was reverted: steps that wait for failed parts of theirs have failed too.
    pub(super) fn give_up_waiting(&mut self) {
        for step in self.plan.in_state(StepState::Suspended) {
            let message = "a step that it has asked for has failed";
            self.fail_suspended(step, ActionError::new("part", message).and_final());
        }
    }

    /// Steps begin again: their former parts are dropped.
    pub(super) fn drop_parts_of(&mut self, steps: &[StepId]) {
        let left = self.plan.parts_left_by(steps);
        self.mark(left, StepState::Dropped, "the step that has asked for it begins again");
    }

    /// An attempt of a step is over: its parts are dropped unless the next attempt goes on with
    /// them, and the step that added it is notified.
    pub(super) fn part_ended(&mut self, id: StepId) {
        let step = self.plan.step(id);
        if step.state == StepState::Retrying && self.plan.begins_anew(id) {
            self.drop_parts_of(&[id]);
        } else if !step.state.is_live() {
            let open = self.plan.open_parts(id, None);
            self.mark(open, StepState::Dropped, "no longer wanted");
        }
        if let Some(asker) = self.plan.asker_of(id) {
            self.take_event(asker);
        }
    }
}

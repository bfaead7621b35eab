//! Changes of an action's input in a paused plan.
//!
//! A new input is checked against its action before it is accepted: an error for the editor is
//! better than a failure of the step hours later. Values that are unknown then are left to the
//! step: targets of open references, and inputs of actions that this world does not know.

use super::decide::Decisions;
use super::refusal::Refusal;
use crate::error::ActionError;
use crate::id::ActionId;
use crate::payload::Payload;
use crate::plan::{needs_of, resolve, ActionData, Record, StepKind, StepState};

impl Decisions<'_> {
    pub(super) fn edit_input(
        &mut self,
        action: ActionId,
        input: Payload,
        by: &str,
    ) -> Result<(), Refusal> {
        self.paused("have an input edited")?;
        let known = action.0 > 0 && self.plan.actions.len() > action.index();
        if !known {
            return Err(format!("it has no action {action}").into());
        }
        let data = self.plan.action(action);
        let input = self.as_stored(data, input).and_then(|input| {
            self.fits(data, &input)?;
            Ok(input)
        });
        let input = input.map_err(|problem| {
            let (name, step) = (data.name.clone(), data.run_step);
            Refusal::Input { action, name, step, problem }
        })?;
        let by = by.to_owned();
        self.record(Record::InputEdited { at: self.now, action, input, by });
        Ok(())
    }

    /// An input in the form in which its action shows it, as it is stored.
    fn as_stored(&self, data: &ActionData, input: Payload) -> Result<Payload, String> {
        match self.registry.find(&data.name) {
            Some(known) => known.edited(&data.input, input).map_err(|error| error.message),
            None => Ok(input),
        }
    }

    /// Whether an input is one of an action, as far as that can be known before its step runs.
    fn fits(&self, data: &ActionData, input: &Payload) -> Result<(), String> {
        let needs = needs_of(input);
        let after = match data.run_step {
            Some(own) if !needs.is_empty() => self.plan.after(own),
            _ => Vec::new(),
        };
        for place in &needs {
            let step = self.plan.find_step(place.step);
            if place.plan != self.plan.id || step.is_none_or(|step| step.kind != StepKind::Run) {
                return Err("it refers to an output that is not of this plan".to_owned());
            }
            if after.contains(&place.step) {
                let step = place.step;
                return Err(format!("it refers to the output of step {step}, which waits for it"));
            }
        }
        let Some(known) = self.registry.find(&data.name) else { return Ok(()) };
        let is_there = |step| self.plan.step(step).state == StepState::Success;
        let resolved = if !needs.is_empty() && needs.iter().all(|place| is_there(place.step)) {
            let output = |step| Some(&self.plan.action(self.plan.find_step(step)?.action).output);
            Some(resolve(&data.name, input, output).map_err(|error| error.message)?)
        } else {
            None
        };
        let input = resolved.as_ref().unwrap_or(input);
        // An action planned by an older version is edited in the form of that version, and migrated
        // with its output before the step is called.
        let nothing = Payload::null();
        let output = if data.version == known.version() { &nothing } else { &data.output };
        let fits = known.check(data.version, input, output);
        fits.map_err(|ActionError { message, .. }| format!("it does not fit: {message}"))
    }
}

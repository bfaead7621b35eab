//! Promises: steps that wait for them, and their completion.

use super::decide::Decisions;
use crate::action::Wishes;
use crate::id::StepId;
use crate::payload::Payload;
use crate::plan::{label_of, PlanState, Promised, Record};

impl Decisions<'_> {
    /// A step waits for promises from now on.
    pub(super) fn wait_for_promises(&mut self, step: StepId, promises: Vec<(String, String)>) {
        for (name, key) in promises {
            let id = Some(label_of(&name, &key));
            let is_given = self.plan.step(step).inbox.iter().any(|event| event.id == id);
            if !is_given && self.plan.waits_for_promise(&name, &key) != Some(step) {
                let promised = Promised { at: self.now, step, name, key, given: None };
                self.record(Record::Promised(Box::new(promised)));
            }
        }
    }

    /// A promise that a call wants to wait for and another step of the plan does.
    pub(super) fn taken_promise(&self, step: StepId, wishes: &Wishes) -> Option<String> {
        let is_taken = |(name, key): &&(String, String)| {
            self.plan.waits_for_promise(name, key).is_some_and(|waiting| waiting != step)
        };
        let (name, key) = wishes.promises.iter().find(is_taken)?;
        Some(format!("another step of the plan waits for the promise «{name}» of «{key}»"))
    }

    /// Somebody completes a promise.
    pub(super) fn complete(
        &mut self,
        name: String,
        key: String,
        payload: Payload,
        by: &str,
    ) -> Result<(), String> {
        let step = self.plan.waits_for_promise(&name, &key);
        let Some(step) = step.filter(|_| self.plan.state != PlanState::Stopped) else {
            return Err(format!(
                "nothing of it waits for the promise «{name}» of «{key}» any more"
            ));
        };
        let checked = self.action_of(step).map_or(Ok(()), |action| action.check_event(&payload));
        if let Err(refused) = checked {
            return Err(format!("its step {step} does not take the value: {}", refused.message));
        }
        let given = Some((payload, by.to_owned()));
        let promised = Promised { at: self.now, step, name, key, given };
        self.record(Record::Promised(Box::new(promised)));
        self.take_event(step);
        Ok(())
    }
}

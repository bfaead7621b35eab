//! Effect of timers on a plan, as part of [`Plan::apply`].

use super::apply::Inconsistent;
use super::state::StepState;
use super::step::{Event, PlanTimer};
use super::Plan;
use crate::id::StepId;
use crate::payload::Payload;
use crate::time::Time;

impl Plan {
    pub(super) fn set_timer(&mut self, timer: u32, step: StepId, due: Time, payload: &Payload) {
        self.timers.insert(timer, PlanTimer { step, due, payload: payload.clone() });
        self.last_timer = self.last_timer.max(timer);
    }

    pub(super) fn timer_fired(&mut self, timer: u32, at: Time) -> Result<(), Inconsistent> {
        let Some(PlanTimer { step, payload, .. }) = self.timers.remove(&timer) else {
            return Err(self.wrong("a timer fires that was not set"));
        };
        let id = self.timer_names.remove(&timer);
        let step = self.known(step)?;
        // An interrupted step is about to be called again, and takes its events then.
        let takes = [StepState::Suspended, StepState::Running, StepState::Retrying];
        if takes.contains(&step.state) {
            step.inbox.push_back(Event { id, payload, at, is_own: true });
        }
        Ok(())
    }

    /// The timer of this name is this one from now on, or none.
    pub(super) fn name_timer(
        &mut self,
        step: StepId,
        name: &str,
        set: Option<&(u32, Time, Payload)>,
    ) {
        if let Some(timer) = self.timer_of(step, name) {
            self.timers.remove(&timer);
        }
        let timers = &self.timers;
        self.timer_names.retain(|timer, _| timers.contains_key(timer));
        let step_data = &mut self.steps[step.index()];
        // The first one is handled by the call that is under way, or about to be repeated.
        let mut is_handled = step_data.in_event;
        step_data.inbox.retain(|event| {
            std::mem::take(&mut is_handled) || !(event.is_own && event.id.as_deref() == Some(name))
        });
        if let Some((timer, due, payload)) = set {
            self.set_timer(*timer, step, *due, payload);
            self.timer_names.insert(*timer, name.to_owned());
        }
    }

    /// The timer of a step with this name.
    pub(crate) fn timer_of(&self, step: StepId, name: &str) -> Option<u32> {
        let is_its = |timer: &u32| self.timers.get(timer).is_some_and(|timer| timer.step == step);
        let mut named = self.timer_names.iter().filter(|(_, known)| *known == name);
        named.find(|(timer, _)| is_its(timer)).map(|(timer, _)| *timer)
    }

    /// The name of a timer, if its step has given it one.
    pub fn timer_name(&self, timer: u32) -> Option<&str> {
        self.timer_names.get(&timer).map(String::as_str)
    }
}

//! Timers of steps: named ones are moved and cancelled, by their step or by an order.

use super::decide::Decisions;
use crate::action::Wishes;
use crate::id::StepId;
use crate::payload::Payload;
use crate::plan::{PlanState, PlanTimer, Record};
use crate::time::Time;

impl Decisions<'_> {
    /// Nothing comes any more that a step has asked for by time.
    pub(super) fn forget_timers(&mut self, id: StepId) {
        let of_step = |(timer, it): (&u32, &PlanTimer)| (it.step == id).then_some(*timer);
        let timers: Vec<u32> = self.plan.timers.iter().filter_map(of_step).collect();
        timers.into_iter().for_each(|timer| self.record(Record::TimerCancelled { timer }));
    }

    /// Sets the timer of a name, or cancels it.
    pub(super) fn name_timer(&mut self, step: StepId, name: String, due: Option<(Time, Payload)>) {
        let number = self.plan.last_timer + 1;
        let set = due.map(|(due, payload)| (number, due, payload));
        self.record(Record::TimerNamed { step, name, set });
    }

    /// Whether a timer of the step is set when the commands of its call are carried out.
    pub(super) fn will_have_timer(&self, id: StepId, wishes: &Wishes) -> bool {
        let newest = |name: &str| {
            let mut commands = wishes.named_timers.iter().rev();
            commands.find(|(named, _)| named == name).map(|(_, due)| due.is_some())
        };
        let stays = |(timer, it): (&u32, &PlanTimer)| {
            it.step == id && self.plan.timer_name(*timer).is_none_or(|name| newest(name).is_none())
        };
        !wishes.timers.is_empty()
            || (!wishes.only_timers && self.plan.timers.iter().any(stays))
            || wishes.named_timers.iter().any(|(name, _)| newest(name) == Some(true))
    }

    /// Somebody moves the timer of a step, or cancels it.
    pub(super) fn change_timer(
        &mut self,
        step: StepId,
        name: String,
        due: Option<Time>,
        by: &str,
    ) -> Result<(), String> {
        let timer = self.plan.timer_of(step, &name);
        let timer = timer.and_then(|timer| self.plan.timers.get(&timer)).cloned();
        let Some(timer) = timer.filter(|_| self.plan.state != PlanState::Stopped) else {
            return Err(format!("its step {step} has no timer «{name}»"));
        };
        let done = due.map_or("cancelled".to_owned(), |due| format!("moved to {due}"));
        let text = format!("timer «{name}» of step {step} {done} by {by}");
        self.name_timer(step, name, due.map(|due| (due, timer.payload)));
        self.record(Record::Note { at: self.now, text });
        Ok(())
    }
}

//! The timer of a plan's actor.

use turnwheel_actors::Context;

use super::message::Wake;
use super::PlanActor;
use crate::limits::{CLOCK_CHECK, PLAN_IDLE};
use crate::plan::{Plan, Waiting};

impl PlanActor {
    /// Whether nothing is to be expected soon and memory has many plans: this one need not stay.
    pub(super) fn sleeps(&self, plan: &Plan) -> bool {
        if !self.world.crowd().is_large() || self.beats.due().is_some() {
            return false;
        }
        let soon = self.world.now().after(PLAN_IDLE);
        let is_still = matches!(
            plan.waiting(),
            Waiting::Timer | Waiting::Event | Waiting::Time | Waiting::Permission | Waiting::Retry
        );
        is_still && plan.wakes_at().is_none_or(|at| at > soon)
    }

    /// Arms the timer for what the plan has to do by itself.
    pub(super) fn arm(&mut self, cx: &mut Context<'_, Self>) {
        let wakes_at = self.plan.as_deref().and_then(Plan::wakes_at);
        let Some(at) = wakes_at.into_iter().chain(self.beats.due()).min() else { return };
        if self.is_planning {
            return;
        }
        // Due work was decided already, and is checked again when its entry is durable. Waking at
        // once until then would be a busy loop while the store fails.
        if self.under_way.is_some() && at <= self.world.now() {
            return;
        }
        if self.armed.as_ref().is_some_and(|(armed, _)| *armed == at) {
            return;
        }
        if let Some((_, timer)) = self.armed.take() {
            timer.cancel();
        }
        // The clock may be set: it is checked again before a long time is over.
        match cx.tell_after(at.since(self.world.now()).min(CLOCK_CHECK), Wake) {
            Ok(timer) => self.armed = Some((at, timer)),
            Err(error) => {
                tracing::warn!(plan = %self.id, %error, "a plan's timer goes to the calendar");
                self.world.wakes().set(self.id, at);
            }
        }
    }
}

//! The end of a call: consequence of a step's result.

use super::decide::Decisions;
use crate::action::{AnyAction, Cause, Next, Wishes};
use crate::error::{cut, ActionError};
use crate::id::StepId;
use crate::limits::REASON_BYTES_MAX;
use crate::plan::{End, Step, StepKind, StepState};

impl Decisions<'_> {
    /// The end of a call that has returned this.
    pub(super) fn end_of(
        &self,
        id: StepId,
        result: Result<Next, ActionError>,
        wishes: &Wishes,
        is_called: bool,
    ) -> End {
        let step = self.plan.step(id);
        let may_wait = step.kind == StepKind::Run && step.state != StepState::Reverting;
        match result {
            Ok(Next::Done) => match step.cause {
                Cause::Cancel { .. } => End::Cancelled,
                Cause::Skip => End::Skipped,
                // It was cancelled before, and waited for an event in its clean-up.
                _ if step.is_ending && self.plan.cancel.is_some() => End::Cancelled,
                // It was left out before, and waited for an event in its clean-up.
                _ if step.is_skipping => End::Skipped,
                Cause::Turn | Cause::Event | Cause::SubPlans => End::Success,
            },
            Ok(_) if !may_wait => refused("suspended", "only a run phase can be suspended"),
            Ok(_) if self.taken_promise(id, wishes).is_some() => {
                refused("promise", &self.taken_promise(id, wishes).unwrap_or_default())
            }
            Ok(Next::Suspend(reason)) => suspended(reason, wishes),
            Ok(Next::Event(_)) if !self.can_be_called(id, wishes) => {
                let message =
                    "it waits for an event and none can come: its action takes none from \
                               outside, and it has set no timer and asked for nothing";
                refused("no_event", message)
            }
            Ok(Next::Event(reason)) => suspended(reason, wishes),
            Ok(Next::SubPlans)
                if step.cause == Cause::SubPlans && !self.waits_for_plans(id, wishes) =>
            {
                refused("no_sub_plans", "it waits for sub-plans and has asked for none")
            }
            Ok(Next::SubPlans) => suspended("its sub-plans".to_owned(), wishes),
            Err(error) if !is_called => End::NotCalled(error),
            Err(error) => self.failed(id, error),
        }
    }

    /// Whether plans are under way that a step has asked for, or asks for now.
    pub(super) fn waits_for_plans(&self, id: StepId, wishes: &Wishes) -> bool {
        !wishes.plans.is_empty() || self.plan.children.are_open(id)
    }

    /// Whether anything can call a suspended step again, except a cancel or a limit.
    fn can_be_called(&self, id: StepId, wishes: &Wishes) -> bool {
        let (plan, step) = (&self.plan, self.plan.step(id));
        // A part that has failed may be tried again or left out.
        let over =
            [StepState::Success, StepState::Skipped, StepState::Cancelled, StepState::Dropped];
        let is_open = |part: &Step| {
            part.asker.is_some_and(|(asker, _)| asker == id) && !over.contains(&part.state)
        };
        self.action_of(id).is_none_or(AnyAction::takes_events)
            || self.will_have_timer(id, wishes)
            || !wishes.promises.is_empty()
            || plan.has_promise(id)
            || !wishes.parts.is_empty()
            || step.inbox.len() > usize::from(step.in_event)
            || self.waits_for_plans(id, wishes)
            || plan.children.are_untold(id)
            || plan.steps.iter().any(is_open)
    }
}

fn suspended(reason: String, wishes: &Wishes) -> End {
    End::Suspended { reason: cut(reason, REASON_BYTES_MAX), progress: wishes.progress }
}

fn refused(kind: &'static str, message: &str) -> End {
    End::Failed(ActionError::new(kind, message).and_final())
}

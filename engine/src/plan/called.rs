//! Effect of calls of a step's code on the plan, as part of [`Plan::apply`].

use std::collections::BTreeMap;
use std::time::Duration;

use super::apply::Inconsistent;
use super::record::End;
use super::state::StepState;
use super::Plan;
use crate::action::{Cause, TIMED_OUT};
use crate::error::ActionError;
use crate::id::StepId;
use crate::payload::Payload;
use crate::time::Time;

impl Plan {
    pub(super) fn started(
        &mut self,
        id: StepId,
        at: Time,
        limit: Option<Time>,
        cause: Cause,
        silence: Option<Duration>,
    ) -> Result<(), Inconsistent> {
        let step = self.known(id)?;
        let from = step.state;
        step.cause = cause;
        step.in_event = cause == Cause::Event;
        step.is_ending |= matches!(cause, Cause::Cancel { .. });
        step.is_skipping |= cause == Cause::Skip;
        match from {
            StepState::Suspended => {}
            StepState::Pending | StepState::Error | StepState::Retrying | StepState::Skipping => {
                step.attempt += 1;
            }
            other => {
                let problem = format!("step {id} starts while it is {}", other.name());
                return Err(self.wrong(&problem));
            }
        }
        step.calls += 1;
        step.started_at.get_or_insert(at);
        step.waits_for.clear();
        self.clear_alarm(id);
        let step = &mut self.steps[id.index()];
        step.retry_at = None;
        step.limit = limit.or(step.limit);
        self.listen(id, at, silence);
        if matches!(cause, Cause::SubPlans | Cause::Cancel { .. }) {
            self.children.told(id);
        }
        if matches!(cause, Cause::Turn | Cause::Skip) {
            self.children.begin_round(id);
        }
        self.children.forget_ahead(id);
        self.change(id, StepState::Running);
        self.set_alarm(id);
        if self.ready.front() == Some(&id) {
            self.ready.pop_front();
        } else if from == StepState::Pending {
            self.ready.retain(|ready| *ready != id);
        }
        Ok(())
    }

    pub(super) fn ended(
        &mut self,
        id: StepId,
        at: Time,
        ran_us: u64,
        end: &End,
        output: Option<&Payload>,
    ) -> Result<(), Inconsistent> {
        let step = self.known(id)?;
        let from = step.state;
        if !matches!(from, StepState::Running | StepState::Reverting | StepState::Suspended) {
            let problem = format!("step {id} ends while it is {}", from.name());
            return Err(self.wrong(&problem));
        }
        self.clear_alarm(id);
        self.last_order += 1;
        let order = self.last_order;
        let step = &mut self.steps[id.index()];
        step.ran_us += ran_us;
        let repeats = matches!(end, End::Retry { .. });
        self.handled(id, end);
        let step = &mut self.steps[id.index()];
        if from == StepState::Reverting {
            self.reverted(id, at, end);
            return Ok(());
        }
        count_timeout(&mut self.timeouts, id, end);
        step.error = None;
        step.was_called |= !matches!(end, End::NotCalled(_)) && !step.is_queued;
        let state = match end {
            End::Success => {
                step.failures = 0;
                step.order = order;
                StepState::Success
            }
            End::Suspended { reason, progress } => {
                step.failures = 0;
                step.waits_for.clone_from(reason);
                step.progress = progress.or(step.progress);
                StepState::Suspended
            }
            End::Failed(why) | End::NotCalled(why) => {
                step.failures += 1;
                step.order = order;
                step.error = Some(why.clone());
                StepState::Error
            }
            End::Retry { error: why, at } => {
                step.failures += 1;
                step.error = Some(why.clone());
                step.retry_at = Some(*at);
                StepState::Retrying
            }
            End::Cancelled => StepState::Cancelled,
            End::Skipped => StepState::Skipped,
        };
        if !matches!(state, StepState::Suspended) {
            step.limit = None;
        }
        if !state.is_live() {
            step.ended_at = Some(at);
            self.keep_or_leave(id, state);
        }
        if let Some(output) = output {
            let action = self.steps[id.index()].action;
            self.actions[action.index()].output = output.clone();
        }
        if let Some(beat) = &mut self.steps[id.index()].beat {
            beat.at = at;
        }
        self.change(id, state);
        self.set_alarm(id);
        self.tell_asker(id, at);
        let is_repeated = repeats && !self.begins_anew(id);
        if state != StepState::Suspended && !is_repeated {
            self.drop_waits(id);
        }
        Ok(())
    }

    /// Decides about the event or the news of a call when the call has ended.
    ///
    /// It is taken when the call has succeeded. A repeated attempt gets the same again; an attempt
    /// that failed for good leaves an outside event in the queue.
    fn handled(&mut self, id: StepId, end: &End) {
        let step = &mut self.steps[id.index()];
        if let End::Retry { .. } = end {
            if step.state == StepState::Running && step.cause == Cause::SubPlans {
                self.children.untold(id);
            }
            return;
        }
        if !std::mem::take(&mut step.in_event) {
            return;
        }
        let is_taken = !matches!(end, End::Failed(_) | End::NotCalled(_)) && !step.is_queued;
        if is_taken || step.inbox.front().is_some_and(|event| event.is_own) {
            step.inbox.pop_front();
        }
    }

    /// A step is over: events from outside that it has not taken are nobody's.
    pub(super) fn leave_behind(&mut self, id: StepId) {
        let step = &mut self.steps[id.index()];
        step.in_event = false;
        let left = step.inbox.drain(..).filter(|event| !event.is_own);
        self.left_behind.extend(left.map(|event| (id, event)));
    }

    /// Why the code of a step is called when it is tried again: for the same as in the attempt that
    /// failed.
    pub(crate) fn cause_again(&self, id: StepId) -> Cause {
        let step = self.step(id);
        if step.in_event {
            Cause::Event
        } else if step.cause == Cause::SubPlans && self.children.are_untold(id) {
            Cause::SubPlans
        } else {
            self.first_cause(id)
        }
    }

    /// Why the code of a step is called when it begins anew: a step that is left out cleans up.
    pub(crate) fn first_cause(&self, id: StepId) -> Cause {
        if self.step(id).is_skipping {
            Cause::Skip
        } else {
            Cause::Turn
        }
    }

    /// Whether the next call of a step begins anew: its timers and parts are those of an attempt
    /// that is over.
    pub(crate) fn begins_anew(&self, id: StepId) -> bool {
        !matches!(self.cause_again(id), Cause::Event | Cause::SubPlans)
    }

    pub(super) fn interrupted(
        &mut self,
        id: StepId,
        at: Time,
        error: Option<&ActionError>,
    ) -> Result<(), Inconsistent> {
        let step = self.known(id)?;
        if !matches!(step.state, StepState::Running | StepState::Reverting | StepState::Suspended) {
            return Err(self.wrong("a step is interrupted that does not run"));
        }
        let was_reverting = step.state == StepState::Reverting;
        self.clear_alarm(id);
        self.last_order += 1;
        let order = self.last_order;
        let step = &mut self.steps[id.index()];
        let is_again = error.is_none() && !was_reverting && step.state == StepState::Running;
        step.in_event &= is_again;
        step.limit = None;
        step.was_called = true;
        if is_again && step.cause == Cause::SubPlans {
            self.children.untold(id);
        }
        let step = &mut self.steps[id.index()];
        let state = match error {
            // A compensation is called again: it has to be idempotent.
            _ if was_reverting => {
                step.retry_at = Some(at);
                StepState::RevertRetrying
            }
            Some(error) => {
                step.order = order;
                step.error = Some(error.clone());
                step.ended_at = Some(at);
                // Events from outside wait for a resume; its own ones are of an attempt that is over.
                step.inbox.retain(|event| !event.is_own);
                StepState::Error
            }
            None => {
                step.retry_at = Some(at);
                StepState::Retrying
            }
        };
        self.change(id, state);
        if state == StepState::Error || self.begins_anew(id) {
            self.drop_waits(id);
        }
        self.set_alarm(id);
        self.note(at, format!("step {id} was interrupted"));
        Ok(())
    }
}

/// Counts an attempt that was not done within its limit; the count begins anew with a success.
fn count_timeout(timeouts: &mut BTreeMap<StepId, u32>, id: StepId, end: &End) {
    match end {
        End::Success => drop(timeouts.remove(&id)),
        End::Failed(error) | End::Retry { error, .. } if error.kind == TIMED_OUT => {
            *timeouts.entry(id).or_default() += 1;
        }
        _ => {}
    }
}

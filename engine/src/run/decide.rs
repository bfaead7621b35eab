//! Decisions: the records and calls that follow from an event of a plan. No side effects.

use super::message::Delivered;
use crate::action::{
    timed_out, AnyAction, Cause, Next, Registry, RetryPolicy, Returned, Wishes, TIMED_OUT,
};
use crate::error::ActionError;
use crate::id::{PlanId, StepId};
use crate::journal::Locks;
use crate::limits::EVENTS_MAX;
use crate::payload::Payload;
use crate::plan::{End, Plan, PlanState, Record, StepKind, StepState};
use crate::time::Time;

/// Decides for one plan. Each decision is applied to the plan at once and kept for the journal.
pub(crate) struct Decisions<'a> {
    pub(crate) plan: &'a mut Plan,
    pub(crate) now: Time,
    /// When this world began.
    pub(crate) alive_since: Time,
    pub(crate) registry: &'a Registry,
    /// Whether failures are dealt with as the actions suggest, instead of always by a pause.
    pub(crate) is_rescuing: bool,
    /// The locks of all plans.
    pub(crate) locks: &'a Locks,
    /// For the journal, in their order.
    pub(crate) records: &'a mut Vec<Record>,
    /// Effects to carry out when the records are durable.
    pub(crate) effects: &'a mut Vec<Effect>,
}

/// An effect outside of the plan, carried out when the records that request it are durable. A crash
/// may repeat it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The code of a step is called.
    Call(StepId),
    /// A plan that a step has asked for is made, if it does not exist.
    Begin(PlanId),
    /// The next plans that a step has asked for are read from the journal: their turn comes soon.
    ReadPage(StepId),
    /// A plan that a step has asked for is cancelled.
    CancelPlan(PlanId),
    /// Another plan is asked to tell when it is over.
    Follow(PlanId),
    /// This plan, delayed so far, is planned now.
    PlanNow,
    /// This plan begins anew: its next run is planned.
    PlanAgain,
    /// All plans that wait for the end of this one are told.
    TellEnd,
    /// The span of the plan ends: once, while its end may be told again.
    TraceEnd,
    /// One plan that waits for the end of this one is told, if this one is over.
    TellEndTo(PlanId),
    /// An event of a step is sent to another plan.
    Send(u32),
    /// Hooks are told of what has happened.
    TellHooks,
    /// The steps of the finalize phase are called together.
    Finalize,
}

impl Decisions<'_> {
    pub(super) fn record(&mut self, record: Record) {
        self.plan.apply(&record).expect("decisions follow from the plan as it is");
        self.records.push(record);
    }

    pub(super) fn become_state(&mut self, state: PlanState, why: &str) {
        let is_cancelled = state == PlanState::Stopped && self.plan.cancel.is_some();
        let left = if is_cancelled { self.plan.children.begun() } else { Vec::new() };
        self.record(Record::Became { state, at: self.now, why: why.to_owned() });
        self.tell_unwanted_plans(left);
        if state == PlanState::Stopped {
            self.effects.extend([Effect::TellEnd, Effect::TraceEnd]);
        }
    }

    pub(super) fn mark(&mut self, steps: Vec<StepId>, state: StepState, why: &str) {
        if steps.is_empty() {
            return;
        }
        let mut left = Vec::new();
        if state == StepState::Dropped {
            left.extend(steps.iter().flat_map(|step| self.plan.children.begun_of(*step)));
        }
        self.record(Record::Marked { steps, state, at: self.now, why: why.to_owned() });
        self.tell_unwanted_plans(left);
    }

    pub(super) fn call(&mut self, id: StepId, cause: Cause) {
        self.migrate(id);
        let step = self.plan.step(id);
        let limit = match step.limit {
            None if step.kind == StepKind::Run => self.action_of(id).and_then(|a| a.limit()),
            _ => None,
        };
        let limit = limit.map(|limit| self.now.after(limit));
        let silence = match step.kind {
            StepKind::Run => self.action_of(id).and_then(AnyAction::heartbeat),
            _ => None,
        };
        self.record(Record::Started { step: id, at: self.now, limit, cause, silence });
        self.effects.push(Effect::Call(id));
    }

    /// The action of a step, if this world knows it.
    pub(super) fn action_of(&self, step: StepId) -> Option<&dyn AnyAction> {
        let action = self.plan.action(self.plan.step(step).action);
        self.registry.find(&action.name).map(|action| &**action)
    }

    /// The plan has just come into being: planned, or delayed, or with an error in its planning.
    pub(crate) fn begun(&mut self) {
        match self.plan.state {
            PlanState::Scheduled => {
                self.follow();
                self.wake_scheduled();
            }
            PlanState::Stopped => self.effects.extend([Effect::TellEnd, Effect::TraceEnd]),
            _ => self.advance(),
        }
    }

    /// Goes on as far as nothing has to be waited for.
    pub(crate) fn advance(&mut self) {
        if self.plan.state == PlanState::Planned && self.may_begin() {
            self.become_state(PlanState::Running, "started");
        }
        while self.plan.state == PlanState::Running {
            if self.plan.cancel.is_some() {
                return self.go_on_cancelling();
            }
            if self.plan.is_reverting {
                return self.go_on_reverting();
            }
            while let Some(step) = self.plan.next_ready() {
                self.call(step, Cause::Turn);
            }
            if !self.plan.is_settled() && !self.plan.waits_in_vain() {
                return;
            }
            if self.go_on_skipping() {
                continue;
            }
            if self.plan.has_failed() {
                self.rescue();
            } else if let Some(step) = self.plan.next_finalize() {
                if self.registry.transaction().is_some() {
                    return self.finalize_together();
                }
                return self.call(step, Cause::Turn);
            } else if self.plan.continues.is_some() {
                return self.effects.push(Effect::PlanAgain);
            } else {
                self.become_state(PlanState::Stopped, "all steps are done");
            }
        }
    }

    /// The code of a step has ended; `call` says which call of it that was.
    pub(crate) fn returned(&mut self, id: StepId, call: u32, mut returned: Returned, ran_us: u64) {
        self.chunked(id, call, std::mem::take(&mut returned.wishes.chunks));
        let Some(step) = self.plan.find_step(id) else { return };
        if self.plan.state == PlanState::Stopped {
            // It was halted, and may be removed already: nothing is written about it any more.
            return tracing::debug!(plan = %self.plan.id, step = %id, "a call has ended after its plan");
        }
        let is_reverting = step.state == StepState::Reverting;
        if step.calls != call || !(step.state == StepState::Running || is_reverting) {
            // It was ended by an order meanwhile: its result is too late.
            let text = format!("call {call} of step {id} returned too late");
            return self.record(Record::Note { at: self.now, text });
        }
        let Returned { result, output, mut wishes, is_called } = returned;
        let result = result.map_err(ActionError::within_limits);
        let names_no_plans =
            matches!(result, Ok(Next::SubPlans)) && !self.waits_for_plans(id, &wishes);
        let end = self.end_of(id, result, &wishes, is_called);
        for text in std::mem::take(&mut wishes.notes) {
            self.record(Record::Note { at: self.now, text });
        }
        let (end, continues) = self.continues(end, wishes.continues.take());
        let is_suspended = matches!(end, End::Suspended { .. });
        let is_over = !is_suspended && !matches!(end, End::Retry { .. });
        let sends = is_suspended || matches!(end, End::Success);
        let sends = if sends { std::mem::take(&mut wishes.sends) } else { Vec::new() };
        // A compensation does not change the step's output.
        let output = output.filter(|_| !is_reverting);
        if let Some(input) = continues {
            // It comes first: events that the step has not taken are for the next run.
            self.record(Record::ContinueAsNew { at: self.now, step: id, input });
        }
        self.record(Record::Ended { step: id, at: self.now, ran_us, end, output });
        self.send_events(id, sends);
        if wishes.event_is_understood {
            self.plan.forget_left_behind(id);
        }
        if is_suspended {
            self.suspended(id, wishes);
            if names_no_plans {
                self.waits_for_no_plans(id);
            }
        } else {
            if is_over {
                self.drop_asked(id, wishes.drops);
            }
            self.part_ended(id);
        }
        self.advance();
    }

    /// The step waits: the commands of its code are carried out, and events that came meanwhile are
    /// taken.
    fn suspended(&mut self, id: StepId, wishes: Wishes) {
        if wishes.only_timers {
            self.forget_timers(id);
        }
        for (due, payload) in wishes.timers {
            let timer = self.plan.last_timer + 1;
            self.record(Record::TimerSet { timer, step: id, due, payload });
        }
        self.wait_for_promises(id, wishes.promises);
        for (name, due) in wishes.named_timers {
            self.name_timer(id, name, due);
        }
        self.ask_for_plans(id, wishes.plans, wishes.at_once);
        self.drop_asked(id, wishes.drops);
        self.ask_for_parts(id, wishes.parts);
        self.take_event(id);
        self.plans_are_over(id);
    }

    /// A step, or its compensation, has failed: whether it is tried again.
    pub(super) fn failed(&self, id: StepId, error: ActionError) -> End {
        let step = self.plan.step(id);
        let is_own = matches!(step.cause, Cause::Turn | Cause::Event | Cause::SubPlans);
        let policy = self.action_of(id).filter(|_| self.plan.cancel.is_none());
        let policy = policy.map(|action| match (step.state, step.kind) {
            (StepState::Reverting, _) => action.retry_revert(),
            (_, StepKind::Finalize) => action.retry_finalize(),
            _ if is_own => action.retry(),
            _ => RetryPolicy::none(),
        });
        if let Some(policy) = policy.filter(|policy| policy.retries(&error)) {
            let seed = self.now.0 ^ u64::from(id.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            // A call that suspends is a success, so each attempt may begin with one.
            let timeouts = self.plan.timeouts.get(&id).filter(|_| error.kind == TIMED_OUT);
            let failures = step.failures.max(timeouts.copied().unwrap_or(0));
            if let Some(pause) = policy.pause(failures + 1, seed) {
                return End::Retry { error, at: self.now.after(pause) };
            }
        }
        End::Failed(error)
    }

    /// An event has come for a step. The outcome is for its sender.
    pub(crate) fn event(
        &mut self,
        id: StepId,
        event: Option<String>,
        payload: Payload,
        by: Option<String>,
    ) -> Result<Delivered, String> {
        let Some(step) = self.plan.find_step(id) else {
            return Err(format!("it has no step {id}"));
        };
        // Also at the end: its sender may not have heard that it was taken.
        if event.as_ref().is_some_and(|event| step.seen.contains(event)) {
            return Ok(Delivered::Before);
        }
        if self.plan.state == PlanState::Stopped {
            return Err("it takes no events any more".to_owned());
        }
        // A step that has not begun takes the event when it waits for events.
        let takes =
            [StepState::Pending, StepState::Suspended, StepState::Running, StepState::Retrying];
        let takes = takes.contains(&step.state) || self.plan.is_between_runs(step);
        if !takes || step.kind != StepKind::Run {
            let state = step.state.name();
            return Err(format!("its step {id} is {state} and takes no events"));
        }
        let action = self.action_of(id);
        if !action.is_none_or(AnyAction::takes_events) {
            return Err(format!("the action of its step {id} takes no events from outside"));
        }
        let checked = action.map_or(Ok(()), |action| action.check_event(&payload));
        if let Err(refused) = checked {
            return Err(format!("its step {id} does not take it: {}", refused.message));
        }
        if step.inbox.len() >= EVENTS_MAX {
            return Err(format!("{EVENTS_MAX} events wait for its step {id}, which is the limit"));
        }
        self.record(Record::Event { step: id, at: self.now, id: event, payload, by });
        self.take_event(id);
        Ok(Delivered::Now)
    }

    /// Timers and retries whose time has come.
    pub(crate) fn wake(&mut self) {
        match self.plan.state {
            PlanState::Running => {}
            PlanState::Scheduled => return self.wake_scheduled(),
            // A lock that it waits for is free.
            PlanState::Planned => return self.advance(),
            // Somebody may not have heard of it.
            PlanState::Stopped => return self.effects.push(Effect::TellEnd),
            _ => return,
        }
        let now = self.now;
        let is_late = self.plan.created.deadline.is_some_and(|deadline| deadline <= now);
        if is_late && self.plan.cancel.is_none() {
            self.cancel(false, "its deadline").expect("a running plan can be cancelled");
            return;
        }
        let mut due: Vec<(Time, u32)> = self
            .plan
            .timers
            .iter()
            .filter(|(_, timer)| timer.due <= now)
            .map(|(id, timer)| (timer.due, *id))
            .collect();
        due.sort_unstable();
        for (_, timer) in due {
            let step = self.plan.timers[&timer].step;
            self.record(Record::TimerFired { timer, at: now });
            self.take_event(step);
        }
        for id in self.plan.due(now) {
            let step = self.plan.step(id);
            match step.state {
                // No step begins again: the cancel request decides about it.
                StepState::Retrying | StepState::RevertRetrying if self.plan.cancel.is_some() => {}
                StepState::Retrying => self.call_again(id),
                StepState::RevertRetrying => self.revert_step(id),
                StepState::Running | StepState::Suspended if step.limit.is_none_or(|l| l > now) => {
                    self.missed(id);
                }
                StepState::Running | StepState::Suspended => {
                    let limit = self.action_of(id).and_then(AnyAction::limit).unwrap_or_default();
                    let end = self.failed(id, timed_out(limit));
                    self.record(Record::Ended { step: id, at: now, ran_us: 0, end, output: None });
                    self.part_ended(id);
                }
                _ => {}
            }
        }
        self.advance();
    }

    /// The plan was read from the store: steps that ran when the previous world ended were
    /// interrupted. After an unclean end, `unclean_ends_max` limits the number of such ends in a
    /// row while a step runs.
    pub(crate) fn loaded(&mut self, unclean_ends_max: Option<u32>) {
        if !self.plan.hooks_due.is_empty() {
            self.effects.push(Effect::TellHooks);
        }
        self.send_again();
        let mut interrupted_steps = self.plan.in_state(StepState::Running);
        interrupted_steps.extend(self.plan.in_state(StepState::Reverting));
        let is_paused = self.plan.state == PlanState::Paused;
        if self.plan.state != PlanState::Running && !is_paused {
            // It was halted: its steps stay as they are.
            interrupted_steps.clear();
        }
        for step in interrupted_steps {
            if self.plan.step(step).is_queued {
                // It waited for a place: its code was not called, and it asks again.
                self.effects.extend((!is_paused).then_some(Effect::Call(step)));
                continue;
            }
            self.interrupted(step, unclean_ends_max);
        }
        if self.registry.transaction().is_some() {
            self.finalize_again();
        }
        self.look_after_plans();
        self.wake();
        self.advance();
    }

    pub(super) fn take_event(&mut self, id: StepId) {
        let step = self.plan.step(id);
        // A cancel request comes before all else.
        let is_to_end = self.plan.cancel.is_some() && !step.is_ending;
        if step.state == StepState::Suspended
            && !step.inbox.is_empty()
            && self.plan.state == PlanState::Running
            && !is_to_end
        {
            self.call(id, Cause::Event);
        }
    }
}

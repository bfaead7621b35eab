//! What follows from what happened to a plan: records, and calls of code. No side effects.

use crate::action::{Next, Returned};
use crate::error::ActionError;
use crate::id::StepId;
use crate::limits::EVENTS_MAX;
use crate::payload::Payload;
use crate::plan::{End, Plan, PlanState, Record, StepKind, StepState};
use crate::time::Time;

/// Decides for one plan. Each decision is applied to the plan at once and kept for the journal.
pub(crate) struct Decisions<'a> {
    pub(crate) plan: &'a mut Plan,
    pub(crate) now: Time,
    /// For the journal, in their order.
    pub(crate) records: &'a mut Vec<Record>,
    /// Steps whose code is to be called when the records are durable.
    pub(crate) calls: &'a mut Vec<StepId>,
}

impl Decisions<'_> {
    fn record(&mut self, record: Record) {
        self.plan.apply(&record).expect("decisions follow from the plan as it is");
        self.records.push(record);
    }

    fn become_state(&mut self, state: PlanState, why: &str) {
        self.record(Record::Became { state, at: self.now, why: why.to_owned() });
    }

    fn call(&mut self, step: StepId) {
        self.record(Record::Started { step, at: self.now });
        self.calls.push(step);
    }

    /// Goes on as far as nothing has to be waited for.
    pub(crate) fn advance(&mut self) {
        if self.plan.state == PlanState::Planned {
            self.become_state(PlanState::Running, "started");
        }
        if self.plan.state != PlanState::Running {
            return;
        }
        while let Some(step) = self.plan.next_ready() {
            self.call(step);
        }
        if !self.plan.is_settled() {
            return;
        }
        if self.plan.has_failed() {
            self.become_state(PlanState::Paused, "a step has failed");
        } else if let Some(step) = self.plan.next_finalize() {
            self.call(step);
        } else {
            self.become_state(PlanState::Stopped, "all steps are done");
        }
    }

    /// The code of a step has ended.
    pub(crate) fn returned(&mut self, id: StepId, returned: Returned, ran_us: u64) {
        let Some(step) = self.plan.find_step(id) else { return };
        if step.state != StepState::Running {
            // It was ended by somebody else meanwhile: what it says comes too late.
            let text = format!("step {id} returned while it was {}", step.state.name());
            return self.record(Record::Note { at: self.now, text });
        }
        let kind = step.kind;
        let Returned { result, output, wishes } = returned;
        let end = match result {
            Ok(Next::Done) => End::Success,
            Ok(Next::Suspend(_)) if kind == StepKind::Finalize => {
                let message = "a finalize phase cannot be suspended";
                End::Failed(ActionError::new("suspended_finalize", message))
            }
            Ok(Next::Suspend(reason)) => End::Suspended { reason, progress: wishes.progress },
            Err(error) => End::Failed(error),
        };
        let is_suspended = matches!(end, End::Suspended { .. });
        self.record(Record::Ended { step: id, at: self.now, ran_us, end, output });
        if is_suspended {
            for (due, payload) in wishes.timers {
                let timer = self.plan.last_timer + 1;
                self.record(Record::TimerSet { timer, step: id, due, payload });
            }
            self.take_event(id);
        }
        self.advance();
    }

    /// An event has come for a step. The outcome is for its sender.
    pub(crate) fn event(
        &mut self,
        id: StepId,
        event: Option<String>,
        payload: Payload,
    ) -> Result<(), String> {
        let Some(step) = self.plan.find_step(id) else {
            return Err(format!("it has no step {id}"));
        };
        if event.as_ref().is_some_and(|event| step.seen.contains(event)) {
            return Ok(());
        }
        if !matches!(step.state, StepState::Suspended | StepState::Running | StepState::Retrying)
            || step.kind != StepKind::Run
        {
            let state = step.state.name();
            return Err(format!("its step {id} is {state} and takes no events"));
        }
        if step.inbox.len() >= EVENTS_MAX {
            return Err(format!("{EVENTS_MAX} events wait for its step {id}, which is the limit"));
        }
        self.record(Record::Event { step: id, at: self.now, id: event, payload });
        self.take_event(id);
        Ok(())
    }

    /// Timers and retries whose time has come.
    pub(crate) fn wake(&mut self) {
        if self.plan.state != PlanState::Running {
            return;
        }
        let now = self.now;
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
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        let retries: Vec<StepId> = self
            .plan
            .steps
            .iter()
            .filter(|step| step.state == StepState::Retrying && is_due(step.retry_at))
            .map(|step| step.id)
            .collect();
        for step in retries {
            self.call(step);
        }
        self.advance();
    }

    /// The plan was read from the store: what ran when the world before went away was interrupted.
    pub(crate) fn loaded(&mut self) {
        let running: Vec<StepId> = self
            .plan
            .steps
            .iter()
            .filter(|step| step.state == StepState::Running)
            .map(|step| step.id)
            .collect();
        for step in running {
            self.record(Record::Interrupted { step, at: self.now });
        }
        self.wake();
        self.advance();
    }

    /// Goes on with a paused plan: failed steps are tried again.
    pub(crate) fn resume(&mut self, by: &str) -> Result<(), String> {
        if self.plan.state != PlanState::Paused {
            return Err("only a paused plan can be resumed".to_owned());
        }
        self.become_state(PlanState::Running, &format!("resumed by {by}"));
        let failed: Vec<(StepId, StepKind)> =
            self.plan.failed_steps().map(|step| (step.id, step.kind)).collect();
        if failed.iter().any(|(_, kind)| *kind == StepKind::Finalize) {
            // The finalize phase is repeated as a whole.
            for step in self.plan.finalize.clone() {
                if self.plan.step(step).state != StepState::Skipped {
                    let why = "the finalize phase is repeated".to_owned();
                    let state = StepState::Pending;
                    self.record(Record::Marked { step, state, at: self.now, why });
                }
            }
        }
        for (step, kind) in failed {
            if kind == StepKind::Run {
                self.call(step);
            }
        }
        self.advance();
        Ok(())
    }

    fn take_event(&mut self, id: StepId) {
        let step = self.plan.step(id);
        if step.state == StepState::Suspended
            && !step.inbox.is_empty()
            && self.plan.state == PlanState::Running
        {
            self.call(id);
        }
    }
}

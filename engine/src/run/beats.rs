//! Signs of life of steps: kept in memory, written together, and what follows when there are none.
//!
//! | sign of life | is kept by | is written |
//! | --- | --- | --- |
//! | of code that runs | the call, which tells the plan's actor of the first one | with the next entry of the plan, or after [`BEATS_BEHIND`] |
//! | from outside | the plan's actor, which stays in memory until it is written | the same |
//! | none | nobody | as `Silent`, when the step has been silent for as long as its action allows |

use std::collections::HashMap;
use std::sync::Arc;

use turnwheel_actors::{Context, Handler};
use turnwheel_runtime::Completer;

use super::decide::Decisions;
use super::{PlanActor, PlanKey};
use crate::action::{crashes, interrupted, silent, OnInterrupt, CRASHES};
use crate::error::PlanError;
use crate::id::{PlanId, StepId};
use crate::limits::{BEATS_BEHIND, SILENCES_MAX};
use crate::payload::Payload;
use crate::plan::{Plan, PlanState, Record, StepState};
use crate::time::Time;
use crate::world::Shared;

/// Signs of life that are not decided on.
#[derive(Debug, Default)]
pub(super) struct Beats {
    outside: HashMap<StepId, (Time, Payload)>,
    /// When they are written at the latest.
    due: Option<Time>,
}

impl Beats {
    /// Whether some would be lost with the actor.
    pub(super) fn hold(&self) -> bool {
        !self.outside.is_empty()
    }

    pub(super) fn due(&self) -> Option<Time> {
        self.due
    }

    /// Adds signs of life from outside to a plan that is shown: the next worker must know them.
    pub(super) fn show(&self, plan: &mut Arc<Plan>) {
        let live: Vec<_> =
            self.outside.iter().filter(|(step, _)| plan.find_step(**step).is_some()).collect();
        if live.is_empty() {
            return;
        }
        let plan = Arc::make_mut(plan);
        for (step, (at, details)) in live {
            plan.show_beat(*step, *at, details);
        }
    }

    fn soon(&mut self, now: Time) {
        self.due.get_or_insert(now.after(BEATS_BEHIND));
    }
}

/// Code of the plan has given a sign of life, the first one since they were written.
pub(super) struct Beaten;

/// A sign of life from outside.
pub(crate) struct Heartbeat {
    pub(crate) step: StepId,
    pub(crate) attempt: u32,
    pub(crate) details: Payload,
    pub(crate) reply: Completer<Result<(), PlanError>>,
}

/// Tells a plan that there are signs of life to write.
pub(crate) fn beat_soon(world: &Arc<Shared>, plan: PlanId) {
    if let Err(error) = world.plans().get::<PlanActor>(PlanKey::new(world, plan)).tell(Beaten) {
        // They are looked at when the step would be silent for too long, and before that with any entry.
        tracing::debug!(%plan, kind = %error.kind, "a sign of life is written later");
    }
}

impl Handler<Beaten> for PlanActor {
    type Reply = ();

    fn handle(&mut self, _: Beaten, cx: &mut Context<'_, Self>) {
        if self.plan.is_some() {
            self.beats.soon(self.world.now());
        }
        self.settle(cx);
    }
}

impl Handler<Heartbeat> for PlanActor {
    type Reply = ();

    fn handle(&mut self, message: Heartbeat, cx: &mut Context<'_, Self>) {
        if cx.is_closing() {
            return self.pass_on(message);
        }
        if self.is_unborn() {
            return self.hear_later(message);
        }
        let Heartbeat { step, attempt, details, reply } = message;
        let answer = match &self.plan {
            None => Err(self.absence()),
            Some(plan) => takes_beats(plan, step, attempt),
        };
        if answer.is_ok() {
            let now = self.world.now();
            self.beats.outside.insert(step, (now, details));
            self.beats.soon(now);
        }
        let _late = reply.complete(answer);
        self.settle(cx);
    }
}

fn takes_beats(plan: &Plan, id: StepId, attempt: u32) -> Result<(), PlanError> {
    let refused = |problem| {
        let (plan, state) = (plan.id, plan.state.name());
        Err(PlanError::State { plan, state, problem })
    };
    let Some(step) = plan.find_step(id) else { return refused(format!("it has no step {id}")) };
    if plan.state != PlanState::Running {
        return refused("end what was done for it".to_owned());
    }
    if !matches!(step.state, StepState::Running | StepState::Suspended) {
        let state = step.state.name();
        return refused(format!("its step {id} is {state}: end what was done for it"));
    }
    if step.attempt != attempt {
        let now = step.attempt;
        return refused(format!(
            "attempt {attempt} of its step {id} is over: end what was done for it, attempt {now} is \
             under way"
        ));
    }
    Ok(())
}

impl PlanActor {
    /// Decides on all signs of life that there are.
    pub(super) fn take_beats(&mut self) {
        self.beats.due = None;
        let mut beats: Vec<(StepId, (Time, Payload))> = self.beats.outside.drain().collect();
        let calls = self.running.iter().filter(|(step, (call, _))| {
            let step = self.plan.as_ref().and_then(|plan| plan.find_step(**step));
            step.is_some_and(|step| step.calls == *call)
        });
        beats.extend(calls.filter_map(|(step, (_, flag))| Some((*step, flag.take_beat()?))));
        beats.sort_by_key(|(step, (at, _))| (*at, *step));
        if let Some(mut decisions) = self.decisions() {
            beats.into_iter().for_each(|(step, (at, details))| decisions.beaten(step, at, details));
        }
    }

    /// Tells code that nobody waits for any more to end.
    pub(super) fn tell_unwanted(&self) {
        let Some(plan) = &self.plan else { return };
        for (step, (call, flag)) in &self.running {
            if plan.step(*step).calls != *call || !plan.step(*step).state.is_live() {
                flag.set();
            }
        }
    }
}

impl Decisions<'_> {
    fn beaten(&mut self, id: StepId, at: Time, details: Payload) {
        let step = self.plan.find_step(id).filter(|_| self.plan.state == PlanState::Running);
        if step.is_some_and(|s| matches!(s.state, StepState::Running | StepState::Suspended)) {
            self.record(Record::Beat { step: id, at, details: Some(details) });
        }
    }

    /// Deals with a step that may have been silent for too long.
    pub(super) fn missed(&mut self, id: StepId) {
        if self.plan.step(id).silent_at().is_none_or(|at| at > self.now) {
            return;
        }
        let beat = self.plan.step(id).beat.clone().unwrap_or_default();
        if beat.at < self.alive_since {
            // Nobody could hear it while there was no world.
            self.record(Record::Beat { step: id, at: self.alive_since, details: None });
            return self.missed(id);
        }
        if self.plan.cancel.is_some() {
            let why = "it was silent for too long, and the plan is being cancelled";
            self.mark(vec![id], StepState::Cancelled, why);
            return self.part_ended(id);
        }
        let policy = self.on_interrupt(id).unwrap_or(OnInterrupt::Fail);
        let is_again = policy == OnInterrupt::RunAgain && beat.missed < SILENCES_MAX;
        let error = (!is_again).then(|| silent(beat.within.unwrap_or_default()));
        self.record(Record::Silent { step: id, at: self.now, error });
        self.part_ended(id);
        if is_again {
            self.call(id, self.plan.cause_again(id));
        }
    }

    /// Policy of a step for calls that were interrupted; nothing if its action is not known here.
    fn on_interrupt(&self, step: StepId) -> Option<OnInterrupt> {
        let data = self.plan.action(self.plan.step(step).action);
        self.action_of(step).map(|action| action.on_interrupt(&data.input))
    }

    /// Decides about a step whose code ran when the previous world ended. If that world ended
    /// without closing, `unclean_ends_max` is the maximum number of such ends in a row.
    pub(super) fn interrupted(&mut self, step: StepId, unclean_ends_max: Option<u32>) {
        let policy = self.on_interrupt(step);
        let fails = matches!(policy, Some(OnInterrupt::Fail | OnInterrupt::Pause));
        let crashes = unclean_ends_max.and_then(|max| self.unclean_end(step, max));
        let error = crashes.or_else(|| fails.then(interrupted));
        self.record(Record::Interrupted { step, at: self.now, error });
        self.part_ended(step);
    }

    /// Notes that a process ended without closing while the step ran. The error if that has happened
    /// to its last calls without one between: the step may be what ends processes.
    fn unclean_end(&mut self, step: StepId, max: u32) -> Option<crate::error::ActionError> {
        let calls = self.plan.step(step).calls;
        let text =
            |call| format!("call {call} of step {step} ran when a process ended without closing");
        self.record(Record::Note { at: self.now, text: text(calls) });
        let is_noted = |call: u32| {
            let text = text(call);
            self.plan.history.iter().rev().any(|entry| entry.text == text)
        };
        let first = calls.saturating_sub(max) + 1;
        let is_full = calls >= max && (first..=calls).all(is_noted);
        is_full.then(|| crashes(max))
    }

    /// Whether a step that has failed was interrupted, and its action wants a person to look at that;
    /// or whether processes have crashed while it ran.
    pub(super) fn wants_pause(&self) -> bool {
        let interrupted = |step: &crate::plan::Step| {
            let error = step.error.as_ref().filter(|_| !step.is_rescued);
            error.is_some_and(|error| matches!(error.kind.as_str(), "interrupted" | "silent"))
        };
        let pauses = |id| self.on_interrupt(id) == Some(OnInterrupt::Pause);
        self.crashed().is_some()
            || self.plan.failed_steps().any(|step| interrupted(step) && pauses(step.id))
    }

    /// Reason of the pause: the failures, or crashes of processes.
    pub(super) fn why_paused(&self) -> String {
        self.crashed().unwrap_or_else(|| "a step has failed".to_owned())
    }

    fn crashed(&self) -> Option<String> {
        let mut errors = self.plan.failed_steps().filter(|step| !step.is_rescued);
        errors.find_map(|step| {
            let error = step.error.as_ref().filter(|error| error.kind == CRASHES)?;
            Some(error.message.clone())
        })
    }
}

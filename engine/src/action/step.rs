//! The context of a step's code.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::Serialize;
use turnwheel_actors::TraceContext;

use super::chunk::ChunkLine;
use super::triggered::Triggered;
use super::when::{Stored, Taken};
use super::{Action, CancelFlag, Cause};
use crate::error::{ActionError, TextTooLong};
use crate::id::{ActionId, PlanId, StepId};
use crate::limits::NAME_BYTES_MAX;
use crate::payload::Payload;
use crate::plan::{AskedFacts, Event, EventTarget, PartEnded, StepState, SubPlanCounts};
use crate::time::Time;
use crate::world::{Ids, Places, Shared};

/// How a call of a step's code ends.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Next {
    /// The step is done.
    Done,
    /// The step waits for an event; no thread is held. The text says what for.
    Suspend(String),
    /// The step waits for the plans that it has asked for; no thread is held. If none of them is under way it
    /// is called at once, with [`Cause::SubPlans`]. A call that was made for that, and asks for no more,
    /// fails: nothing would come.
    SubPlans,
    /// The step waits for an event; no thread is held. The text says what for. The step fails if no
    /// event can come: see [`StepContext::wait_for_event`].
    Event(String),
}

impl Next {
    /// Suspends the step until an event comes, or the plans that it has asked for are over; `reason` says to
    /// people what it waits for. [`StepContext::wait_for_event`] and [`StepContext::wait_for_sub_plans`] name
    /// which of the two.
    pub fn suspend(reason: impl Into<String>) -> Self {
        Self::Suspend(reason.into())
    }
}

/// One call of a step's code: its input and output, why it is called, and what it asks for.
pub struct StepContext<A: Action> {
    /// The input; references are replaced by values.
    pub input: A::Input,
    /// The output so far. Its value at the end of the call is stored, also if the call fails or
    /// suspends.
    pub output: A::Output,
    /// Aside: the future of a call holds them twice otherwise.
    pub(super) facts: Box<Facts>,
    pub(super) wishes: Wishes,
}

/// Facts about a call.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) plan: PlanId,
    pub(crate) step: StepId,
    pub(crate) action: ActionId,
    pub(crate) attempt: u32,
    pub(crate) is_first_call: bool,
    /// Run of the plan.
    pub(crate) run: u32,
    pub(crate) event: Option<Event>,
    pub(crate) now: Time,
    pub(crate) cause: Cause,
    pub(crate) cancelled: CancelFlag,
    pub(crate) sub_plans: SubPlanCounts,
    pub(crate) asked: Option<AskedFacts>,
    pub(crate) ids: Arc<Ids>,
    /// Details of the last heartbeat.
    pub(crate) beat: Option<Payload>,
    pub(crate) world: Weak<Shared>,
    /// Bytes of the plan's chunks when the call began.
    pub(crate) chunk_bytes: u64,
    /// The trace that it belongs to, with the call as its parent.
    pub(crate) trace: Option<TraceContext>,
    /// Of a compensation: why the step has failed.
    pub(crate) failure: Option<ActionError>,
    /// The input of the plan's root action.
    pub(crate) root: Payload,
    /// When the plan came into being.
    pub(crate) created_at: Time,
}

/// Commands of a call; they take effect when its end is durable.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes {
    pub(crate) progress: Option<u32>,
    pub(crate) timers: Vec<(Time, Payload)>,
    /// Events to other plans: the plan, the action of the step, the id of the event, its content.
    pub(crate) sends: Vec<(EventTarget, &'static str, String, Payload)>,
    /// Names and keys of the promises that the step waits for.
    pub(crate) promises: Vec<(String, String)>,
    /// Timers with names, in the order of the commands: when they are due with their event, or
    /// cancelled.
    pub(crate) named_timers: Vec<(String, Option<(Time, Payload)>)>,
    /// Whether these timers take the place of those that the step has.
    pub(crate) only_timers: bool,
    pub(crate) plans: Triggered,
    pub(crate) places: Places,
    pub(crate) at_once: Option<u32>,
    pub(crate) parts: Vec<Part>,
    /// Parts that are no longer wanted, and why those of them have failed that have.
    pub(crate) drops: Vec<(u32, Option<ActionError>)>,
    pub(crate) chunks: Vec<ChunkLine>,
    /// Whether the event of this call is no dead letter if the step fails by it for good.
    pub(crate) event_is_understood: bool,
    /// The root action and the input of the next run of the plan.
    pub(crate) continues: Option<(&'static str, Payload)>,
    /// Lines for the history of the plan.
    pub(crate) notes: Vec<String>,
    pub(crate) when_taken: Option<Taken>,
    pub(crate) when_stored: Option<Stored>,
}

/// A step of another action that a call asks for.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) tag: u32,
    pub(crate) action: &'static str,
    pub(crate) input: Payload,
}

impl<A: Action> fmt::Debug for StepContext<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepContext")
            .field("action", &A::NAME)
            .field("facts", &self.facts)
            .finish_non_exhaustive()
    }
}

impl<A: Action> StepContext<A> {
    /// The plan.
    pub fn plan_id(&self) -> PlanId {
        self.facts.plan
    }

    /// The W3C trace of the plan, with this call as the parent, for outgoing requests: the given one,
    /// else one of its own, whose id is that of the first plan above it. Messages to actors carry it by
    /// themselves if it was given or spans are taken.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.facts.trace.as_ref()
    }

    /// The step.
    pub fn step_id(&self) -> StepId {
        self.facts.step
    }

    /// The action's id in the plan.
    pub fn action_id(&self) -> ActionId {
        self.facts.action
    }

    /// 1 for the first time; one more after each failure, and after a crash in which the call
    /// before may or may not have had its effect.
    pub fn attempt(&self) -> u32 {
        self.facts.attempt
    }

    /// Whether the step's code was never called before, also not before a crash.
    pub fn is_first_call(&self) -> bool {
        self.facts.is_first_call
    }

    /// The same text for every attempt of this step, and for no other step: give it to a service
    /// that takes idempotency keys, and its effect happens once. A compensation sees the key of the
    /// step that it takes back: a service that keeps one answer for each key needs another one for
    /// it.
    pub fn idempotency_key(&self) -> String {
        let (plan, step) = (self.facts.plan, self.facts.step);
        match self.facts.run {
            1 => format!("{plan}/{step}"),
            run => format!("{plan}/run {run}/{step}"),
        }
    }

    /// Number of the plan's run: 1, and one more after each
    /// [`continue_as_new`](Self::continue_as_new).
    pub fn run_number(&self) -> u32 {
        self.facts.run
    }

    /// Restarts the plan when all its steps are done, instead of ending it: its root action is
    /// planned again, with this input. So plans that run for years stay small: the input holds
    /// their state, and the steps, outputs and sub-plans of former runs are only in the journal.
    ///
    /// The plan keeps its id, key, labels, locks, deadline and output stream, and waiters for its
    /// end wait for the end of the last run. Its history has all runs. The [idempotency
    /// keys](Self::idempotency_key) of a run's steps are its own. It takes effect when this call
    /// ends with success, and not if the plan is cancelled; of several calls the last one counts.
    /// If the next run cannot be planned, or would need other locks, the plan ends with that error.
    ///
    /// ```
    /// use turnwheel_engine::{Action, ActionError, Next, RunAsync, RunsAsync, StepContext};
    ///
    /// /// Counts events, a thousand in each run.
    /// struct Meter;
    /// # impl Action for Meter {
    /// #     const NAME: &'static str = "meter";
    /// #     type Input = u64;
    /// #     type Output = u64;
    /// #     type Phases = RunsAsync;
    /// # }
    ///
    /// impl RunAsync for Meter {
    ///     async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
    ///         step.output += u64::from(step.has_event());
    ///         if step.output < 1_000 {
    ///             return Ok(step.wait_for_event("a reading"));
    ///         }
    ///         let counted = step.input + step.output;
    ///         step.continue_as_new::<Self>(&counted)?;
    ///         Ok(Next::Done)
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The input cannot be written as JSON.
    pub fn continue_as_new<R: Action>(&mut self, input: &R::Input) -> Result<(), ActionError> {
        let input = Payload::of(input).map_err(|error| error.of("the input", R::NAME))?;
        self.wishes.continues = Some((R::NAME, input));
        Ok(())
    }

    /// Wall time when the call began.
    pub fn now(&self) -> Time {
        self.facts.now
    }

    /// Why the code is called.
    pub fn cause(&self) -> Cause {
        self.facts.cause
    }

    /// The input of the plan's root action, as it was given.
    ///
    /// # Errors
    ///
    /// It cannot be understood as this type.
    pub fn plan_input<T: DeserializeOwned>(&self) -> Result<T, ActionError> {
        Ok(self.facts.root.read()?)
    }

    pub(crate) fn root(&self) -> &Payload {
        &self.facts.root
    }

    /// When the plan came into being.
    pub fn plan_created_at(&self) -> Time {
        self.facts.created_at
    }

    /// Whether somebody wants the plan to end, or does not wait for this call any longer. Code that
    /// takes long should look from time to time, and return.
    pub fn is_cancelled(&self) -> bool {
        self.facts.cancelled.is_set()
    }

    /// In a compensation, and in a call with [`Cause::Skip`]: why the run step has failed, if it
    /// has. It may have had its effect or not.
    pub fn failure(&self) -> Option<&ActionError> {
        self.facts.failure.as_ref()
    }

    /// Whether the call is for an event.
    pub fn has_event(&self) -> bool {
        self.facts.event.is_some()
    }

    /// Says that the event of this call was understood: if the step fails for good with this call,
    /// because the event told it to, the event is no dead letter. Without it an event that a step
    /// ends with by a failure is kept for people, as one that nobody could handle.
    pub fn event_is_understood(&mut self) {
        self.wishes.event_is_understood = true;
    }

    /// The event that the call is for.
    ///
    /// # Errors
    ///
    /// There is one and it cannot be understood as this type.
    pub fn event<E: DeserializeOwned>(&self) -> Result<Option<E>, ActionError> {
        match &self.facts.event {
            None => Ok(None),
            Some(event) => Ok(Some(event.payload.read()?)),
        }
    }

    /// Asks for a step of another action in the same plan. When the call ends with
    /// [`Next::suspend`], it begins, at the same time as others; when it has ended well or was left
    /// out, this step gets a [part](StepContext::part) as an event. `tag` is what this step calls
    /// it. Its action does not plan: only its run phase is called. When this step ends, what it has
    /// asked for and is not over is dropped.
    ///
    /// A step that fails is none of these ends: when nothing else is under way, and this step waits
    /// for no timer and no plan, the failure is [rescued](Action::rescue) as any other. In a paused
    /// plan this step goes on waiting; when what it waits for was taken back, it has failed as
    /// well.
    ///
    /// # Errors
    ///
    /// The input cannot be written as JSON.
    pub fn ask<B: Action>(&mut self, tag: u32, input: &B::Input) -> Result<(), ActionError> {
        let input = Payload::of(input).map_err(|error| error.of("the input", B::NAME))?;
        self.wishes.parts.push(Part { tag, action: B::NAME, input });
        Ok(())
    }

    /// Drops the step of this name that this one has asked for, if it is not over, with all that it
    /// has asked for. Code that runs is told by [`StepContext::is_cancelled`], and not waited for.
    /// Nor are plans that it has asked for, which are cancelled.
    pub fn drop_part(&mut self, tag: u32) {
        self.wishes.drops.push((tag, None));
    }

    /// Drops it likewise, and shows it as failed for this reason: the plan goes on without it.
    pub fn fail_part(&mut self, tag: u32, error: ActionError) {
        self.wishes.drops.push((tag, Some(error)));
    }

    /// The name and output of the step that the call's event tells of, if it is for one of those
    /// that this step has [asked for](StepContext::ask); a step that was left out has none.
    pub fn part<T: DeserializeOwned>(&self) -> Option<(u32, Option<T>)> {
        let event = self.facts.event.as_ref()?;
        let ended: PartEnded<serde_json::Value> = event.payload.read().ok()?;
        let output = (ended.state == StepState::Success).then_some(ended.output);
        Some((ended.part, output.and_then(|output| serde_json::from_value(output).ok())))
    }

    /// Numbers of this step's sub-plans by state, in their newest round: those that it has asked
    /// for since it was told of earlier ones, or since it began anew after a failure, and those
    /// that were not over by then. A retry of a call that was told of its sub-plans is told the same
    /// again; plans that it asks for then count in place of those.
    /// [`PlanView`](crate::PlanView) counts all.
    pub fn sub_plans(&self) -> SubPlanCounts {
        self.facts.sub_plans
    }

    /// Ends the call, and suspends the step until its sub-plans are over. It is then called with
    /// [`Cause::SubPlans`]; at once if there are none.
    ///
    /// ```
    /// use turnwheel_engine::{Action, ActionError, Cause, Next, RunAsync, RunsAsync, StepContext};
    ///
    /// /// Does its parts in plans of their own, all of which must succeed.
    /// struct Parts;
    /// # impl Action for Parts {
    /// #     const NAME: &'static str = "parts";
    /// #     type Input = Vec<u32>;
    /// #     type Output = u32;
    /// #     type Phases = RunsAsync;
    /// # }
    ///
    /// impl RunAsync for Parts {
    ///     async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
    ///         if step.cause() == Cause::SubPlans {
    ///             step.output = step.sub_plans().success;
    ///             return Ok(Next::Done);
    ///         }
    ///         for _ in 0..step.input.len() {
    ///             step.trigger::<Self>(&Vec::new())?;
    ///         }
    ///         // An empty list is no special case.
    ///         Ok(step.wait_for_sub_plans())
    ///     }
    /// }
    /// ```
    pub fn wait_for_sub_plans(&self) -> Next {
        Next::SubPlans
    }

    /// Ends the call, and suspends the step until an event comes: one that is
    /// [sent](crate::World::event), or one of a timer. `what` names the event for people.
    ///
    /// While a plan lives, an event can be sent by its id, so most steps may always wait. A step
    /// whose action [takes no events](Action::takes_events) may wait for its own timers, parts and
    /// sub-plans only: without any of them it fails at once with the kind `no_event`, because it
    /// would wait for ever.
    pub fn wait_for_event(&self, what: impl Into<String>) -> Next {
        Next::Event(what.into())
    }

    /// Sends this step an event after a delay; durable, never early. An event that comes after the
    /// end of the step is dropped.
    ///
    /// # Errors
    ///
    /// The event cannot be written as JSON.
    pub fn event_after<E: Serialize>(
        &mut self,
        delay: Duration,
        event: &E,
    ) -> Result<(), ActionError> {
        let due = self.facts.now.after(delay);
        let event = Payload::of(event).map_err(|error| error.of("an event", A::NAME))?;
        self.wishes.timers.push((due, event));
        Ok(())
    }

    /// As [`event_after`](Self::event_after) for a timer with a name: it replaces the timer that
    /// the step has set by this name before, which fires no more. So it is also moved: set it
    /// again.
    ///
    /// ```
    /// use std::time::Duration;
    /// use turnwheel_engine::{action, ActionError, Next, StepContext};
    ///
    /// /// Ends a minute after the last sign of somebody.
    /// #[action(output = u32)]
    /// async fn session(step: &mut StepContext<Session>) -> Result<Next, ActionError> {
    ///     if step.timer() == Some("idle") {
    ///         return Ok(Next::Done);
    ///     }
    ///     step.output += 1;
    ///     step.set_timer("idle", Duration::from_secs(60), &())?;
    ///     Ok(step.wait_for_event("a sign of somebody"))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The event cannot be written as JSON, or the name is too long.
    pub fn set_timer<E: Serialize>(
        &mut self,
        name: &str,
        delay: Duration,
        event: &E,
    ) -> Result<(), ActionError> {
        TextTooLong::check("name of a timer", name, NAME_BYTES_MAX)
            .map_err(|error| ActionError::new("timer", error).and_final())?;
        let due = self.facts.now.after(delay);
        let event = Payload::of(event).map_err(|error| error.of("an event", A::NAME))?;
        self.wishes.named_timers.push((name.to_owned(), Some((due, event))));
        Ok(())
    }

    /// Cancels the timer of this name, when the end of this call is durable: it never fires after
    /// that, also after a crash. An event of it that waits for the end of this call is dropped.
    /// Without such a timer nothing happens.
    pub fn cancel_timer(&mut self, name: &str) {
        self.wishes.named_timers.push((name.to_owned(), None));
    }

    /// The name of the timer that the call's event is of, if it is of one with a name.
    pub fn timer(&self) -> Option<&str> {
        self.facts.event.as_ref().filter(|event| event.is_own)?.id.as_deref()
    }

    /// Work in memory for when the plan takes the end of this call.
    pub(crate) fn when_taken(&mut self, work: impl Fn() + Send + Sync + 'static) {
        self.wishes.when_taken = Some(Taken(Arc::new(work)));
    }

    /// Work in memory for when the end of this call is durable.
    pub(crate) fn when_stored(&mut self, work: impl FnOnce() + Send + 'static) {
        self.wishes.when_stored = Some(Stored::new(work));
    }

    /// Adds a line to the history of the plan, however the call ends. The entire history is in
    /// memory: callers must limit the number of lines.
    pub(crate) fn note(&mut self, text: String) {
        self.wishes.notes.push(text);
    }

    /// As [`StepContext::event_after`]; replaces an earlier timer, so that an extra call, by
    /// another event or after a crash, leaves only one timer.
    pub(super) fn only_event_after<E: Serialize>(
        &mut self,
        delay: Duration,
        event: &E,
    ) -> Result<(), ActionError> {
        self.wishes.only_timers = true;
        self.event_after(delay, event)
    }

    /// Sets the progress of the step, from 0 to 1. Not a number counts as 0.
    pub fn set_progress(&mut self, progress: f64) {
        let progress = if progress.is_finite() { progress.clamp(0.0, 1.0) } else { 0.0 };
        self.wishes.progress = Some((progress * 1_000.0) as u32);
    }
}

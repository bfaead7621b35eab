//! Records of the journal: the full state of a plan follows from them.
//!
//! A record is appended and never changed. Variants are only added at the end, and the fields of one
//! stay as they are: the bytes of an older version must be readable by every later one.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::asked::SubPlan;
use super::flow::Flow;
use super::grow::GrownStep;
use super::hooks::HookDue;
use super::outbox::{DeliveredEvent, SentEvent};
use super::promises::Promised;
use super::retimed::Retimed;
use super::state::{PlanResult, PlanState, StepKind, StepState};
use super::trace::Trace;
use crate::action::{Cause, PlanLock, Rescue};
use crate::error::ActionError;
use crate::id::{ActionId, PlanId, StepId};
use crate::payload::Payload;
use crate::time::Time;

/// One thing that happened to a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// The plan came into being.
    Created(Box<Created>),
    /// Planning ended, well or not: all actions and steps.
    Planned(Box<Planned>),
    /// The plan went into another state.
    Became {
        /// The state.
        state: PlanState,
        /// When.
        at: Time,
        /// Author and reason.
        why: String,
    },
    /// The code of a step is about to be called. After a crash this shows that it may have run.
    Started {
        /// The step.
        step: StepId,
        /// When.
        at: Time,
        /// When it must be done, if there is a limit and it was not set before.
        limit: Option<Time>,
        /// Why.
        cause: Cause,
        /// Maximum time between heartbeats, if they are required.
        silence: Option<Duration>,
    },
    /// The code of a step has ended.
    Ended {
        /// The step.
        step: StepId,
        /// When.
        at: Time,
        /// Run time in microseconds.
        ran_us: u64,
        /// How the call ended.
        end: End,
        /// Its output, if it changed.
        output: Option<Payload>,
    },
    /// An event has arrived for a step and waits for it.
    Event {
        /// The step.
        step: StepId,
        /// When.
        at: Time,
        /// Id of the event: a second one with the same id is dropped.
        id: Option<String>,
        /// Content of the event.
        payload: Payload,
        /// Sender; `None` for the program itself.
        by: Option<String>,
    },
    /// A step is to get an event at a time.
    TimerSet {
        /// Counted from 1 in the plan.
        timer: u32,
        /// The step.
        step: StepId,
        /// When it is due.
        due: Time,
        /// The event.
        payload: Payload,
    },
    /// A timer is over: its event waits for the step, if that still takes events.
    TimerFired {
        /// Number of the timer.
        timer: u32,
        /// When.
        at: Time,
    },
    /// A timer was taken back.
    TimerCancelled {
        /// Number of the timer.
        timer: u32,
    },
    /// The world that ran a step is gone; the step may or may not have had its effect.
    Interrupted {
        /// The step.
        step: StepId,
        /// When that was noticed.
        at: Time,
        /// Why it has failed by that; `None` if it is called again.
        error: Option<ActionError>,
    },
    /// Steps were put into a state by somebody or something other than their code.
    Marked {
        /// The steps.
        steps: Vec<StepId>,
        /// The state.
        state: StepState,
        /// When.
        at: Time,
        /// Author and reason.
        why: String,
    },
    /// Failed steps are dealt with by policy or by somebody.
    Rescued {
        /// When.
        at: Time,
        /// The chosen treatment.
        how: Rescue,
        /// The steps that had failed.
        steps: Vec<StepId>,
        /// Author of the decision.
        by: String,
    },
    /// The compensation of a step is about to be called.
    Reverting {
        /// The step.
        step: StepId,
        /// When.
        at: Time,
    },
    /// Somebody wants the plan to end.
    CancelRequested {
        /// When.
        at: Time,
        /// Author.
        by: String,
        /// Whether code that runs is not waited for.
        is_forced: bool,
    },
    /// Steps are as if they had not begun.
    Reset {
        /// When.
        at: Time,
        /// The steps.
        steps: Vec<StepId>,
        /// Author and reason.
        why: String,
    },
    /// The input of an action was changed by somebody.
    InputEdited {
        /// When.
        at: Time,
        /// The action.
        action: ActionId,
        /// The new one.
        input: Payload,
        /// Author.
        by: String,
    },
    /// A step has asked for plans of their own, and waits for their ends.
    SubPlans {
        /// When.
        at: Time,
        /// The step.
        step: StepId,
        /// The plans.
        plans: Vec<SubPlan>,
        /// Maximum number of the step's sub-plans at once; `None` for all.
        at_once: Option<u32>,
    },
    /// A plan that this one waits for is over, or will never be.
    PlanEnded {
        /// When that was known here.
        at: Time,
        /// The plan.
        plan: PlanId,
        /// Its result.
        result: PlanResult,
    },
    /// The plan is to be planned later.
    Delayed {
        /// When it was decided.
        at: Time,
        /// Not before this.
        start_at: Option<Time>,
        /// Not after this.
        start_before: Option<Time>,
        /// Not before these plans are over.
        after: Vec<PlanId>,
        /// Not before somebody allows it.
        is_frozen: bool,
        /// Author.
        by: String,
    },
    /// The plan will not be planned.
    NotPlanned {
        /// When.
        at: Time,
        /// Why.
        error: ActionError,
    },
    /// Something worth remembering that changes nothing.
    Note {
        /// When.
        at: Time,
        /// The event and its author.
        text: String,
    },
    /// A step that has started waits for a place in a queue: its code was not called.
    Queued {
        /// The step.
        step: StepId,
        /// When.
        at: Time,
        /// The queue.
        queue: String,
    },
    /// A step that has waited has got its place: its code is about to be called.
    Admitted {
        /// The step.
        step: StepId,
        /// When.
        at: Time,
    },
    /// Hooks are to be told of changes of this entry.
    HooksDue {
        /// The changes.
        changes: Vec<HookDue>,
    },
    /// Hooks were told.
    HooksDone {
        /// The number of the last change that they were told of.
        last: u32,
    },
    /// The input and output of an action were made those of another version of it.
    Migrated {
        /// When.
        at: Time,
        /// The action.
        action: ActionId,
        /// The new version.
        version: u32,
        /// The new input.
        input: Payload,
        /// The new output.
        output: Payload,
    },
    /// A step has given a sign of life, or is taken to have.
    Beat {
        /// The step.
        step: StepId,
        /// When.
        at: Time,
        /// Details of the heartbeat.
        details: Option<Payload>,
    },
    /// A step has given no sign of life for too long: the attempt is over, whatever becomes of its code.
    Silent {
        /// The step.
        step: StepId,
        /// When that was noticed.
        at: Time,
        /// Why it has failed by that; `None` if it is called again.
        error: Option<ActionError>,
    },
    /// Somebody has changed the labels of the plan.
    Labelled {
        /// When.
        at: Time,
        /// New labels, and labels with another value.
        set: Vec<(String, String)>,
        /// Removed labels.
        removed: Vec<String>,
        /// Author.
        by: String,
    },
    /// A step has asked for steps of other actions, which begin now.
    Grown {
        /// When.
        at: Time,
        /// The step that asks.
        asker: StepId,
        /// The added steps.
        steps: Vec<GrownStep>,
    },
    /// The code of a step has added a chunk to the output stream of the plan.
    Chunk {
        /// The step.
        step: StepId,
        /// Number of the attempt.
        attempt: u32,
        /// When.
        at: Time,
        /// Kind of the chunk, for readers.
        kind: String,
        /// Content.
        data: Payload,
    },
    /// The chunks before are gone.
    ChunksDropped {
        /// When.
        at: Time,
        /// The step that wanted it.
        step: StepId,
    },
    /// Plans that a call has asked for, written before its end: they count with its
    /// [`SubPlans`](Self::SubPlans), and if that does not come they were not asked for.
    SubPlansAhead {
        /// The step.
        step: StepId,
        /// The plans.
        plans: Vec<SubPlan>,
    },
    /// The turn of plans has come whose contents an earlier entry has.
    SubPlansNext {
        /// The step that has asked for them.
        step: StepId,
        /// The page that they are in: the pages of a plan are counted from 1.
        page: u32,
        /// The plans, by the names of their root actions.
        plans: Vec<(String, Vec<PlanId>)>,
    },
    /// Plans that a step has asked for and that have not begun will not be made.
    SubPlansDropped {
        /// When.
        at: Time,
        /// The step.
        step: StepId,
        /// Only those of this page, because it cannot be read.
        page: Option<u32>,
        /// Why.
        why: String,
    },
    /// A step wants the plan to begin anew when all its steps are done.
    ContinueAsNew {
        /// When.
        at: Time,
        /// The step.
        step: StepId,
        /// The input of the root action of the next run.
        input: Payload,
    },
    /// The plan begins anew: one run of it is over, and the next one is planned.
    ContinuedAsNew {
        /// When.
        at: Time,
        /// The number of the new run: the first one is 1.
        run: u32,
        /// Result of the planning.
        planned: Box<Planned>,
    },
    /// A step has set a timer by name, or taken it back: it replaces the one of that name, with its
    /// event if that waits for the step.
    TimerNamed {
        /// The step.
        step: StepId,
        /// The name.
        name: String,
        /// Its number, when it is due, and its event; `None` if there is none any more.
        set: Option<(u32, Time, Payload)>,
    },
    /// A step waits for a promise by name and key, or its value waits as an event.
    Promised(Box<Promised>),
    /// A step sends an event to another plan: it is on its way when this is durable.
    Sent(Box<SentEvent>),
    /// A sent event was delivered, or cannot be.
    Delivered(Box<DeliveredEvent>),
    /// A call has asked for plans by key: all that it has asked for, in their order, new ones and
    /// those that an earlier call has asked for. The new ones are in the
    /// [`SubPlans`](Self::SubPlans) after it.
    SubPlansNamed {
        /// The step.
        step: StepId,
        /// The plans with their keys.
        plans: Vec<(PlanId, Option<String>)>,
    },
    /// The clock was set, and times that were counted from it move.
    Retimed(Box<Retimed>),
    /// An order of another node was carried out: a second one with this id is dropped.
    Ordered(String),
}

/// The begin of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Created {
    /// When.
    pub at: Time,
    /// Name of the root action.
    pub action: String,
    /// Its input, as given.
    pub input: Payload,
    /// The plan and step that triggered it.
    pub caller: Option<(PlanId, StepId)>,
    /// The plans that wait for its end: its caller, last, the caller of that, and so on.
    pub lineage: Vec<PlanId>,
    /// The idempotency key of the trigger.
    pub key: Option<String>,
    /// Labels for search.
    pub labels: Vec<(String, String)>,
    /// The principal or plan that triggered it.
    pub by: String,
    /// Its steps get places in queues before those of plans with lower ones.
    pub priority: i32,
    /// When it is cancelled if it is still running.
    pub deadline: Option<Time>,
    /// The trace that it belongs to.
    pub trace: Option<Trace>,
}

/// Result of the planning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// When it began.
    pub began: Time,
    /// When it ended.
    pub at: Time,
    /// Label of the plan.
    pub label: String,
    /// All actions; the first is the root.
    pub actions: Vec<PlannedAction>,
    /// All steps.
    pub steps: Vec<PlannedStep>,
    /// The flow of the run phase.
    pub run: Flow,
    /// The steps of the finalize phase, in their order.
    pub finalize: Vec<StepId>,
    /// The error, if planning failed.
    pub error: Option<ActionError>,
    /// Locks that it holds while it is under way.
    pub locks: Vec<PlanLock>,
}

/// An action of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedAction {
    /// Its name.
    pub name: String,
    /// The version that planned it.
    pub version: u32,
    /// The action that planned it.
    pub parent: Option<ActionId>,
    /// Its input; places of outputs that are not there yet hold references.
    pub input: Payload,
    /// The run steps whose outputs its input names.
    pub needs: Vec<StepId>,
}

/// A step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedStep {
    /// Phase of the action.
    pub kind: StepKind,
    /// Of which action.
    pub action: ActionId,
    /// Its share of the progress, in thousandths.
    pub weight: u32,
    /// The queue that its code runs in.
    pub queue: String,
    /// The error of a plan step.
    pub error: Option<ActionError>,
}

/// How a call of a step's code ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// Well.
    Success,
    /// It waits for an event.
    Suspended {
        /// Awaited event, for people.
        reason: String,
        /// Progress in thousandths, if it was set.
        progress: Option<u32>,
    },
    /// It has ended because the plan is being cancelled.
    Cancelled,
    /// It has cleaned up and is left out.
    Skipped,
    /// It failed.
    Failed(ActionError),
    /// It failed and is tried again at this time.
    Retry {
        /// The error.
        error: ActionError,
        /// When.
        at: Time,
    },
    /// It failed before its code was called, and so in every attempt.
    NotCalled(ActionError),
}

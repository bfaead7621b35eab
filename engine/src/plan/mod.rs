//! A plan: its actions, steps and flow, and how each record changes them.
//!
//! | part | content |
//! | --- | --- |
//! | [`Record`] | one thing that happened, as the journal keeps it |
//! | [`Plan`] | the state that follows from the records of one plan |
//! | [`Flow`], `graph` | order of steps |
//! | [`Planner`] | makes the actions and steps of a plan while its actions plan |
//!
//! Only `Plan::apply` changes a plan in memory, so that decided and re-read states cannot differ.
//! Module `run` decides the next steps.

mod apply;
mod around;
mod asked;
mod beat;
mod called;
mod children;
mod continued;
mod extend;
mod flow;
mod grow;
mod hooks;
mod mark;
mod more;
mod outbox;
mod pages;
mod planner;
mod promises;
mod queued;
mod record;
mod reference;
mod retimed;
mod revert;
mod seen;
mod state;
mod step;
mod timers;
mod trace;
mod unwanted;
mod waits;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(crate) use apply::Inconsistent;
pub(crate) use asked::{AskedFacts, Ids, Named, Place};
pub use asked::{SubPlan, SubPlanLabels};
pub use beat::Beat;
pub(crate) use children::Children;
pub use children::{Child, Delayed, SubPlanCounts};
pub(crate) use extend::Extensions;
pub use flow::Flow;
pub(crate) use flow::Graph;
pub use grow::GrownStep;
pub(crate) use grow::PartEnded;
pub use hooks::HookDue;
pub(crate) use hooks::{changes, HooksDue};
pub use outbox::{DeliveredEvent, EventTarget, SentEvent};
pub(crate) use planner::{plan_alone, plan_root};
pub use planner::{ActionRef, Planner};
pub use promises::Promised;
pub(crate) use promises::{is_promise, label_of};
pub use record::{Created, End, Planned, PlannedAction, PlannedStep, Record};
pub(crate) use reference::{needs_of, resolve};
pub use reference::{Input, OutputRef};
pub use retimed::Retimed;
pub use state::{PlanResult, PlanState, StepKind, StepState};
pub use step::{ActionData, Event, PlanTimer, Step};
pub use trace::Trace;
pub use waits::Waiting;

use self::seen::Seen;
use crate::action::PlanLock;
use crate::error::ActionError;
use crate::id::{ActionId, PlanId, StepId};
use crate::payload::Payload;
use crate::time::Time;

/// A plan as its records tell it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// Its id.
    pub id: PlanId,
    /// Its first record.
    pub created: Created,
    /// Its label: the name of its root action, or the label that this sets.
    pub label: String,
    /// Its state.
    pub state: PlanState,
    /// When its planning began.
    pub started_at: Option<Time>,
    /// When it was stopped.
    pub ended_at: Option<Time>,
    /// Its actions; the first is the root.
    pub actions: Vec<ActionData>,
    /// Its steps.
    pub steps: Vec<Step>,
    /// The flow of its run phase.
    pub run: Flow,
    /// The steps of its finalize phase.
    pub finalize: Vec<StepId>,
    /// Why planning failed.
    pub planning_error: Option<ActionError>,
    /// Locks that it holds while it is under way.
    pub locks: Vec<PlanLock>,
    /// Chunks in its output stream.
    pub chunks: u64,
    /// Bytes of all that were added, also of those that were dropped.
    pub(crate) chunk_bytes: u64,
    /// Labels for searches; tags have empty values.
    pub labels: BTreeMap<String, String>,
    /// History for people: the newest lines, at least [`HISTORY_KEPT`](crate::limits::HISTORY_KEPT)
    /// if there were so many. The full history is in
    /// [`PlanHandle::history`](crate::PlanHandle::history).
    pub history: Vec<Entry>,
    /// Older lines that are not kept.
    pub history_left_out: u64,
    /// Timers that are not over.
    pub timers: BTreeMap<u32, PlanTimer>,
    pub(crate) last_timer: u32,
    /// Names of timers; snapshots have them [behind the plan](Plan::more).
    #[serde(skip)]
    timer_names: BTreeMap<u32, String>,
    /// The steps that wait for promises, by name and key.
    #[serde(skip)]
    promises: BTreeMap<(String, String), StepId>,
    /// Events to other plans that are not delivered.
    #[serde(skip)]
    outbox: BTreeMap<u32, SentEvent>,
    #[serde(skip)]
    pub(crate) last_sent: u32,
    /// The request to cancel it, if there is one.
    pub cancel: Option<Cancel>,
    /// Whether what was done is being taken back.
    pub is_reverting: bool,
    pub(crate) last_order: u32,
    /// When it is to be planned, if it was to be planned later.
    pub delayed: Option<Delayed>,
    pub(crate) children: Children,
    /// Number of its run: more than 1 after
    /// [`continue_as_new`](crate::StepContext::continue_as_new).
    pub run_number: u32,
    /// The input of the next run, if a step has asked for one.
    pub(crate) continues: Option<Payload>,
    pub(crate) hooks_due: HooksDue,
    /// How often steps were not done within their limits, since they ended well or the plan was
    /// resumed.
    #[serde(skip)]
    pub(crate) timeouts: BTreeMap<StepId, u32>,
    /// The ids of orders that came from other nodes.
    #[serde(skip)]
    pub(crate) ordered: Seen,
    #[serde(skip)]
    graph: Graph,
    #[serde(skip)]
    ready: VecDeque<StepId>,
    /// Empty: room for the steps that a change makes ready.
    #[serde(skip)]
    released: Vec<StepId>,
    #[serde(skip)]
    counts: Counts,
    /// When steps are tried again, or must be done.
    #[serde(skip)]
    alarms: BTreeSet<(Time, StepId)>,
    /// Steps that wait for places in queues.
    #[serde(skip)]
    queued: BTreeSet<StepId>,
    /// Events that no step has taken, since this was asked.
    #[serde(skip)]
    left_behind: Vec<(StepId, Event)>,
    /// Why its newest changes are not durable, if the store fails.
    #[serde(skip)]
    pub(crate) trouble: Option<String>,
    /// The lock that it waits for, and the plan that has it, for people.
    #[serde(skip)]
    pub(crate) locked_by: Option<String>,
}

/// A request to end a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    /// When.
    pub at: Time,
    /// The principal.
    pub by: String,
    /// Whether code that runs is not waited for.
    pub is_forced: bool,
}

/// A line of a plan's history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When.
    pub at: Time,
    /// The event, its author and reason.
    pub text: String,
}

/// Number of steps in each state, kept up to date so that no scan is needed.
#[derive(Clone, Copy, Debug, Default)]
struct Counts([u32; StepState::COUNT]);

impl Counts {
    fn of(&self, states: &[StepState]) -> u32 {
        states.iter().map(|state| self.0[*state as usize]).sum()
    }
}

impl Plan {
    /// Events that steps have left behind when they ended, since this was asked.
    /// A step has understood the event that it ended with: that is not left behind. Others are.
    pub(crate) fn forget_left_behind(&mut self, step: StepId) {
        if let Some(first) = self.left_behind.iter().position(|(left, _)| *left == step) {
            self.left_behind.remove(first);
        }
    }

    pub(crate) fn has_left_behind(&self) -> bool {
        !self.left_behind.is_empty()
    }

    pub(crate) fn take_left_behind(&mut self) -> Vec<(StepId, Event)> {
        std::mem::take(&mut self.left_behind)
    }

    /// A step by its id.
    ///
    /// # Panics
    ///
    /// There is no such step.
    pub fn step(&self, id: StepId) -> &Step {
        &self.steps[id.index()]
    }

    /// A step, if the plan has it.
    pub fn find_step(&self, id: StepId) -> Option<&Step> {
        (id.0 > 0).then(|| self.steps.get(id.index())).flatten()
    }

    /// An action by its id.
    ///
    /// # Panics
    ///
    /// There is no such action.
    pub fn action(&self, id: ActionId) -> &ActionData {
        &self.actions[id.index()]
    }

    /// The root action, once the plan is planned.
    pub fn root(&self) -> Option<&ActionData> {
        self.actions.first()
    }

    /// Its result so far. The first that holds: a step was cancelled; a compensation failed; the
    /// work was reverted; a step failed; one was skipped; all succeeded; else it is pending.
    pub fn result(&self) -> PlanResult {
        let has = |states: &[StepState]| self.counts.of(states) > 0;
        if has(&[StepState::Cancelled]) || (self.cancel.is_some() && self.steps.is_empty()) {
            PlanResult::Cancelled
        } else if has(&[StepState::RevertFailed]) {
            PlanResult::Error
        } else if self.is_reverting && self.state == PlanState::Stopped {
            PlanResult::Reverted
        } else if self.planning_error.is_some() || has(&[StepState::Error]) {
            PlanResult::Error
        } else if has(&[StepState::Skipping, StepState::Skipped]) {
            PlanResult::Warning
        } else if !self.steps.is_empty()
            && self.counts.of(&[StepState::Success, StepState::Dropped]) as usize
                == self.steps.len()
        {
            PlanResult::Success
        } else {
            PlanResult::Pending
        }
    }

    /// The errors of its steps, in their order, each followed by that of its compensation.
    pub fn errors(&self) -> Vec<&ActionError> {
        self.steps.iter().flat_map(|step| step.error.iter().chain(&step.revert_error)).collect()
    }

    /// The steps that have failed.
    pub fn failed_steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| step.state == StepState::Error)
    }

    /// Its progress, from 0 to 1: the weighted progress of its run and finalize steps.
    pub fn progress(&self) -> f64 {
        if matches!(self.state, PlanState::Pending | PlanState::Planning | PlanState::Scheduled) {
            return 0.0;
        }
        let (mut done, mut all) = (0_u64, 0_u64);
        for step in self.steps.iter().filter(|step| step.kind != StepKind::Plan) {
            done += u64::from(self.done_thousandths(step)) * u64::from(step.weight);
            all += u64::from(step.weight) * 1_000;
        }
        if all == 0 {
            1.0
        } else {
            done as f64 / all as f64
        }
    }

    /// Progress of a step, in thousandths. For a step with sub-plans that sets none: the share of
    /// finished ones.
    pub fn done_thousandths(&self, step: &Step) -> u32 {
        let counts = self.children.counts(step.id);
        if !step.state.is_live() || step.progress.is_some() || counts.total == 0 {
            return step.done_thousandths();
        }
        let over = u64::from(counts.total - counts.pending);
        u32::try_from(over * 1_000 / u64::from(counts.total)).unwrap_or(1_000)
    }

    /// Total run time of the code of its steps.
    pub fn execution_time(&self) -> Duration {
        self.steps.iter().map(Step::execution_time).sum()
    }

    /// From the begin of planning to its end, waiting included.
    pub fn real_time(&self) -> Duration {
        match (self.started_at, self.ended_at) {
            (Some(started), Some(ended)) => ended.since(started),
            _ => Duration::ZERO,
        }
    }

    /// Children of an action: the actions that it planned itself.
    pub fn children(&self, parent: ActionId) -> impl Iterator<Item = &ActionData> {
        self.actions.iter().filter(move |action| action.parent == Some(parent))
    }

    /// When the plan has to do something by itself the next time.
    pub fn wakes_at(&self) -> Option<Time> {
        if self.state == PlanState::Scheduled {
            let delayed = self.delayed.as_ref().filter(|delayed| !delayed.is_frozen)?;
            let is_free = delayed.after.values().all(Option::is_some);
            return if is_free {
                Some(delayed.start_at.unwrap_or_default())
            } else {
                delayed.start_before
            };
        }
        if self.state != PlanState::Running {
            return None;
        }
        let timers = self.timers.values().map(|timer| timer.due).min();
        let alarms = self.alarms.first().map(|(at, _)| *at);
        let deadline = self.created.deadline.filter(|_| self.cancel.is_none());
        [timers, alarms, deadline].into_iter().flatten().min()
    }

    /// Steps whose time has come: to be tried again, or to be done.
    pub(crate) fn due(&self, now: Time) -> Vec<StepId> {
        self.alarms.iter().take_while(|(at, _)| *at <= now).map(|(_, step)| *step).collect()
    }

    /// The run steps that may begin now, in the order in which they became ready.
    pub(crate) fn next_ready(&self) -> Option<StepId> {
        self.ready.front().copied()
    }

    /// Whether some code runs.
    pub(crate) fn is_busy(&self) -> bool {
        self.counts.of(&[StepState::Running, StepState::Reverting]) > 0
    }

    /// Whether nothing is under way that ends by itself or by an event.
    pub(crate) fn is_settled(&self) -> bool {
        let waits = [StepState::Suspended, StepState::Retrying, StepState::RevertRetrying];
        !self.is_busy() && self.counts.of(&waits) == 0
    }

    /// Whether a run or finalize step has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.counts.of(&[StepState::Error]) > 0
    }

    /// A step and all that come after it, by the flow or because they need its output, and the
    /// finalize phase.
    pub(crate) fn after(&self, from: StepId) -> Vec<StepId> {
        let mut steps = self.new_graph().after(from);
        steps.extend(self.finalize.iter().copied().filter(|step| *step != from));
        steps
    }

    /// Steps in a state.
    pub(crate) fn in_state(&self, state: StepState) -> Vec<StepId> {
        if self.counts.of(&[state]) == 0 {
            return Vec::new();
        }
        self.steps.iter().filter(|step| step.state == state).map(|step| step.id).collect()
    }

    /// The next finalize step, if all before it are done.
    pub(crate) fn next_finalize(&self) -> Option<StepId> {
        self.finalize.iter().copied().find(|step| !self.step(*step).state.is_done())
    }
}

/// «1 step», «2 steps».
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

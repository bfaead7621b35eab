//! All that happened to a plan, and each call of each step.

use std::collections::{HashMap, VecDeque};

use serde::Serialize;

use super::timeline::{Bar, Span, SpanKind};
use super::{error_of, state_of, PlanHead, PlanTimeline};
use crate::error::{ActionError, StoreError};
use crate::id::{PlanId, StepId};
use crate::journal::decode;
use crate::limits::HISTORY_MAX;
use crate::plan::{Plan, Record, StepState};
use crate::time::Time;
use crate::watch::{apply_and_tell, Happening};

/// All that happened to a plan, as its journal tells it.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PlanHistory {
    /// The plan as of the last entry.
    pub plan: PlanHead,
    /// Happenings in order: the newest [`HISTORY_MAX`].
    pub happenings: Vec<Happening>,
    /// Number of older ones that are left out.
    pub left_out: u64,
    /// Each call of each step, in the order of their begins: the newest [`HISTORY_MAX`].
    pub calls: Vec<CallSpan>,
    /// Number of older calls that are left out.
    pub calls_left_out: u64,
    #[serde(skip)]
    state: Box<Plan>,
}

/// A call of a step's code, from its begin to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CallSpan {
    /// The step.
    pub step: StepId,
    /// Number of the call within the step, from 1.
    pub call: u32,
    /// Number of its attempt: failures and crashes begin a new one, events do not.
    pub attempt: u32,
    /// Why it was called.
    pub why: String,
    /// When it was decided; its code is called when that is durable.
    pub began: Time,
    /// When it got its place in the queue, if it had to wait for one.
    pub admitted: Option<Time>,
    /// When it ended; nothing while it runs.
    pub ended: Option<Time>,
    /// Run time of its code, in microseconds; 0 if unknown.
    pub ran_us: u64,
    /// The state of the step afterwards.
    pub state: StepState,
    /// Why it failed.
    pub error: Option<ActionError>,
    /// Whether it was a call of its compensation.
    pub is_revert: bool,
}

/// Reads the entries of a plan.
pub(crate) struct Telling {
    id: PlanId,
    plan: Option<Plan>,
    happenings: VecDeque<Happening>,
    left_out: u64,
    calls: VecDeque<CallSpan>,
    /// Number of dropped calls.
    gone: usize,
    /// The calls that have not ended, by their places from the first one.
    open: HashMap<StepId, usize>,
}

impl Telling {
    pub(crate) fn new(id: PlanId) -> Self {
        let (happenings, calls) = (VecDeque::new(), VecDeque::new());
        Self { id, plan: None, happenings, left_out: 0, calls, gone: 0, open: HashMap::new() }
    }

    pub(crate) fn entry(&mut self, seq: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let corrupt = |problem: String| StoreError::Corrupt(problem);
        for (index, record) in decode(self.id, bytes)?.iter().enumerate() {
            if let (None, Record::Created(created)) = (&self.plan, record) {
                self.plan = Some(Plan::begin(self.id, (**created).clone()));
            }
            let Some(plan) = &mut self.plan else {
                let problem = "its first record does not say how it began";
                return Err(corrupt(format!("plan {}: {problem}", self.id)));
            };
            let (happenings, left_out) = (&mut self.happenings, &mut self.left_out);
            let nth = happenings.back().filter(|last: &&Happening| last.cursor.seq == seq);
            let mut nth = nth.map_or(0, |last| last.cursor.nth + 1);
            let mut why = String::new();
            apply_and_tell(plan, std::slice::from_ref(record), seq, |mut happening| {
                happening.cursor.nth = nth;
                nth += 1;
                why.clone_from(&happening.why);
                happenings.push_back(happening);
                if happenings.len() > HISTORY_MAX {
                    happenings.pop_front();
                    *left_out += 1;
                }
            })
            .map_err(|error| corrupt(format!("record {index}: {error}")))?;
            self.call(record, &why);
        }
        Ok(())
    }

    fn call(&mut self, record: &Record, why: &str) {
        let Some(plan) = &self.plan else { return };
        match record {
            Record::Started { step, at, .. } | Record::Reverting { step, at, .. } => {
                let is_revert = matches!(record, Record::Reverting { .. });
                let known = plan.step(*step);
                self.open.insert(*step, self.gone + self.calls.len());
                self.calls.push_back(CallSpan {
                    step: *step,
                    call: known.calls,
                    attempt: known.attempt,
                    why: why.to_owned(),
                    began: *at,
                    admitted: None,
                    ended: None,
                    ran_us: 0,
                    state: known.state,
                    error: None,
                    is_revert,
                });
                if self.calls.len() > HISTORY_MAX {
                    self.calls.pop_front();
                    self.gone += 1;
                }
            }
            Record::Admitted { step, at } => {
                let open = self.open.get(step).and_then(|place| place.checked_sub(self.gone));
                if let Some(call) = open.and_then(|place| self.calls.get_mut(place)) {
                    call.admitted = Some(*at);
                }
            }
            Record::Ended { step, at, ran_us, .. } => self.ended(*step, *at, *ran_us),
            Record::Interrupted { step, at, .. } | Record::Silent { step, at, .. } => {
                self.ended(*step, *at, 0);
            }
            Record::Marked { steps, at, .. } | Record::Reset { steps, at, .. } => {
                for step in steps {
                    self.ended(*step, *at, 0);
                }
            }
            _ => {}
        }
    }

    fn ended(&mut self, step: StepId, at: Time, ran_us: u64) {
        let Some(place) = self.open.remove(&step) else { return };
        let (Some(plan), Some(place)) = (&self.plan, place.checked_sub(self.gone)) else { return };
        if let Some(call) = self.calls.get_mut(place) {
            let known = plan.step(step);
            let action = plan.action(known.action);
            // A task of a flow that has a fault has failed, though its step has ended well.
            (call.ended, call.ran_us, call.state) = (Some(at), ran_us, state_of(action, known));
            call.error = error_of(action, known);
        }
    }

    /// The history; `None` without entries.
    pub(crate) fn done(self) -> Option<PlanHistory> {
        let state = Box::new(self.plan?);
        Some(PlanHistory {
            plan: PlanHead::of(&state),
            happenings: self.happenings.into(),
            left_out: self.left_out,
            calls: self.calls.into(),
            calls_left_out: self.gone as u64,
            state,
        })
    }
}

impl PlanHistory {
    /// The calls of one step.
    pub fn calls_of(&self, step: StepId) -> impl Iterator<Item = &CallSpan> {
        self.calls.iter().filter(move |call| call.step == step)
    }

    /// The steps over time, with each call and what was waited for between.
    pub fn timeline(&self) -> PlanTimeline {
        let mut spans: HashMap<StepId, Vec<Span>> = HashMap::new();
        for call in &self.calls {
            let spans = spans.entry(call.step).or_default();
            if let Some(last) = spans.last_mut().filter(|last| last.to.is_none()) {
                last.to = Some(call.began);
            }
            let attempt = call.attempt;
            let mut from = call.began;
            if let Some(admitted) = call.admitted {
                spans.push(Span { from, to: Some(admitted), kind: SpanKind::Queued, attempt });
                from = admitted;
            }
            let kind = if call.is_revert { SpanKind::Reverting } else { SpanKind::Running };
            spans.push(Span { from, to: call.ended, kind, attempt });
            let waits = match call.state {
                StepState::Suspended => Some(SpanKind::Waiting),
                StepState::Retrying | StepState::RevertRetrying => Some(SpanKind::Retrying),
                _ => None,
            };
            if let (Some(kind), Some(from)) = (waits, call.ended) {
                spans.push(Span { from, to: None, kind, attempt });
            }
        }
        let plan = &*self.state;
        let bars = plan.steps.iter().filter_map(|step| {
            let mut spans = match spans.remove(&step.id) {
                Some(spans) => spans,
                // A plan step is not called by itself: it has the time of the planning.
                None => {
                    let (from, to) = (step.started_at?, step.ended_at);
                    vec![Span { from, to, kind: SpanKind::Whole, attempt: step.attempt }]
                }
            };
            let end = step.ended_at.or(plan.ended_at);
            if let Some(last) = spans.last_mut().filter(|last| last.to.is_none()) {
                last.to = end.filter(|_| !step.state.is_live() || plan.ended_at.is_some());
            }
            Some(Bar::of(plan, step, spans))
        });
        PlanTimeline::of(plan, bars.collect())
    }
}

//! When each step began and ended.

use serde::Serialize;

use super::{name_of, state_of, PlanHead};
use crate::id::{ActionId, StepId};
use crate::plan::{Plan, Step, StepKind, StepState};
use crate::time::Time;

/// The steps of a plan over time. A span without an end continues.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PlanTimeline {
    /// The plan.
    pub plan: PlanHead,
    /// When the first thing happened.
    pub from: Time,
    /// When the last thing happened that is known.
    pub until: Time,
    /// The steps that have begun, in the order of their begins.
    pub bars: Vec<Bar>,
}

/// A step over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Bar {
    /// The step.
    pub step: StepId,
    /// Its action.
    pub action: ActionId,
    /// Display name of its action; see [`name_of`].
    pub name: String,
    /// Phase of its action.
    pub kind: StepKind,
    /// Its state now.
    pub state: StepState,
    /// When it did what, one after the other.
    pub spans: Vec<Span>,
}

/// Some time of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Span {
    /// From when.
    pub from: Time,
    /// To when; nothing if it goes on.
    pub to: Option<Time>,
    /// Kind of the span.
    pub kind: SpanKind,
    /// Number of the attempt.
    pub attempt: u32,
}

/// Activity of a step during a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SpanKind {
    /// Active: its code ran, or it waited. The plan's [history](crate::PlanHandle::history) tells
    /// which.
    Whole,
    /// Its code ran.
    Running,
    /// Its compensation ran.
    Reverting,
    /// It waited for a place in its queue.
    Queued,
    /// It waited for an event, a timer or plans.
    Waiting,
    /// It waited for its next attempt.
    Retrying,
}

impl Bar {
    pub(super) fn of(plan: &Plan, step: &Step, spans: Vec<Span>) -> Self {
        let action = plan.action(step.action);
        Self {
            step: step.id,
            action: step.action,
            name: name_of(action),
            kind: step.kind,
            state: state_of(action, step),
            spans,
        }
    }
}

impl PlanTimeline {
    pub(super) fn of(plan: &Plan, mut bars: Vec<Bar>) -> Self {
        bars.sort_by_key(|bar| (bar.spans.first().map(|span| span.from), bar.step));
        let times = || bars.iter().flat_map(|bar| &bar.spans);
        let ends = times().flat_map(|span| span.to.into_iter().chain([span.from]));
        let until = ends.chain(plan.ended_at).max().unwrap_or(plan.created.at);
        let until = until.max(plan.created.at);
        Self { plan: PlanHead::of(plan), from: plan.created.at, until, bars }
    }
}

impl Plan {
    /// One span for each step that has begun.
    pub(crate) fn timeline(&self) -> PlanTimeline {
        let bars = self.steps.iter().filter_map(|step| {
            let (from, to, attempt) = (step.started_at?, step.ended_at, step.attempt);
            let span = Span { from, to, kind: SpanKind::Whole, attempt };
            Some(Bar::of(self, step, vec![span]))
        });
        PlanTimeline::of(self, bars.collect())
    }
}

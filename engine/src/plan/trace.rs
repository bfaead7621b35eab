//! The W3C trace that a plan belongs to.

use serde::{Deserialize, Serialize};
use turnwheel_actors::{RequestContext, TraceContext};

use super::step::Step;
use super::Plan;
use crate::id::PlanId;
use crate::limits::TRACE_STATE_BYTES_MAX;

/// The W3C trace that a plan belongs to, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// The header `traceparent`: the span that triggered the plan.
    pub parent: String,
    /// The header `tracestate`.
    pub state: Option<String>,
}

impl Trace {
    pub(crate) fn of(trace: &TraceContext) -> Self {
        let state = trace.state().filter(|state| state.len() <= TRACE_STATE_BYTES_MAX);
        Self { parent: trace.to_string(), state: state.map(str::to_owned) }
    }

    /// The trace of the request that this thread handles.
    pub(crate) fn ambient() -> Option<Self> {
        RequestContext::current().trace().map(Self::of)
    }

    /// As it goes over the wire; nothing if what is stored is no trace of a version that is known.
    pub fn context(&self) -> Option<TraceContext> {
        let context: TraceContext = self.parent.parse().ok()?;
        Some(match &self.state {
            Some(state) => context.with_state(state),
            None => context,
        })
    }
}

impl Plan {
    /// The trace that the plan belongs to, and what has begun it: the given one, else one of its own,
    /// whose id is that of the plan. Sub-plans belong to the trace of the first plan above them.
    pub fn trace(&self) -> TraceContext {
        let given = self.created.trace.as_ref().and_then(Trace::context);
        given.unwrap_or_else(|| {
            let [first, parent] = [self.created.lineage.first(), self.created.lineage.last()]
                .map(|plan| *plan.unwrap_or(&self.id));
            TraceContext::begin(first.uuid().as_u128().max(1), span_of(parent))
        })
    }

    /// The same with the span of the plan as the parent: for the spans of its calls.
    pub(crate) fn trace_within(&self) -> TraceContext {
        self.trace().with_parent(span_of(self.id))
    }

    /// The same with a call of a step as the parent: for what the call sends.
    pub fn trace_of_call(&self, step: &Step) -> TraceContext {
        self.trace().with_parent(span_id(self.id, step))
    }

    /// Whether something else has begun its trace, so that its span has a parent.
    pub(crate) fn has_parent_span(&self) -> bool {
        self.created.trace.is_some() || !self.created.lineage.is_empty()
    }
}

/// The identity of the span of a plan: that of no call, since calls count from 1.
pub(crate) fn span_of(plan: PlanId) -> u64 {
    span(plan, 0)
}

/// The identity of the span of a call. It follows from the call, so that a plan which is read again names the
/// same spans; never zero.
fn span_id(plan: PlanId, step: &Step) -> u64 {
    span(plan, u64::from(step.id.0) << 32 | u64::from(step.calls))
}

fn span(plan: PlanId, call: u64) -> u64 {
    let uuid = plan.uuid().as_u128();
    mix(mix((uuid >> 64) as u64) ^ mix(uuid as u64) ^ mix(call)).max(1)
}

/// Spreads all bits (the finalizer of `SplitMix64`).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

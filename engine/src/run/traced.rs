//! A span around each call of a step's code and one for each plan that has ended, and the trace of a
//! plan for what it sends.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tracing::field::{display, Empty};
use tracing::Span;
use turnwheel_actors::{RequestContext, TraceContext};

use crate::action::{Begun, CallKind, Returned};
use crate::picture::{failure_kind_of, failure_of, fault_in, name_of, task_place};
use crate::plan::{Plan, Step};

/// The span around a call. The span is named `step`, of level `INFO` and target `turnwheel::step`.
pub(super) struct Traced {
    span: Span,
    request: RequestContext,
    /// Whether it is a task of a flow.
    is_task: bool,
}

impl Traced {
    /// Nothing if nobody wants spans and no trace was given to the plan.
    pub(super) fn new(plan: &Plan, step: &Step, kind: CallKind) -> Option<Self> {
        let is_given = plan.created.trace.is_some();
        let span = tracing::info_span!(
            target: "turnwheel::step",
            // A worker's thread may be inside a span of somebody else.
            parent: None,
            "step",
            plan = %plan.id,
            label = plan.label,
            step = step.id.0,
            action = plan.action(step.action).name,
            task = name_of(plan.action(step.action)),
            phase = match kind {
                CallKind::Run => "run",
                CallKind::Finalize => "finalize",
                CallKind::Revert => "revert",
            },
            attempt = step.attempt,
            call = step.calls,
            trace_id = Empty,
            parent_id = Empty,
            span_id = Empty,
            error = Empty,
            "error.type" = Empty,
        );
        if span.is_disabled() && !is_given {
            return None;
        }
        let (within, trace) = (plan.trace_within(), plan.trace_of_call(step));
        identify(&span, trace.parent_id(), &within);
        let is_task = task_place(plan.action(step.action)).is_some();
        Some(Self { span, request: RequestContext::new().with_trace(trace), is_task })
    }

    pub(super) fn around(self, begun: Begun) -> Begun {
        match begun {
            Begun::Blocking(code) => Begun::Blocking(Box::new(move || {
                let returned = self.within(code);
                self.ended(&returned);
                returned
            })),
            Begun::Async(future) => Begun::Async(Box::pin(Within { traced: self, future })),
        }
    }

    fn within<R>(&self, run: impl FnOnce() -> R) -> R {
        self.span.in_scope(|| self.request.apart(run))
    }

    fn ended(&self, returned: &Returned) {
        let fault = match (&returned.result, &returned.output) {
            (Err(error), _) => Some(error.clone()),
            // A task of a flow has ended well with its fault as data.
            (Ok(_), Some(output)) if self.is_task => fault_in(output),
            (Ok(_), _) => None,
        };
        if let Some(error) = fault {
            self.span.record("error", display(&error));
            self.span.record("error.type", &*error.kind);
        }
    }
}

/// Says which span it is: its own id, its trace and the span around it.
fn identify(span: &Span, id: u64, within: &TraceContext) {
    span.record("trace_id", display(format_args!("{:032x}", within.trace_id())));
    span.record("span_id", display(format_args!("{id:016x}")));
    span.record("parent_id", display(format_args!("{:016x}", within.parent_id())));
}

/// The span of a plan that has ended, around those of its calls. The span is named `plan`, of level
/// `INFO` and target `turnwheel::plan`; `began_us` and `ended_us` say when it was.
pub(super) fn trace_end(plan: &Plan) {
    let span = tracing::info_span!(
        target: "turnwheel::plan",
        parent: None,
        "plan",
        plan = %plan.id,
        label = plan.label,
        action = plan.created.action,
        result = plan.result().name(),
        began_us = plan.started_at.unwrap_or(plan.created.at).0,
        ended_us = plan.ended_at.map(|at| at.0),
        trace_id = Empty,
        parent_id = Empty,
        span_id = Empty,
        error = Empty,
        "error.type" = Empty,
    );
    if span.is_disabled() {
        return;
    }
    let (around, own) = (plan.trace(), plan.trace_within());
    if plan.has_parent_span() {
        identify(&span, own.parent_id(), &around);
    } else {
        span.record("trace_id", display(format_args!("{:032x}", own.trace_id())));
        span.record("span_id", display(format_args!("{:016x}", own.parent_id())));
    }
    if let Some((kind, failure)) = failure_kind_of(plan).zip(failure_of(plan)) {
        span.record("error", &*failure);
        span.record("error.type", &*kind);
    }
}

/// A call that is polled within its span.
struct Within {
    traced: Traced,
    future: Pin<Box<dyn Future<Output = Returned> + Send>>,
}

impl Future for Within {
    type Output = Returned;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Returned> {
        let Self { traced, future } = &mut *self;
        let polled = traced.within(|| future.as_mut().poll(cx));
        if let Poll::Ready(returned) = &polled {
            traced.ended(returned);
        }
        polled
    }
}

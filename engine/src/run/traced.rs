//! A span around each call of a step's code, and the trace of its plan for what it sends.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tracing::field::{display, Empty};
use tracing::Span;
use turnwheel_actors::RequestContext;

use crate::action::{Begun, CallKind, Returned};
use crate::picture::name_of;
use crate::plan::{Plan, Step};

/// The span around a call. The span is named `step`, of level `INFO` and target `turnwheel::step`.
pub(super) struct Traced {
    span: Span,
    request: RequestContext,
}

impl Traced {
    /// Nothing if nobody wants spans and the plan belongs to no trace.
    pub(super) fn new(plan: &Plan, step: &Step, kind: CallKind) -> Option<Self> {
        let former = plan.created.trace.as_ref();
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
        );
        if span.is_disabled() && former.is_none() {
            return None;
        }
        let mut request = RequestContext::new();
        if let Some(trace) = former.and_then(|former| former.of_call(plan.id, step)) {
            span.record("trace_id", display(format_args!("{:032x}", trace.trace_id())));
            span.record("span_id", display(format_args!("{:016x}", trace.parent_id())));
            if let Some(former) = former.and_then(crate::plan::Trace::context) {
                span.record("parent_id", display(format_args!("{:016x}", former.parent_id())));
            }
            request = request.with_trace(trace);
        }
        Some(Self { span, request })
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
        if let Err(error) = &returned.result {
            self.span.record("error", display(error));
        }
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

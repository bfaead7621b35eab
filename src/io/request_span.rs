//! The span of a request of a flow, by OpenTelemetry's conventions of HTTP clients.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;

use tracing::field::{display, Empty};
use tracing::Span;
use turnwheel_flow::{HttpResponse, IoError};

use super::target::Target;

/// The open span of a request, and the trace that the request carries.
pub(super) struct RequestSpan {
    span: Span,
    /// The header `traceparent`, with this span as the parent.
    pub(super) parent: Option<String>,
}

impl RequestSpan {
    /// Begins it. `trace` is the header `traceparent` of the step, if its plan belongs to a trace.
    pub(super) fn begin(method: &str, target: &Target, trace: Option<&str>) -> Self {
        let span = tracing::info_span!(
            target: "turnwheel::http",
            "request",
            http.request.method = method,
            server.address = target.host(),
            server.port = target.port().parse::<u64>().ok(),
            // Without the query, which may be secret.
            url.full = %target.shown(),
            http.response.status_code = Empty,
            trace_id = Empty,
            parent_id = Empty,
            span_id = Empty,
            error = Empty,
            "error.type" = Empty,
        );
        let parent = match trace.and_then(Parent::read) {
            // Without spans the step stays the parent.
            Some(_) if span.is_disabled() => trace.map(str::to_owned),
            Some(parent) => {
                // It is a name, no secret; never zero.
                let id = RandomState::new().hash_one(trace) | 1;
                span.record("trace_id", parent.trace);
                span.record("parent_id", parent.span);
                span.record("span_id", display(format_args!("{id:016x}")));
                Some(format!("00-{}-{id:016x}-{}", parent.trace, parent.flags))
            }
            None => None,
        };
        Self { span, parent }
    }

    /// Ends it with what became of the request.
    pub(super) fn end(&self, outcome: &Result<HttpResponse, IoError>) {
        match outcome {
            Ok(response) => {
                self.span.record("http.response.status_code", u64::from(response.status));
                if response.status >= 400 {
                    self.span.record("error", display(response.status));
                    self.span.record("error.type", display(response.status));
                }
            }
            Err(error) => {
                self.span.record("error", display(error));
                self.span.record("error.type", error.kind.name());
            }
        }
    }
}

/// The parts of a header `traceparent` of the known version.
struct Parent<'a> {
    trace: &'a str,
    span: &'a str,
    flags: &'a str,
}

impl<'a> Parent<'a> {
    fn read(header: &'a str) -> Option<Self> {
        let mut parts = header.split('-');
        let known = parts.next().filter(|version| *version == "00");
        let (trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?);
        known.map(|_| Self { trace, span, flags })
    }
}

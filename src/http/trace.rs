//! Traces: W3C trace context in, kept for the time of the request, and out with the answer.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;

use turnwheel_actors::TraceContext;

use super::access::Principal;
use super::code::Code;
use super::problem::Refused;
use super::state::Api;

/// The header of the trace context.
pub(super) const TRACEPARENT: &str = "traceparent";

/// The header beside it.
const TRACESTATE: &str = "tracestate";

tokio::task_local! {
    static TRACE: Trace;
}

/// The trace of a request: the caller's, or a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trace {
    trace: u128,
    /// This request's own.
    span: u64,
    flags: u8,
    /// Whether the caller has said it.
    is_given: bool,
    /// The header `tracestate` of the caller: for its own kind of tracing.
    state: Option<String>,
}

impl Trace {
    fn of(headers: &HeaderMap) -> Self {
        let given = headers.get(TRACEPARENT).and_then(|value| value.to_str().ok());
        let span = random() | 1;
        match given.and_then(parse) {
            Some((trace, flags)) => {
                Self { trace, span, flags, is_given: true, state: state(headers) }
            }
            None => {
                let trace = (u128::from(random()) << 64) | u128::from(random() | 1);
                Self { trace, span, flags: 0, is_given: false, state: None }
            }
        }
    }

    fn context(&self) -> Option<TraceContext> {
        let context: TraceContext = self.header().parse().ok()?;
        Some(match &self.state {
            Some(state) => context.with_state(state),
            None => context,
        })
    }

    /// As the header says it.
    pub(super) fn header(&self) -> String {
        format!("00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

/// The header `tracestate`, whose parts may come in several lines.
fn state(headers: &HeaderMap) -> Option<String> {
    let lines = headers.get_all(TRACESTATE).iter().filter_map(|line| line.to_str().ok());
    let parts: Vec<&str> = lines.map(str::trim).filter(|line| !line.is_empty()).collect();
    (!parts.is_empty()).then(|| parts.join(","))
}

/// The trace and flags of a header; `None` if it is invalid by the standard.
fn parse(text: &str) -> Option<(u128, u8)> {
    let hex = |part: &str, length: usize| {
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (part.len() == length && part.bytes().all(is_hex))
            .then(|| u128::from_str_radix(part, 16).ok())
            .flatten()
    };
    let mut parts = text.trim().split('-');
    let version = hex(parts.next()?, 2)?;
    let trace = hex(parts.next()?, 32)?;
    let span = hex(parts.next()?, 16)?;
    let flags = hex(parts.next()?, 2)?;
    let is_whole = version != 0 || parts.next().is_none();
    let is_valid = version != 0xff && trace != 0 && span != 0 && is_whole;
    is_valid.then_some((trace, u8::try_from(flags).unwrap_or(0)))
}

/// Random numbers; they are names, not secrets.
fn random() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u64(COUNT.fetch_add(1, Ordering::Relaxed));
    hasher.finish()
}

/// The trace of the request that is being answered.
pub(super) fn current() -> Option<String> {
    TRACE.try_with(|trace| format!("{:032x}", trace.trace)).ok()
}

/// The trace for plans that the request starts, if the caller has sent one.
pub(super) fn given() -> Option<TraceContext> {
    TRACE.try_with(|trace| trace.is_given.then(|| trace.context())?).ok().flatten()
}

/// Follows a request: its trace, its figures, its line in the log.
pub(super) async fn follow(State(api): State<Api>, request: Request, next: Next) -> Response {
    let trace = Trace::of(request.headers());
    let method = request.method().clone();
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let uri = request.uri().path().to_owned();
    let began = Instant::now();
    let under_way = api.figures().begin();
    let mut answer = TRACE.scope(trace.clone(), next.run(request)).await;
    drop(under_way);
    let took = began.elapsed();
    let status = answer.status().as_u16();
    let code = answer.extensions().get::<Refused>().map(|refused| refused.0);
    if matches!(code, Some(Code::StoreFailed | Code::StoreFull)) {
        api.prober().doubt();
    }
    let code = code.map(Code::name);
    api.figures().answered(&method, path.as_deref(), status, code, took);
    tracing::debug!(
        target: "turnwheel::http",
        %method, path = uri, status, code, took_us = took.as_micros() as u64,
        trace = format_args!("{:032x}", trace.trace), "answered"
    );
    if let Ok(value) = HeaderValue::from_str(&trace.header()) {
        answer.headers_mut().insert(TRACEPARENT, value);
    }
    answer
}

/// Notes a change in the audit log.
pub(super) fn audit(who: &Principal, what: &str, on: &str, outcome: &str) {
    tracing::info!(
        target: "turnwheel::audit",
        principal = &*who.name, role = who.role.name(), what, on, outcome, trace = current(),
        "change"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_goes_on_with_a_span_of_its_own() {
        let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let mut headers = HeaderMap::new();
        headers.insert(TRACEPARENT, HeaderValue::from_static(given));
        let trace = Trace::of(&headers);
        let header = trace.header();
        assert!(header.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"), "{header}");
        assert!(header.ends_with("-01") && !header.contains("00f067aa0ba902b7"), "{header}");
    }

    #[test]
    fn what_is_no_trace_begins_a_new_one() {
        for bad in [
            "",
            "00",
            "00-0-0-0",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        assert!(parse("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more").is_some());
    }
}

//! A span for each message, and traces that go from span to span.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::field::{display, Empty};
use tracing::Span;
use turnwheel_actors::intercept::{Call, Direction, Interceptor, MessageInfo, Outcome};
use turnwheel_actors::TraceContext;
use turnwheel_runtime::Failure;

/// A [`tracing`] span around each message, named `message`, at level `INFO` and with target
/// `turnwheel::message`.
///
/// | field | content |
/// | --- | --- |
/// | `actor`, `class` | the target of the message |
/// | `message` | its type |
/// | `direction` | `incoming` or `outgoing` |
/// | `ask` | whether a caller waits for an answer |
/// | `trace_id`, `parent_id`, `span_id` | of the W3C trace context of its request, in hex, if any |
/// | `error` | the failure, if it failed |
///
/// The span is entered while the handler runs and in each poll of its future, so log lines of the
/// handler belong to it. Messages that the handler sends have this span as their parent in the
/// trace context. If no subscriber enables the span, the trace context stays unchanged.
///
/// ```
/// use turnwheel_interceptors::Spans;
/// use turnwheel_actors::System;
/// use turnwheel_runtime::Group;
///
/// let group = Group::builder("doc").workers(1).build()?;
/// let spans = || Spans::new().starting_traces();
/// let system = System::builder(&group).intercept_outgoing(spans()).intercept(spans()).build();
/// # drop(system);
/// # group.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub struct Spans {
    /// Identities of spans and traces: a hash of how many were made.
    seed: u64,
    made: AtomicU64,
    starts_traces: bool,
}

debug_fields!(impl Spans, self => starts_traces: self.starts_traces);

impl Default for Spans {
    fn default() -> Self {
        Self::new()
    }
}

impl Spans {
    /// Continues the traces of requests, and starts none.
    pub fn new() -> Self {
        Self::seeded(RandomState::new().hash_one(0))
    }

    /// As [`Spans::new`], with the same identities in each run that has the same seed: for
    /// simulations.
    pub fn seeded(seed: u64) -> Self {
        Self { seed, made: AtomicU64::new(0), starts_traces: false }
    }

    /// Starts a trace, a sampled one, for each message whose request has none.
    pub fn starting_traces(mut self) -> Self {
        self.starts_traces = true;
        self
    }

    /// An identity of 64 bits, never zero.
    fn identity(&self) -> u64 {
        let made = self.made.fetch_add(1, Ordering::Relaxed);
        mix(self.seed ^ mix(made.wrapping_add(1))).max(1)
    }

    /// The trace of a message, with a new span as parent of the messages that its handler sends.
    fn trace(&self, former: Option<&TraceContext>) -> Option<TraceContext> {
        match former {
            Some(trace) => Some(trace.clone().with_parent(self.identity())),
            None if self.starts_traces => {
                let trace_id = u128::from(self.identity()) << 64 | u128::from(self.identity());
                Some(TraceContext::begin(trace_id, self.identity()))
            }
            None => None,
        }
    }
}

/// The finalizer of splitmix64: close numbers become unrelated ones.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The span of a message.
fn span_of(call: &MessageInfo) -> Span {
    let is_incoming = call.direction() == Direction::Incoming;
    macro_rules! span {
        ($($parent:tt)*) => {
            tracing::info_span!(
                target: "turnwheel::message",
                $($parent)*
                "message",
                actor = call.actor(),
                class = call.class(),
                message = call.message_type(),
                direction = if is_incoming { "incoming" } else { "outgoing" },
                ask = call.is_ask(),
                trace_id = Empty,
                parent_id = Empty,
                span_id = Empty,
                error = Empty,
            )
        };
    }
    if is_incoming {
        // A worker's thread may be inside a span of another task.
        span!(parent: None,)
    } else {
        span!()
    }
}

impl Interceptor for Spans {
    type State = Span;

    fn begin(&self, call: &mut Call<'_>) -> Result<Span, Failure> {
        let span = span_of(call);
        if span.is_disabled() {
            return Ok(span);
        }
        let former = call.request().trace().cloned();
        if let Some(trace) = self.trace(former.as_ref()) {
            span.record("trace_id", display(format_args!("{:032x}", trace.trace_id())));
            if let Some(former) = &former {
                span.record("parent_id", display(format_args!("{:016x}", former.parent_id())));
            }
            span.record("span_id", display(format_args!("{:016x}", trace.parent_id())));
            let request = call.request().clone().with_trace(trace);
            call.set_request(request);
        }
        Ok(span)
    }

    fn within(&self, span: &mut Span, run: &mut dyn FnMut()) {
        span.in_scope(run);
    }

    fn end(&self, span: &mut Span, _: &MessageInfo, outcome: &mut Outcome<'_>) {
        if let Some(error) = outcome.error() {
            span.record("error", display(error));
        }
        // The span ends here, and not when its last interceptor has.
        *span = Span::none();
    }
}

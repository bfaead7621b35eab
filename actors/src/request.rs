//! What goes with a request: values and trace of its sender, and the chain of calls it is part of.
//!
//! While an actor handles a message, and at each poll of its handler's future, these are *ambient*:
//! kept in a thread-local place, from where `tell`, `ask` and timers take them along. A message
//! without any costs one look at a flag.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use turnwheel_runtime::completion::WeakExchange;
use turnwheel_runtime::Scoped;

use crate::call_chain::{Above, Asker, CallChain};
use crate::envelope::Delivery;
use crate::reply::{Call, ReplyTo};

/// Values that follow a request: through `tell`, `ask`, `forward`, continuations and timers.
///
/// Cheap to clone (one counter). Empty unless somebody entered one.
///
/// ```
/// use turnwheel_actors::RequestContext;
/// let request = RequestContext::new().with("user", "ada");
/// request.scope(|| {
///     let current = RequestContext::current();
///     assert_eq!(current.get("user"), Some("ada"));
/// });
/// assert!(RequestContext::current().is_empty());
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RequestContext(Option<Arc<Baggage>>);

/// What a request context holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Baggage {
    trace: Option<TraceContext>,
    values: BTreeMap<String, String>,
}

impl RequestContext {
    /// An empty one.
    pub fn new() -> Self {
        Self(None)
    }

    /// The one of the request now handled on this thread.
    pub fn current() -> Self {
        Self(baggage())
    }

    pub(crate) fn of(baggage: Option<Arc<Baggage>>) -> Self {
        Self(baggage)
    }

    pub(crate) fn baggage(&self) -> Option<Arc<Baggage>> {
        self.0.clone()
    }

    /// With one more value; replaces a former one of the same key.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.edit().values.insert(key.to_owned(), value.to_owned());
        self
    }

    /// With the trace to which the request belongs.
    #[must_use]
    pub fn with_trace(mut self, trace: TraceContext) -> Self {
        self.edit().trace = Some(trace);
        self
    }

    fn edit(&mut self) -> &mut Baggage {
        Arc::make_mut(self.0.get_or_insert_with(Arc::default))
    }

    /// A value by its key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.as_ref()?.values.get(key).map(String::as_str)
    }

    /// The trace to which the request belongs.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.0.as_ref()?.trace.as_ref()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Runs a closure with this as the ambient context; what it sends carries it. Deadline and call
    /// chain of the request that is handled stay as they are.
    pub fn scope<R>(&self, run: impl FnOnce() -> R) -> R {
        let same = |ambient: &Ambient| Ambient {
            baggage: None,
            chain: ambient.chain.clone(),
            deadline_ns: ambient.deadline_ns,
            asker: ambient.asker.clone(),
            above: ambient.above.clone(),
            call: ambient.call.clone(),
        };
        let ambient = Ambient::with(same).unwrap_or_default();
        Ambient { baggage: self.0.clone(), ..ambient }.within(run)
    }

    /// As [`RequestContext::scope`], but outside of the call chain and without the deadline of the
    /// request that is handled, for calls that it does not wait for.
    ///
    /// Such a call enters no actor that waits in the chain: it waits there until the actor is free.
    /// So it is never a cycle, and a handler that waits for it all the same may wait until the call's
    /// own deadline.
    pub fn apart<R>(&self, run: impl FnOnce() -> R) -> R {
        Ambient { baggage: self.0.clone(), ..Ambient::default() }.within(run)
    }
}

impl fmt::Debug for RequestContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("RequestContext(empty)"),
            Some(baggage) => baggage.fmt(f),
        }
    }
}

/// The W3C trace context of a request: header `traceparent`, version 00, and `tracestate`.
///
/// ```
/// use turnwheel_actors::TraceContext;
/// let header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// let trace: TraceContext = header.parse()?;
/// assert_eq!(trace.to_string(), header);
/// assert!(trace.is_sampled());
/// # Ok::<(), turnwheel_actors::TraceContextError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace_id: u128,
    parent_id: u64,
    flags: u8,
    state: Option<String>,
}

/// A text that is no `traceparent` of version 00.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no traceparent: 00-<32 hex digits>-<16 hex digits>-<2 hex digits>, none all zero"
)]
pub struct TraceContextError {
    text: String,
}

impl TraceContext {
    /// The trace as a whole.
    pub fn trace_id(&self) -> u128 {
        self.trace_id
    }

    /// The span that sent the request.
    pub fn parent_id(&self) -> u64 {
        self.parent_id
    }

    /// Whether the sender records this trace.
    pub fn is_sampled(&self) -> bool {
        self.flags & 1 == 1
    }

    /// The header `tracestate`, as it came.
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// With a header `tracestate`.
    #[must_use]
    pub fn with_state(mut self, state: &str) -> Self {
        self.state = Some(state.to_owned());
        self
    }

    /// A trace that begins here, with this span.
    pub(crate) fn begin(trace_id: u128, span_id: u64) -> Self {
        debug_assert!(trace_id != 0 && span_id != 0, "zero is no identity of a trace or a span");
        Self { trace_id, parent_id: span_id, flags: 1, state: None }
    }

    /// The same trace with another span as sender.
    #[must_use]
    pub fn with_parent(mut self, parent_id: u64) -> Self {
        self.parent_id = parent_id;
        self
    }
}

impl std::str::FromStr for TraceContext {
    type Err = TraceContextError;

    fn from_str(text: &str) -> Result<Self, TraceContextError> {
        let hex = |part: &str, digits: usize| {
            let is_hex = part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            (part.len() == digits && is_hex).then(|| u128::from_str_radix(part, 16).ok()).flatten()
        };
        let parts: Vec<&str> = text.split('-').collect();
        let parsed = match parts[..] {
            ["00", trace, parent, flags] => {
                hex(trace, 32).zip(hex(parent, 16)).zip(hex(flags, 2)).map(
                    |((trace, parent), flags)| {
                        // The widths were checked, so nothing is cut off.
                        Self {
                            trace_id: trace,
                            parent_id: parent as u64,
                            flags: flags as u8,
                            state: None,
                        }
                    },
                )
            }
            _ => None,
        };
        parsed
            .filter(|trace| trace.trace_id != 0 && trace.parent_id != 0)
            .ok_or_else(|| TraceContextError { text: text.to_owned() })
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.parent_id, self.flags)
    }
}

/// What is ambient while a message is handled.
#[derive(Debug)]
pub(crate) struct Ambient {
    pub(crate) baggage: Option<Arc<Baggage>>,
    /// The chain of calls that the message came by.
    pub(crate) chain: CallChain,
    /// When nobody waits for the answer any more, nanoseconds; `u64::MAX` never.
    pub(crate) deadline_ns: u64,
    /// The actor, if it takes nothing else while the handler waits.
    pub(crate) asker: Option<Asker>,
    /// The chain as what is above the asker, once it was needed.
    pub(crate) above: OnceCell<Option<Above>>,
    /// The call that is handled, if its handler may answer later than it returns.
    pub(crate) call: Option<WeakExchange<Call>>,
}

impl Default for Ambient {
    /// Nothing is ambient.
    #[inline(always)]
    fn default() -> Self {
        Self {
            baggage: None,
            chain: CallChain::default(),
            deadline_ns: u64::MAX,
            asker: None,
            above: OnceCell::new(),
            call: None,
        }
    }
}

thread_local! {
    static AMBIENT: Scoped<Ambient> = const { Scoped::new() };
}

impl Ambient {
    /// What is ambient while this message is handled by somebody whose answer is still due.
    pub(crate) fn of<M, R: Send + 'static>(delivery: &Delivery<M, R>) -> Self {
        let call = delivery.reply.as_ref().and_then(ReplyTo::call);
        Self {
            baggage: delivery.baggage.clone(),
            chain: call.map(|call| call.chain.clone()).unwrap_or_default(),
            deadline_ns: call.map_or(u64::MAX, |call| call.deadline_ns),
            call: delivery.reply.as_ref().and_then(ReplyTo::asked),
            ..Self::default()
        }
    }

    /// What is ambient for a plain handler: it has answered when it returns, so that no call of its own
    /// can wait for it.
    #[inline(always)]
    pub(crate) fn plain(baggage: Option<Arc<Baggage>>, deadline_ns: u64) -> Self {
        Self { baggage, deadline_ns, ..Self::default() }
    }

    /// Drops what [`Ambient::plain`] made, without a look at all that it does not hold.
    #[inline(always)]
    pub(crate) fn end_plain(mut self) {
        debug_assert!(self.chain.is_empty(), "nobody waits for a plain handler");
        debug_assert!(self.asker.is_none(), "a plain handler waits for nobody");
        debug_assert!(self.call.is_none() && self.above.get().is_none(), "nor do its calls");
        drop(self.baggage.take());
        std::mem::forget(self);
    }

    /// What is ambient now, for what goes on beside the handler: the actor does not wait for it.
    pub(crate) fn inherited() -> Self {
        let inherit = |ambient: &Self| Self {
            baggage: ambient.baggage.clone(),
            chain: ambient.chain.clone(),
            deadline_ns: ambient.deadline_ns,
            call: ambient.call.clone(),
            ..Self::default()
        };
        Self::with(inherit).unwrap_or_default()
    }

    /// Runs a closure with this as what is ambient.
    #[inline(always)]
    pub(crate) fn within<R>(&self, run: impl FnOnce() -> R) -> R {
        AMBIENT.with(|ambient| ambient.enter(self, run))
    }

    #[inline(always)]
    fn with<R>(look: impl FnOnce(&Self) -> R) -> Option<R> {
        Scoped::look_here(&AMBIENT, look)
    }

    /// Whether a call made now to this actor closes a cycle; as of [`Ambient::outgoing_chain`].
    #[inline(always)]
    fn blocks(&self, actor: u64) -> bool {
        self.asker.as_ref().is_some_and(|asker| asker.blocks(actor)) || self.chain.blocks(actor)
    }

    /// What a call made now takes along. In line: what a call of it answers comes through memory.
    #[inline(always)]
    fn outgoing(&self) -> Outgoing {
        Outgoing {
            baggage: self.baggage.clone(),
            chain: self.outgoing_chain(),
            deadline_ns: self.deadline_ns,
            made_for: self.call.clone(),
        }
    }

    /// The chain of a call made now.
    #[inline(always)]
    fn outgoing_chain(&self) -> CallChain {
        match &self.asker {
            None => self.chain.clone(),
            Some(asker) => {
                let above = self.above.get_or_init(|| self.chain.above());
                CallChain::of(asker.clone(), above.clone())
            }
        }
    }
}

/// What a message takes along.
#[inline(always)]
pub(crate) fn baggage() -> Option<Arc<Baggage>> {
    Ambient::with(|ambient| ambient.baggage.clone()).flatten()
}

/// What a call takes along.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) baggage: Option<Arc<Baggage>>,
    pub(crate) chain: CallChain,
    pub(crate) deadline_ns: u64,
    /// The call that is handled by who makes this one.
    pub(crate) made_for: Option<WeakExchange<Call>>,
}

/// The call that is handled now, if its handler may answer later than it returns.
pub(crate) fn call() -> Option<WeakExchange<Call>> {
    Ambient::with(|ambient| ambient.call.clone()).flatten()
}

/// Whether a call made now to this actor would never be answered, since it waits for the call.
#[inline(always)]
pub(crate) fn closes_cycle(actor: u64) -> bool {
    Ambient::with(|ambient| ambient.blocks(actor)).unwrap_or(false)
}

/// What a call made now takes along.
pub(crate) fn outgoing() -> Outgoing {
    outgoing_for::<()>()
}

/// As [`outgoing`], for calls of one kind: a closure that is called from one place alone comes in line,
/// and what it answers does not go through memory.
#[inline(always)]
#[expect(clippy::extra_unused_type_parameters, reason = "each kind has a closure of its own")]
pub(crate) fn outgoing_for<Kind>() -> Outgoing {
    Ambient::with(|ambient| ambient.outgoing()).unwrap_or_else(|| Outgoing {
        baggage: None,
        chain: CallChain::default(),
        deadline_ns: u64::MAX,
        made_for: None,
    })
}

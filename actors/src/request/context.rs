//! Values and trace that follow a request.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ambient::{baggage, Ambient};
use super::trace::TraceContext;

/// Values that follow a request: through `tell`, `ask`, `forward`, continuations and timers.
///
/// Cheap to clone (one counter). Empty unless a scope was entered.
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct RequestContext(Option<Arc<Baggage>>);

/// The contents of a request context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Baggage {
    trace: Option<TraceContext>,
    values: BTreeMap<String, String>,
}

/// A request context as it is written; a trace that cannot be read is left out.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Written {
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tracestate: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    values: BTreeMap<String, String>,
}

impl From<RequestContext> for Written {
    fn from(context: RequestContext) -> Self {
        let trace = context.trace();
        Self {
            traceparent: trace.map(TraceContext::to_string),
            tracestate: trace.and_then(TraceContext::state).map(str::to_owned),
            values: context.0.as_ref().map(|held| held.values.clone()).unwrap_or_default(),
        }
    }
}

impl From<Written> for RequestContext {
    fn from(Written { traceparent, tracestate, values }: Written) -> Self {
        let trace = traceparent.and_then(|text| text.parse::<TraceContext>().ok());
        let trace = match tracestate {
            Some(state) => trace.map(|trace| trace.with_state(&state)),
            None => trace,
        };
        let is_empty = trace.is_none() && values.is_empty();
        Self((!is_empty).then(|| Arc::new(Baggage { trace, values })))
    }
}

impl RequestContext {
    /// An empty one.
    pub fn new() -> Self {
        Self(None)
    }

    /// Context of the request now handled on this thread.
    pub fn current() -> Self {
        Self(baggage())
    }

    pub(crate) fn of(baggage: Option<Arc<Baggage>>) -> Self {
        Self(baggage)
    }

    pub(crate) fn baggage(&self) -> Option<Arc<Baggage>> {
        self.0.clone()
    }

    setters! {
        /// With one more value; replaces a former one of the same key.
        #[must_use]
        with(self, key: &str, value: &str) =>
            self.edit().values.insert(key.to_owned(), value.to_owned());

        /// With the trace to which the request belongs.
        #[must_use]
        with_trace(self, trace: TraceContext) => self.edit().trace = Some(trace);
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

    /// Runs a closure with this as the ambient context; messages sent by it carry the context.
    /// Deadline and call chain of the current request stay.
    pub fn scope<R>(&self, run: impl FnOnce() -> R) -> R {
        let ambient = Ambient::with(Ambient::clone).unwrap_or_default();
        Ambient { baggage: self.0.clone(), ..ambient }.within(run)
    }

    /// As [`RequestContext::scope`], but outside of the call chain and without the deadline of the
    /// request that is handled, for calls that it does not wait for.
    ///
    /// Such a call enters no actor that waits in the chain: it waits there until the actor is free.
    /// So it is never a cycle, and a handler that waits for it all the same may wait until the
    /// call's own deadline.
    pub fn apart<R>(&self, run: impl FnOnce() -> R) -> R {
        Ambient { baggage: self.0.clone(), ..Ambient::default() }.within(run)
    }
}

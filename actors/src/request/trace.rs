//! The W3C trace context of a request.

use std::fmt;

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
    /// Id of the entire trace.
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

    /// A sampled trace that begins here, with this span.
    ///
    /// # Panics
    ///
    /// If an identity is zero, which the format does not allow.
    #[must_use]
    pub fn begin(trace_id: u128, span_id: u64) -> Self {
        assert!(trace_id != 0 && span_id != 0, "zero is no identity of a trace or a span");
        Self { trace_id, parent_id: span_id, flags: 1, state: None }
    }

    setters! {
        /// With a header `tracestate`.
        #[must_use]
        with_state(self, state: &str) => self.state = Some(state.to_owned());

        /// The same trace with another span as sender.
        #[must_use]
        with_parent(self, parent_id: u64) => self.parent_id = parent_id;
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
                let ids = hex(trace, 32).zip(hex(parent, 16)).zip(hex(flags, 2));
                ids.map(|((trace_id, parent), flags)| {
                    let (parent_id, flags) = (parent as u64, flags as u8);
                    Self { trace_id, parent_id, flags, state: None }
                })
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

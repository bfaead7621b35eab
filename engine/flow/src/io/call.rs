//! One call of the outside world: its key, its limit, and what goes with it.

use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A function that is given what a process writes.
type Wrote<'a> = &'a (dyn Fn(&[u8]) + Sync);

/// Longer limits of calls are this one, a year.
const LIMIT_MAX: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Context of a call of an [`Io`](super::Io).
pub struct IoCall<'a> {
    /// The same for each attempt of this call and for no other: a service that takes idempotency
    /// keys gets it.
    pub key: &'a str,
    /// Time limit of all that is done for this call together, if there is one.
    pub limit: Option<Duration>,
    /// W3C trace context of the flow, as the header `traceparent` has it, if there is one.
    pub trace: Option<&'a str>,
    /// The header `tracestate` of that trace, if it has one.
    pub trace_state: Option<&'a str>,
    /// Is given what a process writes, as it comes. Nothing if nobody looks.
    pub wrote: Option<Wrote<'a>>,
    /// Texts that must not go to another origin than the one that a request is for: secrets, also
    /// as they look in other codes.
    pub secrets: Vec<String>,
    is_cancelled: &'a (dyn Fn() -> bool + Sync),
    until: OnceLock<Instant>,
}

impl fmt::Debug for IoCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoCall").field("key", &self.key).field("limit", &self.limit).finish()
    }
}

impl<'a> IoCall<'a> {
    /// A call with a key, without a limit.
    pub fn new(key: &'a str, is_cancelled: &'a (dyn Fn() -> bool + Sync)) -> Self {
        let (limit, trace, trace_state, wrote) = (None, None, None, None);
        let (secrets, until) = (Vec::new(), OnceLock::new());
        Self { key, limit, trace, trace_state, wrote, secrets, is_cancelled, until }
    }

    /// The same with a limit.
    #[must_use]
    pub fn limit(mut self, limit: Option<Duration>) -> Self {
        self.limit = limit;
        self
    }

    /// The same call, told what a process writes.
    pub(crate) fn told<'b>(&'b self, wrote: Wrote<'b>) -> IoCall<'b> {
        let (secrets, until) = (self.secrets.clone(), self.until.clone());
        IoCall { wrote: Some(wrote), secrets, until, ..*self }
    }

    /// The same call with a time of its own, which begins anew.
    pub(crate) fn within(&self, limit: Option<Duration>) -> IoCall<'_> {
        let (secrets, until) = (self.secrets.clone(), OnceLock::new());
        IoCall { limit, secrets, until, ..*self }
    }

    /// The end of its time, which begins when this is asked first: requests of one call share it,
    /// such as that for a token and those of a session. Without a limit it has so much.
    pub fn until(&self, now: Instant, default: Duration) -> Instant {
        let end = |limit: Duration| now.checked_add(limit).unwrap_or(now + LIMIT_MAX);
        *self.until.get_or_init(|| end(self.limit.unwrap_or(default)))
    }

    /// Whether nobody waits for it any longer. Look from time to time, end what was begun, and
    /// return.
    pub fn is_cancelled(&self) -> bool {
        (self.is_cancelled)()
    }
}

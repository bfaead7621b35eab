//! Restarts of a failed actor: their number and pauses.

use std::collections::VecDeque;
use std::time::Duration;

use turnwheel_runtime::{Backoff, Delays};

use crate::actor::Actor;
use crate::call::nanos;

/// Restarts within [`RESTART_WINDOW_DEFAULT`] by default: an actor that fails as often has a cause
/// that a fresh state does not cure.
pub const RESTARTS_DEFAULT: u32 = 10;

/// The time in which restarts are counted by default.
pub const RESTART_WINDOW_DEFAULT: Duration = Duration::from_secs(60);

/// Time without a restart after which the pauses start over, nanoseconds.
const QUIET_NS: u64 = 60_000_000_000;

/// Limit and pauses of the restarts of a failed actor.
///
/// The mailbox is kept; messages wait during the pause. The message that failed is not handled
/// again. Timers that the failed actor has armed in its context are over: a fresh one arms its own
/// in [`starting`](crate::Actor::starting).
#[derive(Clone, Debug)]
pub struct Restart {
    restarts: u32,
    window: Duration,
    backoff: Option<Backoff>,
}

default_value! {
    /// Ten times a minute, without pauses.
    Restart => Self::limited(RESTARTS_DEFAULT, RESTART_WINDOW_DEFAULT)
}

impl Restart {
    /// So many restarts within any such time; then the actor fails for good.
    pub fn limited(restarts: u32, window: Duration) -> Self {
        Self { restarts, window, backoff: None }
    }

    /// No limit.
    pub fn endless() -> Self {
        Self::limited(u32::MAX, Duration::ZERO)
    }

    /// Its pauses, without its limit.
    pub(crate) fn pauses(&self) -> Self {
        Self { backoff: self.backoff, ..Self::endless() }
    }

    /// Pauses that grow with each restart, and start over after a time without one.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = Some(backoff);
        self
    }
}

/// Counts restarts against their policy.
#[derive(Debug)]
pub(crate) struct RestartCounter {
    policy: Restart,
    /// When it was restarted, nanoseconds; as many as the limit at most.
    history: VecDeque<u64>,
    /// The end of the pause before the last restart: a long pause is no quiet time.
    last_ns: u64,
    delays: Option<Delays>,
}

impl RestartCounter {
    pub(crate) fn new(policy: Restart) -> Self {
        Self { policy, history: VecDeque::new(), last_ns: 0, delays: None }
    }

    /// The pause before the next restart; `None` if it was restarted too often.
    pub(crate) fn next(&mut self, now_ns: u64, seed: u64) -> Option<Duration> {
        let window_ns = nanos(self.policy.window);
        while self.history.front().is_some_and(|at_ns| now_ns.saturating_sub(*at_ns) >= window_ns) {
            self.history.pop_front();
        }
        if now_ns.saturating_sub(self.last_ns) >= window_ns.max(QUIET_NS) {
            self.delays = None;
        }
        self.last_ns = now_ns;
        if self.policy.restarts != u32::MAX {
            if self.history.len() >= self.policy.restarts as usize {
                return None;
            }
            self.history.push_back(now_ns);
        }
        let Some(backoff) = &self.policy.backoff else { return Some(Duration::ZERO) };
        let delays = self.delays.get_or_insert_with(|| backoff.delays(seed));
        let pause = delays.next().unwrap_or_default();
        let pause_ns = nanos(pause);
        self.last_ns = now_ns.saturating_add(pause_ns);
        Some(pause)
    }
}

/// A factory with its policy and the restarts used up so far.
pub(crate) struct Restarter<A> {
    factory: Box<dyn FnMut() -> A + Send>,
    counter: RestartCounter,
    /// Restarts so far: timers and futures of former actors belong to an earlier incarnation.
    incarnation: u64,
}

impl<A: Actor> Restarter<A> {
    pub(crate) fn new(policy: Restart, factory: impl FnMut() -> A + Send + 'static) -> Self {
        Self { factory: Box::new(factory), counter: RestartCounter::new(policy), incarnation: 0 }
    }

    /// As [`RestartCounter::next`].
    pub(crate) fn next(&mut self, now_ns: u64, seed: u64) -> Option<Duration> {
        let pause = self.counter.next(now_ns, seed)?;
        self.incarnation += 1;
        Some(pause)
    }

    /// Restarts so far.
    pub(crate) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    pub(crate) fn make(&mut self) -> A {
        (self.factory)()
    }
}

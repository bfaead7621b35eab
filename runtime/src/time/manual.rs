//! A clock that stands still until it is moved.

use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use super::clock::{as_ns, Clock, ClockListener};
use crate::sync::Mutex;

/// A clock for tests: time passes only by `advance`, and wall time can be set separately.
///
/// Clones are the same clock. Moving it wakes the workers of every group that runs on it.
///
/// # Example
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use turnwheel_runtime::time::{Clock, ManualClock};
///
/// let clock = ManualClock::pinned_at(UNIX_EPOCH + Duration::from_secs(100));
/// clock.advance(Duration::from_secs(900));
/// assert_eq!(clock.wall(), UNIX_EPOCH + Duration::from_secs(1_000));
/// assert_eq!(clock.now_ns(), 900_000_000_000);
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock {
    shared: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    now_ns: u64,
    wall: SystemTime,
    listeners: Vec<Weak<dyn ClockListener>>,
}

impl ManualClock {
    /// A clock at monotonic time 0 and the wall time 2000-01-01 00:00 UTC: the same in every run.
    #[must_use]
    pub fn new() -> Self {
        const YEAR_2000: Duration = Duration::from_secs(946_684_800);
        Self::pinned_at(SystemTime::UNIX_EPOCH + YEAR_2000)
    }

    /// A clock at monotonic time 0 and the given wall time.
    #[must_use]
    pub fn pinned_at(wall: SystemTime) -> Self {
        let state = State { now_ns: 0, wall, listeners: Vec::new() };
        Self { shared: Arc::new(Mutex::new(state)) }
    }

    /// Lets time pass: monotonic and wall time alike. Monotonic time ends a nanosecond before
    /// `u64::MAX`, which is the deadline of timers that never fire.
    ///
    /// # Panics
    ///
    /// If the wall time leaves the range of [`SystemTime`].
    pub fn advance(&self, duration: Duration) {
        self.change(|state| {
            state.wall += duration;
            state.now_ns = state.now_ns.saturating_add(as_ns(duration)).min(u64::MAX - 1);
        });
    }

    /// Sets the wall time, forward or back, as an administrator would. No monotonic time passes.
    pub fn set_wall(&self, wall: SystemTime) {
        self.change(|state| state.wall = wall);
    }

    /// Sets the wall time back. No monotonic time passes.
    ///
    /// # Panics
    ///
    /// If the wall time leaves the range of [`SystemTime`].
    pub fn jump_back(&self, duration: Duration) {
        self.change(|state| state.wall -= duration);
    }

    /// Injects a fault that real machines do not have: monotonic time runs backwards, at most to 0.
    ///
    /// A group's own time then stands still until the clock has caught up; no timer is lost, and
    /// none fires early.
    pub fn inject_jump_back(&self, duration: Duration) {
        self.change(|state| state.now_ns = state.now_ns.saturating_sub(as_ns(duration)));
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let living: Vec<_> = {
            let mut state = self.shared.lock();
            change(&mut state);
            state.listeners.iter().filter_map(Weak::upgrade).collect()
        };
        living.iter().for_each(|listener| listener.clock_moved());
    }
}

default_value!(ManualClock => Self::new());

impl Clock for ManualClock {
    fn now_ns(&self) -> u64 {
        self.shared.lock().now_ns
    }

    fn wall(&self) -> SystemTime {
        self.shared.lock().wall
    }

    fn listen(&self, listener: Weak<dyn ClockListener>) {
        let listeners = &mut self.shared.lock().listeners;
        // The list is bounded by the living listeners.
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(listener);
    }
}

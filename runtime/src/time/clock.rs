//! The clock trait, the system's clock, and the state with which a group reads them.
//!
//! Only this file and its neighbours read the machine's clocks. Invariant: the time of a
//! [`ClockSource`] never runs backwards, even if its clock does.

#![expect(clippy::disallowed_methods, reason = "this module is where the system's clocks are read")]

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use crate::sync::{AtomicU64, Ordering};

/// A source of time for a group: monotonic time for timers, wall time for dates.
///
/// Implement it to run a group on another time. A group survives a clock whose monotonic time jumps
/// back: it keeps the highest value seen, so its time stands still until the clock has caught up.
/// Timers set for a date are converted to monotonic time when they are armed.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use turnwheel_runtime::time::{Clock, ManualClock};
///
/// let clock = ManualClock::new();
/// let before = clock.now_ns();
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(clock.now_ns() - before, 1_000_000_000);
/// ```
pub trait Clock: Send + Sync + fmt::Debug {
    /// Monotonic time since the clock's start, in nanoseconds.
    fn now_ns(&self) -> u64;

    /// Wall time. It may jump in both directions.
    fn wall(&self) -> SystemTime;

    /// Registers a listener for jumps of the monotonic time.
    ///
    /// A worker parks for the real time until its next timer. A clock that moves in another way
    /// must notify its listeners, or they sleep too long. The clock holds them weakly. The default,
    /// for a clock that only passes, ignores the listener.
    fn listen(&self, listener: Weak<dyn ClockListener>) {
        drop(listener);
    }
}

/// A waiter for a time, which must read the clock again when it is moved.
pub trait ClockListener: Send + Sync {
    /// The clock has been moved. Called after the change, on the thread that made it, under no
    /// lock of the clock.
    fn clock_moved(&self);
}

/// The machine's clock. Its monotonic time starts with 0 when it is made.
///
/// # Example
///
/// ```
/// use turnwheel_runtime::time::{Clock, SystemClock};
///
/// let clock = SystemClock::new();
/// assert!(clock.now_ns() <= clock.now_ns());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock that starts now.
    #[must_use]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

default_value!(SystemClock => Self::new());

impl Clock for SystemClock {
    #[inline]
    fn now_ns(&self) -> u64 {
        // A model has no time.
        if cfg!(turnwheel_loom) {
            return 0;
        }
        as_ns(self.start.elapsed())
    }

    #[inline]
    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// The clock of a group. The system's costs one clock read, another one a virtual call and an
/// atomic maximum.
#[derive(Debug)]
pub(crate) enum ClockSource {
    /// The machine's clock, which keeps its promise by itself.
    System(SystemClock),
    /// A clock that may be moved.
    Custom(CustomClock),
}

/// A foreign clock and the highest time that it has shown.
#[derive(Debug)]
pub(crate) struct CustomClock {
    clock: Arc<dyn Clock>,
    highest_ns: AtomicU64,
    /// Continues when the clock stands still.
    machine: SystemClock,
}

impl ClockSource {
    /// The machine's clock, started now.
    pub(crate) fn system() -> Self {
        Self::System(SystemClock::new())
    }

    /// A foreign clock.
    pub(crate) fn custom(clock: Arc<dyn Clock>) -> Self {
        let highest_ns = AtomicU64::new(clock.now_ns());
        Self::Custom(CustomClock { clock, highest_ns, machine: SystemClock::new() })
    }

    /// Monotonic time in nanoseconds; never less than a value that another thread read before it
    /// synchronised with this one.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        match self {
            Self::System(clock) => clock.now_ns(),
            Self::Custom(custom) => custom.now_ns(),
        }
    }

    /// The machine's time and the clock's, in nanoseconds; one clock read if they are the same.
    ///
    /// Spinning and waiting times use the machine's time: a clock that stands still would make the
    /// spinning endless and the waiting zero.
    #[inline]
    pub(crate) fn machine_and_now_ns(&self) -> (u64, u64) {
        match self {
            Self::System(clock) => {
                let now_ns = clock.now_ns();
                (now_ns, now_ns)
            }
            Self::Custom(custom) => (custom.machine.now_ns(), custom.now_ns()),
        }
    }

    /// Wall time.
    pub(crate) fn wall(&self) -> SystemTime {
        match self {
            Self::System(clock) => clock.wall(),
            Self::Custom(custom) => custom.clock.wall(),
        }
    }

    /// The deadline that is `delay` after now; the end of time if that is too far.
    #[inline]
    pub(crate) fn deadline_after(&self, delay: Duration) -> u64 {
        self.now_ns().saturating_add(as_ns(delay))
    }

    /// The deadline for a date, by the wall time of now; now if the date has passed.
    pub(crate) fn deadline_at(&self, date: SystemTime) -> u64 {
        self.deadline_after(date.duration_since(self.wall()).unwrap_or_default())
    }

    /// Registers a listener with a clock that may be moved.
    pub(crate) fn listen(&self, listener: Weak<dyn ClockListener>) {
        if let Self::Custom(custom) = self {
            custom.clock.listen(listener);
        }
    }
}

impl CustomClock {
    fn now_ns(&self) -> u64 {
        let now_ns = self.clock.now_ns();
        // Relaxed: coherence of this one word is all that «never backwards» needs.
        self.highest_ns.fetch_max(now_ns, Ordering::Relaxed).max(now_ns)
    }
}

/// Nanoseconds of a duration; the end of time for more than 584 years.
#[inline]
pub(crate) fn as_ns(duration: Duration) -> u64 {
    let seconds_ns = duration.as_secs().saturating_mul(1_000_000_000);
    seconds_ns.saturating_add(u64::from(duration.subsec_nanos()))
}

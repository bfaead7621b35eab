//! The clock of a world's plans: wall time, without the jumps of a moment.
//!
//! Due times are stored as wall time, since a date is all that two processes share. Within a
//! process the monotonic clock shows a jump of the wall clock: for [`CLOCK_HOLD`] the world counts
//! on from the time before it, so that limits and timers set meanwhile keep to elapsed time. A
//! clock that stays where it jumped to is right from then on: it was corrected, or the machine
//! slept. A clock that comes back later is believed at once, and so is one that nobody has looked
//! at for as long: timers of waiting plans and schedules look at it each minute.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_runtime::Group;

use crate::limits::{CLOCK_HOLD, CLOCK_STEP};
use crate::time::Time;

/// The clock of a world's plans.
pub(super) struct Clock {
    group: Group,
    /// Wall time less monotonic time, in microseconds, as the world believes it.
    offset: AtomicI64,
    /// When it was looked at, in monotonic microseconds, within [`CLOCK_STEP`].
    seen: AtomicI64,
    /// Whether there is a jump that is not believed.
    is_off: AtomicBool,
    jumps: Mutex<Jumps>,
}

#[derive(Default)]
struct Jumps {
    now: Option<Jump>,
    /// The offset before the last jump that was believed.
    before: Option<i64>,
}

/// A jump of the wall clock that may be one of a moment.
struct Jump {
    offset: i64,
    /// When it was noticed, in monotonic microseconds.
    noticed: i64,
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").field("offset", &self.offset).finish_non_exhaustive()
    }
}

impl Clock {
    /// Begins with the wall time of now.
    pub(super) fn new(group: &Group) -> Self {
        let clock = Self {
            group: group.clone(),
            offset: AtomicI64::new(0),
            seen: AtomicI64::new(0),
            is_off: AtomicBool::new(false),
            jumps: Mutex::default(),
        };
        let (monotonic, wall) = clock.read();
        clock.offset.store(wall - monotonic, Ordering::Relaxed);
        clock.seen.store(monotonic, Ordering::Relaxed);
        clock
    }

    /// Monotonic and wall time, in microseconds.
    fn read(&self) -> (i64, i64) {
        let monotonic = i64::try_from(self.group.now_ns() / 1_000).unwrap_or(i64::MAX);
        let wall = Time::from(self.group.wall()).0;
        (monotonic, i64::try_from(wall).unwrap_or(i64::MAX))
    }

    /// The wall time as it is; a jump is noticed by that.
    pub(super) fn wall(&self) -> Time {
        let _of_plans = self.now();
        self.group.wall().into()
    }

    /// The time of plans.
    pub(super) fn now(&self) -> Time {
        let (monotonic, wall) = self.read();
        let offset = wall - monotonic;
        let believed = self.offset.load(Ordering::Relaxed);
        let seen = self.seen.load(Ordering::Relaxed);
        let unseen = Duration::from_micros(monotonic.abs_diff(seen));
        if unseen >= CLOCK_STEP {
            self.seen.store(monotonic, Ordering::Relaxed);
        }
        let step = Duration::from_micros(offset.abs_diff(believed));
        if step > CLOCK_STEP {
            return self.held(monotonic, offset, believed, unseen >= CLOCK_HOLD);
        }
        if self.is_off.load(Ordering::Relaxed) {
            self.jumps.lock().now = None;
            self.is_off.store(false, Ordering::Relaxed);
        }
        // It follows a clock that is corrected little by little.
        if step >= Duration::from_millis(1) {
            self.offset.store(offset, Ordering::Relaxed);
        }
        time(wall)
    }

    /// The time while the wall clock is elsewhere: as before the jump, until that lasts.
    fn held(&self, monotonic: i64, offset: i64, believed: i64, is_unseen: bool) -> Time {
        let mut jumps = self.jumps.lock();
        let is_same = |other: i64| Duration::from_micros(other.abs_diff(offset)) <= CLOCK_STEP;
        let noticed = match jumps.now.as_ref().filter(|jump| is_same(jump.offset)) {
            Some(jump) => jump.noticed,
            None => {
                jumps.now = Some(Jump { offset, noticed: monotonic });
                self.is_off.store(true, Ordering::Relaxed);
                monotonic
            }
        };
        let lasts = Duration::from_micros(monotonic.abs_diff(noticed)) >= CLOCK_HOLD;
        if !(lasts || is_unseen || jumps.before.is_some_and(is_same)) {
            return time(monotonic + believed);
        }
        *jumps = Jumps { now: None, before: Some(believed) };
        self.is_off.store(false, Ordering::Relaxed);
        self.offset.store(offset, Ordering::Relaxed);
        let seconds = (offset - believed) / 1_000_000;
        tracing::warn!(seconds, "the wall clock has jumped and stays there: plans follow it");
        time(monotonic + offset)
    }
}

fn time(us: i64) -> Time {
    Time(u64::try_from(us).unwrap_or_default())
}

//! A clock that runs by itself and can be moved, pinned and reset.

use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use turnwheel_runtime::time::{Clock, ClockListener, SystemClock};

/// The system's clock, with controls: for demonstrations and tests of a running system.
///
/// Clones are the same clock. Wall time and monotonic time move together, so that timers follow.
/// Monotonic time never goes back: if wall time is set back, monotonic time stays. Moving the clock
/// wakes the workers of every group that runs on it.
///
/// | call | running | pinned |
/// | --- | --- | --- |
/// | [`advance`](Self::advance) | goes on running, further ahead | moves, stays pinned |
/// | [`pin`](Self::pin), [`pin_at`](Self::pin_at) | stops | stays, or moves there |
/// | [`resume`](Self::resume) | nothing | goes on running from there |
/// | [`reset`](Self::reset) | shows the system's time again | the same, running |
///
/// # Example
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use turnwheel_extras::OffsetClock;
/// use turnwheel_runtime::time::Clock;
///
/// let clock = OffsetClock::new();
/// clock.pin_at(UNIX_EPOCH + Duration::from_secs(1_000));
/// clock.advance(Duration::from_secs(60));
/// assert_eq!(clock.wall(), UNIX_EPOCH + Duration::from_secs(1_060));
/// clock.reset();
/// assert!(clock.wall() > UNIX_EPOCH + Duration::from_secs(1_060));
/// ```
#[derive(Clone, Debug)]
pub struct OffsetClock {
    system: Arc<dyn Clock>,
    shared: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    monotonic: Monotonic,
    wall: Wall,
    listeners: Vec<Weak<dyn ClockListener>>,
}

/// Monotonic time: `base_ns` plus the time since the system's clock showed `since_ns`.
#[derive(Debug)]
struct Monotonic {
    base_ns: u64,
    /// Nothing passes while pinned.
    since_ns: Option<u64>,
}

#[derive(Debug)]
enum Wall {
    /// The system's wall time plus `ahead`, minus `behind`; so corrections of it show.
    Running {
        ahead: Duration,
        behind: Duration,
    },
    Pinned(SystemTime),
}

impl OffsetClock {
    /// A running clock without an offset. Monotonic time starts with 0.
    #[must_use]
    pub fn new() -> Self {
        Self::over(Arc::new(SystemClock::new()))
    }

    /// The same controls over another clock.
    #[must_use]
    pub fn over(system: Arc<dyn Clock>) -> Self {
        let since_ns = Some(system.now_ns());
        let state = State {
            monotonic: Monotonic { base_ns: 0, since_ns },
            wall: Wall::Running { ahead: Duration::ZERO, behind: Duration::ZERO },
            listeners: Vec::new(),
        };
        Self { system, shared: Arc::new(Mutex::new(state)) }
    }

    /// Moves the time forward: a pinned clock stays pinned, a running one keeps running.
    ///
    /// # Panics
    ///
    /// If the wall time leaves the range of [`SystemTime`].
    pub fn advance(&self, duration: Duration) {
        self.change(|state, _| {
            match &mut state.wall {
                Wall::Running { ahead, .. } => *ahead += duration,
                Wall::Pinned(wall) => *wall += duration,
            }
            state.monotonic.advance(duration);
        });
    }

    /// Stops the clock at its present time.
    pub fn pin(&self) {
        self.change(|state, system| state.pin(system));
    }

    /// Stops the clock at a wall time. If that is ahead, as much monotonic time passes.
    pub fn pin_at(&self, wall: SystemTime) {
        self.change(|state, system| {
            let before = state.wall(system);
            state.pin(system);
            state.wall = Wall::Pinned(wall);
            state.monotonic.advance(wall.duration_since(before).unwrap_or_default());
        });
    }

    /// Lets a pinned clock run on from its current time.
    pub fn resume(&self) {
        self.change(|state, system| state.run_from(system, state.wall(system)));
    }

    /// Shows the system's wall time again, running. If that is ahead, as much monotonic time
    /// passes.
    pub fn reset(&self) {
        self.change(|state, system| {
            let (before, after) = (state.wall(system), system.wall());
            state.monotonic.advance(after.duration_since(before).unwrap_or_default());
            state.run_from(system, after);
            state.wall = Wall::Running { ahead: Duration::ZERO, behind: Duration::ZERO };
        });
    }

    /// Whether the clock is pinned.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        matches!(self.shared.lock().wall, Wall::Pinned(_))
    }

    fn change(&self, change: impl FnOnce(&mut State, &dyn Clock)) {
        let living = {
            let mut state = self.shared.lock();
            change(&mut state, &*self.system);
            // Called outside of the lock.
            state.listeners.iter().filter_map(Weak::upgrade).collect::<Vec<_>>()
        };
        living.iter().for_each(|listener| listener.clock_moved());
    }
}

impl Default for OffsetClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for OffsetClock {
    fn now_ns(&self) -> u64 {
        self.shared.lock().monotonic.now_ns(&*self.system)
    }

    fn wall(&self) -> SystemTime {
        self.shared.lock().wall(&*self.system)
    }

    fn listen(&self, listener: Weak<dyn ClockListener>) {
        self.system.listen(Weak::clone(&listener));
        let mut state = self.shared.lock();
        state.listeners.retain(|listener| listener.strong_count() > 0);
        state.listeners.push(listener);
    }
}

impl State {
    fn wall(&self, system: &dyn Clock) -> SystemTime {
        match self.wall {
            Wall::Running { ahead, behind } => system.wall() + ahead - behind,
            Wall::Pinned(wall) => wall,
        }
    }

    fn pin(&mut self, system: &dyn Clock) {
        self.wall = Wall::Pinned(self.wall(system));
        self.monotonic = Monotonic { base_ns: self.monotonic.now_ns(system), since_ns: None };
    }

    fn run_from(&mut self, system: &dyn Clock, wall: SystemTime) {
        if let Wall::Pinned(_) = self.wall {
            let ahead = wall.duration_since(system.wall()).unwrap_or_default();
            let behind = system.wall().duration_since(wall).unwrap_or_default();
            self.wall = Wall::Running { ahead, behind };
            self.monotonic.since_ns = Some(system.now_ns());
        }
    }
}

impl Monotonic {
    fn now_ns(&self, system: &dyn Clock) -> u64 {
        let passed_ns = self.since_ns.map_or(0, |since| system.now_ns().saturating_sub(since));
        self.base_ns.saturating_add(passed_ns)
    }

    fn advance(&mut self, duration: Duration) {
        let duration_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.base_ns = self.base_ns.saturating_add(duration_ns);
    }
}

#[cfg(test)]
mod tests {
    use turnwheel_runtime::time::ManualClock;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn clocks() -> (ManualClock, OffsetClock) {
        let system = ManualClock::new();
        let clock = OffsetClock::over(Arc::new(system.clone()));
        (system, clock)
    }

    #[test]
    fn an_offset_clock_goes_on_running() {
        let (system, clock) = clocks();
        let start = clock.wall();
        clock.advance(60 * SECOND);
        system.advance(SECOND);
        assert_eq!(clock.wall(), start + 61 * SECOND);
        assert_eq!(clock.now_ns(), 61_000_000_000);
    }

    #[test]
    fn a_pinned_clock_stays_put_and_resumes_from_there() {
        let (system, clock) = clocks();
        let start = clock.wall();
        clock.pin();
        system.advance(10 * SECOND);
        assert!(clock.is_pinned());
        assert_eq!((clock.wall(), clock.now_ns()), (start, 0));
        clock.advance(2 * SECOND);
        assert_eq!((clock.wall(), clock.now_ns()), (start + 2 * SECOND, 2_000_000_000));
        clock.resume();
        system.advance(SECOND);
        assert_eq!((clock.wall(), clock.now_ns()), (start + 3 * SECOND, 3_000_000_000));
    }

    #[test]
    fn setting_the_wall_time_back_passes_no_monotonic_time() {
        let (system, clock) = clocks();
        let start = clock.wall();
        clock.pin_at(start + 5 * SECOND);
        assert_eq!(clock.now_ns(), 5_000_000_000);
        clock.pin_at(start);
        assert_eq!((clock.wall(), clock.now_ns()), (start, 5_000_000_000));
        system.advance(SECOND);
        clock.reset();
        assert!(!clock.is_pinned());
        assert_eq!((clock.wall(), clock.now_ns()), (system.wall(), 6_000_000_000));
    }

    #[test]
    fn reset_takes_an_offset_away_without_running_backwards() {
        let (system, clock) = clocks();
        clock.advance(60 * SECOND);
        clock.reset();
        assert_eq!((clock.wall(), clock.now_ns()), (system.wall(), 60_000_000_000));
        system.advance(SECOND);
        assert_eq!(clock.now_ns(), 61_000_000_000);
    }
}

//! Virtual time: moved only by the test, from one deadline to the next.

use std::time::{Duration, SystemTime};

use super::state::{Sim, SimGroup, SimState};
use crate::sync::Ordering;
use crate::time::clock::{as_ns, Clock};
use crate::time::ManualClock;

impl Sim {
    /// Virtual time since the simulation was made.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.state.common.clock.now_ns())
    }

    /// The virtual wall time.
    pub fn wall(&self) -> SystemTime {
        self.state.clock.wall()
    }

    /// The clock of all groups. Moving it fires nothing by itself; prefer [`Sim::advance`].
    pub fn clock(&self) -> ManualClock {
        self.state.clock.clone()
    }

    /// Lets time pass: runs until idle, moves to the next deadline within `duration`, fires the due
    /// timers, and repeats. Returns the number of turns. Empty time costs nothing.
    ///
    /// # Panics
    ///
    /// As [`Sim::run_until_idle`].
    pub fn advance(&self, duration: Duration) -> usize {
        let state = &self.state;
        // The clock's own time: after a jump back the time of groups stands still for a while.
        let target_ns = state.clock.now_ns().saturating_add(as_ns(duration));
        let turns = state.run_through(target_ns, || true);
        state.move_to(target_ns);
        turns
    }

    /// Runs until idle, then moves to the next deadline and fires the due timers, if there are any.
    /// Returns whether there was one.
    ///
    /// # Panics
    ///
    /// As [`Sim::run_until_idle`].
    pub fn advance_to_next_timer(&self) -> bool {
        self.run_until_idle();
        let is_advanced = self.state.advance_to_next();
        self.run_until_idle();
        is_advanced
    }

    /// Sets the virtual duration of closures given to `run_blocking` from now on; at first zero.
    ///
    /// A closure runs on the simulation's thread at the end of its duration. A blocking wait inside
    /// it is refused.
    pub fn block_for(&self, duration: Duration) {
        self.state.common.block_ns.store(as_ns(duration), Ordering::Relaxed);
    }
}

impl SimState {
    /// Runs until idle at each deadline up to this time, while `goes_on`. Returns the number of
    /// turns.
    pub(super) fn run_through(&self, end_ns: u64, goes_on: impl Fn() -> bool) -> usize {
        let mut turns = self.run_until_idle();
        while goes_on() {
            let Some(next_ns) = self.next_deadline_ns().filter(|next| *next <= end_ns) else {
                break;
            };
            self.move_to(next_ns);
            turns += self.run_until_idle();
        }
        turns
    }

    /// Moves to the next deadline. False if there is none.
    pub(super) fn advance_to_next(&self) -> bool {
        while let Some(next_ns) = self.next_deadline_ns() {
            self.move_to(next_ns);
            if self.service_due() {
                return true;
            }
            // A cancelled timer has left its deadline behind.
        }
        false
    }

    /// When the next timer or blocking closure is due; or somewhat earlier, if a timer was
    /// cancelled.
    pub(super) fn next_deadline_ns(&self) -> Option<u64> {
        let groups = self.all();
        let next = groups.iter().filter_map(|group| {
            let timers = &group.shared.timers;
            let timer = (timers.pending() > 0).then(|| timers.earliest_ns());
            let hub = &group.hub;
            [timer, hub.next_end_ns(), hub.next_ending_ns()].into_iter().flatten().min()
        });
        next.min().filter(|next_ns| *next_ns < u64::MAX)
    }

    /// Sets the clock forward.
    pub(super) fn move_to(&self, time_ns: u64) {
        let delta_ns = time_ns.saturating_sub(self.clock.now_ns());
        self.clock.advance(Duration::from_nanos(delta_ns));
    }

    /// Whether anything is due, after deadlines left behind by cancelled timers are forgotten.
    fn service_due(&self) -> bool {
        let now_ns = self.common.clock.now_ns();
        let mut is_due = false;
        for SimGroup { shared, hub, .. } in self.all().iter() {
            is_due |= shared.timers.service(now_ns, || {}) > 0
                || hub.is_blocking_over(now_ns)
                || hub.next_ending_ns().is_some_and(|end_ns| end_ns <= now_ns);
        }
        is_due
    }
}

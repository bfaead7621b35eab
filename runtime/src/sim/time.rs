//! Virtual time: it passes only when told, from one deadline to the next.

use std::time::{Duration, SystemTime};

use super::state::{Sim, SimState};
use crate::sync::Ordering;
use crate::time::clock::Clock;
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

    /// Lets time pass: runs until idle, moves to the next deadline that lies within `duration`,
    /// fires what is due there, and so on. Returns the number of turns. Costs what the turns cost:
    /// empty time is free.
    ///
    /// # Panics
    ///
    /// As [`Sim::run_until_idle`].
    pub fn advance(&self, duration: Duration) -> usize {
        let state = &self.state;
        let duration_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let target_ns = state.clock.now_ns().saturating_add(duration_ns);
        let mut turns = state.run_until_idle();
        while let Some(next_ns) = state.next_deadline_ns().filter(|next| *next <= target_ns) {
            state.move_to(next_ns);
            turns += state.run_until_idle();
        }
        state.move_to(target_ns);
        turns
    }

    /// Runs until idle, and then moves to the next deadline and fires what is due there, if there
    /// is any. Returns whether something was.
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

    /// How long closures given to `run_blocking` from now on take in virtual time; at first none.
    ///
    /// A closure runs on the simulation's thread when that time is over. Beware: a blocking wait
    /// inside of it is refused.
    pub fn block_for(&self, duration: Duration) {
        let block_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.state.common.block_ns.store(block_ns, Ordering::Relaxed);
    }
}

impl SimState {
    /// Moves to the next time at which something fires. False if there is none.
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
        if delta_ns > 0 {
            self.clock.advance(Duration::from_nanos(delta_ns));
        }
    }

    /// Whether anything is due, after deadlines left behind by cancelled timers are forgotten.
    fn service_due(&self) -> bool {
        let now_ns = self.common.clock.now_ns();
        let is_over = |end_ns: Option<u64>| end_ns.is_some_and(|end_ns| end_ns <= now_ns);
        let mut is_due = false;
        for group in self.all().iter() {
            let hub = &group.hub;
            is_due |= group.shared.timers.service(now_ns, || {}) > 0
                || is_over(hub.next_end_ns())
                || is_over(hub.next_ending_ns());
        }
        is_due
    }
}

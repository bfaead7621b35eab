//! Faults that a simulation injects.

use std::time::{Duration, SystemTime};

use super::random::Random;
use super::state::Sim;
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::task::Header;
use crate::time::clock::Clock;

/// A planned fault, for [`Sim::inject`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// A job panics instead of running.
    ///
    /// It is dropped unrun while its task unwinds, so a caller that waits for it sees a panic.
    PanicAtJob {
        /// Jobs of tasks with this name are counted; all jobs, if nothing is given.
        task: Option<String>,
        /// Number of the job from now on, counted from 1.
        job: u64,
    },
    /// A ready task gets lost for a while, as if no worker had been woken for it. Others run before
    /// it, until a worker on watch finds it or no other work is left.
    LoseHint {
        /// Once in so many times that a task becomes ready; 1 is always.
        one_in: u32,
    },
    /// A virtual worker is chosen seldom, and its turns take time.
    SlowWorker {
        /// Name of its group.
        group: String,
        /// Its number.
        worker: usize,
        /// Once in so many of the times at which it would be chosen; 1 is always.
        one_in: u32,
        /// Virtual time that each of its turns takes.
        turn: Duration,
    },
}

/// The faults that tasks and queues meet; shared by all groups of a simulation.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Planned panics: the name of the task, and the number of its jobs until then.
    panics: Mutex<Vec<(Option<String>, u64)>>,
    /// 0: no hint is lost.
    lose_one_in: AtomicU64,
    hints: AtomicU64,
    /// Slow workers: group, number, once in how many choices, time of a turn.
    slow: Mutex<Vec<(String, usize, u32, Duration)>>,
}

impl Faults {
    fn add(&self, fault: Fault) {
        match fault {
            Fault::PanicAtJob { task, job } => self.panics.lock().push((task, job.max(1))),
            Fault::LoseHint { one_in } => {
                self.lose_one_in.store(u64::from(one_in.max(1)), Ordering::Relaxed);
            }
            Fault::SlowWorker { group, worker, one_in, turn } => {
                self.slow.lock().push((group, worker, one_in.max(1), turn));
            }
        }
    }

    fn clear(&self) {
        self.panics.lock().clear();
        self.slow.lock().clear();
        self.lose_one_in.store(0, Ordering::Relaxed);
    }

    /// Whether the job that begins now is to panic.
    pub(super) fn is_to_panic(&self, header: &Header) -> bool {
        let mut panics = self.panics.lock();
        let mut is_now = false;
        panics.retain_mut(|(task, left)| {
            if task.as_deref().is_some_and(|task| task != header.name()) {
                return true;
            }
            *left -= 1;
            is_now |= *left == 0;
            *left > 0
        });
        is_now
    }

    /// Whether the task that becomes ready now is lost for a while.
    pub(super) fn is_lost(&self) -> bool {
        let one_in = self.lose_one_in.load(Ordering::Relaxed);
        if one_in == 0 {
            return false;
        }
        // Every n-th, not by chance: other threads make tasks ready too, and have no generator.
        let number = self.hints.fetch_add(1, Ordering::Relaxed) + 1;
        number % one_in == 0
    }

    /// Whether this worker is passed over this time.
    pub(super) fn is_passed_over(&self, group: &str, worker: usize, random: &Random) -> bool {
        let slow = self.slow.lock();
        let mut own = slow.iter().filter(|slow| slow.0 == group && slow.1 == worker);
        own.any(|(.., one_in, _)| !random.one_in(*one_in as usize))
    }

    /// Virtual time that a turn of this worker takes on top.
    pub(super) fn turn_time(&self, group: &str, worker: usize) -> Duration {
        let slow = self.slow.lock();
        let own = slow.iter().filter(|slow| slow.0 == group && slow.1 == worker);
        own.map(|(.., turn)| *turn).sum()
    }
}

impl Sim {
    /// Injects a fault from now on.
    ///
    /// ```
    /// use turnwheel_runtime::sim::{Fault, Sim};
    /// use turnwheel_runtime::Failure;
    ///
    /// let sim = Sim::new(1);
    /// let task = sim.group("cpu").task(0).name("disk").spawn()?;
    /// sim.inject(Fault::PanicAtJob { task: Some("disk".into()), job: 2 });
    /// assert!(sim.wait(task.call(|_, _| ())).is_ok());
    /// assert!(matches!(sim.wait(task.call(|_, _| ())), Err(Failure::Panicked(_))));
    /// assert!(sim.wait(task.call(|_, _| ())).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn inject(&self, fault: Fault) {
        self.state.common.faults.add(fault);
    }

    /// Takes all injected faults back, but for jumps of the clock.
    pub fn heal(&self) {
        self.state.common.faults.clear();
    }

    /// Lets the wall clock jump to this time, forward or back. No monotonic time passes, so no
    /// timer is affected.
    pub fn set_wall(&self, wall: SystemTime) {
        self.state.clock.set_wall(wall);
    }

    /// Lets the monotonic clock jump back, a fault that real machines do not have. The time of all
    /// groups stands still until the clock has caught up: no timer is lost, and none fires early.
    pub fn jump_clock_back(&self, duration: Duration) {
        for group in self.state.all().iter() {
            // Each group has seen the present time before it is taken back.
            group.shared.now_ns();
        }
        self.state.common.clock.now_ns();
        self.state.clock.inject_jump_back(duration);
        debug_assert!(self.now().as_nanos() >= u128::from(self.state.clock.now_ns()));
    }
}

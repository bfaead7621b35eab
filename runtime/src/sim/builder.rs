//! Description of a simulation.

use std::time::SystemTime;

use super::random::Random;
use super::state::Sim;
use crate::limits::{SIM_TURNS_MAX, SIM_WORKERS_DEFAULT, WORKERS_MAX};

/// Describes a simulation; every value has a default.
///
/// ```
/// use turnwheel_runtime::sim::Sim;
/// let sim = Sim::builder().seed(7).workers(4).build();
/// assert_eq!(sim.group("cpu").workers(), 4);
/// assert_eq!(sim.seed(), Some(7));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct SimBuilder {
    pub(super) seed: Option<u64>,
    pub(super) workers: usize,
    pub(super) turns_max: u64,
    pub(super) wall: Option<SystemTime>,
}

impl SimBuilder {
    pub(super) fn new() -> Self {
        Self { seed: Some(0), workers: SIM_WORKERS_DEFAULT, turns_max: SIM_TURNS_MAX, wall: None }
    }

    setters! {
        /// Sets the seed of all choices that a real machine makes by chance; by default 0.
        seed(self, seed: u64) => self.seed = Some(seed);

        /// No random choices: tasks run in the order in which they became ready, and turns use
        /// their full budget.
        fifo(self) => self.seed = None;

        /// Virtual workers of each group that is built without a count of its own; from 1 to
        /// `WORKERS_MAX`, by default 2.
        workers(self, count: usize) => self.workers = count.clamp(1, WORKERS_MAX);

        /// Turns in one go after which [`Sim::run_until_idle`] and its kin give up; by default a
        /// million.
        turns_max(self, turns: u64) => self.turns_max = turns.max(1);

        /// The wall time at the start; by default 2000-01-01 00:00 UTC.
        wall(self, wall: SystemTime) => self.wall = Some(wall);
    }

    /// The simulation. It belongs to the thread that builds it.
    #[must_use]
    pub fn build(self) -> Sim {
        let random = self.seed.map(Random::new);
        Sim::start(self, random)
    }
}

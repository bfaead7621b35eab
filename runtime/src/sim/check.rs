//! Many seeds, one test: finding the seed that fails, and replaying it.

use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};

use super::builder::SimBuilder;
use super::record::Events;
use super::state::Sim;
use crate::failure::Failure;

/// Environment variable with the single seed to run instead of all.
const SEED_VARIABLE: &str = "TURNWHEEL_SEED";
/// Events that are shown of a failed run.
const EVENTS_SHOWN: usize = 40;

/// A seed under which a test has failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("seed {seed} failed; replay with {SEED_VARIABLE}={seed}: {failure}")]
#[non_exhaustive]
pub struct FailingSeed {
    /// The seed; [`Sim::new`] with it repeats the run.
    pub seed: u64,
    /// The panic of the test.
    pub failure: Failure,
    /// The recorded events, if the test has called [`Sim::record`].
    pub events: Events,
}

/// Runs a test once for each seed. If one fails, says which, shows the last recorded events, and
/// fails with it.
///
/// With `TURNWHEEL_SEED=<number>` in the environment only that seed runs: the replay.
///
/// A panic inside of a job belongs to its task and fails no test; see [`Sim::assert_no_failures`].
///
/// ```
/// use turnwheel_runtime::sim::{self, Sim};
///
/// sim::check(0..20, |sim| {
///     let count = sim.group("cpu").spawn(0).expect("the group is open");
///     for _ in 0..5 {
///         count.submit(|count, _| *count += 1).expect("room in the mailbox");
///     }
///     assert_eq!(sim.wait(count.call(|count, _| *count)).expect("no job fails"), 5);
/// });
/// ```
///
/// # Panics
///
/// With the panic of the first run that fails, or if the variable holds no number.
pub fn check(seeds: impl IntoIterator<Item = u64>, test: impl FnMut(&Sim)) {
    Sim::builder().check(seeds, test);
}

/// Returns the first seed under which a test fails, if there is one.
///
/// As [`check`], but prints nothing and ignores the environment: for tests that plant a bug and
/// expect it to be found.
pub fn find(seeds: impl IntoIterator<Item = u64>, test: impl FnMut(&Sim)) -> Option<FailingSeed> {
    Sim::builder().find(seeds, test)
}

impl SimBuilder {
    /// As [`sim::check`](check) with simulations like this one; its own seed does not count.
    ///
    /// # Panics
    ///
    /// As [`sim::check`](check).
    pub fn check(self, seeds: impl IntoIterator<Item = u64>, test: impl FnMut(&Sim)) {
        let failed = match replayed() {
            Some(seed) => self.first_failing([seed], test),
            None => self.first_failing(seeds, test),
        };
        let Some((found, panic)) = failed else { return };
        if !found.events.is_empty() {
            eprintln!("the last events:\n{}", found.events.last(EVENTS_SHOWN));
        }
        eprintln!("seed {} failed; replay with {SEED_VARIABLE}={}", found.seed, found.seed);
        resume_unwind(panic);
    }

    /// As [`sim::find`](find) with simulations like this one; its own seed does not count.
    pub fn find(
        self,
        seeds: impl IntoIterator<Item = u64>,
        test: impl FnMut(&Sim),
    ) -> Option<FailingSeed> {
        self.first_failing(seeds, test).map(|(found, _)| found)
    }

    fn first_failing(
        &self,
        seeds: impl IntoIterator<Item = u64>,
        mut test: impl FnMut(&Sim),
    ) -> Option<(FailingSeed, Panic)> {
        seeds.into_iter().find_map(|seed| {
            let sim = self.clone().seed(seed).build();
            let panic = catch_unwind(AssertUnwindSafe(|| test(&sim))).err()?;
            let failure = Failure::from_panic_ref(panic.as_ref());
            Some((FailingSeed { seed, failure, events: sim.events() }, panic))
        })
    }
}

type Panic = Box<dyn std::any::Any + Send>;

fn replayed() -> Option<u64> {
    let seed = std::env::var(SEED_VARIABLE).ok()?;
    match seed.trim().parse() {
        Ok(seed) => Some(seed),
        Err(error) => panic!("{SEED_VARIABLE} is {seed:?}, which is no seed: {error}"),
    }
}

//! Small cases: every order in which ready tasks can run, instead of some by chance.

use super::builder::SimBuilder;
use super::random::{Random, Script};
use super::state::Sim;

/// Progress of [`explore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explored {
    /// Runs made.
    pub runs: u64,
    /// Whether these were all there are.
    pub is_complete: bool,
}

/// Runs a test once for each order in which ready tasks, due timers and blocking closures can
/// follow each other, at most `runs_max` times.
///
/// Each group has one worker, and turns end where their budget does: with a
/// [`Budget`](crate::Budget) of one job the orders of single jobs are explored. The number of runs
/// grows like a factorial, so this is for a handful of tasks. Apart from the simulation's choices,
/// the test must be deterministic.
///
/// ```
/// use std::collections::HashSet;
/// use turnwheel_runtime::sim;
///
/// let mut results = HashSet::new();
/// let explored = sim::explore(100, |sim| {
///     let group = sim.group("cpu");
///     let value = group.spawn(1).expect("the group is open");
///     for factor in [2, 3] {
///         let (value, task) = (value.clone(), group.spawn(()).expect("the group is open"));
///         let work = move |number: &mut i32| *number = *number * factor + 1;
///         let job = move |_: &mut (), _: &mut turnwheel_runtime::Context<'_, ()>| {
///             value.submit(move |number, _| work(number)).expect("room in the mailbox");
///         };
///         task.submit(job).expect("room in the mailbox");
///     }
///     sim.run_until_idle();
///     results.insert(sim.wait(value.call(|value, _| *value)).expect("no job fails"));
/// });
/// assert!(explored.is_complete);
/// assert_eq!(results, HashSet::from([10, 9]));
/// ```
///
/// # Panics
///
/// With the panic of the first run that fails.
pub fn explore(runs_max: u64, mut test: impl FnMut(&Sim)) -> Explored {
    let mut script = Script::default();
    let mut runs = 0;
    while runs < runs_max {
        let config = SimBuilder::new().fifo().workers(1);
        let sim = Sim::start(config, Some(Random::scripted(script)));
        test(&sim);
        runs += 1;
        script = sim.state.random.as_ref().and_then(Random::script).unwrap_or_default();
        drop(sim);
        if !script.advance() {
            return Explored { runs, is_complete: true };
        }
    }
    Explored { runs, is_complete: false }
}

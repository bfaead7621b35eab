//! One test under many seeds.

use turnwheel_runtime::sim::{self, Explored, FailingSeed};

use crate::stage::Stage;

/// Runs a test once for each seed, each time on a fresh stage. If one fails, says which, and fails
/// with it; with `TURNWHEEL_SEED=<number>` in the environment only that seed runs.
///
/// A panic in a handler belongs to its actor and fails no test: [`Stage::assert_no_failures`] does.
///
/// ```
/// use turnwheel_actors_testkit as testkit;
///
/// testkit::check(0..20, |stage| {
///     let probe = stage.probe::<u32>("probe");
///     probe.address().tell(1).expect("the probe lives");
///     probe.expect(|number| *number == 1);
/// });
/// ```
///
/// # Panics
///
/// With the panic of the first run that fails.
pub fn check(seeds: impl IntoIterator<Item = u64>, mut test: impl FnMut(&Stage<'_>)) {
    sim::check(seeds, |sim| test(&Stage::on(sim)));
}

/// Returns the first seed under which a test fails, if there is one: for tests that plant a bug.
pub fn find(
    seeds: impl IntoIterator<Item = u64>,
    mut test: impl FnMut(&Stage<'_>),
) -> Option<FailingSeed> {
    sim::find(seeds, |sim| test(&Stage::on(sim)))
}

/// Runs a test once for each order in which ready actors can follow each other, at most `runs_max`
/// times; see [`sim::explore`]. For a handful of actors.
///
/// # Panics
///
/// With the panic of the first run that fails.
pub fn explore(runs_max: u64, mut test: impl FnMut(&Stage<'_>)) -> Explored {
    sim::explore(runs_max, |sim| test(&Stage::on(sim)))
}

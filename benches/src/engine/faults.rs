//! `engine --faults`: stores that fail, clocks that are wrong, processes that end, at every moment of some
//! workloads. No measurement: it says how many points were tried and what was wrong.

#[path = "../../../engine/tests/faults/workloads.rs"]
mod workloads;

use std::time::Instant;

use turnwheel_engine::testkit::Faults;

use crate::error::BenchError;

/// Tries all workloads, and tells after each what came of it.
pub(crate) fn faults(seeds: u64, points: usize, pairs: usize) -> Result<(), BenchError> {
    let begun = Instant::now();
    let options = Faults::new().seeds(1..=seeds).points(points).pairs(pairs);
    let report = workloads::all(&options, &options, |name, report| {
        println!("{name}, after {:.1?}: {report}", begun.elapsed());
    });
    println!("all, in {:.1?}: {report}", begun.elapsed());
    match report.violations {
        0 => Ok(()),
        count => Err(BenchError::Failed(format!("{count} of {} points are wrong", report.points))),
    }
}

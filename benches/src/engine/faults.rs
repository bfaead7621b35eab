//! `engine --faults`: stores that fail, clocks that are wrong, processes that end, at every moment of some
//! workloads. No measurement: it says how many points were tried and what was wrong.

#[path = "../../../engine/tests/faults/workloads.rs"]
mod workloads;

#[path = "../../../engine/tests/faults/runs.rs"]
mod runs;

use std::path::Path;
use std::time::Instant;

use turnwheel_testkit::{FaultReport, Faults};

use self::workloads as faults;
use crate::error::BenchError;

/// Share of the points that are tried with files as well: one in so many.
const FILES_SHARE: usize = 8;

/// At most so many points of each workload with files.
const FILES_POINTS: usize = 100;

/// Tries all workloads, and tells after each what came of it.
pub(crate) fn faults(seeds: u64, points: usize, pairs: usize) -> Result<(), BenchError> {
    let begun = Instant::now();
    let memory = Faults::new().seeds(1..=seeds);
    // In memory if there is such a place: nothing here has to survive this process.
    let shared = Path::new("/dev/shm");
    let parent = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
    let folder = parent.join(format!("turnwheel-faults-{}", std::process::id()));
    let files = memory.clone().sqlite_in(&folder);
    let few = (points / FILES_SHARE).clamp(1, FILES_POINTS);
    let mut all = FaultReport::default();
    for (store, options) in [
        ("memory", memory.points(points).pairs(pairs)),
        ("sqlite", files.points(few).pairs(pairs / FILES_SHARE)),
    ] {
        let told = |name: &str, report: &FaultReport| {
            println!("{store}, {name}, after {:.1?}: {report}", begun.elapsed());
        };
        let report = runs::all(options.clone(), options, told);
        println!("{store}: {report}");
        all.add(report);
    }
    // It is empty: each store has removed its own folder.
    let _none_was_made = std::fs::remove_dir(&folder);
    println!("all, in {:.1?}: {all}", begun.elapsed());
    match all.violations {
        0 => Ok(()),
        count => Err(BenchError::Failed(format!("{count} of {} points are wrong", all.points))),
    }
}

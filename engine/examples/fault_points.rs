//! Puts the store, the clock or the process of a world in trouble at every moment of some
//! workloads, alone and in pairs, and lets it go on: all points, where the tests try some hundred.
//! It takes some minutes.
//!
//! `cargo run --release -p turnwheel-engine --example fault_points [seeds [pairs [first seed]]]`
//!
//! Seeds are counted from the first one, so that several processes can share the points.
#![expect(clippy::print_stdout, reason = "it tells what it has found")]

#[path = "../tests/faults/workloads.rs"]
mod faults;

#[path = "../tests/faults/runs.rs"]
mod runs;

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use turnwheel_engine::testkit::{FaultReport, Faults};

/// Points of each workload and seed with files.
const FILES_POINTS: usize = 100;

/// Pairs of each workload and seed with files.
const FILES_PAIRS: usize = 25;

/// Points of each schedule and seed: its plans need minutes of virtual time.
const SCHEDULE_POINTS: usize = 400;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let seeds: u64 = arguments.next().map_or(Ok(2), |count| count.parse())?;
    let pairs: usize = arguments.next().map_or(Ok(500), |count| count.parse())?;
    let first: u64 = arguments.next().map_or(Ok(1), |seed| seed.parse())?;
    let begun = Instant::now();
    // In memory if there is such a place: nothing here has to survive this process.
    let shared = Path::new("/dev/shm");
    let folder = match shared.is_dir() {
        true => tempfile::tempdir_in(shared)?,
        false => tempfile::tempdir()?,
    };
    let memory = Faults::new().seeds(first..first + seeds).pairs(pairs);
    let files = Faults::new().seeds(first..first + seeds).points(FILES_POINTS).pairs(FILES_PAIRS);
    let files = files.sqlite_in(folder.path());
    let mut all = FaultReport::default();
    for (store, options) in [("sqlite", files), ("memory", memory)] {
        let told = |name: &str, report: &FaultReport| {
            println!("{store}, {name}, after {:.1?}: {report}", begun.elapsed());
        };
        let schedules = match store {
            "sqlite" => options.clone().points(FILES_PAIRS),
            _ => options.clone().points(SCHEDULE_POINTS),
        };
        let report = runs::all(options, schedules, told);
        println!("{store}: {report}");
        all.add(report);
    }
    println!("both, in {:.1?}: {all}", begun.elapsed());
    match all.violations {
        0 => Ok(()),
        count => Err(format!("{count} of {} points are wrong", all.points).into()),
    }
}

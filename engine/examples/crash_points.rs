//! Ends a world at every write of some workloads, in memory and in files, and lets it recover: all points,
//! where the tests try some hundred. It takes some minutes.
//!
//! `cargo run --release -p turnwheel-engine --example crash_points [seeds]`
#![expect(clippy::print_stdout, reason = "it tells what it has found")]

#[path = "../tests/crash/workloads.rs"]
mod workloads;

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use turnwheel_testkit::{CrashPoints, CrashReport};

/// Points that make a proof worth its name.
const POINTS_LEAST: u64 = 10_000;

/// Points of each schedule: its plans need minutes of virtual time.
const SCHEDULE_POINTS: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let seeds: u64 = std::env::args().nth(1).map_or(Ok(4), |count| count.parse())?;
    let begun = Instant::now();
    let mut all = CrashReport::default();
    let memory = CrashPoints::new().seeds(1..=seeds).second_crashes(6);
    // In memory if there is such a place: nothing here has to survive this process.
    let memory_folder = Path::new("/dev/shm");
    let folder = match memory_folder.is_dir() {
        true => tempfile::tempdir_in(memory_folder)?,
        false => tempfile::tempdir()?,
    };
    let sqlite = CrashPoints::new().seeds(1..=seeds.div_ceil(2)).sqlite_in(folder.path());
    for (store, options) in [("memory", memory), ("sqlite", sqlite)] {
        let told = |name: &str, report: &CrashReport| {
            println!("{store}, {name}, after {:.1?}: {report}", begun.elapsed());
        };
        let report = workloads::all(&options, &options.clone().points(SCHEDULE_POINTS), told);
        println!("{store}: {report}");
        all.add(report);
    }
    println!("both, in {:.1?}: {all}", begun.elapsed());
    if all.violations > 0 {
        return Err("something is lost or done twice".into());
    }
    if all.points < POINTS_LEAST {
        return Err(format!("{} points are fewer than {POINTS_LEAST}", all.points).into());
    }
    Ok(())
}

//! A world that is interrupted at its writes goes on, and stands by what it has said.

#[path = "crash/workloads.rs"]
mod workloads;

#[path = "faults/workloads.rs"]
mod faults;

use turnwheel_engine::testkit::{CrashPoints, Faults};

/// Points for each seed of each workload: `cargo run --example crash_points` tries all.
const POINTS: usize = 40;

#[test]
fn nothing_is_lost_or_done_twice_wherever_the_process_ends() {
    let report = workloads::all(&CrashPoints::new().seeds([1, 2]).points(POINTS));
    eprintln!("{report}");
    report.assert_clean();
}

#[test]
fn nothing_is_lost_or_done_twice_wherever_a_file_is_torn() {
    let folder = tempfile::tempdir().unwrap();
    let options = CrashPoints::new().points(POINTS).sqlite_in(folder.path());
    let report = workloads::all(&options);
    eprintln!("{report}");
    report.assert_clean();
}

#[test]
fn plans_go_on_after_all_kinds_of_trouble() {
    // About 11 x 43 + 4 x 10 points: `turnwheel-bench engine --faults` tries all.
    let options = Faults::new().points(32).pairs(12);
    let schedules = Faults::new().points(6).pairs(4);
    let report = faults::all(&options, &schedules, |name, report| eprintln!("{name}: {report}"));
    report.assert_clean();
}

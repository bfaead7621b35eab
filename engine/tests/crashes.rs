//! A world that is interrupted at its writes goes on, and stands by what it has said.

#[path = "crash/workloads.rs"]
mod workloads;

use turnwheel_engine::testkit::CrashPoints;

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

//! A world whose process, store or clock is in trouble goes on, and stands by what it has said.

#[path = "crash/workloads.rs"]
mod workloads;

#[path = "faults/runs.rs"]
mod runs;

#[path = "crash/clean_ends.rs"]
mod clean_ends;

use turnwheel_testkit::{CrashPoints, CrashReport, FaultReport, Faults, Twin, Workload};

use workloads::faults::{self, Plans, Promise, Steps, Subject};

/// Points for each seed of each workload: `cargo run --example crash_points` tries all.
const POINTS: usize = 10;

/// The same for schedules, whose plans need minutes of virtual time.
const SCHEDULE_POINTS: usize = 3;

fn crash(options: CrashPoints) -> CrashReport {
    let (options, schedules) = (options.clone().points(POINTS), options.points(SCHEDULE_POINTS));
    workloads::all(&options, &schedules, |name, report| eprintln!("{name}: {report}"))
}

fn fault(options: Faults, schedules: Faults) -> FaultReport {
    runs::all(options, schedules, |name, report| eprintln!("{name}: {report}"))
}

#[test]
fn nothing_is_lost_or_done_twice_wherever_the_process_ends() {
    let report = crash(CrashPoints::new().second_crashes(1));
    eprintln!("{report}");
    report.assert_clean();
}

#[test]
fn nothing_is_lost_or_done_twice_wherever_a_file_is_torn() {
    let folder = tempfile::tempdir().unwrap();
    let report = crash(CrashPoints::new().sqlite_in(folder.path()));
    eprintln!("{report}");
    report.assert_clean();
}

#[test]
fn plans_go_on_after_all_kinds_of_trouble() {
    // With those in files more than 500 points; the example `fault_points` and
    // `turnwheel-bench engine --faults` try all.
    let options = Faults::new().points(29).pairs(9);
    fault(options, Faults::new().points(6).pairs(4)).assert_clean();
}

#[test]
fn plans_in_files_go_on_after_all_kinds_of_trouble() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = Faults::new().sqlite_in(folder.path());
    fault(sqlite.clone().points(5).pairs(2), sqlite.points(2).pairs(1)).assert_clean();
}

/// Tries some points with a defect. The minimal workload of a violation is one point.
fn finds<W: Workload>(twin: Twin, make: impl Fn() -> W) {
    let report = Faults::new().broken(twin).points(60).run(&make);
    assert!(report.violations > 0, "{twin:?} is not found: {report}");
    let first = &report.first[0];
    assert_eq!((first.seed, first.points.len()), (1, 1), "{first}");
    let again = Faults::new().broken(twin).once(&make(), 1, &first.points);
    assert_eq!(again, Err(first.problem.clone()), "its seed and its points show it again");
    let well = Faults::new().once(&make(), 1, &first.points);
    assert_eq!(well, Ok(()), "the store that is not broken");
}

#[test]
fn followers_in_memory_only_are_found() {
    finds(Twin::ForgetsFollowers, || Plans::new(Subject::Chains));
}

#[test]
fn times_in_memory_only_are_found() {
    finds(Twin::ForgetsWakes, || Steps::new(Promise::Times));
}

#[test]
fn plans_that_are_not_gone_on_with_are_found() {
    finds(Twin::ForgetsBusy, || Steps::new(Promise::Times));
}

#[test]
fn lost_answers_that_are_believed_to_be_failures_are_found() {
    finds(Twin::DeniesLostAnswers, || Plans::new(Subject::Trees));
}

#[test]
fn commits_that_are_not_made_again_are_found() {
    finds(Twin::SkipsFailedCommits, || Plans::new(Subject::Trees));
}

#[test]
fn dead_letters_that_are_not_written_again_are_found() {
    finds(Twin::DropsLetters, || Steps::new(Promise::Letters));
}

#[test]
fn clocks_that_are_believed_at_once_are_found() {
    finds(Twin::BelievesClock, || Steps::new(Promise::Times));
}

//! Stores that fail, or whose answers are lost, while jobs are launched.

use turnwheel_engine::{MemoryStore, StoreError};
use turnwheel_jobs::{LaunchState, Overlap};
use turnwheel_testkit::FaultStore;

use super::common::{job, row, set, Stage, HOUR, MINUTE, SECOND};

/// Trouble with one commit, or with all of them for some time.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    Fails,
    FailsForAMinute,
    LosesItsAnswer,
}

const ALL: [Trouble; 3] = [Trouble::Fails, Trouble::FailsForAMinute, Trouble::LosesItsAnswer];

fn begin(store: &FaultStore, trouble: Trouble, write: u64) {
    let error = || StoreError::Failed("for a test".to_owned());
    let commit = store.commits() + write;
    match trouble {
        Trouble::Fails => store.fail_at(commit, error()),
        Trouble::FailsForAMinute => {
            (0..60).for_each(|later| store.fail_at(commit + later, error()))
        }
        Trouble::LosesItsAnswer => store.lose_answer_at(commit),
    }
}

fn stage() -> (FaultStore, Stage) {
    let store = FaultStore::new(MemoryStore::new());
    (store.clone(), Stage::over(store, 9, "2026-01-01T00:00:00Z"))
}

#[test]
fn each_time_has_one_row_and_launches_go_on_after_a_commit_in_trouble() {
    for overlap in [Overlap::Allow, Overlap::Forbid, Overlap::QueueOne, Overlap::Replace] {
        for (trouble, write) in ALL.into_iter().flat_map(|it| (1..14).map(move |at| (it, at))) {
            let case = format!("{overlap:?}, {trouble:?} at {write}");
            let (store, stage) = stage();
            stage.put(job("often", "@every 1m", |spec| {
                spec.overlap = overlap;
                set(spec, "takes", "90s");
            }));
            stage.sim.advance(MINUTE + SECOND);
            begin(&store, trouble, write);
            stage.sim.advance(4 * MINUTE);
            store.heal();
            stage.sim.advance(10 * MINUTE);
            let history = stage.history("often");
            let rows: Vec<String> = history.iter().map(row).collect();
            let mut times: Vec<String> = rows.iter().map(|row| row[..8].to_owned()).collect();
            times.sort();
            let expected: Vec<String> =
                (1..=15).map(|minute| format!("00:{minute:02}:00")).collect();
            assert_eq!(times, expected, "{case}: {rows:?}");
            let begun = stage.play.begun.lock().expect("no panic before").len();
            let launched = history.iter().filter(|launch| !launch.runs.is_empty()).count();
            assert_eq!(begun, launched, "{case}: each launch runs once, {rows:?}");
            assert!(launched >= 5, "{case}: launches go on, {rows:?}");
            let open = history.iter().filter(|launch| launch.state == LaunchState::Running).count();
            assert!(overlap == Overlap::Allow || open <= 1, "{case}: {rows:?}");
        }
    }
}

#[test]
fn a_launch_whose_cancel_was_answered_is_cancelled() {
    for (trouble, write) in ALL.into_iter().flat_map(|it| (1..8).map(move |at| (it, at))) {
        for is_ended in [false, true] {
            let case = format!("{trouble:?} at {write}, is_ended {is_ended}");
            let (store, mut stage) = stage();
            stage.put(job("long", "@manually", |spec| set(spec, "takes", "10h")));
            let launch = stage.wait(stage.jobs.run("long", "test", false)).expect("it is launched");
            stage.sim.advance(SECOND);
            begin(&store, trouble, write);
            let mut said = Vec::new();
            while let Err(error) = stage.wait(stage.jobs.cancel("long", launch, "test")) {
                said.push(error.to_string());
                // A lost answer: the error is one of a cancel that is there.
                if stage.history("long")[0].state == LaunchState::Cancelled {
                    break;
                }
                // Each of them is one of the commits that fail.
                assert!(said.len() < 70, "{case}: {said:?} {:?}", stage.history("long"));
                stage.sim.advance(10 * SECOND);
            }
            if is_ended {
                stage.outage(SECOND);
            }
            stage.sim.advance(HOUR);
            let history = stage.history("long");
            assert_eq!(history[0].state, LaunchState::Cancelled, "{case}: {history:?}");
        }
    }
}

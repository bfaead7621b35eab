//! Waits that are ended by others: for the last task of a group, the watchdog's sleep, chains.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use turnwheel_loom::Ran;
use turnwheel_runtime::completion::{completion, InlineExecutor};
use turnwheel_runtime::model::{
    check, check_without, group, park_worker, run_ready, spawn, unpark_worker, until_asleep,
    wait_empty, watchdog_sleep, Step,
};

/// Runs a wait on a thread of its own beside what ends it. Whether it has ended.
fn ends(wait: impl FnOnce() + Send + 'static, end: impl FnOnce()) -> bool {
    // No model sees the flag: it is looked at when nothing runs any more.
    let has_ended = Arc::new(AtomicU32::new(0));
    let waiting = {
        let has_ended = Arc::clone(&has_ended);
        spawn(move || {
            wait();
            has_ended.store(1, Ordering::SeqCst);
        })
    };
    end();
    until_asleep();
    let has_ended = has_ended.load(Ordering::SeqCst) == 1;
    if has_ended {
        waiting.join();
    }
    has_ended
}

fn wait_for_the_last_task() {
    let (group, _) = group(1);
    let task = Ran::task(&group);
    let waited = group.clone();
    let has_ended = ends(
        move || assert!(wait_empty(&waited)),
        || {
            drop(task.kill());
            run_ready(&group);
        },
    );
    assert!(has_ended, "the last task has ended, and a shutdown waits for it");
}

#[test]
fn who_waits_for_the_last_task_is_told() {
    check(wait_for_the_last_task);
}

#[test]
#[should_panic(expected = "a shutdown waits")]
fn twin_that_tells_without_the_lock_is_not_heard() {
    check_without(Step::EndedLock, wait_for_the_last_task);
}

fn sleep_of_the_watchdog() {
    let (group, _) = group(1);
    park_worker(&group, 0);
    let watched = group.clone();
    let has_ended = ends(move || watchdog_sleep(&watched), || unpark_worker(&group, 0));
    assert!(has_ended, "a worker works, and the watchdog sleeps");
}

#[test]
fn the_watchdog_is_awake_while_a_worker_is() {
    check(sleep_of_the_watchdog);
}

#[test]
#[should_panic(expected = "the watchdog sleeps")]
fn twin_that_sleeps_without_another_look_is_not_woken() {
    check_without(Step::WatchdogLook, sleep_of_the_watchdog);
}

/// A chain is made as another thread completes its source.
fn complete_a_chain() {
    let (completer, value) = completion();
    let completing = spawn(move || assert!(completer.complete(1).is_ok()));
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let answer = value.then_on(InlineExecutor, move |value| {
        counted.fetch_add(1, Ordering::SeqCst);
        value.map(|value| value + 1)
    });
    completing.join();
    assert!(answer.is_done(), "the source's wake-up is lost");
    assert_eq!(answer.wait().ok(), Some(2), "the source's wake-up is lost");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[test]
fn a_chain_runs_once_however_its_source_is_woken() {
    check(complete_a_chain);
}

#[test]
#[should_panic(expected = "is lost")]
fn twin_that_ends_its_poll_by_a_store_sleeps_through_a_wakeup() {
    check_without(Step::DriverExchange, complete_a_chain);
}

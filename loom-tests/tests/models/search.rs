//! The loop of a worker: search, parking and the wake-up by a producer.

use turnwheel_loom::Ran;
use turnwheel_runtime::model::{
    check, check_one_preemption, check_without, group, spawn, stop, until_asleep, Step,
};

/// Submits to tasks of a group whose workers start meanwhile, one each.
fn submit_while_parking(workers: usize) {
    let (group, runners) = group(workers);
    let tasks: Vec<_> = (0..workers).map(|_| Ran::task(&group)).collect();
    let running: Vec<_> = runners.into_iter().map(|one| spawn(move || one.run())).collect();
    let answers: Vec<_> = tasks.iter().map(|task| task.call(|ran, _| ran.note(1))).collect();
    until_asleep();
    assert!(answers.iter().all(|answer| answer.is_done()), "a job waits, and all workers sleep");
    stop(&group);
    running.into_iter().for_each(|one| one.join());
}

#[test]
fn a_worker_that_parks_sees_the_push_or_is_woken() {
    check(|| submit_while_parking(1));
}

#[test]
fn of_two_workers_one_takes_each_job() {
    check_one_preemption(|| submit_while_parking(2));
}

#[test]
#[should_panic(expected = "all workers sleep")]
fn twin_without_last_look_sleeps_through_a_push() {
    check_without(Step::LastLook, || submit_while_parking(1));
}

#[test]
#[should_panic(expected = "all workers sleep")]
fn twin_that_parks_without_fence_sleeps_through_a_push() {
    check_without(Step::ParkFence, || submit_while_parking(1));
}

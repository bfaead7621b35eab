//! A worker that an executor polls: parking, the wake-up by a producer, and a thread that waits for
//! an answer and runs the worker's turns meanwhile.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};

use turnwheel_loom::Ran;
use turnwheel_runtime::model::{
    check, check_one_preemption, check_without, hosted, spawn, stop, until_asleep, Executor, Step,
};

/// Submits to a task whose worker begins to park meanwhile.
fn submit_while_parking() {
    let (group, worker) = hosted();
    let task = Ran::task(&group);
    let running = spawn(move || Executor::here().run(worker));
    let answer = task.call(|ran, _| ran.note(1));
    until_asleep();
    assert!(answer.is_done(), "a job waits, and the worker sleeps");
    stop(&group);
    running.join();
}

#[test]
fn a_hosted_worker_that_parks_sees_the_push_or_is_woken() {
    check(submit_while_parking);
}

#[test]
#[should_panic(expected = "the worker sleeps")]
fn twin_without_last_look_sleeps_through_a_push_to_a_hosted_worker() {
    check_without(Step::LastLook, submit_while_parking);
}

/// A thread that has polled the worker asks, and runs its turns; another one polls it now.
fn submit_while_assisted() {
    let (group, mut worker) = hosted();
    let (own, other) = (Ran::task(&group), Ran::task(&group));
    // It polls once: a wake-up tells it nothing.
    let mut once = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut worker).poll(&mut once).is_pending(), "it has parked");
    let running = spawn(move || Executor::here().run(worker));
    let pushing = spawn(move || other.call(|ran, _| ran.note(1)));
    let mut answer = own.call(|ran, _| ran.note(1));
    let is_given = Pin::new(&mut answer).poll(&mut once).is_ready();
    let other = pushing.join();
    until_asleep();
    stop(&group);
    running.join();
    // After the join, which shows what the worker did; it runs nothing once it was stopped.
    assert!(is_given || answer.is_done(), "a question waits, and the worker sleeps");
    assert!(other.is_done(), "a job waits, and the worker sleeps");
}

#[test]
fn jobs_beside_a_thread_that_assists_are_run() {
    check_one_preemption(submit_while_assisted);
}

#[test]
#[should_panic(expected = "the worker sleeps")]
fn twin_that_forgets_a_poll_without_seat_sleeps_beside_a_job() {
    check_without(Step::MissedPoll, submit_while_assisted);
}

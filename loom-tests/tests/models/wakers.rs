//! The kept count of a future's waker: clones in a turn of the task against clones elsewhere.

use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use turnwheel_loom::Ran;
use turnwheel_runtime::model::{
    check, check_without, counted, group, keepers, run_ready, spawn, Step,
};

/// The wakers that a future has left: no model sees the lock, which is held for no step of one.
type Left = Arc<Mutex<Vec<Waker>>>;

/// A future is polled again, and clones its waker in that turn, while another thread clones an
/// earlier one. Then all go.
fn clone_in_two_places() {
    let (group, _) = group(1);
    let task = Ran::task(&group);
    let left = Left::default();
    let waiting = {
        let left = Arc::clone(&left);
        task.call(move |_, cx| {
            let future = std::future::poll_fn(move |cx| {
                let waker = cx.waker().clone();
                left.lock().expect("no panic inside").push(waker);
                Poll::<()>::Pending
            });
            cx.await_interleaved(future, |_, _, ()| {})
        })
    };
    run_ready(&group);
    let subscription = waiting.wait().expect("the task lives");
    let first = Arc::new(left.lock().expect("no panic inside").pop().expect("the first poll's"));
    let polling = {
        let (group, first) = (group.clone(), Arc::clone(&first));
        spawn(move || {
            first.wake_by_ref();
            run_ready(&group);
        })
    };
    let second = Waker::clone(&first);
    polling.join();
    let wakers = left.lock().expect("no panic inside").split_off(0);
    // The slot of the task, our handle, and the wakers.
    assert_eq!(counted(&subscription), 2 + 2 + wakers.len(), "each waker has a count of its own");
    drop((first, second, wakers, subscription, left));
    drop(task.kill());
    run_ready(&group);
    drop(task);
    assert_eq!(keepers(&group), 1, "nothing is left");
}

#[test]
fn each_waker_has_a_count_of_its_own() {
    check(clone_in_two_places);
}

#[test]
#[should_panic]
fn twin_that_takes_the_kept_count_anywhere_gives_it_to_two_wakers() {
    check_without(Step::SpareInTurn, clone_in_two_places);
}

/// A future is woken by two threads, by value, while its task is idle or runs.
fn wake_from_two_threads() {
    let (group, _) = group(1);
    let task = Ran::task(&group);
    let left = Left::default();
    let waiting = {
        let left = Arc::clone(&left);
        task.call(move |_, cx| {
            let future = std::future::poll_fn(move |cx| {
                let waker = cx.waker().clone();
                left.lock().expect("no panic inside").push(waker);
                Poll::<()>::Pending
            });
            cx.await_interleaved(future, |_, _, ()| {})
        })
    };
    run_ready(&group);
    let subscription = waiting.wait().expect("the task lives");
    let first = left.lock().expect("no panic inside").pop().expect("the first poll's");
    let second = first.clone();
    let other = {
        let group = group.clone();
        spawn(move || {
            first.wake();
            run_ready(&group);
        })
    };
    second.wake();
    run_ready(&group);
    other.join();
    let wakers = left.lock().expect("no panic inside").split_off(0);
    assert!(!wakers.is_empty(), "a wake-up brings a poll");
    assert_eq!(counted(&subscription), 2 + wakers.len());
    drop((wakers, subscription, left));
    drop(task.kill());
    run_ready(&group);
    drop(task);
    assert_eq!(keepers(&group), 1, "nothing is left");
}

#[test]
fn wakeups_by_value_from_two_threads_bring_the_future_back_and_keep_the_counts() {
    check(wake_from_two_threads);
}

#[test]
#[should_panic]
fn twin_that_takes_an_idle_task_without_order_races_with_its_last_runner() {
    check_without(Step::IdleTaken, wake_from_two_threads);
}

//! A turn and its end: `run`, `leave`, `phases`, `ready` and the lane against submissions, signals,
//! handles that go, and the end of the task.

use std::future::Future;
use std::task::Poll;

use loom::sync::Arc;
use turnwheel_loom::{ran, submit, Ran};
use turnwheel_runtime::completion::{block_on, completion};
use turnwheel_runtime::model::{check, check_without, group, keepers, run_ready, spawn, Step};
use turnwheel_runtime::{Completion, ConditionMode, Group, Mailbox, Permit, Task};

fn two_producers() {
    let (group, _) = group(1);
    let task = Ran::task(&group);
    let other = {
        let (group, task) = (group.clone(), task.clone());
        spawn(move || submit(&group, &task, 10))
    };
    assert!(submit(&group, &task, 1) && submit(&group, &task, 2));
    assert!(other.join());
    let ran = ran(&group, &task);
    let own: Vec<u32> = ran.iter().copied().filter(|number| *number < 10).collect();
    assert_eq!(own, [1, 2], "one producer's jobs keep their order");
    assert_eq!(ran.len(), 3, "each ran once");
}

#[test]
fn two_producers_lose_nothing_and_never_run_the_task_at_once() {
    check(two_producers);
}

#[test]
#[should_panic]
fn twin_idle_without_release_races_on_the_state() {
    check_without(Step::IdleRelease, two_producers);
}

/// A condition is signalled while the task runs a job and leaves.
fn signal_a_task() {
    let (group, _) = group(1);
    let task = Ran::task(&group);
    let condition = task.call(|_, cx| cx.condition(ConditionMode::Counting, |ran, _| ran.note(7)));
    run_ready(&group);
    let condition = condition.wait().expect("the task lives");
    let signaller = {
        let group = group.clone();
        spawn(move || {
            condition.signal();
            run_ready(&group);
            condition
        })
    };
    assert!(submit(&group, &task, 1));
    let condition = signaller.join();
    let mut ran = ran(&group, &task);
    ran.sort_unstable();
    assert_eq!(ran, [1, 7], "the signal is not slept through");
    drop(condition);
}

#[test]
fn a_signal_is_never_slept_through() {
    check(signal_a_task);
}

#[test]
#[should_panic]
fn twin_signal_without_tag_is_slept_through() {
    check_without(Step::SignalTag, signal_a_task);
}

/// A task waits in an exclusive future, held, while its value comes and a job is submitted.
fn wake_a_held_task() {
    let (group, _) = group(1);
    let task = Ran::task(&group);
    let (completer, value) = completion();
    let waiting = task.submit(|_, cx| cx.run_exclusive(value, |ran, _, _| ran.note(7)));
    assert!(waiting.is_ok());
    let completing = {
        let group = group.clone();
        spawn(move || {
            assert!(completer.complete(()).is_ok());
            run_ready(&group);
        })
    };
    assert!(submit(&group, &task, 1));
    completing.join();
    assert_eq!(ran(&group, &task), [7, 1], "the future's end, and only then the job");
}

#[test]
fn a_held_task_comes_back_for_its_value_and_runs_nothing_before() {
    check(wake_a_held_task);
}

#[test]
#[should_panic]
fn twin_hold_without_release_races_on_the_subscriptions() {
    check_without(Step::HoldRelease, wake_a_held_task);
}

/// Two values come for one task that waits for both.
#[test]
fn two_wakeups_at_once_of_a_held_task_lose_nothing() {
    check(|| {
        let (group, _) = group(1);
        let task = Ran::task(&group);
        let (one, two) = (completion(), completion());
        let values = (one.1, two.1);
        let waiting = task.submit(move |_, cx| {
            let both = std::future::poll_fn({
                let (mut one, mut two) = values;
                move |cx| match (poll(&mut one, cx), poll(&mut two, cx)) {
                    (true, true) => Poll::Ready(()),
                    _ => Poll::Pending,
                }
            });
            cx.run_exclusive(both, |ran, _, ()| ran.note(7));
        });
        assert!(waiting.is_ok());
        run_ready(&group);
        let other = {
            let (group, two) = (group.clone(), two.0);
            spawn(move || {
                assert!(two.complete(()).is_ok());
                run_ready(&group);
            })
        };
        assert!(one.0.complete(()).is_ok());
        run_ready(&group);
        other.join();
        assert_eq!(ran(&group, &task), [7]);
    });
}

/// Whether it is done; polled until it is, and no further.
fn poll(value: &mut Completion<()>, cx: &mut std::task::Context<'_>) -> bool {
    value.is_done() || std::pin::Pin::new(value).poll(cx).is_ready()
}

/// Closes a task while another thread submits to it.
fn close_while_submitting() {
    let (group, _) = group(1);
    let task = Ran::task(&group);
    let job = Arc::new(());
    let producer = {
        let (group, task, job) = (group.clone(), task.clone(), Arc::clone(&job));
        spawn(move || {
            let accepted = task.submit(move |ran, _| {
                ran.note(1);
                drop(job);
            });
            let is_accepted = accepted.is_ok();
            run_ready(&group);
            is_accepted
        })
    };
    let closed = task.close();
    run_ready(&group);
    producer.join();
    assert!(closed.is_done(), "the close is carried out without another push");
    drop(task);
    assert!(Arc::try_unwrap(job).is_ok(), "an accepted job is run or dropped");
    assert_eq!(keepers(&group), 1, "the cell is freed");
}

#[test]
fn a_job_accepted_before_the_close_is_run() {
    check(close_while_submitting);
}

/// Kills a task while another thread submits to it.
fn kill_while_submitting() {
    let (group, _) = group(1);
    let task = Ran::task(&group);
    let job = Arc::new(());
    let producer = {
        let (group, task, job) = (group.clone(), task.clone(), Arc::clone(&job));
        spawn(move || {
            // Whether it is run, dropped or refused: it goes once.
            drop(task.submit(move |_, _| drop(job)));
            run_ready(&group);
        })
    };
    let killed = task.kill();
    run_ready(&group);
    producer.join();
    assert!(killed.is_done());
    drop(task);
    assert!(Arc::try_unwrap(job).is_ok(), "an accepted job is run or dropped");
    assert_eq!(keepers(&group), 1, "the cell is freed");
}

#[test]
fn a_killed_task_drops_what_it_has_accepted() {
    check(kill_while_submitting);
}

/// A task stops itself in a job while another thread submits to it.
fn stop_while_submitting() {
    let (group, _) = group(1);
    let task = Ran::task(&group);
    let job = Arc::new(());
    let producer = {
        let (group, task, job) = (group.clone(), task.clone(), Arc::clone(&job));
        spawn(move || {
            drop(task.submit(move |_, _| drop(job)));
            run_ready(&group);
        })
    };
    assert!(task.submit(|_, cx| cx.stop()).is_ok());
    run_ready(&group);
    producer.join();
    assert!(task.phase().is_over());
    drop(task);
    assert!(Arc::try_unwrap(job).is_ok(), "an accepted job is run or dropped");
    assert_eq!(keepers(&group), 1, "the cell is freed");
}

#[test]
fn a_stopped_task_waits_for_a_producer_that_is_under_way() {
    check(stop_while_submitting);
}

#[test]
#[should_panic]
fn twin_end_without_a_look_at_producers_leaves_a_job() {
    check_without(Step::DrainedEnd, stop_while_submitting);
}

/// A subscription becomes ready while its task is killed.
fn kill_while_completing() {
    let (group, _) = group(1);
    let task = Ran::task(&group);
    let (completer, value) = completion::<()>();
    let waiting = task.submit(|_, cx| {
        cx.on_completion(value, |ran, _, _| ran.note(7));
    });
    assert!(waiting.is_ok());
    run_ready(&group);
    let completing = {
        let group = group.clone();
        spawn(move || {
            // Late if the task has dropped its subscription.
            let _ = completer.complete(());
            run_ready(&group);
        })
    };
    let killed = task.kill();
    run_ready(&group);
    completing.join();
    assert!(killed.is_done());
    drop((task, killed));
    assert_eq!(keepers(&group), 1, "nothing on the ready stack keeps the cell");
}

#[test]
fn a_subscription_that_becomes_ready_as_its_task_ends_is_not_kept() {
    check(kill_while_completing);
}

#[test]
#[should_panic(expected = "nothing on the ready stack")]
fn twin_that_empties_its_stack_before_it_is_dead_keeps_a_late_subscription() {
    check_without(Step::DeadFirst, kill_while_completing);
}

/// A task whose mailbox holds one job.
fn bounded(group: &Group) -> Task<Ran> {
    let builder = group.task(Ran::new()).mailbox(Mailbox::bounded(1));
    builder.spawn().expect("the group takes tasks")
}

#[test]
fn a_consumer_that_frees_places_never_lets_the_bound_be_passed() {
    check(|| {
        let (group, _) = group(1);
        let task = bounded(&group);
        // Runs at once: the count is one, and so is what was given back.
        assert!(submit(&group, &task, 1));
        let other = {
            let (group, task) = (group.clone(), task.clone());
            spawn(move || submit(&group, &task, 2))
        };
        let mine = submit(&group, &task, 3);
        let theirs = other.join();
        assert!(mine || theirs, "one finds the free place");
        let count = 1 + usize::from(mine) + usize::from(theirs);
        assert_eq!(ran(&group, &task).len(), count);
    });
}

#[test]
fn the_last_handle_that_goes_ends_the_task() {
    check(|| {
        let (group, _) = group(1);
        let task = Ran::task(&group);
        let weak = task.downgrade();
        let other = {
            let (group, task) = (group.clone(), task.clone());
            spawn(move || {
                drop(task);
                run_ready(&group);
            })
        };
        drop(task);
        run_ready(&group);
        other.join();
        assert!(weak.upgrade().is_none(), "the task is over");
        drop(weak);
        assert_eq!(keepers(&group), 1, "and its cell freed, once");
    });
}

#[test]
fn a_weak_handle_that_is_upgraded_at_the_end_keeps_nothing() {
    check(|| {
        let (group, _) = group(1);
        let task = Ran::task(&group);
        let weak = task.downgrade();
        let upgrading = {
            let group = group.clone();
            spawn(move || {
                if let Some(task) = weak.upgrade() {
                    submit(&group, &task, 1);
                }
                run_ready(&group);
            })
        };
        drop(task);
        run_ready(&group);
        // One that is upgraded as the task closes finds it closed.
        upgrading.join();
        run_ready(&group);
        assert_eq!(keepers(&group), 1);
    });
}

#[test]
fn a_full_mailbox_refuses_and_keeps_what_it_has() {
    check(|| {
        let (group, _) = group(1);
        let task = bounded(&group);
        let other = {
            let task = task.clone();
            spawn(move || task.submit(|ran, _| ran.note(1)).is_ok())
        };
        let mine = task.submit(|ran, _| ran.note(2)).is_ok();
        assert_ne!(mine, other.join(), "one finds the only place");
        run_ready(&group);
        assert_eq!(ran(&group, &task), [if mine { 2 } else { 1 }]);
    });
}

/// Takes the only place of a task's mailbox.
fn reserve(task: &Task<Ran>) -> Permit<Ran> {
    let place = block_on(task.reserve()).expect("no worker waits here");
    place.expect("the task is open")
}

#[test]
fn a_promised_place_counts_until_it_is_used() {
    check(|| {
        let (group, _) = group(1);
        let task = bounded(&group);
        let permit = reserve(&task);
        let other = {
            let task = task.clone();
            spawn(move || task.submit(|ran, _| ran.note(1)).is_ok())
        };
        assert!(permit.submit(|ran, _| ran.note(2)).is_ok(), "a promise is never full");
        assert!(!other.join(), "the only place is taken all the time");
        run_ready(&group);
        assert_eq!(ran(&group, &task), [2]);
    });
}

#[test]
fn a_close_between_promise_and_use_refuses_or_runs_the_job() {
    check(|| {
        let (group, _) = group(1);
        let task = bounded(&group);
        let permit = reserve(&task);
        let job = Arc::new(());
        let producer = {
            let (group, job) = (group.clone(), Arc::clone(&job));
            spawn(move || {
                drop(permit.submit(move |_, _| drop(job)));
                run_ready(&group);
            })
        };
        let closed = task.close();
        run_ready(&group);
        producer.join();
        assert!(closed.is_done(), "the end needs no further push");
        drop((task, closed));
        assert!(Arc::try_unwrap(job).is_ok(), "the job is run or given back");
        assert_eq!(keepers(&group), 1, "the cell is freed");
    });
}

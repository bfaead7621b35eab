//! The cold part of a task and the urgent lane in it: installation, and the close.

use loom::sync::Arc;
use turnwheel_loom::Ran;
use turnwheel_runtime::model::{check, check_without, group, keepers, run_ready, spawn, Step};
use turnwheel_runtime::{Group, Task};

fn submit_urgent(group: &Group, task: &Task<Ran>, number: u32) -> bool {
    let submitted = task.submit_urgent(move |ran, _| ran.note(number)).is_ok();
    run_ready(group);
    submitted
}

/// Two threads need the cold part of a task that has none.
fn install_twice() {
    let (group, _) = group(1);
    let task = Ran::task(&group);
    let other = {
        let (group, task) = (group.clone(), task.clone());
        spawn(move || submit_urgent(&group, &task, 1))
    };
    let mine = submit_urgent(&group, &task, 2);
    assert!(other.join() && mine);
    let mut ran = turnwheel_loom::ran(&group, &task);
    ran.sort_unstable();
    assert_eq!(ran, [1, 2], "both urgent jobs lie in the part that stays");
}

#[test]
fn of_two_installers_one_wins_and_both_use_its_part() {
    check(install_twice);
}

#[test]
#[should_panic]
fn twin_that_installs_without_release_shows_an_empty_part() {
    check_without(Step::ExtraRelease, install_twice);
}

/// A task closes while another thread submits its first urgent job.
fn close_while_submitting() {
    let (group, _) = group(1);
    let task = Ran::task(&group);
    let job = Arc::new(());
    let producer = {
        let (group, task, job) = (group.clone(), task.clone(), Arc::clone(&job));
        spawn(move || {
            let submitted = task.submit_urgent(move |ran, _| {
                ran.note(1);
                drop(job);
            });
            let is_accepted = submitted.is_ok();
            drop(submitted);
            run_ready(&group);
            is_accepted
        })
    };
    // Its last handle: nothing but the close installs the cold part on this side.
    drop(task);
    run_ready(&group);
    producer.join();
    run_ready(&group);
    assert!(Arc::try_unwrap(job).is_ok(), "an accepted job is run or dropped");
    assert_eq!(keepers(&group), 1, "the cell is freed");
}

#[test]
fn an_urgent_job_accepted_before_the_close_is_run() {
    check(close_while_submitting);
}

/// A task closes itself in a job while another thread submits its first urgent job.
fn close_itself() {
    let (group, _) = group(1);
    let task = Ran::task(&group);
    let ran = Arc::new(loom::sync::atomic::AtomicBool::new(false));
    let producer = {
        let (group, task, ran) = (group.clone(), task.clone(), Arc::clone(&ran));
        spawn(move || {
            let submitted = task.submit_urgent(move |_, _| {
                ran.store(true, loom::sync::atomic::Ordering::Relaxed);
            });
            let is_accepted = submitted.is_ok();
            drop(submitted);
            run_ready(&group);
            is_accepted
        })
    };
    assert!(task.submit(|_, cx| cx.close()).is_ok());
    run_ready(&group);
    let is_accepted = producer.join();
    assert!(task.phase().is_over(), "the close is carried out");
    let has_run = ran.load(loom::sync::atomic::Ordering::Relaxed);
    assert_eq!(has_run, is_accepted, "an accepted urgent job is run, a refused one is not");
}

#[test]
fn a_task_that_closes_runs_the_urgent_jobs_that_it_has_accepted() {
    check(close_itself);
}

#[test]
#[should_panic]
fn twin_that_closes_by_a_plain_look_accepts_an_urgent_job_that_never_runs() {
    check_without(Step::ExtraSettled, close_itself);
}

//! Weak handles: no reason for a task to stay, usable while it lives, and nothing leaks.

use std::error::Error;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use turnwheel_runtime::internal::Attached;
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Group, Pinning, SubmitErrorKind};

type Outcome = Result<(), Box<dyn Error>>;

/// Long enough for any machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_task_closes_although_weak_handles_are_left() -> Outcome {
    let sim = Sim::fifo();
    let held = Arc::new(());
    let task = sim.group("cpu").spawn(Arc::clone(&held))?;
    let weak = task.downgrade();
    let other = weak.clone();
    let closed = task.closed();
    drop(task);
    sim.wait(closed)?;
    assert_eq!(Arc::strong_count(&held), 1, "the state is dropped");
    assert!(weak.upgrade().is_none() && other.upgrade().is_none());
    assert!(format!("{weak:?}").contains("Arc"), "the name is known still");
    Ok(())
}

#[test]
fn an_upgraded_handle_keeps_the_task_and_its_drop_ends_it() -> Outcome {
    for seed in 0..50 {
        let sim = Sim::new(seed);
        let task = sim.group("cpu").spawn(1_u32)?;
        let weak = task.downgrade();
        let kept = weak.upgrade().ok_or("the task lives")?;
        drop(task);
        sim.run_until_idle();
        assert_eq!(sim.wait(kept.call(|state, _| *state))?, 1, "seed {seed}");
        let closed = kept.closed();
        drop(kept);
        sim.wait(closed)?;
        assert!(weak.upgrade().is_none(), "seed {seed}");
    }
    Ok(())
}

#[test]
fn a_closing_task_is_upgraded_and_takes_nothing() -> Outcome {
    let sim = Sim::fifo();
    let task = sim.group("cpu").spawn(())?;
    let weak = task.downgrade();
    let closed = task.close();
    let late = weak.upgrade().ok_or("it has not run yet")?;
    assert_eq!(late.submit(|(), _| {}).map_err(|error| error.kind), Err(SubmitErrorKind::Closed));
    sim.wait(closed)?;
    Ok(())
}

#[test]
fn upgrades_that_race_with_the_last_handle_end_well() -> Outcome {
    const ROUNDS: usize = if cfg!(miri) { 5 } else { 500 };
    let group = Group::builder("weak").workers(2).pinning(Pinning::None).build()?;
    for _ in 0..ROUNDS {
        let task = group.spawn(0_u32)?;
        let closed = task.closed();
        let weak = task.downgrade();
        let racer = thread::spawn(move || {
            let upgraded = weak.upgrade().is_some_and(|task| task.submit(|n, _| *n += 1).is_ok());
            drop(weak);
            upgraded
        });
        drop(task);
        racer.join().map_err(|_| "a racer panicked")?;
        closed.wait_timeout(PATIENCE)?;
    }
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn a_waiter_told_of_the_end_gets_no_handle_any_more() -> Outcome {
    const ROUNDS: usize = if cfg!(miri) { 5 } else { 2_000 };
    let group = Group::builder("told").workers(2).pinning(Pinning::None).build()?;
    for _ in 0..ROUNDS {
        let task = group.spawn(0_u32)?;
        let weak = task.downgrade();
        task.close().wait_timeout(PATIENCE)?;
        assert!(weak.upgrade().is_none());
    }
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

struct Named(&'static str);

impl Attached for Named {
    type Attachment = Arc<u32>;
}

#[test]
fn attachment_is_read_by_every_handle_and_dropped_with_the_last() -> Outcome {
    let sim = Sim::fifo();
    let held = Arc::new(7_u32);
    let task = sim.group("cpu").task(Named("state")).attach(Arc::clone(&held)).spawn()?;
    assert_eq!(task.attachment(), &held);
    assert_eq!(task.erased().attachment::<Arc<u32>>(), Some(&held));
    assert_eq!(task.erased().attachment::<u32>(), None, "it is of another type");
    assert_eq!(sim.group("cpu").spawn(())?.erased().attachment::<()>(), None, "there is none");
    let inside = task.call(|state, cx| (state.0, **cx.attachment()));
    assert_eq!(sim.wait(inside)?, ("state", 7));
    let weak = task.downgrade();
    sim.wait(task.close())?;
    assert_eq!(task.attachment(), &held, "the task is over, its memory is kept");
    drop(task);
    assert_eq!(Arc::strong_count(&held), 2, "a weak handle keeps it");
    drop(weak);
    assert_eq!(Arc::strong_count(&held), 1);
    Ok(())
}

#[test]
#[should_panic(expected = "attachment")]
fn attachment_that_was_not_given_panics() {
    let sim = Sim::fifo();
    let task = sim.group("cpu").spawn(Named("alone")).expect("the group runs");
    let _ = task.attachment();
}

//! Weak handles: no reason for a task to stay, usable while it lives, and nothing leaks.

use std::error::Error;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

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

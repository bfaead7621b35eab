//! Conditions (3.8 of the reference, and their order from 3.23).

use std::sync::Arc;

use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Condition, ConditionMode, Task};

use crate::{count, note, noted, Log};

fn condition(sim: &Sim, task: &Task<Log>, mode: ConditionMode) -> Condition {
    let made = task.call(move |_, cx| {
        cx.condition(mode, |log: &mut Log, cx| {
            note(log, "THREE");
            cx.run(|log, _| note(log, "FOUR")).expect("room in the fast lane");
            cx.yield_now();
        })
    });
    sim.wait(made).expect("the task lives")
}

// Z-049, Z-050, Z-051, Z-052
#[test]
fn a_counting_condition_runs_once_for_each_signal() {
    let (sim, log) = (Sim::fifo(), Log::default());
    let task = sim.group("cpu").spawn(Arc::clone(&log)).unwrap();
    let condition = condition(&sim, &task, ConditionMode::Counting);
    for round in 1..=4 {
        condition.signal();
        sim.run_until_idle();
        assert_eq!(count(&log, "THREE"), round);
    }
    (0..4).for_each(|_| condition.signal());
    sim.run_until_idle();
    assert_eq!((count(&log, "THREE"), count(&log, "FOUR")), (8, 8));
}

// Z-162
#[test]
fn jobs_of_a_condition_run_before_its_next_run() {
    let (sim, log) = (Sim::fifo(), Log::default());
    let task = sim.group("cpu").spawn(Arc::clone(&log)).unwrap();
    let condition = condition(&sim, &task, ConditionMode::Counting);
    condition.signal();
    condition.signal();
    task.submit(|log, cx| {
        note(log, "ONE");
        cx.run(|log, _| note(log, "TWO")).unwrap();
    })
    .unwrap();
    sim.run_until_idle();
    assert_eq!(noted(&log), ["ONE", "TWO", "THREE", "FOUR", "THREE", "FOUR"]);
}

#[test]
fn a_coalescing_condition_runs_at_least_once_after_the_last_signal() {
    let (sim, log) = (Sim::fifo(), Log::default());
    let task = sim.group("cpu").spawn(Arc::clone(&log)).unwrap();
    let condition = condition(&sim, &task, ConditionMode::Coalescing);
    (0..9).for_each(|_| condition.signal());
    sim.run_until_idle();
    assert_eq!(count(&log, "THREE"), 1);
    condition.cancel();
    condition.signal();
    sim.run_until_idle();
    assert_eq!(count(&log, "THREE"), 1);
}

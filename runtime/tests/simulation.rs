//! The simulation: one thread, virtual time, a seed, faults.

#![allow(missing_docs)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Budget, Failure, Group, Phase};

type Log = Arc<Mutex<Vec<u32>>>;

#[test]
fn nothing_runs_before_it_is_told_to() {
    let sim = Sim::fifo();
    let task = sim.group("cpu").spawn(0).unwrap();
    task.submit(|state, _| *state += 1).unwrap();
    assert_eq!((sim.pending(), task.queue_len()), (1, 1));
    assert!(sim.run_one());
    assert!(!sim.run_one());
    assert_eq!(sim.wait(task.call(|state, _| *state)).unwrap(), 1);
}

#[test]
fn fast_jobs_go_first_and_keep_their_order() {
    let sim = Sim::fifo();
    let task = sim.group("cpu").spawn(Vec::new()).unwrap();
    task.submit(|log: &mut Vec<&str>, cx| {
        log.push("A");
        cx.run(|log, cx| {
            log.push("A1");
            cx.run(|log, _| log.push("C")).unwrap();
        })
        .unwrap();
        cx.run(|log, _| log.push("A2")).unwrap();
    })
    .unwrap();
    task.submit(|log, _| log.push("B")).unwrap();
    assert_eq!(sim.run_until_idle(), 1);
    let log = sim.wait(task.call(|log, _| log.clone())).unwrap();
    assert_eq!(log, ["A", "A1", "C", "A2", "B"]);
}

#[test]
fn ready_tasks_run_in_order_without_a_seed() {
    let sim = Sim::fifo();
    let log = Log::default();
    let tasks: Vec<_> = (0..5).map(|number| sim.group("cpu").spawn(number).unwrap()).collect();
    for number in [3, 1, 4, 0, 2] {
        let log = Arc::clone(&log);
        tasks[number].submit(move |state, _| log.lock().unwrap().push(*state)).unwrap();
    }
    assert_eq!(sim.run_until_idle(), 5);
    assert_eq!(*log.lock().unwrap(), [3, 1, 4, 0, 2]);
}

#[test]
fn timers_fire_one_deadline_after_the_other() {
    let sim = Sim::new(3);
    let log = Log::default();
    let task = sim.group("cpu").spawn(()).unwrap();
    for delay in [30_u32, 10, 20] {
        let log = Arc::clone(&log);
        task.submit(move |_, cx| {
            cx.after(Duration::from_millis(delay.into()), move |_, cx| {
                assert_eq!(cx.now_ns(), u64::from(delay) * 1_000_000);
                log.lock().unwrap().push(delay);
            })
            .unwrap();
        })
        .unwrap();
    }
    sim.advance(Duration::from_millis(9));
    assert!(log.lock().unwrap().is_empty());
    assert!(sim.advance_to_next_timer());
    assert_eq!((sim.now(), log.lock().unwrap().len()), (Duration::from_millis(10), 1));
    sim.advance(Duration::from_secs(1));
    assert_eq!(*log.lock().unwrap(), [10, 20, 30]);
    assert!(!sim.advance_to_next_timer());
    assert_eq!(sim.now(), Duration::from_millis(1_010));
}

#[test]
fn a_job_of_a_timer_is_run_before_the_next_deadline() {
    let sim = Sim::fifo();
    let task = sim.group("cpu").spawn(Vec::new()).unwrap();
    task.submit(|_, cx| {
        cx.every(Duration::from_secs(2), turnwheel_runtime::Late::Burst, |log, cx| {
            log.push(cx.now_ns() / 1_000_000_000);
            cx.after(Duration::from_secs(1), |log: &mut Vec<u64>, cx| {
                log.push(cx.now_ns() / 1_000_000_000);
            })
            .unwrap();
        })
        .unwrap();
    })
    .unwrap();
    sim.advance(Duration::from_secs(5));
    let log = sim.wait(task.call(|log, _| log.clone())).unwrap();
    assert_eq!(log, [2, 3, 4, 5]);
}

#[test]
fn a_producers_jobs_keep_their_order_under_every_seed() {
    for seed in 0..200 {
        let sim = Sim::builder().seed(seed).workers(3).build();
        let group = sim.build(Group::builder("cpu").budget(Budget::new(4, Duration::MAX))).unwrap();
        let sink = group.spawn(Vec::new()).unwrap();
        for producer in 0..3_u32 {
            let source = group.spawn(()).unwrap();
            for number in 0..10_u32 {
                let sink = sink.clone();
                source
                    .submit(move |_, _| {
                        sink.submit(move |log, _| log.push((producer, number))).unwrap();
                    })
                    .unwrap();
            }
        }
        sim.run_until_idle();
        let log = sim.wait(sink.call(|log, _| log.clone())).unwrap();
        assert_eq!(log.len(), 30);
        for producer in 0..3 {
            let numbers = log.iter().filter(|(who, _)| *who == producer).map(|(_, n)| *n);
            assert!(numbers.eq(0..10), "seed {seed}: order of producer {producer}");
        }
    }
}

#[test]
fn tasks_of_an_ended_simulation_are_over() {
    let sim = Sim::new(5);
    let task = sim.group("cpu").spawn(()).unwrap();
    let closed = task.closed();
    assert_eq!(sim.leaks().len(), 1);
    drop(sim);
    assert_eq!(task.phase(), Phase::Failed);
    assert!(matches!(closed.wait(), Err(Failure::Killed)));
    assert!(task.submit(|_, _| {}).is_err());
}

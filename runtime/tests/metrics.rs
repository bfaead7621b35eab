//! Metrics of a group: tasks by class, distribution of latencies, long turns.

use std::sync::mpsc;

use turnwheel_runtime::{ClassMetrics, Group};

fn class_of(group: &Group, name: &str) -> Option<ClassMetrics> {
    group.metrics().classes.into_iter().find(|class| class.class == name)
}

#[test]
fn live_tasks_are_counted_by_class() {
    let group = Group::builder("classes").workers(2).build().unwrap();
    let lamps: Vec<_> =
        (0..40).map(|_| group.task(0_u32).class("lamp").spawn().expect("there is room")).collect();
    let door = group.task(()).class("door").spawn().expect("there is room");
    assert_eq!(class_of(&group, "lamp").map(|class| class.tasks), Some(40));
    assert_eq!(class_of(&group, "door").map(|class| class.tasks), Some(1));
    for lamp in &lamps[..15] {
        lamp.close().wait().unwrap();
    }
    door.close().wait().unwrap();
    assert_eq!(class_of(&group, "lamp").map(|class| class.tasks), Some(25));
    // A class without tasks is there only if it was sampled.
    assert!(class_of(&group, "door").is_none_or(|class| class.tasks == 0 && class.turns > 0));
    group.shutdown().unwrap();
}

#[test]
fn spreads_hold_every_sampled_turn_once_in_buckets_that_double() {
    let group = Group::builder("spreads").workers(1).build().unwrap();
    let task = group.task(0_u64).class("count").spawn().expect("there is room");
    let (told, all) = mpsc::channel();
    for _ in 0..20_000 {
        let sender = told.clone();
        let sent = task.submit(move |count: &mut u64, _| {
            *count += 1;
            let _gone = sender.send(*count);
        });
        if sent.is_err() {
            // Full: there is room again after some jobs have run.
            all.recv().expect("the sender is here");
        }
    }
    drop(told);
    all.iter().for_each(drop);
    task.close().wait().unwrap();
    let class = class_of(&group, "count").expect("it was sampled");
    assert!(class.turns > 0);
    for (spread, latency) in [(&class.waited_spread, class.waited), (&class.ran_spread, class.ran)]
    {
        let turns: u64 = spread.iter().map(|bucket| bucket.turns).sum();
        assert_eq!(turns, class.turns);
        assert!(spread.windows(2).all(|pair| pair[0].upto < pair[1].upto));
        let last = spread.last().expect("there is one").upto;
        assert!(last >= latency.p50, "{last:?} {latency:?}");
    }
    group.shutdown().unwrap();
}

#[test]
fn a_turn_that_lasts_is_told_with_its_worker_and_name() {
    let group = Group::builder("lasting").workers(2).build().unwrap();
    assert!(group.long_turns().is_empty());
    let task = group.task(()).name("digger").class("dig").spawn().expect("there is room");
    let (begun, is_begun) = mpsc::channel();
    let (go, may_go) = mpsc::channel::<()>();
    let submitted = task.submit(move |_, _| {
        begun.send(()).expect("somebody waits");
        let _gone = may_go.recv();
    });
    submitted.expect("there is room");
    is_begun.recv().expect("it begins");
    // The watchdog sees it within its period.
    let found = loop {
        match group.long_turns().pop() {
            Some(found) => break found,
            None => std::thread::yield_now(),
        }
    };
    assert_eq!((found.name.as_str(), found.class.as_str()), ("digger", "dig"));
    let worker = found.running_on.expect("it runs");
    let metrics = group.metrics();
    assert!(metrics.workers[worker].running_ns.is_some());
    assert!(metrics.workers[1 - worker].running_ns.is_none());
    drop(go);
    task.close().wait().unwrap();
    group.shutdown().unwrap();
}

#[test]
fn a_worker_without_work_is_idle_and_that_is_counted_while_it_lasts() {
    let group = Group::builder("idle").workers(1).build().unwrap();
    let idle = || group.metrics().workers[0].idle_ns;
    let first = idle();
    // It has nothing to do: this grows without any end of its rest.
    while idle() <= first {
        std::thread::yield_now();
    }
    let second = idle();
    assert!(idle() >= second);
    group.shutdown().unwrap();
}

//! Simulation by seed: random choices, bugs that they find, and injected faults.

#![expect(clippy::unwrap_used, reason = "helpers of tests are not seen as tests")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use turnwheel_runtime::sim::{self, EventKind, Fault, Sim};
use turnwheel_runtime::{
    Context, Failure, Flow, Group, Late, Lifecycle, Mailbox, OnFailure, Overflow, Task,
};

type Log = Arc<Mutex<Vec<u32>>>;

fn workers(seed: u64, count: usize) -> Sim {
    Sim::builder().seed(seed).workers(count).build()
}

/// Some tasks that make work for each other.
fn crowd(sim: &Sim) {
    let group = sim.group("cpu");
    let tasks: Vec<_> =
        (0..4).map(|n| group.task(0_u32).name(&format!("t{n}")).spawn().unwrap()).collect();
    for round in 0..6 {
        for (number, task) in tasks.iter().enumerate() {
            let next = tasks[(number + round) % tasks.len()].clone();
            task.submit(move |count, cx| {
                *count += 1;
                cx.after(Duration::from_millis(3), |count, _| *count += 1).unwrap();
                next.submit(|count, _| *count += 1).unwrap();
            })
            .unwrap();
        }
    }
    sim.advance(Duration::from_millis(10));
}

#[test]
fn equal_seeds_give_equal_events_to_the_byte_and_others_give_others() {
    let events = |seed| {
        let sim = workers(seed, 3);
        sim.record();
        crowd(&sim);
        sim.events().to_string()
    };
    let logs: Vec<_> = (0..10).map(events).collect();
    for (seed, log) in logs.iter().enumerate() {
        assert_eq!(*log, events(seed as u64), "seed {seed}");
        assert!(logs[..seed].iter().all(|other| other != log), "seed {seed} is like another");
    }
}

#[test]
fn virtual_workers_steal_from_each_other() {
    let steals: u64 = (0..20)
        .map(|seed| {
            let sim = workers(seed, 3);
            sim.record();
            crowd(&sim);
            let recorded = sim.events().count(|kind| matches!(kind, EventKind::Steal { .. }));
            let metrics = sim.group("cpu").metrics();
            let counted: u64 = metrics.workers.iter().map(|worker| worker.steals).sum();
            assert_eq!(counted, recorded as u64);
            assert!(metrics.workers.iter().all(|worker| worker.turns > 0));
            counted
        })
        .sum();
    assert!(steals > 20);
}

#[test]
fn without_stealing_each_worker_keeps_its_own() {
    let sim = Sim::new(9);
    let builder = Group::builder("cpu").workers(3).without_stealing();
    sim.build(builder).unwrap();
    sim.record();
    crowd(&sim);
    assert_eq!(sim.events().count(|kind| matches!(kind, EventKind::Steal { .. })), 0);
}

#[test]
fn turns_end_early_by_chance_but_not_without_a_seed() {
    let yields = |sim: Sim| {
        let task = sim.group("cpu").spawn(0).unwrap();
        (0..100).for_each(|_| task.submit(|count, _| *count += 1).unwrap());
        sim.run_until_idle();
        sim.group("cpu").metrics().workers.iter().map(|worker| worker.requeues).sum::<u64>()
    };
    assert_eq!(yields(Sim::fifo()), 0);
    assert!((0..10).map(|seed| yields(Sim::new(seed))).sum::<u64>() > 0);
}

/// Adds one by reading and writing in two messages: another's write can come between.
fn lost_update(sim: &Sim) {
    let group = sim.group("cpu");
    let account = group.task(0_u32).name("account").spawn().unwrap();
    for name in ["alice", "bob"] {
        let teller = group.task(()).name(name).spawn().unwrap();
        let account = account.clone();
        teller
            .submit(move |_, cx| {
                let read = account.call(|balance, _| *balance);
                cx.on_completion(read, move |_, _, balance| {
                    let balance = balance.unwrap();
                    account.submit(move |stored, _| *stored = balance + 1).unwrap();
                });
            })
            .unwrap();
    }
    sim.run_until_idle();
    assert_eq!(sim.wait(account.call(|balance, _| *balance)).unwrap(), 2, "an update is lost");
}

#[test]
fn a_planted_lost_update_is_found_within_a_hundred_seeds_and_replays() {
    let found = sim::find(0..100, lost_update).expect("no seed finds the bug");
    assert!(found.to_string().contains(&format!("TURNWHEEL_SEED={}", found.seed)));
    assert!(sim::find([found.seed], lost_update).is_some(), "it does not replay");
    let good = (0..100).find(|seed| sim::find([*seed], lost_update).is_none());
    assert!(good.is_some(), "a bug that every seed finds needs no seeds");
}

#[test]
fn exploring_tries_both_orders_and_ends() {
    let mut orders = std::collections::BTreeSet::new();
    let explored = sim::explore(1_000, |sim| {
        let group = sim.group("cpu");
        let log = Log::default();
        let tasks: Vec<_> = (0..3).map(|number| group.spawn(number).unwrap()).collect();
        for task in &tasks {
            let log = Arc::clone(&log);
            task.submit(move |number, _| log.lock().unwrap().push(*number)).unwrap();
        }
        sim.run_until_idle();
        orders.insert(log.lock().unwrap().clone());
    });
    assert_eq!((explored.runs, explored.is_complete, orders.len()), (6, true, 6));
    assert!(!sim::explore(5, crowd).is_complete);
}

#[test]
fn check_names_the_seed_and_fails_with_its_panic() {
    let mut seeds = Vec::new();
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        sim::check(10..20, |sim| {
            seeds.push(sim.seed().unwrap());
            assert!(sim.seed() < Some(13), "too far");
        });
    }));
    assert_eq!(seeds, [10, 11, 12, 13]);
    let message = *panic.unwrap_err().downcast::<&str>().unwrap();
    assert_eq!(message, "too far");
}

#[test]
fn work_without_end_is_found_and_named() {
    for sim in [
        Sim::builder().fifo().turns_max(2_000).build(),
        Sim::builder().seed(3).turns_max(2_000).build(),
    ] {
        fn again(task: Task<()>) {
            let next = task.clone();
            task.submit(move |_, _| again(next)).unwrap();
        }
        let group = sim.group("cpu");
        again(group.task(()).name("mill").spawn().unwrap());
        let idle = group.task(()).name("idle").spawn().unwrap();
        let run = std::panic::AssertUnwindSafe(|| sim.run_until_idle());
        let panic = std::panic::catch_unwind(run).unwrap_err();
        let message = panic.downcast::<String>().unwrap();
        assert!(message.contains("«mill»") && message.contains("2000"), "{message}");
        drop(idle);
    }
}

#[test]
fn an_injected_panic_reaches_caller_and_policy_hook() {
    struct Count(Arc<Mutex<u32>>);
    impl Lifecycle<u32> for Count {
        fn on_failure(
            &mut self,
            _: &mut u32,
            _: &mut Context<'_, u32>,
            failure: &Failure,
        ) -> OnFailure {
            assert!(matches!(failure, Failure::Panicked(_)));
            *self.0.lock().unwrap() += 1;
            OnFailure::Resume
        }
    }
    let asked = Arc::new(Mutex::new(0));
    let sim = Sim::new(8);
    let group = sim.group("cpu");
    let hooks = Count(Arc::clone(&asked));
    let task = group.task(0).name("fragile").lifecycle(hooks).spawn().unwrap();
    let other = group.task(0).name("sound").spawn().unwrap();
    sim.inject(Fault::PanicAtJob { task: Some("fragile".into()), job: 2 });
    for _ in 0..3 {
        other.submit(|count, _| *count += 1).unwrap();
        task.submit(|count, _| *count += 1).unwrap();
    }
    assert_eq!(sim.wait(task.call(|count, _| *count)).unwrap(), 2);
    assert_eq!(sim.wait(other.call(|count, _| *count)).unwrap(), 3);
    assert_eq!(*asked.lock().unwrap(), 1);
    assert_eq!(sim.failures().len(), 1);
    assert_eq!(&*sim.failures()[0].task.name, "fragile");
    sim.inject(Fault::PanicAtJob { task: None, job: 1 });
    assert!(matches!(sim.wait(task.call(|_, _| ())), Err(Failure::Panicked(_))));
}

#[test]
fn a_panic_in_place_of_a_timers_job_leaves_the_task_alive() {
    let sim = Sim::new(2);
    let task = sim.group("cpu").task(0).name("ticker").spawn().unwrap();
    task.submit(|_, cx| {
        cx.every(Duration::from_secs(1), Late::Burst, |count, _| *count += 1).unwrap();
    })
    .unwrap();
    sim.run_until_idle();
    sim.inject(Fault::PanicAtJob { task: None, job: 2 });
    sim.advance(Duration::from_secs(5));
    assert_eq!(sim.wait(task.call(|count, _| *count)).unwrap(), 4);
}

#[test]
fn an_injected_panic_drops_its_job_once_whatever_the_lane() {
    type Kind = fn(&Task<()>, Arc<()>);
    let kinds: [Kind; 4] = [
        |task, kept| task.submit(move |_, _| drop(kept)).unwrap(),
        |task, kept| {
            let kept = Arc::clone(&kept);
            task.submit_again(move |_, _| {
                let _ = &kept;
                Flow::Again
            })
            .unwrap();
        },
        |task, kept| {
            task.submit(move |_, cx| cx.run(move |_, _| drop(kept)).unwrap()).unwrap();
        },
        |task, kept| {
            task.submit(move |_, cx| {
                cx.after(Duration::ZERO, move |_, _| drop(kept)).unwrap();
            })
            .unwrap();
        },
    ];
    let mailboxes = [
        Mailbox::bounded(8),
        Mailbox::unbounded(),
        Mailbox::bounded(8).overflow(Overflow::DropOldest),
    ];
    for (number, kind) in kinds.into_iter().enumerate() {
        for (seed, mailbox) in mailboxes.into_iter().enumerate() {
            let sim = Sim::new(seed as u64);
            let task = sim.group("cpu").task(()).mailbox(mailbox).spawn().unwrap();
            let job = if number < 2 { 1 } else { 2 };
            sim.inject(Fault::PanicAtJob { task: None, job });
            let kept = Arc::new(());
            kind(&task, Arc::clone(&kept));
            sim.run_until_idle();
            assert_eq!((Arc::strong_count(&kept), sim.failures().len()), (1, 1), "kind {number}");
            assert!(sim.wait(task.call(|_, _| ())).is_ok());
        }
    }
}

#[test]
fn a_lost_hint_delays_a_task_and_loses_nothing() {
    let order = |is_lost: bool| {
        let sim = Sim::fifo();
        let log = Log::default();
        let group = sim.group("cpu");
        for number in 0..3 {
            if is_lost {
                sim.heal();
                if number == 0 {
                    sim.inject(Fault::LoseHint { one_in: 1 });
                }
            }
            let log = Arc::clone(&log);
            let task = group.spawn(()).unwrap();
            task.submit(move |_, _| log.lock().unwrap().push(number)).unwrap();
            std::mem::forget(task);
        }
        assert_eq!(sim.pending(), 3);
        sim.run_until_idle();
        let log = log.lock().unwrap().clone();
        log
    };
    assert_eq!(order(false), [0, 1, 2]);
    assert_eq!(order(true), [1, 2, 0]);
}

#[test]
fn a_slow_worker_is_chosen_seldom_and_its_turns_take_time() {
    let sim = workers(4, 2);
    let turn = Duration::from_millis(2);
    sim.inject(Fault::SlowWorker { group: "cpu".into(), worker: 1, one_in: 10, turn });
    let task = sim.group("cpu").spawn(0).unwrap();
    let other = sim.group("cpu").spawn(0).unwrap();
    for _ in 0..200 {
        task.submit(|count, cx| {
            *count += 1;
            cx.yield_now();
        })
        .unwrap();
        other.submit(|_, cx| cx.yield_now()).unwrap();
    }
    sim.run_until_idle();
    let turns: Vec<_> =
        sim.group("cpu").metrics().workers.iter().map(|worker| worker.turns).collect();
    assert!(turns[1] > 0 && turns[1] * 4 < turns[0], "{turns:?}");
    assert_eq!(sim.now(), turn * turns[1] as u32);
}

#[test]
fn a_wall_clock_that_jumps_moves_no_timer() {
    let sim = Sim::new(6);
    let task = sim.group("cpu").spawn(0).unwrap();
    task.submit(|_, cx| {
        cx.after(Duration::from_secs(10), |count, _| *count += 1).unwrap();
    })
    .unwrap();
    sim.advance(Duration::from_secs(5));
    sim.set_wall(sim.wall() - Duration::from_secs(3_600));
    sim.advance(Duration::from_millis(4_999));
    assert_eq!(sim.wait(task.call(|count, _| *count)).unwrap(), 0);
    sim.advance(Duration::from_millis(1));
    assert_eq!(sim.wait(task.call(|count, _| *count)).unwrap(), 1);
}

#[test]
fn a_monotonic_clock_that_jumps_back_loses_no_timer_and_fires_none_early() {
    let sim = Sim::new(6);
    let task = sim.group("cpu").spawn(Vec::new()).unwrap();
    task.submit(|_, cx| {
        cx.after(Duration::from_secs(10), |log: &mut Vec<u64>, cx| {
            log.push(cx.now_ns());
        })
        .unwrap();
    })
    .unwrap();
    sim.advance(Duration::from_secs(5));
    sim.jump_clock_back(Duration::from_secs(3));
    assert_eq!(sim.now(), Duration::from_secs(5));
    sim.advance(Duration::from_secs(3));
    assert_eq!(sim.now(), Duration::from_secs(5));
    sim.advance(Duration::from_secs(5));
    assert_eq!(sim.wait(task.call(|log, _| log.clone())).unwrap(), [10_000_000_000]);
}

#[test]
fn the_seed_of_the_environment_is_replayed_alone() {
    let name = concat!(module_path!(), "::the_seed_of_the_environment_is_replayed_alone");
    let (_program, name) = name.split_once("::").expect("a module of this program");
    if std::env::var_os("TURNWHEEL_SEED").is_some() {
        let mut seeds = Vec::new();
        let builder = Sim::builder().workers(5);
        builder.check(0..10, |sim| {
            seeds.push(sim.seed().unwrap());
            assert_eq!(sim.group("cpu").workers(), 5);
        });
        assert_eq!(seeds, [77]);
        return;
    }
    // The same test in a process of its own, since the environment belongs to all tests of this one.
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    let status = again.args(["--exact", name]).env("TURNWHEEL_SEED", "77").output().unwrap().status;
    assert!(status.success());
}

#[test]
fn latencies_are_in_virtual_time_and_of_every_turn() {
    let sim = workers(1, 1);
    let turn = Duration::from_millis(10);
    sim.inject(Fault::SlowWorker { group: "cpu".into(), worker: 0, one_in: 1, turn });
    let group = sim.group("cpu");
    let tasks: Vec<_> = (0..5).map(|_| group.task(()).class("Sleepy").spawn().unwrap()).collect();
    tasks.iter().for_each(|task| task.submit(|_, _| ()).unwrap());
    sim.run_until_idle();
    let metrics = group.metrics();
    let class = metrics.classes.iter().find(|class| class.class == "Sleepy").unwrap();
    assert_eq!((class.turns, class.jobs, sim.now()), (5, 5, turn * 5));
    assert!(class.ran.p50 >= turn * 9 / 10 && class.ran.max <= turn * 11 / 10);
    assert!(class.waited.max >= turn * 4 * 9 / 10 && class.waited.p50 >= turn * 2 * 9 / 10);
}

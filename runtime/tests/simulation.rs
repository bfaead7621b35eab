//! The simulation: one thread, virtual time, a seed, faults.

#![allow(missing_docs)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use turnwheel_runtime::completion::completion;
use turnwheel_runtime::sim::{self, EventKind, Fault, Sim};
use turnwheel_runtime::{
    Budget, Context, Failure, Group, Late, Lifecycle, OnFailure, Phase, ShutdownError, Task,
};

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
        cx.every(Duration::from_secs(2), Late::Burst, |log, cx| {
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
    assert!(!sim::explore(5, |sim| crowd(sim)).is_complete);
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
fn blocking_closures_take_virtual_time() {
    let sim = Sim::new(1);
    sim.block_for(Duration::from_millis(20));
    let group = sim.group("io");
    let done = group.run_blocking(|| 7, None);
    let late = group.run_blocking(|| 8, Some(Duration::from_millis(10)));
    sim.run_until_idle();
    assert!(!done.is_done());
    assert_eq!(sim.quiescence().blocking, 2);
    sim.advance(Duration::from_millis(20));
    assert_eq!(done.wait().unwrap(), 7);
    assert!(matches!(late.wait(), Err(Failure::TimedOut(_))));
}

#[test]
fn waiting_says_what_is_missing_and_never_hangs() {
    let sim = Sim::new(1);
    let group = sim.group("cpu");
    let task = group.task(()).name("waiter").spawn().unwrap();
    let sleep = group.sleep(Duration::from_secs(1));
    let (completer, never) = completion::<()>();
    task.submit(move |_, cx| drop(cx.on_completion(never, |_, _, _| ()))).unwrap();
    let stuck = sim.block_on(sleep).unwrap_err();
    assert_eq!((stuck.left.timers, stuck.left.tasks[0].awaits), (1, 1));
    let text = stuck.to_string();
    assert!(text.contains("«waiter»") && text.contains("1 timers"), "{text}");
    assert!(matches!(group.sleep(Duration::from_secs(1)).wait(), Err(Failure::WouldBlock)));
    let long = group.sleep(Duration::from_secs(9));
    assert!(matches!(sim.wait_for(long, Duration::from_secs(5)), Err(Failure::TimedOut(_))));
    assert_eq!(sim.now(), Duration::from_secs(5));
    let short = group.sleep(Duration::from_secs(2));
    assert!(sim.wait_for(short, Duration::from_secs(5)).is_ok());
    assert_eq!(sim.now(), Duration::from_secs(7));
    drop(completer);
}

#[test]
fn groups_of_one_simulation_share_its_time() {
    let sim = Sim::new(12);
    let (cpu, io) = (sim.group("cpu"), sim.group("io"));
    assert_eq!(sim.group("io"), io);
    assert!(sim.build(Group::builder("io")).is_err());
    let sink = cpu.spawn(Vec::new()).unwrap();
    let source = io.spawn(()).unwrap();
    let target = sink.clone();
    source
        .submit(move |_, cx| {
            cx.every(Duration::from_secs(1), Late::Burst, move |_, cx| {
                let at = cx.now_ns() / 1_000_000_000;
                target.submit(move |log: &mut Vec<u64>, _| log.push(at)).unwrap();
            })
            .unwrap();
        })
        .unwrap();
    sim.advance(Duration::from_secs(4));
    assert_eq!(sim.wait(sink.call(|log, _| log.clone())).unwrap(), [1, 2, 3, 4]);
}

#[test]
fn the_recorder_tells_the_story_of_a_task() {
    let sim = Sim::new(1);
    sim.record();
    let group = sim.group("cpu");
    let task = group.task(0).name("actor").lifecycle(Plain).spawn().unwrap();
    task.submit(|_, _| panic!("oh")).unwrap();
    sim.wait(task.close()).unwrap();
    let events = sim.events();
    events.assert_order([
        ("actor", EventKind::Ready),
        ("actor", EventKind::TurnStart),
        ("actor", EventKind::Phase(Phase::Started)),
        ("actor", EventKind::Job { number: 1 }),
        ("actor", EventKind::Phase(Phase::CloseRequested)),
        ("actor", EventKind::Phase(Phase::Closing)),
        ("actor", EventKind::Phase(Phase::Closed)),
    ]);
    assert_eq!(events.count(|kind| matches!(kind, EventKind::Failed { .. })), 1);
    assert!(events.of("actor").iter().all(|event| event.task.is_some()));
    assert!(events.iter().map(|event| event.seq).eq(0..events.len() as u64));
    let order = std::panic::AssertUnwindSafe(|| {
        events.assert_order([
            ("actor", EventKind::Phase(Phase::Closed)),
            ("actor", EventKind::Phase(Phase::Closing)),
        ]);
    });
    assert!(std::panic::catch_unwind(order).is_err());
}

struct Plain;
impl Lifecycle<i32> for Plain {}

#[test]
fn leaks_are_reported_with_their_phase() {
    let sim = Sim::new(1);
    let group = sim.group("cpu");
    let held = group.task(()).name("held").spawn().unwrap();
    drop(group.task(()).name("dropped").spawn().unwrap());
    sim.run_until_idle();
    let leaks = sim.leaks();
    assert_eq!((leaks.len(), leaks[0].task.as_str(), leaks[0].phase), (1, "held", Phase::Started));
    sim.wait(held.close()).unwrap();
    sim.assert_no_leaks();
}

#[test]
fn a_simulated_group_shuts_down_in_order() {
    struct Slow;
    impl Lifecycle<()> for Slow {
        fn closing(&mut self, _: &mut (), cx: &mut Context<'_, ()>) -> Result<(), Failure> {
            let sleep = cx.group().sleep(Duration::from_secs(5));
            cx.on_completion(sleep, |_, _, _| ());
            Ok(())
        }
    }
    let sim = Sim::new(1);
    let group = sim.group("cpu");
    let slow = group.task(()).name("slow").lifecycle(Slow).spawn().unwrap();
    let quick = group.spawn(()).unwrap();
    let report = group.shutdown().unwrap();
    assert_eq!((report.closed, report.is_clean()), (2, true));
    assert_eq!((slow.phase(), quick.phase(), sim.now().as_secs()), (Phase::Closed, Phase::Closed, 5));
    assert!(group.spawn(()).is_err());

    let io = sim.group("io");
    let late = io.task(()).name("late").lifecycle(Slow).spawn().unwrap();
    let report = sim.shutdown(Duration::from_secs(2));
    assert_eq!((report.closed, late.phase(), sim.now().as_secs()), (1, Phase::Closed, 7));
}

#[test]
fn a_shutdown_inside_a_turn_is_refused_and_one_for_later_is_reported() {
    let sim = Sim::new(1);
    let group = sim.group("cpu");
    let task = group.spawn(()).unwrap();
    let refused = sim.wait(task.call(|_, cx| (cx.group().shutdown(), cx.group().is_current())));
    let (answer, is_current) = refused.unwrap();
    assert!(matches!(answer, Err(ShutdownError::OnWorker)) && is_current);
    let other = sim.group("io");
    let foreign = sim.wait(task.call(move |_, _| other.shutdown())).unwrap();
    assert!(matches!(foreign, Err(ShutdownError::Simulated)));
    let later = sim.wait(task.call(|_, cx| cx.group().shutdown_later(Duration::from_secs(1))));
    assert_eq!(sim.wait(later.unwrap()).unwrap().closed, 1);
    drop(sim);
    assert!(matches!(group.shutdown(), Err(ShutdownError::Simulated)));
}

#[test]
fn other_threads_may_submit() {
    let sim = Sim::new(1);
    let task = sim.group("cpu").spawn(0).unwrap();
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let task = task.clone();
            std::thread::spawn(move || {
                (0..100).for_each(|_| task.submit(|count, _| *count += 1).unwrap());
                matches!(task.group().shutdown(), Err(ShutdownError::Simulated))
            })
        })
        .collect();
    assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
    assert_eq!(sim.wait(task.call(|count, _| *count)).unwrap(), 300);
}

#[test]
fn waits_are_allowed_again_after_the_last_simulation() {
    let (one, two) = (Sim::new(1), Sim::new(2));
    drop(one);
    assert!(matches!(completion::<()>().1.wait(), Err(Failure::WouldBlock)));
    drop(two);
    let (completer, done) = completion();
    let thread = std::thread::spawn(move || completer.complete(5).unwrap());
    assert_eq!(done.wait().unwrap(), 5);
    thread.join().unwrap();
}

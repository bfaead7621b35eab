//! The simulation: one thread, virtual time, a seed, faults.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use turnwheel_runtime::completion::completion;
use turnwheel_runtime::sim::{EventKind, Sim};
use turnwheel_runtime::{Budget, Context, Failure, Group, Late, Lifecycle, Phase, ShutdownError};

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

#[test]
fn a_timer_at_the_end_of_time_never_fires() {
    let sim = Sim::fifo();
    let task = sim.group("cpu").spawn(0).unwrap();
    task.submit(|_, cx| {
        cx.every(Duration::MAX, Late::Skip, |fired, _| *fired += 1).unwrap();
    })
    .unwrap();
    sim.advance(Duration::from_nanos(u64::MAX));
    sim.advance(Duration::from_nanos(u64::MAX));
    assert_eq!(sim.wait(task.call(|fired, _| *fired)).unwrap(), 0);
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
    assert_eq!(
        (slow.phase(), quick.phase(), sim.now().as_secs()),
        (Phase::Closed, Phase::Closed, 5)
    );
    assert!(group.spawn(()).is_err());

    let io = sim.group("io");
    let late = io.task(()).name("late").lifecycle(Slow).spawn().unwrap();
    let report = sim.shutdown(Duration::from_secs(2));
    // Stopped when seven eighths of its two seconds are over.
    assert_eq!((report.closed, late.phase(), sim.now().as_millis()), (1, Phase::Closed, 6_750));
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
fn other_threads_submit_while_the_simulation_runs() {
    const JOBS: u32 = 20_000;
    let sim = Sim::new(3);
    let task = sim.group("cpu").spawn(Vec::new()).unwrap();
    let threads: Vec<_> = (0..2_u32)
        .map(|producer| {
            let task = task.clone();
            std::thread::spawn(move || {
                let mut number = 0;
                while number < JOBS {
                    let job = move |log: &mut Vec<_>, _: &mut Context<'_, _>| {
                        log.push((producer, number));
                    };
                    // A full mailbox is emptied by the simulation.
                    number += u32::from(task.submit(job).is_ok());
                }
            })
        })
        .collect();
    while !threads.iter().all(std::thread::JoinHandle::is_finished) {
        sim.run_until_idle();
    }
    let log = sim.wait(task.call(|log, _| std::mem::take(log))).unwrap();
    for producer in 0..2 {
        assert!(log.iter().filter(|(who, _)| *who == producer).map(|(_, n)| *n).eq(0..JOBS));
    }
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

#[test]
fn hooks_of_virtual_workers_run_at_start_and_end() {
    let log = Log::default();
    let (started, stopped) = (Arc::clone(&log), Arc::clone(&log));
    let sim = Sim::new(1);
    let builder = Group::builder("cpu")
        .workers(2)
        .on_worker_start(move |worker| started.lock().unwrap().push(worker as u32))
        .on_worker_stop(move |worker| stopped.lock().unwrap().push(10 + worker as u32));
    let group = sim.build(builder).unwrap();
    assert_eq!(*log.lock().unwrap(), [0, 1]);
    group.shutdown().unwrap();
    drop(sim);
    assert_eq!(*log.lock().unwrap(), [0, 1, 10, 11]);
}

//! Promises of a group's queues: the system class first, arrival order in each task, no task in two
//! places, no lost wake-up. In simulation for chance and on 1, 2 and 4 workers for threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{mpsc, Arc, Barrier};
use std::thread;
use std::time::Duration;

use turnwheel_runtime::sim::{Event, EventKind, Fault, Sim};
use turnwheel_runtime::{Budget, Completion, Context, Group, Late, Mailbox, Pinning, Task};

use crate::at_rest::{build, is_at_rest, on_workers, wait_until, work_done, PATIENCE};

// --- the system class ---

/// Submits a job that submits the next one, until `is_wanted` is false.
fn go_on(task: &Task<()>, is_wanted: Arc<dyn Fn() -> bool + Send + Sync>) {
    let job = move |(): &mut (), cx: &mut Context<'_, ()>| {
        if is_wanted() {
            go_on(&cx.task(), is_wanted);
        }
    };
    assert!(task.submit(job).is_ok(), "room");
}

/// Twelve tasks that keep all virtual workers busy for half a second; every turn takes one
/// millisecond.
fn saturate(sim: &Sim, group: &Group) -> Vec<Task<()>> {
    for worker in 0..group.workers() {
        let turn = Duration::from_millis(1);
        sim.inject(Fault::SlowWorker { group: group.name().to_owned(), worker, one_in: 1, turn });
    }
    let (start_ns, clock) = (group.now_ns(), group.clone());
    let busy = (0..12).map(|_| {
        let task = group.task(()).name("user").spawn().expect("the group runs");
        let clock = clock.clone();
        go_on(&task, Arc::new(move || clock.now_ns() - start_ns < 500_000_000));
        task
    });
    busy.collect()
}

/// A task of the system class that notes how late it is, every ten milliseconds.
fn heartbeat(group: &Group) -> Task<Vec<u64>> {
    let task = group.task(Vec::new()).name("heartbeat").system().spawn().expect("the group runs");
    let mut due_ns = group.now_ns();
    let arm = move |_: &mut Vec<u64>, cx: &mut Context<'_, Vec<u64>>| {
        let beat = move |late_ns: &mut Vec<u64>, cx: &mut Context<'_, Vec<u64>>| {
            due_ns += 10_000_000;
            late_ns.push(cx.group().now_ns() - due_ns);
        };
        assert!(cx.every(Duration::from_millis(10), Late::Skip, beat).is_ok(), "few timers");
    };
    assert!(task.submit(arm).is_ok(), "room");
    task
}

fn is_of(event: &Event, name: &str) -> bool {
    event.task.as_ref().is_some_and(|task| &*task.name == name)
}

// O-003
#[test]
fn no_user_turn_begins_before_a_system_task_that_is_ready() {
    let mut beats = 0;
    for seed in 0..50 {
        let sim = Sim::builder().seed(seed).workers(3).build();
        let group = sim.group("cpu");
        sim.record();
        let beating = heartbeat(&group);
        let _users = saturate(&sim, &group);
        assert!(sim.advance(Duration::from_millis(500)) >= 500, "a turn every millisecond");
        let mut is_ready = false;
        for event in sim.events() {
            if is_of(&event, "heartbeat") {
                match event.kind {
                    EventKind::Ready => is_ready = true,
                    EventKind::TurnStart => {
                        beats += usize::from(is_ready);
                        is_ready = false;
                    }
                    _ => {}
                }
            } else if event.kind == EventKind::TurnStart {
                assert!(!is_ready, "seed {seed}: a user turn goes first: {event}");
            }
        }
        drop(beating);
    }
    assert!(beats > 50 * 20, "{beats}");
}

// O-003
#[test]
fn a_heartbeat_is_late_by_one_turn_at_most_however_busy_the_users() {
    let sim = Sim::fifo();
    let group = sim.group("cpu");
    let beating = heartbeat(&group);
    sim.run_until_idle();
    let _users = saturate(&sim, &group);
    assert!(sim.advance(Duration::from_millis(500)) >= 500, "a turn every millisecond");
    let late_ns = sim.wait(beating.call(|late_ns, _| late_ns.clone())).unwrap();
    assert!(late_ns.len() >= 50, "no beat was left out");
    assert!(late_ns.iter().all(|late_ns| *late_ns <= 1_000_000), "{late_ns:?}");
}

// O-003
#[test]
fn a_system_task_waits_for_the_running_turn_only() {
    for workers in [1, 2, 4] {
        let budget = Budget::new(1, Duration::MAX);
        let group = Group::builder("lane").workers(workers).pinning(Pinning::None).budget(budget);
        let group = group.build().unwrap();
        let (begun, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let _users: Vec<_> = (0..4 * workers)
            .map(|_| {
                let (task, begun) = (group.spawn(()).unwrap(), Arc::clone(&begun));
                let is_over = Arc::clone(&is_over);
                let is_wanted = move || {
                    begun.fetch_add(1, Ordering::SeqCst);
                    !is_over.load(Ordering::SeqCst)
                };
                go_on(&task, Arc::new(is_wanted));
                task
            })
            .collect();
        wait_until("saturated", || begun.load(Ordering::SeqCst) > 100 * workers);
        let system = group.task(Arc::clone(&begun)).system().spawn().unwrap();
        for _ in 0..200 {
            let answer = system.call(|begun, _| begun.load(Ordering::SeqCst));
            let queued = begun.load(Ordering::SeqCst);
            let ran = answer.wait_timeout(PATIENCE).unwrap();
            // With several workers, others run while the worker that took it gets to it.
            let between = ran.saturating_sub(queued);
            assert!(workers > 1 || between <= 1, "{between} user turns went first");
        }
        is_over.store(true, Ordering::SeqCst);
        assert!(group.shutdown().unwrap().is_clean());
    }
}

// --- a queue for each task ---

// O-008, O-035
#[test]
fn each_task_has_a_queue_of_its_own_in_the_order_of_arrival() {
    for seed in 0..100 {
        let sim = Sim::builder().seed(seed).workers(3).build();
        let group = sim.group("cpu");
        let spawn = || group.spawn(Vec::new()).expect("the group runs");
        let tasks: Vec<Task<Vec<usize>>> = (0..4).map(|_| spawn()).collect();
        let (completer, gate) = turnwheel_runtime::completion::completion();
        let hold = move |_: &mut Vec<usize>, cx: &mut Context<'_, Vec<usize>>| {
            cx.await_exclusive(gate, |_, _, _| ());
        };
        tasks[0].submit(hold).unwrap();
        for number in 0..40 {
            tasks[number % 4].submit(move |log, _| log.push(number)).unwrap();
        }
        sim.run_until_idle();
        assert_eq!(tasks[0].queue_len(), 10, "held, and nobody else is");
        assert!(tasks[1..].iter().all(|task| task.queue_len() == 0));
        completer.complete(()).unwrap();
        for (first, task) in tasks.iter().enumerate() {
            let log = sim.wait(task.call(|log, _| log.clone())).unwrap();
            assert!(log.into_iter().eq((first..40).step_by(4)), "seed {seed}");
        }
    }
}

// O-008, O-035
#[test]
fn many_senders_lose_nothing_and_keep_their_order() {
    const JOBS: usize = 3_200;
    on_workers("queues", |group| {
        for senders in [1, 8, 64] {
            let state = vec![0_usize; senders];
            let task = group.task(state).mailbox(Mailbox::unbounded()).spawn().unwrap();
            let start = Arc::new(Barrier::new(senders));
            let threads: Vec<_> = (0..senders)
                .map(|sender| {
                    let (task, start) = (task.clone(), Arc::clone(&start));
                    thread::spawn(move || {
                        start.wait();
                        for number in 0..JOBS / senders {
                            let job = move |next: &mut Vec<usize>, _: &mut Context<'_, _>| {
                                // Otherwise the number stays and the count below is wrong.
                                next[sender] += usize::from(next[sender] == number);
                            };
                            assert!(task.submit(job).is_ok());
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            let next = task.call(|next, _| next.clone()).wait_timeout(PATIENCE).unwrap();
            assert_eq!(next, vec![JOBS / senders; senders], "lost, doubled or out of order");
        }
    });
}

// O-008
#[test]
fn the_queue_of_a_task_names_no_lock() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/task/lane/inbox.rs");
    let source = std::fs::read_to_string(path).unwrap();
    let code = || source.lines().filter(|line| !line.trim_start().starts_with("//"));
    assert!(code().any(|line| line.contains("fn push")), "the queue is here");
    let locks: Vec<_> = code()
        .filter(|line| ["Mutex", "RwLock", "lock()"].iter().any(|l| line.contains(l)))
        .collect();
    assert_eq!(locks, [""; 0]);
}

// --- stealing ---

// O-011
#[test]
#[expect(clippy::too_many_lines, reason = "one scenario, in order")]
fn a_stolen_task_moves_as_a_whole() {
    let mut steals = 0;
    for seed in 0..60 {
        let sim = Sim::builder().seed(seed).workers(4).build();
        let group = sim.group("cpu");
        sim.record();
        for task in 0..6 {
            let others: Vec<_> = (0..2)
                .map(|other| {
                    let name = format!("t{task}{other}");
                    group.task(Vec::new()).name(&name).spawn().expect("the group runs")
                })
                .collect();
            let make = move |(): &mut (), _: &mut Context<'_, ()>| {
                for number in 0..5 {
                    for other in &others {
                        let log = move |log: &mut Vec<usize>, _: &mut Context<'_, _>| {
                            log.push(number);
                            assert!(log.iter().copied().eq(0..=number), "{log:?}");
                        };
                        assert!(other.submit(log).is_ok(), "room");
                    }
                }
            };
            group.spawn(()).unwrap().submit(make).unwrap();
        }
        sim.run_until_idle();
        sim.assert_no_failures();
        let events: Vec<_> = sim.events().into_iter().collect();
        for (at, event) in events.iter().enumerate() {
            if !matches!(event.kind, EventKind::Steal { .. }) {
                continue;
            }
            steals += 1;
            // From here to the end of its turn all of it is the thief's.
            let own = events[at + 1..].iter().filter(|next| next.task == event.task);
            let turn: Vec<_> =
                own.take_while(|next| !matches!(next.kind, EventKind::TurnEnd { .. })).collect();
            assert_eq!(turn[0].kind, EventKind::TurnStart, "seed {seed}");
            let is_job = |next: &&&Event| matches!(next.kind, EventKind::Job { .. });
            assert!(turn.iter().filter(is_job).all(|next| next.worker == event.worker));
        }
    }
    assert!(steals > 60, "{steals}");
    for workers in [2, 4] {
        let group = build("steals", workers);
        let task = group.spawn((Vec::new(), Vec::new())).unwrap();
        let stuck = group.spawn(()).unwrap();
        let (tell, told) = mpsc::channel();
        let own = task.clone();
        let make = move |(): &mut (), _: &mut Context<'_, ()>| {
            for number in 0..100 {
                let job = move |(numbers, threads): &mut (Vec<usize>, Vec<_>),
                                _: &mut Context<'_, _>| {
                    numbers.push(number);
                    threads.push(thread::current().id());
                };
                assert!(own.submit(job).is_ok(), "room");
            }
            let tell = tell.clone();
            assert!(own.submit(move |_, _| assert!(tell.send(()).is_ok())).is_ok(), "room");
            // This worker is stuck until another one has taken all of it.
            let end = told.recv_timeout(PATIENCE);
            assert!(end.is_ok(), "nobody has stolen the task");
        };
        let stuck_on = stuck.call(move |(), cx| {
            make(&mut (), cx);
            thread::current().id()
        });
        let stuck_on = stuck_on.wait_timeout(PATIENCE).unwrap();
        let seen = task.call(|seen, _| seen.clone()).wait_timeout(PATIENCE).unwrap();
        assert!(seen.0.into_iter().eq(0..100));
        assert!(seen.1.iter().all(|thread| *thread != stuck_on), "none was left behind");
        let steals: u64 = group.metrics().workers.iter().map(|worker| worker.steals).sum();
        assert!(steals > 0);
        assert!(group.shutdown().unwrap().is_clean());
    }
}

// --- waking ---

// O-036
#[test]
fn a_queue_holds_only_tasks_with_work_and_each_once() {
    for seed in 0..100 {
        let sim = Sim::builder().seed(seed).workers(3).build();
        let group = sim.group("cpu");
        let tasks: Vec<_> = (0..5).map(|_| group.spawn(0).unwrap()).collect();
        sim.record();
        for (number, task) in tasks.iter().enumerate() {
            let all = tasks.clone();
            let fan_out = move |_: &mut u32, _: &mut Context<'_, u32>| {
                for other in all.iter().skip(number) {
                    assert!(other.submit(|count, _| *count += 1).is_ok(), "room");
                }
            };
            task.submit(fan_out).unwrap();
        }
        assert_eq!(sim.pending(), 5, "once each");
        sim.run_until_idle();
        let empty = sim.events().count(|kind| *kind == EventKind::TurnEnd { jobs: 0 });
        assert_eq!(empty, 0, "seed {seed}: a turn without work");
        assert!(sim.quiescence().is_idle() && sim.pending() == 0);
    }
    on_workers("queues", |group| {
        let tasks: Vec<_> = (0..20).map(|_| group.spawn(0_u32).unwrap()).collect();
        for number in 0..20_000 {
            let next = tasks[(number * 7 + 1) % 20].clone();
            let job = move |_: &mut u32, _: &mut Context<'_, u32>| {
                assert!(next.submit(|count, _| *count += 1).is_ok(), "room");
            };
            tasks[number % 20].submit(job).unwrap();
        }
        wait_until("at rest", || is_at_rest(group));
        let (turns, jobs) = work_done(group);
        assert_eq!(jobs, 40_000);
        assert!(turns <= jobs, "{turns} turns for {jobs} jobs");
    });
}

/// Calls repeatedly, with a pause in which the task may or may not go idle.
fn ask_often(task: &Task<u64>, rounds: u64, mut pause: u64) {
    for _ in 0..rounds {
        let answer: Completion<()> = task.call(|count, _| *count += 1);
        answer.wait_timeout(PATIENCE).expect("the wake-up was lost");
        pause = pause.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (0..(pause >> 33) % 1_000).for_each(|_| std::hint::spin_loop());
    }
}

// O-036
#[test]
fn no_wake_up_is_lost_at_the_edge_of_idleness() {
    const ROUNDS: u64 = 2_000;
    on_workers("queues", |group| {
        // A single task, so no other wake-up can help.
        let task = group.spawn(0_u64).unwrap();
        ask_often(&task, ROUNDS, 1);
        let senders: Vec<_> = (0..4)
            .map(|sender| {
                let task = task.clone();
                thread::spawn(move || ask_often(&task, ROUNDS, sender))
            })
            .collect();
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert_eq!(task.call(|count, _| *count).wait_timeout(PATIENCE).unwrap(), 5 * ROUNDS);
        wait_until("at rest", || is_at_rest(group) && task.queue_len() == 0);
    });
}

// O-038
#[test]
fn few_workers_search_and_the_others_sleep() {
    const CALLS: u64 = 1_000;
    let group = build("few", 4);
    let task = group.spawn(()).unwrap();
    wait_until("at rest", || is_at_rest(&group));
    let wakes = || group.metrics().workers.iter().map(|worker| worker.wakes).sum::<u64>();
    let before = wakes();
    for _ in 0..CALLS {
        task.call(|(), _| ()).wait_timeout(PATIENCE).unwrap();
    }
    wait_until("at rest", || is_at_rest(&group));
    let woken = wakes() - before;
    assert!(woken <= CALLS, "{woken} workers were woken for {CALLS} lone jobs");
    assert!(group.shutdown().unwrap().is_clean());
}

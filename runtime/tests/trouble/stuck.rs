//! Work that never ends, blocks its worker, waits for itself, or lives on a broken clock.

use std::error::Error;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{mpsc, Arc};
use std::time::{Duration, Instant};

use turnwheel_runtime::completion::completion;
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::time::{Clock, ManualClock};
use turnwheel_runtime::{Context, Failure, Group, Late, Pinning, Task};

type Outcome = Result<(), Box<dyn Error>>;

/// Long enough for any machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(60);

fn group(workers: usize) -> Result<Group, Box<dyn Error>> {
    Ok(Group::builder("stuck").workers(workers).pinning(Pinning::None).build()?)
}

/// Blocks the task's worker until the sender is used or dropped.
fn block<S: Send + 'static>(task: &Task<S>) -> Result<mpsc::Sender<()>, Box<dyn Error>> {
    let (release, held) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    task.submit(move |_, _| {
        begin.send(()).unwrap_or_default();
        // Not a wait of the runtime's, so nothing refuses it.
        held.recv().unwrap_or_default();
    })?;
    begun.recv_timeout(PATIENCE)?;
    Ok(release)
}

#[test]
fn a_job_that_never_returns_is_named_while_it_runs_and_at_the_end() -> Outcome {
    const DEADLINE: Duration = Duration::from_millis(100);
    for workers in [1, 2, 4] {
        let (tell, named) = mpsc::channel();
        let builder = Group::builder("stuck").workers(workers).pinning(Pinning::None);
        let long = Duration::from_millis(20);
        let group = builder
            .on_long_turn(long, move |task, held| {
                tell.send((task.name(), held)).unwrap_or_default();
            })
            .build()?;
        let runs = Arc::new(AtomicUsize::new(0));
        let stuck = group.task(()).name("stuck").spawn()?;
        let release = block(&stuck)?;
        let behind: Vec<_> = (0..10)
            .map(|_| {
                let runs = Arc::clone(&runs);
                stuck.call(move |(), _| runs.fetch_add(1, Ordering::AcqRel))
            })
            .collect();
        let (name, held) = named.recv_timeout(PATIENCE)?;
        assert!(name == "stuck" && held >= long, "{name} for {held:?}");
        let begin = Instant::now();
        let report = group.shutdown_within(DEADLINE)?;
        // The deadline, a second for the kill, and reserve for a busy machine.
        assert!(begin.elapsed() < DEADLINE + Duration::from_secs(20));
        assert_eq!((report.left, report.closed), (vec!["stuck".to_owned()], 0));
        assert!(stuck.closed().wait_timeout(PATIENCE).is_err(), "whoever waits for it is told");
        assert!(stuck.submit(|(), _| ()).is_err(), "and it takes no more work");
        // It does return after all: the jobs behind it are answered, and not run.
        release.send(())?;
        for answer in behind {
            assert!(answer.wait_timeout(PATIENCE).is_err_and(|met| met.is_closed()));
        }
        assert_eq!(runs.load(Ordering::Acquire), 0);
    }
    Ok(())
}

#[test]
fn a_job_that_blocks_its_worker_delays_no_other_task_and_no_timer() -> Outcome {
    const TASKS: usize = 50;
    for workers in [2, 4] {
        let group = group(workers)?;
        let blocker = group.spawn(())?;
        let others: Vec<_> = (0..TASKS).map(|_| group.spawn(0)).collect::<Result<_, _>>()?;
        let (say, answered) = mpsc::channel();
        let (release, held) = mpsc::channel::<()>();
        let ticking = group.spawn(())?;
        let tick = say.clone();
        ticking
            .call(move |(), cx| {
                let period = Duration::from_millis(1);
                let tick = move || tick.send("tick").unwrap_or_default();
                cx.every(period, Late::Skip, move |(), _| tick()).is_ok()
            })
            .wait_timeout(PATIENCE)?;
        // It makes others ready first: they are in the queue of the very worker that it blocks.
        blocker.submit(move |(), _| {
            for other in &others {
                let say = say.clone();
                let sent = other.submit(move |_, _| say.send("other").unwrap_or_default());
                sent.expect("room in each mailbox");
            }
            held.recv().unwrap_or_default();
        })?;
        let (mut ticks, mut ran) = (0, 0);
        while ticks < 20 || ran < TASKS {
            match answered.recv_timeout(PATIENCE)? {
                "tick" => ticks += 1,
                _ => ran += 1,
            }
        }
        assert_eq!(ran, TASKS, "each once");
        release.send(())?;
        assert!(group.shutdown()?.is_clean());
    }
    Ok(())
}

#[test]
fn jobs_behind_a_blocked_worker_run_in_order_afterwards() -> Outcome {
    let group = group(1)?;
    let blocker = group.spawn(())?;
    let other = group.spawn(Vec::new())?;
    let release = block(&blocker)?;
    for number in 0..1_000 {
        other.submit(move |seen, _| seen.push(number))?;
    }
    let sleep = group.sleep(Duration::from_millis(1));
    release.send(())?;
    let seen = other.call(|seen, _| std::mem::take(seen)).wait_timeout(PATIENCE)?;
    assert!(seen.into_iter().eq(0..1_000));
    sleep.wait_timeout(PATIENCE)?;
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn a_clock_that_jumps_back_loses_no_timer_and_fires_none_early() -> Outcome {
    const SECOND: Duration = Duration::from_secs(1);
    for workers in [1, 2, 4] {
        let clock = ManualClock::new();
        let builder = Group::builder("clock").workers(workers).pinning(Pinning::None);
        let group = builder.clock(Arc::new(clock.clone())).build()?;
        let latest = Arc::new(AtomicU64::new(0));
        let (say, fired) = mpsc::channel();
        let task = group.spawn(())?;
        let armed = {
            let (say, latest) = (say.clone(), Arc::clone(&latest));
            task.call(move |(), cx| {
                let begin_ns = cx.now_ns();
                (1..=10).all(|second| {
                    let (say, latest) = (say.clone(), Arc::clone(&latest));
                    let job = move |(): &mut (), cx: &mut turnwheel_runtime::Context<'_, ()>| {
                        // The group's own time never runs backwards.
                        let before = latest.fetch_max(cx.now_ns(), Ordering::AcqRel);
                        let late_ns = cx.now_ns() - begin_ns;
                        say.send((second, late_ns, before <= cx.now_ns())).unwrap_or_default();
                    };
                    cx.after(second * SECOND, job).is_ok()
                })
            })
        };
        assert!(armed.wait_timeout(PATIENCE)?);
        for second in 1..=10_u32 {
            // Back by more than ever passed, then to the next deadline and no further.
            let seen_ns = clock.now_ns();
            clock.inject_jump_back(100 * SECOND);
            task.call(|(), _| ()).wait_timeout(PATIENCE)?;
            assert!(fired.try_recv().is_err(), "no time has passed");
            clock.advance(Duration::from_nanos(seen_ns));
            task.call(|(), _| ()).wait_timeout(PATIENCE)?;
            assert!(fired.try_recv().is_err(), "none is early");
            clock.advance(SECOND);
            let (which, late_ns, is_monotonic) = fired.recv_timeout(PATIENCE)?;
            assert_eq!((which, u128::from(late_ns)), (second, (second * SECOND).as_nanos()));
            assert!(is_monotonic);
        }
        // Behind for good: tasks run, and the group ends in order.
        let never = group.sleep(SECOND);
        clock.inject_jump_back(100 * SECOND);
        task.call(|(), _| ()).wait_timeout(PATIENCE)?;
        assert!(group.shutdown()?.is_clean());
        assert!(never.wait_timeout(PATIENCE).is_err(), "the sleeper is told at the end");
    }
    Ok(())
}

#[test]
fn a_wall_clock_that_jumps_back_moves_no_timer_that_is_armed() -> Outcome {
    let clock = ManualClock::new();
    let builder = Group::builder("wall").workers(2).pinning(Pinning::None);
    let group = builder.clock(Arc::new(clock.clone())).build()?;
    let hour = Duration::from_secs(3600);
    let (say, fired) = mpsc::channel();
    let task = group.spawn(())?;
    let date = clock.wall() + hour;
    let armed =
        task.call(move |(), cx| cx.at(date, move |(), _| say.send(()).unwrap_or_default()).is_ok());
    assert!(armed.wait_timeout(PATIENCE)?);
    clock.jump_back(10 * hour);
    clock.advance(hour);
    fired.recv_timeout(PATIENCE)?;
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

type Wait = fn(&Task<()>, &mut turnwheel_runtime::Context<'_, ()>);

/// Ways in which a task can wait for its own end without blocking a thread.
const SELF_JOINS: [(&str, Wait); 3] = [
    ("held by its own end", |own, cx| {
        cx.on_completion_holding(own.closed(), |(), _, _| ());
    }),
    ("exclusive for its own end", |own, cx| {
        cx.await_exclusive(own.closed(), |(), _, _| ());
    }),
    ("closing in its own job", |own, cx| {
        cx.on_completion_holding(own.close(), |(), _, _| ());
    }),
];

#[test]
fn a_task_that_waits_for_its_own_end_is_ended_by_the_deadline() {
    for seed in 0..20 {
        for (what, wait) in SELF_JOINS {
            let sim = Sim::new(seed);
            let task = sim.group("cpu").spawn(()).expect("the group runs");
            task.submit(move |(), cx| {
                let own = cx.task();
                wait(&own, cx);
            })
            .expect("room");
            let behind = task.call(|(), _| ());
            sim.run_until_idle();
            let end = task.close_within(Duration::from_secs(5));
            sim.run_until_idle();
            sim.advance(Duration::from_secs(5));
            assert!(task.phase().is_over(), "{what}, seed {seed}: {:?}", task.phase());
            assert!(end.is_done() && behind.is_done(), "{what}, seed {seed}");
        }
    }
}

#[test]
fn two_tasks_that_wait_for_each_others_end_are_ended_with_their_group() -> Outcome {
    for workers in [1, 2] {
        let group = group(workers)?;
        let (one, two) = (group.spawn(())?, group.spawn(())?);
        for (waits, other) in [(&one, &two), (&two, &one)] {
            let ended = other.closed();
            let is_waiting = waits.call(move |(), cx| {
                cx.await_exclusive(ended, |(), _, _| ());
            });
            is_waiting.wait_timeout(PATIENCE)?;
        }
        let ends = [one.closed(), two.closed()];
        let report = group.shutdown_within(Duration::from_millis(50))?;
        assert!(report.left.is_empty(), "{report:?}");
        assert!(one.phase().is_over() && two.phase().is_over());
        for end in ends {
            let met = end.wait_timeout(PATIENCE);
            assert!(!met.is_err_and(|met| met.is_timed_out()), "the end is answered");
        }
    }
    Ok(())
}

#[test]
fn blocking_waits_of_a_task_for_itself_are_refused_on_its_worker() -> Outcome {
    let group = group(1)?;
    let task = group.spawn(())?;
    let full = group.task(()).mailbox(turnwheel_runtime::Mailbox::bounded(1)).spawn()?;
    let answer = task.call(move |(), cx| {
        let own = cx.task();
        let (_never, pending) = completion::<()>();
        full.submit(|(), _| ()).expect("room for one");
        // One worker: no other job makes room while this job waits.
        let submitted = full.submit_wait(|(), _| (), PATIENCE);
        [
            matches!(own.close().wait(), Err(Failure::WouldBlock)),
            matches!(own.closed().wait_timeout(PATIENCE), Err(Failure::WouldBlock)),
            matches!(own.call(|(), _| ()).wait(), Err(Failure::Refused(_))),
            matches!(pending.wait(), Err(Failure::WouldBlock)),
            submitted
                .is_err_and(|refused| refused.kind == turnwheel_runtime::SubmitErrorKind::OnWorker),
        ]
    });
    assert_eq!(answer.wait_timeout(PATIENCE)?, [true; 5]);
    task.closed().wait_timeout(PATIENCE)?;
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn without_stealing_a_task_waits_for_the_worker_that_has_made_it_ready() -> Outcome {
    /// Many looks of a sibling that has nothing to do.
    const LOOKS: Duration = Duration::from_millis(20);
    let builder = Group::builder("kept").workers(2).pinning(Pinning::None);
    let group = builder.without_stealing().build()?;
    let other = group.task(0_u64).spawn()?;
    let maker = group.task(()).spawn()?;
    let runs = Arc::new(AtomicUsize::new(0));
    let (seen, to) = (Arc::clone(&runs), other.clone());
    let meanwhile = maker.call(move |(), _| {
        let counted = Arc::clone(&seen);
        let job = move |_: &mut u64, _: &mut Context<'_, u64>| {
            counted.fetch_add(1, Ordering::AcqRel);
        };
        let is_taken = to.submit(job).is_ok();
        let begin = Instant::now();
        while begin.elapsed() < LOOKS {
            std::hint::spin_loop();
        }
        (is_taken, seen.load(Ordering::Acquire))
    });
    assert_eq!(meanwhile.wait()?, (true, 0), "a sibling has taken it though it may not steal");
    other.call(|_, _| ()).wait()?;
    assert_eq!(runs.load(Ordering::Acquire), 1);
    group.shutdown()?;
    Ok(())
}

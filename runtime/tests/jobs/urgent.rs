//! The urgent lane: overtakes submitted jobs, loses nothing, ends with its task.

use std::error::Error;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{mpsc, Arc};
use std::time::Duration;

use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{
    limits, Context, Failure, Group, Lifecycle, Mailbox, Overflow, Pinning, SubmitErrorKind,
};

type Outcome = Result<(), Box<dyn Error>>;

/// Long enough for any machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn an_urgent_job_overtakes_what_is_submitted_and_keeps_its_order() -> Outcome {
    for seed in 0..50 {
        let sim = Sim::new(seed);
        let task = sim.group("cpu").spawn(Vec::new())?;
        for number in 0..100 {
            task.submit(move |seen: &mut Vec<i32>, _| seen.push(number))?;
        }
        for number in [-1, -2, -3] {
            task.submit_urgent(move |seen: &mut Vec<i32>, _| seen.push(number))?;
        }
        let seen = sim.wait(task.call(|seen, _| seen.clone()))?;
        assert_eq!(seen[..3], [-1, -2, -3], "seed {seed}");
        assert_eq!(seen[3..], (0..100).collect::<Vec<_>>(), "seed {seed}");
    }
    Ok(())
}

#[test]
fn an_urgent_job_comes_right_after_the_job_under_way() -> Outcome {
    let group = Group::builder("urgent").workers(2).pinning(Pinning::None).build()?;
    let task = group.spawn(Vec::new())?;
    let (begun, has_begun) = mpsc::channel();
    let (go, may_go) = mpsc::channel::<()>();
    task.submit(move |_: &mut Vec<i32>, _| {
        let _ = begun.send(());
        let _ = may_go.recv_timeout(PATIENCE);
    })?;
    has_begun.recv_timeout(PATIENCE)?;
    for number in 0..1_000 {
        task.submit(move |seen, _| seen.push(number))?;
    }
    task.submit_urgent(|seen: &mut Vec<i32>, _| seen.push(-1))?;
    go.send(())?;
    let seen = task.call(|seen, _| seen.clone()).wait_timeout(PATIENCE)?;
    assert_eq!((seen[0], seen.len()), (-1, 1_001));
    group.shutdown()?;
    Ok(())
}

#[test]
fn urgent_jobs_wait_for_the_start_and_for_an_exclusive_future() -> Outcome {
    for seed in 0..50 {
        let sim = Sim::new(seed);
        let group = sim.group("cpu");
        let task = group.spawn(Vec::new())?;
        let pause = group.sleep(Duration::from_secs(1));
        task.submit(move |_: &mut Vec<&str>, cx| {
            cx.await_exclusive(pause, |seen, _, _| seen.push("future"));
        })?;
        sim.run_until_idle();
        task.submit_urgent(|seen: &mut Vec<&str>, _| seen.push("urgent"))?;
        task.submit(|seen, _| seen.push("submitted"))?;
        sim.run_until_idle();
        sim.advance(Duration::from_secs(2));
        let seen = sim.wait(task.call(|seen, _| seen.clone()))?;
        assert_eq!(seen, ["future", "urgent", "submitted"], "seed {seed}");
    }
    Ok(())
}

/// Mailboxes of both kinds: the lock-free lane, and a queue behind a lock.
fn mailboxes() -> [Mailbox; 2] {
    [Mailbox::bounded(16), Mailbox::bounded(16).overflow(Overflow::DropOldest)]
}

#[test]
fn an_urgent_job_made_by_any_job_overtakes_what_is_submitted() -> Outcome {
    for (seed, mailbox) in (0..20).flat_map(|seed| mailboxes().map(|mailbox| (seed, mailbox))) {
        let sim = Sim::new(seed);
        let task = sim.group("cpu").task(Vec::new()).mailbox(mailbox).spawn()?;
        let own = task.downgrade();
        task.submit(move |_: &mut Vec<&str>, cx| {
            let urgent = move |seen: &mut Vec<&str>, _: &mut Context<'_, _>| {
                seen.push("submitter");
                let task = own.upgrade().expect("it runs");
                task.submit_urgent(|seen, _| seen.push("urgent")).expect("there is room");
            };
            // From the fast lane of a turn of its own, after the lanes were looked at.
            cx.yield_now();
            cx.run(urgent).expect("the fast lane has room");
        })?;
        task.submit(|seen, _| seen.push("submitted"))?;
        let seen = sim.wait(task.call(|seen, _| seen.clone()))?;
        assert_eq!(seen, ["submitter", "urgent", "submitted"], "seed {seed}, {mailbox:?}");
    }
    Ok(())
}

#[test]
fn nothing_begins_after_a_kill_by_an_urgent_job_a_queued_job_or_a_timer() -> Outcome {
    for (seed, mailbox) in (0..20).flat_map(|seed| mailboxes().map(|mailbox| (seed, mailbox))) {
        for way in 0..3 {
            let sim = Sim::new(seed);
            let ran = Arc::new(AtomicU32::new(0));
            let task = sim.group("cpu").task(()).mailbox(mailbox).spawn()?;
            let (own, count) = (task.clone(), Arc::clone(&ran));
            let kill = move |(): &mut (), _: &mut Context<'_, ()>| {
                count.fetch_add(1, Ordering::Relaxed);
                own.kill().detach();
            };
            let count = Arc::clone(&ran);
            let late = move |(): &mut (), _: &mut Context<'_, ()>| {
                count.fetch_add(1, Ordering::Relaxed);
            };
            match way {
                0 => {
                    task.submit(kill)?;
                    task.submit(late)?;
                }
                1 => {
                    task.submit_urgent(kill)?;
                    task.submit_urgent(late.clone())?;
                    task.submit(late)?;
                }
                _ => task.submit(move |(), cx| {
                    cx.after(Duration::ZERO, kill).expect("there is room");
                    cx.after(Duration::ZERO, late).expect("there is room");
                })?,
            }
            let killed = sim.wait(task.closed());
            assert!(matches!(killed, Err(Failure::Killed)), "{killed:?}");
            assert_eq!(ran.load(Ordering::Relaxed), 1, "seed {seed}, way {way}, {mailbox:?}");
        }
    }
    Ok(())
}

#[test]
fn a_panic_in_an_urgent_job_leaves_the_rest_to_run() -> Outcome {
    let sim = Sim::new(3);
    let task = sim.group("cpu").spawn(0_u32)?;
    task.submit_urgent(|_: &mut u32, _| panic!("on purpose"))?;
    task.submit_urgent(|count: &mut u32, _| *count += 1)?;
    assert_eq!(sim.wait(task.call(|count, _| *count))?, 1);
    Ok(())
}

#[test]
fn urgent_jobs_before_the_close_run_and_later_ones_are_closed() -> Outcome {
    for seed in 0..50 {
        let sim = Sim::new(seed);
        let task = sim.group("cpu").spawn(Arc::new(()))?;
        let held = Arc::new(());
        let keep = Arc::clone(&held);
        task.submit(|_, _| {})?;
        task.submit_urgent(move |state: &mut Arc<()>, _| *state = keep)?;
        let closed = task.close();
        let refused = task.submit_urgent(|_: &mut Arc<()>, _| {});
        assert_eq!(refused.map_err(|error| error.kind), Err(SubmitErrorKind::Closed));
        sim.wait(closed)?;
        assert_eq!(Arc::strong_count(&held), 1, "run, and its state dropped; seed {seed}");
    }
    Ok(())
}

#[test]
fn the_urgent_lane_is_bounded_and_a_killed_task_drops_what_is_in_it() -> Outcome {
    let sim = Sim::new(1);
    let task = sim.group("cpu").spawn(())?;
    let held = Arc::new(());
    for _ in 0..limits::URGENT_JOBS_MAX {
        let held = Arc::clone(&held);
        task.submit_urgent(move |_: &mut (), _| drop(held))?;
    }
    let refused = task.submit_urgent(|_: &mut (), _| {});
    assert_eq!(refused.map_err(|error| error.kind), Err(SubmitErrorKind::Full));
    let killed = task.kill();
    assert!(sim.wait(killed).is_err());
    assert_eq!(Arc::strong_count(&held), 1);
    Ok(())
}

#[test]
fn urgent_jobs_of_many_threads_run_once_each() -> Outcome {
    const THREADS: u64 = 4;
    const JOBS: u64 = 500;
    let group = Group::builder("storm").workers(2).pinning(Pinning::None).build()?;
    let task = group.spawn(0_u64)?;
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let task = task.clone();
            std::thread::spawn(move || {
                let mut taken = 0;
                while taken < JOBS {
                    let urgent = task.submit_urgent(|count: &mut u64, _| *count += 1);
                    taken += u64::from(urgent.is_ok());
                    if let Err(refused) = task.submit(|_, _| {}) {
                        assert_eq!(refused.kind, SubmitErrorKind::Full);
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().map_err(|_| "a producer panicked")?;
    }
    // This job is submitted after all urgent jobs, so none of them is left when it runs. The mailbox
    // may still be full.
    let (tell, told) = std::sync::mpsc::channel();
    loop {
        let tell = tell.clone();
        let count = move |count: &mut u64, _: &mut Context<'_, u64>| {
            let _ = tell.send(*count);
        };
        match task.submit(count) {
            Ok(()) => break,
            Err(refused) => assert_eq!(refused.kind, SubmitErrorKind::Full),
        }
        std::thread::yield_now();
    }
    assert_eq!(told.recv_timeout(PATIENCE)?, THREADS * JOBS);
    group.shutdown()?;
    Ok(())
}

/// On an interrupt, cancels all subscriptions of its task.
struct Impatient;

impl Lifecycle<Vec<i32>> for Impatient {
    fn interrupted(
        &mut self,
        seen: &mut Vec<i32>,
        cx: &mut Context<'_, Vec<i32>>,
    ) -> Result<(), Failure> {
        seen.push(-1);
        cx.cancel_subscriptions();
        Ok(())
    }

    fn closing(&mut self, _: &mut Vec<i32>, cx: &mut Context<'_, Vec<i32>>) -> Result<(), Failure> {
        cx.await_holding(std::future::pending::<()>(), |_, _, ()| {});
        Ok(())
    }
}

#[test]
fn an_interrupt_ends_a_wait_for_a_future_and_a_close_that_hangs() -> Outcome {
    for seed in 0..50 {
        let sim = Sim::new(seed);
        let task = sim.group("cpu").task(Vec::new()).lifecycle(Impatient).spawn()?;
        task.submit(|_: &mut Vec<i32>, cx| {
            cx.await_exclusive(std::future::pending::<()>(), |_, _, ()| {});
        })?;
        let seen = task.call(|seen, _| std::mem::take(seen));
        sim.run_until_idle();
        assert!(!seen.is_done(), "the future holds the task");
        task.interrupt();
        assert_eq!(sim.wait(seen)?, [-1]);
        let closed = task.close();
        sim.run_until_idle();
        assert!(!closed.is_done(), "the closing hook holds the task");
        task.interrupt();
        sim.wait(closed)?;
        task.interrupt();
        sim.run_until_idle();
    }
    Ok(())
}

#[test]
fn urgent_jobs_accepted_while_the_task_closes_run_once_each() -> Outcome {
    const THREADS: u64 = 3;
    let group = Group::builder("closes").workers(2).pinning(Pinning::None).build()?;
    for round in 0..300_u64 {
        let (task, ran) = (group.spawn(())?, Arc::new(AtomicU64::new(0)));
        let senders: Vec<_> = (0..THREADS)
            .map(|_| {
                let (task, ran) = (task.clone(), Arc::clone(&ran));
                std::thread::spawn(move || {
                    let mut accepted = 0;
                    loop {
                        let ran = Arc::clone(&ran);
                        let job = move |(): &mut (), _: &mut Context<'_, ()>| {
                            ran.fetch_add(1, Ordering::Relaxed);
                        };
                        match task.submit_urgent(job).map_err(|refused| refused.kind) {
                            Ok(()) => accepted += 1,
                            Err(SubmitErrorKind::Full) => std::thread::yield_now(),
                            Err(kind) => {
                                assert_eq!(kind, SubmitErrorKind::Closed);
                                return accepted;
                            }
                        }
                    }
                })
            })
            .collect();
        while ran.load(Ordering::Relaxed) < round % 8 {
            std::thread::yield_now();
        }
        let closed = task.close();
        let mut accepted = 0;
        for sender in senders {
            accepted += sender.join().map_err(|_| "a sender panicked")?;
        }
        closed.wait_timeout(PATIENCE)?;
        assert_eq!(ran.load(Ordering::Relaxed), accepted, "round {round}");
    }
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

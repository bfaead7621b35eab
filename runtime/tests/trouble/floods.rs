//! Too much of everything: jobs beyond the memory of a group, millions of timers, all of them due.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{mpsc, Arc, Barrier};
use std::thread;
use std::time::Duration;

use turnwheel_runtime::time::ManualClock;
use turnwheel_runtime::{limits, Group, Mailbox, Pinning, SubmitErrorKind};

type Outcome = Result<(), Box<dyn Error>>;

/// Long enough for any machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(120);
/// A tenth of ten million where code is not optimised.
const TIMERS: u64 = if cfg!(debug_assertions) { 1_000_000 } else { 10_000_000 };

#[test]
fn millions_of_timers_that_are_due_at_once_all_run_once() -> Outcome {
    const TASKS: u64 = 100;
    const SPREAD: u64 = 1_000;
    let clock = ManualClock::new();
    let builder = Group::builder("due").workers(2).pinning(Pinning::None);
    let group = builder.clock(Arc::new(clock.clone())).build()?;
    let (fired, sum) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (say, all_fired) = mpsc::channel();
    let mut armed = Vec::new();
    for _ in 0..TASKS {
        let task = group.spawn(())?;
        let (fired, sum, say) = (Arc::clone(&fired), Arc::clone(&sum), say.clone());
        armed.push(task.call(move |(), cx| {
            (0..TIMERS / TASKS).all(|number| {
                let (fired, sum, say) = (Arc::clone(&fired), Arc::clone(&sum), say.clone());
                let delay = Duration::from_secs(1 + number % SPREAD);
                let job = move |(): &mut (), _: &mut turnwheel_runtime::Context<'_, ()>| {
                    sum.fetch_add(number, Ordering::AcqRel);
                    if fired.fetch_add(1, Ordering::AcqRel) + 1 == TIMERS {
                        say.send(()).unwrap_or_default();
                    }
                };
                cx.after(delay, job).is_ok()
            })
        }));
        // The task lives as long as it has timers.
    }
    for answer in armed {
        assert!(answer.wait_timeout(PATIENCE)?, "there is room for all of them");
    }
    assert_eq!(group.metrics().timers as u64, TIMERS);
    clock.advance(Duration::from_secs(SPREAD));
    all_fired.recv_timeout(PATIENCE)?;
    let of_one = (0..TIMERS / TASKS).sum::<u64>();
    assert_eq!(sum.load(Ordering::Acquire), TASKS * of_one, "each of them, none twice");
    assert!(group.shutdown()?.is_clean());
    assert_eq!(fired.load(Ordering::Acquire), TIMERS);
    Ok(())
}

#[test]
fn producers_that_flood_many_tasks_share_the_memory_of_the_group_and_lose_no_job() -> Outcome {
    const PRODUCERS: usize = 4;
    const TASKS: usize = 16;
    const BUDGET_BYTES: u64 = 4 << 20;
    /// Data that each job holds in line, so that few jobs fill the budget.
    type Load = [u64; 8];
    let builder = Group::builder("flood").workers(2).pinning(Pinning::None);
    let group = builder.memory_budget(BUDGET_BYTES).build()?;
    let ran = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| group.task(()).mailbox(Mailbox::unbounded()).spawn())
        .collect::<Result<_, _>>()?;
    // Both workers are held, so that nothing is consumed meanwhile.
    let (barrier, mut releases) = (Arc::new(Barrier::new(3)), Vec::new());
    for _ in 0..2 {
        let (release, held) = mpsc::channel::<()>();
        let barrier = Arc::clone(&barrier);
        group.spawn(())?.submit(move |(), _| {
            barrier.wait();
            held.recv().unwrap_or_default();
        })?;
        releases.push(release);
    }
    barrier.wait();
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|_| {
            let (tasks, ran) = (tasks.clone(), Arc::clone(&ran));
            thread::spawn(move || {
                let mut admitted = 0_u64;
                loop {
                    let (ran, load) = (Arc::clone(&ran), Load::default());
                    let task = &tasks[admitted as usize % TASKS];
                    let submitted = task.submit(move |(), _| {
                        ran.fetch_add(1 + load[0], Ordering::AcqRel);
                    });
                    match submitted {
                        Ok(()) => admitted += 1,
                        Err(refused) => return (admitted, refused.kind),
                    }
                    if admitted > BUDGET_BYTES {
                        return (admitted, SubmitErrorKind::Full);
                    }
                }
            })
        })
        .collect();
    let mut admitted = 0;
    for producer in producers {
        let (count, kind) = producer.join().map_err(|_| "a producer panicked")?;
        assert_eq!(kind, SubmitErrorKind::GroupMemory, "after {count} jobs");
        admitted += count;
    }
    let least = BUDGET_BYTES / 256;
    assert!(admitted > least, "{admitted} jobs are far fewer than fit");
    drop(releases);
    for task in &tasks {
        task.call(|(), _| ()).wait_timeout(PATIENCE).or_else(|_| {
            // Refused while the memory is still used up: once the lane is empty there is room.
            task.close().wait_timeout(PATIENCE)
        })?;
    }
    assert_eq!(ran.load(Ordering::Acquire), admitted, "each admitted job has run once");
    // The memory is given back: the group takes work as before.
    let task = group.spawn(0_u32)?;
    for _ in 0..1_000 {
        task.submit(|count, _| *count += 1)?;
    }
    assert_eq!(task.call(|count, _| *count).wait_timeout(PATIENCE)?, 1_000);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn a_task_that_floods_itself_is_refused_at_the_limit_and_goes_on() -> Outcome {
    let group = Group::builder("itself").workers(1).pinning(Pinning::None).build()?;
    let task = group.spawn(0_u32)?;
    let made = task.call(|_, cx| {
        let mut made = 0_u32;
        let refused = loop {
            match cx.run(|count: &mut u32, _| *count += 1) {
                Ok(()) => made += 1,
                Err(refused) => break refused.kind,
            }
            assert!(made <= limits::FAST_JOBS_MAX, "the limit is for real");
        };
        (made, refused)
    });
    let (made, refused) = made.wait_timeout(PATIENCE)?;
    assert_eq!((made, refused), (limits::FAST_JOBS_MAX, SubmitErrorKind::Full));
    // In the fast lane, so they were all before this one.
    assert_eq!(task.call(|count, _| *count).wait_timeout(PATIENCE)?, made);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

//! Groups whose workers are tasks of a tokio runtime.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{mpsc, Arc};
use std::task::{Context as PollContext, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::internal::PerWorker;
use turnwheel_runtime::limits::HOSTED_TURNS_MAX;
use turnwheel_runtime::{Context, Failure, Group, GroupBuilder, HostedWorker, ShutdownError, Task};

type Outcome = Result<(), Box<dyn Error>>;

/// Long enough for any machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(30);

fn tokio(threads: usize) -> std::io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(threads).thread_name("host").enable_time().build()
}

fn builder(workers: usize) -> GroupBuilder {
    Group::builder("hosted").workers(workers)
}

/// A group with its workers on this runtime.
fn on(runtime: &Runtime, builder: GroupBuilder) -> Result<Group, Box<dyn Error>> {
    let (group, workers) = builder.build_hosted()?;
    for worker in workers {
        runtime.spawn(tokio::task::unconstrained(worker));
    }
    Ok(group)
}

/// The group with its worker as a future that the test polls.
fn polled(builder: GroupBuilder) -> Result<(Group, HostedWorker), Box<dyn Error>> {
    let (group, mut workers) = builder.workers(1).build_hosted()?;
    Ok((group, workers.remove(0)))
}

fn poll(worker: &mut HostedWorker) -> Poll<()> {
    Pin::new(worker).poll(&mut PollContext::from_waker(Waker::noop()))
}

fn thread_name() -> String {
    std::thread::current().name().unwrap_or_default().to_owned()
}

fn increment(count: &mut u64, _: &mut Context<'_, u64>) -> u64 {
    *count += 1;
    *count
}

/// Goes behind all ready tasks of the executor; tokio's `yield_now` also waits for its driver.
async fn to_the_back() {
    let mut has_waited = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Submits itself for ever.
fn flood(turns: &mut u64, cx: &mut Context<'_, u64>) {
    *turns += 1;
    // The group ends.
    let _ = cx.submit(flood);
}

#[test]
fn questions_of_tokio_tasks_are_answered_on_tokios_threads() -> Outcome {
    let runtime = tokio(2)?;
    let group = on(&runtime, builder(2))?;
    let counters: Vec<Task<u64>> =
        (0..100).map(|_| group.spawn(0)).collect::<Result<_, _>>().expect("the group runs");
    let counters = Arc::new(counters);
    let askers: Vec<_> = (0..64_usize)
        .map(|asker| {
            let counters = Arc::clone(&counters);
            runtime.spawn(async move {
                for question in 0..500 {
                    let counter = &counters[(asker * 31 + question * 7) % counters.len()];
                    let on_host = counter.call(|count, cx| {
                        increment(count, cx);
                        thread_name() == "host"
                    });
                    assert!(on_host.await.expect("an answer"), "a thread of tokio's");
                }
            })
        })
        .collect();
    for asker in askers {
        runtime.block_on(asker)?;
    }
    let counts = counters.iter().map(|one| one.call(|count, _| *count).wait());
    assert_eq!(counts.sum::<Result<u64, _>>()?, 64 * 500);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn questions_are_answered_on_a_current_thread_runtime() -> Outcome {
    let runtime = Builder::new_current_thread().enable_time().build()?;
    let group = on(&runtime, builder(2))?;
    let counter = group.spawn(0_u64)?;
    runtime.block_on(async {
        for expected in 1..=1_000 {
            assert_eq!(counter.call(increment).await?, expected);
        }
        // The executor's only thread waits for the workers' end.
        assert!(group.shutdown()?.is_clean());
        Ok(())
    })
}

#[test]
fn accepted_jobs_run_though_the_runtime_is_dropped_first() -> Outcome {
    for _ in 0..20 {
        let runtime = tokio(2)?;
        let group = on(&runtime, builder(2))?;
        let counter = group.spawn(0_u64)?;
        let (sender, answers) = mpsc::channel();
        let flooding = {
            let counter = counter.clone();
            std::thread::spawn(move || {
                for _ in 0..2_000 {
                    sender.send(counter.call(increment)).expect("the test listens");
                }
            })
        };
        assert_eq!(answers.recv()?.wait()?, 1);
        drop(runtime);
        flooding.join().expect("no panic");
        for (index, answer) in answers.iter().enumerate() {
            assert_eq!(answer.wait()?, index as u64 + 2);
        }
        let report = group.shutdown()?;
        assert!(report.is_clean(), "{report:?}");
    }
    Ok(())
}

#[test]
fn worker_that_is_dropped_before_its_first_poll_runs_on_its_own_thread() -> Outcome {
    let (group, workers) = builder(2).build_hosted()?;
    let task = group.spawn(())?;
    let name = task.call(|(), _| thread_name());
    drop(workers);
    assert!(name.wait()?.starts_with("hosted-"));
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn shutdown_runs_accepted_jobs_of_workers_that_nobody_polls() -> Outcome {
    let (group, worker) = polled(builder(1))?;
    let counter = group.spawn(0_u64)?;
    let answers: Vec<_> = (0..100).map(|_| counter.call(increment)).collect();
    assert!(group.shutdown()?.is_clean());
    for (index, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.wait()?, index as u64 + 1);
    }
    drop(worker);
    Ok(())
}

#[test]
fn shutdown_waits_for_a_worker_in_a_poll_and_its_stop_hook() -> Outcome {
    let runtime = tokio(1)?;
    let starts = Arc::new(AtomicU64::new(0));
    let stops = Arc::new(AtomicU64::new(0));
    let count = |hooks: &Arc<AtomicU64>| {
        let hooks = Arc::clone(hooks);
        move |_: usize| {
            hooks.fetch_add(1, Ordering::SeqCst);
        }
    };
    let builder = builder(1).on_worker_start(count(&starts)).on_worker_stop(count(&stops));
    let group = on(&runtime, builder)?;
    let (entered, in_job) = mpsc::channel();
    let (leave, left) = mpsc::channel::<()>();
    let task = group.spawn(())?;
    let answer = task.call(move |(), _| {
        entered.send(()).expect("the test listens");
        left.recv_timeout(PATIENCE).is_ok()
    });
    in_job.recv_timeout(PATIENCE)?;
    let ending = group.shutdown_later(PATIENCE);
    leave.send(())?;
    assert!(ending.wait()?.is_clean());
    assert!(answer.wait()?);
    assert_eq!((starts.load(Ordering::SeqCst), stops.load(Ordering::SeqCst)), (1, 1));
    Ok(())
}

#[test]
fn future_of_a_worker_ends_with_its_group() -> Outcome {
    let (group, mut worker) = polled(builder(1))?;
    assert!(poll(&mut worker).is_pending());
    assert!(group.shutdown()?.is_clean());
    assert!(poll(&mut worker).is_ready());
    assert!(poll(&mut worker).is_ready(), "also when it is polled again");
    Ok(())
}

#[test]
fn sleep_of_a_group_ends_though_all_its_workers_are_parked() -> Outcome {
    let runtime = tokio(1)?;
    let group = on(&runtime, builder(2))?;
    for _ in 0..10 {
        runtime.block_on(group.sleep(Duration::from_millis(2)))?;
    }
    // A timer earlier than the one for which the keeper sleeps.
    let late = group.sleep(PATIENCE);
    runtime.block_on(group.sleep(Duration::from_millis(2)))?;
    late.cancel();
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn timers_of_a_flooding_task_and_of_others_fire() -> Outcome {
    let runtime = tokio(1)?;
    let group = on(&runtime, builder(1))?;
    let flooding = group.spawn(0_u64)?;
    let (told, ticks) = mpsc::channel();
    flooding.submit(move |turns, cx| {
        cx.after(Duration::from_millis(2), move |_, _| {
            // The test may be over.
            let _ = told.send(());
        })
        .expect("there is room");
        flood(turns, cx);
    })?;
    ticks.recv_timeout(PATIENCE)?;
    group.sleep(Duration::from_millis(2)).wait()?;
    drop(flooding.stop());
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn flooding_task_leaves_the_thread_to_other_tokio_tasks_after_a_number_of_turns() -> Outcome {
    let runtime = Builder::new_current_thread().build()?;
    let group = on(&runtime, builder(1))?;
    let flooding = group.spawn(0_u64)?;
    flooding.submit(flood)?;
    let turns = || group.metrics().workers[0].turns;
    runtime.block_on(runtime.spawn({
        let group = group.clone();
        async move {
            let turns = || group.metrics().workers[0].turns;
            for _ in 0..100 {
                let before = turns();
                to_the_back().await;
                // One poll of the worker lies between two of this task.
                let passed = turns() - before;
                assert!(passed <= 2 * u64::from(HOSTED_TURNS_MAX), "{passed} turns");
            }
        }
    }))?;
    assert!(turns() > 100, "the flood went on meanwhile");
    drop(flooding.stop());
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn job_made_in_a_long_turn_runs_on_the_other_worker() -> Outcome {
    let runtime = tokio(2)?;
    let group = on(&runtime, builder(2))?;
    let other = group.spawn(())?;
    let long = group.spawn(())?;
    let has_run = long.call(move |(), _| {
        let (told, listening) = mpsc::channel();
        other
            .submit(move |(), _| told.send(()).expect("the long turn listens"))
            .expect("it is open");
        listening.recv_timeout(PATIENCE).is_ok()
    });
    assert!(has_run.wait()?, "while the long turn lasted");
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn job_runs_though_its_sender_blocks_a_thread_of_the_executor() -> Outcome {
    let runtime = tokio(2)?;
    let group = on(&runtime, builder(2))?;
    let task = group.spawn(())?;
    for _ in 0..20 {
        let task = task.clone();
        let sender = runtime.spawn(async move {
            let (told, listening) = mpsc::channel();
            task.submit(move |(), _| told.send(()).expect("the sender listens")).expect("open");
            // The worker that was woken may wait for this very thread.
            listening.recv_timeout(PATIENCE)
        });
        runtime.block_on(sender)??;
    }
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn groups_on_one_runtime_ask_each_other() -> Outcome {
    let runtime = tokio(2)?;
    let (one, two) = (on(&runtime, builder(2))?, on(&runtime, builder(1))?);
    let server = two.spawn(0_u64)?;
    let asker = one.spawn(Vec::new())?;
    let (told, done) = mpsc::channel();
    for _ in 0..200 {
        let (server, told) = (server.clone(), told.clone());
        asker.submit(move |_, cx| {
            cx.on_completion(server.call(increment), move |answers: &mut Vec<u64>, _, answer| {
                answers.push(answer.expect("an answer"));
                told.send(answers.len()).expect("the test listens");
            });
        })?;
    }
    for _ in 0..200 {
        done.recv_timeout(PATIENCE)?;
    }
    let mut answers = asker.call(|answers, _| answers.clone()).wait()?;
    answers.sort_unstable();
    assert_eq!(answers, (1..=200).collect::<Vec<_>>());
    assert!(one.shutdown()?.is_clean());
    assert!(two.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn handler_that_blocks_in_place_asks_another_group() -> Outcome {
    let runtime = tokio(2)?;
    let (one, two) = (on(&runtime, builder(1))?, on(&runtime, builder(1))?);
    let server = two.spawn(0_u64)?;
    let handle = runtime.handle().clone();
    let asker = one.spawn(0_u64)?;
    let answer = asker.call(move |own, cx| {
        *own = tokio::task::block_in_place(|| handle.block_on(server.call(increment)))
            .expect("an answer");
        // The turn of this thread is still this one.
        let task = cx.task();
        assert_eq!(turnwheel_runtime::current_task().map(|now| now.id()), Some(task.id()));
        *own
    });
    assert_eq!(answer.wait()?, 1);
    assert!(one.shutdown()?.is_clean());
    assert!(two.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn panicking_job_fails_its_task_and_leaves_the_worker() -> Outcome {
    let runtime = tokio(1)?;
    let group = on(&runtime, builder(1))?;
    let (broken, healthy) = (group.spawn(0_u64)?, group.spawn(0_u64)?);
    let answer = broken.call(|_, _| -> u64 { panic!("on purpose") });
    assert!(matches!(answer.wait(), Err(Failure::Panicked(_))));
    assert_eq!(healthy.call(increment).wait()?, 1);
    assert_eq!(group.metrics().workers[0].failures, 1);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn thread_is_a_worker_during_polls_alone() -> Outcome {
    let (group, mut worker) = polled(builder(1))?;
    let task = group.spawn(())?;
    let own = group.clone();
    let inside = task.call(move |(), cx| {
        let (_completer, never) = completion::<()>();
        (
            own.is_current(),
            own.shutdown().err(),
            matches!(never.wait(), Err(Failure::WouldBlock)),
            cx.is_closing(),
        )
    });
    assert!(poll(&mut worker).is_pending());
    let expected = (true, Some(ShutdownError::OnWorker), true, false);
    assert_eq!(inside.wait()?, expected);
    assert!(!group.is_current());
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn worker_polled_inside_a_turn_of_another_keeps_both_turns_apart() -> Outcome {
    let (outer, mut outer_worker) = polled(builder(1))?;
    let (inner, mut inner_worker) = polled(builder(1))?;
    let inner_task = inner.spawn(0_u64)?;
    let outer_task = outer.spawn(0_u64)?;
    let answer = inner_task.call(increment);
    outer_task.submit(move |count, cx| {
        cx.run(|count, _| *count *= 10).expect("there is room");
        assert!(poll(&mut inner_worker).is_pending());
        // The own job goes to the own fast lane, after the other worker's turn too.
        cx.run(|count, _| *count += 5).expect("there is room");
        *count = 1;
        drop(inner_worker);
    })?;
    assert!(poll(&mut outer_worker).is_pending());
    assert_eq!(answer.wait()?, 1);
    let count = outer_task.call(|count, _| *count);
    assert!(poll(&mut outer_worker).is_pending());
    assert_eq!(count.wait()?, 15);
    assert!(outer.shutdown()?.is_clean());
    assert!(inner.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn values_of_workers_are_whole_though_workers_change_threads() -> Outcome {
    let runtime = tokio(2)?;
    let group = on(&runtime, builder(2))?;
    let counts = Arc::new(PerWorker::new(&group, || 0_u64));
    let is_over = Arc::new(AtomicBool::new(false));
    let visitor = {
        let (counts, is_over) = (Arc::clone(&counts), Arc::clone(&is_over));
        std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                counts.visit_each(|count| *count += 0);
            }
        })
    };
    let askers: Vec<_> = (0..16)
        .map(|_| {
            let (counts, task) = (Arc::clone(&counts), group.spawn(()).expect("the group runs"));
            runtime.spawn(async move {
                for _ in 0..300 {
                    let counts = Arc::clone(&counts);
                    let own = task.call(move |(), _| counts.own(|count| *count += 1));
                    assert_eq!(own.await.expect("an answer"), Some(()));
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for asker in askers {
        runtime.block_on(asker)?;
    }
    is_over.store(true, Ordering::Relaxed);
    visitor.join().expect("no panic");
    let mut sum = 0;
    counts.visit_each(|count| sum += *count);
    assert_eq!(sum, 16 * 300);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

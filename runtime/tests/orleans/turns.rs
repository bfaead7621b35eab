//! Order of turns: budgets, claims, ways into a task; in simulation for the order and on 1, 2 and 4
//! workers for threads.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as PollContext, Poll, Waker};
use std::time::Duration;

use turnwheel_runtime::completion::{completion, Executor};
use turnwheel_runtime::sim::{EventKind, Sim};
use turnwheel_runtime::time::ManualClock;
use turnwheel_runtime::{
    Budget, Context, Failure, Flow, Group, Mailbox, Pinning, SubmitError, SubmitErrorKind, Task,
};

/// Longer than any sound machine takes; a wait that ends by it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

fn on_workers(test: impl Fn(&Group)) {
    for workers in [1, 2, 4] {
        let group = Group::builder("turns").workers(workers).pinning(Pinning::None).build();
        let group = group.expect("a group with few workers");
        test(&group);
        assert!(group.shutdown().expect("not on a worker").is_clean(), "{workers} workers");
    }
}

// --- budget ---

// O-039
#[test]
fn a_turn_ends_after_its_budget_of_jobs_and_lets_the_others_run() {
    let sim = Sim::fifo();
    let builder = Group::builder("cpu").workers(1).budget(Budget::new(4, Duration::MAX));
    let group = sim.build(builder).unwrap();
    let log = Arc::new(Mutex::new(String::new()));
    let own = Budget::new(2, Duration::MAX);
    let tasks = [
        ("a", group.task(()).name("a").spawn().unwrap()),
        ("b", group.task(()).name("b").budget(own).spawn().unwrap()),
    ];
    for (name, task) in tasks.clone() {
        for _ in 0..6 {
            let log = Arc::clone(&log);
            task.submit(move |(), _| log.lock().unwrap().push_str(name)).unwrap();
        }
    }
    sim.record();
    sim.run_until_idle();
    assert_eq!(*log.lock().unwrap(), "aaaabbaabbbb");
    let yields = |name| sim.events().of(name).count(|kind| *kind == EventKind::Yield);
    assert!(yields("a") >= 1 && yields("b") >= 2, "the own budget goes before the group's");
}

// O-039
#[test]
fn a_turn_ends_after_its_budget_of_time() {
    let clock = ManualClock::new();
    let builder = Group::builder("slices").workers(1).pinning(Pinning::None);
    let builder = builder.budget(Budget::new(1_000, Duration::from_millis(3)));
    let group = builder.clock(Arc::new(clock.clone())).build().unwrap();
    let slow = group.spawn(0).unwrap();
    let (target, filled) = (slow.clone(), group.spawn(()).unwrap());
    // One worker: submissions of a turn wait until the turn is over.
    let filling = filled.call(move |(), _| {
        for _ in 0..12 {
            let clock = clock.clone();
            let job = move |runs: &mut u32, _: &mut Context<'_, u32>| {
                clock.advance(Duration::from_millis(1));
                *runs += 1;
            };
            target.submit(job).expect("room");
        }
    });
    filling.wait_timeout(PATIENCE).unwrap();
    assert_eq!(slow.call(|runs, _| *runs).wait_timeout(PATIENCE).unwrap(), 12);
    group.shutdown().unwrap();
    let worker = group.metrics().workers[0];
    assert!((3..=4).contains(&worker.requeues), "12 ms in slices of 3 ms: {worker:?}");
}

// --- claims ---

/// Counts its drops.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

// O-040
#[test]
fn a_continuation_cancelled_as_it_starts_runs_once_or_not_at_all() {
    on_workers(|group| {
        for _ in 0..300 {
            let (runs, drops) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let (completer, waiting) = completion();
            let task = group.spawn(()).unwrap();
            let (counted, dropped) = (Arc::clone(&runs), Dropped(Arc::clone(&drops)));
            let registered = task.call(move |(), cx| {
                cx.on_completion(waiting, move |(), _, _: Result<(), Failure>| {
                    counted.fetch_add(1, Ordering::SeqCst);
                    drop(dropped);
                })
            });
            let continuation = registered.wait_timeout(PATIENCE).unwrap();
            let canceller = std::thread::spawn(move || continuation.cancel());
            // A cancelled waiter needs no value any more: the answer may be either.
            let _ = completer.complete(());
            canceller.join().unwrap();
            task.close().wait_timeout(PATIENCE).unwrap();
            assert!(runs.load(Ordering::SeqCst) <= 1);
            assert_eq!(drops.load(Ordering::SeqCst), 1);
        }
    });
}

// O-040
#[test]
fn chance_decides_between_the_cancel_and_the_start_of_a_continuation() {
    let ran = |seed| {
        let sim = Sim::new(seed);
        let group = sim.group("cpu");
        let (completer, waiting) = completion();
        let task = group.spawn(0_u32).unwrap();
        let registered = task.call(|_, cx| cx.on_completion(waiting, |runs, _, _| *runs += 1));
        let continuation = sim.wait(registered).unwrap();
        let [one, other] = [group.spawn(()).unwrap(), group.spawn(()).unwrap()];
        one.submit(move |(), _| {
            // As above.
            let _ = completer.complete(());
        })
        .unwrap();
        other.submit(move |(), _| continuation.cancel()).unwrap();
        sim.run_until_idle();
        sim.assert_no_failures();
        sim.wait(task.call(|runs, _| *runs)).unwrap()
    };
    let outcomes: std::collections::BTreeSet<_> = (0..100).map(ran).collect();
    assert!(outcomes.into_iter().eq([0, 1]));
}

// --- one walk, ways in ---

// O-041, O-042
#[test]
fn one_turn_runs_what_is_present_and_what_that_makes() {
    let sim = Sim::fifo();
    let task = sim.group("cpu").task(Vec::new()).name("walk").spawn().unwrap();
    let (completer, waiting) = completion();
    let registered = task.call(|_, cx| {
        cx.on_completion(waiting, |log: &mut Vec<&str>, _, _: Result<(), Failure>| {
            log.push("continuation");
        });
    });
    sim.wait(registered).unwrap();
    task.submit(|log, cx| {
        log.push("one");
        cx.run(|log, _| log.push("made by one")).unwrap();
    })
    .unwrap();
    task.submit(|log, _| log.push("two")).unwrap();
    completer.complete(()).unwrap();
    sim.record();
    assert_eq!(sim.run_until_idle(), 1, "one turn");
    let log = sim.wait(task.call(|log, _| log.clone())).unwrap();
    assert_eq!(log, ["one", "made by one", "two", "continuation"]);
}

type Way = fn(&Task<u32>) -> Result<(), SubmitErrorKind>;

fn kind<J>(refused: SubmitError<J>) -> SubmitErrorKind {
    refused.kind
}

fn one_more(count: &mut u32, _: &mut Context<'_, u32>) {
    *count += 1;
}

fn by_permit(task: &Task<u32>) -> Result<(), SubmitErrorKind> {
    let mut reserve = pin!(task.reserve());
    match reserve.as_mut().poll(&mut PollContext::from_waker(Waker::noop())) {
        Poll::Pending => Err(SubmitErrorKind::Full),
        Poll::Ready(Err(_)) => Err(SubmitErrorKind::Closed),
        Poll::Ready(Ok(permit)) => permit.submit(one_more).map_err(kind),
    }
}

fn by_call(task: &Task<u32>) -> Result<(), SubmitErrorKind> {
    let answer = task.call(one_more);
    if !answer.is_done() {
        return Ok(());
    }
    match answer.wait() {
        Err(Failure::Closed) => Err(SubmitErrorKind::Closed),
        _ => Err(SubmitErrorKind::Full),
    }
}

/// Every public function that gives a task a job from outside.
const WAYS: &[Way] = &[
    |task| task.submit(one_more).map_err(kind),
    |task| task.run(one_more).map_err(kind),
    |task| task.submit_keyed(7, one_more).map_err(kind),
    |task| task.submit_wait(one_more, Duration::ZERO).map_err(kind),
    by_permit,
    by_call,
    |task| {
        let again = |count: &mut u32, cx: &mut Context<'_, u32>| {
            one_more(count, cx);
            Flow::Done
        };
        task.submit_again(again).map_err(kind)
    },
];

// O-044
#[test]
fn every_way_in_passes_the_same_admission() {
    let sim = Sim::fifo();
    let task = sim.group("cpu").task(0).mailbox(Mailbox::bounded(1)).spawn().unwrap();
    for (number, way) in (1..).zip(WAYS) {
        assert_eq!((way(&task), task.queue_len()), (Ok(()), 1), "way {number}");
        for refused in WAYS {
            assert!(refused(&task).is_err(), "after way {number}");
        }
        assert!(task.execute(Box::new(|| ())).is_err(), "after way {number}");
        sim.run_until_idle();
        assert_eq!(sim.wait(task.call(|count, _| *count)).unwrap(), number, "ran once");
    }
    sim.wait(task.close()).unwrap();
    for (number, way) in (1..).zip(WAYS) {
        assert_eq!(way(&task), Err(SubmitErrorKind::Closed), "way {number}");
    }
}

// O-043
#[test]
fn no_turn_and_no_job_comes_from_nowhere() {
    for seed in 0..100 {
        let sim = Sim::builder().seed(seed).workers(3).build();
        sim.record();
        let group = sim.group("cpu");
        let tasks: Vec<_> =
            (0..4).map(|n| group.task(0).name(&format!("t{n}")).spawn().unwrap()).collect();
        for (number, task) in tasks.iter().enumerate() {
            let next = tasks[(number + 1) % tasks.len()].clone();
            task.submit(move |_, cx| {
                cx.run(|count, _| *count += 1).expect("room");
                next.submit(|count, _| *count += 1).expect("room");
            })
            .unwrap();
        }
        sim.run_until_idle();
        for number in 0..tasks.len() {
            let (mut ready, mut submitted) = (0_i32, 0_i32);
            for event in sim.events().of(&format!("t{number}")) {
                match event.kind {
                    EventKind::Submit => submitted += 1,
                    EventKind::Job { .. } => submitted -= 1,
                    EventKind::Ready | EventKind::Yield => ready += 1,
                    EventKind::TurnStart => ready -= 1,
                    _ => {}
                }
                assert!((0..=1).contains(&ready), "seed {seed}: in one queue, once: {event}");
                assert!(submitted >= 0, "seed {seed}: a job that nobody submitted: {event}");
            }
            assert_eq!((ready, submitted), (0, 0), "seed {seed}");
        }
    }
}

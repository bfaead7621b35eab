//! Jobs, their order, conditions and timers: the reference's functional cases, in simulation where
//! order is the point and on 1, 2 and 4 workers where threads are.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use turnwheel_runtime::completion::completion;
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{
    Cancelled, Completion, Condition, ConditionMode, Context, Failure, Group, Late, Lifecycle,
    OnFailure, Pinning, SubmitErrorKind, Task, Timer,
};

type Log = Arc<Mutex<Vec<&'static str>>>;

fn note(log: &Log, what: &'static str) {
    log.lock().expect("nobody panics while writing").push(what);
}

fn noted(log: &Log) -> Vec<&'static str> {
    log.lock().expect("nobody panics while writing").clone()
}

fn count(log: &Log, what: &str) -> usize {
    noted(log).iter().filter(|noted| **noted == what).count()
}

fn on_workers(test: impl Fn(&Group)) {
    for workers in [1, 2, 4] {
        let group = Group::builder("jobs").workers(workers).pinning(Pinning::None).build();
        let group = group.expect("a group with few workers");
        test(&group);
        assert!(group.shutdown().expect("not on a worker").is_clean(), "{workers} workers");
    }
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

// --- 3.2, 3.3, 3.6 ---

struct Policy(Arc<Mutex<Vec<Failure>>>);

impl<S> Lifecycle<S> for Policy {
    fn on_failure(&mut self, _: &mut S, _: &mut Context<'_, S>, failure: &Failure) -> OnFailure {
        self.0.lock().expect("nobody panics while writing").push(failure.clone());
        OnFailure::Resume
    }
}

// Z-004, Z-005
#[test]
fn the_policy_hook_gets_the_panic_of_a_job() {
    let sim = Sim::fifo();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let task = sim.group("cpu").task(()).lifecycle(Policy(Arc::clone(&seen))).spawn().unwrap();
    task.submit(|(), _| panic!("exactly this")).unwrap();
    task.submit(|(), _| std::panic::panic_any(7_u32)).unwrap();
    sim.run_until_idle();
    let texts: Vec<_> = seen.lock().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["panicked: exactly this", "panicked: a payload that is no text"]);
}

// Z-001, Z-002
#[test]
fn a_task_has_the_name_it_was_given_or_its_class() {
    let sim = Sim::fifo();
    let group = sim.group("cpu");
    let plain = group.spawn(0_u8).unwrap();
    let named =
        group.task(0_u8).name("ledger").class("Account").label("bank", "7").spawn().unwrap();
    assert_eq!((plain.name(), plain.class()), ("u8".to_owned(), "u8".to_owned()));
    assert_eq!((named.name(), named.class()), ("ledger".to_owned(), "Account".to_owned()));
    let info = group.tasks().into_iter().find(|task| task.name == "ledger").unwrap();
    assert_eq!(info.labels, [("bank".to_owned(), "7".to_owned())]);
}

struct Blocking {
    entered: std::sync::mpsc::Sender<()>,
    release: std::sync::mpsc::Receiver<()>,
}

impl Lifecycle<()> for Blocking {
    fn closing(&mut self, (): &mut (), _: &mut Context<'_, ()>) -> Result<(), Failure> {
        self.entered.send(()).expect("the test waits");
        self.release.recv().expect("the test releases");
        Ok(())
    }
}

// Z-007
#[test]
fn the_end_is_not_done_before_the_closing_hook_returns() {
    on_workers(|group| {
        let (entered, has_entered) = std::sync::mpsc::channel();
        let (release, released) = std::sync::mpsc::channel();
        let hooks = Blocking { entered, release: released };
        let closed = group.task(()).lifecycle(hooks).spawn().unwrap().close();
        has_entered.recv().unwrap();
        assert!(!closed.is_done());
        release.send(()).unwrap();
        closed.wait().unwrap();
    });
}

// Z-009
#[test]
fn a_group_that_was_shut_down_takes_no_task() {
    let group = Group::builder("over").workers(1).build().unwrap();
    let task = group.spawn(1).unwrap();
    group.shutdown().unwrap();
    assert_eq!(group.spawn(42).unwrap_err().state, 42, "the state comes back");
    assert_eq!(task.submit(|_, _| {}).unwrap_err().kind, SubmitErrorKind::Closed);
    assert!(task.call(|_, _| ()).wait().unwrap_err().is_closed());
}

// Z-044
#[test]
fn a_panicking_call_fails_its_future_and_is_not_repeated() {
    on_workers(|group| {
        let task = group.spawn(0).unwrap();
        let failure = task
            .call(|count, _| {
                *count += 1;
                panic!("planted")
            })
            .wait()
            .map(|(): ()| ())
            .unwrap_err();
        assert_eq!(failure.to_string(), "panicked: planted");
        assert_eq!(task.call(|count, _| *count).wait().unwrap(), 1);
    });
}

// Z-047
#[test]
fn a_call_around_the_end_of_a_task_is_always_answered() {
    on_workers(|group| {
        for _ in 0..200 {
            let task = group.spawn(()).unwrap();
            let caller = task.clone();
            let calls = std::thread::spawn(move || {
                (0..20).map(|_| caller.call(|(), _| ())).collect::<Vec<_>>()
            });
            drop(task.close());
            for call in calls.join().unwrap() {
                let answer = call.wait_timeout(Duration::from_secs(30));
                assert!(answer.is_ok() || answer.unwrap_err().is_closed());
            }
        }
    });
}

// --- 3.8 conditions ---

fn condition(sim: &Sim, task: &Task<Log>, mode: ConditionMode) -> Condition {
    let made = task.call(move |_, cx| {
        cx.condition(mode, |log: &mut Log, cx| {
            note(log, "THREE");
            cx.run(|log, _| note(log, "FOUR")).expect("room in the fast lane");
            cx.yield_now();
        })
    });
    sim.wait(made).expect("the task lives")
}

// Z-049, Z-050, Z-051, Z-052
#[test]
fn a_counting_condition_runs_once_for_each_signal() {
    let (sim, log) = (Sim::fifo(), Log::default());
    let task = sim.group("cpu").spawn(Arc::clone(&log)).unwrap();
    let condition = condition(&sim, &task, ConditionMode::Counting);
    for round in 1..=4 {
        condition.signal();
        sim.run_until_idle();
        assert_eq!(count(&log, "THREE"), round);
    }
    (0..4).for_each(|_| condition.signal());
    sim.run_until_idle();
    assert_eq!((count(&log, "THREE"), count(&log, "FOUR")), (8, 8));
}

// Z-162
#[test]
fn what_a_condition_makes_runs_before_its_next_run() {
    let (sim, log) = (Sim::fifo(), Log::default());
    let task = sim.group("cpu").spawn(Arc::clone(&log)).unwrap();
    let condition = condition(&sim, &task, ConditionMode::Counting);
    condition.signal();
    condition.signal();
    task.submit(|log, cx| {
        note(log, "ONE");
        cx.run(|log, _| note(log, "TWO")).unwrap();
    })
    .unwrap();
    sim.run_until_idle();
    assert_eq!(noted(&log), ["ONE", "TWO", "THREE", "FOUR", "THREE", "FOUR"]);
}

#[test]
fn a_coalescing_condition_runs_at_least_once_after_the_last_signal() {
    let (sim, log) = (Sim::fifo(), Log::default());
    let task = sim.group("cpu").spawn(Arc::clone(&log)).unwrap();
    let condition = condition(&sim, &task, ConditionMode::Coalescing);
    (0..9).for_each(|_| condition.signal());
    sim.run_until_idle();
    assert_eq!(count(&log, "THREE"), 1);
    condition.cancel();
    condition.signal();
    sim.run_until_idle();
    assert_eq!(count(&log, "THREE"), 1);
}

// --- 3.9 ---

// Z-054, Z-055, Z-056, Z-057
#[test]
fn a_job_runs_once_in_its_own_task_wherever_it_comes_from() {
    on_workers(|group| {
        let (one, two) = (group.spawn(0).unwrap(), group.spawn(0).unwrap());
        one.run(|count, _| *count += 1).unwrap();
        one.submit(|count, _| *count += 1).unwrap();
        let (completer, ran) = completion();
        let target = one.clone();
        two.submit(move |_, _| {
            let inner = target.clone();
            target
                .run(move |count, _| {
                    *count += 1;
                    completer.complete(inner.is_current()).expect("the test waits");
                })
                .expect("room");
        })
        .unwrap();
        assert!(ran.wait().unwrap(), "in the context of the target");
        assert_eq!(one.call(|count, _| *count).wait().unwrap(), 3);
        assert_eq!(two.call(|count, _| *count).wait().unwrap(), 0);
    });
}

// --- 3.10 timers ---

fn armed(sim: &Sim, log: &Log, arm: fn(&mut Context<'_, Log>) -> Timer) -> Timer {
    let task = sim.group("cpu").spawn(Arc::clone(log)).expect("the group is open");
    sim.wait(task.call(move |_, cx| arm(cx))).expect("the task lives")
}

fn in_ten(cx: &mut Context<'_, Log>) -> Timer {
    cx.after(ms(10), |log, _| note(log, "ran")).expect("few timers")
}

fn at_a_time(cx: &mut Context<'_, Log>) -> Timer {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(946_684_800) + ms(900);
    cx.at(time, |log, _| note(log, "ran")).expect("few timers")
}

fn each_ten(cx: &mut Context<'_, Log>) -> Timer {
    cx.every(ms(10), Late::Skip, |log, _| note(log, "ran")).expect("few timers")
}

// Z-059, Z-060, Z-X07
#[test]
fn a_timer_runs_once_at_its_deadline_and_never_before() {
    let (sim, log) = (Sim::fifo(), Log::default());
    let timer = armed(&sim, &log, in_ten);
    sim.advance(ms(10) - Duration::from_nanos(1));
    assert!(noted(&log).is_empty() && timer.is_pending());
    sim.advance(Duration::from_nanos(1));
    assert_eq!(noted(&log), ["ran"]);
    sim.advance(ms(100));
    assert_eq!(noted(&log), ["ran"]);
    assert_eq!(timer.cancel(), Cancelled::TooLate);
}

// Z-065, Z-066, Z-067
#[test]
fn a_timer_for_a_date_runs_then_and_not_when_cancelled() {
    let (sim, log) = (Sim::fifo(), Log::default());
    let wall = sim.wall();
    assert_eq!(wall, SystemTime::UNIX_EPOCH + Duration::from_secs(946_684_800), "the virtual date");
    let _first = armed(&sim, &log, at_a_time);
    let second = armed(&sim, &log, at_a_time);
    sim.advance(ms(899));
    assert!(noted(&log).is_empty());
    assert_eq!(second.cancel(), Cancelled::BeforeFiring);
    sim.advance(ms(1));
    assert_eq!(noted(&log), ["ran"]);
}

// Z-061, Z-062, Z-064
#[test]
fn a_recurring_timer_runs_each_period_until_it_is_cancelled() {
    let (sim, log) = (Sim::fifo(), Log::default());
    let timer = armed(&sim, &log, each_ten);
    for round in 1..=3 {
        sim.advance(ms(10));
        assert_eq!(noted(&log).len(), round);
    }
    assert_eq!(timer.cancel(), Cancelled::BeforeFiring);
    let once = armed(&sim, &log, in_ten);
    assert_eq!(once.cancel(), Cancelled::BeforeFiring);
    sim.advance(ms(100));
    assert_eq!(noted(&log).len(), 3);
}

// Z-X08
#[test]
fn a_cancel_from_elsewhere_inside_the_action_or_too_late_hits_no_other_timer() {
    let (sim, log) = (Sim::fifo(), Log::default());
    let task = sim.group("cpu").spawn((Arc::clone(&log), None::<Timer>)).unwrap();
    task.submit(|(_, own), cx| {
        let timer = cx.every_after(ms(10), |(log, own): &mut (Log, Option<Timer>), _| {
            note(log, "ran");
            assert_eq!(own.as_ref().map(Timer::cancel), Some(Cancelled::WhileRunning));
        });
        *own = timer.ok();
        cx.after(ms(30), |(log, _), _| note(log, "other")).unwrap();
    })
    .unwrap();
    sim.run_until_idle();
    sim.advance(ms(100));
    assert_eq!(noted(&log), ["ran", "other"]);
    let (sim, log) = (Sim::fifo(), Log::default());
    let timer = armed(&sim, &log, in_ten);
    let elsewhere = std::thread::spawn(move || timer.cancel());
    assert_eq!(elsewhere.join().unwrap(), Cancelled::BeforeFiring);
    sim.advance(ms(100));
    assert!(noted(&log).is_empty());
}

// Z-X09
#[test]
fn the_next_run_of_a_fixed_delay_is_measured_from_the_end_of_the_last() {
    let sim = Sim::fifo();
    let clock = sim.clock();
    let times = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&times);
    let task = sim.group("cpu").spawn(()).unwrap();
    task.submit(move |(), cx| {
        cx.every_after(ms(10), move |(), cx| {
            seen.lock().unwrap().push(cx.now_ns());
            clock.advance(ms(7));
        })
        .unwrap();
    })
    .unwrap();
    sim.run_until_idle();
    for _ in 0..40 {
        sim.advance(ms(1));
    }
    let times = times.lock().unwrap();
    assert!(times.len() >= 2);
    assert!(times[1] - times[0] >= 17_000_000, "7 ms of job and 10 ms of delay: {times:?}");
}

// --- 3.23 order ---

// Z-157, Z-159
#[test]
fn siblings_run_in_order_and_before_everything_submitted() {
    let (sim, log) = (Sim::fifo(), Log::default());
    let task = sim.group("cpu").spawn(Arc::clone(&log)).unwrap();
    task.submit(|_, cx| {
        cx.run(|log, cx| {
            note(log, "ONE");
            cx.submit(|log, _| note(log, "TWO")).unwrap();
        })
        .unwrap();
        cx.run(|log, _| note(log, "THREE")).unwrap();
        cx.submit(|log, _| note(log, "FOUR")).unwrap();
    })
    .unwrap();
    sim.run_until_idle();
    assert_eq!(noted(&log), ["ONE", "THREE", "FOUR", "TWO"]);
}

// Z-160, Z-161
#[test]
fn continuations_of_what_is_done_come_after_the_pending_jobs() {
    for is_holding in [false, true] {
        let (sim, log) = (Sim::fifo(), Log::default());
        let task = sim.group("cpu").spawn(Arc::clone(&log)).unwrap();
        let continue_with = move |cx: &mut Context<'_, Log>, what: &'static str| {
            let job = move |log: &mut Log, _: &mut Context<'_, Log>, _| note(log, what);
            if is_holding {
                cx.on_completion_holding(Completion::done(()), job);
            } else {
                cx.on_completion(Completion::done(()), job);
            }
        };
        task.submit(move |_, cx| {
            continue_with(cx, "THREE");
            cx.run(move |log, cx| {
                note(log, "ONE");
                continue_with(cx, "FOUR");
            })
            .unwrap();
            cx.run(|log, _| note(log, "TWO")).unwrap();
        })
        .unwrap();
        sim.run_until_idle();
        assert_eq!(noted(&log), ["ONE", "TWO", "THREE", "FOUR"]);
    }
}

struct Starter(Log, Option<Completion<()>>);

impl Lifecycle<Log> for Starter {
    fn started(&mut self, _: &mut Log, cx: &mut Context<'_, Log>) -> Result<(), Failure> {
        if let Some(waiting) = self.1.take() {
            cx.on_completion(waiting, |log, cx, _| {
                note(log, "THREE");
                cx.run(|log, _| note(log, "FOUR")).expect("room");
            });
        }
        cx.run(|log, _| note(log, "ONE"))?;
        cx.run(|log, _| note(log, "TWO"))?;
        note(&self.0, "started");
        Ok(())
    }
}

// Z-164, Z-165
#[test]
fn jobs_of_the_hook_come_first_and_children_follow_their_parent() {
    let (sim, log) = (Sim::fifo(), Log::default());
    let (completer, waiting) = completion();
    let hooks = Starter(Arc::clone(&log), Some(waiting));
    let task = sim.group("cpu").task(Arc::clone(&log)).lifecycle(hooks).spawn().unwrap();
    let call = task.call(|log, _| note(log, "FIVE"));
    completer.complete(()).unwrap();
    sim.run_until_idle();
    assert!(call.is_done());
    let log = noted(&log);
    assert_eq!(log[..3], ["started", "ONE", "TWO"]);
    let three = log.iter().position(|what| *what == "THREE").unwrap();
    assert_eq!(log[three + 1], "FOUR");
    assert!(log[3..].contains(&"FIVE"));
}

// --- 3.31 ---

// Z-X01
#[test]
fn jobs_of_one_producer_run_in_order_and_the_close_is_one_of_them() {
    on_workers(|group| {
        let task = group.spawn(Vec::new()).unwrap();
        let producer = task.clone();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&seen);
        std::thread::spawn(move || {
            for number in 0..1_000 {
                producer.submit(move |seen: &mut Vec<u32>, _| seen.push(number)).unwrap();
            }
            producer.submit(move |seen, _| *keep.lock().unwrap() = seen.clone()).unwrap();
            drop(producer.close());
            let late = producer.submit(|_, _| unreachable!("after the close"));
            assert_eq!(late.unwrap_err().kind, SubmitErrorKind::Closed);
        })
        .join()
        .unwrap();
        task.closed().wait().unwrap();
        assert!(seen.lock().unwrap().iter().copied().eq(0..1_000));
    });
}

// Z-X02
#[test]
fn a_plain_counter_is_exact_under_stealing_and_no_two_turns_overlap() {
    on_workers(|group| {
        let inside = Arc::new(AtomicBool::new(false));
        let task = group.spawn(0_u64).unwrap();
        let producers: Vec<_> = (0..4)
            .map(|_| {
                let (task, inside) = (task.clone(), Arc::clone(&inside));
                std::thread::spawn(move || {
                    for _ in 0..2_000 {
                        let inside = Arc::clone(&inside);
                        let job = move |count: &mut u64, _: &mut Context<'_, u64>| {
                            assert!(!inside.swap(true, Ordering::SeqCst), "overlap");
                            *count += 1;
                            inside.store(false, Ordering::SeqCst);
                        };
                        task.submit_wait(job, Duration::from_secs(30)).expect("room in time");
                    }
                })
            })
            .collect();
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        assert_eq!(task.call(|count, _| *count).wait().unwrap(), 8_000);
    });
}

// Z-X12, O-037, O-039
#[test]
fn two_endless_tasks_share_one_worker() {
    let group = Group::builder("endless").workers(1).build().unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let runs = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let runs = Arc::new(runs);
    fn again(task: &Task<usize>, runs: &Arc<[AtomicUsize; 2]>, is_over: &Arc<AtomicBool>) {
        let (runs, is_over) = (Arc::clone(runs), Arc::clone(is_over));
        let job = move |me: &mut usize, cx: &mut Context<'_, usize>| {
            runs[*me].fetch_add(1, Ordering::SeqCst);
            if !is_over.load(Ordering::SeqCst) {
                again(&cx.task(), &runs, &is_over);
            }
        };
        task.submit(job).expect("room");
    }
    let tasks = [group.spawn(0).unwrap(), group.spawn(1).unwrap()];
    tasks.iter().for_each(|task| again(task, &runs, &is_over));
    while runs.iter().any(|runs| runs.load(Ordering::SeqCst) < 10_000) {
        std::thread::yield_now();
    }
    is_over.store(true, Ordering::SeqCst);
    group.shutdown().unwrap();
}

// Z-X10
#[test]
fn a_continuation_that_is_ready_before_the_close_runs() {
    let (sim, log) = (Sim::fifo(), Log::default());
    let (completer, waiting) = completion();
    let task = sim.group("cpu").spawn(Arc::clone(&log)).unwrap();
    task.submit(move |_, cx| {
        cx.on_completion(waiting, |log, _, _: Result<(), Failure>| note(log, "ran"));
    })
    .unwrap();
    sim.run_until_idle();
    completer.complete(()).unwrap();
    drop(task.close());
    sim.run_until_idle();
    assert_eq!(noted(&log), ["ran"]);
}

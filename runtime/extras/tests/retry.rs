//! Retrying: conditions, number and times of retries; every retry ends with an answer.

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{mpsc, Arc};
use std::time::Duration;

use turnwheel_extras::{Attempt, Retried, Retry, RetryError};
use turnwheel_runtime::time::{Clock, ManualClock};
use turnwheel_runtime::{Backoff, Completion, Context, Failure, Group, Lifecycle, Pinning, Task};

type Outcome = Result<(), Box<dyn Error>>;

/// Long enough for any machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(30);
const MAX: Duration = Duration::from_secs(10);

fn group() -> Result<Group, Box<dyn Error>> {
    Ok(Group::builder("t").workers(1).pinning(Pinning::None).build()?)
}

/// A group whose time stands still until the test moves it.
fn stopped() -> Result<(Group, ManualClock), Box<dyn Error>> {
    let clock = ManualClock::new();
    let group = Group::builder("t").workers(1).pinning(Pinning::None);
    Ok((group.clock(Arc::new(clock.clone())).build()?, clock))
}

fn two_seconds_up_to(max: Duration) -> Backoff {
    Backoff::exponential(Duration::from_secs(2), max)
}

/// The four strategies, none of which waits in real time.
fn strategies(condition: impl Fn() -> bool + Send + Sync + Clone + 'static) -> [Retry; 4] {
    [
        Retry::endless().abort_when(condition.clone()),
        Retry::recoverable(|_| true).abort_when(condition.clone()),
        Retry::abortable(condition.clone()),
        Retry::with_backoff(two_seconds_up_to(Duration::ZERO)).abort_when(condition),
    ]
}

/// Starts the operation in a job of the task.
fn retry<S, T, F>(task: &Task<S>, retry: Retry, operation: F) -> Completion<Completion<Retried<T>>>
where
    S: Send + 'static,
    T: Send + 'static,
    F: FnMut(&mut S, &mut Context<'_, S>) -> Result<Attempt<T>, Failure> + Send + 'static,
{
    task.call(move |_, cx| retry.run(cx, operation))
}

/// Done at the tenth attempt.
fn tenth(tries: &mut u32) -> Result<Attempt<u32>, Failure> {
    *tries += 1;
    Ok(if *tries == 10 { Attempt::Done(*tries) } else { Attempt::NotYet })
}

/// Fails at every odd attempt, «not yet» at every even one, done at the tenth.
fn tenth_with_failures(tries: &mut u32) -> Result<Attempt<u32>, Failure> {
    if *tries % 2 == 0 && *tries < 9 {
        *tries += 1;
        return Err(Failure::message("odd"));
    }
    tenth(tries)
}

#[test]
fn every_strategy_runs_until_done() -> Outcome {
    let group = group()?;
    for strategy in strategies(|| false) {
        let task = group.spawn(0)?;
        let done = retry(&task, strategy, |tries, _| tenth(tries)).wait()?.wait()?;
        assert_eq!(done.into_result()?, 10);
    }
    group.shutdown()?;
    Ok(())
}

#[test]
fn every_strategy_stops_when_its_condition_holds() -> Outcome {
    let group = group()?;
    for index in 0..4 {
        let asked = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&asked);
        let condition = move || counted.fetch_add(1, Ordering::SeqCst) == 9;
        let strategy = strategies(condition)[index].clone();
        let task = group.spawn(())?;
        let never = |(): &mut (), _: &mut Context<'_, ()>| Ok(Attempt::<()>::NotYet);
        let ended = retry(&task, strategy, never).wait()?.wait()?;
        assert!(matches!(ended, Retried::Aborted { attempts: 10, last: None }), "{ended:?}");
        assert_eq!(asked.load(Ordering::SeqCst), 10);
    }
    group.shutdown()?;
    Ok(())
}

#[test]
fn a_recoverable_failure_is_aborted_too_when_the_condition_holds() -> Outcome {
    let group = group()?;
    let task = group.spawn(())?;
    let strategy = Retry::recoverable(|_| true).abort_when(|| true);
    let fails =
        |(): &mut (), _: &mut Context<'_, ()>| Err::<Attempt<()>, _>(Failure::message("down"));
    let ended = retry(&task, strategy, fails).wait()?.wait()?;
    let Retried::Aborted { attempts: 1, last: Some(last) } = &ended else {
        return Err(format!("{ended:?}").into());
    };
    assert_eq!(last.to_string(), "down");
    let error = ended.into_result().expect_err("it was aborted");
    assert_eq!(error.to_string(), "given up after 1 attempts; the last one failed: down");
    group.shutdown()?;
    Ok(())
}

#[test]
fn failures_are_retried_by_the_strategies_that_say_so() -> Outcome {
    let group = group()?;
    for strategy in [Retry::endless(), Retry::limited(10), Retry::recoverable(|_| true)] {
        let task = group.spawn(0)?;
        let done = retry(&task, strategy, |tries, _| tenth_with_failures(tries)).wait()?;
        assert_eq!(done.wait()?.into_result()?, 10);
    }
    group.shutdown()?;
    Ok(())
}

#[test]
fn a_failure_that_is_not_recoverable_ends_the_retry() -> Outcome {
    let group = group()?;
    let is_first = |failure: &Failure| failure.to_string() == "first";
    for (strategy, attempts) in [(Retry::recoverable(is_first), 2), (Retry::abortable(|| false), 1)]
    {
        let task = group.spawn(0)?;
        let failed = retry(&task, strategy, move |tries: &mut u32, _| {
            *tries += 1;
            let text = if *tries == attempts { "other" } else { "first" };
            Err::<Attempt<()>, _>(Failure::message(text))
        });
        let failure = failed.wait()?.wait().expect_err("it is not retried");
        assert_eq!(failure.to_string(), "other");
        assert_eq!(task.call(|tries, _| *tries).wait()?, attempts);
    }
    group.shutdown()?;
    Ok(())
}

#[test]
fn the_limit_is_named_when_it_is_reached() -> Outcome {
    let group = group()?;
    for strategy in [Retry::limited(5), Retry::recoverable(|_| true).attempts(5)] {
        let task = group.spawn(0)?;
        let ended = retry(&task, strategy.clone(), |tries, _| tenth(tries)).wait()?.wait()?;
        assert!(matches!(ended, Retried::LimitReached { attempts: 5, last: None }), "{ended:?}");
        let task = group.spawn(0)?;
        let ended = retry(&task, strategy.clone(), |tries, _| tenth_with_failures(tries)).wait()?;
        let error = ended.wait()?.into_result().expect_err("five are too few");
        assert!(matches!(error, RetryError::LimitReached { attempts: 5, last: Some(_) }));
        assert_eq!(
            error.to_string(),
            "not done after 5 attempts, which is the limit; the last one failed: odd"
        );
        let task = group.spawn(7)?;
        let done = retry(&task, strategy, |tries, _| tenth(tries)).wait()?.wait()?;
        assert_eq!(done.into_result()?, 10, "three of five are enough");
    }
    group.shutdown()?;
    Ok(())
}

#[test]
fn immediate_retries_of_one_task_do_not_interleave() -> Outcome {
    let group = group()?;
    let kinds = [Retry::endless(), Retry::recoverable(|_| true), Retry::abortable(|| false)];
    for strategy in kinds {
        let task = group.spawn(Vec::new())?;
        let held = hold(&group)?;
        let operation = |name: char| {
            let mut tries = 0;
            move |log: &mut Vec<char>, _: &mut Context<'_, Vec<char>>| {
                tries += 1;
                log.push(name);
                Ok(if tries == 5 { Attempt::Done(name) } else { Attempt::NotYet })
            }
        };
        let first = retry(&task, strategy.clone(), operation('a'));
        let second = retry(&task, strategy, operation('b'));
        held.send(())?;
        assert_eq!(first.wait()?.wait()?.value(), Some('a'));
        assert_eq!(second.wait()?.wait()?.value(), Some('b'));
        assert_eq!(task.call(|log, _| String::from_iter(log.iter())).wait()?, "aaaaabbbbb");
    }
    group.shutdown()?;
    Ok(())
}

/// Keeps the only worker busy until a message arrives, so that a test's submissions are queued.
fn hold(group: &Group) -> Result<mpsc::Sender<()>, Box<dyn Error>> {
    let (release, released) = mpsc::channel::<()>();
    let (holding, is_held) = mpsc::channel();
    group.spawn(())?.submit(move |(), _| {
        holding.send(()).expect("the test waits");
        released.recv().expect("the test releases");
    })?;
    is_held.recv_timeout(PATIENCE)?;
    Ok(release)
}

#[test]
fn another_task_gets_the_thread_between_two_attempts() -> Outcome {
    let group = group()?;
    for strategy in strategies(|| false).into_iter().map(|strategy| strategy.attempts(u64::MAX)) {
        let is_set = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_set);
        let waiting = group.spawn(())?;
        let setting = group.spawn(is_set)?;
        let done = retry(&waiting, strategy, move |(), _| {
            let is_set = seen.load(Ordering::SeqCst);
            Ok(if is_set { Attempt::Done(()) } else { Attempt::NotYet })
        });
        setting.submit(|is_set, _| is_set.store(true, Ordering::SeqCst))?;
        done.wait()?.wait()?.into_result()?;
    }
    group.shutdown()?;
    Ok(())
}

#[test]
fn a_success_at_once_waits_for_nothing() -> Outcome {
    let (group, _clock) = stopped()?;
    let task = group.spawn(0)?;
    let strategy = Retry::with_backoff(two_seconds_up_to(MAX));
    let done = retry(&task, strategy, |tries: &mut u32, _| {
        *tries += 1;
        Ok(Attempt::Done(true))
    });
    assert_eq!(done.wait()?.wait()?.value(), Some(true));
    assert_eq!(task.call(|tries, _| *tries).wait()?, 1);
    group.shutdown()?;
    Ok(())
}

/// Runs an operation that is done at the tenth attempt and returns the seconds between attempts.
fn gaps(
    operation: fn(&mut u32) -> Result<Attempt<u32>, Failure>,
) -> Result<Vec<u64>, Box<dyn Error>> {
    let (group, clock) = stopped()?;
    let (tried, tries) = mpsc::channel();
    let task = group.spawn(0)?;
    let strategy = Retry::with_backoff(two_seconds_up_to(MAX));
    let now = clock.clone();
    let done = retry(&task, strategy, move |count, _| {
        tried.send(now.now_ns()).expect("the test listens");
        operation(count)
    });
    let done = done.wait()?;
    let mut gaps = Vec::new();
    let mut last = tries.recv_timeout(PATIENCE)?;
    for seconds in [2, 4, 8].into_iter().chain([10; 6]) {
        // When this is answered, the running job has armed the pause.
        task.call(|_, _| ()).wait()?;
        clock.advance(Duration::from_secs(seconds) - Duration::from_nanos(1));
        task.call(|_, _| ()).wait()?;
        assert!(tries.try_recv().is_err(), "never early");
        clock.advance(Duration::from_nanos(1));
        let at = tries.recv_timeout(PATIENCE)?;
        gaps.push((at - last) / 1_000_000_000);
        last = at;
    }
    assert_eq!(done.wait()?.into_result()?, 10);
    group.shutdown()?;
    Ok(gaps)
}

#[test]
fn the_pauses_double_up_to_the_cap() -> Outcome {
    assert_eq!(gaps(tenth)?, [2, 4, 8, 10, 10, 10, 10, 10, 10]);
    assert_eq!(gaps(tenth_with_failures)?, [2, 4, 8, 10, 10, 10, 10, 10, 10]);
    Ok(())
}

#[test]
fn a_failing_operation_with_pauses_stops_when_the_condition_holds() -> Outcome {
    let (group, clock) = stopped()?;
    let asked = Arc::new(AtomicU32::new(0));
    let condition = move || asked.fetch_add(1, Ordering::SeqCst) == 1;
    let strategy = Retry::with_backoff(two_seconds_up_to(MAX)).abort_when(condition);
    let task = group.spawn(())?;
    let ended = retry(&task, strategy, |(), _| Err::<Attempt<()>, _>(Failure::message("down")));
    let ended = ended.wait()?;
    task.call(|(), _| ()).wait()?;
    assert!(!ended.is_done(), "the first time the condition does not hold");
    clock.advance(Duration::from_secs(2));
    assert!(matches!(ended.wait()?, Retried::Aborted { attempts: 2, last: Some(_) }));
    group.shutdown()?;
    Ok(())
}

#[test]
fn other_jobs_run_during_a_pause() -> Outcome {
    let (group, clock) = stopped()?;
    let task = group.spawn(false)?;
    let strategy = Retry::with_backoff(two_seconds_up_to(MAX));
    let done = retry(&task, strategy, |is_set: &mut bool, _| {
        Ok(if *is_set { Attempt::Done(()) } else { Attempt::NotYet })
    });
    let done = done.wait()?;
    task.call(|is_set, _| *is_set = true).wait()?;
    clock.advance(Duration::from_secs(2));
    done.wait()?.into_result()?;
    group.shutdown()?;
    Ok(())
}

#[test]
fn a_dropped_answer_ends_the_retry_also_during_a_pause() -> Outcome {
    struct Told(mpsc::Sender<()>);
    impl Drop for Told {
        fn drop(&mut self) {
            self.0.send(()).expect("the test waits");
        }
    }
    let (group, _clock) = stopped()?;
    let pauses = Retry::with_backoff(two_seconds_up_to(MAX));
    for strategy in [pauses, Retry::endless()] {
        let (ended, end) = mpsc::channel();
        let task = group.spawn(())?;
        let told = Told(ended);
        let answer = retry(&task, strategy, move |(), _| {
            let _keep = &told;
            Ok(Attempt::<()>::NotYet)
        });
        let answer = answer.wait()?;
        assert!(end.try_recv().is_err());
        drop(answer);
        end.recv_timeout(PATIENCE)?;
    }
    group.shutdown()?;
    Ok(())
}

#[test]
fn a_closing_task_aborts_its_retries_and_answers() -> Outcome {
    let (group, _clock) = stopped()?;
    let pauses = Retry::with_backoff(two_seconds_up_to(MAX)).attempts(u64::MAX);
    for (strategy, end) in [
        (Retry::endless(), Task::close as fn(&Task<()>) -> Completion<()>),
        (Retry::endless(), Task::stop),
        (Retry::endless(), Task::kill),
        (pauses.clone(), Task::close),
        (pauses.clone(), Task::stop),
        (pauses, Task::kill),
    ] {
        let task = group.spawn(())?;
        let answer = retry(&task, strategy, |(), _| Ok(Attempt::<()>::NotYet)).wait()?;
        // A killed task fails, as requested.
        let _ = end(&task).wait();
        assert!(answer.wait()?.is_aborted());
    }
    group.shutdown()?;
    Ok(())
}

#[test]
fn a_panicking_attempt_is_not_repeated_and_told() -> Outcome {
    let (group, _clock) = stopped()?;
    for strategy in [Retry::endless(), Retry::with_backoff(two_seconds_up_to(MAX))] {
        let task = group.spawn(0)?;
        let answer = retry(&task, strategy, |tries: &mut u32, _| -> Result<Attempt<()>, _> {
            *tries += 1;
            panic!("no such luck")
        });
        let failure = answer.wait()?.wait().expect_err("it panicked");
        assert!(matches!(failure, Failure::Panicked(_)), "{failure}");
        assert_eq!(task.call(|tries, _| *tries).wait()?, 1, "the task has survived");
    }
    group.shutdown()?;
    Ok(())
}

/// Retries while the task starts and while it closes.
struct Persistent(mpsc::Sender<&'static str>);

impl Persistent {
    fn retry(&self, cx: &mut Context<'_, u32>, told: &'static str) {
        let done = Retry::with_backoff(two_seconds_up_to(Duration::ZERO)).run(cx, |tries, _| {
            *tries += 1;
            Ok(if *tries % 3 == 0 { Attempt::Done(()) } else { Attempt::NotYet })
        });
        let to = self.0.clone();
        cx.on_completion(done, move |_, _, ended| {
            let is_done = ended.is_ok_and(|ended| ended.value().is_some());
            to.send(if is_done { told } else { "not done" }).expect("the test listens");
        });
    }
}

impl Lifecycle<u32> for Persistent {
    fn starting(&mut self, _: &mut u32, cx: &mut Context<'_, u32>) -> Result<(), Failure> {
        self.retry(cx, "starting");
        Ok(())
    }

    fn closing(&mut self, _: &mut u32, cx: &mut Context<'_, u32>) -> Result<(), Failure> {
        self.retry(cx, "closing");
        Ok(())
    }
}

#[test]
fn a_retry_with_pauses_holds_starting_and_closing() -> Outcome {
    let group = group()?;
    let (told, steps) = mpsc::channel();
    let task = group.task(0).lifecycle(Persistent(told)).spawn()?;
    task.started().wait()?;
    assert_eq!(steps.try_recv()?, "starting");
    task.close().wait()?;
    assert_eq!(steps.try_recv()?, "closing");
    group.shutdown()?;
    Ok(())
}

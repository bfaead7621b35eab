//! Completions: one winner, no hang, no lost value, chains and combinators.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use turnwheel_extras::{first_success, race, traverse, Share};
use turnwheel_runtime::completion::{all, completion, Executor, InlineExecutor, Rejected};
use turnwheel_runtime::{Completer, Completion, Context, Failure, Group};

/// Runs jobs at once and counts them.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicUsize>);

impl Executor for Counting {
    fn execute(&self, job: Box<dyn FnOnce() + Send>) -> Result<(), Rejected> {
        self.0.fetch_add(1, Ordering::SeqCst);
        job();
        Ok(())
    }
}

struct Refusing;

impl Executor for Refusing {
    fn execute(&self, _: Box<dyn FnOnce() + Send>) -> Result<(), Rejected> {
        Err(Rejected)
    }
}

// Z-021, Z-022
#[test]
fn a_completion_made_done_is_done_and_answers_its_value() {
    let empty = Completion::done(());
    assert!(empty.is_done());
    assert!(empty.wait().is_ok());
    assert_eq!(Completion::done(7).wait().unwrap(), 7);
}

#[test]
fn the_first_completion_wins_and_the_loser_gets_its_value_back() {
    let (completer, answer) = completion();
    let other = completer.clone();
    completer.complete(1).unwrap();
    assert_eq!(other.complete(2).unwrap_err().0, 2);
    assert!(other.fail(Failure::Closed).is_err());
    assert_eq!(answer.wait().unwrap(), 1);
}

// Z-025
#[test]
fn a_failure_reaches_the_waiter_as_the_very_error() {
    let (completer, answer) = completion::<()>();
    let failure = Failure::message("exactly this");
    completer.fail(failure.clone()).unwrap();
    assert!(answer.wait().unwrap_err().same_as(&failure));
}

/// Has a task of another thread complete it, or fail it with the text «why».
fn complete_in_task(group: &Group, completer: Completer<u32>, is_failing: bool) {
    let task = group.spawn(()).expect("the group is open");
    let job = move |(): &mut (), _: &mut Context<'_, ()>| {
        let result = if is_failing { Err(Failure::message("why")) } else { Ok(9) };
        completer.complete_with(result).expect("it is completed once");
    };
    task.submit(job).expect("room");
}

// Z-026, Z-027, Z-029
#[test]
fn a_blocked_thread_is_woken_by_a_task_with_the_value_or_the_message() {
    type Wait = fn(Completion<u32>) -> Result<u32, Failure>;
    const WAITS: [Wait; 2] =
        [Completion::wait, |answer| answer.wait_timeout(Duration::from_secs(60))];
    let group = Group::builder("completions").workers(1).build().unwrap();
    for wait in WAITS {
        for is_failing in [false, true] {
            let (completer, answer) = completion();
            let waiter = std::thread::spawn(move || wait(answer));
            complete_in_task(&group, completer, is_failing);
            match waiter.join().unwrap() {
                Ok(value) => assert_eq!((value, is_failing), (9, false)),
                Err(failure) => {
                    assert_eq!((failure.to_string().as_str(), is_failing), ("why", true))
                }
            }
        }
        // A completion that has failed before the first wait.
        let failed = Completion::failed(Failure::message("why"));
        assert_eq!(wait(failed).unwrap_err().to_string(), "why");
    }
    group.shutdown().unwrap();
}

// Z-035, Z-037
#[test]
fn a_callback_from_outside_runs_once_when_a_task_completes_or_fails() {
    let group = Group::builder("callbacks").workers(2).build().unwrap();
    for is_failing in [false, true] {
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let (completer, answer) = completion();
        let seen = answer.then_on(InlineExecutor, move |outcome| {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(outcome.map_err(|failure| failure.to_string()))
        });
        assert_eq!(runs.load(Ordering::SeqCst), 0, "not before it is done");
        complete_in_task(&group, completer, is_failing);
        let expected = if is_failing { Err("why".to_owned()) } else { Ok(9) };
        assert_eq!(seen.wait().unwrap(), expected);
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    }
    group.shutdown().unwrap();
}

// Z-030
#[test]
fn a_time_out_says_how_long_and_tells_the_producer() {
    let (completer, answer) = completion::<()>();
    let failure = answer.wait_timeout(Duration::from_millis(5)).unwrap_err();
    assert!(failure.is_timed_out());
    assert!(failure.to_string().contains("5ms"), "{failure}");
    assert!(completer.is_cancelled());
    assert!(completer.complete(()).is_err());
}

#[test]
fn dropping_every_completer_ends_the_wait() {
    let (completer, answer) = completion::<()>();
    let other = completer.clone();
    drop(completer);
    assert!(!answer.is_done());
    drop(other);
    assert!(matches!(answer.wait(), Err(Failure::Abandoned)));
}

// Z-X05
#[test]
fn a_worker_may_not_wait_for_what_is_not_done() {
    let group = Group::builder("waits").workers(1).build().unwrap();
    let task = group.spawn(()).unwrap();
    let (_never, pending) = completion::<()>();
    let refused = task.call(move |(), _| pending.wait()).wait().unwrap();
    assert!(matches!(refused, Err(Failure::WouldBlock)));
    assert_eq!(task.call(|(), _| Completion::done(3).wait().ok()).wait().unwrap(), Some(3));
    let own = task.clone();
    let itself = task.call(move |(), _| own.call(|(), _| ()).wait()).wait().unwrap();
    assert!(matches!(itself, Err(Failure::Refused(_))), "a call to itself");
    group.shutdown().unwrap();
}

// Z-036
#[test]
fn a_continuation_runs_once_on_its_executor_when_completed() {
    let executor = Counting::default();
    let (completer, answer) = completion();
    let after = answer.then_on(executor.clone(), |outcome| outcome.map(|value: u32| value + 1));
    assert_eq!(executor.0.load(Ordering::SeqCst), 0);
    completer.complete(1).unwrap();
    assert_eq!((after.wait().unwrap(), executor.0.load(Ordering::SeqCst)), (2, 1));
}

// Z-039, Z-040
#[test]
fn a_continuation_of_what_is_done_runs_at_once_and_once_on_its_executor() {
    for outcome in [Ok(7), Err("why")] {
        let (executor, runs) = (Counting::default(), Arc::new(Mutex::new(Vec::new())));
        let seen = Arc::clone(&runs);
        let done = match outcome {
            Ok(value) => Completion::done(value),
            Err(text) => Completion::failed(Failure::message(text)),
        };
        let after = done.then_on(executor.clone(), move |outcome: Result<u32, Failure>| {
            seen.lock().expect("nobody panics while writing").push(outcome.clone().ok());
            outcome
        });
        assert!(after.is_done(), "at once");
        assert_eq!(*runs.lock().unwrap(), [outcome.ok()]);
        assert_eq!(executor.0.load(Ordering::SeqCst), 1);
        assert_eq!(
            after.wait().map_err(|failure| failure.to_string()),
            outcome.map_err(str::to_owned)
        );
    }
}

// Z-041, Z-042, Z-221, Z-222, Z-223, Z-224
#[test]
fn a_chain_waits_for_each_link_passes_failures_on_and_can_absolve_them() {
    let executor = Counting::default();
    let ((one, first), (two, second)) = (completion::<u32>(), completion::<u32>());
    let chain = first.and_then_on(executor.clone(), move |_| second);
    assert_eq!(executor.0.load(Ordering::SeqCst), 0);
    one.complete(1).unwrap();
    assert!(!chain.is_done() && executor.0.load(Ordering::SeqCst) == 1);
    two.complete(2).unwrap();
    assert_eq!(chain.wait().unwrap(), 2);
    let failure = Failure::message("root");
    let passed = Completion::<u32>::failed(failure.clone()).map(|value| value + 1);
    assert!(passed.wait().unwrap_err().same_as(&failure));
    let absolved = Completion::failed(failure).then_on(InlineExecutor, |o| Ok(o.unwrap_or(5)));
    assert_eq!(absolved.wait().unwrap(), 5);
}

// Z-225, Z-226, Z-229, Z-230
#[test]
fn a_panicking_link_fails_itself_and_those_after_it_with_the_root_cause() {
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    let end = Completion::done(1)
        .map(|value| value + 1)
        .map(|_| -> u32 { panic!("the middle") })
        .map(move |value| counted.fetch_add(1, Ordering::SeqCst) as u32 + value);
    assert_eq!(end.wait().unwrap_err().to_string(), "panicked: the middle");
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

#[test]
fn a_refusing_executor_fails_the_chain_as_closed() {
    let after = Completion::done(1).then_on(Refusing, |outcome| outcome);
    assert!(after.wait().unwrap_err().is_closed());
}

// Z-219, Z-220
#[test]
fn success_and_error_callbacks_run_for_their_outcome_only() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    for outcome in [Ok(1), Err(Failure::Closed)] {
        let (one, two) = (Arc::clone(&seen), Arc::clone(&seen));
        let make = || match &outcome {
            Ok(value) => Completion::done(*value),
            Err(failure) => Completion::failed(failure.clone()),
        };
        make()
            .on_success(InlineExecutor, move |value| one.lock().unwrap().push(value.to_string()))
            .detach();
        make()
            .on_error(InlineExecutor, move |failure| two.lock().unwrap().push(failure.to_string()))
            .detach();
    }
    assert_eq!(*seen.lock().unwrap(), ["1", "the task is closed"]);
}

// Z-069, Z-070, Z-071
#[test]
fn all_answers_in_order_of_the_sources_or_with_every_failure() {
    let ((one, first), (two, second)) = (completion(), completion());
    let both = all(vec![first, second]);
    two.complete(2).unwrap();
    assert!(!both.is_done());
    one.complete(1).unwrap();
    assert_eq!(both.wait().unwrap(), [1, 2]);
    assert!(all::<u32>(Vec::new()).wait().unwrap().is_empty());
    let failed = |text: &str| Completion::<u32>::failed(Failure::message(text));
    let one = all(vec![Completion::done(1), failed("a")]).wait().unwrap_err();
    assert_eq!(one.to_string(), "a");
    let Failure::Many(many) = all(vec![failed("a"), failed("b")]).wait().unwrap_err() else {
        panic!("both failures are listed");
    };
    assert_eq!(many.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn first_success_and_race_take_the_first() {
    let (_never, pending) = completion();
    let failed = Completion::failed(Failure::Closed);
    assert_eq!(first_success(vec![failed, pending, Completion::done(3)]).wait().unwrap(), 3);
    let (_never, pending) = completion::<u32>();
    assert!(race(vec![pending, Completion::failed(Failure::Closed)]).wait().is_err());
    assert!(first_success::<u32>(Vec::new()).wait().is_err());
}

// Z-216, Z-217, Z-218
#[test]
fn traverse_goes_in_order_stops_at_the_first_failure_and_needs_no_stack() {
    assert!(traverse(0..0, Completion::done).wait().unwrap().is_empty());
    let many = traverse(0..1_000_000_u32, Completion::done).wait().unwrap();
    assert!(many.iter().copied().eq(0..1_000_000));
    let begun = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&begun);
    let stopped = traverse(0..10, move |item| {
        counted.fetch_add(1, Ordering::SeqCst);
        if item == 3 {
            Completion::failed(Failure::Closed)
        } else {
            Completion::done(item)
        }
    });
    assert!(stopped.wait().is_err());
    assert_eq!(begun.load(Ordering::SeqCst), 4);
}

#[test]
fn a_chain_of_many_links_needs_no_stack() {
    let (completer, mut chain) = completion::<u32>();
    for _ in 0..100_000 {
        chain = chain.map(|value| value + 1);
    }
    completer.complete(0).unwrap();
    assert_eq!(chain.wait().unwrap(), 100_000);
}

#[test]
fn every_clone_of_a_shared_completion_gets_the_value() {
    let (completer, answer) = completion();
    let shared = answer.shared();
    let early: Vec<_> = (0..3).map(|_| shared.subscribe()).collect();
    assert!(!shared.is_done());
    completer.complete("value").unwrap();
    for one in early {
        assert_eq!(one.wait().unwrap(), "value");
    }
    assert_eq!(shared.wait().unwrap(), "value");
}

#[test]
fn a_shared_completion_that_nobody_holds_is_given_up() {
    let (completer, answer) = completion::<u32>();
    let (one, two) = {
        let shared = answer.shared();
        (shared.clone(), shared)
    };
    drop(one);
    assert!(!completer.is_cancelled(), "one consumer is left");
    drop(two);
    assert!(completer.is_cancelled());
}

// Z-012, Z-019, Z-020, Z-034
#[test]
fn a_continuation_runs_as_a_job_of_its_own_task() {
    let group = Group::builder("continuations").workers(2).build().unwrap();
    let (asker, other) = (group.spawn(0).unwrap(), group.spawn(41).unwrap());
    let (completer, answer) = completion();
    asker
        .submit(move |_, cx| {
            let value = other.call(|value, _| *value);
            let own = cx.task();
            cx.on_completion(value, move |state, _, value| {
                assert!(own.is_current());
                *state += value.unwrap() + 1;
                completer.complete(*state).unwrap();
            });
        })
        .unwrap();
    assert_eq!(answer.wait().unwrap(), 42);
    group.shutdown().unwrap();
}

// Z-014, Z-015
#[test]
fn a_list_of_completions_is_one_continuation() {
    let group = Group::builder("lists").workers(1).build().unwrap();
    let task = group.spawn(()).unwrap();
    let (completer, seen) = completion();
    task.submit(move |(), cx| {
        let both = vec![Completion::done(1), Completion::done(2)];
        cx.on_all(both, move |(), cx, values| {
            cx.on_all(Vec::<Completion<u32>>::new(), move |(), _, none| {
                completer.complete((values.unwrap(), none.unwrap().len())).unwrap();
            });
        });
    })
    .unwrap();
    assert_eq!(seen.wait().unwrap(), (vec![1, 2], 0));
    group.shutdown().unwrap();
}

// Z-016
#[test]
fn a_list_of_which_several_fail_is_one_continuation_with_every_failure() {
    let group = Group::builder("lists").workers(2).build().unwrap();
    let task = group.spawn(0_u32).unwrap();
    let ((one, first), (two, second)) = (completion::<u32>(), completion::<u32>());
    let (completer, seen) = completion();
    let registered = task.call(move |_, cx| {
        cx.on_all(vec![first, second], move |runs, _, outcome| {
            *runs += 1;
            completer.complete(outcome.expect_err("both fail")).expect("it runs once");
        });
    });
    registered.wait().unwrap();
    two.fail(Failure::message("b")).unwrap();
    assert_eq!(task.call(|runs, _| *runs).wait().unwrap(), 0, "not before all are done");
    one.fail(Failure::message("a")).unwrap();
    let Failure::Many(failures) = seen.wait().unwrap() else { panic!("both are listed") };
    let texts: Vec<_> = failures.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["a", "b"], "in the order of the list, not of time");
    assert_eq!(task.call(|runs, _| *runs).wait().unwrap(), 1);
    group.shutdown().unwrap();
}

/// A chain of many links that run where it is completed.
fn long_chain() -> (Completer<u32>, Completion<u32>) {
    let (completer, mut answer) = completion();
    for _ in 0..100 {
        answer = answer.then_on(InlineExecutor, |outcome| outcome.map(|number: u32| number + 1));
    }
    (completer, answer)
}

/// Completes when it is dropped.
struct Late(Completer<u32>);

impl Drop for Late {
    fn drop(&mut self) {
        let _ = self.0.complete(0);
    }
}

#[test]
fn long_chain_that_is_completed_as_its_thread_ends_runs_to_its_end() {
    thread_local! {
        static LATE: std::cell::RefCell<Option<Late>> = const { std::cell::RefCell::new(None) };
    }
    let (late, answer) = long_chain();
    let thread = std::thread::spawn(move || {
        LATE.set(Some(Late(late)));
        // The queue of long chains is made later, so it is gone earlier.
        let (completer, early) = long_chain();
        assert!(completer.complete(0).is_ok());
        early.wait()
    });
    assert_eq!(thread.join().expect("its destructors panic not").ok(), Some(100));
    assert_eq!(answer.wait().ok(), Some(100));
}

//! Failing jobs and hooks (3.2, 3.21 of the reference).

use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex};

use turnwheel_runtime::{Failure, OnFailure, Phase};

use crate::hooks::{doing, hook, Cx, Hook, Hooks, Policy, State, FULL};
use crate::world::everywhere;

// Z-135
#[test]
fn a_failing_starting_hook_fails_start_and_end() {
    everywhere(|world| {
        let starting = hook(|_, _| Err(Failure::message("no")));
        let task = world.spawn(Hooks { starting, ..Hooks::default() });
        let started = task.started();
        assert_eq!(world.wait(task.closed()).unwrap_err().to_string(), "no");
        assert_eq!(world.wait(started).unwrap_err().to_string(), "no");
        assert_eq!(world.log(), ["starting", "on_failure", "failed"]);
        assert_eq!(task.phase(), Phase::Failed);
    });
}

// Z-136, Z-145
#[test]
fn a_failing_closing_hook_fails_the_end_and_cleans_up_once() {
    everywhere(|world| {
        let closing = doing(|_, _| panic!("planted"));
        let task = world.spawn(Hooks { closing, ..Hooks::default() });
        let failure = world.wait(task.close()).unwrap_err();
        assert_eq!(failure.to_string(), "panicked: planted");
        let log = world.log();
        assert_eq!(log[3..], ["closing", "on_failure", "failed"], "no closed hook, one clean-up");
    });
}

// Z-137
#[test]
fn a_job_made_by_the_starting_hook_fails_the_start_and_the_rest_is_discarded() {
    everywhere(|world| {
        let starting = doing(|_, cx| {
            cx.run(|_, _| panic!("planted")).unwrap();
            cx.run(|state, _| state.note("never")).unwrap();
        });
        let task = world.spawn(Hooks { starting, ..Hooks::default() });
        let failure = world.wait(task.started()).unwrap_err();
        assert_eq!(failure.to_string(), "panicked: planted");
        assert!(world.wait(task.closed()).unwrap_err().same_as(&failure));
        assert_eq!(world.log(), ["starting", "on_failure", "failed"]);
    });
}

// Z-139
#[test]
fn a_job_made_by_a_starting_hook_that_fails_itself_never_runs() {
    let ways: [fn() -> Option<Hook>; 3] = [
        || hook(|_, cx| never_run(cx).and(Err(Failure::message("planted")))),
        || hook(|_, cx| never_run(cx).map(|()| panic!("planted"))),
        || hook(|_, cx| never_run(cx).map(|()| cx.fail(Failure::message("planted")))),
    ];
    for way in ways {
        everywhere(|world| {
            let task = world.spawn(Hooks { starting: way(), ..Hooks::default() });
            let failure = world.wait(task.started()).unwrap_err();
            assert!(failure.to_string().contains("planted"), "{failure}");
            assert!(world.wait(task.closed()).is_err());
            assert_eq!((world.count("never"), world.count("started")), (0, 0));
            assert_eq!(world.count("failed"), 1);
        });
    }
}

fn never_run(cx: Cx<'_, '_>) -> Result<(), Failure> {
    Ok(cx.run(|state, _| state.note("never"))?)
}

/// Jobs that the policy hook submits one after the other.
const FAILING_JOBS: u32 = 10;

// Z-140
#[test]
fn a_task_outlives_a_policy_hook_that_submits_the_next_failing_job() {
    everywhere(|world| {
        let mut left = FAILING_JOBS;
        let policy: Policy = Box::new(move |_, cx, failure| {
            assert_eq!(failure.to_string(), "panicked: planted");
            left -= 1;
            if left == 0 {
                cx.submit(|state, _| state.note("alive")).expect("the task is open");
            } else {
                cx.submit(|_, _| panic!("planted")).expect("the task is open");
            }
            OnFailure::Resume
        });
        let task = world.spawn(Hooks { policy: Some(policy), ..Hooks::default() });
        task.submit(|_, _| panic!("planted")).unwrap();
        world.until("alive");
        assert_eq!(task.phase(), Phase::Started);
        world.wait(task.close()).unwrap();
        let mut expected = vec!["on_failure"; FAILING_JOBS as usize];
        expected.extend(["alive", "close_requested", "closing", "closed"]);
        assert_eq!(world.log()[2..], expected);
    });
}

// Z-141
#[test]
fn a_started_task_outlives_its_failing_jobs_and_its_policy_is_asked_each_time() {
    everywhere(|world| {
        let task = world.spawn(Hooks::default());
        for _ in 0..10 {
            task.submit(|_, _| panic!("planted")).unwrap();
        }
        task.submit(|state, _| state.note("alive")).unwrap();
        world.wait(task.close()).unwrap();
        assert_eq!((world.count("on_failure"), world.count("alive")), (10, 1));
        assert_eq!(world.count("closed"), 1);
    });
}

/// An error of a user.
#[derive(Debug, PartialEq)]
struct Overdrawn(u32);

impl fmt::Display for Overdrawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "overdrawn by {}", self.0)
    }
}

impl Error for Overdrawn {}

// Z-005
#[test]
fn the_policy_hook_gets_the_very_error_of_a_job_and_of_the_started_hook() {
    everywhere(|world| {
        let planted = Failure::error(Overdrawn(7));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&seen);
        let policy: Policy = Box::new(move |_, cx, failure| {
            assert_eq!(cx.phase(), Phase::Started);
            keep.lock().expect("nobody panics while writing").push(failure.clone());
            OnFailure::Resume
        });
        let of_hook = planted.clone();
        let started = hook(move |_, _| Err(of_hook.clone()));
        let task = world.spawn(Hooks { started, policy: Some(policy), ..Hooks::default() });
        let of_job = planted.clone();
        task.submit(move |_, _| of_job.raise()).unwrap();
        let of_call = planted.clone();
        let answer = world.wait(task.call(move |_, _| -> u32 { of_call.raise() }));
        assert!(answer.unwrap_err().same_as(&planted), "the caller gets it, too");
        world.wait(task.close()).unwrap();
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), 3);
        assert!(seen.iter().all(|failure| failure.same_as(&planted)));
        assert_eq!(seen[1].downcast_ref(), Some(&Overdrawn(7)));
    });
}

// Z-144
#[test]
fn a_task_that_fails_itself_answers_its_end_at_once() {
    everywhere(|world| {
        let task = world.spawn(Hooks::default());
        task.submit(|_, cx| cx.fail(Failure::message("enough"))).unwrap();
        assert_eq!(world.wait(task.closed()).unwrap_err().to_string(), "enough");
        let closed = task.close();
        assert!(closed.is_done(), "without further work");
        assert_eq!(world.wait(closed).unwrap_err().to_string(), "enough");
        assert_eq!(world.log(), ["starting", "started", "failed"]);
    });
}

// Z-146, Z-147, Z-149
#[test]
fn failing_itself_in_any_hook_settles_the_futures_and_cleans_up_once() {
    for which in ["starting", "started", "close_requested", "closing"] {
        everywhere(|world| {
            let fail = doing(|_, cx| cx.fail(Failure::message("enough")));
            let task = world.spawn(Hooks::with(which, fail));
            let (started, closed) = (task.started(), task.close());
            assert_eq!(world.wait(closed).unwrap_err().to_string(), "enough", "{which}");
            assert_eq!(world.wait(started).is_err(), which == "starting", "{which}");
            assert_eq!(task.phase(), Phase::Failed, "{which}");
            let last = FULL.iter().position(|name| *name == which).unwrap();
            assert_eq!(world.log(), [&FULL[..=last], &["failed"]].concat(), "no hook after it");
        });
    }
}

// Z-135, Z-136, Z-145, Z-150
#[test]
fn an_error_or_panic_in_any_hook_but_the_policys_ends_the_task() {
    let ways: [fn() -> Option<Hook>; 2] =
        [|| hook(|_, _| Err(Failure::message("planted"))), || doing(|_, _| panic!("planted"))];
    for which in ["starting", "close_requested", "closing"] {
        for way in ways {
            everywhere(|world| {
                let task = world.spawn(Hooks::with(which, way()));
                let (started, closed) = (task.started(), task.close());
                let failure = world.wait(closed).unwrap_err();
                assert!(failure.to_string().contains("planted"), "{failure}");
                assert_eq!(world.wait(started).is_err(), which == "starting", "{which}");
                assert_eq!(task.phase(), Phase::Failed, "{which}");
                let last = FULL.iter().position(|name| *name == which).unwrap();
                let expected = [&FULL[..=last], &["on_failure", "failed"]].concat();
                assert_eq!(world.log(), expected, "one clean-up, no hook after it");
            });
        }
    }
}

// Z-150
#[test]
fn a_panic_in_the_close_requested_hook_fails_the_end() {
    everywhere(|world| {
        let panics = doing(|_, _| panic!("planted"));
        let task = world.spawn(Hooks { close_requested: panics, ..Hooks::default() });
        assert!(world.wait(task.close()).is_err());
        assert_eq!((world.count("closing"), world.count("failed")), (0, 1));
    });
}

#[test]
fn a_started_task_outlives_its_failing_started_hook() {
    everywhere(|world| {
        let started = doing(|_, _| panic!("planted"));
        let task = world.spawn(Hooks { started, ..Hooks::default() });
        world.wait(task.started()).unwrap();
        assert_eq!(world.wait(task.call(|_, _| 7)).unwrap(), 7);
        world.wait(task.close()).unwrap();
        assert_eq!((world.count("on_failure"), world.count("closed")), (1, 1));
    });
}

// Z-X11
#[test]
fn panics_in_policy_and_clean_up_leave_no_zombie() {
    everywhere(|world| {
        let policy: Policy = Box::new(|_, _, _| panic!("planted in the policy hook"));
        let hooks =
            Hooks { policy: Some(policy), is_failing_in_clean_up: true, ..Hooks::default() };
        let task = world.spawn(hooks);
        // Held by the task itself, so that the call is queued before the failing job has run.
        let inner = task.clone();
        let after = world.wait(task.call(move |_, cx| {
            cx.run(|_, _| panic!("planted")).expect("room");
            let other = inner.clone();
            std::thread::spawn(move || other.call(|_, _| ())).join().expect("it only calls")
        }));
        assert!(world.wait(task.closed()).is_err());
        assert_eq!(task.phase(), Phase::Failed, "a panicking policy hook escalates");
        assert!(world.wait(after.unwrap()).unwrap_err().is_closed());
        assert_eq!(world.log()[2..], ["on_failure", "failed"]);
    });
}

#[test]
fn a_failing_closed_hook_fails_the_future_and_the_task_is_over() {
    everywhere(|world| {
        let closed = doing(|_, _| panic!("planted"));
        let task = world.spawn(Hooks { closed, ..Hooks::default() });
        assert_eq!(world.wait(task.close()).unwrap_err().to_string(), "panicked: planted");
        assert_eq!(task.phase(), Phase::Closed);
        assert_eq!((world.count("on_failure"), world.count("failed")), (1, 0));
    });
}

#[test]
fn the_policy_answers_stop_and_escalate_end_the_task() {
    for (answer, phase) in [(OnFailure::Stop, Phase::Closed), (OnFailure::Escalate, Phase::Failed)]
    {
        everywhere(|world| {
            let policy: Policy = Box::new(move |_, _, _| answer);
            let task = world.spawn(Hooks { policy: Some(policy), ..Hooks::default() });
            let (inner, note) = (task.clone(), |state: &mut State, _: Cx<'_, '_>| {
                state.note("never");
            });
            // Queued behind the job that fails, and before it does.
            task.submit(move |_, _| {
                inner.submit(note).expect("the task is open");
                panic!("planted")
            })
            .unwrap();
            let ended = world.wait(task.closed());
            assert_eq!(ended.is_ok(), phase == Phase::Closed, "{answer:?}");
            assert_eq!(task.phase(), phase, "{answer:?}");
            assert_eq!(world.count("never"), 0, "{answer:?}");
            assert_eq!(world.count("failed"), usize::from(phase == Phase::Failed), "{answer:?}");
        });
    }
}

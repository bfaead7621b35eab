//! Names, failures and ends of tasks (3.1 to 3.3, 3.6, 3.7 of the reference).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Context, Failure, Group, Lifecycle, OnFailure, SubmitErrorKind};

use crate::on_workers;

struct Policy(Arc<Mutex<Vec<Failure>>>);

impl<S> Lifecycle<S> for Policy {
    fn on_failure(&mut self, _: &mut S, _: &mut Context<'_, S>, failure: &Failure) -> OnFailure {
        self.0.lock().expect("nobody panics while writing").push(failure.clone());
        OnFailure::Resume
    }
}

// Z-004
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

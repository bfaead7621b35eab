//! Plain continuations (3.17 of the reference).

use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completion, Phase};

use crate::hooks::{once, Hooks, FULL};
use crate::world::everywhere;

// Z-100, Z-101
#[test]
fn a_plain_continuation_holds_the_start() {
    everywhere(|world| {
        let (completer, waiting) = completion::<()>();
        let starting = once(move |_, cx| {
            cx.on_completion(waiting, |state, _, _| state.note("released"));
        });
        let task = world.spawn(Hooks { starting, ..Hooks::default() });
        let started = task.started();
        world.until("starting");
        world.settle();
        assert!(!started.is_done());
        assert_eq!(task.phase(), Phase::Starting);
        world.let_go(&completer);
        world.wait(started).unwrap();
        world.until("started");
        assert_eq!(world.log(), ["starting", "let go", "released", "started"]);
    });
}

// Z-102
#[test]
fn a_plain_continuation_of_a_started_task_is_dropped_at_its_close() {
    everywhere(|world| {
        let (completer, waiting) = completion::<()>();
        let task = world.spawn(Hooks::default());
        task.submit(move |_, cx| {
            cx.on_completion(waiting, |state, _, _| state.note("never"));
        })
        .unwrap();
        world.wait(task.close()).unwrap();
        assert!(completer.is_cancelled(), "the producer is told that nobody waits");
        assert!(completer.complete(()).is_err());
        world.settle();
        assert_eq!(world.log(), FULL);
    });
}

// Z-105, Z-106, Z-107
#[test]
fn a_plain_continuation_holds_the_closing_and_older_ones_stay_dropped() {
    everywhere(|world| {
        let ((old, older), (completer, waiting)) = (completion::<()>(), completion::<()>());
        let closing = once(move |_, cx| {
            cx.on_completion(waiting, |state, _, _| state.note("released"));
        });
        let task = world.spawn(Hooks { closing, ..Hooks::default() });
        task.submit(move |_, cx| {
            cx.on_completion(older, |state, _, _| state.note("never"));
        })
        .unwrap();
        let closed = task.close();
        world.until("closing");
        world.settle();
        assert!(!closed.is_done());
        assert_eq!(world.log(), FULL[..4]);
        assert!(old.complete(()).is_err(), "it was given up");
        world.let_go(&completer);
        world.wait(closed).unwrap();
        assert_eq!(world.log()[4..], ["let go", "released", "closed"]);
    });
}

// Z-142
#[test]
fn a_failing_continuation_reaches_the_policy_hook_once() {
    everywhere(|world| {
        let task = world.spawn(Hooks::default());
        task.submit(|_, cx| {
            cx.on_completion(Completion::done(1), |_, _, _| panic!("planted"));
        })
        .unwrap();
        world.until("on_failure");
        world.wait(task.call(|_, _| ())).unwrap();
        assert_eq!(task.phase(), Phase::Started);
        world.wait(task.close()).unwrap();
        assert_eq!((world.count("on_failure"), world.count("failed")), (1, 0));
    });
}

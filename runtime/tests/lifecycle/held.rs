//! Holding continuations (3.14 of the reference).

use turnwheel_runtime::completion::completion;
use turnwheel_runtime::Phase;

use crate::hooks::{held, once, Hooks, FULL};
use crate::world::everywhere;

// Z-081, Z-082
#[test]
fn a_holding_continuation_keeps_the_task_starting_until_it_is_done() {
    everywhere(|world| {
        let (starting, completer) = held(|_, _| {});
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

// Z-084
#[test]
fn a_holding_continuation_keeps_the_close_requested_until_it_is_done() {
    everywhere(|world| {
        let (close_requested, completer) = held(|_, _| {});
        let task = world.spawn(Hooks { close_requested, ..Hooks::default() });
        let closed = task.close();
        world.until("close_requested");
        world.settle();
        assert!(!closed.is_done());
        assert_eq!(world.log(), FULL[..3]);
        world.let_go(&completer);
        world.wait(closed).unwrap();
        assert_eq!(world.log()[3..], ["let go", "released", "closing", "closed"]);
    });
}

// Z-084
#[test]
fn continuations_that_hold_the_close_run_while_closing_is_requested() {
    everywhere(|world| {
        let (started, completer) = held(|_, _| {});
        let task = world.spawn(Hooks { started, ..Hooks::default() });
        let closed = task.close();
        world.until("close_requested");
        world.settle();
        assert!(!closed.is_done());
        world.let_go(&completer);
        world.wait(closed).unwrap();
        assert_eq!(
            world.log()[2..],
            ["close_requested", "let go", "released", "closing", "closed"]
        );
    });
}

#[test]
fn a_close_while_the_start_is_held_waits_for_it() {
    everywhere(|world| {
        let (starting, completer) = held(|_, _| {});
        let task = world.spawn(Hooks { starting, ..Hooks::default() });
        world.until("starting");
        let (one, two) = (task.close(), task.close());
        world.settle();
        assert!(!one.is_done() && !two.is_done() && !task.started().is_done());
        world.let_go(&completer);
        world.wait(task.started()).unwrap();
        world.wait(one).unwrap();
        world.wait(two).unwrap();
        assert_eq!(world.log()[..3], ["starting", "let go", "released"]);
        assert_eq!(world.log()[3..], FULL[1..]);
    });
}

// Z-085, Z-104
#[test]
fn nothing_registered_in_the_closed_hook_holds_the_end_or_runs() {
    everywhere(|world| {
        let ((plain, first), (holding, second)) = (completion::<()>(), completion::<()>());
        let closed = once(move |_, cx| {
            cx.on_completion(first, |state, _, _| state.note("never"));
            cx.on_completion_holding(second, |state, _, _| state.note("never"));
        });
        let task = world.spawn(Hooks { closed, ..Hooks::default() });
        world.wait(task.close()).unwrap();
        assert!(plain.is_cancelled() && holding.is_cancelled());
        assert_eq!(world.log(), FULL);
    });
}

// Z-086
#[test]
fn a_plain_continuation_made_while_closing_is_requested_is_not_waited_for() {
    everywhere(|world| {
        let ((holding, first), (_never, second)) = (completion::<()>(), completion::<()>());
        let close_requested = once(move |_, cx| {
            cx.on_completion_holding(first, move |state, cx, _| {
                state.note("released");
                cx.on_completion(second, |state, _, _| state.note("never"));
            });
        });
        let task = world.spawn(Hooks { close_requested, ..Hooks::default() });
        let closed = task.close();
        world.until("close_requested");
        world.let_go(&holding);
        world.wait(closed).unwrap();
        assert_eq!(world.log()[3..], ["let go", "released", "closing", "closed"]);
    });
}

// Z-087
#[test]
fn a_continuation_may_hold_the_phase_with_another_one() {
    everywhere(|world| {
        let ((one, first), (two, second)) = (completion::<()>(), completion::<()>());
        let starting = once(move |_, cx| {
            cx.on_completion_holding(first, move |state, cx, _| {
                state.note("first");
                cx.on_completion_holding(second, |state, _, _| state.note("second"));
            });
        });
        let task = world.spawn(Hooks { starting, ..Hooks::default() });
        one.complete(()).unwrap();
        world.until("first");
        world.settle();
        assert_eq!(task.phase(), Phase::Starting);
        world.let_go(&two);
        world.wait(task.started()).unwrap();
        world.until("started");
        assert_eq!(world.log(), ["starting", "first", "let go", "second", "started"]);
    });
}

// Z-017
#[test]
fn a_holding_continuation_does_not_hold_calls_of_a_started_task() {
    everywhere(|world| {
        let (never, waiting) = completion::<()>();
        let task = world.spawn(Hooks::default());
        task.submit(move |_, cx| {
            cx.on_completion_holding(waiting, |_, _, _| {});
        })
        .unwrap();
        assert_eq!(world.wait(task.call(|_, _| 7)).unwrap(), 7);
        assert!(!never.is_done());
    });
}

// Z-024
#[test]
fn holding_continuations_run_once_and_in_order_around_a_close() {
    everywhere(|world| {
        let ((one, first), (two, second)) = (completion::<()>(), completion::<()>());
        let task = world.spawn(Hooks::default());
        let registered = task.call(move |_, cx| {
            cx.on_completion_holding(first, |state, _, _| state.note("first"));
            cx.on_completion_holding(second, |state, _, _| state.note("second"));
        });
        world.wait(registered).unwrap();
        world.settle();
        one.complete(()).unwrap();
        two.complete(()).unwrap();
        world.wait(task.close()).unwrap();
        let log = world.log();
        let ran: Vec<_> =
            log.iter().filter(|noted| ["first", "second"].contains(&noted.as_str())).collect();
        assert_eq!(ran, ["first", "second"]);
    });
}

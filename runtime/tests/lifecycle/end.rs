//! Stop, fail, kill, deadlines, and the end of an unreachable task.

use std::time::Duration;

use turnwheel_runtime::{Failure, Phase};

use crate::hooks::{doing, held, Hooks};
use crate::world::everywhere;

/// The hooks whose phase can be held.
const HELD: [&str; 3] = ["starting", "close_requested", "closing"];

// Z-X13
#[test]
fn every_future_ends_when_a_task_is_killed() {
    everywhere(|world| {
        let (starting, _completer) = held(|_, _| {});
        let task = world.spawn(Hooks { starting, ..Hooks::default() });
        let (started, call) = (task.started(), task.call(|_, _| ()));
        world.until("starting");
        world.settle();
        assert!(matches!(world.wait(task.kill()), Err(Failure::Killed)));
        assert!(matches!(world.wait(started), Err(Failure::Killed)));
        assert!(world.wait(call).unwrap_err().is_closed());
        assert_eq!(world.log(), ["starting", "failed"]);
    });
}

#[test]
fn whether_a_task_was_started_is_answered_alike_before_and_after_its_end() {
    everywhere(|world| {
        let task = world.spawn(Hooks::default());
        let before = task.started();
        world.until("started");
        assert!(world.wait(task.fail(Failure::message("enough"))).is_err());
        world.wait(before).unwrap();
        world.wait(task.started()).expect("it had been started when it failed");

        for end in [turnwheel_runtime::Task::stop, turnwheel_runtime::Task::kill] {
            let (starting, _completer) = held(|state, _| state.note("held"));
            let task = world.spawn(Hooks { starting, ..Hooks::default() });
            let before = task.started();
            world.until("held");
            let ended = world.wait(end(&task));
            let failure = ended.err().unwrap_or(Failure::Closed);
            assert!(world.wait(before).unwrap_err().same_as(&failure));
            assert!(world.wait(task.started()).unwrap_err().same_as(&failure));
        }
    });
}

#[test]
fn a_stop_frees_a_task_from_every_held_phase() {
    everywhere(|world| {
        for which in HELD {
            let (hook, completer) = held(|state, _| state.note("held"));
            let task = world.spawn(Hooks::with(which, hook));
            let (started, end) = (task.started(), task.closed());
            if which != "starting" {
                drop(task.close());
            }
            let before = world.count("closed");
            world.until("held");
            world.settle();
            assert!(!end.is_done(), "{which}");
            world.wait(task.stop()).unwrap();
            world.wait(end).unwrap();
            assert_eq!(world.wait(started).is_ok(), which != "starting", "{which}");
            assert_eq!(task.phase(), Phase::Closed, "{which}");
            assert_eq!(world.count("closed"), before + 1, "the hooks go on, {which}");
            assert!(completer.is_cancelled(), "the producer is told that nobody waits, {which}");
        }
        assert_eq!((world.count("released"), world.count("failed")), (0, 0));
    });
}

#[test]
fn fail_and_kill_free_a_task_from_every_held_phase() {
    everywhere(|world| {
        for which in HELD {
            for is_kill in [false, true] {
                let (hook, completer) = held(|state, _| state.note("held"));
                let task = world.spawn(Hooks::with(which, hook));
                if which != "starting" {
                    drop(task.close());
                }
                let before = world.count("failed");
                world.until("held");
                let end = if is_kill { task.kill() } else { task.fail(Failure::message("enough")) };
                let text = if is_kill { "the task was killed" } else { "enough" };
                assert_eq!(world.wait(end).unwrap_err().to_string(), text, "{which}");
                assert_eq!(task.phase(), Phase::Failed, "{which}");
                assert_eq!(world.count("failed"), before + 1, "one clean-up, {which}");
                assert!(completer.is_cancelled(), "{which}");
            }
        }
        assert_eq!((world.count("released"), world.count("closed")), (0, 0));
    });
}

#[test]
fn a_close_has_a_deadline_even_while_starting() {
    everywhere(|world| {
        let (starting, _completer) = held(|_, _| {});
        let task = world.spawn(Hooks { starting, ..Hooks::default() });
        world.until("starting");
        let closed = task.close_within(Duration::from_secs(1));
        world.settle();
        world.advance(Duration::from_millis(999));
        assert!(!closed.is_done(), "never early");
        world.advance(Duration::from_millis(1));
        world.wait(closed).expect("S-25: a task stuck in Starting can be closed");
        assert_eq!(world.count("closed"), 1);
    });
}

#[test]
fn the_earliest_of_several_close_deadlines_counts() {
    for limits in [[1, 100], [100, 1]] {
        everywhere(|world| {
            let (starting, _completer) = held(|_, _| {});
            let task = world.spawn(Hooks { starting, ..Hooks::default() });
            world.until("starting");
            let closed = limits.map(|limit| task.close_within(Duration::from_secs(limit)));
            world.settle();
            world.advance(Duration::from_millis(999));
            assert!(!closed[0].is_done(), "never early");
            world.advance(Duration::from_millis(1));
            for closed in closed {
                world.wait(closed).expect("stopped at the earlier deadline");
            }
        });
    }
}

#[test]
fn a_task_without_handles_ends_in_order_when_nothing_can_reach_it() {
    everywhere(|world| {
        let started = doing(|_, cx| {
            let job = |state: &mut crate::hooks::State, _: crate::hooks::Cx<'_, '_>| {
                state.note("timer");
            };
            cx.after(Duration::from_millis(10), job).expect("few timers");
        });
        let task = world.spawn(Hooks { started, ..Hooks::default() });
        let end = task.closed();
        task.submit(|state, _| state.note("job")).unwrap();
        drop(task);
        world.until("job");
        world.settle();
        assert_eq!(world.count("close_requested"), 0, "its timer may still run");
        world.advance(Duration::from_millis(20));
        world.wait(end).unwrap();
        assert_eq!((world.count("job"), world.count("timer"), world.count("closed")), (1, 1, 1));
    });
}

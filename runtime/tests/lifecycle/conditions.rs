//! Conditions in each phase (3.16 of the reference).

use std::sync::{Arc, Mutex};

use turnwheel_runtime::{Condition, ConditionMode};

use crate::hooks::{held, Cx, Hooks};
use crate::world::everywhere;

/// Keeps a condition beyond the hook that makes it: it ends with its last handle.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Option<Condition>>>);

impl Kept {
    /// A condition, signalled once.
    fn make(&self, cx: Cx<'_, '_>) {
        let condition = cx.condition(ConditionMode::Counting, |state, _| state.note("condition"));
        condition.signal();
        *self.0.lock().expect("nobody panics while writing") = Some(condition);
    }

    fn signal(&self) {
        let kept = self.0.lock().expect("nobody panics while writing");
        kept.as_ref().expect("the hook has made it").signal();
    }
}

// Z-094, Z-095
#[test]
fn a_condition_signalled_while_starting_runs_once_when_started() {
    everywhere(|world| {
        let kept = Kept::default();
        let keep = kept.clone();
        let (starting, completer) = held(move |state, cx| {
            keep.make(cx);
            state.note("held");
        });
        let task = world.spawn(Hooks { starting, ..Hooks::default() });
        world.until("held");
        world.settle();
        assert_eq!(world.count("condition"), 0);
        world.let_go(&completer);
        world.until("condition");
        world.wait(task.close()).unwrap();
        let expected = ["let go", "released", "started", "condition", "close_requested"];
        assert_eq!(world.log()[2..7], expected);
        assert_eq!(world.count("condition"), 1);
        drop(kept);
    });
}

// Z-096
#[test]
fn a_condition_of_a_started_task_runs_although_a_continuation_is_pending() {
    everywhere(|world| {
        let kept = Kept::default();
        let keep = kept.clone();
        let (started, completer) = held(move |_, cx| keep.make(cx));
        let task = world.spawn(Hooks { started, ..Hooks::default() });
        world.until("condition");
        world.let_go(&completer);
        world.until("released");
        world.wait(task.close()).unwrap();
        assert_eq!(world.log()[2..5], ["condition", "let go", "released"]);
        assert_eq!(world.count("condition"), 1);
    });
}

// Z-097
#[test]
fn a_condition_of_a_closing_task_never_runs_although_the_phase_is_held() {
    for which in ["close_requested", "closing"] {
        everywhere(|world| {
            let kept = Kept::default();
            let keep = kept.clone();
            let (hook, completer) = held(move |state, cx| {
                keep.make(cx);
                state.note("held");
            });
            let task = world.spawn(Hooks::with(which, hook));
            let closed = task.close();
            world.until("held");
            kept.signal();
            world.settle();
            assert!(!closed.is_done());
            world.let_go(&completer);
            world.wait(closed).unwrap();
            assert_eq!(world.count("condition"), 0, "{which}");
        });
    }
}

// Z-097, Z-099
#[test]
fn a_condition_of_a_closing_task_never_runs_and_may_be_signalled() {
    for which in ["close_requested", "closing", "closed"] {
        everywhere(|world| {
            let kept = Kept::default();
            let keep = kept.clone();
            let hook = crate::hooks::once(move |_, cx| keep.make(cx));
            let task = world.spawn(Hooks::with(which, hook));
            world.wait(task.close()).unwrap();
            kept.signal();
            world.settle();
            assert_eq!(world.count("condition"), 0, "{which}");
            assert_eq!(world.count("closed"), 1, "{which}");
        });
    }
}

//! Timers in each phase (3.20 of the reference).

use std::time::Duration;

use crate::hooks::{doing, held, Cx, Hooks, State};
use crate::world::everywhere;

const DELAY: Duration = Duration::from_millis(10);

fn arm(state: &mut State, cx: Cx<'_, '_>) {
    cx.after(DELAY, |state, _| state.note("timer")).expect("few timers");
    state.note("armed");
}

// Z-127
#[test]
fn a_timer_of_a_starting_task_waits_for_the_start() {
    everywhere(|world| {
        let (starting, completer) = held(arm);
        let task = world.spawn(Hooks { starting, ..Hooks::default() });
        world.until("armed");
        world.advance(DELAY * 2);
        assert_eq!(world.count("timer"), 0);
        world.let_go(&completer);
        world.until("timer");
        world.wait(task.close()).unwrap();
        assert_eq!(world.log()[2..6], ["let go", "released", "started", "timer"]);
        assert_eq!(world.count("timer"), 1);
    });
}

// Z-129
#[test]
fn a_timer_of_a_started_task_runs_once() {
    everywhere(|world| {
        let task = world.spawn(Hooks { started: doing(arm), ..Hooks::default() });
        world.until("armed");
        world.advance(DELAY - Duration::from_nanos(1));
        assert_eq!(world.count("timer"), 0, "never early");
        world.advance(Duration::from_nanos(1));
        world.until("timer");
        world.advance(DELAY * 3);
        world.wait(task.close()).unwrap();
        assert_eq!(world.count("timer"), 1);
    });
}

// Z-130, Z-131
#[test]
fn a_timer_of_a_closing_task_never_runs() {
    for which in ["close_requested", "closing"] {
        everywhere(|world| {
            let (hook, _completer) = held(arm);
            let task = world.spawn(Hooks::with(which, hook));
            let closed = task.close();
            world.until("armed");
            world.advance(DELAY * 2);
            assert!(!closed.is_done(), "held in {which}");
            // A future that holds the phase does not hold a stop.
            world.wait(task.stop()).unwrap();
            assert!(closed.is_done(), "{which}");
            assert_eq!(world.count("timer"), 0, "{which}");
        });
    }
}

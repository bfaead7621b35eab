//! The phases in order (3.21, 3.22 of the reference).

use turnwheel_runtime::{Phase, SubmitErrorKind};

use crate::hooks::{doing, held, hook, Hooks, FULL};
use crate::world::everywhere;

// Z-132
#[test]
fn a_task_starts_when_it_is_spawned() {
    everywhere(|world| {
        let task = world.spawn(Hooks::default());
        world.wait(task.started()).unwrap();
        assert_eq!(task.phase(), Phase::Started);
        world.until("started");
        world.settle();
        assert_eq!(world.log(), FULL[..2]);
    });
}

// Z-132
#[test]
fn the_start_is_done_before_the_started_hook_runs() {
    everywhere(|world| {
        let started = doing(|state, cx| {
            let is_done = cx.task().started().is_done();
            state.note(if is_done { "done" } else { "not done" });
        });
        let task = world.spawn(Hooks { started, ..Hooks::default() });
        world.wait(task.started()).unwrap();
        world.until("done");
    });
}

// Z-134
#[test]
fn a_task_closed_before_it_has_run_lives_its_whole_life_in_order() {
    everywhere(|world| {
        let task = world.spawn(Hooks::default());
        world.wait(task.close()).unwrap();
        assert_eq!(world.log(), FULL);
        assert_eq!(task.phase(), Phase::Closed);
    });
}

#[test]
fn a_job_may_close_its_own_task() {
    everywhere(|world| {
        let task = world.spawn(Hooks::default());
        task.submit(|state, cx| {
            cx.close();
            state.note("job");
        })
        .unwrap();
        world.wait(task.closed()).unwrap();
        assert_eq!(world.log()[2..], ["job", "close_requested", "closing", "closed"]);
    });
}

// Z-006
#[test]
fn the_end_of_a_task_that_is_over_is_answered_at_once() {
    everywhere(|world| {
        let task = world.spawn(Hooks::default());
        world.wait(task.close()).unwrap();
        assert!(task.close().is_done() && task.closed().is_done() && task.stop().is_done());
        assert!(task.started().is_done());
    });
}

// Z-151, Z-152, Z-154
#[test]
fn a_closed_task_is_followed_by_a_new_one_with_new_futures() {
    everywhere(|world| {
        let first = world.spawn(Hooks::default());
        world.wait(first.close()).unwrap();
        let (starting, completer) = held(|_, _| {});
        let second = world.spawn(Hooks { starting, ..Hooks::default() });
        let (started, closed) = (second.started(), second.closed());
        world.settle();
        assert!(!started.is_done() && !closed.is_done(), "those of the second");
        assert!(first.started().is_done() && first.closed().is_done());
        world.let_go(&completer);
        world.wait(started).unwrap();
        drop(second.close());
        world.wait(closed).unwrap();
        let log: Vec<_> = world.log();
        let hooks: Vec<_> = log.iter().filter(|noted| FULL.contains(&noted.as_str())).collect();
        assert_eq!(hooks, [FULL, FULL].concat().iter().collect::<Vec<_>>());
        assert_eq!(world.count("started"), 2);
    });
}

// Z-155
#[test]
fn jobs_submitted_while_closing_is_requested_run_in_no_later_life() {
    everywhere(|world| {
        let (close_requested, completer) = held(|state, cx| {
            let inside = cx.submit(|state, _| state.note("never"));
            state.note(&format!("inside {:?}", inside.unwrap_err().kind));
        });
        let first = world.spawn(Hooks { close_requested, ..Hooks::default() });
        let end = first.close();
        world.until("inside Closed");
        let outside = first.submit(|state, _| state.note("never")).unwrap_err();
        assert_eq!(outside.kind, SubmitErrorKind::Closed);
        assert_eq!(first.phase(), Phase::CloseRequested);
        world.let_go(&completer);
        world.wait(end).unwrap();
        let second = world.spawn(Hooks::default());
        world.wait(second.close()).unwrap();
        assert_eq!((world.count("closed"), world.count("never")), (2, 0));
    });
}

#[test]
fn a_hook_without_a_failure_leads_to_the_next() {
    everywhere(|world| {
        for name in FULL {
            let task = world.spawn(Hooks::with(name, hook(|_, _| Ok(()))));
            world.wait(task.close()).unwrap();
            assert_eq!(task.phase(), Phase::Closed, "{name}");
        }
        assert_eq!(world.log(), [FULL; 5].concat());
    });
}

//! Calls and jobs from outside and inside, in each phase (3.7, 3.15, 3.18, 3.19 of the reference).

use turnwheel_runtime::{Phase, SubmitErrorKind, Task};

use crate::hooks::{doing, held, once, Cx, Hooks, State};
use crate::world::{everywhere, World};

// Z-089, Z-115, Z-116, Z-X04
#[test]
fn jobs_submitted_to_a_starting_task_run_once_when_it_is_started() {
    everywhere(|world| {
        let (starting, completer) = held(|_, _| {});
        let task = world.spawn(Hooks { starting, ..Hooks::default() });
        world.until("starting");
        let answer = task.call(|state, _| state.note("call"));
        task.run(|state, _| state.note("run")).unwrap();
        task.submit(|state, _| state.note("submit")).unwrap();
        world.settle();
        assert_eq!(world.log(), ["starting"], "kept, not run");
        world.let_go(&completer);
        world.wait(answer).unwrap();
        world.wait(task.close()).unwrap();
        let expected = ["released", "started", "call", "run", "submit", "close_requested"];
        assert_eq!(world.log()[2..8], expected);
        assert_eq!(world.log().len(), 10, "each once");
    });
}

// Z-090, Z-117
#[test]
fn a_started_task_runs_what_comes_from_outside_once() {
    everywhere(|world| {
        let task = world.spawn(Hooks::default());
        world.until("started");
        world.settle();
        let answer = task.call(|state, _| state.note("call"));
        task.run(|state, _| state.note("run")).unwrap();
        world.wait(answer).unwrap();
        world.wait(task.close()).unwrap();
        assert_eq!((world.count("call"), world.count("run")), (1, 1));
    });
}

/// Every way in from outside is answered `Closed`, at once.
fn assert_closed_from_outside(world: &World, task: &Task<State>) {
    let never = |state: &mut State, _: Cx<'_, '_>| state.note("never");
    let call = task.call(never);
    assert!(call.is_done(), "answered at once");
    assert!(world.wait(call).is_err_and(|failure| failure.is_closed()));
    for refused in [task.run(never), task.submit(never)] {
        assert_eq!(refused.map_err(|refused| refused.kind), Err(SubmitErrorKind::Closed));
    }
}

// Z-091, Z-092, Z-119, Z-124, Z-125
#[test]
fn jobs_from_outside_while_the_close_is_held_are_answered_closed_and_never_run() {
    for (which, phase) in [("close_requested", Phase::CloseRequested), ("closing", Phase::Closing)]
    {
        everywhere(|world| {
            let (hook, completer) = held(|state, _| state.note("held"));
            let task = world.spawn(Hooks::with(which, hook));
            let end = task.close();
            world.until("held");
            world.settle();
            assert_eq!(task.phase(), phase);
            assert_closed_from_outside(world, &task);
            assert_eq!(task.phase(), phase, "still held");
            world.let_go(&completer);
            world.wait(end).unwrap();
            assert_eq!((world.count("closed"), world.count("never")), (1, 0));
        });
    }
}

// Z-045, Z-046, Z-120, Z-124, Z-125, Z-126
#[test]
fn from_the_close_request_on_every_submission_is_answered_closed() {
    for which in ["close_requested", "closing", "closed"] {
        everywhere(|world| {
            let inside = doing(|state, cx| {
                let refused = cx.submit(|state, _| state.note("never"));
                state.note(&format!("{:?}", refused.unwrap_err().kind));
            });
            let task = world.spawn(Hooks::with(which, inside));
            let end = task.close();
            let call = task.call(|state, _| state.note("never"));
            world.wait(end).unwrap();
            assert!(world.wait(call).unwrap_err().is_closed());
            assert_closed_from_outside(world, &task);
            assert_eq!((world.count("Closed"), world.count("never")), (1, 0), "{which}");
        });
    }
}

// Z-047
#[test]
fn a_call_of_another_thread_while_the_closed_hook_runs_is_answered_closed() {
    everywhere(|world| {
        let (tell, told) = std::sync::mpsc::channel();
        let closed = once(move |state, cx| {
            let task = cx.task();
            // The hook continues when the other thread has called.
            let caller = std::thread::spawn(move || task.call(|state, _| state.note("never")));
            let call = caller.join().expect("it only calls");
            state.note("called");
            tell.send(call).expect("the test waits");
        });
        let task = world.spawn(Hooks { closed, ..Hooks::default() });
        world.wait(task.close()).unwrap();
        let call = told.recv().unwrap();
        assert!(world.wait(call).unwrap_err().is_closed());
        assert_eq!((world.count("called"), world.count("never")), (1, 0));
    });
}

// Z-109, Z-110
#[test]
fn a_job_made_by_the_starting_hook_runs_once_while_the_phase_is_held() {
    everywhere(|world| {
        let (starting, completer) = held(|_, cx| {
            cx.run(|state, cx| state.note(&format!("run {:?}", cx.phase()))).expect("room");
        });
        let task = world.spawn(Hooks { starting, ..Hooks::default() });
        world.until("run Starting");
        world.settle();
        assert_eq!(world.log(), ["starting", "run Starting"]);
        world.let_go(&completer);
        world.wait(task.close()).unwrap();
        assert_eq!(world.log()[2..5], ["let go", "released", "started"]);
        assert_eq!(world.log().len(), 8, "not a second time");
    });
}

// Z-109, Z-110, Z-111, Z-112, Z-114
#[test]
fn a_job_made_for_itself_runs_once_in_every_phase() {
    let run = || {
        doing(|_, cx: Cx<'_, '_>| {
            cx.run(|state, cx| state.note(&format!("run {:?}", cx.phase()))).expect("room");
        })
    };
    everywhere(|world| {
        let task = world.spawn(Hooks {
            starting: run(),
            started: run(),
            close_requested: run(),
            closing: run(),
            closed: run(),
            ..Hooks::default()
        });
        world.wait(task.close()).unwrap();
        for phase in ["Starting", "Started", "CloseRequested", "Closing", "Closed"] {
            assert_eq!(world.count(&format!("run {phase}")), 1, "{phase}");
        }
    });
}

// Z-121, Z-122
#[test]
fn jobs_that_a_starting_task_submits_to_itself_wait_for_the_start() {
    everywhere(|world| {
        let (starting, completer) = held(|_, cx| {
            cx.submit(|state, _| state.note("submitted")).expect("room");
        });
        let task = world.spawn(Hooks { starting, ..Hooks::default() });
        world.until("starting");
        world.settle();
        assert_eq!(world.count("submitted"), 0);
        world.let_go(&completer);
        world.until("submitted");
        let expected = ["starting", "let go", "released", "started", "submitted"];
        assert_eq!(world.log(), expected);
        drop(task);
    });
}

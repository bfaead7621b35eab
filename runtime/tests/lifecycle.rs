//! What a task may do in which phase: the reference's lifecycle cases, in simulation.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use turnwheel_runtime::completion::completion;
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{
    Completer, Completion, ConditionMode, Context, Failure, Lifecycle, OnFailure, Phase,
    SubmitErrorKind, Task,
};

type Log = Arc<Mutex<Vec<String>>>;
type Cx<'a, 'b> = &'a mut Context<'b, State>;
type Hook = Box<dyn FnMut(&mut State, &mut Context<'_, State>) -> Result<(), Failure> + Send>;

/// The state writes into the log that the test reads.
struct State(Log);

impl State {
    fn note(&self, what: &str) {
        self.0.lock().expect("nobody panics while writing").push(what.to_owned());
    }
}

/// Notes each hook, then does what the test put there.
#[derive(Default)]
struct Hooks {
    log: Log,
    starting: Option<Hook>,
    started: Option<Hook>,
    close_requested: Option<Hook>,
    closing: Option<Hook>,
    closed: Option<Hook>,
    on_failure: Option<OnFailure>,
    is_failing_in_policy: bool,
    is_failing_in_clean_up: bool,
}

fn act(
    hook: &mut Option<Hook>,
    name: &str,
    state: &mut State,
    cx: Cx<'_, '_>,
) -> Result<(), Failure> {
    state.note(name);
    hook.as_mut().map_or(Ok(()), |hook| hook(state, cx))
}

impl Lifecycle<State> for Hooks {
    fn starting(&mut self, state: &mut State, cx: Cx<'_, '_>) -> Result<(), Failure> {
        assert_eq!(cx.phase(), Phase::Starting);
        act(&mut self.starting, "starting", state, cx)
    }
    fn started(&mut self, state: &mut State, cx: Cx<'_, '_>) -> Result<(), Failure> {
        assert_eq!(cx.phase(), Phase::Started);
        act(&mut self.started, "started", state, cx)
    }
    fn close_requested(&mut self, state: &mut State, cx: Cx<'_, '_>) -> Result<(), Failure> {
        assert_eq!(cx.phase(), Phase::CloseRequested);
        act(&mut self.close_requested, "close_requested", state, cx)
    }
    fn closing(&mut self, state: &mut State, cx: Cx<'_, '_>) -> Result<(), Failure> {
        assert_eq!(cx.phase(), Phase::Closing);
        act(&mut self.closing, "closing", state, cx)
    }
    fn closed(&mut self, state: &mut State, cx: Cx<'_, '_>) -> Result<(), Failure> {
        assert_eq!(cx.phase(), Phase::Closed);
        act(&mut self.closed, "closed", state, cx)
    }
    fn failed(&mut self, state: &mut State, cx: Cx<'_, '_>, _: &Failure) {
        assert_eq!(cx.phase(), Phase::Failed);
        state.note("failed");
        assert!(!self.is_failing_in_clean_up, "planted in the clean-up");
    }
    fn on_failure(&mut self, state: &mut State, _: Cx<'_, '_>, _: &Failure) -> OnFailure {
        state.note("on_failure");
        assert!(!self.is_failing_in_policy, "planted in the policy hook");
        self.on_failure.unwrap_or(OnFailure::Resume)
    }
}

const FULL: [&str; 5] = ["starting", "started", "close_requested", "closing", "closed"];

struct Bench {
    sim: Sim,
    log: Log,
}

impl Bench {
    fn new() -> Self {
        Self { sim: Sim::fifo(), log: Log::default() }
    }

    fn spawn(&self, hooks: Hooks) -> Task<State> {
        let hooks = Hooks { log: Arc::clone(&self.log), ..hooks };
        let state = State(Arc::clone(&hooks.log));
        self.sim.group("cpu").task(state).lifecycle(hooks).spawn().expect("the group is open")
    }

    fn work(&self) {
        self.sim.run_until_idle();
    }

    fn log(&self) -> Vec<String> {
        self.log.lock().expect("nobody panics while writing").clone()
    }

    fn count(&self, what: &str) -> usize {
        self.log().iter().filter(|noted| *noted == what).count()
    }
}

fn hook(
    run: impl FnMut(&mut State, &mut Context<'_, State>) -> Result<(), Failure> + Send + 'static,
) -> Option<Hook> {
    Some(Box::new(run))
}

fn doing(
    mut run: impl FnMut(&mut State, &mut Context<'_, State>) + Send + 'static,
) -> Option<Hook> {
    hook(move |state, cx| {
        run(state, cx);
        Ok(())
    })
}

/// A hook that is held by a completion until the test completes it.
fn held(
    mut run: impl FnMut(&mut State, &mut Context<'_, State>) + Send + 'static,
) -> (Option<Hook>, Completer<()>) {
    let (completer, waiting) = completion();
    let mut waiting = Some(waiting);
    let hook = doing(move |state, cx| {
        if let Some(waiting) = waiting.take() {
            cx.on_completion_holding(waiting, |state, _, _| state.note("released"));
        }
        run(state, cx);
    });
    (hook, completer)
}

fn never() -> (Completer<()>, Completion<()>) {
    completion()
}

fn done(completion: &Completion<()>) -> bool {
    completion.is_done()
}

// --- 3.21 the phases ---

// Z-132
#[test]
fn a_task_starts_when_it_is_spawned() {
    let bench = Bench::new();
    let task = bench.spawn(Hooks::default());
    let started = task.started();
    assert!(!done(&started));
    bench.work();
    assert!(done(&started));
    assert_eq!(bench.log(), FULL[..2]);
    assert_eq!(task.phase(), Phase::Started);
}

// Z-134
#[test]
fn a_task_closed_before_it_has_run_lives_its_whole_life_in_order() {
    let bench = Bench::new();
    let task = bench.spawn(Hooks::default());
    let closed = task.close();
    bench.work();
    assert!(done(&closed));
    assert_eq!(bench.log(), FULL);
    assert_eq!(bench.sim.wait(closed).map_err(|failure| failure.to_string()), Ok(()));
}

// Z-135
#[test]
fn a_failing_starting_hook_fails_start_and_end() {
    let bench = Bench::new();
    let task = bench
        .spawn(Hooks { starting: hook(|_, _| Err(Failure::message("no"))), ..Hooks::default() });
    let (started, closed) = (task.started(), task.closed());
    bench.work();
    assert_eq!(bench.sim.wait(started).unwrap_err().to_string(), "no");
    assert_eq!(bench.sim.wait(closed).unwrap_err().to_string(), "no");
    assert_eq!(bench.log(), ["starting", "on_failure", "failed"]);
    assert_eq!(task.phase(), Phase::Failed);
}

// Z-136, Z-145
#[test]
fn a_failing_closing_hook_fails_the_end_and_cleans_up_once() {
    let bench = Bench::new();
    let task = bench.spawn(Hooks { closing: doing(|_, _| panic!("planted")), ..Hooks::default() });
    let closed = task.close();
    bench.work();
    assert!(bench.sim.wait(closed).unwrap_err().to_string().contains("planted"));
    let log = bench.log();
    assert_eq!(log[3..], ["closing", "on_failure", "failed"], "no closed hook, one clean-up");
}

// Z-137, Z-139
#[test]
fn a_job_made_by_the_starting_hook_fails_the_start_and_the_rest_is_discarded() {
    let bench = Bench::new();
    let task = bench.spawn(Hooks {
        starting: doing(|_, cx| {
            cx.run(|_, _| panic!("planted")).unwrap();
            cx.run(|state, _| state.note("never")).unwrap();
        }),
        ..Hooks::default()
    });
    let started = task.started();
    bench.work();
    assert!(bench.sim.wait(started).is_err());
    assert_eq!(bench.count("never"), 0);
    assert_eq!(bench.count("started"), 0);
}

// Z-140, Z-141
#[test]
fn a_started_task_outlives_its_failing_jobs_and_its_policy_is_asked_each_time() {
    let bench = Bench::new();
    let task = bench.spawn(Hooks::default());
    for _ in 0..10 {
        task.submit(|_, _| panic!("planted")).unwrap();
    }
    task.submit(|state, _| state.note("alive")).unwrap();
    bench.work();
    assert_eq!((bench.count("on_failure"), bench.count("alive")), (10, 1));
    let closed = task.close();
    bench.work();
    assert!(bench.sim.wait(closed).is_ok());
    assert_eq!(bench.count("closed"), 1);
}

// Z-142
#[test]
fn a_failing_continuation_reaches_the_policy_hook_once() {
    let bench = Bench::new();
    let task = bench.spawn(Hooks::default());
    task.submit(|_, cx| {
        cx.on_completion(Completion::done(1), |_, _, _| panic!("planted"));
    })
    .unwrap();
    bench.work();
    assert_eq!(bench.count("on_failure"), 1);
    assert_eq!(task.phase(), Phase::Started);
}

// Z-144
#[test]
fn a_task_that_fails_itself_answers_its_end_at_once() {
    let bench = Bench::new();
    let task = bench.spawn(Hooks::default());
    task.submit(|_, cx| cx.fail(Failure::message("enough"))).unwrap();
    bench.work();
    let closed = task.close();
    assert!(done(&closed), "without further work");
    assert_eq!(bench.sim.wait(closed).unwrap_err().to_string(), "enough");
    assert_eq!(bench.log(), ["starting", "started", "failed"]);
}

// Z-146, Z-147, Z-149
#[test]
fn failing_itself_in_any_hook_settles_the_futures_and_cleans_up_once() {
    for which in ["starting", "close_requested", "closing"] {
        let bench = Bench::new();
        let fail = || doing(|_, cx| cx.fail(Failure::message("enough")));
        let mut hooks = Hooks::default();
        match which {
            "starting" => hooks.starting = fail(),
            "close_requested" => hooks.close_requested = fail(),
            _ => hooks.closing = fail(),
        }
        let task = bench.spawn(hooks);
        let (started, closed) = (task.started(), task.close());
        bench.work();
        assert_eq!(bench.sim.wait(closed).unwrap_err().to_string(), "enough", "{which}");
        assert_eq!(bench.sim.wait(started).is_err(), which == "starting", "{which}");
        assert_eq!(bench.count("failed"), 1, "{which}");
        assert_eq!(bench.count("closed"), 0, "{which}");
        assert_eq!(bench.log().last().map(String::as_str), Some("failed"), "{which}");
    }
}

// Z-150
#[test]
fn a_panic_in_the_close_requested_hook_fails_the_end() {
    let bench = Bench::new();
    let panics = doing(|_, _| panic!("planted"));
    let task = bench.spawn(Hooks { close_requested: panics, ..Hooks::default() });
    let closed = task.close();
    bench.work();
    assert!(bench.sim.wait(closed).is_err());
    assert_eq!(bench.count("closing"), 0);
    assert_eq!(bench.count("failed"), 1);
}

// Z-X11
#[test]
fn panics_in_policy_and_clean_up_leave_no_zombie() {
    let bench = Bench::new();
    let task = bench.spawn(Hooks {
        is_failing_in_policy: true,
        is_failing_in_clean_up: true,
        ..Hooks::default()
    });
    task.submit(|_, _| panic!("planted")).unwrap();
    let after = task.call(|_, _| ());
    bench.work();
    assert_eq!(task.phase(), Phase::Failed, "a panicking policy hook escalates");
    assert!(bench.sim.wait(after).unwrap_err().is_closed());
    assert!(bench.sim.wait(task.closed()).is_err());
    bench.sim.assert_no_leaks();
}

#[test]
fn a_failing_closed_hook_fails_the_future_and_the_task_is_over() {
    let bench = Bench::new();
    let task = bench.spawn(Hooks { closed: doing(|_, _| panic!("planted")), ..Hooks::default() });
    let closed = task.close();
    bench.work();
    assert!(bench.sim.wait(closed).is_err());
    assert_eq!(task.phase(), Phase::Closed);
    bench.sim.assert_no_leaks();
}

#[test]
fn the_policy_answers_stop_and_escalate_end_the_task() {
    for (answer, phase) in [(OnFailure::Stop, Phase::Closed), (OnFailure::Escalate, Phase::Failed)]
    {
        let bench = Bench::new();
        let task = bench.spawn(Hooks { on_failure: Some(answer), ..Hooks::default() });
        task.submit(|_, _| panic!("planted")).unwrap();
        task.submit(|state, _| state.note("never")).unwrap();
        bench.work();
        assert_eq!(task.phase(), phase, "{answer:?}");
        assert_eq!(bench.count("never"), 0, "{answer:?}");
        assert_eq!(bench.count("failed"), usize::from(phase == Phase::Failed), "{answer:?}");
    }
}

// Z-151, Z-152, Z-154, Z-155
#[test]
fn a_closed_task_is_followed_by_a_new_one_with_new_futures() {
    let bench = Bench::new();
    let first = bench.spawn(Hooks::default());
    let closed = first.close();
    let late = first.submit(|state, _| state.note("never"));
    assert_eq!(late.unwrap_err().kind, SubmitErrorKind::Closed);
    bench.work();
    assert!(done(&closed));
    let second = bench.spawn(Hooks::default());
    assert!(!done(&second.started()) && !done(&second.closed()));
    let closed = second.close();
    bench.work();
    assert!(done(&closed));
    assert_eq!(bench.log(), [FULL, FULL].concat());
}

// --- 3.14 holding continuations ---

// Z-081, Z-082
#[test]
fn a_holding_continuation_keeps_the_task_starting_until_it_is_done() {
    let bench = Bench::new();
    let (starting, completer) = held(|_, _| {});
    let task = bench.spawn(Hooks { starting, ..Hooks::default() });
    let started = task.started();
    bench.work();
    assert!(!done(&started));
    assert_eq!(bench.log(), ["starting"]);
    completer.complete(()).unwrap();
    bench.work();
    assert!(done(&started));
    assert_eq!(bench.log(), ["starting", "released", "started"]);
}

// Z-084
#[test]
fn a_holding_continuation_keeps_the_close_requested_until_it_is_done() {
    let bench = Bench::new();
    let (close_requested, completer) = held(|_, _| {});
    let task = bench.spawn(Hooks { close_requested, ..Hooks::default() });
    let closed = task.close();
    bench.work();
    assert!(!done(&closed));
    assert_eq!(bench.log(), FULL[..3]);
    completer.complete(()).unwrap();
    bench.work();
    assert!(done(&closed));
    assert_eq!(bench.count("closed"), 1);
}

// Z-085, Z-104
#[test]
fn nothing_registered_in_the_closed_hook_holds_the_end_or_runs() {
    let bench = Bench::new();
    let (_plain, plain) = never();
    let (_holding, holding) = never();
    let mut both = Some((plain, holding));
    let closed = doing(move |_, cx| {
        if let Some((plain, holding)) = both.take() {
            cx.on_completion(plain, |state, _, _| state.note("never"));
            cx.on_completion_holding(holding, |state, _, _| state.note("never"));
        }
    });
    let task = bench.spawn(Hooks { closed, ..Hooks::default() });
    let end = task.close();
    bench.work();
    assert!(done(&end));
    assert_eq!(bench.log(), FULL);
}

// Z-086
#[test]
fn a_plain_continuation_made_while_closing_is_requested_is_not_waited_for() {
    let bench = Bench::new();
    let (completer, waiting) = completion();
    let (_never, plain) = never();
    let mut both = Some((waiting, plain));
    let close_requested = doing(move |_, cx| {
        if let Some((waiting, plain)) = both.take() {
            cx.on_completion_holding(waiting, move |_, cx, _| {
                cx.on_completion(plain, |state, _, _| state.note("never"));
            });
        }
    });
    let task = bench.spawn(Hooks { close_requested, ..Hooks::default() });
    let closed = task.close();
    completer.complete(()).unwrap();
    bench.work();
    assert!(done(&closed));
    assert_eq!(bench.log(), FULL);
}

// Z-087
#[test]
fn a_continuation_may_hold_the_phase_with_another_one() {
    let bench = Bench::new();
    let ((one, first), (two, second)) = (completion::<()>(), completion::<()>());
    let mut both = Some((first, second));
    let starting = doing(move |_, cx| {
        if let Some((first, second)) = both.take() {
            cx.on_completion_holding(first, move |_, cx, _| {
                cx.on_completion_holding(second, |_, _, _| {});
            });
        }
    });
    let task = bench.spawn(Hooks { starting, ..Hooks::default() });
    one.complete(()).unwrap();
    bench.work();
    assert_eq!(task.phase(), Phase::Starting);
    two.complete(()).unwrap();
    bench.work();
    assert_eq!(task.phase(), Phase::Started);
}

// Z-017
#[test]
fn a_holding_continuation_does_not_hold_calls_of_a_started_task() {
    let bench = Bench::new();
    let (_never, waiting) = never();
    let task = bench.spawn(Hooks::default());
    task.submit(move |_, cx| {
        cx.on_completion_holding(waiting, |_, _, _| {});
    })
    .unwrap();
    assert_eq!(bench.sim.wait(task.call(|_, _| 7)).unwrap(), 7);
}

// Z-024
#[test]
fn holding_continuations_run_once_and_in_order_around_a_close() {
    let bench = Bench::new();
    let ((one, first), (two, second)) = (completion::<()>(), completion::<()>());
    let task = bench.spawn(Hooks::default());
    task.submit(move |_, cx| {
        cx.on_completion_holding(first, |state, _, _| state.note("first"));
        cx.on_completion_holding(second, |state, _, _| state.note("second"));
    })
    .unwrap();
    bench.work();
    one.complete(()).unwrap();
    two.complete(()).unwrap();
    let closed = task.close();
    bench.work();
    assert!(done(&closed));
    let log = bench.log();
    let ran: Vec<_> =
        log.iter().filter(|noted| ["first", "second"].contains(&noted.as_str())).collect();
    assert_eq!(ran, ["first", "second"]);
}

// --- 3.17 plain continuations ---

// Z-100, Z-101
#[test]
fn a_plain_continuation_holds_the_start() {
    let bench = Bench::new();
    let (completer, waiting) = completion::<()>();
    let mut waiting = Some(waiting);
    let starting = doing(move |_, cx| {
        if let Some(waiting) = waiting.take() {
            cx.on_completion(waiting, |_, _, _| {});
        }
    });
    let task = bench.spawn(Hooks { starting, ..Hooks::default() });
    bench.work();
    assert_eq!(task.phase(), Phase::Starting);
    completer.complete(()).unwrap();
    bench.work();
    assert_eq!(task.phase(), Phase::Started);
}

// Z-102
#[test]
fn a_plain_continuation_of_a_started_task_is_dropped_at_its_close() {
    let bench = Bench::new();
    let (completer, waiting) = never();
    let task = bench.spawn(Hooks::default());
    task.submit(move |_, cx| {
        cx.on_completion(waiting, |state, _, _| state.note("never"));
    })
    .unwrap();
    let closed = task.close();
    bench.work();
    assert!(done(&closed));
    assert!(completer.is_cancelled(), "the producer is told that nobody waits");
    assert_eq!(bench.count("never"), 0);
}

// Z-105, Z-106, Z-107
#[test]
fn a_plain_continuation_holds_the_closing_and_older_ones_stay_dropped() {
    let bench = Bench::new();
    let (old, older) = completion::<()>();
    let (completer, waiting) = completion::<()>();
    let mut waiting = Some(waiting);
    let closing = doing(move |_, cx| {
        if let Some(waiting) = waiting.take() {
            cx.on_completion(waiting, |state, _, _| state.note("released"));
        }
    });
    let task = bench.spawn(Hooks { closing, ..Hooks::default() });
    task.submit(move |_, cx| {
        cx.on_completion(older, |state, _, _| state.note("never"));
    })
    .unwrap();
    let closed = task.close();
    bench.work();
    assert!(!done(&closed));
    assert_eq!(bench.log(), FULL[..4]);
    assert!(old.complete(()).is_err(), "it was given up");
    bench.work();
    completer.complete(()).unwrap();
    bench.work();
    assert!(done(&closed));
    assert_eq!((bench.count("never"), bench.count("released")), (0, 1));
}

// --- 3.15, 3.18, 3.19 calls, run, submit ---

// Z-089, Z-116, Z-X04
#[test]
fn what_is_submitted_to_a_starting_task_runs_once_when_it_is_started() {
    let bench = Bench::new();
    let (starting, completer) = held(|_, _| {});
    let task = bench.spawn(Hooks { starting, ..Hooks::default() });
    let answer = task.call(|state, _| state.note("call"));
    task.run(|state, _| state.note("run")).unwrap();
    bench.work();
    assert_eq!(bench.log(), ["starting"], "kept, not run");
    completer.complete(()).unwrap();
    bench.work();
    assert!(done(&answer));
    assert_eq!(bench.log(), ["starting", "released", "started", "call", "run"]);
}

// Z-090, Z-117
#[test]
fn a_started_task_runs_what_comes_from_outside_once() {
    let bench = Bench::new();
    let task = bench.spawn(Hooks::default());
    bench.work();
    let answer = task.call(|state, _| state.note("call"));
    task.run(|state, _| state.note("run")).unwrap();
    bench.work();
    assert!(done(&answer));
    assert_eq!((bench.count("call"), bench.count("run")), (1, 1));
}

// Z-045, Z-046, Z-091, Z-092, Z-119, Z-120, Z-124, Z-125, Z-126
#[test]
fn from_the_close_request_on_every_submission_is_answered_closed() {
    for which in ["close_requested", "closing", "closed"] {
        let bench = Bench::new();
        let internal = move |state: &mut State, cx: Cx<'_, '_>| {
            let refused = cx.submit(|state, _| state.note("never"));
            state.note(&format!("{:?}", refused.unwrap_err().kind));
        };
        let mut hooks = Hooks::default();
        match which {
            "close_requested" => hooks.close_requested = doing(internal),
            "closing" => hooks.closing = doing(internal),
            _ => hooks.closed = doing(internal),
        }
        let task = bench.spawn(hooks);
        let end = task.close();
        let call = task.call(|state, _| state.note("never"));
        bench.work();
        assert!(done(&end));
        assert!(bench.sim.wait(call).unwrap_err().is_closed());
        let late = task.run(|state, _| state.note("never")).unwrap_err();
        assert_eq!(late.kind, SubmitErrorKind::Closed);
        assert!(bench.sim.wait(task.call(|_, _| ())).unwrap_err().is_closed());
        assert_eq!((bench.count("Closed"), bench.count("never")), (1, 0), "{which}");
    }
}

// Z-109, Z-110, Z-111, Z-112, Z-114
#[test]
fn a_job_made_for_itself_runs_once_in_every_phase() {
    let run = || {
        doing(|_, cx: Cx<'_, '_>| {
            cx.run(|state, cx| state.note(&format!("run {:?}", cx.phase()))).unwrap();
        })
    };
    let bench = Bench::new();
    let task = bench.spawn(Hooks {
        starting: run(),
        started: run(),
        close_requested: run(),
        closing: run(),
        closed: run(),
        ..Hooks::default()
    });
    let closed = task.close();
    bench.work();
    assert!(done(&closed));
    for phase in ["Starting", "Started", "CloseRequested", "Closing", "Closed"] {
        assert_eq!(bench.count(&format!("run {phase}")), 1, "{phase}");
    }
}

// Z-121, Z-122
#[test]
fn what_a_starting_task_submits_to_itself_waits_for_the_start() {
    let bench = Bench::new();
    let (starting, completer) = held(|_, cx| {
        cx.submit(|state, _| state.note("submitted")).unwrap();
    });
    let task = bench.spawn(Hooks { starting, ..Hooks::default() });
    bench.work();
    assert_eq!(bench.count("submitted"), 0);
    completer.complete(()).unwrap();
    bench.work();
    assert_eq!(bench.log(), ["starting", "released", "started", "submitted"]);
    drop(task);
}

// --- 3.16 conditions ---

fn with_condition(signals: u32) -> Hook {
    Box::new(move |_, cx| {
        let condition = cx.condition(ConditionMode::Counting, |state, _| state.note("condition"));
        (0..signals).for_each(|_| condition.signal());
        // The condition ends with its last handle: keep it with a job that never runs.
        let (completer, waiting) = completion::<()>();
        cx.on_completion(waiting, move |_, _, _| drop((condition, completer)));
        Ok(())
    })
}

// Z-094, Z-095
#[test]
fn a_condition_signalled_while_starting_runs_once_when_started() {
    let bench = Bench::new();
    let (completer, waiting) = completion::<()>();
    let mut waiting = Some(waiting);
    let kept = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&kept);
    let starting = doing(move |_, cx| {
        let condition = cx.condition(ConditionMode::Counting, |state, _| state.note("condition"));
        condition.signal();
        *keep.lock().expect("nobody panics while writing") = Some(condition);
        if let Some(waiting) = waiting.take() {
            cx.on_completion_holding(waiting, |_, _, _| {});
        }
    });
    let task = bench.spawn(Hooks { starting, ..Hooks::default() });
    bench.work();
    assert_eq!(bench.count("condition"), 0);
    completer.complete(()).unwrap();
    bench.work();
    assert_eq!(bench.count("condition"), 1);
    assert_eq!(task.phase(), Phase::Started);
}

// Z-096
#[test]
fn a_condition_of_a_started_task_runs_although_a_continuation_is_pending() {
    let bench = Bench::new();
    let task = bench.spawn(Hooks { started: Some(with_condition(1)), ..Hooks::default() });
    bench.work();
    assert_eq!(bench.count("condition"), 1);
    drop(task);
}

// Z-097, Z-099
#[test]
fn a_condition_of_a_closing_task_never_runs_and_may_be_signalled() {
    for which in ["close_requested", "closed"] {
        let bench = Bench::new();
        let mut hooks = Hooks::default();
        let signal = doing(|_, cx| {
            let condition = cx.condition(ConditionMode::Counting, |state, _| state.note("never"));
            condition.signal();
        });
        if which == "closed" {
            hooks.closed = signal;
        } else {
            hooks.close_requested = signal;
        }
        let task = bench.spawn(hooks);
        let closed = task.close();
        bench.work();
        assert!(done(&closed));
        assert_eq!(bench.count("never"), 0, "{which}");
    }
}

// --- 3.20 timers ---

fn arm(_: &mut State, cx: Cx<'_, '_>) {
    cx.after(Duration::from_millis(10), |state, _| state.note("timer")).expect("few timers");
}

// Z-127
#[test]
fn a_timer_of_a_starting_task_waits_for_the_start() {
    let bench = Bench::new();
    let (starting, completer) = held(arm);
    let task = bench.spawn(Hooks { starting, ..Hooks::default() });
    bench.work();
    bench.sim.advance(Duration::from_millis(20));
    assert_eq!(bench.count("timer"), 0);
    completer.complete(()).unwrap();
    bench.work();
    assert_eq!(bench.count("timer"), 1);
    drop(task);
}

// Z-129
#[test]
fn a_timer_of_a_started_task_runs_once() {
    let bench = Bench::new();
    let task = bench.spawn(Hooks { started: doing(arm), ..Hooks::default() });
    bench.work();
    bench.sim.advance(Duration::from_millis(9));
    assert_eq!(bench.count("timer"), 0);
    bench.sim.advance(Duration::from_millis(20));
    assert_eq!(bench.count("timer"), 1);
    drop(task);
}

// Z-130, Z-131
#[test]
fn a_timer_of_a_closing_task_never_runs() {
    for which in ["close_requested", "closing"] {
        let bench = Bench::new();
        let (hook, _completer) = held(arm);
        let mut hooks = Hooks::default();
        if which == "closing" {
            hooks.closing = hook;
        } else {
            hooks.close_requested = hook;
        }
        let task = bench.spawn(hooks);
        let closed = task.close();
        bench.work();
        bench.sim.advance(Duration::from_millis(20));
        assert!(!done(&closed), "held in {which}");
        assert_eq!(bench.count("timer"), 0, "{which}");
        // What holds it does not hold a stop.
        let _stopped = task.stop();
        bench.work();
        assert!(done(&closed), "{which}");
    }
}

// --- the end ---

// Z-006
#[test]
fn the_end_of_a_task_that_is_over_is_answered_at_once() {
    let bench = Bench::new();
    let task = bench.spawn(Hooks::default());
    drop(task.close());
    bench.work();
    assert!(done(&task.close()) && done(&task.closed()) && done(&task.stop()));
}

// Z-X13
#[test]
fn every_future_ends_when_a_task_is_killed() {
    let bench = Bench::new();
    let (starting, _completer) = held(|_, _| {});
    let task = bench.spawn(Hooks { starting, ..Hooks::default() });
    let (started, call) = (task.started(), task.call(|_, _| ()));
    bench.work();
    let killed = task.kill();
    bench.work();
    assert!(bench.sim.wait(started).is_err());
    assert!(bench.sim.wait(call).unwrap_err().is_closed());
    assert!(matches!(bench.sim.wait(killed), Err(Failure::Killed)));
    assert_eq!(bench.log(), ["starting", "failed"]);
}

#[test]
fn a_close_has_a_deadline_even_while_starting() {
    let bench = Bench::new();
    let (starting, _completer) = held(|_, _| {});
    let task = bench.spawn(Hooks { starting, ..Hooks::default() });
    let closed = task.close_within(Duration::from_secs(1));
    bench.work();
    bench.sim.advance(Duration::from_millis(999));
    assert!(!done(&closed));
    bench.sim.advance(Duration::from_millis(1));
    assert!(done(&closed), "S-25: a task stuck in Starting can be closed");
    assert_eq!(bench.count("closed"), 1);
}

#[test]
fn a_task_without_handles_ends_in_order_when_nothing_can_reach_it() {
    let bench = Bench::new();
    let task = bench.spawn(Hooks { started: doing(arm), ..Hooks::default() });
    task.submit(|state, _| state.note("job")).unwrap();
    drop(task);
    bench.work();
    assert_eq!(bench.count("close_requested"), 0, "its timer may still run");
    bench.sim.advance(Duration::from_millis(20));
    assert_eq!((bench.count("job"), bench.count("timer"), bench.count("closed")), (1, 1, 1));
    bench.sim.assert_no_leaks();
}

//! Plans are ended in each state of their steps: while code runs or handles an event, in the pause before
//! an attempt, in a handler that waits, fails or hangs, over a crash; and what is refused at last.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use turnwheel_engine::{
    Action, ActionError, Next, PlanHandle, PlanResult, PlanState, RunAsync, RunsAsync, StepContext,
    StepId,
};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completer, Completion};

use crate::common::{error, states, step_of, Theatre};

/// What one call does: waits for something, if there is something, and ends.
type Turn = (Option<Completion<()>>, Result<Next, ActionError>);

/// A cancellable action whose calls wait inside of their code.
#[derive(Clone, Default)]
struct Gate {
    turns: Arc<Mutex<VecDeque<Turn>>>,
    causes: Arc<Mutex<Vec<String>>>,
}

impl Gate {
    fn then(self, result: Result<Next, ActionError>) -> Self {
        self.turns.lock().expect("nothing panics under it").push_back((None, result));
        self
    }

    /// A call that waits for what comes with it.
    fn waits(&self, result: Result<Next, ActionError>) -> Completer<()> {
        let (open, gate) = completion();
        self.turns.lock().expect("nothing panics under it").push_back((Some(gate), result));
        open
    }

    fn causes(&self) -> Vec<String> {
        self.causes.lock().expect("nothing panics under it").clone()
    }
}

impl Action for Gate {
    const NAME: &'static str = "gate";
    type Input = ();
    type Output = ();
    type Phases = RunsAsync;

    fn is_cancellable(&self) -> bool {
        true
    }
}

impl RunAsync for Gate {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let known = if step.is_cancelled() { " and an end" } else { "" };
        let cause = format!("{:?}{known}", step.cause());
        self.causes.lock().expect("nothing panics under it").push(cause);
        let turn = self.turns.lock().expect("nothing panics under it").pop_front();
        let Some((gate, result)) = turn else { return Ok(Next::Done) };
        if let Some(gate) = gate {
            gate.await.map_err(|failure| ActionError::new("gone", failure))?;
        }
        result
    }
}

const CANCEL: &str = "Cancel { is_forced: false }";
const ABORT: &str = "Cancel { is_forced: true }";
const STEP: StepId = StepId(2);

fn suspend() -> Result<Next, ActionError> {
    Ok(Next::suspend("a word"))
}

fn begin(gate: &Gate) -> (Theatre, PlanHandle) {
    let action = gate.clone();
    let theatre = Theatre::with(|_| {}, |world| world.action(action));
    let plan = theatre.sim.block_on(theatre.world.trigger::<Gate>(()));
    let plan = plan.expect("it ends").expect("the plan is taken");
    theatre.settle(&plan);
    (theatre, plan)
}

fn crash(theatre: Theatre, plan: PlanHandle, gate: &Gate) -> (Theatre, PlanHandle) {
    let (id, action) = (plan.id(), gate.clone());
    drop(plan);
    let theatre = theatre.crash_with(|_| {}, |world| world.action(action));
    let plan = theatre.world.plan(id);
    (theatre, plan)
}

fn say(theatre: &Theatre, plan: &PlanHandle) {
    theatre.done(theatre.world.event(plan.id(), STEP, None, &1)).expect("it is taken");
}

#[track_caller]
fn is_cancelled(theatre: &Theatre, plan: &PlanHandle) {
    let view = theatre.settle(plan);
    let outcome = (view.state, view.result());
    assert_eq!(outcome, (PlanState::Stopped, PlanResult::Cancelled), "{:?}", view.history);
}

#[test]
fn a_step_that_handles_an_event_is_told_to_end_when_it_has() {
    // D-147 D-161
    let gate = Gate::default().then(suspend());
    let (theatre, plan) = begin(&gate);
    let open = gate.waits(suspend());
    say(&theatre, &plan);
    say(&theatre, &plan);
    assert_eq!(states(&theatre.settle(&plan)), "running");
    theatre.done(plan.cancel("ann")).unwrap();
    let _taken = open.complete(());
    is_cancelled(&theatre, &plan);
    assert_eq!(gate.causes(), ["Turn", "Event", CANCEL], "the second event is not taken any more");
}

#[test]
fn code_whose_call_was_decided_before_a_request_to_end_knows_of_it() {
    let gate = Gate::default().then(suspend()).then(suspend());
    let (theatre, plan) = begin(&gate);
    let event = theatre.world.event(plan.id(), STEP, None, &1);
    let cancel = plan.cancel("ann");
    theatre.done(event).unwrap();
    theatre.done(cancel).unwrap();
    is_cancelled(&theatre, &plan);
    assert_eq!(gate.causes(), ["Turn", "Event and an end", CANCEL]);
}

#[test]
fn what_ends_by_an_event_after_it_was_told_to_is_cancelled_and_what_fails_by_it_pauses() {
    // D-147 D-162
    let gate = Gate::default().then(suspend()).then(suspend());
    let (theatre, plan) = begin(&gate);
    theatre.done(plan.cancel("ann")).unwrap();
    assert_eq!(theatre.settle(&plan).state, PlanState::Running);
    say(&theatre, &plan);
    is_cancelled(&theatre, &plan);
    assert_eq!(gate.causes(), ["Turn", CANCEL, "Event"]);

    let gate = Gate::default().then(suspend()).then(suspend()).then(Err(error("broken")));
    let (theatre, plan) = begin(&gate);
    theatre.done(plan.cancel("ann")).unwrap();
    say(&theatre, &plan);
    let view = theatre.settle(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Paused, PlanResult::Error));
    theatre.done(plan.resume("ann")).unwrap();
    assert_eq!(theatre.settle(&plan).result(), PlanResult::Success, "nobody cancels it any more");
}

#[test]
fn a_handler_that_hangs_is_given_up_with_force() {
    let gate = Gate::default().then(suspend());
    let (theatre, plan) = begin(&gate);
    let _open = gate.waits(Ok(Next::Done));
    theatre.done(plan.cancel("ann")).unwrap();
    assert_eq!(states(&theatre.settle(&plan)), "running");
    theatre.done(plan.cancel_now("ann")).unwrap();
    is_cancelled(&theatre, &plan);
    assert_eq!(gate.causes(), ["Turn", CANCEL]);

    let gate = Gate::default().then(suspend()).then(suspend());
    let (theatre, plan) = begin(&gate);
    theatre.done(plan.cancel("ann")).unwrap();
    theatre.done(plan.cancel_now("ann")).unwrap();
    is_cancelled(&theatre, &plan);
    assert_eq!(gate.causes(), ["Turn", CANCEL, ABORT]);
}

#[test]
fn a_step_between_two_attempts_is_told_to_end_if_it_wants_to_know() {
    for is_cancellable in [true, false] {
        let change = |play: &mut crate::common::Play| {
            (play.is_cancellable, play.attempts) = (is_cancellable, 5);
        };
        let theatre = Theatre::with(change, |world| world);
        theatre.script.on("a", |_| Err(error("broken")));
        let plan = theatre.perform("a b");
        assert_eq!(states(&theatre.settle(&plan)), "retrying pending");
        theatre.done(plan.cancel("ann")).unwrap();
        is_cancelled(&theatre, &plan);
        let said = theatre.script.said();
        assert_eq!(said, if is_cancellable { &["a", "cancel a"][..] } else { &["a"] });
    }
}

#[test]
fn a_crash_while_a_plan_is_cancelled_begins_nothing_again_and_tells_again() {
    let gate = Gate::default();
    let _open = gate.waits(suspend());
    let (theatre, plan) = begin(&gate);
    theatre.done(plan.cancel("ann")).unwrap();
    let (theatre, plan) = crash(theatre, plan, &gate);
    is_cancelled(&theatre, &plan);
    assert_eq!(gate.causes(), ["Turn", CANCEL]);

    let gate = Gate::default().then(suspend());
    let (theatre, plan) = begin(&gate);
    let _open = gate.waits(Ok(Next::Done));
    theatre.done(plan.cancel("ann")).unwrap();
    let (theatre, plan) = crash(theatre, plan, &gate);
    is_cancelled(&theatre, &plan);
    assert_eq!(gate.causes(), ["Turn", CANCEL, CANCEL], "the handler was interrupted");
}

#[test]
fn a_halted_plan_stays_as_it_is_also_over_a_crash() {
    // D-190
    let gate = Gate::default();
    let _open = gate.waits(suspend());
    let (theatre, plan) = begin(&gate);
    theatre.done(plan.halt("ann")).unwrap();
    let before = theatre.settle(&plan);
    assert_eq!(states(&before), "running");
    let (theatre, plan) = crash(theatre, plan, &gate);
    let after = theatre.settle(&plan);
    assert_eq!((before.history.clone(), &before.steps), (after.history.clone(), &after.steps));
    let refused = theatre.done(plan.resume("ann")).unwrap_err().to_string();
    assert!(refused.contains("only a paused plan can be resumed"), "{refused}");
    assert_eq!(gate.causes(), ["Turn"]);
}

#[test]
fn a_planning_does_not_begin_again_and_what_is_taken_back_only_goes_on_or_is_left() {
    let theatre = Theatre::new();
    theatre.script.on("a", |_| Err(error("broken")));
    let plan = theatre.perform("a b");
    theatre.finished(&plan);
    let refused = theatre.done(plan.restart_from(StepId(1), "ann")).unwrap_err().to_string();
    assert!(refused.contains("step 1 is a planning"), "{refused}");
    theatre.script.on("a", |_| Ok(Next::Done));
    theatre.done(plan.resume("ann")).unwrap();
    assert_eq!(theatre.finished(&plan).result(), PlanResult::Success);

    theatre.script.on("d", |_| Err(error("revert")));
    theatre.script.on("revert c", |_| Err(error("broken")));
    let plan = theatre.perform("c d");
    let view = theatre.finished(&plan);
    assert_eq!((view.state, states(&view).as_str()), (PlanState::Paused, "revert_failed reverted"));
    let orders = [plan.restart_from(step_of(&view, "c"), "ann"), plan.revert("ann")];
    for order in orders.into_iter().chain([plan.retry_failed("ann")]) {
        let refused = theatre.done(order).unwrap_err().to_string();
        assert!(refused.contains("taken back"), "{refused}");
    }
    theatre.script.on("revert c", |_| Ok(Next::Done));
    theatre.done(plan.resume("ann")).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!(
        (view.result(), states(&view).as_str()),
        (PlanResult::Reverted, "reverted reverted")
    );
}

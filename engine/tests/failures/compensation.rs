//! Taking back: steps that failed after they were called, attempts of compensations and of finalize phases,
//! and what people do when there are no more.

use std::time::Duration;

use turnwheel_engine::{
    Action, ActionError, Input, Next, PlanResult, PlanState, Planner, Revert, Reverts, Run, Runs,
    StepContext, StepState, TransactionAdapter,
};

use crate::common::{error, part, states, step_of, Piece, Play, Theatre};

fn tries(attempts: u32) -> impl FnOnce(&mut Play) {
    move |play| play.later_attempts = attempts
}

fn seconds(theatre: &Theatre, count: u64) {
    theatre.sim.run_until_idle();
    theatre.sim.advance(Duration::from_secs(count));
}

#[test]
fn a_step_that_was_called_and_failed_is_taken_back_first_and_its_compensation_knows() {
    let theatre = Theatre::new();
    theatre.script.on("b", |step| {
        step.output = serde_json::json!("half done");
        Err(error("revert"))
    });
    let script = theatre.script.clone();
    theatre.script.on("revert b", move |step| {
        let kind = step.failure().map(|error| error.kind.clone());
        script.say(format!("{kind:?} {}", step.output));
        Ok(Next::Done)
    });
    let script = theatre.script.clone();
    theatre.script.on("revert a", move |step| {
        script.say(format!("{:?}", step.failure()));
        Ok(Next::Done)
    });
    let plan = theatre.perform("a b c");
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Reverted));
    assert_eq!(states(&view), "reverted reverted pending");
    let expected = ["a", "b", "revert b", "Some(\"revert\") \"half done\"", "revert a", "None"];
    assert_eq!(theatre.script.said(), expected);
    let step = view.step(step_of(&view, "b"));
    assert_eq!(step.error.as_ref().unwrap().kind, "revert", "why it failed is not forgotten");
}

#[test]
fn an_action_says_for_which_errors_nothing_has_to_be_taken_back() {
    let theatre = Theatre::new();
    theatre.script.on("b", |_| Err(ActionError::new("revert", "nothing was done")));
    let plan = theatre.perform("a b");
    let view = theatre.finished(&plan);
    assert_eq!((view.result(), states(&view).as_str()), (PlanResult::Reverted, "reverted error"));
    assert_eq!(theatre.script.said(), ["a", "b", "revert a"]);
}

#[test]
fn a_step_whose_code_was_never_called_is_not_taken_back() {
    // What the first part answers is no name for the second.
    let theatre =
        Theatre::with(|_| {}, |world| world.action(Misprint).action(Named).always_pause());
    theatre.script.on("a", |step| {
        step.output = serde_json::json!(7);
        Ok(Next::Done)
    });
    let triggering = theatre.world.trigger::<Misprint>(());
    let plan = theatre.sim.block_on(triggering).unwrap().unwrap();
    let view = theatre.finished(&plan);
    assert_eq!((view.state, states(&view).as_str()), (PlanState::Paused, "success error"));
    let step = view.failed_steps().next().unwrap();
    assert_eq!((step.error.as_ref().unwrap().kind.as_str(), step.was_called), ("unfit", false));
    theatre.script.said();
    theatre.done(plan.revert("ann")).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!((view.result(), states(&view).as_str()), (PlanResult::Reverted, "reverted error"));
    assert_eq!(theatre.script.said(), ["revert a"]);
}

/// Plans a part, and one that is called as the first one says.
struct Misprint;

impl Action for Misprint {
    const NAME: &'static str = "misprint";
    type Input = ();
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, (): ()) -> Result<(), ActionError> {
        let first = planner.plan_action::<Play>(part("a"))?;
        let later = serde_json::to_value(Input::Output(first.output()?))?;
        planner.plan_action::<Named>(NamedPart { who: serde_json::from_value(later)? })?;
        Ok(())
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
struct NamedPart {
    who: Who,
}

/// A name, or where it will be.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
enum Who {
    Name(String),
    Later {
        #[serde(rename = "$output")]
        place: serde_json::Value,
    },
}

/// A part whose name comes from another one.
struct Named;

impl Action for Named {
    const NAME: &'static str = "named";
    type Input = NamedPart;
    type Output = ();
    type Phases = (Runs, Reverts);
}

impl Run for Named {
    fn run(&self, _: &mut StepContext<Self>) -> Result<Next, ActionError> {
        unreachable!("it cannot read its input")
    }
}

impl Revert for Named {
    fn revert(&self, _: &mut StepContext<Self>) -> Result<(), ActionError> {
        unreachable!("it was never called")
    }
}

#[test]
fn a_compensation_is_tried_again_also_by_another_world_and_then_the_plan_is_paused() {
    let theatre = Theatre::with(tries(3), |world| world);
    theatre.script.on("b", |_| Err(error("revert")));
    theatre.script.on("revert a", |_| Err(error("broken")));
    let plan = theatre.perform("a b");
    let view = theatre.settle(&plan);
    assert_eq!(
        (view.state, states(&view).as_str()),
        (PlanState::Running, "revert_retrying reverted")
    );
    let waits = format!("attempt 2 of the compensation of step {}", step_of(&view, "a"));
    assert_eq!(view.waits_for(), waits);
    let id = plan.id();
    drop(plan);
    let theatre = theatre.crash_with(tries(3), |world| world);
    let plan = theatre.world.plan(id);
    seconds(&theatre, 11);
    seconds(&theatre, 11);
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Paused, PlanResult::Error));
    assert_eq!(states(&view), "revert_failed reverted");
    assert_eq!(theatre.script.said(), ["a", "b", "revert b", "revert a", "revert a", "revert a"]);
    let last = &view.history.last().unwrap().text;
    assert!(last.contains("the compensation of step") && last.contains("broken me"), "{last}");
    assert!(view.waits_for().contains("retry, skip or end it"), "{}", view.waits_for());
    // Resumed, it has as many attempts again.
    theatre.script.on("revert a", |_| Ok(Next::Done));
    theatre.done(plan.resume("ann")).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!(
        (view.result(), states(&view).as_str()),
        (PlanResult::Reverted, "reverted reverted")
    );
    assert_eq!(view.errors().len(), 1, "that of the step");
}

#[test]
fn errors_that_the_policy_leaves_out_or_that_are_final_have_one_attempt() {
    for hopeless in [error("hopeless"), error("broken").and_final()] {
        let theatre = Theatre::with(tries(3), |world| world);
        theatre.script.on("b", |_| Err(error("revert")));
        theatre.script.on("revert a", move |_| Err(hopeless.clone()));
        let plan = theatre.perform("a b");
        assert_eq!(theatre.finished(&plan).state, PlanState::Paused);
        assert_eq!(theatre.script.said(), ["a", "b", "revert b", "revert a"]);
    }
}

#[test]
fn a_failed_compensation_is_left_out_by_hand_or_the_plan_failed() {
    let theatre = Theatre::new();
    theatre.script.on("c", |_| Err(error("revert")));
    theatre.script.on("revert b", |_| Err(error("broken")));
    let plan = theatre.perform("a b c");
    let view = theatre.finished(&plan);
    assert_eq!(states(&view), "success revert_failed reverted");
    theatre.done(plan.skip(step_of(&view, "b"), "ann")).unwrap();
    theatre.done(plan.resume("ann")).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Reverted));
    assert_eq!(states(&view), "reverted kept reverted");
    assert!(view.history.iter().any(|line| line.text.contains("is left out by ann")));

    let plan = theatre.perform("a b c");
    theatre.finished(&plan);
    theatre.done(plan.fail("ann")).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Error));
    assert_eq!(states(&view), "success revert_failed reverted");
    let late = theatre.done(plan.fail("ann")).unwrap_err();
    assert!(late.to_string().contains("only a paused plan"), "{late}");
}

#[test]
fn a_world_that_ends_in_a_compensation_calls_it_again() {
    let theatre = Theatre::new();
    theatre.script.on("b", |_| Err(error("revert")));
    theatre.script.on("revert b", |_| panic!("out of paper"));
    let plan = theatre.perform("a b");
    let view = theatre.finished(&plan);
    assert_eq!(states(&view), "success revert_failed");
    let failed = view.step(step_of(&view, "b"));
    assert_eq!(failed.revert_error.as_ref().unwrap().kind, "panic");
    assert_eq!(failed.state, StepState::RevertFailed);
    theatre.script.on("revert b", |_| Ok(Next::Done));
    let id = plan.id();
    drop(plan);
    let theatre = theatre.crash();
    let plan = theatre.world.plan(id);
    theatre.done(plan.resume("ann")).unwrap();
    assert_eq!(states(&theatre.finished(&plan)), "reverted reverted");
}

#[test]
fn a_finalize_phase_is_tried_again_and_then_the_plan_is_paused() {
    let theatre = Theatre::with(tries(2), |world| world);
    theatre.script.on("finalize b", |_| Err(error("broken")));
    let plan = theatre.perform("a b");
    assert_eq!(theatre.settle(&plan).state, PlanState::Running);
    seconds(&theatre, 10);
    assert_eq!(theatre.finished(&plan).state, PlanState::Paused);
    let expected = ["a", "b", "finalize a", "finalize b", "finalize b"];
    assert_eq!(theatre.script.said(), expected);
    theatre.script.on("finalize b", |_| Ok(Next::Done));
    theatre.done(plan.resume("ann")).unwrap();
    assert_eq!(theatre.finished(&plan).result(), PlanResult::Success);
}

/// A database that keeps nothing.
struct Nothing;

impl TransactionAdapter for Nothing {
    fn transaction(
        &self,
        work: &mut dyn FnMut() -> Result<(), ActionError>,
    ) -> Result<(), ActionError> {
        work()
    }
}

#[test]
fn in_a_transaction_the_whole_finalize_phase_is_tried_again() {
    let theatre = Theatre::with(tries(2), |world| world.transactions(Nothing));
    let mut calls = 0;
    theatre.script.on("finalize b", move |_| {
        calls += 1;
        if calls == 1 {
            Err(error("broken"))
        } else {
            Ok(Next::Done)
        }
    });
    let plan = theatre.perform("a b");
    theatre.settle(&plan);
    seconds(&theatre, 10);
    assert_eq!(theatre.finished(&plan).result(), PlanResult::Success);
    let expected = ["a", "b", "finalize a", "finalize b", "finalize a", "finalize b"];
    assert_eq!(theatre.script.said(), expected);
}

#[test]
fn a_plan_that_is_cancelled_while_a_compensation_waits_is_over() {
    let theatre = Theatre::with(tries(9), |world| world);
    theatre.script.on("b", |_| Err(error("revert")));
    theatre.script.on("revert a", |_| Err(error("broken")));
    let plan = theatre.perform("a b");
    assert_eq!(states(&theatre.settle(&plan)), "revert_retrying reverted");
    theatre.done(plan.cancel("ann")).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Cancelled));
    assert_eq!(view.label, <Piece as Action>::NAME);
}

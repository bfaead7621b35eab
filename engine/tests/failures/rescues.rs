//! Rescue over several levels of actions, and plans below a plan that fail or are forced to end.

use serde::{Deserialize, Serialize};
use turnwheel_engine::{
    Action, ActionError, Cause, Next, PlanResult, PlanState, Planner, Rescue, RunAsync, RunsAsync,
    StepContext,
};

use crate::common::{error, part, states, Play, Theatre};

/// Plans parts one after the other, and says what it makes of the suggestions of their actions.
struct Strict;

impl Action for Strict {
    const NAME: &'static str = "strict";
    type Input = Vec<String>;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, parts: Vec<String>) -> Result<(), ActionError> {
        planner.sequence(|planner| {
            for who in &parts {
                planner.plan_action::<Play>(part(who))?;
            }
            Ok(())
        })
    }

    fn rescue_of_planned(&self, action: &str, suggested: Rescue) -> Rescue {
        assert_eq!((action, suggested), ("play", Rescue::Skip));
        Rescue::Pause
    }
}

/// Asks for plans that cannot be planned.
struct Hopeless;

#[derive(Default, Serialize, Deserialize)]
struct Rounds {
    rounds: u32,
    failed: u32,
}

/// Its planning fails.
struct Unplannable;

impl Action for Unplannable {
    const NAME: &'static str = "unplannable";
    type Input = u32;
    type Output = ();
    type Phases = ();

    fn plan(&self, _: &mut Planner<'_, Self>, number: u32) -> Result<(), ActionError> {
        Err(ActionError::new("unplannable", format!("number {number} cannot be planned")))
    }
}

impl Action for Hopeless {
    const NAME: &'static str = "hopeless";
    type Input = u32;
    type Output = Rounds;
    type Phases = RunsAsync;
}

impl RunAsync for Hopeless {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.cause() == Cause::SubPlans {
            step.output.failed = step.sub_plans().failed;
            return Ok(Next::Done);
        }
        step.output.rounds += 1;
        step.limit_sub_plans(1);
        for number in 0..step.input {
            step.trigger::<Unplannable>(&number)?;
        }
        Ok(Next::suspend("what cannot be"))
    }
}

#[test]
fn a_parent_may_make_a_pause_of_what_its_actions_suggest() {
    // D-279 D-280
    let theatre = Theatre::with(|_| {}, |world| world.action(Strict));
    theatre.script.on("a", |_| Err(error("skip")));
    let triggering = theatre.world.trigger::<Strict>(vec!["a".to_owned(), "b".to_owned()]);
    let plan = theatre.sim.block_on(triggering).unwrap().unwrap();
    let view = theatre.finished(&plan);
    assert_eq!((view.state, states(&view).as_str()), (PlanState::Paused, "error pending"));
}

#[test]
fn failures_below_a_plain_parent_are_skipped_in_run_and_in_finalize() {
    // D-275 D-277 D-286
    let theatre = Theatre::new();
    theatre.script.on("b", |_| Err(error("skip")));
    theatre.script.on("c", |_| Err(error("skip")));
    theatre.script.on("finalize d", |_| Err(error("skip")));
    let plan = theatre.perform("a|b|c d");
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Warning));
    assert_eq!(states(&view), "success skipped skipped success");
    let said = theatre.script.said();
    assert_eq!(said.last().map(String::as_str), Some("finalize d"), "{said:?}");
}

#[test]
fn actions_that_all_want_to_fail_do() {
    // D-281
    let theatre = Theatre::new();
    theatre.script.on("a", |_| Err(error("fail")));
    theatre.script.on("b", |_| Err(error("fail")));
    let plan = theatre.perform("a|b");
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Error));
}

#[test]
fn sub_plans_that_cannot_be_planned_are_over_at_once_and_hold_up_no_other() {
    // D-080
    let theatre = Theatre::with(|_| {}, |world| world.action(Hopeless).action(Unplannable));
    let triggering = theatre.world.trigger::<Hopeless>(5);
    let plan = theatre.sim.block_on(triggering).unwrap().unwrap();
    let view = theatre.finished(&plan);
    let rounds = view.output::<Hopeless>().unwrap();
    assert_eq!((rounds.rounds, rounds.failed), (1, 5));
    for (child, data) in view.sub_plans() {
        assert_eq!(data.result, Some(PlanResult::Error));
        assert_ne!(child, plan.id(), "no plan is below itself");
        let view = theatre.settle(&theatre.world.plan(child));
        assert_eq!(view.planning_error.as_ref().unwrap().kind, "unplannable");
    }
}

#[test]
fn a_flow_ends_each_of_its_branches_by_itself() {
    // D-144 D-179 S-11
    let theatre = Theatre::new();
    theatre.script.on("b", |_| Ok(Next::suspend("a word")));
    let plan = theatre.perform("a|b c");
    let view = theatre.settle(&plan);
    assert_eq!(states(&view), "success suspended pending");
    let step = crate::common::step_of(&view, "b");
    theatre.script.on("b", |_| Ok(Next::Done));
    theatre.done(theatre.world.event(plan.id(), step, None, &1)).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!(states(&view), "success success success");
    let said = theatre.script.said();
    assert_eq!(said[..4], ["a", "b", "b", "c"]);
}

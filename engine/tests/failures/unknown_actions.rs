//! Sub-plans whose action no world knows: the plan that has asked for them does not wait for ever.

use turnwheel_engine::{
    Action, ActionError, Cause, Next, PlanHandle, PlanId, PlanResult, PlanState, RunAsync,
    RunsAsync, StepContext,
};

use crate::common::{Play, Script, Theatre};

/// Waits for an event. Not every world knows it.
struct Stranger;

impl Action for Stranger {
    const NAME: &'static str = "stranger";
    type Input = ();
    type Output = ();
    type Phases = RunsAsync;
}

impl RunAsync for Stranger {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        Ok(if step.has_event() { Next::Done } else { step.wait_for_event("an event") })
    }
}

/// `parent` has so many sub-plans, one at a time, and says how many ended in which way.
fn asks_for_strangers(script: &Script, count: usize) {
    let said = script.clone();
    script.on("parent", move |step: &mut StepContext<Play>| {
        if step.cause() == Cause::SubPlans {
            let plans = step.sub_plans();
            said.say(format!("{} of {} failed", plans.failed, plans.total));
            return Ok(Next::Done);
        }
        for _ in 0..count {
            step.trigger::<Stranger>(&())?;
        }
        step.limit_sub_plans(1);
        Ok(step.wait_for_sub_plans())
    });
}

fn child_of(theatre: &Theatre, parent: &PlanHandle) -> PlanId {
    let view = theatre.settle(parent);
    let open = view.sub_plans().find(|(_, child)| child.result.is_none());
    let child = open.or(view.sub_plans().next()).expect("it has one");
    child.0
}

#[test]
fn a_parent_hears_that_its_sub_plans_cannot_be_planned() {
    let theatre = Theatre::new();
    asks_for_strangers(&theatre.script, 3);
    let parent = theatre.perform("parent");
    let view = theatre.settle(&parent);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
    assert_eq!(theatre.script.said(), ["parent", "parent", "3 of 3 failed", "finalize parent"]);
    let child = theatre.settle(&theatre.world.plan(child_of(&theatre, &parent)));
    let error = child.planning_error.clone().expect("it says why");
    assert_eq!(error.kind, "unknown_action");
    assert!(error.message.contains("«stranger»"), "{}", error.message);
}

/// The first of two sub-plans waits when the world ends; the next world does not know their action.
fn in_a_world_that_has_forgotten_it(end: impl FnOnce(&Theatre, &PlanHandle, &PlanHandle)) {
    let theatre = Theatre::with(|_| {}, |builder| builder.action(Stranger));
    asks_for_strangers(&theatre.script, 2);
    let parent = theatre.perform("parent").id();
    let child = child_of(&theatre, &theatre.world.plan(parent));
    theatre.script.said();
    let theatre = theatre.crash();
    let (parent, child) = (theatre.world.plan(parent), theatre.world.plan(child));
    let view = theatre.settle(&parent);
    assert_eq!((view.state, view.waits_for().as_str()), (PlanState::Running, "2 of 2 sub-plans"));
    end(&theatre, &parent, &child);
}

#[test]
fn a_parent_is_cancelled_with_a_sub_plan_whose_action_is_gone() {
    in_a_world_that_has_forgotten_it(|theatre, parent, child| {
        theatre.done(parent.cancel("ann")).expect("it is cancelled");
        for plan in [parent, child] {
            let view = theatre.settle(plan);
            assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Cancelled));
        }
    });
}

#[test]
fn a_parent_goes_on_when_somebody_ends_the_sub_plan_whose_action_is_gone() {
    in_a_world_that_has_forgotten_it(|theatre, parent, child| {
        let view = theatre.settle(child);
        let step = view.actions[0].run_step.expect("it has one");
        theatre.done(theatre.world.event(child.id(), step, None, &1)).expect("it is taken");
        let view = theatre.settle(child);
        assert_eq!(view.state, PlanState::Paused, "somebody has to decide");
        assert!(view.failed_steps().next().is_some());
        theatre.done(child.fail("ann")).expect("it is ended");
        let view = theatre.settle(parent);
        assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
        assert_eq!(theatre.script.said(), ["parent", "2 of 2 failed", "finalize parent"]);
    });
}

//! Promises: steps that wait for a name and a key, and who completes them without knowing the plan.

use std::time::Duration;

use turnwheel_engine::{
    action, ActionError, Next, PlanHandle, PlanId, PlanResult, PromiseError, StepContext,
};

use turnwheel_engine::{MemoryStore, PlanError, StoreError, World};
use turnwheel_runtime::sim::Sim;
use turnwheel_testkit::FaultStore;

use crate::common::Theatre;

/// Waits for the approval of an order, and refuses it after an hour.
#[action(output = Option<bool>)]
async fn approval(order: u32, step: &mut StepContext<Approval>) -> Result<Next, ActionError> {
    step.output = step.promise("approval")?;
    if step.output.is_some() {
        return Ok(Next::Done);
    }
    if step.timer() == Some("late") {
        step.output = Some(false);
        return Ok(Next::Done);
    }
    step.set_timer("late", Duration::from_secs(3_600), &())?;
    step.wait_for_promise("approval", &order.to_string())
}

fn open() -> Theatre {
    Theatre::with(|_| {}, |world| world.action(Approval))
}

fn trigger(theatre: &Theatre, order: u32) -> PlanHandle {
    let plan = theatre.sim.block_on(theatre.world.trigger::<Approval>(order));
    let plan = plan.expect("it ends").expect("the plan is taken");
    theatre.sim.run_until_idle();
    plan
}

fn complete(theatre: &Theatre, key: &str, value: bool) -> Result<PlanId, PromiseError> {
    let completed = theatre.world.complete_named("approval", key, &value, "ann");
    theatre.sim.block_on(completed).expect("it ends")
}

fn outcome(theatre: &Theatre, plan: &PlanHandle) -> Option<bool> {
    let view = theatre.finished(plan);
    assert_eq!(view.result(), PlanResult::Success);
    view.output::<Approval>().expect("it has ended")
}

#[test]
fn promise_is_completed_once_by_name_and_key() {
    let theatre = open();
    let early = complete(&theatre, "42", true).expect_err("nothing waits yet");
    assert!(matches!(early, PromiseError::NobodyWaits { .. }), "{early}");
    let (one, other) = (trigger(&theatre, 42), trigger(&theatre, 43));
    assert_eq!(complete(&theatre, "42", true).expect("it waits"), one.id());
    assert_eq!(outcome(&theatre, &one), Some(true));
    let late = complete(&theatre, "42", false).expect_err("it is completed");
    assert!(matches!(late, PromiseError::NobodyWaits { .. }), "{late}");
    assert_eq!(complete(&theatre, "43", false).expect("it waits"), other.id());
    assert_eq!(outcome(&theatre, &other), Some(false));
}

#[test]
fn promise_is_found_through_the_store_after_a_crash() {
    let theatre = open();
    let id = trigger(&theatre, 42).id();
    let theatre = theatre.crash_with(|_| {}, |world| world.action(Approval));
    assert_eq!(complete(&theatre, "42", true).expect("it waits"), id);
    let theatre = theatre.crash_with(|_| {}, |world| world.action(Approval));
    assert_eq!(outcome(&theatre, &theatre.world.plan(id)), Some(true));
    complete(&theatre, "42", true).expect_err("it is completed");
}

#[test]
fn promise_that_two_plans_wait_for_is_not_completed() {
    let theatre = open();
    let plans = [trigger(&theatre, 42), trigger(&theatre, 42)];
    let refused = complete(&theatre, "42", true).expect_err("it is not clear which");
    assert!(matches!(refused, PromiseError::Several { .. }), "{refused}");
    theatre.done(plans[0].cancel("ann")).expect("it waits");
    theatre.sim.run_until_idle();
    assert_eq!(complete(&theatre, "42", true).expect("one waits"), plans[1].id());
}

#[test]
fn step_that_ends_by_its_timer_does_not_wait_for_its_promise() {
    let theatre = open();
    let plan = trigger(&theatre, 42);
    theatre.sim.advance(Duration::from_secs(3_601));
    assert_eq!(outcome(&theatre, &plan), Some(false));
    complete(&theatre, "42", true).expect_err("it has ended");
}

#[test]
fn completion_is_not_told_that_nobody_waits_while_the_store_fails() {
    let (store, sim) = (FaultStore::new(MemoryStore::new()), Sim::new(3));
    let builder = World::builder().action(Approval).seed(3);
    let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
    let world = sim.block_on(builder.open(store.clone())).expect("it ends").expect("it begins");
    sim.block_on(world.trigger::<Approval>(42)).expect("it ends").expect("the plan is taken");
    sim.run_until_idle();
    store.fail(StoreError::Full("no room".to_owned()));
    let complete = || sim.block_on(world.complete_named("approval", "42", &true, "ann"));
    let refused = complete().expect("it ends").expect_err("nothing can be written");
    let is_of_store = matches!(refused, PromiseError::Plan(PlanError::Store(StoreError::Full(_))));
    assert!(is_of_store, "{refused}");
    store.heal();
    complete().expect("it ends").expect("it waits");
}

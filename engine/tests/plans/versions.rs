//! Plans of an older version of an action go on with the newest one.

use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use turnwheel_engine::{
    Action, ActionError, Next, PlanResult, PlanState, Run, Runs, StepContext, World,
};

use crate::common::Theatre;

/// Greets, when it is told to.
struct First;

impl Action for First {
    const NAME: &'static str = "greet";
    type Input = String;
    type Output = u64;
    type Phases = Runs;
}

impl Run for First {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output = 1;
        Ok(Next::suspend("a word"))
    }
}

#[derive(Serialize, Deserialize)]
struct Name {
    name: String,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Count {
    count: u64,
}

/// The same with other types; `FITS` says whether it can migrate.
struct Second<const FITS: bool>;

impl<const FITS: bool> Action for Second<FITS> {
    const NAME: &'static str = "greet";
    const VERSION: u32 = 2;
    type Input = Name;
    type Output = Count;
    type Phases = Runs;

    fn migrate(
        &self,
        from: u32,
        input: Value,
        output: Value,
    ) -> Result<(Value, Value), ActionError> {
        assert_eq!(from, 1, "it is migrated once");
        if !FITS {
            return Err(ActionError::new("no", "nobody knows how"));
        }
        Ok((json!({ "name": input }), json!({ "count": output })))
    }
}

impl<const FITS: bool> Run for Second<FITS> {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        assert_eq!(step.input.name, "ann");
        step.output.count += 10;
        Ok(if step.output.count > 20 { Next::Done } else { Next::suspend("one more") })
    }
}

#[test]
fn a_plan_of_an_older_version_is_migrated_once_and_goes_on() {
    let theatre = Theatre::with(|_| {}, |builder| builder.action(First));
    let triggering = theatre.world.trigger::<First>("ann".to_owned());
    let plan = theatre.sim.block_on(triggering).unwrap().unwrap();
    let step = theatre.settle(&plan).run_step::<First>().unwrap().id;

    // Which plans would break is known before.
    let ask =
        |builder: turnwheel_engine::WorldBuilder| builder.broken_plans(&theatre.store).unwrap();
    assert_eq!(ask(World::builder().action(First)), []);
    assert_eq!(ask(World::builder().action(Second::<true>)), []);
    let broken = ask(World::builder().action(Second::<false>));
    assert_eq!((broken.len(), broken[0].plan, broken[0].step), (1, plan.id(), Some(step)));
    assert!(broken[0].problem.contains("nobody knows how"), "{}", broken[0].problem);
    let broken = ask(World::builder());
    assert!(broken[0].problem.contains("«greet»"), "{}", broken[0].problem);

    let theatre = theatre.crash_with(|_| {}, |builder| builder.action(Second::<true>));
    let plan = theatre.world.plan(plan.id());
    for _ in 0..2 {
        theatre.done(theatre.world.event(plan.id(), step, None, &())).unwrap();
        theatre.settle(&plan);
    }
    let view = theatre.finished(&plan);
    assert_eq!(view.result(), PlanResult::Success, "{:?}", view.errors());
    assert_eq!(view.output::<Second<true>>().unwrap(), Count { count: 21 });
    assert_eq!(view.actions[0].version, 2);
    assert_eq!(World::builder().broken_plans(&theatre.store).unwrap(), []);
}

#[test]
fn a_step_that_cannot_be_migrated_fails_and_says_so() {
    let theatre = Theatre::with(|_| {}, |builder| builder.action(First));
    let triggering = theatre.world.trigger::<First>("ann".to_owned());
    let plan = theatre.sim.block_on(triggering).unwrap().unwrap();
    let step = theatre.settle(&plan).run_step::<First>().unwrap().id;
    let theatre = theatre.crash_with(|_| {}, |builder| builder.action(Second::<false>));
    let plan = theatre.world.plan(plan.id());
    theatre.done(theatre.world.event(plan.id(), step, None, &())).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!(view.state, PlanState::Paused);
    assert_eq!(view.errors()[0].kind, "migration");
}

//! What a world has let go of is gone on with by the next one over the same store; what is paused is not.

use turnwheel_engine::{
    Action, ActionError, MemoryStore, Next, PlanResult, PlanState, Run, Runs, StepContext, World,
};

use crate::common::{error, Theatre};

/// Waits for a word.
struct Listen;

impl Action for Listen {
    const NAME: &'static str = "listen";
    type Input = ();
    type Output = String;
    type Phases = Runs;
}

impl Run for Listen {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let Some(word) = step.event()? else { return Ok(Next::suspend("a word")) };
        step.output = word;
        Ok(Next::Done)
    }
}

// D-014
#[test]
fn a_plan_of_a_world_that_was_shut_down_goes_on_in_the_next_one() {
    let store = MemoryStore::new();
    let open = || World::builder().action(Listen).build(store.clone()).unwrap();
    let first = open();
    let plan = first.trigger::<Listen>(()).wait().unwrap();
    let step = loop {
        let view = plan.view().wait().unwrap();
        if let Some(step) = view.run_step::<Listen>().filter(|step| !step.waits_for.is_empty()) {
            break step.id;
        }
    };
    first.shutdown().unwrap();
    let second = open();
    let plan = second.plan(plan.id());
    let sent = second.event(plan.id(), step, None, &"hello");
    turnwheel_runtime::completion::block_on(sent).unwrap().unwrap().unwrap();
    let view = plan.finished().wait().unwrap();
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
    assert_eq!(view.output::<Listen>().unwrap(), "hello");
    second.shutdown().unwrap();
}

// D-015
#[test]
fn a_plan_that_is_paused_with_an_error_is_left_alone_by_a_start() {
    let theatre = Theatre::new();
    theatre.script.on("ann", |_| Err(error("pause")));
    let plan = theatre.perform("ann bob");
    assert_eq!(theatre.finished(&plan).state, PlanState::Paused);
    theatre.script.said();
    let theatre = theatre.crash();
    let view = theatre.settle(&theatre.world.plan(plan.id()));
    assert_eq!((view.state, view.result()), (PlanState::Paused, PlanResult::Error));
    assert!(theatre.script.said().is_empty(), "nothing of it was called");
}

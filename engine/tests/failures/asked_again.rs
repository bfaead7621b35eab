//! Sub-plans that cannot be read for a while: the plan that waits for them asks again, and does not flood them.

use std::time::Duration;

use turnwheel_engine::{
    Action, ActionError, Cause, MemoryStore, Next, PlanResult, PlanState, RunAsync, RunsAsync,
    StepContext, StoreError, World,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_testkit::FaultStore;

const SUB_PLANS: u32 = 6;

const SECOND: Duration = Duration::from_secs(1);

/// Waits for its sub-plans, or for an event if it has none.
struct Tree;

impl Action for Tree {
    const NAME: &'static str = "tree";
    type Input = u32;
    type Output = u32;
    type Phases = RunsAsync;
}

impl RunAsync for Tree {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.cause() == Cause::SubPlans {
            step.output = step.sub_plans().success;
            return Ok(Next::Done);
        }
        for _ in 0..step.input {
            step.trigger::<Self>(&0)?;
        }
        Ok(match step.input {
            0 if step.has_event() => Next::Done,
            0 => step.wait_for_event("an event"),
            _ => step.wait_for_sub_plans(),
        })
    }
}

#[test]
fn sub_plans_that_cannot_be_read_are_asked_for_at_a_steady_pace() {
    let store = FaultStore::new(MemoryStore::new());
    let sim = Sim::new(3);
    // The parent stays in memory from one time it asks to the next one.
    let builder = World::builder().action(Tree).plan_idle(10 * SECOND).seed(3);
    let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
    let world = sim.block_on(builder.open(store.clone())).unwrap().unwrap();
    let parent = sim.block_on(world.trigger::<Tree>(SUB_PLANS)).unwrap().unwrap();
    sim.advance(60 * SECOND);
    // All have left memory. The parent is read, and what it asks for next is not.
    let view = sim.block_on(parent.view()).unwrap().unwrap();
    store.fail_reads(StoreError::Failed("the disk is away".to_owned()));
    let before = store.reads();
    for seconds in 1..=60 {
        sim.advance(SECOND);
        let reads = store.reads() - before;
        assert!(reads >= seconds * u64::from(SUB_PLANS), "{reads} reads in {seconds} s");
        // Each of them lets the parent ask for more, and so they multiply.
        assert!(reads <= (seconds + 1) * 3 * u64::from(SUB_PLANS), "{reads} reads in {seconds} s");
    }
    store.heal();
    sim.advance(10 * SECOND);
    for (plan, _) in view.sub_plans() {
        let child = sim.block_on(world.plan(plan).view()).unwrap().unwrap();
        let step = child.run_step::<Tree>().expect("it has one").id;
        sim.block_on(world.event(plan, step, None, &1)).unwrap().unwrap().expect("it is taken");
    }
    let view = sim.block_on(parent.finished()).unwrap().unwrap();
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
    assert_eq!(view.output::<Tree>().unwrap(), SUB_PLANS);
}

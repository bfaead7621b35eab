//! A blocking pool without room: what is to be called waits for it.

use std::sync::{Arc, RwLock};
use std::time::Duration;

use turnwheel_engine::{
    Action, ActionError, Delay, MemoryStore, Next, PlanResult, PlanState, Run, Runs, StepContext,
    World,
};
use turnwheel_runtime::Group;

struct Work;

impl Action for Work {
    const NAME: &'static str = "work";
    type Input = ();
    type Output = bool;
    type Phases = Runs;
}

impl Run for Work {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output = true;
        Ok(Next::Done)
    }
}

/// More than the threads and the queue of the pool take.
const TOO_MANY: usize = 17_000;

#[test]
fn a_full_pool_lets_plannings_and_steps_wait_and_fails_none_of_them() {
    let group = Group::builder("plans").workers(1).build().expect("a group");
    let world = World::builder().action(Work).group(&group).build(MemoryStore::new()).unwrap();
    let gate = Arc::new(RwLock::new(()));
    let shut = gate.write().expect("nothing panics under it");
    let waits: Vec<_> = (0..TOO_MANY)
        .map(|_| {
            let gate = Arc::clone(&gate);
            group.run_blocking(move || drop(gate.read()), None)
        })
        .collect();
    assert!(waits.iter().any(|wait| wait.is_done()), "some are refused");
    let planned = world.trigger::<Work>(()).wait().unwrap();
    let delayed = world.delay::<Work>(Delay::by(Duration::ZERO), ()).wait().unwrap();
    // A viewer is answered after earlier decisions were tried.
    let view = delayed.view().wait().unwrap();
    assert_eq!(view.state, PlanState::Scheduled, "{:?}", view.planning_error);
    let view = planned.view().wait().unwrap();
    assert_eq!(view.state, PlanState::Running, "{:?}", view.errors());
    drop(shut);
    for plan in [planned, delayed] {
        let view = plan.finished().wait().unwrap();
        assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
        assert!(view.steps.iter().all(|step| step.attempt <= 1));
    }
    world.shutdown().unwrap();
    group.shutdown_within(Duration::from_secs(60)).expect("it ends");
}

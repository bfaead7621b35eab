//! A call that a world which ends has left to the next one: once its code is called there, that is
//! written, so that what interrupts it counts.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use turnwheel_engine::{
    Action, ActionError, MemoryStore, Next, PlanId, PlanResult, RetryPolicy, RunAsync, RunsAsync,
    StepContext, StepState, World,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::Backoff;

/// Notes its attempts; needs no place in its queue. The first one fails, the second never returns.
#[derive(Clone, Default)]
struct Stuck(Arc<Mutex<Vec<u32>>>);

impl Action for Stuck {
    const NAME: &'static str = "stuck";
    type Input = ();
    type Output = ();
    type Phases = RunsAsync;

    fn retry(&self) -> RetryPolicy {
        RetryPolicy::attempts(9).pauses(Backoff::constant(Duration::from_secs(7)))
    }
}

impl RunAsync for Stuck {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        self.0.lock().expect("nothing panics under it").push(step.attempt());
        match step.attempt() {
            1 => Err(ActionError::new("again", "as it was told")),
            2 => std::future::pending().await,
            _ => Ok(Next::Done),
        }
    }
}

/// Never returns: the world waits for it when it ends.
struct Long;

impl Action for Long {
    const NAME: &'static str = "long";
    type Input = ();
    type Output = ();
    type Phases = RunsAsync;
}

impl RunAsync for Long {
    async fn run(&self, _: &mut StepContext<Self>) -> Result<Next, ActionError> {
        std::future::pending().await
    }
}

fn open(store: &MemoryStore, stuck: &Stuck, seed: u64) -> (Sim, World) {
    let sim = Sim::new(seed);
    let builder = World::builder().action(stuck.clone()).action(Long).seed(seed);
    let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
    let world = sim.block_on(builder.open(store.clone())).expect("it ends").expect("it opens");
    (sim, world)
}

/// Its run step: its state, its written calls, and whether it waits for a place.
fn step(sim: &Sim, world: &World, plan: PlanId) -> (StepState, u32, bool) {
    let view = sim.block_on(world.plan(plan).view()).expect("it ends").expect("it is there");
    let step = view.run_step::<Stuck>().expect("it has one");
    (step.state, step.calls, step.is_queued)
}

#[test]
fn a_call_that_was_left_to_another_world_is_written_before_it_is_made_there() {
    let (store, stuck) = (MemoryStore::new(), Stuck::default());
    let plan = {
        let (sim, world) = open(&store, &stuck, 1);
        let plan = sim.block_on(world.trigger::<Stuck>(())).unwrap().unwrap().id();
        sim.block_on(world.trigger::<Long>(())).unwrap().unwrap();
        sim.run_until_idle();
        let mut ending = pin!(world.terminate(Duration::from_secs(60)));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(ending.as_mut().poll(&mut cx).is_pending(), "a call is under way");
        sim.advance(Duration::from_secs(8));
        assert_eq!(step(&sim, &world, plan), (StepState::Running, 2, true), "it is left");
        plan
    };
    // This world makes the call, and dies in it.
    {
        let (sim, world) = open(&store, &stuck, 2);
        sim.run_until_idle();
        assert_eq!(*stuck.0.lock().unwrap(), [1, 2]);
        assert_eq!(step(&sim, &world, plan), (StepState::Running, 2, false), "it is called");
    }
    // So that one is over: it is not made again as if it had never begun.
    let (sim, world) = open(&store, &stuck, 3);
    sim.advance(Duration::from_secs(60));
    assert_eq!(*stuck.0.lock().unwrap(), [1, 2, 3]);
    assert_eq!(step(&sim, &world, plan), (StepState::Success, 3, false));
    let view = sim.block_on(world.plan(plan).finished()).unwrap().unwrap();
    assert_eq!(view.result(), PlanResult::Success);
}

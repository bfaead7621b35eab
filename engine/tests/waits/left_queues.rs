//! Steps that waited for places in queues, in a world where they need none.

use std::time::Duration;

use turnwheel_engine::{
    Action, ActionError, Next, Queue, Run, RunAsync, Runs, RunsAsync, StepContext, WorldBuilder,
};

use crate::common::Theatre;

/// Blocks a thread of the queue `slow`.
struct Slow;

impl Action for Slow {
    const NAME: &'static str = "slow";
    type Input = ();
    type Output = ();
    type Phases = Runs;

    fn queue(&self) -> Option<&str> {
        Some("slow")
    }
}

impl Run for Slow {
    fn run(&self, _: &mut StepContext<Self>) -> Result<Next, ActionError> {
        Ok(Next::Done)
    }
}

/// Waits for so many events in the queue `slow`.
struct Hear;

impl Action for Hear {
    const NAME: &'static str = "hear";
    type Input = usize;
    type Output = Vec<u32>;
    type Phases = RunsAsync;

    fn queue(&self) -> Option<&str> {
        Some("slow")
    }
}

impl RunAsync for Hear {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output.extend(step.event::<u32>()?);
        if step.output.len() < step.input {
            return Ok(Next::suspend("an event"));
        }
        Ok(Next::Done)
    }
}

fn actions(slow: Queue) -> impl FnOnce(WorldBuilder) -> WorldBuilder {
    |builder| builder.action(Slow).action(Hear).queue(slow)
}

#[test]
fn an_event_that_waited_for_a_place_is_heard_once_where_none_is_needed() {
    let theatre = Theatre::with(|_| {}, actions(Queue::new("slow").size(1)));
    theatre.sim.block_for(Duration::from_secs(60));
    let hears = theatre.sim.block_on(theatre.world.trigger::<Hear>(2));
    let hears = hears.expect("it ends").expect("the plan is taken");
    let step = theatre.settle(&hears).run_step::<Hear>().expect("it runs").id;
    let slow = theatre.sim.block_on(theatre.world.trigger::<Slow>(()));
    slow.expect("it ends").expect("the plan is taken");
    theatre.done(theatre.world.event(hears.id(), step, Some("first"), &1)).unwrap();
    let view = theatre.settle(&hears);
    assert!(view.run_step::<Hear>().expect("it is there").is_queued, "{}", view.waits_for());
    // A world that ends in order lets all its calls wait for places, too.
    let slow = Queue::new("slow").size(1).only_blocking();
    let theatre = theatre.crash_with(|_| {}, actions(slow));
    let hears = theatre.world.plan(hears.id());
    let view = theatre.settle(&hears);
    assert_eq!(view.output::<Hear>().unwrap(), [1]);
    assert_eq!(view.waits_for(), "an event");
    for (id, event) in [("first", 1), ("second", 2)] {
        theatre.done(theatre.world.event(hears.id(), step, Some(id), &event)).unwrap();
    }
    let view = theatre.finished(&hears);
    assert_eq!(view.output::<Hear>().unwrap(), [1, 2]);
    assert!(view.run_step::<Hear>().expect("it has run").was_called);
}

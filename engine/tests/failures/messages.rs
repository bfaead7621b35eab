//! Messages to users of a world that has ended: they say what happened and what to do, in the words of the
//! engine and not of what it is made of.

use std::time::Duration;

use turnwheel_engine::store::Filter;
use turnwheel_engine::{
    Action, ActionError, Delay, MemoryStore, Next, PlanHandle, Retention, RunAsync, RunsAsync,
    StepContext, StepId, World,
};

/// Waits for an event.
struct Wait;

impl Action for Wait {
    const NAME: &'static str = "wait";
    type Input = ();
    type Output = ();
    type Phases = RunsAsync;
}

impl RunAsync for Wait {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        Ok(if step.has_event() { Next::Done } else { step.wait_for_event("an event") })
    }
}

fn text<T, E: std::fmt::Display>(outcome: Result<T, E>) -> String {
    outcome.err().expect("the world has ended").to_string()
}

/// Asks everything, and gives the errors.
fn all_errors(world: &World, plan: &PlanHandle) -> Vec<String> {
    let event = world.event(plan.id(), StepId(1), None, &1).wait();
    let cancel = plan.cancel("ann").wait();
    let schedules = world.schedules().list("", 10).wait();
    vec![
        text(world.trigger::<Wait>(()).wait()),
        text(world.delay::<Wait>(Delay::frozen(), ()).wait()),
        text(plan.view().wait()),
        text(plan.finished().wait()),
        text(world.list(Filter::default()).wait()),
        text(world.counts().wait()),
        text(world.find("key").wait()),
        text(world.stats().wait()),
        text(world.clean(Retention::older_than(Duration::ZERO)).wait()),
        event.map_or_else(|failure| failure.to_string(), text),
        cancel.map_or_else(|failure| failure.to_string(), text),
        schedules.map_or_else(|failure| failure.to_string(), text),
    ]
}

#[test]
fn what_an_ended_world_answers_names_no_part_of_the_machinery() {
    let world = World::builder().action(Wait).build(MemoryStore::new()).expect("it begins");
    let plan = world.trigger::<Wait>(()).wait().expect("it is taken");
    let finished = plan.finished();
    world.shutdown().expect("it ends");
    let mut all = all_errors(&world, &plan);
    all.push(text(finished.wait()));
    for message in all {
        for internal in ["completer", "mailbox", "actor", "task", "job", "channel", "worker"] {
            assert!(!message.contains(internal), "«{internal}» in: {message}");
        }
        let says_why = ["ended", "ending", "no executor"].iter().any(|why| message.contains(why));
        assert!(says_why, "{message}");
    }
}

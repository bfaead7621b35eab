//! Events from a step to another plan: delivered at least once, taken once.

use std::time::Duration;

use turnwheel_engine::{
    action, ActionError, EventTarget, MemoryStore, Next, PlanHandle, PlanResult, Retention,
    StepContext, StoreError, TriggerOptions, World,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_testkit::FaultStore;

use crate::common::Theatre;

/// Writes down its events, until one says that it is the last.
#[action(output = Vec<String>)]
async fn listen(step: &mut StepContext<Listen>) -> Result<Next, ActionError> {
    let Some(event) = step.event::<String>()? else { return Ok(step.wait_for_event("events")) };
    let is_last = event == "end";
    step.output.push(event);
    Ok(if is_last { Next::Done } else { step.wait_for_event("more events") })
}

/// Sends two events to the plan that its input says, one of them twice.
#[action]
async fn speak(to: &EventTarget, step: &mut StepContext<Speak>) -> Result<(), ActionError> {
    step.send_event::<Listen>(to.clone(), "first", &"hello")?;
    step.send_event::<Listen>(to.clone(), "second", &"again")?;
    step.send_event::<Listen>(to.clone(), "first", &"hello")
}

/// Fails after it has sent an event.
#[action]
async fn stammer(to: &EventTarget, step: &mut StepContext<Stammer>) -> Result<(), ActionError> {
    step.send_event::<Listen>(to.clone(), "first", &"hello")?;
    Err(ActionError::new("told", "to fail"))
}

fn open() -> Theatre {
    Theatre::with(|_| {}, |world| world.action(Listen).action(Speak).action(Stammer))
}

fn listen_to(theatre: &Theatre) -> PlanHandle {
    let options = TriggerOptions::new().key("ear").label("ear", "left");
    let plan = theatre.sim.block_on(theatre.world.trigger_with::<Listen>(options, ()));
    plan.expect("it ends").expect("the plan is taken")
}

fn heard(theatre: &Theatre, plan: &PlanHandle) -> Vec<String> {
    theatre.settle(plan).output::<Listen>().expect("it listens")
}

#[test]
fn events_reach_a_plan_by_its_id_key_or_label_once() {
    let theatre = open();
    let plan = listen_to(&theatre);
    let label = EventTarget::Label("ear".to_owned(), "left".to_owned());
    for to in [plan.id().into(), EventTarget::Key("ear".to_owned()), label] {
        let spoken = theatre.world.trigger::<Speak>(to).outcome::<Speak>();
        theatre.sim.block_on(spoken).expect("it ends").expect("it has spoken");
    }
    let mut all = heard(&theatre, &plan);
    all.sort();
    assert_eq!(all, ["again", "again", "again", "hello", "hello", "hello"]);
    let view = theatre.settle(&plan);
    let lines = view.history.iter().filter(|line| line.text.contains("has an event from plan"));
    assert_eq!(lines.count(), 6, "the history says from whom");
}

#[test]
fn event_that_cannot_be_delivered_is_in_the_history_of_its_sender() {
    let theatre = open();
    let plan = listen_to(&theatre);
    theatre.done(plan.cancel("ann")).expect("it listens");
    let to = [plan.id().into(), EventTarget::Key("nose".to_owned())];
    for (to, why) in to.into_iter().zip(["takes no events any more", "no plan has the key"]) {
        let spoken = theatre.sim.block_on(theatre.world.trigger::<Speak>(to));
        let spoken = spoken.expect("it ends").expect("the plan is taken");
        let view = theatre.settle(&spoken);
        assert_eq!(view.result(), PlanResult::Success);
        let lines = view.history.iter().filter(|line| line.text.contains(why));
        assert_eq!(lines.count(), 2, "{:?}", view.history);
    }
}

#[test]
fn call_that_fails_sends_nothing() {
    let theatre = open();
    let plan = listen_to(&theatre);
    let failed = theatre.world.trigger::<Stammer>(plan.id().into());
    theatre.sim.block_on(failed).expect("it ends").expect("the plan is taken");
    assert!(heard(&theatre, &plan).is_empty());
}

#[test]
fn events_are_taken_once_wherever_the_process_ends() {
    for jobs in 0.. {
        let theatre = open();
        let plan = listen_to(&theatre);
        theatre.sim.run_until_idle();
        let (id, to) = (plan.id(), EventTarget::Key("ear".to_owned()));
        let begun = theatre.world.trigger_once::<Speak>("mouth", to.clone());
        let is_over = !(0..jobs).all(|_| theatre.sim.run_one());
        drop((begun, plan));
        let again = |world: turnwheel_engine::WorldBuilder| {
            world.action(Listen).action(Speak).action(Stammer)
        };
        let theatre = theatre.crash_with(|_| {}, again);
        // The ids of a simulation follow from its time.
        theatre.sim.advance(Duration::from_secs(1));
        let begun = theatre.sim.block_on(theatre.world.trigger_once::<Speak>("mouth", to));
        begun.expect("it ends").expect("the plan is taken");
        theatre.sim.advance(Duration::from_secs(5));
        let mut all = heard(&theatre, &theatre.world.plan(id));
        all.sort();
        assert_eq!(all, ["again", "hello"], "the process has ended after {jobs} jobs");
        if is_over {
            assert!(jobs > 20, "{jobs} jobs are too few to be all");
            break;
        }
    }
}

#[test]
fn event_is_delivered_when_the_store_is_well_again() {
    let store = FaultStore::new(MemoryStore::new());
    let sim = Sim::new(3);
    let builder = World::builder().action(Listen).action(Speak).seed(3);
    let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
    let world = sim.block_on(builder.open(store.clone())).expect("it ends").expect("it begins");
    let plan = sim.block_on(world.trigger::<Listen>(())).expect("it ends").expect("taken");
    let spoken = sim.block_on(world.trigger::<Speak>(plan.id().into()));
    spoken.expect("it ends").expect("taken");
    store.fail(StoreError::Failed("the disk is away".to_owned()));
    sim.advance(Duration::from_secs(3));
    store.heal();
    sim.advance(Duration::from_secs(10));
    let view = sim.block_on(plan.view()).expect("it ends").expect("it is there");
    assert_eq!(view.output::<Listen>().expect("it listens").len(), 2);
}

#[test]
fn sender_is_not_cleaned_away_before_its_events_are_delivered() {
    let store = FaultStore::new(MemoryStore::new());
    let sim = Sim::new(3);
    let builder = World::builder().action(Listen).action(Speak).seed(3);
    let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
    let world = sim.block_on(builder.open(store.clone())).expect("it ends").expect("it begins");
    let options = TriggerOptions::new().key("ear");
    let plan = sim.block_on(world.trigger_with::<Listen>(options, ())).expect("it ends");
    let plan = plan.expect("it is taken");
    let to = EventTarget::Key("ear".to_owned());
    let spoken = sim.block_on(world.trigger::<Speak>(to)).expect("it ends").expect("taken");
    // The plan that has the key is not found.
    store.fail_reads(StoreError::Failed("the disk is away".to_owned()));
    sim.block_on(spoken.finished()).expect("it ends").expect("it has spoken");
    sim.advance(Duration::from_millis(20));
    store.heal();
    let clean = || sim.block_on(world.clean(Retention::older_than(Duration::ZERO)));
    let cleaned = clean().expect("it ends").expect("the store is well");
    assert_eq!((cleaned.plans, cleaned.kept), (0, 1), "its events are not delivered");
    sim.advance(Duration::from_secs(10));
    let view = sim.block_on(plan.view()).expect("it ends").expect("it is there");
    assert_eq!(view.output::<Listen>().expect("it listens").len(), 2);
    let cleaned = clean().expect("it ends").expect("the store is well");
    assert_eq!((cleaned.plans, cleaned.kept), (1, 0));
}

#[test]
fn event_for_a_label_is_delivered_although_the_store_is_full_for_a_while() {
    for jobs in 0.. {
        let store = FaultStore::new(MemoryStore::new());
        let sim = Sim::new(3);
        let builder = World::builder().action(Listen).action(Speak).seed(3);
        let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
        let world = sim.block_on(builder.open(store.clone())).expect("it ends").expect("it begins");
        let options = TriggerOptions::new().label("ear", "left");
        let plan = sim.block_on(world.trigger_with::<Listen>(options, ()));
        let plan = plan.expect("it ends").expect("it is taken");
        let label = EventTarget::Label("ear".to_owned(), "left".to_owned());
        let spoken = sim.block_on(world.trigger::<Speak>(label)).expect("it ends");
        spoken.expect("it is taken");
        let is_over = !(0..jobs).all(|_| sim.run_one());
        store.fail(StoreError::Full("no room".to_owned()));
        sim.advance(Duration::from_secs(3));
        store.heal();
        sim.advance(Duration::from_secs(10));
        let view = sim.block_on(plan.view()).expect("it ends").expect("it is there");
        assert_eq!(view.output::<Listen>().expect("it listens").len(), 2, "after {jobs} jobs");
        if is_over {
            assert!(jobs > 10, "{jobs} jobs are too few to be all");
            break;
        }
    }
}

//! Events of flows, where several worlds have one store.

use std::time::Duration;

use serde_json::{json, Value};
use turnwheel_engine::schedule::Schedule;
use turnwheel_engine::{MemoryStore, Payload, PlanHandle, StoreError, TriggerError, World};
use turnwheel_flow::{result, CloudEvent, FakeIo, Flow, FlowError, Flows, WithFlows};
use turnwheel_runtime::sim::Sim;
use turnwheel_testkit::FaultStore;

use crate::common::worlds::Stage;
use crate::flow_common::load;

fn executor(stage: &Stage, name: &str) -> (World, Flows) {
    let world = stage.join(name, World::builder().name(name).flows(FakeIo::new()));
    let flows = Flows::new(&world).expect("it has flows");
    (world, flows)
}

fn listener() -> Flow {
    load("do: [ { l: { listen: { to: { one: { with: { type: a.b } } } } } } ]\n")
}

/// Plans that listen, in whichever world they are.
fn listening(stage: &Stage, flows: &Flows, count: usize) -> Vec<PlanHandle> {
    let flow = listener();
    stage.passing(flows.add(&flow)).expect("it is added");
    let plans: Vec<_> = (0..count)
        .map(|_| stage.passing(flows.start(&flow, json!({}))).expect("it starts"))
        .collect();
    for plan in &plans {
        assert!(stage.view(plan).waits_for().contains("the event a.b"));
    }
    plans
}

fn event(id: &str) -> CloudEvent {
    CloudEvent::new(id, "/test", "a.b").data(json!({ "n": 1 }))
}

fn got(stage: &Stage, world: &World, plan: &PlanHandle) -> Value {
    let plan = world.plan(plan.id());
    result(&stage.passing(plan.finished()).expect("it ends")).expect("it ends well")
}

#[test]
fn an_event_reaches_those_who_listen_in_all_worlds() {
    let stage = Stage::over(MemoryStore::new());
    let (first, flows) = executor(&stage, "first");
    let (second, far) = executor(&stage, "second");
    let mut plans = listening(&stage, &flows, 4);
    plans.extend(listening(&stage, &far, 4));
    let owners: Vec<_> = plans.iter().map(|plan| first.owner_of(plan.id())).collect();
    assert!(owners.contains(&Some(first.id())) && owners.contains(&Some(second.id())));
    let published = stage.passing(far.publish(event("1"))).expect("all are told");
    assert_eq!(published.delivered, 8);
    for plan in &plans {
        assert_eq!(got(&stage, &first, plan), json!([{ "n": 1 }]));
    }
    let again = stage.passing(flows.publish(event("1"))).expect("nobody is there");
    assert_eq!(again.delivered, 0);
}

#[test]
fn a_repeated_event_is_told_as_one_wherever_those_are_who_had_it() {
    let stage = Stage::over(MemoryStore::new());
    let (_first, flows) = executor(&stage, "first");
    let (_second, far) = executor(&stage, "second");
    let flow = |name: &str, rest: &str| {
        let head =
            format!("document: {{ dsl: '1.0.3', namespace: t, name: {name}, version: '1.0.0' }}");
        turnwheel_flow::load(&format!("{head}\n{rest}"), name).expect("it is right")
    };
    let begins =
        "schedule: { on: { one: { with: { type: a.b } } } }\ndo: [ { s: { set: { a: 1 } } } ]\n";
    let begins = flow("begins", begins);
    let hears = "do: [ { hear: { listen: { to: { any: [ { with: { type: a.b } } ], until: 'false' } } } } ]\n";
    let hears = flow("hears", hears);
    for at in [&flows, &far] {
        for flow in [&begins, &hears] {
            stage.passing(at.add(flow)).expect("it is added");
        }
        let plan = stage.passing(at.start(&hears, json!({}))).expect("it starts");
        assert!(stage.view(&plan).waits_for().contains("a.b"), "{}", stage.view(&plan).waits_for());
    }
    let publish = |at: &Flows| {
        let told = stage.passing(at.publish(event("1"))).expect("all are told");
        (told.delivered, told.repeated, told.started.len(), told.is_repeated())
    };
    assert_eq!(publish(&flows), (2, 0, 1, false), "both worlds begin the same plan");
    assert_eq!(publish(&far), (0, 3, 1, true));
}

#[test]
fn a_schedule_may_launch_a_flow_that_was_added_at_another_world_just_now() {
    let stage = Stage::over(MemoryStore::new());
    let (_first, flows) = executor(&stage, "first");
    let (second, _far) = executor(&stage, "second");
    let flow = load("do: [ { a: { set: { b: 1 } } } ]\n");
    stage.passing(flows.add(&flow)).expect("it is added");
    let input = Payload::of(&flow.start(json!({}))).expect("it is small");
    let schedule = Schedule::every("hourly", Duration::from_secs(3_600));
    let schedule = schedule.action_named("flow", input);
    stage.passing(second.schedules().put(schedule)).unwrap().expect("the flow is known");
}

#[test]
fn a_flow_that_another_world_has_taken_over_listens_there_at_once() {
    let stage = Stage::over(MemoryStore::new());
    let (first, flows) = executor(&stage, "first");
    let plans = listening(&stage, &flows, 4);
    let (second, far) = executor(&stage, "second");
    let more = listening(&stage, &flows, 4);
    let here = flows.listeners();
    assert!(stage.passing(second.invalidate(first.id())).expect("the store is well"));
    assert!(here > 0 && flows.listeners() == 0, "those that were given away are forgotten");
    let published = stage.passing(far.publish(event("1"))).expect("all are told");
    assert_eq!(published.delivered, 8, "of the dead world, too");
    for plan in plans.iter().chain(&more) {
        assert_eq!(got(&stage, &second, plan), json!([{ "n": 1 }]));
    }
}

#[test]
fn an_emitted_event_starts_a_flow_once_however_many_worlds_there_are() {
    let stage = Stage::over(MemoryStore::new());
    let (first, flows) = executor(&stage, "first");
    let begins = load(
        "schedule: { on: { one: { with: { type: a.b } } } }\ndo: [ { s: { set: '${ $workflow.input[0].data }' } } ]\n",
    );
    stage.passing(flows.add(&begins)).expect("it is added");
    // It reads what was added before it came: both know the flow.
    let (_second, far) = executor(&stage, "second");
    let published = stage.passing(far.publish(event("7"))).expect("all are told");
    assert_eq!(published.started.len(), 1);
    let plan = first.plan(published.started[0]);
    assert_eq!(got(&stage, &first, &plan), json!({ "n": 1 }));
}

#[test]
fn event_that_another_world_cannot_store_now_is_refused_as_passing_and_taken_when_it_comes_again() {
    let store = FaultStore::new(MemoryStore::new());
    let stage = Stage::over(store.clone());
    let client = World::builder().name("client").client().flows(FakeIo::new());
    let client = stage.join("client", client);
    let asked = Flows::new(&client).expect("it has flows");
    let nobody = stage.passing(asked.publish(event("7")));
    assert!(matches!(nobody, Err(FlowError::Passing(_))), "{nobody:?}");
    let (_executor, flows) = executor(&stage, "first");
    let begins = load(
        "schedule: { on: { one: { with: { type: a.b } } } }\ndo: [ { s: { set: { n: 1 } } } ]\n",
    );
    stage.passing(flows.add(&begins)).expect("it is added");
    store.fail_entries(StoreError::Failed("read-only for a moment".to_owned()));
    let refused = stage.passing(asked.publish(event("7")));
    let is_passing = matches!(refused, Err(FlowError::Trigger(TriggerError::Store(_))));
    assert!(is_passing, "{refused:?}");
    store.heal();
    let published = stage.passing(asked.publish(event("7"))).expect("the store is well again");
    assert_eq!(published.started.len(), 1);
}

#[test]
fn schedule_of_a_flow_that_cannot_be_stored_now_is_no_wrong_schedule() {
    let store = FaultStore::new(MemoryStore::new());
    let stage = Stage::over(store.clone());
    let (_world, flows) = executor(&stage, "first");
    let flow = load("schedule: { every: { hours: 1 } }\ndo: [ { s: { set: { n: 1 } } } ]\n");
    stage.passing(flows.add(&flow)).expect("it is added");
    store.fail(StoreError::Failed("read-only for a moment".to_owned()));
    let refused = stage.passing(flows.schedule(&flow));
    assert!(matches!(refused, Err(FlowError::Store(_))), "{refused:?}");
    store.heal();
    stage.passing(flows.schedule(&flow)).expect("the store is well again");
}

#[test]
fn a_definition_that_was_not_written_is_not_said_to_be_there() {
    let store = FaultStore::new(MemoryStore::new());
    let flow = load("do: [ { s: { set: { n: 1 } } } ]\n");
    let open = |seed| {
        let sim = Sim::new(seed);
        let builder = World::builder().flows(FakeIo::new()).group(&sim.group("plans"));
        let opened = sim.block_on(builder.io_group(&sim.group("journal")).open(store.clone()));
        let world = opened.expect("it ends").expect("it can be built");
        sim.run_until_idle();
        (Flows::new(&world).expect("it has flows"), world, sim)
    };
    let (flows, world, sim) = open(1);
    store.fail_at(store.commits() + 1, StoreError::Failed("this once".to_owned()));
    let refused = sim.block_on(flows.add(&flow)).expect("it ends");
    assert!(matches!(refused, Err(FlowError::Store(_))), "{refused:?}");
    sim.block_on(flows.add(&flow)).expect("it ends").expect("the store is well again");
    drop((flows, world, sim));
    // This one knows what is in the store, and nothing else.
    let (flows, _world, sim) = open(2);
    let plan = sim.block_on(flows.start(&flow, json!({}))).expect("it ends").expect("it starts");
    let view = sim.block_on(plan.finished()).expect("it ends").expect("it is there");
    assert_eq!(result(&view).expect("its definition is found"), json!({ "n": 1 }));
}

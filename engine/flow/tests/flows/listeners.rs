//! Flows that listen: whom an event is delivered to, and when nobody listens any more.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{json, Value};
use turnwheel_engine::{PlanHandle, PlanState, StoreError, World};
use turnwheel_flow::{CloudEvent, FakeIo, Flows, HttpResponse, WithFlows};
use turnwheel_runtime::sim::Sim;
use turnwheel_testkit::FaultStore;

use crate::flow_common::{load, Stage};

fn event(id: &str, kind: &str, data: Value) -> CloudEvent {
    CloudEvent::new(id, "https://shop.example", kind).data(data)
}

fn told(stage: &Stage, id: &str, kind: &str, data: Value) -> (usize, usize) {
    let told = stage.publish(event(id, kind, data));
    stage.pass(0);
    (told.delivered, told.undecided)
}

/// How many events the plans have got in all.
fn heard(stage: &Stage, plans: &[PlanHandle]) -> usize {
    let views = plans.iter().map(|plan| stage.view(plan));
    views.map(|view| view.steps.iter().map(|step| step.calls as usize).sum::<usize>()).sum()
}

#[test]
fn a_correlated_event_is_written_to_the_plan_that_expects_its_value_only() {
    let stage = Stage::new(FakeIo::new());
    let flow = load(
        "
do:
  - paid:
      listen:
        to:
          one:
            with: { type: order.paid }
            correlate: { order: { from: .order, expect: '${ .order }' } }
",
    );
    let plans: Vec<_> = (0..20).map(|n| stage.start(&flow, json!({ "order": n }))).collect();
    stage.pass(1);
    assert_eq!(told(&stage, "1", "order.paid", json!({ "order": 21 })), (0, 0));
    assert_eq!(told(&stage, "2", "order.shipped", json!({ "order": 3 })), (0, 0));
    assert_eq!(told(&stage, "3", "order.paid", json!({ "order": 3 })), (1, 0));
    assert_eq!(stage.result(&plans[3]).unwrap(), json!([{ "order": 3 }]));
    // The values are stored: another world finds the plans by them as well.
    let ids: Vec<_> = plans.iter().map(PlanHandle::id).collect();
    let stage = stage.crash(Duration::from_secs(1));
    assert_eq!(stage.flows.listeners(), 19);
    assert_eq!(told(&stage, "4", "order.paid", json!({ "order": 5 })), (1, 0));
    assert_eq!(stage.result(&stage.world.plan(ids[5])).unwrap(), json!([{ "order": 5 }]));
    assert_eq!(stage.flows.listeners(), 18);
}

#[test]
fn flow_hears_events_after_a_start_of_which_any_read_has_failed() {
    let mut refused = 0;
    for read in 1.. {
        let stage = listening();
        stage.pass(1);
        let fault = |store: &FaultStore| {
            store.fail_read_at(read, StoreError::Failed("the disk was away".to_owned()));
        };
        let (delivered, again, store) = told_after_fault(stage, fault);
        if store.reads() < read {
            break;
        }
        assert_eq!(delivered, 1, "after read {read}");
        refused += again;
    }
    assert!(refused > 1, "{refused} starts were refused");
}

#[test]
fn flow_hears_events_after_a_start_of_which_any_commit_has_failed() {
    let mut refused = 0;
    for commit in 1.. {
        // The row of the plan is not written when the process ends.
        let stage = listening();
        stage.sim.run_until_idle();
        let fault =
            |store: &FaultStore| store.fail_at(commit, StoreError::Full("no room".to_owned()));
        let (delivered, again, store) = told_after_fault(stage, fault);
        if store.commits() < commit {
            break;
        }
        assert_eq!(delivered, 1, "after commit {commit}");
        refused += again;
    }
    assert!(refused > 0, "no start was refused");
}

/// A stage with one plan that waits for the event `go`.
fn listening() -> Stage {
    let flow = load("do: [ { go: { listen: { to: { one: { with: { type: go } } } } } } ]");
    let stage = Stage::new(FakeIo::new());
    stage.start(&flow, json!({}));
    stage
}

/// Ends `stage`, opens a world on its store with a fault, a second time if the first is refused,
/// and publishes the event: plans it was delivered to, refused starts, the store.
fn told_after_fault(stage: Stage, fault: impl FnOnce(&FaultStore)) -> (usize, usize, FaultStore) {
    let (store, wall) = (FaultStore::new(stage.store.clone()), stage.sim.wall());
    drop(stage);
    fault(&store);
    let sim = Sim::builder().seed(6).wall(wall + Duration::from_secs(60)).build();
    let open = || {
        let builder = World::builder().flows(FakeIo::new()).seed(1);
        let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
        sim.block_on(builder.open(store.clone())).expect("it ends")
    };
    let mut refused = 0;
    let world = open().unwrap_or_else(|_| {
        refused = 1;
        open().expect("the store is well again")
    });
    let flows = Flows::new(&world).expect("it has flows");
    let told = sim.block_on(flows.publish(event("1", "go", json!({}))));
    let told = told.expect("it ends").expect("it is told");
    (told.delivered, refused, store)
}

/// Changes one bit in all that the store has of a plan.
fn damage(file: &std::path::Path, plan: turnwheel_engine::PlanId) {
    let file = turnwheel_sqlite::rusqlite::Connection::open(file).expect("it opens");
    let invert = "UPDATE journal SET records = records || x'00' WHERE plan = ?1";
    file.execute(invert, [plan.to_bytes()]).expect("it is written");
}

#[test]
fn damaged_flow_that_listens_keeps_no_event_from_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("plans.db");
    let sim = Sim::new(5);
    let builder = World::builder().flows(FakeIo::new()).seed(1);
    let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
    let store = turnwheel_sqlite::SqliteStore::new(&file);
    let world = sim.block_on(builder.open(store)).expect("it ends").expect("it begins");
    let flows = Flows::new(&world).expect("it has flows");
    let listens = load("do: [ { go: { listen: { to: { one: { with: { type: go } } } } } } ]");
    let starts = turnwheel_flow::load(
        "
document: { dsl: '1.0.3', namespace: test, name: starts, version: '1.0.0' }
schedule: { on: { one: { with: { type: go } } } }
do: [ { set: { set: { a: 1 } } } ]
",
        "starts",
    )
    .expect("it is right");
    for flow in [&listens, &starts] {
        sim.block_on(flows.add(flow)).expect("it ends").expect("it can be added");
    }
    let plans: Vec<_> = (0..2)
        .map(|_| sim.block_on(flows.start(&listens, json!({}))).expect("it ends").expect("taken"))
        .collect();
    sim.advance(Duration::from_secs(60));
    damage(&file, plans[0].id());
    let told = sim.block_on(flows.publish(event("1", "go", json!({})))).expect("it ends");
    let told = told.expect("it is told to the others");
    assert_eq!((told.delivered, told.started.len()), (1, 1));
    let letters = world.dead_letters().letters;
    assert_eq!(letters.len(), 1, "it is kept for the damaged plan");
    assert!(letters[0].reason.contains("is damaged"), "{}", letters[0].reason);
    sim.advance(Duration::from_secs(60));
    let view = sim.block_on(plans[1].view()).expect("it ends").expect("it reads");
    assert_eq!(view.state, PlanState::Stopped);
}

#[test]
fn the_value_of_the_first_event_selects_the_plans_of_the_next_ones() {
    let stage = Stage::new(FakeIo::new());
    let flow = load(
        "
do:
  - both:
      listen:
        to:
          all:
            - with: { type: order.paid }
              correlate: { order: { from: .order } }
            - with: { type: order.packed }
              correlate: { order: { from: .order } }
",
    );
    let first = stage.start(&flow, json!({}));
    stage.pass(1);
    assert_eq!(told(&stage, "1", "order.paid", json!({ "order": 1 })), (1, 1));
    let second = stage.start(&flow, json!({}));
    stage.pass(1);
    assert_eq!(told(&stage, "2", "order.packed", json!({ "order": 2 })), (1, 1));
    assert_eq!(told(&stage, "3", "order.packed", json!({ "order": 3 })), (0, 0));
    let before = heard(&stage, &[first.clone(), second.clone()]);
    assert_eq!(told(&stage, "4", "order.packed", json!({ "order": 1 })), (1, 1));
    assert_eq!(told(&stage, "5", "order.paid", json!({ "order": 2 })), (1, 1));
    assert_eq!(heard(&stage, &[first.clone(), second.clone()]), before + 2 + 2);
    let of = |order: u32| json!([{ "order": order }, { "order": order }]);
    assert_eq!(stage.result(&first).unwrap(), of(1));
    assert_eq!(stage.result(&second).unwrap(), of(2));
}

#[test]
fn a_type_with_dots_is_no_regular_expression() {
    let stage = Stage::new(FakeIo::new());
    stage.start(
        &load("do: [ { a: { listen: { to: { one: { with: { type: a.b } } } } } } ]\n"),
        json!({}),
    );
    stage.pass(1);
    assert_eq!(told(&stage, "1", "axb", json!({})), (0, 0));
    assert_eq!(told(&stage, "2", "a.b", json!({})), (1, 0));
}

/// The next event finds nobody: it is neither delivered nor a dead letter.
fn nobody_listens(stage: &Stage) {
    stage.pass(1);
    assert_eq!(stage.flows.listeners(), 0);
    let unheard = stage.flows.unheard();
    assert_eq!(told(stage, "next", "order.paid", json!({})), (0, 0));
    assert_eq!(stage.flows.unheard(), unheard + 1);
    assert_eq!(stage.world.dead_letters().total, 0);
}

const LISTENS: &str = "
do:
  - paid: { listen: { to: { one: { with: { type: order.paid } } } } }
";

#[test]
fn a_task_that_has_timed_out_listens_no_more() {
    let stage = Stage::new(FakeIo::new());
    let flow = load(
        "
do:
  - careful:
      try:
        - paid:
            listen: { to: { one: { with: { type: order.paid } } } }
            timeout: { after: PT1S }
      catch: { do: [ { rest: { wait: PT1H } } ] }
",
    );
    let plan = stage.start(&flow, json!({}));
    stage.pass(2);
    assert_eq!(stage.view(&plan).state, PlanState::Running);
    nobody_listens(&stage);
}

#[test]
fn the_branches_that_have_lost_listen_no_more() {
    let stage = Stage::new(FakeIo::new());
    let flow = load(
        "
do:
  - race:
      fork:
        compete: true
        branches:
          - paid: { listen: { to: { one: { with: { type: order.paid } } } } }
          - gone: { listen: { to: { one: { with: { type: order.gone } } } } }
  - rest: { wait: PT1H }
",
    );
    stage.start(&flow, json!({}));
    stage.pass(1);
    assert_eq!(stage.flows.listeners(), 2);
    assert_eq!(told(&stage, "1", "order.gone", json!({})), (1, 0));
    nobody_listens(&stage);
}

#[test]
fn a_plan_that_is_cancelled_or_halted_listens_no_more() {
    let stage = Stage::new(FakeIo::new());
    let plan = stage.start(&load(LISTENS), json!({}));
    stage.pass(1);
    assert_eq!(stage.flows.listeners(), 1);
    let done = stage.sim.block_on(plan.cancel("a test"));
    assert!(matches!(done, Ok(Ok(Ok(())))));
    nobody_listens(&stage);
    let plan = stage.start(&load(LISTENS), json!({}));
    stage.pass(1);
    let done = stage.sim.block_on(plan.halt("a test"));
    assert!(matches!(done, Ok(Ok(Ok(())))));
    assert_eq!(stage.view(&plan).state, PlanState::Stopped);
    nobody_listens(&stage);
}

#[test]
fn the_time_limit_of_a_task_ends_with_the_task() {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let io = FakeIo::new().on_http(move |_| {
        let status = if counted.fetch_add(1, Ordering::Relaxed) == 0 { 503 } else { 200 };
        Ok(HttpResponse { status, ..HttpResponse::default() })
    });
    let stage = Stage::new(io);
    let flow = load(
        "
do:
  - careful:
      try:
        - get:
            call: http
            with: { method: get, endpoint: 'https://a.example/' }
            timeout: { after: PT1S }
      catch: { retry: { delay: PT3S, limit: { attempt: { count: 1 } } } }
  - done: { set: { is_done: true } }
",
    );
    let plan = stage.start(&flow, json!({}));
    assert_eq!(stage.result(&plan).unwrap(), json!({ "is_done": true }));
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}

#[test]
fn the_limit_of_a_task_that_processes_an_event_ends_with_it() {
    let stage = Stage::new(FakeIo::new());
    let flow = load(
        "
do:
  - hear:
      listen: { to: { any: [ { with: { type: vital } } ], until: length >= 2 } }
      foreach:
        item: event
        do: [ { keep: { set: '${ $event.n }', timeout: { after: PT1S } } } ]
",
    );
    let plan = stage.start(&flow, json!({}));
    stage.pass(1);
    stage.publish(event("1", "vital", json!({ "n": 1 })));
    stage.pass(5);
    stage.publish(event("2", "vital", json!({ "n": 2 })));
    assert_eq!(stage.result(&plan).unwrap(), json!([1, 2]));
}

#[test]
fn an_event_for_a_step_of_a_flow_is_refused_with_the_way_to_publish_it() {
    let stage = Stage::new(FakeIo::new());
    let plan = stage.start(&load(LISTENS), json!({}));
    stage.pass(1);
    let steps: Vec<_> = stage.view(&plan).steps.iter().map(|step| (step.id, step.state)).collect();
    for (step, state) in steps {
        for raw in [json!({ "is_paid": true }), json!({ "late": 1 }), json!(null)] {
            let sent = stage.world.event(plan.id(), step, None, &raw);
            let sent = stage.sim.block_on(sent).expect("it ends").expect("it is answered");
            let refused = sent.unwrap_err().to_string();
            if state == turnwheel_engine::StepState::Suspended {
                assert!(refused.contains("publish it"), "{refused}");
            }
        }
    }
    stage.pass(1);
    assert_eq!(stage.view(&plan).state, PlanState::Running);
    assert_eq!(told(&stage, "1", "order.paid", json!(7)), (1, 0));
    assert_eq!(stage.result(&plan).unwrap(), json!([7]));
}

#[test]
fn flow_that_is_halted_in_a_slow_turn_listens_no_more() {
    let flow = load(
        "
do:
  - paid:
      listen:
        to:
          one:
            with: { type: order.paid }
            correlate: { order: { from: .order, expect: '${ [range(60000)] | length }' } }
",
    );
    let mut calls = 0;
    for seed in 0..8 {
        for views in 0..3 {
            let sim = Sim::new(seed);
            let builder = World::builder().flows(FakeIo::new()).seed(seed);
            let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
            let opened = sim.block_on(builder.open(turnwheel_engine::MemoryStore::new()));
            let world = opened.expect("it ends").expect("it can be built");
            let flows = Flows::new(&world).expect("it has flows");
            sim.block_on(flows.add(&flow)).expect("it ends").expect("it is added");
            let plan = sim.block_on(flows.start(&flow, json!({})));
            let plan = plan.expect("it ends").expect("it starts");
            for _ in 0..views {
                sim.block_on(plan.view()).expect("it ends").expect("it is there");
            }
            sim.block_on(plan.halt("ann"))
                .expect("it ends")
                .expect("it is there")
                .expect("it runs");
            sim.advance(Duration::from_secs(10));
            let view = sim.block_on(plan.view()).expect("it ends").expect("it is there");
            calls += view.steps.iter().map(|step| step.calls).sum::<u32>();
            assert_eq!(flows.listeners(), 0, "seed {seed}, {views} views");
        }
    }
    assert!(calls > 24, "some had begun to listen: {calls} calls");
}

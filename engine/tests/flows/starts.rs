//! Flows that start by themselves: after their end, and with several events.

use std::time::Duration;

use serde_json::{json, Value};
use turnwheel_engine::flow::{result, CloudEvent, FakeIo, Flow, FlowPlan};
use turnwheel_engine::store::Filter;
use turnwheel_engine::Action;

use crate::flow_common::{load, problems, Stage};

fn scheduled(stage: &Stage, flow: &Flow) {
    stage.sim.block_on(stage.flows.add(flow)).expect("it ends").expect("it is added");
    let scheduled = stage.sim.block_on(stage.flows.schedule(flow));
    scheduled.expect("it ends").expect("it is scheduled");
    stage.sim.run_until_idle();
}

/// What came of the plans of flows, the oldest first; nothing of those that are not over.
fn results(stage: &Stage) -> Vec<Value> {
    stage.sim.run_until_idle();
    let filter =
        Filter { action: Some(FlowPlan::NAME.to_owned()), limit: 100, ..Filter::default() };
    let rows = stage.sim.block_on(stage.world.list(filter)).expect("it ends").expect("they are");
    let view = |id| stage.view(&stage.world.plan(id));
    rows.iter().rev().map(|row| result(&view(row.id)).unwrap_or_default()).collect()
}

#[test]
fn a_flow_starts_again_so_long_after_its_end() {
    let stage = Stage::new(FakeIo::new());
    let flow = load(
        "schedule: { after: PT10S }\ndo: [ { w: { wait: PT5S } }, { s: { set: { n: 1 } } } ]\n",
    );
    scheduled(&stage, &flow);
    let (over, runs) = (json!({ "n": 1 }), json!(null));
    assert_eq!(results(&stage), [json!(null)], "at once");
    stage.pass(6);
    assert_eq!(results(&stage), [json!({ "n": 1 })]);
    stage.pass(8);
    assert_eq!(results(&stage).len(), 1, "ten seconds after its end, not after its begin");
    stage.pass(3);
    assert_eq!(results(&stage), [over.clone(), runs]);
    let stage = stage.crash(Duration::from_secs(60));
    stage.pass(6);
    assert_eq!(results(&stage)[1], over);
    stage.pass(11);
    assert_eq!(results(&stage).len(), 3, "it goes on after a crash");
    assert!(problems("schedule: { after: PT0S }\ndo: [ { s: { set: { n: 1 } } } ]\n")
        .contains("longer than nothing"));
}

fn event(id: &str, kind: &str, data: Value) -> CloudEvent {
    CloudEvent::new(id, "/test", kind).data(data)
}

#[test]
fn a_flow_starts_when_all_its_events_are_there() {
    let stage = Stage::new(FakeIo::new());
    let flow = load(
        "
schedule:
  on: { all: [ { with: { type: a } }, { with: { type: b, data: '${ .n > 1 }' } } ] }
do: [ { s: { set: '${ [$workflow.input[] | .data.n] }' } } ]
",
    );
    scheduled(&stage, &flow);
    stage.publish(event("1", "a", json!({ "n": 1 })));
    stage.publish(event("2", "b", json!({ "n": 1 })));
    assert_eq!(results(&stage), [json!(null); 0]);
    let stage = stage.crash(Duration::from_secs(1));
    stage.publish(event("1", "a", json!({ "n": 1 })));
    stage.publish(event("3", "b", json!({ "n": 3 })));
    assert_eq!(results(&stage), [json!([1, 3])], "what had come before the crash counts");
    stage.publish(event("4", "b", json!({ "n": 4 })));
    stage.publish(event("5", "a", json!({ "n": 5 })));
    assert_eq!(results(&stage), [json!([1, 3]), json!([4, 5])], "and again with the next ones");
}

#[test]
fn events_that_begin_different_flows_are_collected_beside_one_another() {
    let stage = Stage::new(FakeIo::new());
    let flow = load(
        "
schedule:
  on:
    all:
      - { with: { type: ordered }, correlate: { order: { from: .data.order } } }
      - { with: { type: paid }, correlate: { order: { from: .data.order } } }
do: [ { s: { set: '${ [$workflow.input[] | .data.order] | unique }' } } ]
",
    );
    scheduled(&stage, &flow);
    for (id, kind, order) in [("1", "ordered", "x"), ("2", "ordered", "y"), ("3", "paid", "y")] {
        stage.publish(event(id, kind, json!({ "order": order })));
    }
    assert_eq!(results(&stage), [json!(["y"])]);
    stage.publish(event("4", "paid", json!({ "order": "x" })));
    assert_eq!(results(&stage), [json!(["y"]), json!(["x"])]);
}

#[test]
fn a_flow_starts_with_all_events_until_another_one() {
    let stage = Stage::new(FakeIo::new());
    let flow = load(
        "
schedule:
  on: { any: [ { with: { type: line } } ], until: { one: { with: { type: done } } } }
do: [ { s: { set: '${ [$workflow.input[] | .data] }' } } ]
",
    );
    scheduled(&stage, &flow);
    for (id, kind) in [("1", "line"), ("2", "line"), ("3", "done"), ("4", "line")] {
        stage.publish(event(id, kind, json!(id)));
    }
    assert_eq!(results(&stage), [json!(["1", "2"])]);
}

#[test]
fn a_newer_version_collects_in_place_of_the_older_one() {
    let stage = Stage::new(FakeIo::new());
    let text = "
schedule: { on: { all: [ { with: { type: a } }, { with: { type: b } } ] } }
do: [ { s: { set: { v: '${ $workflow.definition.document.version }' } } } ]
";
    scheduled(&stage, &load(text));
    let newer = crate::flow_common::define(text).replace("1.0.0", "1.1.0");
    scheduled(&stage, &turnwheel_engine::flow::load(&newer, "n").expect("it is right"));
    stage.publish(event("1", "a", json!(1)));
    stage.publish(event("2", "b", json!(1)));
    assert_eq!(results(&stage), [json!({ "v": "1.1.0" })]);
}

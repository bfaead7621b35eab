//! Flows that start by themselves: after their end, and with several events.

use std::sync::{mpsc, Arc};
use std::time::Duration;

use serde_json::{json, Value};
use turnwheel_engine::store::Filter;
use turnwheel_engine::{Action, Payload, Schedule};
use turnwheel_flow::{result, CloudEvent, FakeIo, Flow, FlowPlan};
use turnwheel_runtime::completion::block_on;

use crate::flow_common::{add, load, problems, world, Stage};

fn scheduled(stage: &Stage, flow: &Flow) {
    stage.sim.block_on(stage.flows.add(flow)).expect("it ends").expect("it is added");
    let scheduled = stage.sim.block_on(stage.flows.schedule(flow));
    scheduled.expect("it ends").expect("it is scheduled");
    stage.sim.run_until_idle();
}

/// Results of the plans of flows, the oldest first; without plans that are not over.
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
    scheduled(&stage, &turnwheel_flow::load(&newer, "n").expect("it is right"));
    stage.publish(event("1", "a", json!(1)));
    stage.publish(event("2", "b", json!(1)));
    assert_eq!(results(&stage), [json!({ "v": "1.1.0" })]);
}

#[test]
fn plans_of_schedules_events_and_other_flows_have_the_labels_of_their_flow() {
    let stage = Stage::new(FakeIo::new());
    let one = "do: [ { s: { set: { n: 1 } } } ]\n";
    let named = |name: &str, rest: &str| {
        let text = crate::flow_common::define(rest).replace("name: it", &format!("name: {name}"));
        turnwheel_flow::load(&text, "x.yaml").expect("it is right")
    };
    scheduled(&stage, &named("timed", &format!("schedule: {{ after: PT1H }}\n{one}")));
    scheduled(
        &stage,
        &named("told", &format!("schedule: {{ on: {{ one: {{ with: {{ type: t }} }} }} }}\n{one}")),
    );
    stage.publish(event("1", "t", json!({})));
    let child = named("child", one);
    stage.sim.block_on(stage.flows.add(&child)).expect("it ends").expect("it is added");
    for is_awaited in [true, false] {
        let parent = named(
            &format!("parent-{is_awaited}"),
            &format!("do: [ {{ r: {{ run: {{ await: {is_awaited}, workflow: {{ namespace: test, name: child, version: latest }} }} }} }} ]\n"),
        );
        let plan = stage.start(&parent, json!({}));
        stage.result(&plan).expect("it ends well");
    }
    stage.sim.run_until_idle();
    for (name, plans) in [("timed", 1), ("told", 1), ("child", 2)] {
        let labels = vec![
            ("flow.namespace".to_owned(), Some("test".to_owned())),
            ("flow.name".to_owned(), Some(name.to_owned())),
            ("flow.version".to_owned(), Some("1.0.0".to_owned())),
        ];
        let filter = Filter { labels, limit: 10, ..Filter::default() };
        let rows = stage.sim.block_on(stage.world.list(filter)).expect("it ends").expect("read");
        assert_eq!(rows.len(), plans, "{name}");
    }
}

#[test]
fn a_schedule_of_a_flow_that_could_only_fail_is_refused_when_it_is_added() {
    let stage = Stage::new(FakeIo::new());
    let flow = load("do: [ { s: { set: { n: 1 } } } ]\n");
    stage.sim.block_on(stage.flows.add(&flow)).expect("it ends").expect("it is added");
    let put = |input: Value| {
        let schedule = Schedule::every("hourly", Duration::from_secs(3_600))
            .action_named("flow", Payload::of(&input).expect("it is data"));
        let put = stage.sim.block_on(stage.world.schedules().put(schedule));
        put.expect("it ends").expect("it is answered")
    };
    let refused = put(json!({})).expect_err("it could not be read").to_string();
    assert!(refused.contains("for «flow» is refused"), "{refused}");
    let start = json!({ "definition": "none", "flow": "test/no:1.0.0", "input": {} });
    let refused = put(start).expect_err("there is no such flow").to_string();
    assert!(refused.contains("there is no flow with the definition «none»"), "{refused}");
    put(serde_json::to_value(flow.start(json!({}))).expect("it is data")).expect("it is taken");
}

#[test]
fn schedule_with_an_input_that_the_flow_refuses_is_refused_with_the_place() {
    let stage = Stage::new(FakeIo::new());
    let schema = "{ type: object, required: [ k ], properties: { k: { type: integer } } }";
    let input = format!("input: {{ schema: {{ document: {schema} }} }}");
    let flow = load(&format!("{input}\ndo: [ {{ s: {{ set: {{ n: 1 }} }} }} ]\n"));
    stage.sim.block_on(stage.flows.add(&flow)).expect("it ends").expect("it is added");
    let put = |input: Value| {
        let start = Payload::of(&flow.start(input)).expect("it is data");
        let schedule = Schedule::every("hourly", Duration::from_secs(3_600));
        let put = stage
            .sim
            .block_on(stage.world.schedules().put(schedule.action_named(FlowPlan::NAME, start)));
        put.expect("it ends").expect("it is answered").map(drop)
    };
    for (wrong, why) in [(json!({}), "«k» is missing"), (json!({ "k": "x" }), "k")] {
        let refused = put(wrong).expect_err("each launch would fail").to_string();
        assert!(refused.contains("test/it:1.0.0 does not take it: "), "{refused}");
        assert!(refused.contains(why), "{refused}");
    }
    put(json!({ "k": 1 })).expect("it is taken");
    let refused = put(json!({})).expect_err("a change is checked, too").to_string();
    assert!(refused.contains("«k» is missing"), "{refused}");
}

#[test]
fn flow_whose_own_schedule_could_only_fail_is_refused_by_name() {
    let stage = Stage::new(FakeIo::new());
    let rest = "input: { schema: { document: { type: object, required: [ k ] } } }\n\
                do: [ { s: { set: { n: 1 } } } ]\n";
    for (name, schedule) in [
        ("every", "{ every: PT1H }"),
        ("cron", "{ cron: '0 3 * * *' }"),
        ("after", "{ after: PT1M }"),
    ] {
        let flow = load(&format!("schedule: {schedule}\n{rest}"));
        let checked = flow.check_schedule().expect_err("it could only fail").to_string();
        let refused = stage.sim.block_on(stage.flows.schedule(&flow)).expect("it ends");
        assert_eq!(refused.expect_err("it is not begun").to_string(), checked);
        let place = format!("/schedule/{name} of test/it:1.0.0");
        assert!(checked.starts_with(&place) && checked.contains("«k» is missing"), "{checked}");
    }
    // Its input is an event, which is not known before.
    let by_event =
        load(&format!("schedule: {{ on: {{ one: {{ with: {{ type: a }} }} }} }}\n{rest}"));
    by_event.check_schedule().expect("it may work");
    load("schedule: { every: PT1H }\ndo: [ { s: { set: { n: 1 } } } ]\n")
        .check_schedule()
        .expect("it takes every input");
}

#[test]
fn the_cron_of_a_flow_can_have_a_zone() {
    let stage = Stage::new(FakeIo::new());
    let flow = load(
        "schedule: { cron: 'CRON_TZ=Asia/Tokyo 0 3 * * *' }\ndo: [ { s: { set: { n: 1 } } } ]\n",
    );
    scheduled(&stage, &flow);
    let next = stage.sim.block_on(stage.world.schedules().next("flow:test/it", 1));
    let next = next.expect("it ends").expect("it is answered").expect("it is there");
    assert!(next[0].to_string().contains("T18:00:00"), "{}", next[0]);
}

#[test]
fn flows_are_found_while_events_look_for_those_that_they_start() {
    const TIMES: usize = 3_000;
    let (world, flows) = world(FakeIo::new());
    add(&flows, &load("do: [ { a: { set: { n: 1 } } } ]\n"));
    let flows = Arc::new(flows);
    let (done, all_done) = mpsc::channel();
    for _ in 0..2 {
        let (finder, publisher) = (Arc::clone(&flows), Arc::clone(&flows));
        let (found, published) = (done.clone(), done.clone());
        std::thread::spawn(move || {
            for _ in 0..10 * TIMES {
                finder.find("test", "it", "latest").expect("it is there");
            }
            let _nobody_waits = found.send(());
        });
        std::thread::spawn(move || {
            for n in 0..TIMES {
                let event = CloudEvent::new(n.to_string(), "/test", "nobody.listens");
                block_on(publisher.publish(event)).expect("off the workers").expect("it is told");
            }
            let _nobody_waits = published.send(());
        });
    }
    for _ in 0..4 {
        all_done.recv_timeout(Duration::from_secs(120)).expect("no thread waits for another");
    }
    world.shutdown().expect("it ends in time");
}

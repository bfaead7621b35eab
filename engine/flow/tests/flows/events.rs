//! Flows: events that are emitted, listened to, correlated, and that start flows.

use std::time::Duration;

use serde_json::json;
use turnwheel_flow::{CloudEvent, FakeIo, HttpResponse};

use crate::flow_common::{fault, load, run, Stage};

fn event(id: &str, kind: &str, data: serde_json::Value) -> CloudEvent {
    CloudEvent::new(id, "https://sensors.example", kind).data(data)
}

#[test]
fn an_emitted_event_is_the_output_with_id_and_time() {
    let flow = "
do:
  - tell:
      emit:
        event:
          with: { source: 'https://shop.example', type: order.placed, data: { n: '${ .n }' } }
";
    let output = run(flow, json!({ "n": 3 }));
    assert_eq!(output["data"], json!({ "n": 3 }));
    assert_eq!(output["specversion"], "1.0");
    assert!(output["id"].as_str().unwrap().contains('/'), "{output}");
    assert!(output["time"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn an_emitted_event_is_its_own_in_its_filters_too_and_has_no_empty_attributes() {
    let flow = "
do:
  - f:
      for: { in: '${ [1, 2] }' }
      do:
        - e:
            emit: { event: { with: { source: /s, type: t, subject: '${ .none }', room: '${ .none }' } } }
            export: { as: '${ { ids: (($context.ids // []) + [.id]) } }' }
            output: { as: '${ { id, keys: (keys - [\"id\", \"time\"]) } }' }
output: { as: '${ . + $context }' }
";
    let output = run(flow, json!({}));
    let ids = output["ids"].as_array().expect("a list");
    assert_ne!(ids[0], ids[1]);
    assert!(ids[0].as_str().is_some_and(|id| id.contains('/')), "{output}");
    assert_eq!(output["keys"], json!(["source", "specversion", "type"]));
    let fault = fault(
        "do: [ { e: { emit: { event: { with: { source: /s, type: '${ .none }' } } } } } ]\n",
        json!({}),
    );
    assert!(fault["detail"].to_string().contains("«type» is missing"), "{fault}");
}

#[test]
fn a_task_listens_for_one_event_also_over_a_crash() {
    let stage = Stage::new(FakeIo::new());
    let flow = load(
        "
do:
  - hear:
      listen: { to: { one: { with: { type: temperature, data: '${ .degrees > 38 }' } } } }
  - keep: { set: { got: '${ .[0].degrees }' } }
",
    );
    let plan = stage.start(&flow, json!({}));
    stage.pass(1);
    assert_eq!(stage.publish(event("1", "pressure", json!({}))).delivered, 0);
    assert_eq!(stage.flows.unheard(), 1);
    stage.publish(event("2", "temperature", json!({ "degrees": 37 })));
    let stage = stage.crash(Duration::from_secs(1));
    let plan = stage.world.plan(plan.id());
    let told = stage.publish(event("3", "temperature", json!({ "degrees": 39 })));
    assert_eq!(told.delivered, 1);
    assert_eq!(stage.result(&plan).unwrap(), json!({ "got": 39 }));
    assert_eq!(stage.publish(event("4", "temperature", json!({ "degrees": 40 }))).delivered, 0);
    // Events since the crash are remembered, with who has got them; nobody counts too.
    let recent = stage.flows.recent(10);
    let told: Vec<_> = recent.iter().map(|it| (it.id.as_str(), it.published.delivered)).collect();
    assert_eq!(told, [("4", 0), ("3", 1)]);
    let taker = &recent[1].published.takers[0];
    assert_eq!((taker.plan, taker.task.as_str()), (plan.id(), "/do/0/hear"));
    assert_eq!(taker.flow, flow.id());
    assert_eq!(stage.flows.recent(1).len(), 1);
}

#[test]
fn an_event_is_delivered_to_whom_it_may_mean_and_it_is_said_how_many_of_them_decide() {
    let stage = Stage::new(FakeIo::new());
    let hear = |name: &str, filter: &str| {
        let listen = format!("listen: {{ to: {{ any: [ {{ {filter} }} ], until: 'false' }} }}");
        let head =
            format!("document: {{ dsl: '1.0.3', namespace: t, name: {name}, version: '1.0.0' }}");
        let flow = format!("{head}\ndo: [ {{ hear: {{ {listen} }} }} ]\n");
        let flow = turnwheel_flow::load(&flow, name).expect("it is right");
        stage.start(&flow, json!({ "limit": 38 }));
        stage.pass(1);
    };
    hear("event", "with: { type: temperature, data: '${ .degrees > 38 }' }");
    hear("variable", "with: { type: temperature, data: '${ .degrees > $input.limit }' }");
    hear("correlation", "with: { type: temperature }, correlate: { room: { from: .room } }");
    hear("fixed", "with: { type: temperature }");
    hear("data", "with: { type: temperature, data: { room: kitchen } }");
    let publish = |id: &str, degrees: u32| {
        let data = json!({ "degrees": degrees, "room": "hall" });
        let told = stage.publish(event(id, "temperature", data));
        (told.delivered, told.undecided)
    };
    assert_eq!(publish("1", 37), (3, 2), "an expression of the event alone is no riddle");
    assert_eq!(publish("2", 39), (4, 1), "the first event has said which room is meant");
}

#[test]
fn an_event_that_is_published_again_is_told_as_a_repeat() {
    let stage = Stage::new(FakeIo::new());
    let flow = |name: &str, rest: &str| {
        let head =
            format!("document: {{ dsl: '1.0.3', namespace: t, name: {name}, version: '1.0.0' }}");
        turnwheel_flow::load(&format!("{head}\n{rest}"), name).expect("it is right")
    };
    let begins =
        "schedule: { on: { one: { with: { type: a } } } }\ndo: [ { s: { set: { a: 1 } } } ]\n";
    let added = stage.sim.block_on(stage.flows.add(&flow("begins", begins)));
    added.expect("it ends").expect("it is added");
    let hears = |until: &str| {
        format!("do: [ {{ hear: {{ listen: {{ to: {{ any: [ {{ with: {{ type: a }} }} ], {until} }} }} }} }} ]\n")
    };
    stage.start(&flow("hears", &hears("until: length == 2")), json!({}));
    stage.pass(1);
    let publish = |id: &str| {
        let told = stage.publish(event(id, "a", json!({})));
        stage.pass(1);
        (told.delivered, told.repeated, told.started.len(), told.is_repeated())
    };
    assert_eq!(publish("1"), (1, 0, 1, false));
    assert_eq!(publish("1"), (0, 2, 1, true), "a task and a plan had it");
    stage.start(&flow("later", &hears("until: 'false'")), json!({}));
    stage.pass(1);
    assert_eq!(publish("1"), (1, 2, 1, false), "a task of after the first time gets it");
    assert_eq!(publish("2"), (2, 0, 1, false));
    assert_eq!(publish("2"), (0, 2, 1, true), "the task that has ended is not asked");
    let recent = stage.flows.recent(2);
    let told: Vec<_> = recent.iter().map(|it| it.published.repeated).collect();
    assert_eq!(told, [2, 0]);
    assert_eq!(stage.flows.unheard(), 0);
}

#[test]
fn a_filter_that_cannot_be_evaluated_is_in_the_history_and_counted() {
    let stage = Stage::new(FakeIo::new());
    let flow = load(
        "
do:
  - hear:
      listen: { to: { one: { with: { type: temperature, data: '${ .degrees > ($input - 1) }' } } } }
",
    );
    let plan = stage.start(&flow, json!({ "limit": 38 }));
    stage.pass(1);
    // If the fixed conditions do not match, the expressions are not evaluated.
    stage.publish(event("0", "pressure", json!("high")));
    assert_eq!(stage.flows.unclear(), 0);
    for id in 1..=11 {
        let told = stage.publish(event(&id.to_string(), "temperature", json!({ "degrees": id })));
        assert_eq!((told.delivered, told.undecided), (1, 1));
        stage.pass(1);
    }
    assert_eq!(stage.flows.unclear(), 11);
    let view = stage.view(&plan);
    assert_eq!(view.state, turnwheel_engine::PlanState::Running, "{}", view.waits_for());
    let said: Vec<&str> = view.history.iter().map(|entry| entry.text.as_str()).collect();
    let said: Vec<&&str> =
        said.iter().filter(|text| text.contains("cannot be evaluated")).collect();
    assert_eq!(said.len(), 2, "the first and the tenth: {said:?}");
    assert!(
        said[0].contains("data: ${ .degrees > ($input") && said[0].contains("sensors.example"),
        "{said:?}"
    );
    assert!(said[1].contains("the 10th time"), "{said:?}");
}

#[test]
fn a_filter_that_would_start_a_flow_and_cannot_be_evaluated_is_counted() {
    let stage = Stage::new(FakeIo::new());
    let flow = load(
        "
schedule: { on: { one: { with: { type: temperature, data: '${ .degrees > 38 }' } } } }
do: [ { keep: { set: { is_hot: true } } } ]
",
    );
    stage.sim.block_on(stage.flows.add(&flow)).unwrap().unwrap();
    let told = stage.publish(event("1", "temperature", json!("much")));
    assert_eq!((told.started.len(), stage.flows.unclear()), (0, 1));
    let told = stage.publish(event("2", "temperature", json!({ "degrees": 39 })));
    assert_eq!((told.started.len(), stage.flows.unclear()), (1, 1));
}

#[test]
fn all_events_are_waited_for_and_belong_together() {
    let stage = Stage::new(FakeIo::new());
    let flow = load(
        "
do:
  - hear:
      listen:
        to:
          all:
            - with: { type: temperature }
              correlate: { room: { from: .room } }
            - with: { type: humidity }
              correlate: { room: { from: .room } }
",
    );
    let plan = stage.start(&flow, json!({}));
    stage.pass(1);
    stage.publish(event("1", "temperature", json!({ "room": "a", "v": 1 })));
    stage.publish(event("1", "temperature", json!({ "room": "a", "v": 1 })));
    stage.publish(event("2", "humidity", json!({ "room": "b", "v": 2 })));
    stage.publish(event("3", "humidity", json!({ "room": "a", "v": 3 })));
    let both = json!([{ "room": "a", "v": 1 }, { "room": "a", "v": 3 }]);
    assert_eq!(stage.result(&plan).unwrap(), both);
}

#[test]
fn any_events_are_taken_until_a_condition_holds_or_others_come() {
    let stage = Stage::new(FakeIo::new());
    let flow = load(
        "
do:
  - hear:
      listen:
        to: { any: [ { with: { type: 'vital\\..*' } } ], until: length >= 2 }
        read: envelope
      output: { as: '[.[].id]' }
",
    );
    let plan = stage.start(&flow, json!({}));
    stage.pass(1);
    for (id, kind) in [("1", "vital.bpm"), ("2", "other"), ("3", "vital.temperature")] {
        stage.publish(event(id, kind, json!({})));
    }
    assert_eq!(stage.result(&plan).unwrap(), json!(["1", "3"]));

    let text = crate::flow_common::define(
        "
do:
  - hear:
      listen:
        to: { any: [ { with: { type: vital } } ], until: { one: { with: { type: gone } } } }
      foreach:
        item: event
        do: [ { double: { set: '${ $event.n * 2 }' } } ]
        output: { as: . + $index }
",
    );
    let text = text.replace("name: it", "name: other");
    let flow = turnwheel_flow::load(&text, "x.yaml").unwrap();
    let plan = stage.start(&flow, json!({}));
    stage.pass(1);
    for (id, kind) in [("5", "vital"), ("6", "vital"), ("7", "gone")] {
        stage.publish(event(id, kind, json!({ "n": 5 })));
    }
    stage.pass(1);
    let view = stage.view(&plan);
    assert_eq!(view.result().name(), "success", "{view:?}");
    assert_eq!(turnwheel_flow::result(&view).unwrap(), json!([10, 11]));
}

#[test]
fn raw_events_are_their_data_as_it_came() {
    for (read, expected) in [("raw", json!("aGk=")), ("data", json!("hi"))] {
        let stage = Stage::new(FakeIo::new());
        let flow = load(&format!(
            "do: [ {{ hear: {{ listen: {{ to: {{ one: {{ with: {{ type: t }} }} }}, read: {read} }} }} }} ]"
        ));
        let plan = stage.start(&flow, json!({}));
        stage.pass(1);
        let mut encoded = event("1", "t", json!(null));
        (encoded.data, encoded.data_base64) = (None, Some("aGk=".to_owned()));
        stage.publish(encoded);
        assert_eq!(stage.result(&plan).unwrap(), json!([expected]));
    }
}

#[test]
fn tasks_for_each_event_have_the_input_of_the_task_that_listens() {
    let stage = Stage::new(FakeIo::new().on_http(|request| {
        Ok(HttpResponse {
            status: 200,
            body: request.uri.clone().into_bytes(),
            ..Default::default()
        })
    }));
    let flow = load(
        "
do:
  - hear:
      input: { from: '{ roomId: .room }' }
      listen: { to: { any: [ { with: { type: vital } } ], until: length == 2 } }
      foreach:
        item: event
        do:
          - call:
              call: http
              with: { method: get, endpoint: 'https://hospital.example/room/{roomId}', query: { n: '${ $event.n }' } }
          - add: { set: { uri: '${ . }', room: '${ $context.room }' } }
",
    );
    let plan = stage.start(&flow, json!({ "room": 12 }));
    stage.pass(1);
    for (id, n) in [("1", 5), ("2", 6)] {
        stage.publish(event(id, "vital", json!({ "n": n })));
        stage.pass(1);
    }
    let uri = |n: i32| format!("https://hospital.example/room/12?n={n}");
    let expected = json!([{ "uri": uri(5), "room": 12 }, { "uri": uri(6), "room": 12 }]);
    assert_eq!(stage.result(&plan).unwrap(), expected);
}

#[test]
fn a_flow_tells_another_one_that_waits() {
    let stage = Stage::new(FakeIo::new());
    let listener = load(
        "
do:
  - hear: { listen: { to: { one: { with: { type: ready, subject: '${ $input.who == . }' } } } } }
",
    );
    let plan = stage.start(&listener, json!({ "who": "x" }));
    stage.pass(1);
    let text = "do: [ { tell: { emit: { event: { with: { source: 'urn:it', type: ready, subject: x, data: 7 } } } } } ]\n";
    let text = crate::flow_common::define(text).replace("name: it", "name: teller");
    let teller = turnwheel_flow::load(&text, "x.yaml").unwrap();
    stage.start(&teller, json!({}));
    assert_eq!(stage.result(&plan).unwrap(), json!([7]));
}

#[test]
fn an_event_starts_a_flow_once() {
    let stage = Stage::new(FakeIo::new());
    let flow = load(
        "
schedule: { on: { one: { with: { type: order.placed, data: '${ .total > 10 }' } } } }
do: [ { keep: { set: { first: '${ $workflow.input[0].data.total }' } } } ]
",
    );
    stage.sim.block_on(stage.flows.add(&flow)).unwrap().unwrap();
    assert!(stage.publish(event("1", "order.placed", json!({ "total": 5 }))).started.is_empty());
    let started = stage.publish(event("2", "order.placed", json!({ "total": 50 }))).started;
    assert_eq!(stage.publish(event("2", "order.placed", json!({ "total": 50 }))).started, started);
    let plan = stage.world.plan(started[0]);
    assert_eq!(stage.result(&plan).unwrap(), json!({ "first": 50 }));
}

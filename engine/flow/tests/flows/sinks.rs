//! Events that flows emit are delivered to sinks, through an outbox of plans.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{json, Value};
use turnwheel_engine::store::Filter;
use turnwheel_engine::PlanState;
use turnwheel_flow::{Asked, FakeIo, HttpResponse};

use crate::flow_common::{load, Stage};

const EMITS: &str = "
do:
  - tell:
      emit:
        event: { with: { source: /shop, type: org.example.paid, data: { amount: '${ .amount }' } } }
";

/// A sink that refuses so many deliveries.
fn refusing(times: u32, status: u16) -> FakeIo {
    let left = Arc::new(AtomicU32::new(times));
    FakeIo::new().sink("audit").on_http(move |_| {
        let take = |left: u32| left.checked_sub(1);
        let refuses = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        Ok(HttpResponse { status: if refuses { status } else { 204 }, ..HttpResponse::default() })
    })
}

/// The deliveries so far: the event and the key of each.
fn deliveries(io: &FakeIo) -> Vec<(Value, String)> {
    let one = |asked: &Asked| match asked {
        Asked::Http(request, key) if request.uri == "audit" => {
            let body = request.body.clone().expect("it has one");
            Some((serde_json::from_slice(&body).expect("JSON"), key.clone()))
        }
        _ => None,
    };
    io.asked().iter().filter_map(one).collect()
}

#[test]
fn an_emitted_event_is_delivered_until_its_sink_takes_it() {
    let io = refusing(3, 503);
    let stage = Stage::new(io.clone());
    let plan = stage.start(&load(EMITS), json!({ "amount": 7 }));
    stage.result(&plan).expect("the flow does not wait for the sink");
    for _ in 0..60 {
        stage.pass(1);
    }
    let told = deliveries(&io);
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(told.iter().all(|one| *one == told[0]), "the same event and key each time");
    assert_eq!(told[0].0["type"], "org.example.paid");
    assert_eq!(told[0].0["data"], json!({ "amount": 7 }));
    stage.pass(10_000);
    assert_eq!(deliveries(&io).len(), 4, "once taken it is not delivered again");
}

#[test]
fn an_event_with_a_long_type_and_a_long_source_is_delivered() {
    let (kind, source) = (format!("org.{}", "x".repeat(5_000)), format!("/{}", "y".repeat(5_000)));
    let io = refusing(0, 500);
    let stage = Stage::new(io.clone());
    let text = EMITS.replace("org.example.paid", &kind).replace("/shop", &source);
    let plan = stage.start(&load(&text), json!({ "amount": 7 }));
    stage.result(&plan).expect("it ends well");
    stage.pass(1);
    let told = deliveries(&io);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((&told[0].0["type"], &told[0].0["source"]), (&json!(kind), &json!(source)));
}

#[test]
fn events_for_an_ordered_sink_wait_for_those_before_them() {
    let text = "
do:
  - one: { emit: { event: { with: { source: /shop, type: org.example.one } } } }
  - two: { emit: { event: { with: { source: /shop, type: org.example.two } } } }
  - three: { emit: { event: { with: { source: /shop, type: org.example.three } } } }
";
    let kinds = |io: &FakeIo| -> Vec<String> {
        let kind = |(event, _): (Value, String)| event["type"].as_str().map(str::to_owned);
        deliveries(io).into_iter().filter_map(kind).collect()
    };
    let io = refusing(2, 503).ordered();
    let stage = Stage::new(io.clone());
    let plan = stage.start(&load(text), json!({}));
    stage.result(&plan).expect("the flow does not wait for the sink");
    let stage = stage.crash(Duration::from_secs(1));
    for _ in 0..60 {
        stage.pass(1);
    }
    let told: Vec<String> = kinds(&io);
    let (refused, taken) = told.split_at(told.len() - 3);
    assert!(refused.len() >= 2 && refused.iter().all(|kind| kind == "org.example.one"), "{told:?}");
    assert_eq!(taken, ["org.example.one", "org.example.two", "org.example.three"]);

    // An event that its sink will never take makes way.
    let io = refusing(1, 410).ordered();
    let stage = Stage::new(io.clone());
    let plan = stage.start(&load(text), json!({}));
    stage.result(&plan).expect("it ends well");
    for _ in 0..20 {
        stage.pass(1);
    }
    assert_eq!(kinds(&io).len(), 3);
}

#[test]
fn a_delivery_goes_on_after_a_crash() {
    let io = refusing(1, 500);
    let stage = Stage::new(io.clone());
    let plan = stage.start(&load(EMITS), json!({ "amount": 1 }));
    stage.result(&plan).expect("it ends well");
    let stage = stage.crash(Duration::from_secs(3_600));
    stage.pass(60);
    let told = deliveries(&io);
    assert!(told.len() >= 2, "{told:?}");
    assert!(told.iter().all(|one| *one == told[0]), "{told:?}");
    let all =
        Filter { labels: vec![("sink".to_owned(), Some("audit".to_owned()))], ..Filter::default() };
    let rows =
        stage.sim.block_on(stage.world.list(all)).expect("it ends").expect("they are listed");
    assert_eq!(rows.len(), 1, "one plan for the event and the sink");
    assert_eq!(rows[0].state, PlanState::Stopped);
}

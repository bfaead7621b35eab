//! Flows over HTTP: added, looked at, started; and events in all three modes.
#![cfg(feature = "server")]

use serde_json::{json, Value};
use turnwheel::engine::{MemoryStore, World};
use turnwheel::flow::{FakeIo, WithFlows};
use turnwheel::http::{Access, Options};

use crate::http_common::{with, Answer, Served};

const GREET: &str = "document: { dsl: '1.0.3', namespace: shop, name: greet, version: '1.0.0' }
input:
  schema:
    document: { type: object, required: [name], properties: { name: { type: string } } }
do:
  - greet: { set: { text: '${ \"hello \\(.name)\" }' } }
";

const WAITS: &str = "document: { dsl: '1.0.3', namespace: shop, name: waits, version: '1.0.0' }
do:
  - paid:
      listen: { to: { one: { with: { type: com.shop.paid } } } }
";

fn served() -> Served {
    let world = with(World::builder()).flows(FakeIo::new()).build(MemoryStore::new());
    Served::with(world.expect("a world"), Options::new(Access::Loopback))
}

fn add(served: &Served, source: &str) -> Answer {
    let yaml = [("content-type", "application/yaml")];
    served.send_bytes("POST", "/api/v1/flows", &yaml, Some(source.as_bytes()))
}

/// Where a relative reference in the answer to a request leads.
fn target(path: &str, reference: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in reference.split('/') {
        match part {
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[test]
fn a_flow_is_added_looked_at_and_started_once() {
    let served = served();
    let added = add(&served, GREET);
    assert_eq!(added.status, 201, "{}", added.text);
    assert_eq!(add(&served, GREET).status, 201);
    let flow = served.get("/api/v1/flows/shop/greet/latest").json();
    assert_eq!((&flow["version"], &flow["hash"]), (&json!("1.0.0"), &added.json()["hash"]));
    assert_eq!(flow["input_schema"]["required"], json!(["name"]));
    assert_eq!(flow["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(served.get("/api/v1/flows").json()["flows"][0]["name"], "greet");

    let start = "/api/v1/flows/shop/greet/1.0.0/start";
    let key = [("idempotency-key", "1")];
    let run = json!({"input": {"name": "ann"}, "labels": {"of": "ann"}});
    let first = served.send("POST", start, &key, Some(&run));
    assert_eq!(first.status, 201, "{}", first.text);
    let id = first.json()["id"].as_str().unwrap().to_owned();
    let plan = served.ended(&id);
    assert_eq!(plan["result"], "success", "{plan}");
    assert_eq!(served.get(&target(start, first.header("location"))).json()["id"], json!(id));
    let rerun = format!("/api/v1/plans/{id}/again");
    let again = served.post(&rerun, &json!({}));
    let location = target(&rerun, again.header("location"));
    assert_eq!(served.get(&location).json()["id"], again.json()["id"]);
    assert_eq!(plan["labels"]["flow.name"], "greet");
    assert!(plan["output"].to_string().contains("hello ann"), "{plan}");
    let again = served.send("POST", start, &key, Some(&run));
    assert_eq!((again.status, &again.json()["id"]), (200, &json!(id)));
    let other = json!({"input": {"name": "bob"}});
    served.send("POST", start, &key, Some(&other)).is_problem(422, "key-reused");
}

#[test]
fn what_is_wrong_with_a_flow_is_said_with_its_place() {
    let served = served();
    let wrong = GREET.replace("set:", "sett:");
    let problem = add(&served, &wrong).is_problem(422, "flow-invalid");
    let one = &problem["problems"][0];
    assert_eq!(one["line"], 6, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("did you mean"), "{problem}");
    let yaml = [("content-type", "application/yaml")];
    let checked = served.send_bytes("POST", "/api/v1/flows/check", &yaml, Some(GREET.as_bytes()));
    assert_eq!(checked.status, 200, "{}", checked.text);
    assert_eq!(served.get("/api/v1/flows").json()["flows"], json!([]));
    served.get("/api/v1/flows/shop/greet/latest").is_problem(404, "flow-unknown");
    add(&served, GREET);
    let changed = GREET.replace("hello", "hi");
    add(&served, &changed).is_problem(409, "flow-exists");
    let none = [("content-type", "image/png")];
    let refused = served.send_bytes("POST", "/api/v1/flows", &none, Some(b"x"));
    refused.is_problem(415, "body-type-wrong");
    // A world without flows says so.
    Served::new().get("/api/v1/flows").is_problem(404, "path-unknown");
}

fn waiting(served: &Served) -> String {
    add(served, WAITS);
    let started = served.post("/api/v1/flows/shop/waits/1.0.0/start", &json!({}));
    assert_eq!(started.status, 201, "{}", started.text);
    let id = started.json()["id"].as_str().expect("an id").to_owned();
    served.suspended(&id);
    id
}

fn publish(served: &Served, headers: &[(&str, &str)], body: &str) -> Answer {
    served.send_bytes("POST", "/api/v1/events", headers, Some(body.as_bytes()))
}

fn delivered(served: &Served, headers: &[(&str, &str)], body: &str) -> Value {
    loop {
        // A task listens a moment after its plan has begun.
        let answer = publish(served, headers, body);
        assert_eq!(answer.status, 200, "{}", answer.text);
        if answer.json()["delivered"] != 0 {
            return answer.json();
        }
    }
}

#[test]
fn events_come_in_structured_binary_and_batch_mode() {
    let served = served();
    let event = json!({
        "specversion": "1.0", "id": "1", "source": "/shop", "type": "com.shop.paid", "data": {"n": 1},
    });

    let plan = waiting(&served);
    let structured = [("content-type", "application/cloudevents+json; charset=utf-8")];
    assert_eq!(delivered(&served, &structured, &event.to_string())["events"], 1);
    let ended = served.ended(&plan);
    assert!(ended["output"].to_string().contains("\"n\":1"), "{ended}");

    let plan = waiting(&served);
    let binary = [
        ("content-type", "application/json"),
        ("ce-specversion", "1.0"),
        ("ce-id", "2"),
        ("ce-source", "\"/shop two\""),
        ("ce-type", "com.shop.paid"),
    ];
    let mut quoted = binary;
    quoted[4].1 = "\"com.shop.paid\"";
    delivered(&served, &quoted, "{\"n\": 2}");
    let ended = served.ended(&plan);
    assert!(ended["output"].to_string().contains("\"n\":2"), "{ended}");

    let plan = waiting(&served);
    let batch = [("content-type", "application/cloudevents-batch+json")];
    let mut other = event.clone();
    (other["id"], other["type"]) = (json!("3"), json!("com.shop.other"));
    let mut third = event.clone();
    (third["id"], third["data"]) = (json!("4"), json!({"n": 3}));
    let done = delivered(&served, &batch, &json!([other, third]).to_string());
    assert_eq!(done["events"], 2);
    let ended = served.ended(&plan);
    assert!(ended["output"].to_string().contains("\"n\":3"), "{ended}");
}

#[test]
fn a_sender_of_events_is_allowed_by_the_handshake() {
    let served = served();
    let origin = [("webhook-request-origin", "shop.example.org")];
    let allowed = served.send("OPTIONS", "/api/v1/events", &origin, None);
    assert_eq!(allowed.status, 204);
    assert_eq!(allowed.header("webhook-allowed-origin"), "shop.example.org");
    assert_eq!(allowed.header("webhook-allowed-rate"), "*");
    assert!(allowed.header("allow").contains("POST"));
}

#[test]
fn what_is_no_event_is_refused() {
    let served = served();
    let structured = [("content-type", "application/cloudevents+json")];
    for bad in
        ["{}", "[]", "1", "{\"specversion\":\"1.0\",\"id\":\"\",\"source\":\"a\",\"type\":\"b\"}"]
    {
        publish(&served, &structured, bad).is_problem(400, "event-invalid");
    }
    publish(&served, &structured, "{").is_problem(400, "body-not-json");
    let binary = [("content-type", "text/plain"), ("ce-specversion", "1.0"), ("ce-id", "1")];
    publish(&served, &binary, "x").is_problem(400, "event-invalid");
    publish(&served, &[("content-type", "text/plain")], "x").is_problem(415, "body-type-wrong");
    assert_eq!(served.get("/api/v1/flows").json()["unheard_events"], 0);
}

const BROKEN: &str = "document: { dsl: '1.0.3', namespace: shop, name: sell, version: '1.0.0' }
do:
  - first: { set: { mended: false, count: '${ (.count // 0) + 1 }' } }
  - second:
      if: .mended | not
      raise: { error: { type: 'https://example.org/broken', status: 500 } }
";

#[test]
fn a_failed_flow_is_retried_from_its_failed_task_and_any_plan_runs_again() {
    let served = served();
    add(&served, BROKEN);
    let start = "/api/v1/flows/shop/sell/1.0.0/start";
    let started = served.post(start, &json!({"input": {"count": 4}, "labels": {"of": "ann"}}));
    let failed = started.json()["id"].as_str().expect("an id").to_owned();
    assert_eq!(served.ended(&failed)["result"], "error");

    let retry = format!("/api/v1/plans/{failed}/retry");
    served.post(&retry, &json!({"inputs": 1})).is_problem(422, "body-invalid");
    served.post(&retry, &json!({"version": "9.9.9"})).is_problem(404, "flow-unknown");
    let mended = BROKEN.replace("1.0.0", "1.1.0").replace(".mended | not", "'false'");
    assert_eq!(add(&served, &mended).status, 201);
    let body = json!({"version": "latest"});
    let first = served.post(&retry, &body);
    assert_eq!(first.status, 201, "{}", first.text);
    let id = first.json()["id"].as_str().expect("an id").to_owned();
    let plan = served.ended(&id);
    assert_eq!((&plan["result"], &plan["labels"]["of"]), (&json!("success"), &json!("ann")));
    assert_eq!(plan["labels"]["retry.of"], failed.as_str());
    assert!(plan["output"].to_string().contains("\"count\":5"), "{plan}");
    // Twice is once.
    let again = served.post(&retry, &body);
    assert_eq!((again.status, &again.json()["id"]), (200, &json!(id)));
    let other = served.post(&retry, &json!({})).is_problem(422, "key-reused");
    assert!(
        other["detail"].as_str().is_some_and(|it| it.contains("was retried already")),
        "{other}"
    );
    served.post(&format!("/api/v1/plans/{id}/retry"), &json!({})).is_problem(409, "plan-state");

    let path = format!("/api/v1/plans/{id}/again");
    let key = [("idempotency-key", "k")];
    let body = json!({"input": {"count": 9}});
    let ran = served.send("POST", &path, &key, Some(&body));
    assert_eq!(ran.status, 201, "{}", ran.text);
    assert_eq!(served.send("POST", &path, &key, Some(&body)).json()["id"], ran.json()["id"]);
    let plan = served.ended(ran.json()["id"].as_str().expect("an id"));
    assert!(plan["output"].to_string().contains("\"count\":10"), "{plan}");
    assert_eq!(plan["labels"]["again.of"], id.as_str());

    // Of an action: a plan of the same one, and no retry of this kind.
    let echo = served.start("echo", &json!({"text": "a"}));
    served.ended(&echo);
    let path = format!("/api/v1/plans/{echo}");
    served.post(&format!("{path}/retry"), &json!({})).is_problem(409, "plan-state");
    served
        .post(&format!("{path}/again"), &json!({"version": "1"}))
        .is_problem(422, "input-invalid");
    let ran = served.post(&format!("{path}/again"), &json!({}));
    assert_eq!(served.ended(ran.json()["id"].as_str().expect("an id"))["output"]["said"], "a");
    served
        .post("/api/v1/plans/0190a5c4-7b1e-7cc3-98c4-dc0c0c07398f/again", &json!({}))
        .is_problem(404, "plan-unknown");
}

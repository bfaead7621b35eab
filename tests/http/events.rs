//! Events over HTTP: in all three modes, repeated, and refused.
#![cfg(feature = "server")]

use serde_json::{json, Value};

use crate::flows::{add, served};
use crate::http_common::{Answer, Served};

const WAITS: &str = "document: { dsl: '1.0.3', namespace: shop, name: waits, version: '1.0.0' }
do:
  - paid:
      listen: { to: { one: { with: { type: com.shop.paid } } } }
";

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
        ("ce-source", "\"/shop/two\""),
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

/// A flow that listens without an end, with a plan that does, and one that each event begins.
fn those_who_hear() -> Served {
    let served = served();
    add(
        &served,
        &WAITS.replace(
            "one: { with: { type: com.shop.paid } }",
            "any: [ { with: { type: com.shop.paid } } ], until: 'false'",
        ),
    );
    let begins = "document: { dsl: '1.0.3', namespace: shop, name: begins, version: '1.0.0' }\n\
                  schedule: { on: { one: { with: { type: com.shop.paid } } } }\n\
                  do: [ { s: { set: { a: 1 } } } ]\n";
    assert_eq!(add(&served, begins).status, 201);
    let started = served.post("/api/v1/flows/shop/waits/1.0.0/start", &json!({}));
    served.suspended(started.json()["id"].as_str().expect("an id"));
    served
}

#[test]
fn a_repeated_event_is_told_as_one_also_in_a_batch_and_by_two_requests_at_once() {
    let served = those_who_hear();
    let event = |id: &str| json!({ "specversion": "1.0", "id": id, "source": "/shop", "type": "com.shop.paid" });
    let structured = [("content-type", "application/cloudevents+json")];
    let told = |answer: &Value| {
        let each = &answer["each"][0];
        assert_eq!(
            (&each["delivered"], &each["repeated"]),
            (&answer["delivered"], &answer["repeated"])
        );
        let number = |name: &str| answer[name].as_u64().expect("a number");
        let is_repeated = each["is_repeated"].as_bool().expect("a boolean");
        (number("delivered"), number("repeated"), is_repeated, answer["started"].clone())
    };
    // A task listens a moment after its plan has begun.
    let mut early = (0..).map(|number| event(&format!("early {number}")).to_string());
    let is_heard = |event: &String| publish(&served, &structured, event).json()["delivered"] == 1;
    early.find(is_heard).expect("it listens");
    let first = publish(&served, &structured, &event("1").to_string()).json();
    let begun = first["started"].clone();
    assert_eq!(told(&first), (1, 0, false, begun.clone()));
    assert_eq!(begun.as_array().map(Vec::len), Some(1));
    let again = publish(&served, &structured, &event("1").to_string()).json();
    assert_eq!(told(&again), (0, 2, true, begun.clone()), "the plan that has begun is named again");

    for id in 2..10 {
        let event = event(&id.to_string()).to_string();
        let mut both = std::thread::scope(|scope| {
            let asked =
                [(); 2].map(|()| scope.spawn(|| publish(&served, &structured, &event).json()));
            asked.map(|asked| told(&asked.join().expect("no panic")))
        });
        assert_eq!(both[0].3, both[1].3, "the same plan");
        // One of the two delivers it, and one begins the plan; that may be the other one.
        both.sort_by_key(|one| (one.0, one.1));
        let all = (both[0].0 + both[1].0, both[0].1 + both[1].1);
        assert_eq!(all, (1, 2), "{both:?}");
        assert_eq!(
            both.iter().filter(|one| one.2).count(),
            usize::from(both[0].1 == 2),
            "{both:?}"
        );
    }

    let batch = [("content-type", "application/cloudevents-batch+json")];
    let events = json!([event("1"), event("new"), event("new")]).to_string();
    let answer = publish(&served, &batch, &events).json();
    let number = |name: &str| answer[name].as_u64().expect("a number");
    assert_eq!((number("events"), number("delivered"), number("repeated")), (3, 1, 4));
    let of = |one: &Value| {
        let id = one["id"].as_str().expect("an id").to_owned();
        let source = one["source"].as_str().expect("a source").to_owned();
        (id, source, one["delivered"].as_u64(), one["is_repeated"].as_bool())
    };
    let each: Vec<_> = answer["each"].as_array().expect("a list").iter().map(of).collect();
    let told = |id: &str, delivered, is_repeated| {
        (id.to_owned(), "/shop".to_owned(), Some(delivered), Some(is_repeated))
    };
    assert_eq!(each, [told("1", 0, true), told("new", 1, false), told("new", 0, true)]);
    let recent = served.get("/api/v1/events/recent?limit=1").json();
    assert_eq!((&recent["events"][0]["repeated"], &recent["unheard"]), (&json!(2), &json!(0)));
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
    let whole = json!({ "specversion": "1.0", "id": "1", "source": "/a", "type": "b" });
    let batch = [("content-type", "application/cloudevents-batch+json")];
    for (change, said) in [
        (json!({ "specversion": null }), "«specversion» is missing"),
        (json!({ "specversion": "0.3" }), "0.3"),
        (json!({ "subject": { "a": 1 } }), "«subject» must be a text"),
        (json!({ "place": ["x"] }), "«place» must be a text"),
    ] {
        let mut event = whole.clone();
        for (name, value) in change.as_object().expect("it is one") {
            event[name] = value.clone();
        }
        for (kind, body) in [(&structured, event.clone()), (&batch, json!([whole, event]))] {
            let refused = publish(&served, kind, &body.to_string());
            refused.is_problem(400, "event-invalid");
            let detail = refused.json()["detail"].to_string();
            assert!(detail.contains(said), "{change}: {detail}");
        }
    }
    publish(&served, &structured, "{").is_problem(400, "body-not-json");
    let binary = [("content-type", "text/plain"), ("ce-specversion", "1.0"), ("ce-id", "1")];
    publish(&served, &binary, "x").is_problem(400, "event-invalid");
    publish(&served, &[("content-type", "text/plain")], "x").is_problem(415, "body-type-wrong");
    assert_eq!(served.get("/api/v1/flows").json()["unheard_events"], 0);
}

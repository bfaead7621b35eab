//! Journeys over a real store and server: intake, users, a killed process.

use serde_json::{json, Value};

use crate::serve_common::{Place, Serve};

const TEXT: &str = "
journey: onboarding
platform: shop
elements:
  signed-up: { start: { on: customer.created }, then: hello }
  hello: { send: { channel: log, with: { name: \"${ .user.name }\" } }, then: order }
  order:
    wait: { on: order.paid, for: P3D }
    lines: [ { if: .event.data.total > 9, then: end } ]
    otherwise: end
";

const EVENTS: &str = "/api/v1/platforms/shop/events";

fn event(id: &str, kind: &str, user: &str, data: Value) -> Value {
    let (version, source) = ("1.0", "web");
    json!({
        "specversion": version, "id": id, "source": source, "type": kind, "subject": user,
        "data": data,
    })
}

fn publish(server: &Serve, kind: &str, body: &Value) -> Value {
    let headers = [("content-type", kind)];
    server.send("POST", EVENTS, &headers, Some(&body.to_string())).ok()
}

const ONE: &str = "application/cloudevents+json";
const BATCH: &str = "application/cloudevents-batch+json";

#[test]
fn users_walk_through_a_journey_over_http_and_survive_a_kill() {
    let place = Place::new();
    let server = place.serve(&[]);
    let file = place.write("onboarding.yaml", TEXT);
    assert_eq!(place.ok(&["journey", "add", &file]), "stored journey onboarding, version 1\n");
    assert_eq!(place.ok(&["journey", "add", &file]), "stored journey onboarding, version 1\n");
    let user = "/api/v1/users/shop/ann%20b";
    let set = server.send("PUT", user, &[], Some(r#"{"name": "Ann"}"#)).ok();
    assert_eq!((&set["revision"], &set["user"]), (&json!(1), &json!("ann b")));
    server
        .send("PUT", &format!("{user}?revision=7"), &[], Some("{}"))
        .is_problem(409, "user-changed");
    let first = event("1", "customer.created", "ann b", Value::Null);
    let taken = publish(&server, ONE, &first);
    let path = json!(["signed-up", "signed-up.1", "hello", "hello.1", "order"]);
    assert_eq!(taken["events"][0]["moved"][0]["path"], path, "{taken}");
    server.killed();
    let server = place.serve(&[]);
    assert_eq!(publish(&server, ONE, &first)["events"][0]["is_repeated"], true);
    let batch = json!([
        event("2", "order.paid", "ann b", json!({ "total": 3 })),
        event("3", "order.paid", "ann b", json!({ "total": 30 })),
        event("4", "order.paid", "nobody", json!({ "total": 30 })),
    ]);
    let taken = publish(&server, BATCH, &batch);
    let causes =
        [&taken["events"][0]["moved"][0]["cause"], &taken["events"][1]["moved"][0]["cause"]];
    assert_eq!(causes, [&json!("unmatched"), &json!("event")], "{taken}");
    assert_eq!(taken["events"][2]["moved"], json!([]));
    let found = place.json(&["journey", "user", "shop", "ann b"]);
    assert_eq!((&found["ended"][0]["why"], &found["passes"]), (&json!("end"), &json!([])));
    assert_eq!(place.json(&["journey", "list", "--json"])["journeys"][0]["platform"], "shop");
    let elements = server.get("/api/v1/journeys/onboarding/elements").ok();
    assert_eq!(elements[0]["workFlowId"], "onboarding");
    server.get("/api/v1/journeys/other").is_problem(404, "journey-unknown");
    let wrong = json!({ "specversion": "1.0", "id": "9", "source": "web", "type": "x" });
    let headers = [("content-type", ONE)];
    server
        .send("POST", EVENTS, &headers, Some(&wrong.to_string()))
        .is_problem(400, "event-invalid");
    let wrong = server.send("POST", "/api/v1/journeys", &[], Some("journey: a b\nelements: {}"));
    wrong.is_problem(422, "journey-invalid");
    server.stopped();
    // The same without a server: what is due and to be sent waits for the next one.
    let moved = place.json(&["journey", "event", "shop", "bob", "customer.created"]);
    assert_eq!(moved["moved"][0]["path"], path);
    let bob = place.json(&["journey", "user", "shop", "bob", "--opt-out"]);
    assert_eq!(
        (&bob["has_opted_out"], &bob["ended"][0]["why"]),
        (&json!(true), &json!("opted out"))
    );
    assert!(place.ok(&["journey", "rm", "onboarding"]).starts_with("removed"));
    assert_eq!(place.run(&["journey", "show", "onboarding"]).status.code(), Some(3));
}

//! Journeys over a real store and server: intake, users, a killed process.

use std::net::TcpListener;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use serde_json::{json, Value};

use super::job_notices::answered;
use crate::serve_common::{eventually, Place, Serve};

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

const GIVEN_UP: &str = "
journey: hello
platform: shop
elements:
  go: { start: { on: joined }, then: hello }
  hello: { send: { channel: http, with: { url: 'http://127.0.0.1:PORT/in' } }, then: end }
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

fn what_is_no_event_is_refused(server: &Serve) {
    let headers = [("content-type", ONE)];
    for wrong in [
        json!({ "specversion": "1.0", "id": "9", "source": "web", "type": "x" }),
        json!({ "id": "9", "source": "web", "type": "x", "subject": "ann" }),
        json!({ "specversion": "1.0", "id": "9", "source": "web", "type": "x", "subject": {} }),
    ] {
        server
            .send("POST", EVENTS, &headers, Some(&wrong.to_string()))
            .is_problem(400, "event-invalid");
    }
}

#[test]
fn batch_is_known_again_as_a_whole_or_refused() {
    let place = Place::new();
    let server = place.serve(&[]);
    let text = "journey: loop\nplatform: shop\nelements:\n  a: { start: { on: go }, then: b }\n  \
                b: { wait: { on: more, for: P9D }, then: b, otherwise: end }\n";
    place.ok(&["journey", "add", &place.write("loop.yaml", text)]);
    publish(&server, ONE, &event("0", "go", "v", Value::Null));
    let batch = |count: usize| -> Value {
        (0..count).map(|id| event(&format!("x{id}"), "more", "v", Value::Null)).collect()
    };
    let headers = [("content-type", BATCH)];
    let larger = batch(129).to_string();
    let refused = server.send("POST", EVENTS, &headers, Some(&larger));
    refused.is_problem(400, "event-invalid");
    assert!(refused.text.contains("at most 128 events of one user"), "{}", refused.text);
    let bad = json!([
        event("y1", "more", "v", Value::Null),
        event("y2", "more", &"w".repeat(201), json!(1))
    ]);
    let refused = server.send("POST", EVENTS, &headers, Some(&bad.to_string()));
    refused.is_problem(422, "journey-invalid");
    assert!(refused.text.contains("event 2 («y2»), and none was taken"), "{}", refused.text);
    for is_repeated in [false, true] {
        let taken = publish(&server, BATCH, &batch(128));
        let taken = taken["events"].as_array().cloned().unwrap_or_default();
        assert_eq!(taken.len(), 128);
        assert!(taken.iter().all(|one| one["is_repeated"] == is_repeated), "{taken:?}");
    }
}

fn attributes_are_edited_from_what_was_read(server: &Serve, user: &str) {
    let put =
        |headers: &[(&str, &str)]| server.send("PUT", user, headers, Some(r#"{"name": "Bo"}"#));
    put(&[("If-Match", "\"99\"")]).is_problem(412, "precondition-failed");
    put(&[("If-None-Match", "*")]).is_problem(412, "precondition-failed");
    assert_eq!(put(&[("If-Match", "\"1\"")]).ok()["revision"], 2);
    let ann = server.send("PUT", user, &[("If-Match", "*")], Some(r#"{"name": "Ann"}"#)).ok();
    assert_eq!((&ann["revision"], &ann["attributes"]["name"]), (&json!(3), &json!("Ann")));
    let of_nobody = "/api/v1/users/shop/of-nobody";
    server
        .send("PUT", of_nobody, &[("If-Match", "*")], Some("{}"))
        .is_problem(412, "precondition-failed");
}

fn wrong_event_of_a_batch_is_named(server: &Serve) {
    let mut third = event("3", "order.paid", "ann b", Value::Null);
    for field in ["type", "subject"] {
        let kept = third.as_object_mut().expect("an object").remove(field);
        let batch = json!([event("2", "order.paid", "ann b", Value::Null), third]).to_string();
        let refused = server.send("POST", EVENTS, &[("content-type", BATCH)], Some(&batch));
        refused.is_problem(400, "event-invalid");
        let said = "event 2 («3»), and none was taken";
        assert!(refused.text.contains(said), "{}", refused.text);
        third[field] = kept.expect("it was there");
    }
}

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
    attributes_are_edited_from_what_was_read(&server, user);
    wrong_event_of_a_batch_is_named(&server);
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
    assert_eq!(
        place.ok(&["journey", "where", "shop", "nobody"]),
        "shop/nobody is in no journey\n",
        "an event that nobody waits for changes nothing"
    );
    let said = place.ok(&["journey", "where", "shop", "ann b"]);
    assert!(said.starts_with("onboarding, pass 1: over since "), "{said}");
    // The killed server had taken up the message: it is sent again later.
    assert!(said.lines().next().is_some_and(|first| first.ends_with(" (end)")), "{said}");
    let counts = server.get("/api/v1/journeys/onboarding/counts").ok();
    let of = |element: &str| {
        let all = counts["elements"].as_array().expect("a list");
        all.iter().find(|it| it["element"] == element).expect("it is there").clone()
    };
    assert_eq!((&of("order")["visits"], &of("order.1")["conversion"]), (&json!(1), &json!(1.0)));
    assert_eq!(place.json(&["journey", "counts", "onboarding", "--json"]), counts);
    assert!(place.ok(&["journey", "counts", "onboarding"]).contains("100.0 %"));
    server.get("/api/v1/journeys/other/counts").is_problem(404, "journey-unknown");
    assert_eq!(place.json(&["journey", "list", "--json"])["journeys"][0]["platform"], "shop");
    let elements = server.get("/api/v1/journeys/onboarding/elements").ok();
    assert_eq!(elements[0]["workFlowId"], "onboarding");
    server.get("/api/v1/journeys/other").is_problem(404, "journey-unknown");
    what_is_no_event_is_refused(&server);
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

#[test]
fn message_that_was_given_up_is_sent_again_by_http_and_by_the_command_line() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (sender, requests) = channel();
    thread::spawn(move || {
        // The receiver knows the user only after two attempts.
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let status = if number < 2 { "410 Gone" } else { "204 No Content" };
            if sender.send(answered(stream, status)).is_err() {
                return;
            }
        }
    });
    let place = Place::new();
    let server = place.serve(&[]);
    let text = GIVEN_UP.replace("PORT", &port.to_string());
    place.ok(&["journey", "add", &place.write("hello.yaml", &text)]);
    let (user, key) = ("/api/v1/users/shop/ann", "shop/ann/1/1/1");
    let attempt = || {
        let request = requests.recv_timeout(Duration::from_secs(60)).expect("a request");
        assert!(request.contains(&format!("idempotency-key: {key}")), "{request}");
    };
    let lost = || {
        eventually("it is given up", || {
            let found = server.get(user).ok();
            let lost = found["lost"].as_array().filter(|lost| !lost.is_empty()).cloned();
            lost.filter(|_| found["outbox"] == json!([]))
        })
    };
    publish(&server, ONE, &event("1", "joined", "ann", Value::Null));
    attempt();
    assert_eq!(lost()[0]["reason"], "status 410");
    let said = place.ok(&["journey", "where", "shop", "ann"]);
    assert!(said.contains(&format!("message {key} was given up at ")), "{said}");
    assert!(said.ends_with(": status 410\n"), "{said}");
    let path = format!("{user}/resend");
    server.post(&path, &json!({ "key": "other" })).is_problem(404, "message-unknown");
    let again = server.post(&path, &json!({ "key": key })).ok();
    assert_eq!((&again["lost"], &again["outbox"][0]["key"]), (&json!([]), &json!(key)));
    attempt();
    assert_eq!(lost()[0]["attempts"], 1, "it is refused again");
    let again = place.json(&["journey", "resend", "shop", "ann"]);
    assert_eq!(again["outbox"][0]["key"], key);
    attempt();
    let sent = || (server.get(user).ok()["outbox"] == json!([])).then_some(());
    eventually("it is sent", sent);
    assert_eq!(server.get(user).ok()["lost"], json!([]));
    assert_eq!(place.run(&["journey", "resend", "shop", "ann", key]).status.code(), Some(3));
    server.stopped();
}

#[test]
fn definitions_are_tried_over_http_and_by_hand() {
    let place = Place::new();
    let server = place.serve(&[]);
    let file = place.write("onboarding.yaml", TEXT);
    let mut first = event("1", "customer.created", "ann", Value::Null);
    first["time"] = json!("2026-01-05T12:00:00Z");
    let asked = json!({
        "definition": TEXT, "events": [first], "users": { "ann": { "name": "Ann" } },
        "until": "2026-02-01T00:00:00Z",
    });
    let tried = server.post("/api/v1/journeys/dry-run", &asked).ok();
    assert_eq!(tried["messages"][0]["body"], json!({ "name": "Ann" }), "{tried}");
    assert_eq!(tried["moved"][1]["at"], "2026-01-08T12:00:00Z", "{tried}");
    assert_eq!(tried["users"][0]["ended"][0]["why"], "end");
    let user = server.get("/api/v1/users/shop/ann").ok();
    assert_eq!(user["revision"], 0, "nothing is stored");
    let unknown = json!({ "journey": "onboarding", "events": [] });
    server.post("/api/v1/journeys/dry-run", &unknown).is_problem(404, "journey-unknown");
    place.ok(&["journey", "add", &file]);
    server.post("/api/v1/journeys/dry-run", &unknown).ok();
    server.post("/api/v1/journeys/dry-run", &json!({})).is_problem(422, "journey-invalid");
    let events = place.write("events.json", &asked["events"].to_string());
    let text = place.ok(&["journey", "dry-run", &file, &events, "--until", "2026-02-01T00:00:00Z"]);
    assert!(text.contains("order order.otherwise end"), "{text}");
    let same = place.json(&["journey", "dry-run", &file, &events, "--json"]);
    assert_eq!(same["moved"].as_array().map(Vec::len), Some(1), "the time ends with the events");
    let lines = place.write("lines", "event customer.created\nwait P3D\n");
    let mut command = place.command(&["journey", "simulate", &file]);
    let output = command.stdin(std::fs::File::open(lines).expect("it is there")).output();
    let output = output.expect("the binary was built for this test");
    let said = String::from_utf8(output.stdout).expect("it prints text");
    assert!(said.contains("waits at order for order.paid since 2026-01-01T00:00:00Z"), "{said}");
    assert!(said.ends_with("2026-01-04T00:00:00Z timer: order order.otherwise end\n"), "{said}");
    let wrong = place.write("wrong.yaml", &TEXT.replace("channel: log", "channel: lgo"));
    let checked = place.run(&["journey", "check", &wrong]);
    let said = String::from_utf8(checked.stdout).expect("it prints text");
    assert!(said.contains("did you mean «log»?"), "{said}");
    assert_eq!(checked.status.code(), Some(1));
    let without_url = TEXT.replace("channel: log", "channel: http");
    let checked = place.run(&["journey", "check", &place.write("url.yaml", &without_url)]);
    let said = String::from_utf8(checked.stdout).expect("it prints text");
    assert!(
        said.contains("url.yaml:6:3: «hello» sends through «http», which refuses it"),
        "{said}"
    );
    assert!(said.contains("its «with» has no «url»"), "{said}");
    assert_eq!(checked.status.code(), Some(1));
    server
        .send("POST", "/api/v1/journeys", &[], Some(&without_url))
        .is_problem(422, "journey-invalid");
    let refused =
        server.send("POST", "/api/v1/journeys", &[], Some(&TEXT.replace(": log", ": lgo")));
    refused.is_problem(422, "journey-invalid");
    server.stopped();
}

const FAILING: &str = "
journey: failing
platform: shop
SETTINGS
elements:
  begin: { start: { on: go, if: .event.data.n | tonumber > 0 }, then: WAIT }
  WAIT: { wait: { on: answer, if: .event.data.n | tonumber > 1 }, then: end }
";

#[test]
fn moves_to_other_versions_and_conditions_that_fail_are_told() {
    let place = Place::new();
    let server = place.serve(&[]);
    let text =
        |settings: &str, wait: &str| FAILING.replace("SETTINGS", settings).replace("WAIT", wait);
    place.ok(&["journey", "add", &place.write("first.yaml", &text("", "first"))]);
    let failed = publish(&server, ONE, &event("1", "go", "ann", json!({ "n": "x" })));
    let failed = &failed["events"][0];
    assert_eq!(failed["moved"], json!([]));
    let problem = failed["problem"].as_str().unwrap_or_default();
    assert!(problem.starts_with("journey failing, version 1, «begin»: "), "{failed}");
    let begun = publish(&server, ONE, &event("2", "go", "ann", json!({ "n": "1" })));
    assert_eq!(begun["events"][0].get("problem"), None, "{begun}");
    let second = text("under_way: move\nmoves: { first: second }", "second");
    place.ok(&["journey", "add", &place.write("second.yaml", &second)]);
    let pass = eventually("the user has moved", || {
        let pass = server.get("/api/v1/users/shop/ann").ok()["passes"][0].clone();
        (pass["moves"][1]["cause"] == "moved").then_some(pass)
    });
    assert_eq!(pass["moves"][1]["path"], json!(["first", "second"]), "{pass}");
    let said = place.ok(&["journey", "where", "shop", "ann"]);
    assert!(said.starts_with("failing, version 2, pass 1, by a newer version at "), "{said}");
    assert!(said.lines().next().is_some_and(|line| line.ends_with(": first second")), "{said}");
    publish(&server, ONE, &event("3", "answer", "ann", json!({ "n": "x" })));
    let said = place.ok(&["journey", "where", "shop", "ann"]);
    let told = said.lines().find(|line| line.starts_with("  a problem at ")).unwrap_or_default();
    assert!(told.contains("«second»: .event.data.n | tonumber > 1: "), "{said}");
    let counts = place.json(&["journey", "counts", "failing", "--json"]);
    let all = counts["elements"].as_array().expect("a list");
    let second = all.iter().find(|it| it["element"] == "second").expect("it is there");
    assert_eq!((&second["here"], &second["visits"]), (&json!(1), &json!(1)));
    // A dry run tells it where no pass has it.
    let mut first = event("1", "go", "bob", json!({ "n": "x" }));
    first["time"] = json!("2026-01-05T12:00:00Z");
    let events = place.write("events.json", &json!([first]).to_string());
    let tried =
        place.ok(&["journey", "dry-run", &place.write("first.yaml", &text("", "first")), &events]);
    assert!(
        tried.contains("2026-01-05T12:00:00Z bob: journey failing, version 1, «begin»: "),
        "{tried}"
    );
    server.stopped();
}

const PATHS: &str = "
journey: paths
platform: shop
elements:
  begin: { start: { on: go }, then: which }
  which: { choose: first, lines: [ { if: .user.vip, then: dear } ], otherwise: usual }
  dear: { wait: { on: answer }, then: end }
  usual: { wait: { on: answer }, then: last }
  last: { send: { channel: log, with: { vip: '${ .user.vip }' } }, then: end }
";

#[test]
fn attributes_of_a_simulated_user_change_nothing_that_has_happened() {
    let place = Place::new();
    let file = place.write("paths.yaml", PATHS);
    let lines = place.write("lines", "event go\nwait PT1H\nuser {\"vip\": true}\nevent answer\n");
    let mut command = place.command(&["journey", "simulate", &file]);
    let output = command.stdin(std::fs::File::open(lines).expect("it is there")).output();
    let output = output.expect("the binary was built for this test");
    let said = String::from_utf8(output.stdout).expect("it prints text");
    let after = said.split_once("> user").expect("the line is repeated").1;
    assert!(after.contains("waits at usual for answer since 2026-01-01T00:00:00Z"), "{said}");
    assert!(after.contains("2026-01-01T01:00:00Z event: usual usual.1 last last.1 end"), "{said}");
    assert!(after.contains("last sends through log: {\"vip\":true}"), "{said}");
    assert_eq!(said.matches("Z event: begin begin.1 which").count(), 1, "told once: {said}");
}

const FLOW: &str = "document: { dsl: '1.0.3', namespace: shop, name: welcome, version: '1.0.0' }
do: [ { greet: { set: { hello: '${ .name }' } } } ]
";

#[test]
fn element_flow_starts_a_flow_once_and_wrong_attributes_are_refused() {
    let place = Place::new();
    let server = place.serve(&[]);
    place.write("welcome.yaml", FLOW);
    place.ok(&["flow", "add", "welcome.yaml"]);
    let text = "
journey: welcome
platform: shop
attributes: { vip: boolean }
elements:
  signed-up: { start: { on: customer.created }, then: greet }
  greet: { flow: { name: welcome, with: { name: '${ .event.data.name }' } }, then: end }
";
    let file = place.write("journey.yaml", text);
    assert!(place.ok(&["journey", "check", &file]).contains("journey welcome, 5 elements"));
    place.ok(&["journey", "add", &file]);
    let first = event("1", "customer.created", "ann", json!({ "name": "Ann" }));
    for is_repeated in [false, true] {
        assert_eq!(publish(&server, ONE, &first)["events"][0]["is_repeated"], is_repeated);
    }
    let plans = eventually("the flow has run", || {
        let page = server.get("/api/v1/plans?labels=user=ann&state=stopped").ok();
        let plans = page["plans"].as_array().expect("a list").clone();
        (!plans.is_empty()).then_some(plans)
    });
    assert_eq!(plans.len(), 1, "{plans:?}");
    assert_eq!(
        (&plans[0]["result"], &plans[0]["labels"]["journey"]),
        (&json!("success"), &json!("welcome"))
    );
    let user = "/api/v1/users/shop/ann";
    eventually("the start is noted", || {
        (server.get(user).ok()["outbox"] == json!([])).then_some(())
    });
    let refused = server.send("PUT", user, &[], Some(r#"{"vip": "yes"}"#));
    refused.is_problem(422, "journey-invalid");
    assert!(refused.text.contains("«vip» is a boolean"), "{}", refused.text);
    server.send("PUT", user, &[], Some(r#"{"vip": true}"#)).ok();
    server.stopped();
}

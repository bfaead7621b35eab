//! Each verb that changes something, while a server has the store: the server does it.
#![cfg(all(feature = "server", feature = "cli", unix))]

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use serde_json::{json, Value};

use crate::serve_common::{Place, Serve};

/// Waits for an event, and says what it was.
const LISTEN: &str = "document: { dsl: '1.0.3', namespace: test, name: listen, version: '1.0.0' }
do:
  - hear: { listen: { to: { one: { with: { type: org.example.word } } } } }
  - say: { set: { word: '${ .[0].word }' } }
";

/// A plan whose worker has failed for good, so that it is paused.
fn paused(server: &Serve, topic: &str) -> String {
    let plan = server.begin(topic);
    let lease = json!({"topics": [topic], "wait_ms": 10_000});
    let leased = server.post("/api/v1/work/lease", &lease).ok();
    assert_eq!(leased["tasks"][0]["plan"], plan, "{leased}");
    let task = leased["tasks"][0]["id"].as_str().expect("a task");
    let fail = json!({"kind": "no", "message": "no luck", "is_final": true});
    server.post(&format!("/api/v1/work/{task}/fail"), &fail).ok();
    assert_eq!(server.ended_plan(&plan)["state"], "paused");
    plan
}

/// Who gave the last order, as the server has audited it.
fn audited(place: &Place, what: &str) -> bool {
    let what = format!("\"what\":\"{what}\"");
    place.log().lines().any(|line| line.contains(&what) && line.contains("\"principal\":\"eva\""))
}

#[test]
fn orders_for_plans_go_through_the_server() {
    let place = Place::new();
    let server = place.serve(&[]);
    let state = |plan: &str| server.ended_plan(plan);
    let waiting = |topic: &str| {
        let plan = server.begin(topic);
        server.suspended(&plan);
        plan
    };

    let one = waiting("a");
    place.ok(&["cancel", &one, "--by", "eva"]);
    assert_eq!(state(&one)["result"], "cancelled");
    assert!(audited(&place, "cancel"), "{}", place.log());
    let one = waiting("a");
    place.ok(&["cancel", &one, "--force"]);
    assert_eq!(state(&one)["result"], "cancelled");
    let one = waiting("a");
    place.ok(&["terminate", "last"]);
    assert_eq!(state(&one)["state"], "stopped");

    let one = paused(&server, "b");
    place.ok(&["skip", &one]);
    assert_eq!(state(&one)["result"], "warning");
    let one = paused(&server, "c");
    place.ok(&["retry", &one]);
    server.suspended(&one);
    let one = paused(&server, "d");
    place.ok(&["retry", &one, "--step", "2"]);
    server.suspended(&one);
    let one = paused(&server, "e");
    place.ok(&["resume", "--state", "paused"]);
    server.suspended(&one);
    let pauses = place.json(&["pause", "--waits", "event", "--json"]);
    assert_eq!(pauses["plans"].as_array().map(Vec::len), Some(3), "{pauses}");
    assert_eq!(state(&one)["state"], "paused");
    place.ok(&["resume", "--state", "paused"]);
    server.suspended(&one);
    let all = place.json(&["cancel", "--waits", "event", "--json"]);
    assert_eq!(all["plans"].as_array().map(Vec::len), Some(3), "{all}");
    assert_eq!(all["refused"], json!([]));

    // A filter is for many: the server does it a part at a time, the oldest first.
    let body = json!({"action": "external", "input": {"topic": "many"}, "labels": {"of": "many"}});
    let begun: Vec<Value> =
        (0..520).map(|_| server.post("/api/v1/plans", &body).ok()["id"].clone()).collect();
    let some = place.run(&["cancel", "--label", "of=many", "--limit", "510", "--json"]);
    let said = String::from_utf8_lossy(&some.stderr).into_owned();
    assert!(said.contains("more than 510 plans fit"), "{said}");
    let some: Value = serde_json::from_slice(&some.stdout).expect("JSON");
    assert_eq!(some["plans"], json!(begun[..510]));
    // Those that are over are left as they are, and no failure.
    let rest = place.json(&["cancel", "--label", "of=many", "--json"]);
    assert_eq!(rest["plans"], json!(begun[510..]));

    // What the server refuses is told in its words.
    let over = place.run(&["cancel", &one]);
    assert_eq!(over.status.code(), Some(1));
    let said = String::from_utf8_lossy(&over.stdout).into_owned();
    assert!(said.contains(&server.url) && said.contains("it is over"), "{said}");
    server.stopped();
}

#[test]
fn events_flows_and_schedules_go_through_the_server() {
    let place = Place::new();
    let server = place.serve(&[]);
    // An event for a step: one of a worker's, told by hand.
    let plan = server.begin("t");
    let step = server.suspended(&plan);
    let event = json!({"completed": {"by": "hand"}}).to_string();
    let sent = place.json(&["event", "send", "last", &event, "--id", "e-1", "--json"]);
    assert_eq!((&sent["plan"], &sent["step"]), (&json!(plan), &json!(step)));
    let over = server.ended_plan(&plan);
    assert_eq!(over["output"], json!({"by": "hand"}));
    let told = |text: &str| {
        over["history"].as_array().into_iter().flatten().any(|line| line["text"] == text)
    };
    assert!(told(&format!("step {step} has an event from tester")), "{}", over["history"]);
    let history = server.get(&format!("/api/v1/plans/{plan}/history")).ok();
    let event =
        history["happenings"].as_array().into_iter().flatten().find(|it| it["what"] == "event");
    assert_eq!(event.map(|event| &event["by"]), Some(&json!("tester")), "{history}");

    // A flow is run by the server, and an event is emitted to it.
    place.write("listen.yaml", LISTEN);
    let mut runs = place.command(&["run", "listen.yaml"]);
    let runs = runs.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    let runs = runs.spawn().expect("it begins");
    let emit = ["event", "emit", "org.example.word", "{\"word\": \"yes\"}", "--json"];
    while place.json(&emit)["delivered"] == 0 {
        std::thread::yield_now();
    }
    let output = runs.wait_with_output().expect("it ends");
    let word: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(word, json!({"word": "yes"}));

    // Schedules: made, paused, unpaused, removed.
    let schedule = || server.get("/api/v1/schedules/nightly");
    let input = json!({"topic": "s"}).to_string();
    let add = ["--every", "1h", "--action", "external", "--input", &input];
    place.ok(&[&["schedule", "add", "nightly"][..], &add].concat());
    assert_eq!(schedule().ok()["action"], "external");
    place.ok(&["schedule", "pause", "nightly", "--why", "a test", "--by", "eva"]);
    let paused = schedule().ok()["paused"].clone();
    assert_eq!((&paused["why"], &paused["by"]), (&json!("a test"), &json!("eva")));
    place.ok(&["schedule", "unpause", "nightly"]);
    assert_eq!(schedule().ok()["paused"], Value::Null);
    place.ok(&["schedule", "remove", "nightly"]);
    schedule().is_problem(404, "schedule-unknown");
    let gone = place.run(&["schedule", "pause", "nightly"]);
    assert_eq!(gone.status.code(), Some(3), "{}", String::from_utf8_lossy(&gone.stderr));

    // A copy is made beside it.
    place.ok(&["backup", "copy.db"]);
    server.stopped();
    assert!(place.path("copy.db").exists());
}

#[test]
fn a_verb_gives_the_token_that_the_server_wants() {
    let place = Place::new();
    let tokens = place.write("tokens.txt", "operate ann s3cret\nread bob look\n");
    let mut server = place.serve(&["--tokens", &tokens]);
    server.token = Some("s3cret".to_owned());
    let plan = server.begin("t");
    server.suspended(&plan);
    for (token, says) in
        [(None, "has no token"), (Some("wrong"), "is not known"), (Some("look"), "may read")]
    {
        let mut command = place.command(&["cancel", &plan]);
        let output = command.envs(token.map(|token| ("TURNWHEEL_TOKEN", token))).output();
        let output = output.expect("it runs");
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let advice = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(says), "{said}");
        assert!(advice.contains("TURNWHEEL_TOKEN"), "what to do is said: {advice}");
        assert_eq!(advice.contains("role operate"), token == Some("look"), "{advice}");
    }
    let mut command = place.command(&["cancel", &plan]);
    let output = command.env("TURNWHEEL_TOKEN", "s3cret").output().expect("it runs");
    assert!(output.status.success());
    assert_eq!(server.ended_plan(&plan)["cancel"]["by"], "ann");
    server.stopped();
}

#[test]
fn a_run_is_told_that_its_server_has_died_and_how_to_go_on() {
    let place = Place::new();
    let flow = "document: { dsl: '1.0.3', namespace: test, name: gate, version: '1.0.0' }
do:
  - wait: { run: { shell: { command: 'until test -e gate; do sleep 0.02; done' } } }
";
    place.write("gate.yaml", flow);
    let server = place.serve(&["--allow-shell"]);
    let mut run = place.command(&["run", "gate.yaml"]);
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it begins");
    let (mut stderr, mut said) =
        (BufReader::new(run.stderr.take().expect("it is piped")), String::new());
    stderr.read_line(&mut said).expect("it says who runs it");
    assert!(said.contains(" runs it"), "{said}");
    server.killed();
    stderr.read_to_string(&mut said).expect("it is text");
    assert_eq!(run.wait().expect("it ends").code(), Some(1), "{said}");
    assert!(said.contains("has ended") && said.contains("turnwheel resume "), "{said}");
    place.write("gate", "");
    place.ok(&["resume", "last"]);
}

//! `turnwheel serve` as a process that is killed, stopped, and started again.
#![cfg(all(feature = "server", feature = "cli", unix))]

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{json, Value};

use crate::serve_common::{agent, eventually, rest, Place, Serve};

fn start(server: &Serve, agent: &ureq::Agent, key: &str) -> Option<String> {
    let body = json!({"action": "external", "input": {"topic": "t", "input": key}}).to_string();
    let headers = [("idempotency-key", key)];
    let answer = server.try_send(agent, "POST", "/api/v1/plans", &headers, Some(&body)).ok()?;
    if !matches!(answer.status, 200 | 201) {
        return None;
    }
    answer.json()["id"].as_str().map(str::to_owned)
}

/// Begins plans from several clients until so many are answered, and kills it then.
fn loaded_and_killed(server: Serve, count: usize) -> Vec<(String, String)> {
    let answered = Mutex::new(Vec::new());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for client in 0..4 {
            let (server, answered, is_over) = (&server, &answered, &is_over);
            scope.spawn(move || {
                let agent = agent();
                for number in 0.. {
                    let key = format!("{client}-{number}");
                    match start(server, &agent, &key) {
                        _ if is_over.load(Ordering::Relaxed) => return,
                        Some(plan) => answered.lock().expect("no panic").push((key, plan)),
                        None => return,
                    }
                }
            });
        }
        while answered.lock().expect("no panic").len() < count {
            std::thread::yield_now();
        }
        let sure = answered.lock().expect("no panic").clone();
        server.signal("-KILL");
        is_over.store(true, Ordering::Relaxed);
        sure
    })
}

#[test]
fn what_was_answered_is_there_after_kill_nine_under_load_and_the_incident_is_told() {
    let place = Place::new();
    let server = place.serve(&[]);
    let before = server.id();
    assert_eq!(server.get("/api/v1/world").ok()["incidents"], json!([]));
    // One is paused: its worker says that nothing can be done.
    let paused = server.begin("p");
    let leased = server.post("/api/v1/work/lease", &json!({"topics": ["p"], "wait_ms": 10_000}));
    let task = leased.ok()["tasks"][0]["id"].as_str().expect("a task").to_owned();
    let fail = json!({"kind": "no", "message": "no", "is_final": true});
    server.post(&format!("/api/v1/work/{task}/fail"), &fail).ok();
    assert_eq!(server.ended_plan(&paused)["state"], "paused");
    let answered = loaded_and_killed(server, 300);

    let server = place.serve(&[]);
    let agent = agent();
    for (key, plan) in &answered {
        let shown = server.get(&format!("/api/v1/plans/{plan}")).ok();
        assert_eq!(shown["state"], "running", "{shown}");
        // The same request once more begins nothing.
        assert_eq!(start(&server, &agent, key).as_ref(), Some(plan));
    }
    // Each of them goes on: it offers its task.
    let lease = json!({"topics": ["t"], "limit": 100, "wait_ms": 10_000});
    let leased = server.post("/api/v1/work/lease", &lease).ok();
    assert_eq!(leased["tasks"].as_array().map(Vec::len), Some(100), "{leased}");

    let told = server.get("/api/v1/world").ok();
    let incident = &told["incidents"][0];
    assert_eq!((&incident["process"], &incident["paused"]), (&json!(before), &json!(1)), "{told}");
    let continued = incident["continued"].as_u64().expect("a number");
    assert!(continued >= answered.len() as u64, "{incident}");
    let text = format!("ended without closing: {continued} plans go on, 1 plan is paused");
    assert!(incident["text"].as_str().is_some_and(|said| said.ends_with(&text)), "{incident}");
    assert!(place.log().contains("ended without closing"), "{}", place.log());
    server.stopped();

    // A stop in order is no incident, and the one before is remembered.
    let server = place.serve(&[]);
    let told = server.get("/api/v1/world").ok();
    assert_eq!(told["incidents"].as_array().map(Vec::len), Some(1), "{told}");
    server.stopped();
}

#[test]
fn a_verb_over_the_store_of_a_killed_server_opens_it_and_the_incident_is_kept() {
    let place = Place::new();
    let server = place.serve(&[]);
    let plan = server.begin("t");
    server.suspended(&plan);
    server.killed();
    let lock = std::fs::read_to_string(format!("{}.lock", place.store().display()));
    assert!(lock.expect("it is left").contains(" serving http://"), "the dead one said so");
    let output = place.run(&["cancel", &plan]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("ended without closing"), "{said}");
    assert_eq!(place.json(&["show", &plan, "--json"])["result"], "cancelled");
    let server = place.serve(&[]);
    let told = server.get("/api/v1/world").ok();
    assert_eq!(told["incidents"].as_array().map(Vec::len), Some(1), "{told}");
    server.stopped();
}

const SLEEPER: &str = "document: { dsl: '1.0.3', namespace: test, name: sleeper, version: '1.0.0' }
do:
  - sleep: { run: { shell: { command: 'echo begun >> began; echo $$ > process; while [ ! -e gate ]; do sleep 0.05; done' } } }
";

#[test]
fn a_termination_signal_with_plans_under_way_stops_in_order_and_they_go_on() {
    let place = Place::new();
    let server = place.serve(&["--allow-shell", "--stop-within", "500ms"]);
    let headers = [("content-type", "application/yaml")];
    server.send("POST", "/api/v1/flows", &headers, Some(SLEEPER)).ok();
    let path = "/api/v1/flows/test/sleeper/1.0.0/start";
    let sleeper = server.post(path, &json!({})).ok()["id"].as_str().expect("an id").to_owned();
    let waiting = server.begin("t");
    server.suspended(&waiting);
    while !place.path("began").exists() {
        std::thread::yield_now();
    }
    // Its command runs while it is told to stop: it is ended, and begins anew at the next start.
    server.signal("-TERM");
    let ended = server.ended();
    assert_eq!(ended.code(), Some(0), "{}", place.log());
    let left = std::fs::read_to_string(place.path("process")).expect("it has begun");
    let is_left = std::process::Command::new("kill").args(["-0", left.trim()]).output();
    assert!(!is_left.expect("there is kill").status.success(), "the command lives on");
    let server = place.serve(&["--allow-shell"]);
    assert_eq!(server.get("/api/v1/world").ok()["incidents"], json!([]), "it was in order");
    place.write("gate", "");
    assert_eq!(server.ended_plan(&sleeper)["result"], "success");
    assert_eq!(server.get(&format!("/api/v1/plans/{waiting}")).ok()["state"], "running");
    server.stopped();
}

#[test]
fn a_plan_that_ran_during_three_unclean_ends_is_paused_and_the_server_stays() {
    let place = Place::new();
    let flow = "document: { dsl: '1.0.3', namespace: test, name: poison, version: '1.0.0' }
do:
  - kill: { run: { shell: { command: 'echo killed >> killed; kill -9 $PPID; sleep 60' } } }
";
    let server = place.serve(&["--allow-shell"]);
    let innocent = server.begin("t");
    server.suspended(&innocent);
    let headers = [("content-type", "application/yaml")];
    server.send("POST", "/api/v1/flows", &headers, Some(flow)).ok();
    let agent = agent();
    let path = "/api/v1/flows/test/poison/1.0.0/start";
    // It may be gone before it has answered.
    let _killed = server.try_send(&agent, "POST", path, &[], Some("{}"));
    server.ended();
    for _ in 0..2 {
        // The plan goes on, and ends the server.
        let killed = place.run(&["serve", "--listen", "127.0.0.1:0", "--allow-shell"]);
        assert_eq!(killed.status.code(), None, "{killed:?}");
    }
    let server = place.serve(&["--allow-shell"]);
    let paused = server.get("/api/v1/plans?state=paused").ok();
    let plan = paused["plans"][0]["id"].as_str().expect("it is paused").to_owned();
    let history = server.get(&format!("/api/v1/plans/{plan}/history")).ok().to_string();
    assert!(history.contains("3 times in a row"), "{history}");
    let killed = std::fs::read_to_string(place.path("killed")).expect("it was run");
    assert_eq!(killed.lines().count(), 3);
    assert_eq!(server.get(&format!("/api/v1/plans/{innocent}")).ok()["state"], "running");
    server.stopped();
}

#[test]
fn a_request_on_an_open_connection_is_answered_after_a_termination_signal() {
    use std::io::{Read, Write};

    let place = Place::new();
    let server = place.serve(&[]);
    // Connections of health checks are closed after one answer.
    let request = format!("GET /api/v1/plans HTTP/1.1\r\nhost: {}\r\n\r\n", server.address());
    let mut open: Vec<_> = (0..4).map(|_| server.raw(&request)).collect();
    for connection in &mut open {
        let mut begun = [0; 12];
        connection.read_exact(&mut begun).expect("an answer");
        assert_eq!(&begun, b"HTTP/1.1 200");
    }
    server.signal("-TERM");
    let health = format!("GET /health HTTP/1.1\r\nhost: {}\r\n\r\n", server.address());
    // It is stopping when others hear of that.
    while !rest(server.raw(&health)).starts_with("HTTP/1.1 503") {
        std::thread::yield_now();
    }
    for mut connection in open {
        connection.write_all(request.as_bytes()).expect("it is open");
        let answers = rest(connection).to_ascii_lowercase();
        let (_, last) = answers.rsplit_once("http/1.1 ").expect("it is answered");
        assert!(last.starts_with("200") && last.contains("connection: close"), "{answers}");
    }
    assert_eq!(server.ended().code(), Some(0));
}

#[test]
fn new_connections_hear_of_a_stop_until_the_process_ends() {
    let place = Place::new();
    let server = place.serve(&["--allow-shell", "--stop-within", "2s"]);
    let job = json!({"schedule": "@manually", "config": {"command": "sleep 60"}});
    server.send("PUT", "/api/v1/jobs/long", &[], Some(&job.to_string())).ok();
    server.post("/api/v1/jobs/long/run", &json!({})).ok();
    eventually("it runs", || {
        let busy = server.get("/v1/busy").ok();
        busy.as_array().is_some_and(|busy| !busy.is_empty()).then_some(())
    });
    server.signal("-TERM");
    let ask = |path: &str| {
        let stream = std::net::TcpStream::connect(server.address()).ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", server.address());
        let sent = (&stream).write_all(request.as_bytes());
        sent.ok().map(|()| rest(stream))
    };
    let (begun, mut refused) = (Instant::now(), None);
    // Requests have ended soon; the run has 2 s, and no connection is refused before its end.
    while let Some(answer) = ask("/health").filter(|answer| !answer.is_empty()) {
        if answer.starts_with("HTTP/1.1 503") {
            refused = Some(begun.elapsed());
            let late = ask("/api/v1/jobs").filter(|late| !late.is_empty());
            let Some(late) = late else { break };
            assert!(late.contains("stop-under-way") && late.contains("retry-after: 5"), "{late}");
        }
    }
    let heard = refused.expect("it was told");
    assert!(heard >= Duration::from_millis(1_500), "it was told until the end: {heard:?}");
    assert_eq!(server.ended().code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(30), "it ends: {:?}", begun.elapsed());
}

#[test]
fn a_second_server_over_the_same_store_names_the_first() {
    let place = Place::new();
    let first = place.serve(&[]);
    let second = place.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(second.status.code(), Some(4));
    let said = String::from_utf8_lossy(&second.stderr);
    let (process, url) = (format!("process {}", first.id()), &first.url);
    assert!(said.contains("is in use") && said.contains(&process) && said.contains(url), "{said}");
    // It has done the first one no harm.
    assert_eq!(first.get("/health").ok()["is_healthy"], true);
    let plans: Value = first.get("/api/v1/plans").ok();
    assert_eq!(plans["plans"], json!([]));
    first.stopped();
}

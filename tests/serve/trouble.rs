//! `turnwheel serve` as a process, in trouble: readers that never read, a full disk, peers that drip or
//! flood.
#![cfg(all(feature = "server", feature = "cli", target_os = "linux"))]

use std::net::TcpStream;

use rustix::process::{getrlimit, prlimit, Pid, Resource, Rlimit};
use serde_json::json;

use crate::serve_common::{rest, size, Place, Serve};

/// A flow whose plan is paused with a reason that is long to tell.
fn loud() -> String {
    let detail = "loud ".repeat(20_000);
    format!(
        "document: {{ dsl: '1.0.3', namespace: test, name: loud, version: '1.0.0' }}
do:
  - shout: {{ raise: {{ error: {{ type: 'https://example.org/loud', status: 500, detail: '{detail}' }} }} }}
"
    )
}

fn add(server: &Serve, flow: &str) {
    let headers = [("content-type", "application/yaml")];
    server.send("POST", "/api/v1/flows", &headers, Some(flow)).ok();
}

#[test]
fn a_crowd_of_silent_connections_takes_no_descriptor_of_steps_and_health() {
    let place = Place::new();
    let server = place.serve_within(200, &["--allow-shell"]);
    let flow = "document: { dsl: '1.0.3', namespace: test, name: shell, version: '1.0.0' }
do:
  - first: { run: { shell: { command: 'echo one' } } }
  - second: { run: { shell: { command: 'echo two' } } }
";
    add(&server, flow);
    let crowd: Vec<TcpStream> = (0..400).map(|_| server.raw("")).collect();
    for _ in 0..3 {
        assert_eq!(server.get("/health").status, 200);
        let started = server.post("/api/v1/flows/test/shell/1.0.0/start", &json!({})).ok();
        let plan = server.ended_plan(started["id"].as_str().expect("an id"));
        assert_eq!(plan["result"], "success", "{plan}");
    }
    drop(crowd);
    server.stopped();
    assert!(place.log().contains("open files limit the connections"), "{}", place.log());
}

#[test]
fn readers_that_never_read_are_cut_counted_and_cost_little_memory() {
    const READERS: u64 = 16;
    let place = Place::new();
    let server = place.serve(&["--write-within", "300ms"]);
    add(&server, &loud());
    let start = || {
        let body = json!({"input": {}});
        let started = server.post("/api/v1/flows/test/loud/1.0.0/start", &body).ok();
        started["id"].as_str().expect("an id").to_owned()
    };
    server.ended_plan(&start());
    let request = format!("GET /api/v1/events HTTP/1.1\r\nhost: {}\r\n\r\n", server.address());
    let idle: Vec<TcpStream> = (0..READERS).map(|_| server.raw(&request)).collect();
    while server.figure("turnwheel_live_streams") < READERS {
        std::thread::yield_now();
    }
    let before = server.memory();
    let mut most = 0;
    let mut plans = 0;
    // Until what is not read has filled the buffers of the system, and all of them are cut.
    while server.figure("turnwheel_live_streams") > 0 {
        assert!(plans < 3_000, "they are never cut off");
        server.ended_plan(&start());
        plans += 1;
        most = most.max(server.memory());
    }
    let cut = server.figure("turnwheel_http_connections_unread_total")
        + server.figure("turnwheel_live_streams_cut_off_total");
    assert!(cut >= READERS, "{cut} of {READERS} are counted");
    // What waits for a reader is bounded, and shared by those who wait for the same.
    let grown = most.saturating_sub(before);
    assert!(grown < 256 * 1_024 * 1_024, "{} MiB more", grown >> 20);
    assert!(!server.suspended(&server.begin("t")).to_string().is_empty(), "others are served");
    drop(idle);
    server.stopped();
}

#[test]
fn a_store_that_may_not_grow_refuses_new_plans_until_old_ones_are_removed() {
    let place = Place::new();
    place.write("turnwheel.toml", "store-max = \"3MiB\"\nstore-reserve = \"1MiB\"\n");
    let server = place.serve(&[]);
    let text = "x".repeat(50_000);
    let body = json!({"action": "external", "input": {"topic": "t", "input": text}});
    let mut begun = Vec::new();
    let refused = loop {
        let answer = server.post("/api/v1/plans", &body);
        if answer.status != 201 {
            break answer;
        }
        begun.push(answer.json()["id"].as_str().expect("an id").to_owned());
    };
    refused.is_problem(507, "store-full");
    assert!(!refused.header("retry-after").is_empty());
    assert!(begun.len() > 10, "{}", begun.len());
    // What is there is read, and what is under way goes on: there is a reserve for it.
    for path in ["/api/v1/plans", "/api/v1/stats", "/api/v1/world", "/metrics", "/health"] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    let all = json!({"filter": {"states": ["running"]}, "order": "cancel"});
    let cancelled = server.post("/api/v1/orders", &all).ok();
    assert_eq!(cancelled["touched"], begun.len());
    assert_eq!(server.ended_plan(&begun[0])["result"], "cancelled");
    // Room returns.
    let all = json!({"filter": {"states": ["stopped"]}, "order": "delete"});
    assert_eq!(server.post("/api/v1/orders", &all).ok()["touched"], begun.len());
    assert_eq!(server.post("/api/v1/plans", &body).status, 201);
    server.stopped();
}

#[test]
fn a_disk_that_takes_nothing_refuses_writes_answers_reads_and_is_forgiven() {
    let place = Place::new();
    let server = place.serve(&[]);
    let old = server.begin("t");
    server.suspended(&old);
    assert_eq!(server.get("/health").ok()["is_healthy"], true);
    // No file of the process may be longer than the store is now: what SQLite wants to write fails.
    let process = Pid::from_raw(server.id() as i32).expect("it has an id");
    let limit = |bytes| Rlimit { current: bytes, ..getrlimit(Resource::Fsize) };
    let most = size(&place.store());
    prlimit(Some(process), Resource::Fsize, limit(Some(most))).expect("it is ours");
    let body = json!({"action": "external", "input": {"topic": "t", "input": "x".repeat(100_000)}});
    let refused = loop {
        let answer = server.post("/api/v1/plans", &body);
        if answer.status != 201 {
            break answer;
        }
    };
    let is_known = matches!(refused.status, 503 | 507);
    assert!(is_known && refused.text.contains("\"store-"), "{}", refused.text);
    for path in ["/api/v1/plans", "/api/v1/stats", "/api/v1/queues", "/metrics"] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    let plan = server.get(&format!("/api/v1/plans/{old}")).ok();
    assert_eq!(plan["waits"], "event", "{plan}");

    prlimit(Some(process), Resource::Fsize, limit(None)).expect("it is ours");
    let started = server.post("/api/v1/plans", &body);
    assert_eq!(started.status, 201, "{}", started.text);
    let order = json!({"order": "cancel"});
    server.post(&format!("/api/v1/plans/{old}/orders"), &order).ok();
    assert_eq!(server.ended_plan(&old)["result"], "cancelled");
    server.stopped();
}

#[test]
fn a_store_file_that_is_moved_or_replaced_under_the_server_refuses_starts_and_fails_health() {
    let place = Place::new();
    let server = place.serve(&[]);
    let old = server.begin("t");
    server.suspended(&old);
    let (store, aside) = (place.store(), place.path("aside.db"));
    std::fs::rename(&store, &aside).expect("it is there");
    let body = json!({"action": "external", "input": {"topic": "t"}});
    let refused = server.post("/api/v1/plans", &body);
    assert_eq!(refused.status, 503, "{}", refused.text);
    assert!(refused.text.contains("was deleted or moved"), "{}", refused.text);
    assert_eq!(server.get("/health").status, 503);
    std::fs::write(&store, "").expect("the folder is writable");
    let refused = server.post("/api/v1/plans", &body);
    assert_eq!(refused.status, 503, "{}", refused.text);
    assert!(refused.text.contains("was replaced"), "{}", refused.text);
    // The file is put back: nothing is lost, and all goes on. So it is with the log.
    std::fs::rename(&aside, &store).expect("it is there");
    let log = place.path("wheel.db-wal");
    for _ in 0..3 {
        assert_eq!(server.post("/api/v1/plans", &body).status, 201);
        while server.get("/health").status != 200 {
            std::thread::yield_now();
        }
        std::fs::rename(&log, &aside).expect("it is there");
        let refused = server.post("/api/v1/plans", &body);
        assert_eq!(refused.status, 503, "{}", refused.text);
        assert!(refused.text.contains("-wal was deleted or moved"), "{}", refused.text);
        let health = server.get("/health");
        assert_eq!(health.status, 503, "health follows at once: {}", health.text);
        assert!(health.text.contains("-wal was deleted or moved"), "{}", health.text);
        std::fs::rename(&aside, &log).expect("it can be put back");
    }
    let order = json!({"order": "cancel"});
    server.post(&format!("/api/v1/plans/{old}/orders"), &order).ok();
    assert_eq!(server.ended_plan(&old)["result"], "cancelled");
    server.stopped();
}

#[test]
fn a_step_without_a_free_descriptor_is_tried_again_and_does_not_fail() {
    let place = Place::new();
    let server = place.serve(&["--allow-shell"]);
    let flow = "document: { dsl: '1.0.3', namespace: test, name: shell, version: '1.0.0' }
do:
  - first: { run: { shell: { command: 'echo one' } } }
";
    add(&server, flow);
    // The connection stays open: there is no descriptor for another one in a moment.
    let agent = crate::serve_common::agent();
    let path = "/api/v1/flows/test/shell/1.0.0/start";
    let start = |body: &str| server.try_send(&agent, "POST", path, &[], Some(body));
    let first = start("{}").expect("an answer").ok();
    server.ended_plan(first["id"].as_str().expect("an id"));
    let process = Pid::from_raw(server.id() as i32).expect("it has an id");
    let before = getrlimit(Resource::Nofile);
    let limit = |files| Rlimit { current: Some(files), maximum: before.maximum };
    prlimit(Some(process), Resource::Nofile, limit(3)).expect("it is ours");
    let started = start("{}").expect("an answer").ok();
    while !place.log().contains("is tried again") {
        std::thread::yield_now();
    }
    prlimit(Some(process), Resource::Nofile, limit(1_024)).expect("it is ours");
    let plan = server.ended_plan(started["id"].as_str().expect("an id"));
    assert_eq!(plan["result"], "success", "{plan}");
    server.stopped();
}

#[test]
fn heads_that_drip_are_cut_and_bodies_and_rates_have_limits() {
    let place = Place::new();
    let arguments = ["--head-within", "300ms", "--body-bytes-max", "1000", "--rate", "2"];
    let server = place.serve(&arguments);
    // A head that never ends.
    let drips: Vec<TcpStream> =
        (0..50).map(|_| server.raw("GET /api/v1/plans HTTP/1.1\r\nhost: local")).collect();
    assert_eq!(server.get("/health").status, 200, "others are answered meanwhile");
    for drip in drips {
        let said = rest(drip);
        assert!(said.is_empty() || said.contains(" 408 "), "{said}");
    }
    let body = json!({"action": "external", "input": {"topic": "x".repeat(2_000)}});
    server.post("/api/v1/plans", &body).is_problem(413, "body-too-large");
    let refused = loop {
        let answer = server.get("/api/v1/queues");
        if answer.status != 200 {
            break answer;
        }
    };
    refused.is_problem(429, "too-many-requests");
    assert!(refused.header("retry-after").parse::<u64>().is_ok_and(|after| after > 0));
    server.stopped();
}

#[test]
fn old_plans_are_removed_by_the_clock_and_that_is_told() {
    let place = Place::new();
    let settings = "[retention]\nstopped = \"1ms\"\nexport = \"old\"\n";
    let server = place.serve(&[]);
    let plans: Vec<String> = (0..100).map(|_| server.begin("t")).collect();
    let all = json!({"filter": {"states": ["running"]}, "order": "cancel"});
    assert_eq!(server.post("/api/v1/orders", &all).ok()["touched"], 100);
    let left = server.begin("t");
    plans.iter().for_each(|plan| assert_eq!(server.ended_plan(plan)["state"], "stopped"));
    assert_eq!(server.get("/api/v1/world").ok()["retention"], json!(null));
    server.stopped();

    place.write("turnwheel.toml", settings);
    let print = place.json(&["config", "print", "--json"]);
    assert_eq!(print["settings"]["retention.stopped"]["value"], "1ms");
    let server = place.serve(&[]);
    let retention = || server.get("/api/v1/world").ok()["retention"].clone();
    while retention()["last_at"].is_null() {
        std::thread::yield_now();
    }
    let told = retention();
    assert_eq!((&told["removed"], &told["age_ms"]), (&json!(100), &json!(1)), "{told}");
    assert_eq!(server.figure("turnwheel_plans_removed_total"), 100);
    let kept = server.get("/api/v1/plans").ok();
    assert_eq!(kept["plans"].as_array().map(Vec::len), Some(1));
    assert_eq!(kept["plans"][0]["id"], left);
    let folder = std::fs::read_dir(place.path("old")).expect("it was made");
    let texts = folder.map(|file| std::fs::read_to_string(file.expect("a file").path()));
    let lines: usize = texts.map(|text| text.expect("text").lines().count()).sum();
    assert_eq!(lines, 100);
    server.stopped();
}

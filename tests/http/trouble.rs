//! Clients that drip, flood or vanish; a full disk; an orderly stop.
#![cfg(feature = "server")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use turnwheel::engine::MemoryStore;
use turnwheel::http::{Access, Options};
use turnwheel::sqlite::SqliteStore;

use crate::http_common::{world, Served};

fn raw(served: &Served, request: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(served.address()).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
    // A server that has refused already may not read to the end.
    let _ = stream.write_all(request);
    stream
}

fn answer(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn a_body_that_is_too_large_is_refused_before_it_is_read() {
    let options = Options::new(Access::Loopback).body_bytes_max(1_000);
    let served = Served::with(world(MemoryStore::new()), options);
    let body = json!({"action": "echo", "input": {"text": "x".repeat(2_000)}});
    served.post("/api/v1/plans", &body).is_problem(413, "body-too-large");
    // One that does not say how long it is.
    let head =
        "POST /api/v1/plans HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                connection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = format!("400\r\n{}\r\n", "x".repeat(1_024));
    let answer = answer(raw(&served, format!("{head}{chunk}{chunk}0\r\n\r\n").as_bytes()));
    assert!(answer.contains("413") && answer.contains("body-too-large"), "{answer}");
    // One that says it is huge, and never comes.
    let head =
        "POST /api/v1/plans HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                connection: close\r\ncontent-length: 99999999999\r\n\r\n";
    let answer = answer_of(&served, head);
    assert!(answer.contains("body-too-large"), "{answer}");
}

fn answer_of(served: &Served, request: &str) -> String {
    answer(raw(served, request.as_bytes()))
}

#[test]
fn a_body_that_drips_is_refused_and_others_are_answered_meanwhile() {
    let options = Options::new(Access::Loopback).body_within(Duration::from_millis(200));
    let served = Served::with(world(MemoryStore::new()), options);
    let head =
        "POST /api/v1/plans HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                connection: close\r\ncontent-length: 100\r\n\r\n{\"act";
    let dripping: Vec<TcpStream> = (0..50).map(|_| raw(&served, head.as_bytes())).collect();
    assert_eq!(served.get("/api/v1/plans").status, 200);
    for stream in dripping {
        let answer = answer(stream);
        assert!(answer.contains("408") && answer.contains("body-too-slow"), "{answer}");
    }
}

#[test]
fn what_is_no_http_is_answered_or_cut_and_harms_nobody() {
    let served = Served::new();
    let long = format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "a".repeat(100_000));
    let many: String = (0..5_000).map(|n| format!("x-{n}: {n}\r\n")).collect();
    let many = format!("GET / HTTP/1.1\r\nhost: localhost\r\n{many}\r\n");
    for request in ["\0\0\0\0", "GET / HTTP/9\r\n\r\n", "SSH-2.0-x\r\n\r\n", &long, &many] {
        let answer = answer_of(&served, request);
        assert!(answer.is_empty() || answer.contains(" 4"), "{answer}");
    }
    for _ in 0..100 {
        drop(raw(&served, b"POST /api/v1/plans HTTP/1.1\r\nhost: loc"));
    }
    assert_eq!(served.get("/health").status, 200);
}

/// A stream of live events that has begun.
fn stream(served: &Served) -> TcpStream {
    let mut stream = raw(served, b"GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let mut head = [0; 12];
    stream.read_exact(&mut head).expect("it begins at once");
    assert_eq!(&head, b"HTTP/1.1 200");
    stream
}

#[test]
fn health_is_answered_while_all_places_are_taken_and_all_threads_are_blocked() {
    let options = Options::new(Access::Loopback);
    let served =
        Served::listening(world(MemoryStore::new()), options, |listen| listen.connections_max(2));
    let busy = [stream(&served), stream(&served)];
    let silent: Vec<_> = (0..100).map(|_| raw(&served, b"")).collect();
    // As handlers that never end would.
    let (blocked, is_blocked) = std::sync::mpsc::channel();
    let release = Arc::new(std::sync::Barrier::new(3));
    for _ in 0..2 {
        let (blocked, release) = (blocked.clone(), Arc::clone(&release));
        served.spawn(async move {
            blocked.send(()).expect("somebody waits");
            release.wait();
        });
    }
    (0..2).for_each(|_| is_blocked.recv().expect("each thread is blocked"));
    for _ in 0..3 {
        assert_eq!(served.get("/health").json()["is_healthy"], true);
        assert_eq!(served.get("/health/live").status, 204);
    }
    release.wait();
    drop((busy, silent));
    assert_eq!(served.get("/api/v1/plans").status, 200);
}

#[test]
fn idle_connections_make_way_for_new_ones_and_busy_ones_stay() {
    let options = Options::new(Access::Loopback);
    let served =
        Served::listening(world(MemoryStore::new()), options, |listen| listen.connections_max(2));
    let live = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    // Silent ones, one that has begun a head, one that keeps its connection after an answer.
    let mut idle: Vec<_> = (0..20).map(|_| raw(&served, b"")).collect();
    idle.push(raw(&served, b"GET /health/live HTTP/1.1\r\nhost: lo"));
    idle.push(raw(&served, b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n"));
    assert!(answer(raw(&served, live)).contains("204"));
    // Two streams: a third connection is refused until one of them ends, and the other is not cut.
    let (one, mut other) = (stream(&served), stream(&served));
    let waiting: Vec<_> = (0..40).map(|_| raw(&served, LIST)).collect();
    let live = answer(raw(&served, live));
    assert!(live.contains("204"), "health is answered meanwhile: {live}");
    drop(one);
    let answers: Vec<String> = waiting.into_iter().map(answer).collect();
    let refused = answers.iter().filter(|answer| answer.contains("connections-full"));
    let refused = refused.inspect(|answer| assert!(answer.contains("retry-after: 1"), "{answer}"));
    assert!(refused.count() > 0, "more wait than may");
    assert!(answers.iter().any(|answer| answer.contains("200 OK")), "{answers:?}");
    let plan = served.start("ask", &json!(null));
    let mut told = Vec::new();
    while !String::from_utf8_lossy(&told).contains(&plan) {
        let mut some = [0; 4_096];
        let count = other.read(&mut some).expect("it goes on");
        assert!(count > 0, "it is cut");
        told.extend_from_slice(&some[..count]);
    }
    drop(idle);
}

/// The begin of a request whose body does not come.
fn half(path: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: 900\r\n\r\n{{"
    )
}

const LIST: &[u8] = b"GET /api/v1/plans HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

#[test]
fn connections_whose_bodies_do_not_come_make_way_for_others() {
    let options = Options::new(Access::Loopback).body_within(Duration::from_secs(3_600));
    let served =
        Served::listening(world(MemoryStore::new()), options, |listen| listen.connections_max(3));
    let reader = stream(&served);
    let half = half("/api/v1/plans");
    let stalled: Vec<_> = (0..10).map(|_| raw(&served, half.as_bytes())).collect();
    for _ in 0..3 {
        let answered = answer(raw(&served, LIST));
        assert!(answered.contains("200 OK"), "{answered}");
    }
    drop((stalled, reader));
}

#[test]
fn a_stranger_with_no_callback_is_refused_before_its_body_and_others_have_a_short_time() {
    let options = Options::new(Access::Loopback).body_within(Duration::from_secs(3_600));
    let served = Served::with(world(MemoryStore::new()), options);
    let plan = served.start("ask", &json!(null));
    let step = served.suspended(&plan);
    let made = served.post(&format!("/api/v1/plans/{plan}/steps/{step}/callback"), &json!(null));
    let made = made.json()["token"].as_str().unwrap().to_owned();
    let other = format!("{}{}", &made[..made.len() - 1], if made.ends_with('0') { 1 } else { 0 });
    for unknown in ["x", &other] {
        let answered =
            answer(raw(&served, half(&format!("/api/v1/callbacks/{unknown}")).as_bytes()));
        assert!(answered.contains("callback-unknown"), "{answered}");
    }
    for path in [format!("/api/v1/callbacks/{made}"), "/api/v1/session".to_owned()] {
        let answered = answer(raw(&served, half(&path).as_bytes()));
        assert!(answered.contains("body-too-slow"), "{path}: {answered}");
    }
    // The callback is not used up.
    let told = served.post(&format!("/api/v1/callbacks/{made}"), &json!(7));
    assert_eq!(told.status, 200, "{}", told.text);
}

#[test]
fn requests_that_wait_leave_connections_for_others() {
    let options = Options::new(Access::Loopback);
    let served =
        Served::listening(world(MemoryStore::new()), options, |listen| listen.connections_max(4));
    let plan = served.start("ask", &json!(null));
    let mut waiting: Vec<_> = (0..3).map(|_| stream(&served)).collect();
    let events = "/api/v1/events".to_owned();
    let waits = format!("/api/v1/plans/{plan}?wait_ms=60000");
    for path in [&events, &waits] {
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let refused = answer(raw(&served, head.as_bytes()));
        assert!(refused.contains("503") && refused.contains("connections-full"), "{refused}");
        assert!(refused.contains("retry-after: 1"), "{refused}");
    }
    let answered = answer(raw(&served, LIST));
    assert!(answered.contains("200 OK"), "{answered}");
    drop(waiting.pop());
    // The server notices the end of the stream when it likes.
    while served.get(&format!("/api/v1/plans/{plan}?wait_ms=1")).status != 200 {
        std::thread::yield_now();
    }
}

#[test]
fn a_full_disk_refuses_new_work_and_reading_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::new(folder.path().join("wheel.db")));
    let options = Options::new(Access::Loopback).health_fresh(Duration::ZERO);
    let served = Served::with(world(Arc::clone(&store)), options);
    let waiting = served.start("ask", &json!(null));
    let step = served.suspended(&waiting);
    let old = served.start("echo", &json!({"text": "before"}));
    served.ended(&old);

    // As if all but a little was taken.
    store.set_reserve(u64::MAX);
    let body = json!({"action": "echo", "input": {"text": "a"}});
    let refused = served.post("/api/v1/plans", &body);
    refused.is_problem(507, "store-full");
    assert!(!refused.header("retry-after").is_empty());
    // What is there is read as ever.
    assert_eq!(served.get(&format!("/api/v1/plans/{old}")).json()["result"], "success");
    assert_eq!(served.get("/api/v1/plans").json()["plans"].as_array().unwrap().len(), 2);
    assert_eq!(served.get("/api/v1/stats").status, 200);
    // What is under way may use the reserve.
    let event = json!({"event": 7});
    let sent = served.post(&format!("/api/v1/plans/{waiting}/steps/{step}/events"), &event);
    assert_eq!(sent.status, 200, "{}", sent.text);
    assert_eq!(served.ended(&waiting)["output"], 7);

    store.set_reserve(0);
    let again = served.post("/api/v1/plans", &body);
    assert_eq!(again.status, 201, "{}", again.text);
}

#[test]
fn a_file_that_cannot_grow_refuses_all_writes_and_health_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::new(folder.path().join("wheel.db")));
    let options = Options::new(Access::Loopback).health_fresh(Duration::ZERO);
    let served = Served::with(world(Arc::clone(&store)), options);
    let plan = served.start("echo", &json!({"text": "before"}));
    served.ended(&plan);
    assert_eq!(served.get("/health").json()["is_healthy"], true);

    store.set_bytes_max(1);
    store.set_reserve(0);
    let text = "x".repeat(100_000);
    let body = json!({"action": "echo", "input": {"text": text}});
    let refused = loop {
        let answer = served.post("/api/v1/plans", &body);
        if answer.status != 201 {
            break answer;
        }
    };
    refused.is_problem(507, "store-full");
    for path in ["/api/v1/plans", "/api/v1/stats", "/api/v1/queues", "/metrics"] {
        let answer = served.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
    }
    assert_eq!(served.get(&format!("/api/v1/plans/{plan}")).json()["result"], "success");

    store.set_bytes_max(u64::MAX);
    let again = served.post("/api/v1/plans", &body);
    assert_eq!(again.status, 201, "{}", again.text);
    assert_eq!(served.get("/health").json()["is_healthy"], true);
}

#[test]
fn many_probes_at_once_share_one_commit() {
    let options = Options::new(Access::Loopback).health_fresh(Duration::from_secs(3_600));
    let served = Served::with(world(MemoryStore::new()), options);
    let times: Vec<String> = std::thread::scope(|scope| {
        let probes: Vec<_> = (0..16)
            .map(|_| scope.spawn(|| served.get("/health").json()["committed_at"].to_string()))
            .collect();
        probes.into_iter().map(|probe| probe.join().unwrap()).collect()
    });
    assert!(times.iter().all(|time| *time == times[0]), "{times:?}");
}

#[test]
fn who_waits_for_a_plan_is_answered_when_the_server_stops() {
    let mut served = Served::new();
    let plan = served.start("ask", &json!(null));
    served.suspended(&plan);
    let host = served.address().to_owned();
    let head = format!("GET /api/v1/plans/{plan}?wait_ms=60000 HTTP/1.1\r\nhost: {host}\r\n\r\n");
    let waiting = raw(&served, head.as_bytes());
    while !served.get("/metrics").text.contains("turnwheel_http_requests_under_way 2") {
        std::thread::yield_now();
    }
    served.tell_to_stop();
    let answered = answer(waiting);
    assert!(answered.contains("200 OK") && answered.contains("\"running\""), "{answered}");
    assert!(served.stopped().is_drained);
}

#[test]
fn a_stop_finishes_answers_and_refuses_new_work() {
    let mut served = Served::new();
    let plan = served.start("ask", &json!(null));
    let step = served.suspended(&plan);
    // A request that is under way when the server is told to stop: its head is read, its body is not.
    let body = json!({"event": 1}).to_string();
    let host = served.address().to_owned();
    let head = format!(
        "POST /api/v1/plans/{plan}/steps/{step}/events HTTP/1.1\r\nhost: {host}\r\ncontent-type: \
         application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = raw(&served, head.as_bytes());
    while !served.get("/metrics").text.contains("turnwheel_http_requests_under_way 2") {
        std::thread::yield_now();
    }
    served.tell_to_stop();
    // New connections hear of it from some moment on. One that says nothing does not hold up the stop.
    let ask = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n");
        answer(raw(&served, request.as_bytes()))
    };
    let health = loop {
        let health = ask("/health");
        if !health.starts_with("HTTP/1.1 200") {
            break health;
        }
    };
    assert!(health.starts_with("HTTP/1.1 503"), "{health}");
    assert!(health.contains("\"is_taking_work\":false"), "{health}");
    assert!(ask("/health/live").starts_with("HTTP/1.1 204"));
    for path in ["/api/v1/plans", "/metrics", "/healthy"] {
        let refused = ask(path).to_ascii_lowercase();
        assert!(refused.starts_with("http/1.1 503"), "{path}: {refused}");
        for part in ["stop-under-way", "\r\nretry-after: 5\r\n", "\r\nconnection: close\r\n"] {
            assert!(refused.contains(part), "{path}, {part}: {refused}");
        }
    }
    let silent = raw(&served, b"GET /heal");
    stream.write_all(body.as_bytes()).unwrap();
    let answered = answer(stream);
    assert!(answered.contains("200 OK"), "{answered}");
    let (world, address) = (served.world.clone(), served.address().to_owned());
    assert!(served.stopped().is_drained);
    // The listener goes with the server, and so do connections that are open.
    while TcpStream::connect(&address).is_ok() {
        std::thread::yield_now();
    }
    assert_eq!(answer(silent), "");
    drop(world);
}

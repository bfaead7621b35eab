//! `turnwheel serve` as a process: killed under load it has lost nothing that it has answered.
#![cfg(all(feature = "server", feature = "cli", unix))]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{json, Value};

struct Process {
    child: Child,
    url: String,
}

impl Process {
    fn start(store: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_turnwheel"))
            .args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--store"])
            .arg(store)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("it says where it listens");
        let url = line.trim().strip_prefix("listening on ").expect(&line).to_owned();
        Self { child, url }
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let killed = Command::new("kill").args([name, &id]).status().expect("there is kill");
        assert!(killed.success());
    }

    fn ended(&mut self) -> ExitStatus {
        self.child.wait().expect("it is a child")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    config.timeout_global(Some(Duration::from_secs(60))).build().into()
}

fn get(url: &str) -> (u16, Value) {
    let answer = agent().get(url).call().expect("an answer");
    let status = answer.status().as_u16();
    let text = answer.into_body().read_to_string().expect("text");
    (status, serde_json::from_str(&text).expect("JSON"))
}

fn start(agent: &ureq::Agent, url: &str, key: &str) -> Option<String> {
    let body = json!({"action": "external", "input": {"topic": "t", "input": key}}).to_string();
    let answer = agent
        .post(format!("{url}/api/v1/plans"))
        .header("content-type", "application/json")
        .header("idempotency-key", key)
        .send(body.as_bytes())
        .ok()?;
    if !answer.status().is_success() {
        return None;
    }
    let text = answer.into_body().read_to_string().ok()?;
    let started: Value = serde_json::from_str(&text).ok()?;
    started["id"].as_str().map(str::to_owned)
}

#[test]
fn what_was_answered_is_there_after_kill_nine_under_load() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("wheel.db");
    let mut process = Process::start(&store);
    let answered = Mutex::new(Vec::<(String, String)>::new());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for client in 0..4 {
            let (url, answered, is_over) = (process.url.clone(), &answered, &is_over);
            scope.spawn(move || {
                let agent = agent();
                for number in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let key = format!("{client}-{number}");
                    match start(&agent, &url, &key) {
                        Some(plan) => answered.lock().expect("no panic").push((key, plan)),
                        None => return,
                    }
                }
            });
        }
        while answered.lock().expect("no panic").len() < 300 {
            std::thread::yield_now();
        }
        process.signal("-KILL");
        process.ended();
        is_over.store(true, Ordering::Relaxed);
    });

    let process = Process::start(&store);
    let answered = answered.into_inner().expect("no panic");
    let agent = agent();
    for (key, plan) in &answered {
        let (status, shown) = get(&format!("{}/api/v1/plans/{plan}", process.url));
        assert_eq!(status, 200, "{plan} is lost: {shown}");
        assert_eq!(shown["state"], "running", "{shown}");
        // The same request once more begins nothing.
        assert_eq!(start(&agent, &process.url, key).as_ref(), Some(plan));
    }
    // Each of them goes on: it offers its task.
    let lease = json!({"topics": ["t"], "limit": 100, "wait_ms": 10_000}).to_string();
    let leased = agent
        .post(format!("{}/api/v1/work/lease", process.url))
        .header("content-type", "application/json")
        .send(lease.as_bytes())
        .expect("an answer");
    let text = leased.into_body().read_to_string().expect("text");
    let leased: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(leased["tasks"].as_array().map(Vec::len), Some(100), "{leased}");
}

#[test]
fn a_termination_signal_stops_it_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let began = Instant::now();
    let mut process = Process::start(&folder.path().join("wheel.db"));
    let ready = began.elapsed();
    assert!(ready < Duration::from_secs(10), "{ready:?}");
    let (status, health) = get(&format!("{}/health", process.url));
    assert_eq!((status, &health["is_taking_work"]), (200, &json!(true)));
    process.signal("-TERM");
    assert_eq!(process.ended().code(), Some(0));
}

#[test]
fn a_second_server_over_the_same_file_says_who_has_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("wheel.db");
    let _first = Process::start(&store);
    let second = Command::new(env!("CARGO_BIN_EXE_turnwheel"))
        .args(["serve", "--listen", "127.0.0.1:0", "--store"])
        .arg(&store)
        .output()
        .expect("the program starts");
    assert_eq!(second.status.code(), Some(4));
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.contains("is in use"), "{said}");
}

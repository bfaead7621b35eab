//! Jobs as clients of Dkron and operators at the command line keep them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use serde_json::{json, Value};

use super::jobs::over;
use crate::serve_common::{Place, Serve};

fn put(server: &Serve, name: &str, job: &Value) -> Value {
    server.send("PUT", &format!("/api/v1/jobs/{name}"), &[], Some(&job.to_string())).ok()
}

/// Job that waits at its executor for as long as nobody stops it.
fn long(overlap: &str) -> Value {
    json!({"schedule": "@manually", "overlap": overlap, "config": {"command": "sleep 600"}})
}

#[test]
fn a_client_of_dkron_that_sends_back_what_it_has_read_changes_nothing() {
    let place = Place::new();
    let server = place.serve(&["--allow-shell"]);
    let simple = json!({"schedule": "@manually", "config": {"command": "true"}});
    for name in ["first", "second"] {
        put(&server, name, &simple);
    }
    let rich = json!({
        "schedule": "@daily", "overlap": "queue_all", "config": {"command": "true"},
        "after": [{"job": "first", "on": "failure"}, {"job": "second", "on": "always"}],
        "missed": {"all": "2h"}, "keep": 7, "targets": {"role": "web"}, "nodes": 2,
    });
    let before = put(&server, "rich", &rich);
    let mut read = server.get("/v1/jobs/rich").ok();
    let sent = server.send("PUT", "/v1/jobs/rich", &[], Some(&read.to_string()));
    assert_eq!(sent.status, 201, "{}", sent.text);
    let after = server.get("/api/v1/jobs/rich").ok();
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(after["revision"], before["revision"], "nothing was written");
    // A field that it changes is changed, and one that it leaves out has its default.
    read["retries"] = json!(3);
    read.as_object_mut().expect("a job").remove("schedule");
    server.send("POST", "/v1/jobs", &[], Some(&read.to_string())).ok();
    let after = server.get("/api/v1/jobs/rich").ok();
    assert_eq!((&after["spec"]["retries"], &after["spec"]["schedule"]), (&json!(3), &json!("")));
    assert_eq!(after["spec"]["after"], before["spec"]["after"]);
    server.stopped();
}

#[test]
fn a_job_that_is_stored_and_not_run_is_told_as_stored() {
    let place = Place::new();
    let server = place.serve(&["--allow-shell"]);
    let job = |command: &str| {
        json!({
            "name": "b", "schedule": "@manually", "executor": "shell", "concurrency": "forbid",
            "executor_config": {"command": command},
        })
    };
    let make = |command: &str| {
        server.send("POST", "/v1/jobs?runoncreate=true", &[], Some(&job(command).to_string()))
    };
    let first = make("sleep 600");
    assert_eq!(first.status, 201, "{}", first.text);
    let id = first.header("x-execution-id").to_owned();
    server.get(&format!("/v1/jobs/b/executions/{id}")).ok();
    let second = make("sleep 601");
    assert_eq!(second.status, 201, "{}", second.text);
    let not_run = second.json()["turnwheel"]["not_run"].clone();
    assert!(not_run.as_str().is_some_and(|why| why.contains("under way")), "{not_run}");
    assert_eq!(second.header("x-execution-id"), "");
    assert_eq!(server.get("/v1/jobs/b").ok()["executor_config"]["command"], "sleep 601");
    server.post("/api/v1/jobs/b/cancel", &json!({"launch": 1})).ok();
    over(&server, "b");
    server.stopped();
}

#[test]
fn the_id_of_an_execution_that_no_node_has_yet_is_found_later_too() {
    let place = Place::new();
    let server = place.serve(&["--allow-shell"]);
    let wait = json!({"no_node": {"wait": "1h"}, "targets": {"role": "web"}});
    let mut job = long("allow");
    wait.as_object().expect("fields").iter().for_each(|(name, value)| job[name] = value.clone());
    put(&server, "waits", &job);
    job["no_node"] = json!("fail");
    put(&server, "fails", &job);
    for name in ["waits", "fails"] {
        let run = server.post(&format!("/v1/jobs/{name}/run"), &json!({}));
        let id = run.header("x-execution-id").to_owned();
        assert!(!id.is_empty(), "{name}: {}", run.text);
        let found = server.get(&format!("/v1/jobs/{name}/executions/{id}")).ok();
        assert_eq!(found["job_name"], name);
        let unknown = server.get(&format!("/v1/jobs/{name}/executions/{id}x"));
        assert_eq!(unknown.status, 404, "{}", unknown.text);
    }
    server.stopped();
}

#[test]
fn a_job_whose_executor_or_notifier_has_vanished_is_told_and_can_be_switched_off() {
    let place = Place::new();
    let mail = [("TURNWHEEL_JOBS_MAIL_HOST", "127.0.0.1"), ("TURNWHEEL_JOBS_MAIL_FROM", "a@b.org")];
    let server = place.serve_with(&["--allow-shell"], &mail);
    let mut job = long("allow");
    job["schedule"] = json!("@daily");
    job["notify"] = json!([{"on": ["failure"], "mail": ["ann@example.org"]}]);
    let stored = put(&server, "tells", &job);
    assert_eq!(stored["problem"], Value::Null);
    server.stopped();
    let server = place.serve(&["--allow-shell"]);
    let shown = server.get("/api/v1/jobs/tells").ok();
    let problem = shown["problem"].as_str().unwrap_or_default();
    assert!(problem.contains("jobs.mail-host"), "{shown}");
    let off = server.post("/v1/jobs/tells/toggle", &json!({}));
    assert_eq!((off.status, &off.json()["disabled"]), (200, &json!(true)), "{}", off.text);
    // On again it is checked.
    let on = server.post("/api/v1/jobs/tells/toggle", &json!({"disabled": false}));
    on.is_problem(400, "job-invalid");
    server.stopped();
}

#[test]
fn jobs_are_edited_and_paused_by_the_command_line() {
    let place = Place::new();
    let server = place.serve(&["--allow-shell"]);
    let add = ["job", "add", "a", "--schedule", "@daily", "--command", "true", "--retries", "2"];
    place.ok(&add);
    assert_eq!(place.ok(&["job", "edit", "a", "--overlap", "forbid"]), "a is changed\n");
    assert_eq!(place.ok(&["job", "edit", "a", "--overlap", "forbid"]), "a is as it was\n");
    let spec = place.json(&["job", "show", "a"])["spec"].clone();
    assert_eq!((&spec["retries"], &spec["overlap"]), (&json!(2), &json!("forbid")));
    assert_eq!(place.ok(&["job", "pause", "a"]), "a is off\n");
    assert_eq!(place.ok(&["job", "pause", "a"]), "a is off\n");
    assert_eq!(place.ok(&["job", "resume", "a"]), "a is on\n");
    let unknown = place.run(&["job", "edit", "b", "--retries", "1"]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("«b»"), "{unknown:?}");
    // Nothing of files is stored if one of their jobs cannot be right.
    let file = place.write(
        "jobs.yaml",
        "- { name: good, schedule: '@daily', config: { command: 'true' } }\n\
         - { name: bad, schedule: nope, config: { command: 'true' } }\n",
    );
    let refused = place.run(&["job", "apply", &file, "--yes"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && said.contains("bad") && said.contains("schedule"),
        "{said}"
    );
    assert_eq!(server.get("/api/v1/jobs/good").status, 404);
    server.stopped();
}

#[test]
fn the_end_of_a_long_answer_is_kept() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}/", listener.local_addr().expect("it has one"));
    const BYTES: usize = 6_000_000;
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("it asks");
        let mut lines = BufReader::new(stream.try_clone().expect("a stream")).lines();
        while lines.next().is_some_and(|line| !line.expect("it is read").is_empty()) {}
        let head = format!(
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            BYTES + 3
        );
        stream.write_all(head.as_bytes()).expect("it reads");
        stream.write_all(&vec![b'a'; BYTES]).expect("it reads");
        stream.write_all(b"end").expect("it reads");
    });
    let place = Place::new();
    let server = place.serve(&[]);
    let config = json!({"method": "GET", "url": url, "expectBody": "end$"});
    let job = json!({
        "schedule": "@manually", "executor": "http", "config": config, "output_max": 1_000,
    });
    put(&server, "long", &job);
    server.post("/api/v1/jobs/long/run", &json!({})).ok();
    let launch = over(&server, "long");
    assert_eq!(launch["state"], "succeeded", "{launch}");
    let run = &launch["runs"][0];
    assert_eq!((&run["output_bytes"], &run["output_truncated"]), (&json!(BYTES + 3), &json!(true)));
    let output = server.get("/api/v1/jobs/long/launches/1/output").ok();
    let output = output["output"].as_str().expect("a text");
    assert!(output.len() == 1_000 && output.ends_with("aaend"), "{}", output.len());
    answering.join().expect("it has answered");
    server.stopped();
}

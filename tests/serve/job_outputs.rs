//! Processors of outputs on this host, and labels of the node.

use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use serde_json::{json, Value};

use super::jobs::over;
use crate::serve_common::{Place, Serve};

const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a job that says two lines through processors; answers its run and its output.
fn processed(server: &Serve, job: &str, processors: &Value) -> (Value, String) {
    let body = json!({
        "schedule": "@manually", "config": {"command": "printf 'one\\ntwo\\n'"},
        "processors": processors,
    });
    let path = format!("/api/v1/jobs/{job}");
    server.send("PUT", &path, &[], Some(&body.to_string())).ok();
    server.post(&format!("{path}/run"), &json!({})).ok();
    let launch = over(server, job);
    assert_eq!(launch["state"], "succeeded", "{launch}");
    let output = server.get(&format!("{path}/launches/1/output")).ok();
    (launch["runs"][0].clone(), output["output"].as_str().expect("a text").to_owned())
}

#[test]
fn outputs_go_to_files_and_to_the_log() {
    let place = Place::new();
    let server = place.serve_with(&["--allow-shell"], &[("TURNWHEEL_JOBS_NODE", "box")]);
    let folder = place.path("outputs");
    let files = json!({"files": {"log_dir": folder}});
    let (_, output) = processed(&server, "filed", &files);
    assert_eq!(output, folder.join("filed-1-1-box.log").display().to_string());
    assert_eq!(std::fs::read_to_string(&output).expect("it is written"), "one\ntwo\n");
    let log = json!({"log": {"forward": "true"}});
    let (run, output) = processed(&server, "logged", &log);
    assert_eq!((&run["note"], output.as_str()), (&json!(""), "one\ntwo\n"));
    let (run, output) = processed(&server, "nowhere", &json!({"files": {"log_dir": "/proc/x"}}));
    assert!(run["note"].as_str().expect("a text").contains("processor files: /proc/x"), "{run}");
    assert_eq!(output, "one\ntwo\n", "an output that was not taken stays");
    let wrong = json!({"schedule": "@manually", "config": {"command": "true"},
        "processors": {"files": {"log_dir": "here"}}});
    let answer = server.send("PUT", "/api/v1/jobs/bad", &[], Some(&wrong.to_string()));
    answer.is_problem(400, "job-invalid");
    assert!(answer.text.contains("does not begin at /"), "{}", answer.text);
    let said = server.output_until("--- end of job logged");
    assert!(said.contains("--- job logged, launch 1 of"), "{said}");
    assert!(said.contains("on box: succeeded\none\ntwo\n"), "{said}");
}

#[test]
fn outputs_go_to_syslog_and_fluent_in_order() {
    let place = Place::new();
    let socket = place.path("log.socket");
    let syslog = UnixDatagram::bind(&socket).expect("a socket");
    syslog.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let fluent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = fluent.local_addr().expect("an address").port().to_string();
    let variables = [
        ("TURNWHEEL_JOBS_SYSLOG", socket.to_str().expect("a text")),
        ("FLUENTBIT_HOST", "127.0.0.1"),
        ("FLUENTBIT_PORT", port.as_str()),
        ("FLUENTBIT_TAG", "cron.jobs"),
    ];
    let server = place.serve_with(&["--allow-shell"], &variables);
    let both = json!({"syslog": {"forward": "true", "order": "1"}, "fluent": {"order": "2"}});
    let (run, output) = processed(&server, "shipped", &both);
    assert_eq!((&run["note"], output.as_str()), (&json!(""), "Output sent to Fluent"));
    let mut buffer = [0; 4_096];
    for line in ["one", "two"] {
        let length = syslog.recv(&mut buffer).expect("a message");
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        let is_right = text.starts_with("<78>turnwheel[");
        assert!(is_right && text.ends_with(&format!("]: shipped: {line}")), "{text}");
    }
    let (mut stream, _) = fluent.accept().expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an event");
    let mut tag = vec![0x93, 0xdb, 0, 0, 0, 9];
    tag.extend(b"cron.jobs");
    assert!(bytes.starts_with(&tag), "{bytes:?}");
    assert_eq!((bytes[15], bytes[20]), (0xce, 0x83), "a time, and three fields");
    let text = String::from_utf8_lossy(&bytes);
    for part in ["host", "job_name", "shipped", "message", "one\ntwo\n"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    server.stopped();
}

#[test]
fn labels_of_the_node_match_targets_and_tags() {
    let place = Place::new();
    let labels = [("TURNWHEEL_JOBS_LABELS", "dc=dc1, disk=fast")];
    let server = place.serve_with(&["--allow-shell"], &labels);
    let job = |name: &str, tags: &Value| {
        let job = json!({"name": name, "schedule": "@manually", "executor": "shell",
            "executor_config": {"command": "true"}, "tags": tags});
        server.post("/v1/jobs", &job).ok();
        server.post(&format!("/v1/jobs/{name}/run"), &json!({})).ok();
        over(&server, name)
    };
    assert_eq!(job("near", &json!({"dc": "dc1:1", "disk": "fast"}))["state"], "succeeded");
    let far = job("far", &json!({"dc": "dc2"}));
    assert_eq!(far["state"], "failed");
    assert!(far["reason"].as_str().expect("a text").contains("no node has dc=dc2"), "{far}");
    assert_eq!(server.get("/v1/members").ok()[0]["Tags"]["dc"], "dc1");
    server.stopped();
    let refused = place.command(&["serve"]).env("TURNWHEEL_JOBS_LABELS", "fast").output();
    let refused = refused.expect("it ends");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("region=eu,disk=fast"), "{said}");
}

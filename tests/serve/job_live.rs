//! Outputs of runs under way: followed, huge, and of commands that do not want to end.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{json, Value};

use super::jobs::over;
use crate::serve_common::{Place, Serve};

/// A pipe with a name: reading it waits for a writer.
fn pipe(place: &Place, name: &str) -> String {
    let path = place.path(name).display().to_string();
    assert!(Command::new("mkfifo").arg(&path).status().expect("there is mkfifo").success());
    path
}

fn launch(server: &Serve, job: &str, config: &Value, more: &Value) {
    let mut body = json!({"schedule": "@manually", "config": config});
    for (name, value) in more.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    server.send("PUT", &format!("/api/v1/jobs/{job}"), &[], Some(&body.to_string())).ok();
    server.post(&format!("/api/v1/jobs/{job}/run"), &json!({})).ok();
}

#[test]
fn an_output_is_followed_while_it_is_written() {
    let place = Place::new();
    let server = place.serve(&["--allow-shell"]);
    let gate = pipe(&place, "gate");
    let script = format!("echo one; cat {gate}; echo three >&2");
    launch(&server, "slow", &json!({"command": script, "shell": "true"}), &json!({}));
    let mut follower = place.command(&["job", "history", "slow", "--follow"]);
    let mut follower = follower.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it");
    let mut lines = BufReader::new(follower.stdout.take().expect("piped")).lines();
    let mut next = || lines.next().expect("a line").expect("text");
    assert_eq!(next(), "one");
    // The run cannot have ended: it waits for this.
    fs::write(&gate, "two\n").expect("the command reads it");
    assert_eq!((next(), next()), ("two".to_owned(), "three".to_owned()));
    let mut said = String::new();
    let errors = follower.stderr.take().expect("piped").read_to_string(&mut said);
    errors.expect("text");
    assert!(follower.wait().expect("it ends").success());
    assert!(said.contains("launch 1 of slow: succeeded"), "{said}");
    // Later it is what was kept, from a byte on.
    let rest = |from: u64| {
        let path = format!("/api/v1/jobs/slow/launches/1/output/live?from={from}");
        server.get(&path).text
    };
    let last = rest(8);
    assert!(last.contains(r#""three\n""#) && !last.contains("one"), "{last}");
    let end = rest(14);
    assert!(end.contains("event: end") && !end.contains("event: output"), "{end}");
    let again = place.ok(&["job", "history", "slow", "-f", "--output", "1"]);
    assert!(again.starts_with("one\ntwo\n"), "{again}");
    server.get("/api/v1/jobs/slow/launches/9/output/live").is_problem(404, "job-unknown");
    server.stopped();
    let kept = place.ok(&["job", "history", "slow", "-f"]);
    assert_eq!(kept, "one\ntwo\nthree\n");
}

#[test]
fn an_output_of_a_gigabyte_is_cut_with_a_flag() {
    let place = Place::new();
    let server = place.serve(&["--allow-shell"]);
    let config = json!({"command": "head -c 1000000000 /dev/zero"});
    launch(&server, "huge", &config, &json!({"output_max": 1_000}));
    let run = over(&server, "huge")["runs"][0].clone();
    assert_eq!((&run["output_bytes"], &run["state"]), (&json!(1_000_000_000), &json!("succeeded")));
    assert_eq!(run["output_truncated"], true);
    let output = server.get("/api/v1/jobs/huge/launches/1/output").ok();
    assert_eq!(output["output"].as_str().expect("a text").len(), 1_000);
    #[cfg(target_os = "linux")]
    assert!(server.memory() < 400 << 20, "{} bytes of memory", server.memory());
    server.stopped();
}

#[test]
fn a_command_that_ignores_signals_is_ended_with_its_group() {
    let place = Place::new();
    let grace = [("TURNWHEEL_IO_COMMAND_GRACE", "100ms")];
    let server = place.serve_with(&["--allow-shell"], &grace);
    let gate = pipe(&place, "gate");
    let script =
        format!("trap '' TERM INT; sleep 3600 & echo $! > {gate}; while :; do sleep 1; done");
    let config = json!({"command": script, "shell": "true"});
    launch(&server, "stubborn", &config, &json!({}));
    let sleeper = fs::read_to_string(&gate).expect("the command writes");
    let sleeper = format!("/proc/{}/stat", sleeper.trim());
    assert!(Path::new(&sleeper).exists());
    server.post("/api/v1/jobs/stubborn/cancel", &json!({"launch": 1})).ok();
    let ended = over(&server, "stubborn");
    assert_eq!(ended["state"], "cancelled", "{ended}");
    // Killed processes may wait for their parent; they do nothing any more.
    let is_dead = |stat: &str| stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'));
    assert!(
        fs::read_to_string(&sleeper).is_ok_and(|stat| is_dead(&stat))
            || !Path::new(&sleeper).exists()
    );
    let config = json!({"command": "trap '' TERM; while :; do sleep 1; done", "shell": "true"});
    launch(&server, "late", &config, &json!({"timeout": "200ms"}));
    assert_eq!(over(&server, "late")["state"], "failed");
    server.stopped();
}

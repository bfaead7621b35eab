//! Verbs that change plans and schedules, here and at the server that has the store.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use serde_json::{json, Value};
use turnwheel::engine::{PlanResult, PlanState};

use crate::cli_common::Folder;

#[test]
fn plans_are_cancelled_one_by_one_and_as_described() {
    let (folder, plans) = Folder::with_plans();
    let (waits, paused) = (plans.waits.to_string(), plans.paused.to_string());
    let dry = folder.json(&["cancel", "--state", "running,paused", "--dry-run", "--json"]);
    assert_eq!(dry["plans"], json!([waits, paused]));
    assert_eq!(dry["is_dry_run"], true);
    assert_eq!(folder.json(&["show", &waits, "--json"])["state"], "running", "nothing was done");
    let said = folder.ok(&["cancel", &waits, "--by", "eva"]);
    assert!(said.contains("cancel is done"), "{said}");
    let plan = folder.json(&["show", &waits, "--json"]);
    assert_eq!((&plan["state"], &plan["result"]), (&"stopped".into(), &"cancelled".into()));
    assert!(folder.ok(&["logs", &waits]).contains("eva"), "who it was is known");
    let done = folder.json(&["cancel", "--waits", "decision", "--force", "--json"]);
    assert_eq!(done["plans"], json!([paused]));
    let none = folder.run(&["cancel", "--state", "paused"]);
    assert_eq!((none.code(), none.stderr().as_str()), (5, "no plans fit\n"));
    let over = folder.run(&["cancel", &waits]);
    assert_eq!(over.code(), 1);
    assert!(over.stdout().contains("is stopped: it is over"), "{}", over.stdout());
    let some = folder.run(&["cancel", &waits, &paused, "--json"]);
    assert_eq!(some.code(), 1);
    let some: Value = serde_json::from_str(&some.stdout()).expect("JSON");
    assert_eq!(some["refused"].as_array().map(Vec::len), Some(2));
}

#[test]
fn what_nobody_means_is_refused() {
    let (folder, plans) = Folder::with_plans();
    let paused = plans.paused.to_string();
    for verb in ["cancel", "terminate", "skip", "retry", "pause", "resume"] {
        folder.run(&[verb]).fails(2, &["no plan is named", "--state"]);
        folder.run(&[verb, &paused, "--state", "paused"]).fails(2, &["either"]);
        folder.run(&[verb, "0190a5c4-7b1e-7cc3-98c4-dc0c0c07398f"]).fails(3, &["there is no plan"]);
        folder.run(&[verb, "xyz"]).fails(2, &["xyz"]);
        folder.run(&[verb, &paused, "--limit", "0"]).fails(2, &["--limit"]);
    }
    folder.run(&["skip", &paused, "--step", "x"]).fails(2, &["--step"]);
    folder.run(&["terminate", &paused, "--force"]).fails(2, &["--force"]);
    assert_eq!(folder.run(&["skip", &paused, "--step", "9"]).code(), 3);
    assert_eq!(folder.run(&["resume", &plans.waits.to_string()]).code(), 1);
}

#[test]
fn failed_steps_are_skipped_and_the_plan_goes_on_later() {
    let (folder, plans) = Folder::with_plans();
    let paused = plans.paused.to_string();
    let dry = ["cancel", "--state", "running,paused", "--limit", "1", "--dry-run", "--json"];
    assert_eq!(folder.json(&dry)["plans"], json!([plans.waits.to_string()]), "the oldest");
    folder.ok(&["skip", &paused]);
    let world = folder.world();
    let view = world.plan(plans.paused).finished().wait().expect("it ends");
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Warning));
    world.shutdown().expect("it ends");
    let (folder, plans) = Folder::with_plans();
    folder.ok(&["retry", "--state", "paused"]);
    let world = folder.world();
    let view = world.plan(plans.paused).finished().wait().expect("it ends");
    assert_eq!(view.step(turnwheel::engine::StepId(2)).calls, 2, "it was tried again");
    world.shutdown().expect("it ends");
    folder.ok(&["retry", &plans.paused.to_string(), "--step", "2"]);
    folder.ok(&["halt", "last"]); // its name before
    assert_eq!(folder.json(&["show", "last", "--json"])["state"], "stopped");
}

#[test]
fn events_reach_the_step_that_waits() {
    let (folder, plans) = Folder::with_plans();
    let waits = plans.waits.to_string();
    for bad in
        [&["{"][..], &["@missing.json"], &["yes"], &["-"], &["1", "--step", "x"], &["1", "2"]]
    {
        let all: Vec<&str> = ["event", "send", &waits].iter().chain(bad).copied().collect();
        folder.run(&all).fails(2, &[]);
    }
    folder.run(&["event"]).fails(2, &["send"]);
    folder.run(&["event", "send", &waits, "1", "--step", "9"]).fails(3, &["no step 9"]);
    folder.run(&["event", "send", &plans.done.to_string(), "1"]).fails(1, &["no step of plan"]);
    folder.write("word.json", r#"{"word": "yes"}"#);
    let sent = folder.json(&["event", "send", &waits, "@word.json", "--id", "e-1", "--json"]);
    assert_eq!(sent["step"], 2);
    // The same event again: it is taken, and dropped.
    folder.ok(&["event", "send", &waits, "@word.json", "--id", "e-1", "--step", "2"]);
    let world = folder.world();
    let view = world.plan(plans.waits).finished().wait().expect("it ends");
    assert_eq!(view.result(), PlanResult::Success);
    world.shutdown().expect("it ends");
    assert_eq!(folder.json(&["show", &waits, "--json"])["output"], json!({ "word": "yes" }));
}

#[test]
fn schedules_are_added_paused_and_shown() {
    let (folder, _) = Folder::with_plans();
    let add = ["schedule", "add", "nightly", "--action", "greet", "--input", "\"Bob\""];
    let cron = ["--cron", "0 3 * * *", "--zone", "Europe/Berlin", "--overlap", "queue"];
    let rest = ["--catch-up", "2h", "--jitter", "5m"];
    folder.ok(&[&add[..], &cron, &rest].concat());
    folder.ok(&[
        "schedule",
        "add",
        "hourly",
        "--action",
        "greet",
        "--every",
        "1h",
        "--catch-up",
        "none",
    ]);
    folder.ok(&["schedule", "add", "once", "--action", "greet", "--at", "2999-01-01T00:00:00Z"]);
    folder.ok(&["schedule", "add", "by hand", "--action", "greet"]);
    let list = folder.json(&["schedule", "list", "--json"]);
    assert_eq!(list["schedules"].as_array().map(Vec::len), Some(4));
    assert_eq!(list["schedules"][2]["timing"]["cron"]["zone"], "Europe/Berlin");
    let times = folder.json(&["schedule", "next", "hourly", "-n", "3", "--json"]);
    assert_eq!(times["times"].as_array().map(Vec::len), Some(3));
    assert_eq!(folder.ok(&["schedule", "next", "nightly"]).lines().count(), 10);
    let text = folder.ok(&["schedule", "next", "--cron", "*/15 9-17 * * mon-fri", "--zone", "UTC"]);
    assert_eq!(text.lines().count(), 10);
    assert_eq!(
        folder.ok(&["schedule", "next", "--every", "90s", "--count", "1"]).lines().count(),
        1
    );
    assert_eq!(folder.ok(&["schedule", "next", "--at", "2999-01-01T00:00:00Z"]).lines().count(), 1);
    folder.ok(&["schedule", "pause", "nightly", "--why", "the disk", "--by", "eva"]);
    assert!(folder.ok(&["schedule", "list"]).contains("paused by eva"));
    folder.ok(&["schedule", "unpause", "nightly"]);
    folder.ok(&["schedule", "remove", "once"]);
    assert_eq!(folder.json(&["stats", "--json"])["schedules"], 3);
    for bad in [
        &["add", "x", "--action", "a", "--cron", "0 25 * * *"][..],
        &["add", "x", "--action", "a", "--cron", "0 3 * * *", "--zone", "Nowhere/City"],
        &["add", "x", "--action", "a", "--every", "1ms"],
        &["add", "x", "--action", "a", "--every", "1h", "--zone", "UTC"],
        &["add", "x", "--action", "a", "--every", "1h", "--cron", "@daily"],
        &["add", "x", "--action", "a", "--at", "1999-01-01T00:00:00Z"],
        &["add", "x", "--action", "a", "--overlap", "maybe"],
        &["add", "x", "--action", "a", "--catch-up", "maybe"],
        &["add", "x", "--action", "a", "--jitter", "maybe"],
        &["add", "x", "--action", "a", "--input", "{"],
        &["add", "", "--action", "a"],
        &["add", "x"],
        &["next"],
        &["next", "nightly", "--every", "1h"],
        &["next", "--every", "1h", "-n", "0"],
        &["pause"],
        &[],
    ] {
        let all: Vec<&str> = ["schedule"].iter().chain(bad).copied().collect();
        let ended = folder.run(&all);
        assert_eq!(ended.code(), 2, "{bad:?}: {}", ended.stderr());
    }
    for verb in ["pause", "unpause", "remove", "next"] {
        folder.run(&["schedule", verb, "missing"]).fails(3, &["missing", "schedule list"]);
    }
}

#[test]
fn a_store_that_is_in_use_is_looked_at_and_not_changed() {
    let (folder, plans) = Folder::with_plans();
    let world = folder.world();
    let who = format!("process {}", std::process::id());
    let says = [&*who, "does not serve", "turnwheel serve"];
    let waits = plans.waits.to_string();
    folder.run(&["cancel", &waits]).fails(4, &says);
    folder.run(&["event", "send", &waits, "1"]).fails(4, &says);
    folder.run(&["schedule", "pause", "x"]).fails(4, &says);
    assert_eq!(folder.json(&["stats", "--json"])["plans"], 3);
    world.shutdown().expect("it ends");
}

/// Answers requests one by one, and gives what was asked.
fn server(answers: Vec<(u16, Value)>) -> (String, thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = format!("http://{}", listener.local_addr().expect("it is bound"));
    let handle = thread::spawn(move || {
        let mut asked = Vec::new();
        for (status, answer) in answers {
            let (mut stream, _) = listener.accept().expect("somebody asks");
            asked.push(request(&mut stream));
            let body = answer.to_string();
            let head = format!(
                "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all((head + &body).as_bytes()).expect("it listens");
        }
        asked
    });
    (address, handle)
}

/// The first line of a request, and its body.
fn request(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(b"\r\n\r\n") && stream.read(&mut byte).expect("it is sent") > 0 {
        text.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&text).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a number"))];
    stream.read_exact(&mut body).expect("it is sent");
    let token = head.lines().find_map(|line| line.strip_prefix("authorization: ")).unwrap_or("-");
    let line = String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned();
    format!("{line} {token} {}", String::from_utf8_lossy(&body))
}

#[test]
fn a_server_that_has_the_store_is_asked() {
    let (folder, plans) = Folder::with_plans();
    let store = folder.store();
    let world = crate::cli_common::builder().build(store.clone()).expect("the store is free");
    let refused = json!({ "title": "no", "detail": "it is over" });
    let (address, asked) = server(vec![
        (200, json!({})),
        (409, refused),
        (200, json!({ "steps": [{ "id": 2, "phase": "run" }] })),
        (200, json!({})),
        (401, json!({ "title": "who are you" })),
        (200, json!({})),
    ]);
    store.announce(&address).expect("the world has the store");
    let waits = plans.waits.to_string();
    folder.ok(&["cancel", &waits]);
    let refused = folder.run(&["skip", &plans.paused.to_string()]);
    assert_eq!(refused.code(), 1);
    assert!(refused.stdout().contains("it is over"), "{}", refused.stdout());
    folder.ok(&["event", "send", &waits, "1", "--id", "e"]);
    folder
        .run(&["schedule", "pause", "a b", "--why", "w"])
        .fails(1, &["who are you", "TURNWHEEL_TOKEN"]);
    let add = ["schedule", "add", "n", "--action", "greet", "--every", "1h"];
    let mut command = folder.command(&add);
    assert!(command.env("TURNWHEEL_TOKEN", "t-1").output().expect("it runs").status.success());
    let asked = asked.join().expect("the server ends");
    let event = json!({ "event": 1, "id": "e" });
    assert_eq!(
        asked[0],
        format!(
            "POST /api/v1/plans/{waits}/orders HTTP/1.1 - {}",
            json!({ "order": "cancel", "force": false })
        )
    );
    assert!(asked[1].ends_with(&json!({ "order": "skip_failed" }).to_string()), "{}", asked[1]);
    assert!(asked[2].starts_with(&format!("GET /api/v1/plans/{waits}/steps?")), "{}", asked[2]);
    assert_eq!(asked[3], format!("POST /api/v1/plans/{waits}/steps/2/events HTTP/1.1 - {event}"));
    assert!(asked[4].starts_with("POST /api/v1/schedules/a%20b/pause "), "{}", asked[4]);
    assert!(asked[5].starts_with("PUT /api/v1/schedules/n HTTP/1.1 bearer t-1 {"), "{}", asked[5]);
    // Nobody is there any more.
    folder.run(&["event", "send", &waits, "1"]).fails(1, &["does not answer", &address]);
    world.shutdown().expect("it ends");
}

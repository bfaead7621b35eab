//! Jobs of nodes that share a database: the one that serves them is killed in the middle of its fires.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{json, Value};
use turnwheel_engine::Time;
use turnwheel_postgres::LocalServer;

use super::is_asked;
use crate::serve_common::{eventually, Place, Serve};

const JOBS: usize = 10;

/// Seconds before the kill, and after it.
const BEFORE: u64 = 6;
const AFTER: u64 = 12;

/// The latest that a run may begin after its time when the node that serves dies: lease and look.
const LATE_MAX: Duration = Duration::from_millis(4_500);

/// A planned time is a whole second.
const EVERY: u64 = 1_000_000;

fn time(value: &Value) -> Option<Time> {
    value.as_str().and_then(|text| text.parse().ok())
}

fn history(node: &Serve, number: usize) -> Vec<Value> {
    let path = format!("/api/v1/jobs/tick-{number}/history?limit=1000");
    node.get(&path).ok()["launches"].as_array().expect("a list").clone()
}

/// Checks that each second between the first and the last one has one row, and answers the rows.
fn rows(node: &Serve, number: usize) -> BTreeMap<u64, Value> {
    let mut rows = BTreeMap::new();
    for launch in history(node, number) {
        let planned = time(&launch["planned"]).expect("a time").0;
        assert_eq!((launch["times"].as_u64(), planned % EVERY), (Some(1), 0), "{launch}");
        let before = rows.insert(planned / EVERY, launch);
        assert!(before.is_none(), "tick-{number}: {planned} is there twice: {before:?}");
    }
    let (first, last) = (*rows.keys().next().expect("a row"), *rows.keys().last().expect("a row"));
    assert_eq!(last - first + 1, rows.len() as u64, "tick-{number}: a time has no row: {rows:?}");
    rows
}

/// Lets time pass while a node answers.
fn wait(seconds: u64, node: &Serve) {
    let until = Instant::now() + Duration::from_secs(seconds);
    eventually("time passes", || {
        node.get("/v1/isleader");
        (Instant::now() >= until).then_some(())
    });
}

/// Checks that no attempt has written its key twice; answers how many have.
fn effects_of(file: &str) -> usize {
    let written = std::fs::read_to_string(file).expect("there are effects");
    let mut keys: Vec<&str> = written.lines().collect();
    let all = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), all, "a time has had two effects");
    all
}

#[test]
fn jobs_go_on_when_the_node_that_serves_them_is_killed_at_a_fire() {
    if !is_asked() {
        return;
    }
    let database = LocalServer::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let url = format!("{}?schema=jobs", database.url("postgres"));
    let place = Place::new();
    let serve = |name: &str| place.serve(&["--store", &url, "--node", name, "--allow-shell"]);
    let mut nodes = vec![("one", serve("one")), ("two", serve("two")), ("three", serve("three"))];
    eventually("all nodes are known", || {
        let members = nodes[0].1.get("/v1/members").ok();
        (members.as_array().map(Vec::len) == Some(3)).then_some(())
    });
    let effects = place.path("effects.txt").display().to_string();
    let command = format!("echo \"$TURNWHEEL_KEY\" >> {effects}");
    for number in 0..JOBS {
        let job = json!({
            "schedule": "* * * * * *", "timezone": "UTC", "missed": {"all": "1h"}, "keep": 1_000,
            "config": {"command": command, "shell": "true"},
        });
        let path = format!("/api/v1/jobs/tick-{number}");
        nodes[number % 3].1.send("PUT", &path, &[], Some(&job.to_string())).ok();
    }
    wait(BEFORE, &nodes[0].1);
    let leader = nodes[0].1.get("/v1/leader").ok()["Name"].as_str().expect("a name").to_owned();
    let at = nodes.iter().position(|(name, _)| *name == leader).expect("it is one of them");
    let (_, serving) = nodes.remove(at);
    let killed_at = Time::from(std::time::SystemTime::now());
    serving.killed();
    let left = &nodes[0].1;
    wait(AFTER, left);
    for number in 0..JOBS {
        let path = format!("/api/v1/jobs/tick-{number}/toggle");
        left.post(&path, &json!({"disabled": true})).ok();
    }
    let mut latest = Duration::ZERO;
    let mut lost = 0;
    for number in 0..JOBS {
        let rows = eventually("all launches are over", || {
            let is_over = |launch: &Value| !launch["ended_at"].is_null();
            history(left, number).iter().all(is_over).then(|| rows(left, number))
        });
        for (second, launch) in rows {
            let planned = Time(second * EVERY);
            let run = &launch["runs"][0];
            assert!(launch["runs"].as_array().is_some_and(|runs| !runs.is_empty()), "{launch}");
            let is_of_dead = run["node"] == leader.as_str() && planned <= killed_at;
            match launch["state"].as_str() {
                Some("succeeded") => {
                    let began = launch["runs"].as_array().into_iter().flatten();
                    let began = began.filter_map(|run| time(&run["started_at"])).min();
                    latest = latest.max(began.expect("it has begun").since(planned));
                }
                // It was under way on the node that died.
                Some("failed") if is_of_dead => lost += 1,
                _ => panic!("tick-{number}: {launch}"),
            }
        }
    }
    let all = effects_of(&effects);
    eprintln!("{all} effects of {JOBS} jobs, {lost} lost with their node, latest {latest:?}");
    assert!(latest <= LATE_MAX, "a run began {latest:?} after its time");
    nodes.into_iter().for_each(|(_, node)| node.stopped());
}

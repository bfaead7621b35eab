//! Jobs and journeys in the shapes of the API: what the server tells is read into them and written
//! again without a difference, so neither has a field that the other one lacks.
#![cfg(feature = "server")]

use serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::{json, Value};
use turnwheel::api::{
    JobExecutors, JobHistory, JobInfo, JobLaunched, JobOutput, JobPage, JobSpec, JobTimes,
    JobsChecked, JourneyCounts, JourneyElement, JourneyInfo, JourneyPage, JourneyTried,
    UserEventsDone, UserForgotten, UserInfo,
};

use crate::http_common::{Answer, Served};
use crate::openapi::served;

/// The answer as its shape.
fn read<T: DeserializeOwned + Serialize>(answer: &Answer) -> T {
    assert!(matches!(answer.status, 200 | 201), "{}", answer.text);
    let told = answer.json();
    let read: T = serde_json::from_value(told.clone()).unwrap_or_else(|e| panic!("{e}: {told:#}"));
    assert_eq!(serde_json::to_value(&read).expect("JSON"), told, "nothing is lost or added");
    read
}

fn put(served: &Served, path: &str, body: &Value) -> Answer {
    served.send("PUT", path, &[], Some(body))
}

#[test]
fn jobs_are_told_in_the_shapes_of_the_description() {
    let served = served();
    let first: JobInfo = read(&put(
        &served,
        "/api/v1/jobs/first",
        &json!({"schedule": "@manually", "executor": "hello"}),
    ));
    assert_eq!((first.spec.name.as_str(), first.revision), ("first", 1));
    let edits = json!({"jobs": [
        {"spec": {"name": "first", "schedule": "@daily", "executor": "hello"}, "revision": 0},
        {"spec": {"name": "third", "schedule": "@daily", "executor": "hello"}, "revision": 0},
    ]});
    let checked: JobsChecked = read(&served.post("/api/v1/job-check", &edits));
    assert_eq!(checked.problems.len(), 1, "{checked:?}");
    assert!(checked.problems[0].contains("its revision is 1, not 0"), "{checked:?}");
    let all = json!({
        "name": "second", "display_name": "Second", "schedule": "@every 1h",
        "timezone": "Europe/Madrid",
        "dialect": "classic", "hash": "legacy", "daylight_saving": "skip",
        "starts_at": "2020-01-01T00:00:00Z", "expires_at": "2999-01-01T00:00:00Z", "jitter": "5s",
        "disabled": true, "executor": "hello", "config": {"a": "b"}, "overlap": "queue_one",
        "missed": {"all": "1h"}, "start_within": "10m", "retries": 3,
        "backoff": {"first": "2s", "max": "1m"}, "unknown": "ask", "timeout": "1m",
        "deadline": "5m", "after": [{"job": "first", "on": "always"}], "concurrency_key": "k",
        "priority": 2, "targets": {"zone": "a:2"}, "nodes": "all", "prefer": {"disk": "fast"},
        "avoid": {"old": "yes"}, "no_node": {"wait": "1h"}, "keep": 7, "keep_for": "24h",
        "keep_bytes": 1000, "output_max": 2000, "owner": "ann", "owner_email": "ann@example.org",
        "metadata": {"team": "x"},
    });
    // The shape says it as the server understands it, with every setting in its place.
    let spec: JobSpec = serde_json::from_value(all.clone()).expect("settings");
    let spec = serde_json::to_value(&spec).expect("JSON");
    let second: JobInfo = read(&put(&served, "/api/v1/jobs/second", &spec));
    for (name, value) in all.as_object().expect("settings") {
        assert_eq!(serde_json::to_value(&second.spec).expect("JSON")[name], *value, "{name}");
    }
    let launched: JobLaunched = read(&served.post("/api/v1/jobs/first/run", &json!({})));
    assert_eq!(launched.launch, 1);
    let history = loop {
        let history: JobHistory = read(&served.get("/api/v1/jobs/first/history"));
        if history.launches[0].ended_at.is_some() {
            break history;
        }
        std::thread::yield_now();
    };
    assert_eq!(history.launches[0].runs.len(), 1);
    let output: JobOutput = read(&served.get("/api/v1/jobs/first/launches/1/output"));
    assert!(output.output.contains("hello from first"), "{output:?}");
    let times: JobTimes = read(&served.get("/api/v1/jobs/second/times?limit=3"));
    assert_eq!((times.times.len(), times.planned.len()), (3, 3), "{times:?}");
    assert_ne!(times.times[0], times.planned[0], "its jitter: {times:?}");
    let executors: JobExecutors = read(&served.get("/api/v1/job-executors"));
    assert_eq!(executors.executors[0].name, "hello");
    let page: JobPage = read(&served.get("/api/v1/jobs?limit=1"));
    assert!(page.jobs.len() == 1 && page.next.is_some());
    let toggled: JobInfo = read(&served.post("/api/v1/jobs/second/toggle", &json!({})));
    assert!(!toggled.spec.disabled);
}

const JOURNEY: &str = "journey: welcome
platform: shop
elements:
  begin: { start: { on: signed.up }, then: order }
  order:
    wait: { on: order.paid, for: P3D }
    lines: [ { if: 'true', then: hello } ]
    otherwise: end
  hello: { send: { channel: log, with: { text: hello } }, then: end }
";

#[test]
fn journeys_and_users_are_told_in_the_shapes_of_the_description() {
    let served = served();
    let yaml = [("content-type", "application/yaml")];
    let added = served.send_bytes("POST", "/api/v1/journeys", &yaml, Some(JOURNEY.as_bytes()));
    let added: JourneyInfo = read(&added);
    assert_eq!((added.name.as_str(), added.version), ("welcome", 1));
    let page: JourneyPage = read(&served.get("/api/v1/journeys"));
    assert_eq!(page.journeys.len(), 1);
    let elements: Vec<JourneyElement> = read(&served.get("/api/v1/journeys/welcome/elements"));
    assert!(elements.iter().any(|element| element.kind == "Trigger"), "{elements:?}");
    let event = |id: &str, kind: &str| {
        json!({"specversion": "1.0", "id": id, "source": "/t", "type": kind, "subject": "ann",
            "time": "2026-01-01T00:00:00Z"})
    };
    let send = |id: &str, kind: &str| {
        let headers = [("content-type", "application/cloudevents+json")];
        let body = event(id, kind).to_string();
        let path = "/api/v1/platforms/shop/events";
        read::<UserEventsDone>(&served.send_bytes("POST", path, &headers, Some(body.as_bytes())))
    };
    assert_eq!(send("1", "signed.up").events[0].moved.len(), 1);
    let user: UserInfo = read(&served.get("/api/v1/users/shop/ann"));
    assert_eq!(user.passes[0].waits[0].element, "order");
    let counts: JourneyCounts = read(&served.get("/api/v1/journeys/welcome/counts"));
    assert_eq!((counts.users, counts.under_way), (1, 1));
    send("2", "order.paid");
    let user: UserInfo = read(&served.get("/api/v1/users/shop/ann"));
    assert!(user.passes.is_empty() && user.ended[0].why.is_some(), "{user:?}");
    let tried = json!({"journey": "welcome",
        "events": [event("3", "signed.up"), event("4", "order.paid")]});
    let tried: JourneyTried = read(&served.post("/api/v1/journeys/dry-run", &tried));
    assert!(tried.moved.len() == 2 && tried.messages.len() == 1, "{tried:?}");
    let set: UserInfo = read(&put(&served, "/api/v1/users/shop/bob", &json!({"plan": "gold"})));
    assert_eq!(set.attributes["plan"], "gold");
    let out: UserInfo = read(&served.post("/api/v1/users/shop/bob/opt-out", &json!({"out": true})));
    assert!(out.has_opted_out);
    let gone: UserForgotten = read(&served.send("DELETE", "/api/v1/users/shop/bob", &[], None));
    assert_eq!(gone.user, "bob");
    let removed: JourneyInfo = read(&served.send("DELETE", "/api/v1/journeys/welcome", &[], None));
    assert_eq!(removed.name, "welcome");
}

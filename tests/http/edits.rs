//! Edits of what somebody else may have edited: entity tags; and pages of lists.
#![cfg(feature = "server")]

use serde_json::{json, Value};
use turnwheel::flow::{FlowError, Flows};
use turnwheel::runtime::completion::block_on;

use crate::http_common::{Answer, Served};
use crate::openapi::served;

fn put(served: &Served, headers: &[(&str, &str)], hours: u64) -> Answer {
    let timing = json!({"every": {"period_ms": hours * 3_600_000}});
    let spec = json!({"timing": timing, "action": "echo"});
    served.send("PUT", "/api/v1/schedules/shared", headers, Some(&spec))
}

#[test]
fn the_second_of_two_editors_of_a_schedule_is_refused() {
    let served = served();
    let path = "/api/v1/schedules/shared";
    put(&served, &[("if-match", "*")], 1).is_problem(412, "precondition-failed");
    let first = put(&served, &[("if-none-match", "*")], 1);
    let tag = first.header("etag").to_owned();
    assert!(first.status == 201 && tag.len() > 2, "{}", first.text);
    assert_eq!(first.header("location"), "shared", "relative to the request");
    assert_eq!(served.get(path).header("etag"), tag, "it is the tag of the state");
    put(&served, &[("if-none-match", "*")], 2).is_problem(412, "precondition-failed");
    // A launch is no edit.
    let trigger = served.post(&format!("{path}/trigger"), &Value::Null);
    assert_eq!(trigger.status, 201, "{}", trigger.text);
    assert_eq!(served.get(path).header("etag"), tag);
    let ann = put(&served, &[("if-match", &tag)], 2);
    assert_eq!(ann.status, 200, "{}", ann.text);
    let bob = put(&served, &[("if-match", &tag)], 3);
    bob.is_problem(412, "precondition-failed");
    assert!(bob.text.contains(ann.header("etag").trim_matches('"')), "{}", bob.text);
    assert_eq!(served.get(path).json()["timing"]["every"]["period_ms"], 7_200_000);
    // A pause is an edit, too.
    let now = ann.header("etag").to_owned();
    let pause = |tag: &str| {
        served.send("POST", &format!("{path}/pause"), &[("if-match", tag)], Some(&json!({})))
    };
    pause(&tag).is_problem(412, "precondition-failed");
    let paused = pause(&now);
    assert!(paused.status == 200 && paused.header("etag") != now, "{}", paused.text);
    served.send("DELETE", path, &[("if-match", &now)], None).is_problem(412, "precondition-failed");
    put(&served, &[("if-match", "3")], 4).is_problem(400, "query-invalid");
    put(&served, &[("if-none-match", "\"a\"")], 4).is_problem(400, "query-invalid");
    let weak = format!("\"other\", W/{}", paused.header("etag"));
    let refused = served.send("DELETE", path, &[("if-match", &weak)], None);
    refused.is_problem(412, "precondition-failed");
    let either = format!("\"other\", {}", paused.header("etag"));
    assert_eq!(served.send("DELETE", path, &[("if-match", &either)], None).status, 204);
}

fn flow(name: &str, value: u32) -> String {
    format!(
        "document: {{ dsl: '1.0.3', namespace: test, name: {name}, version: '1.0.0' }}
do: [{{ set: {{ set: {{ a: {value} }} }} }}]"
    )
}

fn add(served: &Served, text: &str) {
    let yaml = [("content-type", "application/yaml")];
    let added = served.send_bytes("POST", "/api/v1/flows", &yaml, Some(text.as_bytes()));
    assert_eq!(added.status, 201, "{}", added.text);
}

#[test]
fn a_flow_is_removed_as_it_was_seen_and_listed_page_by_page() {
    let served = served();
    for name in ["c", "a", "b"] {
        add(&served, &flow(name, 1));
    }
    let path = "/api/v1/flows/test/a/1.0.0";
    let tag = served.get(path).header("etag").to_owned();
    let (mut names, mut query) = (Vec::new(), "?limit=2".to_owned());
    let mut pages = 0;
    loop {
        let page = served.get(&format!("/api/v1/flows{query}")).json();
        pages += 1;
        let flows = page["flows"].as_array().expect("flows");
        names.extend(flows.iter().map(|flow| flow["name"].as_str().expect("a name").to_owned()));
        match page["next"].as_str() {
            Some(next) => query = format!("?limit=2&cursor={next}"),
            None => break,
        }
    }
    assert_eq!((names.join(" ").as_str(), pages), ("a b c", 2));
    served.get("/api/v1/flows?limit=0").is_problem(400, "query-invalid");
    served.get("/api/v1/flows?cursor=70").is_problem(400, "cursor-invalid");
    assert_eq!(served.send("DELETE", path, &[("if-match", &tag)], None).status, 204);
    add(&served, &flow("a", 2));
    let late = served.send("DELETE", path, &[("if-match", &tag)], None);
    late.is_problem(412, "precondition-failed");
    assert_eq!(served.get(path).status, 200);
}

#[test]
fn a_version_of_a_flow_is_not_removed_with_another_content_than_was_read() {
    let served = served();
    add(&served, &flow("again", 1));
    let flows = Flows::new(&served.world).expect("the world has flows");
    let read = |flows: &Flows| flows.list().into_iter().find(|it| it.name == "again");
    let old = read(&flows).expect("it is there");
    // Somebody else is faster, at another node say.
    let path = "/api/v1/flows/test/again/1.0.0";
    assert_eq!(served.send("DELETE", path, &[], None).status, 204);
    add(&served, &flow("again", 2));
    let removed = block_on(flows.remove_entry(old.clone()));
    assert!(matches!(removed, Ok(Err(FlowError::Changed(_)))), "{removed:?}");
    let now = read(&flows).expect("it stays");
    assert_ne!(now.hash, old.hash);
    block_on(flows.remove_entry(now)).expect("it is answered").expect("it is that one");
    assert_eq!(served.get(path).status, 404);
}

#[test]
fn jobs_are_listed_page_by_page_and_an_old_edit_of_one_is_refused() {
    let served = served();
    let spec = json!({"schedule": "@manually", "executor": "hello"});
    for name in ["d", "a", "c", "b"] {
        let put = served.send("PUT", &format!("/api/v1/jobs/{name}"), &[], Some(&spec));
        assert_eq!((put.status, put.header("location")), (201, name), "{}", put.text);
    }
    let page = |query: &str| {
        let page = served.get(&format!("/api/v1/jobs?limit=2{query}")).json();
        let jobs = page["jobs"].as_array().expect("jobs").iter();
        let names: Vec<String> = jobs.map(|job| job["spec"]["name"].to_string()).collect();
        let next = page["next"].as_str().map(|next| format!("&cursor={next}"));
        (names.concat().replace('"', ""), next)
    };
    let (names, next) = page("");
    assert_eq!(names, "ab");
    let next = next.expect("there are others");
    // The place stays, although its job is gone and another comes before it.
    assert_eq!(served.send("DELETE", "/api/v1/jobs/b", &[], None).status, 200);
    assert_eq!(served.send("PUT", "/api/v1/jobs/aa", &[], Some(&spec)).status, 201);
    assert_eq!(page(&next), ("cd".to_owned(), None), "the last page has no next one");
    served.get("/api/v1/jobs?limit=0").is_problem(400, "query-invalid");
    served.get("/api/v1/jobs?cursor=63").is_problem(400, "cursor-invalid");
    let path = "/api/v1/jobs/c";
    let tag = served.get(path).header("etag").to_owned();
    let late = json!({"schedule": "@hourly", "executor": "hello"});
    let ann = served.send("PUT", path, &[("if-match", &tag)], Some(&late));
    assert_eq!(ann.status, 200, "{}", ann.text);
    let bob = served.send("PUT", path, &[("if-match", &tag)], Some(&spec));
    bob.is_problem(412, "precondition-failed");
    let gone = served.send("DELETE", path, &[("if-match", &tag)], None);
    gone.is_problem(412, "precondition-failed");
    // One tag of several is enough.
    let now = ann.header("etag");
    let several = format!("{tag}, {now}");
    let put = served.send("PUT", path, &[("if-match", &several)], Some(&spec));
    assert_eq!(put.status, 200, "{}", put.text);
    let put = served.send("PUT", path, &[("if-match", &several)], Some(&late));
    put.is_problem(412, "precondition-failed");
}

#[test]
fn a_reader_that_has_the_current_state_gets_no_body() {
    let served = served();
    let spec = json!({"schedule": "@manually", "executor": "hello"});
    let path = "/api/v1/jobs/known";
    let put = |spec: &Value| served.send("PUT", path, &[], Some(spec));
    assert_eq!(put(&spec).status, 201);
    let tag = served.get(path).header("etag").to_owned();
    // The runs of a job are no part of its tag.
    let same = served.send("GET", path, &[("if-none-match", &tag)], None);
    assert_eq!((same.status, same.header("etag")), (200, &*tag));
    add(&served, &flow("known", 1));
    let known_flow = "/api/v1/flows/test/known/1.0.0";
    let flow_tag = served.get(known_flow).header("etag").to_owned();
    for known in [flow_tag.clone(), format!("\"7\", W/{flow_tag}"), "*".to_owned()] {
        let same = served.send("GET", known_flow, &[("if-none-match", &known)], None);
        let seen = (same.status, &*same.text, same.header("etag"));
        assert_eq!(seen, (304, "", &*flow_tag), "{known}");
    }
    let other = served.send("GET", path, &[("if-none-match", "\"7\"")], None);
    assert_eq!((other.status, other.header("etag")), (200, &*tag));
    assert_eq!(put(&json!({"schedule": "@hourly", "executor": "hello"})).status, 200);
    assert_eq!(served.send("GET", path, &[("if-none-match", &tag)], None).status, 200);
}

#[test]
fn the_node_that_decides_is_the_leader_and_all_nodes_are_members() {
    let served = served();
    let members = served.get("/v1/members").json();
    assert_eq!(
        (&members[0]["statusText"], members.as_array().map(Vec::len)),
        (&"alive".into(), Some(1))
    );
    assert_eq!(served.get("/v1/leader").json(), members[0]);
    assert_eq!(served.get("/v1/isleader").status, 200);
    assert_eq!(served.get("/v1/").json()["serf"]["members"], "1");
}

#[test]
fn lists_of_locks_actions_and_launches_have_pages_and_short_lists_refuse_them() {
    let served = served();
    let all = served.get("/api/v1/actions").json();
    let names = |page: &Value| -> Vec<String> {
        let actions = page["actions"].as_array().expect("actions").iter();
        actions.map(|action| action["name"].as_str().expect("a name").to_owned()).collect()
    };
    let (first, mut found) = (served.get("/api/v1/actions?limit=1").json(), Vec::new());
    let mut page = first;
    loop {
        found.extend(names(&page));
        let Some(next) = page["next"].as_str() else { break };
        page = served.get(&format!("/api/v1/actions?limit=1&cursor={next}")).json();
    }
    assert!(found.len() > 1 && found == names(&all), "{found:?}");
    assert_eq!(served.get("/api/v1/locks?limit=1").json()["next"], Value::Null);
    served.get("/api/v1/locks?limit=0").is_problem(400, "query-invalid");
    for path in ["queues", "nodes", "slots", "entities", "job-executors", "runtime"] {
        served.get(&format!("/api/v1/{path}?limit=1")).is_problem(400, "query-invalid");
        assert_eq!(served.get(&format!("/api/v1/{path}")).status, 200, "{path}");
    }
    let spec = json!({"schedule": "@manually", "executor": "hello"});
    served.send("PUT", "/api/v1/jobs/paged", &[], Some(&spec));
    for _ in 0..3 {
        let run = served.post("/api/v1/jobs/paged/run", &json!({"force": true}));
        assert_eq!(run.status, 200, "{}", run.text);
    }
    let history = |query: &str| served.get(&format!("/api/v1/jobs/paged/history{query}")).json();
    let page = history("?limit=2");
    assert_eq!((&page["launches"][0]["id"], &page["launches"][1]["id"]), (&json!(3), &json!(2)));
    let rest = history(&format!("?limit=2&cursor={}", page["next"].as_str().expect("a cursor")));
    assert_eq!((&rest["launches"][0]["id"], &rest["next"]), (&json!(1), &Value::Null));
}

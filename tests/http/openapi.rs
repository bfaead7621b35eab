//! The description of the API is true: each operation is called with what its schema says, and with what
//! is nearly that; nothing fails inside, and each answer is as described.
#![cfg(feature = "server")]

use serde_json::{json, Value};
use turnwheel::engine::{MemoryStore, World};
use turnwheel::flow::{FakeIo, WithFlows};
use turnwheel::http::{Access, Options};
use turnwheel::jobs::{
    Call, Done, Executor, Executors, Jobs, JobsOptions, Settings, Verdict, WithJobs, Work,
};
use turnwheel::journeys::{Channels, Journeys, JourneysOptions, Message, Unsent};
use turnwheel::runtime::completion::block_on;
use turnwheel::runtime::Group;
use turnwheel::work::Workers;

use crate::http_common::schema::{check, sample, Seeded};
use crate::http_common::{with, Answer, Served};

/// Calls of each operation.
const CALLS: usize = 60;

pub(crate) struct Operation {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) described: Value,
}

pub(crate) fn operations(api: &Value) -> Vec<Operation> {
    let mut operations = Vec::new();
    for (path, item) in api["paths"].as_object().expect("paths") {
        for (method, described) in item.as_object().expect("operations") {
            let (method, path) = (method.to_uppercase(), path.clone());
            operations.push(Operation { method, path, described: described.clone() });
        }
    }
    operations
}

/// Ends at once, well.
#[derive(Debug)]
struct Hello;

impl Executor for Hello {
    fn check(&self, _: &Settings) -> Result<(), String> {
        Ok(())
    }

    fn execute(&self, work: &Work, _: &Call<'_>) -> Verdict {
        Verdict::Done(Done::success(format!("hello from {}", work.job)))
    }
}

/// Whether an operation answers a stream without an end of its own; other tests read those.
pub(crate) fn is_stream(method: &str, path: &str) -> bool {
    method == "GET" && (path.contains("/events") || path.contains("/output/live"))
}

pub(crate) fn served() -> Served {
    let workers = Workers::new();
    let executors = Executors::new().with("hello", Hello);
    let builder = World::builder().action(workers.action()).flows(FakeIo::new()).jobs(&executors);
    let world = with(builder).build(MemoryStore::new()).expect("a world");
    workers.attach(&world);
    let group = Group::builder("services").workers(1).build().expect("a group");
    let log = |_: &Message| Ok::<(), Unsent>(());
    let options = JourneysOptions::new(Channels::new().with("log", log));
    let journeys = block_on(Journeys::open(&world, &group, options)).expect("it ends");
    let journeys = journeys.expect("they are read");
    let jobs = block_on(Jobs::open(&world, &group, JobsOptions::new(&executors)));
    let jobs = jobs.expect("it ends").expect("they are read");
    let options = Options::new(Access::Loopback).workers(&workers).journeys(&journeys);
    Served::with(world, options.jobs(&jobs))
}

/// What paths name: things that are there, and things that are not.
pub(crate) fn segments(served: &Served) -> Vec<(&'static str, Vec<String>)> {
    let ended = served.start("echo", &json!({"text": "a"}));
    served.ended(&ended);
    let failed = served.start("fail", &json!({"is_mended": false}));
    served.ended(&failed);
    let waiting = served.start("ask", &json!(null));
    served.suspended(&waiting);
    served.start("external", &json!({"topic": "mail", "input": 1}));
    let lease = json!({"topics": ["mail"], "wait_ms": 60_000});
    let task = served.post("/api/v1/work/lease", &lease).json()["tasks"][0]["id"].clone();
    let hourly = json!({"timing": {"every": {"period_ms": 3_600_000}}, "action": "echo"});
    let put = served.send("PUT", "/api/v1/schedules/hourly", &[], Some(&hourly));
    assert_eq!(put.status, 201, "{}", put.text);
    let job = json!({"schedule": "@hourly", "executor": "hello"});
    let put = served.send("PUT", "/api/v1/jobs/hourly", &[], Some(&job));
    assert_eq!(put.status, 201, "{}", put.text);
    let run = served.post("/api/v1/jobs/hourly/run", &json!({}));
    assert_eq!((run.status, &run.json()["launch"]), (200, &json!(1)), "{}", run.text);
    let flow = "document: { dsl: '1.0.3', namespace: test, name: hourly, version: '1.0.0' }
do: [{ set: { set: { a: 1 } } }]";
    let yaml = [("content-type", "application/yaml")];
    let added = served.send_bytes("POST", "/api/v1/flows", &yaml, Some(flow.as_bytes()));
    assert_eq!(added.status, 201, "{}", added.text);
    let odd = ["%00", "a%2Fb", "-1", "99999999999999999999", "%F0%9F%A6%80", "%FF"];
    let some = |known: &[&str]| known.iter().chain(&odd).map(|text| (*text).to_owned()).collect();
    let unknown = "0190a5c4-7b1e-7cc3-98c4-dc0c0c07398f";
    vec![
        ("namespace", some(&["test", "test", "test", "test"])),
        ("platform", some(&["shop", "shop"])),
        ("user", some(&["ann", "ann"])),
        ("version", some(&["1.0.0", "1.0.0", "latest", "latest"])),
        ("plan", some(&[&ended, &failed, &waiting, &waiting, &failed, unknown])),
        ("launch", some(&["1", "1", "1", "2"])),
        ("step", some(&["1", "2", "2", "3", "0"])),
        ("name", some(&["hourly", "hourly", task.as_str().expect("a task"), "1", "none"])),
    ]
}

pub(crate) fn query(operation: &Operation, api: &Value, seeded: &mut Seeded) -> String {
    let mut query = String::new();
    for parameter in operation.described["parameters"].as_array().into_iter().flatten() {
        if parameter["in"] != "query" || seeded.below(3) > 0 {
            continue;
        }
        let name = parameter["name"].as_str().expect("a name");
        if name == "wait_ms" {
            continue;
        }
        let value = match sample(api, &parameter["schema"], seeded, 3) {
            Value::String(text) => text,
            other => other.to_string(),
        };
        let value: String = value.bytes().take(200).map(|byte| format!("%{byte:02X}")).collect();
        query.push(if query.is_empty() { '?' } else { '&' });
        query.push_str(&format!("{name}={value}"));
    }
    query
}

/// An answer is one of those that are described.
fn judge(operation: &Operation, api: &Value, answer: &Answer, said: &str) {
    let status = answer.status.to_string();
    let is_unwell = operation.path == "/health";
    assert!(answer.status < 500 || is_unwell, "{said}: {status} {}", answer.text);
    let responses = &operation.described["responses"];
    let response = responses.get(&status).unwrap_or(&responses["default"]);
    let Some(content) = response["content"].as_object() else {
        assert_eq!(answer.text, "", "{said}: {status} has no content");
        return;
    };
    let kind = answer.header("content-type").split(';').next().unwrap_or_default();
    let Some(described) = content.get(kind) else {
        panic!("{said}: {status} is of {kind}, which is not described: {}", answer.text);
    };
    if kind.ends_with("json") {
        let checked = check(api, &described["schema"], &answer.json(), "");
        checked.unwrap_or_else(|problem| panic!("{said}: {status}: {problem}\n{}", answer.text));
    }
}

#[test]
fn each_operation_answers_as_it_is_described_whatever_it_is_told() {
    let served = served();
    let api = served.get("/api/v1/openapi.json").json();
    assert!(api["openapi"].as_str().expect("a version").starts_with("3.1"));
    let segments = segments(&served);
    let operations = operations(&api);
    assert!(operations.len() >= 35, "{}", operations.len());
    let mut well = 0;
    for (number, operation) in operations.iter().enumerate() {
        if is_stream(&operation.method, &operation.path) {
            continue;
        }
        let mut seeded = Seeded::new(number as u64 + 1);
        let mut answered_well = 0;
        for call in 0..CALLS {
            let mut path = operation.path.clone();
            for (name, values) in &segments {
                let value = &values[seeded.below(values.len())];
                path = path.replace(&format!("{{{name}}}"), value);
            }
            path.push_str(&query(operation, &api, &mut seeded));
            let schema =
                &operation.described["requestBody"]["content"]["application/json"]["schema"];
            let body = (!schema.is_null()).then(|| {
                let mut body = sample(&api, schema, &mut seeded, 0);
                if body.get("wait_ms").is_some() {
                    body["wait_ms"] = json!(0);
                }
                body
            });
            let answer = served.send(&operation.method, &path, &[], body.as_ref());
            let told = body.map_or(String::new(), |body| body.to_string());
            let told: String = told.chars().take(400).collect();
            let said = format!("call {call}: {} {path} {told}", operation.method);
            judge(operation, &api, &answer, &said);
            answered_well += usize::from(answer.status < 300);
        }
        well += usize::from(answered_well > 0);
    }
    // Chance alone reaches most of them; the other tests call each on purpose.
    assert!(well * 2 > operations.len(), "{well} of {}", operations.len());
}

/// All references of a description, such as `#/components/schemas/Plan`.
fn references<'a>(part: &'a Value, found: &mut Vec<&'a str>) {
    match part {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str));
            fields.values().for_each(|field| references(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn each_reference_of_the_description_leads_somewhere() {
    let api = served().get("/api/v1/openapi.json").json();
    let mut found = Vec::new();
    references(&api, &mut found);
    assert!(found.len() > 50, "{}", found.len());
    for reference in found {
        let place = reference.strip_prefix('#').expect("a place of the same document");
        assert!(api.pointer(place).is_some(), "nothing is at {reference}");
    }
}

#[test]
fn bodies_that_are_no_json_are_refused_everywhere() {
    let served = served();
    let api = served.get("/api/v1/openapi.json").json();
    let json_kind = [("content-type", "application/json")];
    for operation in operations(&api) {
        let content = &operation.described["requestBody"]["content"]["application/json"];
        if content.is_null() || operation.path.contains("callbacks") {
            continue;
        }
        let path = operation.path.replace("{plan}", "0190a5c4-7b1e-7cc3-98c4-dc0c0c07398f");
        let path = path.replace("{step}", "1").replace("{name}", "none");
        let method = &operation.method;
        let form = [("content-type", "application/x-www-form-urlencoded")];
        let answer = served.send_bytes(method, &path, &form, Some(b"a=b"));
        answer.is_problem(415, "body-type-wrong");
        for bad in [&b"{"[..], b"", b"\xff\xfe", b"nul"] {
            let answer = served.send_bytes(method, &path, &json_kind, Some(bad));
            answer.is_problem(400, "body-not-json");
        }
        let deep = "[".repeat(100_000);
        let answer = served.send_bytes(method, &path, &json_kind, Some(deep.as_bytes()));
        assert!(answer.status < 500, "{}", answer.text);
    }
}

#[test]
fn each_code_has_a_page() {
    let pages = include_str!("../../docs/errors.md");
    for code in turnwheel::http::Code::ALL {
        let name = code.name();
        assert!(pages.contains(&format!("\n## {name}\n")), "docs/errors.md has no page for {name}");
        let status = format!("Status {}", code.status().as_u16());
        let page = pages.split(&format!("\n## {name}\n")).nth(1).expect("its page");
        let page = page.split("\n## ").next().expect("its end");
        assert!(page.contains(&status), "the page for {name} does not say «{status}»");
    }
}

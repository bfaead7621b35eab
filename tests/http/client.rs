//! The client: what it is told and tells, over a real server.
#![cfg(all(feature = "server", feature = "client"))]

use serde_json::json;
use turnwheel::api::{EventFor, Filter, Lease, ManyOrder, Order, ScheduleSpec, Start, TimingSpec};
use turnwheel::client::{Client, ClientError};
use turnwheel::engine::{MemoryStore, World};
use turnwheel::http::{Access, Options};
use turnwheel::work::Workers;

use crate::http_common::{with, Served};

fn served() -> (Served, Client) {
    let workers = Workers::new();
    let builder = with(World::builder().action(workers.action()));
    let world = builder.build(MemoryStore::new()).expect("a world");
    workers.attach(&world);
    let served = Served::with(world, Options::new(Access::Loopback).workers(&workers));
    let client = Client::new(&served.url);
    (served, client)
}

#[test]
fn plans_are_begun_waited_for_ordered_and_told() {
    let (_served, client) = served();
    let once = || client.start_once("k", "echo", &json!({"text": "a"})).unwrap();
    let (first, second) = (once(), once());
    assert_eq!((&first.id, second.is_repeated), (&second.id, true));
    assert_eq!(client.plan_of_key("k").unwrap().map(|plan| plan.id), Some(first.id.clone()));
    assert_eq!(client.plan_of_key("l").unwrap(), None);
    let plan = client.wait(&first.id).unwrap();
    assert_eq!((plan.summary.result.as_str(), &plan.output), ("success", &json!({"said": "a"})));

    let start = Start { action: "ask".to_owned(), ..Start::default() };
    let asked = client.start(&start).unwrap();
    let step = loop {
        let page = client.steps(&asked.id, None).unwrap();
        if let Some(step) = page.steps.iter().find(|step| step.state == "suspended") {
            break step.id;
        }
    };
    let event = EventFor { id: None, event: json!(42) };
    client.event(&asked.id, step, &event).unwrap();
    assert_eq!(client.wait(&asked.id).unwrap().output, 42);

    let broken = client.start_once("f", "fail", &json!({"is_mended": false})).unwrap();
    assert_eq!(client.wait(&broken.id).unwrap().summary.state, "paused");
    client.order(&broken.id, &Order::Fail {}).unwrap();
    let refused = client.order(&broken.id, &Order::Resume {}).unwrap_err();
    assert_eq!(refused.code(), Some("plan-state"));
    let filter = Filter { states: vec!["stopped".to_owned()], ..Filter::default() };
    let (order, dry_run) = (ManyOrder::Delete, true);
    let plans = Vec::new();
    let (limit, oldest_first, after) = (None, false, None);
    let bulk =
        turnwheel::api::BulkOrder { filter, plans, order, dry_run, limit, oldest_first, after };
    assert_eq!(client.order_many(&bulk).unwrap().touched, 3);
    assert_eq!(client.plans(&[("result", "error"), ("limit", "5")]).unwrap().plans.len(), 1);
    assert!(client.health().unwrap().is_healthy);
    assert_eq!(client.stats().unwrap().dead_letters, 0);
    assert!(client.actions().unwrap().actions.iter().any(|action| action.name == "echo"));
}

#[test]
fn a_worker_takes_tasks_and_answers_them() {
    let (_served, client) = served();
    let plan = client.start_once("w", "external", &json!({"topic": "mail", "input": 1})).unwrap();
    let topics = vec!["mail".to_owned()];
    let lease = Lease { topics, wait_ms: Some(60_000), ..Lease::default() };
    let tasks = client.lease(&lease).unwrap();
    client.beat(&tasks[0], &json!("half")).unwrap();
    client.complete(&tasks[0], &json!({"sent": tasks[0].input})).unwrap();
    assert_eq!(client.wait(&plan.id).unwrap().output, json!({"sent": 1}));
    let late = client.complete(&tasks[0], &json!(null)).unwrap_err();
    assert_eq!(late.code(), Some("lease-lost"));
}

#[test]
fn schedules_are_put_and_launched() {
    let (_served, client) = served();
    let spec = ScheduleSpec {
        timing: TimingSpec::Manual {},
        action: "echo".to_owned(),
        input: json!({"text": "now"}),
        overlap: Default::default(),
        catch_up: Default::default(),
        jitter_ms: 0,
    };
    let name = "by hand/ä";
    assert_eq!(client.put_schedule(name, &spec).unwrap().name, name);
    let once = client.trigger_schedule_once(name, "k-1").unwrap();
    let again = client.trigger_schedule_once(name, "k-1").unwrap();
    assert_eq!((&again.id, again.is_repeated), (&once.id, true));
    let launched = client.trigger_schedule(name).unwrap();
    assert_ne!(launched.id, once.id);
    assert_eq!(client.wait(&launched.id).unwrap().summary.result, "success");
    assert_eq!(client.schedule(name).unwrap().launched, 2, "the repeated request launches nothing");
    assert_eq!(client.schedules(None).unwrap().schedules.len(), 1);
    client.remove_schedule(name).unwrap();
    assert_eq!(client.schedule(name).unwrap_err().code(), Some("schedule-unknown"));
}

#[test]
fn who_does_not_answer_and_who_is_no_server_is_said() {
    let gone = Client::new("http://127.0.0.1:1");
    assert!(matches!(gone.stats(), Err(ClientError::Lost { .. })));
    let (served, _) = served();
    let elsewhere = Client::new(&format!("{}/elsewhere", served.url));
    assert_eq!(elsewhere.stats().unwrap_err().code(), Some("path-unknown"));
}

/// Answers each path with a fixed text.
#[derive(Debug)]
struct Fixed(&'static [(&'static str, &'static str)]);

impl turnwheel::client::Carrier for Fixed {
    fn carry(
        &self,
        request: turnwheel::client::Request,
        _: std::time::Duration,
    ) -> Result<(u16, String), turnwheel::client::ClientError> {
        let path = request.uri().path_and_query().expect("a path").as_str();
        let known = self.0.iter().find(|(known, _)| *known == path);
        Ok((200, known.unwrap_or_else(|| panic!("nobody asks for {path}")).1.to_owned()))
    }
}

#[test]
fn lists_of_several_pages_are_read_to_their_end() {
    let letter = r#"{"number":1,"plan":"p","step":1,"event":null,"at":"t","reason":"r"}"#;
    let page = |next: &str| format!(r#"{{"total":2,"letters":[{letter}],"next":{next}}}"#);
    let (first, last): (&'static str, &'static str) = (page("\"a b\"").leak(), page("null").leak());
    let pages: &'static [_] = Box::leak(Box::new([
        ("/api/v1/dead-letters", first),
        ("/api/v1/dead-letters?cursor=a%20b", last),
        (
            "/api/v1/flows",
            r#"{"flows":[{"namespace":"n","name":"a","version":"1","hash":"h"}],"next":"c","unheard_events":0}"#,
        ),
        (
            "/api/v1/flows?cursor=c",
            r#"{"flows":[{"namespace":"n","name":"b","version":"1","hash":"h"}],"next":null,"unheard_events":0}"#,
        ),
    ]));
    let client = turnwheel::client::Client::over(std::sync::Arc::new(Fixed(pages)), "http://x");
    let letters = client.dead_letters().expect("they are read");
    assert_eq!((letters.letters.len(), letters.next), (2, None));
    let flows = client.flows().expect("they are read");
    let names: Vec<&str> = flows.flows.iter().map(|flow| flow.name.as_str()).collect();
    assert_eq!((names, flows.next), (vec!["a", "b"], None));
}

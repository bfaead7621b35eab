//! `turnwheel serve` on a small disk that is full: nothing of it keeps a start from working.
#![cfg(all(feature = "server", feature = "cli", target_os = "linux"))]

use serde_json::json;

use crate::serve_common::disk::Disk;
use crate::serve_common::{eventually, Place};

#[test]
fn every_start_on_a_full_disk_works_loses_nothing_and_can_clean_up() {
    let place = Place::new();
    let Some(disk) = Disk::new(&place, 12 << 20) else {
        println!("not tried: this user may make no namespaces");
        return;
    };
    let server = disk.serve(&place);
    let input = "x".repeat(50_000);
    let body = json!({"action": "external", "input": {"topic": "t", "input": input}});
    let mut begun = Vec::new();
    let refused = loop {
        let answer = server.post("/api/v1/plans", &body);
        if answer.status != 201 {
            break answer;
        }
        begun.push(answer.json()["id"].as_str().expect("an id").to_owned());
    };
    refused.is_problem(507, "store-full");
    assert!(begun.len() > 20, "{}", begun.len());
    // What is under way, and then others, take all that is left.
    disk.fill();
    let steps: Vec<(String, u32)> =
        begun.iter().map(|plan| (plan.clone(), server.suspended(plan))).collect();
    for (plan, step) in &steps {
        let event = json!({"event": {"output": {"much": "y".repeat(40_000)}}});
        let path = format!("/api/v1/plans/{plan}/steps/{step}/events");
        if server.post(&path, &event).status >= 500 {
            break;
        }
    }
    server.killed();
    for _ in 0..5 {
        let server = disk.serve(&place);
        disk.fill();
        assert_eq!(server.get("/api/v1/plans?limit=1").status, 200);
        assert_eq!(server.get(&format!("/api/v1/plans/{}", begun[0])).status, 200);
        server.killed();
    }
    // Plans can be ended and removed, and then there is room again.
    let server = disk.serve(&place);
    let page = server.get("/api/v1/plans?limit=1000").ok();
    assert_eq!(page["plans"].as_array().map(Vec::len), Some(begun.len()));
    std::fs::remove_file(disk.seen("filler")).expect("it is there");
    let all = json!({"filter": {"states": ["running"]}, "order": "cancel"});
    server.post("/api/v1/orders", &all).ok();
    begun.iter().for_each(|plan| assert_eq!(server.ended_plan(plan)["state"], "stopped"));
    disk.fill();
    let all = json!({"filter": {"states": ["stopped"]}, "order": "delete"});
    assert_eq!(server.post("/api/v1/orders", &all).ok()["touched"], begun.len());
    std::fs::remove_file(disk.seen("filler")).expect("it is there");
    assert_eq!(server.post("/api/v1/plans", &body).status, 201);
    server.stopped();
}

#[test]
fn start_on_a_full_disk_works_also_when_plans_under_way_use_all_room_at_once() {
    let place = Place::new();
    let Some(disk) = Disk::new(&place, 16 << 20) else {
        println!("not tried: this user may make no namespaces");
        return;
    };
    let server = disk.serve(&place);
    let of = |kind: &'static str| [("content-type", kind)];
    let journey = "journey: welcome\nplatform: shop\nelements:\n  hello: { start: { on: came }, then: bye }\n  \
                   bye: { wait: { on: gone, for: P3D }, then: end, otherwise: end }\n";
    let journey = server.send("POST", "/api/v1/journeys", &of("application/yaml"), Some(journey));
    assert!(journey.status < 300, "{}", journey.text);
    let flow = "document: { dsl: '1.0.3', namespace: x, name: hears, version: '1.0.0' }\n\
                do: [ { w: { listen: { to: { one: { with: { type: go } } } } } }, { s: { set: { n: '${ $workflow.input.pad + (.[0] | tostring) }' } } } ]\n";
    assert_eq!(
        server.send("POST", "/api/v1/flows", &of("application/yaml"), Some(flow)).status,
        201
    );
    let body = json!({ "input": { "pad": "x".repeat(20_000) } });
    let mut begun = Vec::new();
    let refused = loop {
        let answer = server.post("/api/v1/flows/x/hears/1.0.0/start", &body);
        if answer.status != 201 {
            break answer;
        }
        begun.push(answer.json()["id"].as_str().expect("an id").to_owned());
    };
    refused.is_problem(507, "store-full");
    disk.fill();
    let event = json!({ "specversion": "1.0", "id": "1", "source": "/t", "type": "go", "data": 7 });
    let publish = |server: &crate::serve_common::Serve| {
        let event = event.to_string();
        server.send("POST", "/api/v1/events", &of("application/cloudevents+json"), Some(&event))
    };
    // It reaches a part of them, and their next steps find no room.
    let _half = publish(&server);
    server.killed();
    // Twice: after a third unclean end plans whose steps were running are paused.
    let server = disk.serve(&place);
    assert_eq!(server.get("/api/v1/plans?limit=1").status, 200);
    server.post("/api/v1/flows/x/hears/1.0.0/start", &body).is_problem(507, "store-full");
    let health = server.get("/health").status;
    assert!([200, 503].contains(&health), "{health}");
    server.killed();
    let server = disk.serve(&place);
    // What is over can be removed also while nothing is free.
    let all = json!({"filter": {"states": ["stopped"]}, "order": "delete"});
    let removed = server.post("/api/v1/orders", &all).ok()["touched"].as_u64().unwrap_or(0);
    disk.grow(64 << 20);
    let plans = || server.get("/api/v1/plans?limit=1000").ok()["plans"].clone();
    eventually("all have heard the event and are over", || {
        publish(&server);
        let plans = plans();
        let mut plans = plans.as_array().expect("a list").iter();
        plans.all(|plan| plan["result"] == "success").then_some(())
    });
    let left = plans().as_array().map_or(0, Vec::len) as u64;
    assert_eq!(removed + left, begun.len() as u64, "none is lost or doubled");
    eventually("health is well", || (server.get("/health").status == 200).then_some(()));
    server.stopped();
}

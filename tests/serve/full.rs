//! `turnwheel serve` on a small disk that is full: nothing of it keeps a start from working.
#![cfg(all(feature = "server", feature = "cli", target_os = "linux"))]

use serde_json::json;

use crate::serve_common::disk::Disk;
use crate::serve_common::Place;

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

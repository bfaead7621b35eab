//! A store with many plans, as a year of use would leave it: most are over, some have failed, some are
//! paused, some wait, one has many steps.

use indicatif::ProgressBar;
use serde_json::{json, Value};

use super::{add, is_interrupted, Options};
use crate::error::{check, BenchError};
use crate::requests::Requests;
use crate::serve_common::Serve;

const CONNECTIONS: usize = 64;

/// One plan of so many is paused, one of so many has ended with an error, one of so many waits for an event.
const PAUSED: u64 = 200;
const REFUSED: u64 = 100;
const WAITS: u64 = 100;

const FLOWS: [&str; 4] = [
    "document: { dsl: '1.0.3', namespace: bench, name: order, version: '1.0.0' }
do:
  - check: { set: { total: '${ .amount * 2 }' } }
",
    "document: { dsl: '1.0.3', namespace: bench, name: refused, version: '1.0.0' }
do:
  - refuse: { raise: { error: { type: https://example.org/refused, status: 409, title: it was refused } } }
",
    "document: { dsl: '1.0.3', namespace: bench, name: approval, version: '1.0.0' }
do:
  - approval: { listen: { to: { one: { with: { type: org.example.approved } } } } }
",
    "document: { dsl: '1.0.3', namespace: bench, name: large, version: '1.0.0' }
do:
  - all: { for: { in: '${ [range(.steps)] }' }, do: [{ one: { set: { is_done: true } } }] }
",
];

/// Flow and label of the plan with a number.
fn kind(number: u64) -> (&'static str, &'static str) {
    match number {
        number if number % PAUSED == 1 => ("approval", "held"),
        number if number % REFUSED == 2 => ("refused", "refused"),
        number if number % WAITS == 3 => ("approval", "waits"),
        _ => ("order", "order"),
    }
}

/// Makes so many plans, and at last one of so many steps: a store in which that one has not ended was interrupted.
pub(super) fn make(server: &Serve, options: &Options, bar: &ProgressBar) -> Result<(), BenchError> {
    for flow in FLOWS {
        add(server, flow);
    }
    let each = |number: u64| {
        bar.tick();
        let (flow, kind) = kind(number);
        let customer = format!("customer-{}", number % 1_000);
        let body =
            json!({"input": {"amount": number}, "labels": {"kind": kind, "customer": customer}});
        (format!("/api/v1/flows/bench/{flow}/1.0.0/start"), body.to_string())
    };
    let requests =
        Requests { each, content_type: "application/json", status: "201", part: "\"id\":" };
    let addresses = [server.address().to_owned()];
    requests.send(&addresses, CONNECTIONS, 0..options.plans, || !is_interrupted())?;
    for of in
        ["&state=pending,planning,planned", "%3Dorder&state=running", "%3Drefused&state=running"]
    {
        let open = format!("/api/v1/plans?limit=1&labels=kind{of}");
        wait(server, &open, |page| page["plans"] == json!([]));
    }
    let held = json!({"filter": {"labels": {"kind": "held"}}, "order": "pause", "limit": 10_000});
    let paused = server.post("/api/v1/orders", &held).ok()["touched"].as_u64().unwrap_or_default();
    if is_interrupted() {
        return Ok(());
    }
    let expected = (0..options.plans).filter(|number| kind(*number).1 == "held").count();
    check("paused plans", paused, expected as u64)?;
    let stats = server.get("/api/v1/stats").ok();
    let plans = stats["plans"].as_array().into_iter().flatten();
    let plans: u64 = plans.filter_map(|group| group["plans"].as_u64()).sum();
    check("plans", plans, options.plans)?;
    let body = json!({"input": {"steps": options.steps}, "labels": {"kind": "large"}});
    let large = server.post("/api/v1/flows/bench/large/1.0.0/start", &body).ok();
    let large = format!("/api/v1/plans/{}?wait_ms=1000", large["id"].as_str().unwrap_or_default());
    wait(server, &large, |plan| plan["result"] == "success");
    Ok(())
}

/// Asks until the answer is as it should be, or the user interrupts.
fn wait(server: &Serve, path: &str, is_so: impl Fn(&Value) -> bool) {
    while !is_interrupted() && !is_so(&server.get(path).ok()) {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

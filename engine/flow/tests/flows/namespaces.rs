//! Flows of one namespace leave places for those of others.

use std::sync::{Arc, Condvar, Mutex};

use serde_json::json;
use turnwheel_engine::{MemoryStore, World};
use turnwheel_flow::{
    result, FakeIo, Flow, Flows, HttpResponse, ProcessResult, Program, WithFlows,
};

/// Opened once, for all who wait at it.
#[derive(Default)]
struct Gate(Mutex<bool>, Condvar);

impl Gate {
    fn wait(&self) {
        let open = self.0.lock().expect("no panic while it is held");
        drop(self.1.wait_while(open, |is_open| !*is_open).expect("no panic while it is held"));
    }

    fn open(&self) {
        *self.0.lock().expect("no panic while it is held") = true;
        self.1.notify_all();
    }
}

/// Opens the gate also for a test that has failed: the world would wait for its steps.
struct Opens(Arc<Gate>);

impl Drop for Opens {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// A flow that runs this command.
fn flow(namespace: &str, command: &str) -> Flow {
    let text = format!(
        "document: {{ dsl: '1.0.3', namespace: {namespace}, name: runs, version: '1.0.0' }}
do:
  - one: {{ run: {{ shell: {{ command: {command} }} }} }}
"
    );
    turnwheel_flow::load(&text, "runs.yaml").expect("it is right")
}

#[test]
fn sleeping_steps_of_one_namespace_do_not_hold_up_another_one() {
    let gate = Arc::new(Gate::default());
    let waits = Arc::clone(&gate);
    let io = FakeIo::new().on_process(move |process| {
        if matches!(&process.program, Program::Shell(command) if command == "sleep") {
            waits.wait();
        }
        Ok(ProcessResult { stdout: "done".to_owned(), ..ProcessResult::default() })
    });
    let world = World::builder().flows(io).build(MemoryStore::new()).expect("a world");
    let opens = Opens(gate);
    let flows = Flows::new(&world).expect("it has flows");
    let (slow, other) = (flow("slow", "sleep"), flow("other", "quick"));
    for flow in [&slow, &other] {
        crate::flow_common::add(&flows, flow);
    }
    let plans: Vec<_> =
        (0..70).map(|_| flows.start(&slow, json!({})).wait().expect("it starts")).collect();
    let status = loop {
        let status = world.queues().swap_remove(0);
        if status.running + status.waiting == 70 {
            break status;
        }
        std::thread::yield_now();
    };
    assert!(status.free() > 0, "{status:?}");
    let quick = flows.start(&other, json!({})).wait().expect("it starts");
    let ended = quick.finished().wait().expect("it ends");
    assert_eq!(result(&ended).expect("it is well"), json!("done"));
    drop(opens);
    for plan in plans {
        plan.finished().wait().expect("it ends");
    }
    world.shutdown().expect("it ends");
}

#[test]
fn slow_requests_of_all_namespaces_hold_up_no_commands() {
    let gate = Arc::new(Gate::default());
    let waits = Arc::clone(&gate);
    let io = FakeIo::new()
        .on_http(move |_| {
            waits.wait();
            Ok(HttpResponse { status: 204, ..HttpResponse::default() })
        })
        .on_process(|_| Ok(ProcessResult { stdout: "done".to_owned(), ..Default::default() }));
    let world = World::builder().flows(io).build(MemoryStore::new()).expect("a world");
    let opens = Opens(gate);
    let flows = Flows::new(&world).expect("it has flows");
    let quick = flow("other", "quick");
    crate::flow_common::add(&flows, &quick);
    let mut plans = Vec::new();
    for namespace in ["one", "two"] {
        let asks = asking(namespace, "a");
        crate::flow_common::add(&flows, &asks);
        let start = || flows.start(&asks, json!({})).wait().expect("it starts");
        plans.extend((0..70).map(|_| start()));
    }
    loop {
        let queues = world.queues();
        let status = queues.iter().find(|queue| queue.name == "requests").expect("it is there");
        if status.running + status.waiting == 140 {
            assert_eq!(status.free(), 8, "kept for other namespaces: {status:?}");
            break;
        }
        std::thread::yield_now();
    }
    let quick = flows.start(&quick, json!({})).wait().expect("it starts");
    let ended = quick.finished().wait().expect("it ends");
    assert_eq!(result(&ended).expect("it is well"), json!("done"));
    drop(opens);
    for plan in plans {
        plan.finished().wait().expect("it ends");
    }
    world.shutdown().expect("it ends");
}

/// A flow that asks this host.
fn asking(namespace: &str, host: &str) -> Flow {
    let text = format!(
        "document: {{ dsl: '1.0.3', namespace: {namespace}, name: asks, version: '1.0.0' }}
do:
  - one: {{ call: http, with: {{ method: get, endpoint: 'https://{host}.example/' }} }}
"
    );
    turnwheel_flow::load(&text, "asks.yaml").expect("it is right")
}

/// Two namespaces have more slow tasks than there are places each, and eight further ones have one
/// each.
fn eight_further_ones_beside_two(queue: &str, flow: impl Fn(&str, &str) -> Flow) {
    let gate = Arc::new(Gate::default());
    let (waits, waits_too) = (Arc::clone(&gate), Arc::clone(&gate));
    let io = FakeIo::new()
        .on_http(move |request| {
            if request.uri.contains("sleep") {
                waits.wait();
            }
            Ok(HttpResponse { status: 200, body: b"done".to_vec(), ..HttpResponse::default() })
        })
        .on_process(move |process| {
            if matches!(&process.program, Program::Shell(command) if command == "sleep") {
                waits_too.wait();
            }
            Ok(ProcessResult { stdout: "done".to_owned(), ..ProcessResult::default() })
        });
    let world = World::builder().flows(io).build(MemoryStore::new()).expect("a world");
    let opens = Opens(gate);
    let flows = Flows::new(&world).expect("it has flows");
    let start = |flow: &Flow| {
        crate::flow_common::add(&flows, flow);
        flows.start(flow, json!({})).wait().expect("it starts")
    };
    let mut slow: Vec<_> = Vec::new();
    for namespace in ["one", "two"] {
        let flow = flow(namespace, "sleep");
        slow.extend((0..70).map(|_| start(&flow)));
    }
    loop {
        let queues = world.queues();
        let status = queues.iter().find(|status| status.name == queue).expect("it is there");
        if status.running + status.waiting == 140 {
            assert_eq!(status.free(), 8, "{status:?}");
            break;
        }
        std::thread::yield_now();
    }
    // Seven further ones that are slow: the last one has the last place.
    slow.extend((0..7).map(|number| start(&flow(&format!("slow-{number}"), "sleep"))));
    let ended = start(&flow("last", "quick")).finished().wait().expect("it ends");
    assert_eq!(result(&ended).expect("it is well"), json!("done"));
    drop(opens);
    for plan in slow {
        plan.finished().wait().expect("it ends");
    }
    world.shutdown().expect("it ends");
}

#[test]
fn slow_commands_of_two_namespaces_hold_up_no_others() {
    eight_further_ones_beside_two("default", flow);
}

#[test]
fn slow_requests_of_two_namespaces_hold_up_no_others() {
    eight_further_ones_beside_two("requests", asking);
}

#[test]
fn sleeping_remote_of_one_namespace_does_not_hold_up_requests_of_another_one() {
    let gate = Arc::new(Gate::default());
    let waits = Arc::clone(&gate);
    let io = FakeIo::new().on_http(move |request| {
        if request.uri.contains("slow.example") {
            waits.wait();
        }
        Ok(HttpResponse { status: 200, body: b"done".to_vec(), ..HttpResponse::default() })
    });
    let world = World::builder().flows(io).build(MemoryStore::new()).expect("a world");
    let opens = Opens(gate);
    let flows = Flows::new(&world).expect("it has flows");
    let [slow, quick] = ["slow", "quick"].map(|host| {
        let asks = asking(host, host);
        crate::flow_common::add(&flows, &asks);
        asks
    });
    let start = |flow| flows.start(flow, json!({})).wait().expect("it starts");
    let plans: Vec<_> = (0..70).map(|_| start(&slow)).collect();
    loop {
        let queues = world.queues();
        let status = queues.iter().find(|queue| queue.name == "requests").expect("it is there");
        if status.running + status.waiting == 70 {
            assert!(status.free() > 0, "{status:?}");
            break;
        }
        std::thread::yield_now();
    }
    let ended = start(&quick).finished().wait().expect("it ends");
    assert_eq!(result(&ended).expect("it is well"), json!("done"));
    drop(opens);
    for plan in plans {
        plan.finished().wait().expect("it ends");
    }
    world.shutdown().expect("it ends");
}

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
        let text = format!(
            "document: {{ dsl: '1.0.3', namespace: {namespace}, name: asks, version: '1.0.0' }}
do:
  - one: {{ call: http, with: {{ method: get, endpoint: 'https://a.example/' }} }}
"
        );
        let asks = turnwheel_flow::load(&text, "asks.yaml").expect("it is right");
        crate::flow_common::add(&flows, &asks);
        let start = || flows.start(&asks, json!({})).wait().expect("it starts");
        plans.extend((0..70).map(|_| start()));
    }
    loop {
        let queues = world.queues();
        let status = queues.iter().find(|queue| queue.name == "requests").expect("it is there");
        if status.running + status.waiting == 140 {
            assert_eq!(status.free(), 0, "{status:?}");
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
        let text = format!(
            "document: {{ dsl: '1.0.3', namespace: {host}, name: asks, version: '1.0.0' }}
do:
  - one: {{ call: http, with: {{ method: get, endpoint: 'https://{host}.example/' }} }}
"
        );
        let asks = turnwheel_flow::load(&text, "asks.yaml").expect("it is right");
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

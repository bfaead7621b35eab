//! Flows of one namespace leave places for those of others.

use std::sync::{Arc, Condvar, Mutex};

use serde_json::json;
use turnwheel_engine::{MemoryStore, World};
use turnwheel_flow::{result, FakeIo, Flow, Flows, ProcessResult, Program, WithFlows};

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

//! What flows no longer want is ended, and flows that would never end are.

use std::sync::mpsc::{channel, Sender};
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{json, Value};
use turnwheel_engine::flow::{
    CloudEvent, Flows, HttpRequest, HttpResponse, Io, IoCall, IoError, IoErrorKind, Process,
    ProcessResult, ScriptLanguage,
};
use turnwheel_engine::{MemoryStore, World};
use turnwheel_runtime::completion::block_on;

use crate::flow_common::{add, fault, load};

/// Its commands run until nobody wants them any longer, and tell so.
#[derive(Debug)]
struct Endless(Mutex<Sender<&'static str>>);

impl Endless {
    fn tell(&self, what: &'static str) {
        self.0.lock().expect("no panic here").send(what).expect("the test waits");
    }
}

fn nothing<T>() -> Result<T, IoError> {
    Err(IoError::new(IoErrorKind::Unsupported, "this test has only commands"))
}

impl Io for Endless {
    fn http(&self, _: &HttpRequest, _: &IoCall<'_>) -> Result<HttpResponse, IoError> {
        nothing()
    }

    fn process(&self, _: &Process, call: &IoCall<'_>) -> Result<ProcessResult, IoError> {
        self.tell("begun");
        while !call.is_cancelled() {
            std::thread::yield_now();
        }
        self.tell("ended");
        Ok(ProcessResult::default())
    }

    fn process_detached(&self, _: &Process, _: &IoCall<'_>) -> Result<(), IoError> {
        nothing()
    }

    fn script_problem(&self, _: ScriptLanguage) -> Option<String> {
        None
    }

    fn resource(&self, _: &str, _: &IoCall<'_>) -> Result<Vec<u8>, IoError> {
        nothing()
    }

    fn secret(&self, _: &str) -> Result<Option<Value>, IoError> {
        Ok(None)
    }
}

#[test]
fn what_a_race_drops_is_told_to_end() {
    let (told, news) = channel();
    let soon = Duration::from_secs(60);
    let world = World::builder().flows(Endless(Mutex::new(told))).build(MemoryStore::new());
    let world = world.expect("it can be built");
    let flows = Flows::new(&world).expect("it has flows");
    let flow = load(
        "
do:
  - race:
      fork:
        compete: true
        branches:
          - endless: { run: { shell: { command: x } } }
          - winner: { listen: { to: { one: { with: { type: go } } } } }
",
    );
    add(&flows, &flow);
    let plan = flows.start(&flow, json!({})).wait().expect("it starts");
    assert_eq!(news.recv_timeout(soon), Ok("begun"));
    // The other branch may be asked for a moment later.
    let go =
        || block_on(flows.publish(CloudEvent::new("1", "/test", "go"))).expect("off the workers");
    while go().expect("it is told").delivered == 0 {
        std::thread::yield_now();
    }
    plan.finished().wait().expect("it ends");
    assert_eq!(news.recv_timeout(soon), Ok("ended"), "before the world ends");
    world.shutdown().expect("it ends in time");
}

#[test]
fn a_function_that_calls_itself_without_end_is_a_fault() {
    let text = "
use: { functions: { again: { do: [ { once_more: { if: '. != 7', call: again } } ] } } }
do: [ { a: { call: again } } ]
";
    let fault = fault(text, json!({}));
    assert!(fault["detail"].to_string().contains("does a function call itself"), "{fault}");
}

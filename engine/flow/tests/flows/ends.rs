//! Work that a flow does not need any more is ended, and so are endless flows.

use std::sync::mpsc::{channel, Sender};
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{json, Value};
use turnwheel_engine::picture::failure_of;
use turnwheel_engine::store::Filter;
use turnwheel_engine::{MemoryStore, StepState, World};
use turnwheel_flow::{
    CloudEvent, FakeIo, Flows, HttpRequest, HttpResponse, Io, IoCall, IoError, IoErrorKind,
    Process, ProcessResult, ScriptLanguage, WithFlows,
};
use turnwheel_runtime::completion::block_on;

use crate::flow_common::{add, fault, load, run_with, Stage};

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

#[test]
fn a_task_with_a_fault_is_shown_as_failed_where_it_failed() {
    let flow = "
do:
  - good: { set: { x: 1 } }
  - outer: { do: [ { bad: { raise: { error: { type: 'https://a.b/gone', status: 410 } } } } ] }
";
    let (outcome, view) = run_with(FakeIo::new(), flow, json!({}));
    outcome.expect_err("it has a fault");
    let tree = view.tree();
    let states: Vec<_> =
        tree.nodes.iter().map(|node| (node.name.as_str(), node.state.name())).collect();
    let expected = [
        ("flow", "error"),
        ("do/0/good", "success"),
        ("do/1/outer", "error"),
        ("do/1/outer/do/0/bad", "error"),
    ];
    assert_eq!(states, expected);
    let bad = tree.nodes[3].steps.last().expect("it has a step");
    let error = bad.error.as_ref().expect("it says why");
    assert_eq!(error.kind, "https://a.b/gone");
    assert!(error.message.contains("(410) at /do/1/outer/do/0/bad"), "{error}");
    let graph = view.graph();
    assert_eq!(graph.nodes.iter().filter(|node| node.state == StepState::Error).count(), 3);
    let bars = view.timeline().bars;
    assert_eq!(bars.iter().filter(|bar| bar.state == StepState::Error).count(), 3);
}

#[test]
fn an_error_keeps_the_place_that_it_names_and_the_flow_itself_is_the_empty_pointer() {
    let raised = "do: [ { a: { raise: { error: { type: 'https://a.b/x', status: 400, instance: /do/7/other } } } } ]";
    assert_eq!(fault(raised, json!({}))["instance"], "/do/7/other");
    let own = "do: [ { a: { raise: { error: { type: 'https://a.b/x', status: 400, instance: '${ .at }' } } } } ]";
    assert_eq!(fault(own, json!({ "at": "/do/2" }))["instance"], "/do/2");
    assert_eq!(fault(own, json!({}))["instance"], "/do/0/a", "its own, if it names none");
    let schema =
        "input: { schema: { document: { type: object } } }\ndo: [ { a: { set: { x: 1 } } } ]";
    assert_eq!(fault(schema, json!(1))["instance"], "");
}

#[test]
fn a_task_that_takes_too_long_is_shown_as_failed_where_it_failed() {
    let caught = "
do:
  - careful:
      try: [ { slow: { wait: PT1H, timeout: { after: PT5S } } } ]
      catch: { errors: { with: { status: 408 } } }
  - branches:
      fork:
        branches:
          - nested: { do: [ { inner: { wait: PT1H } } ], timeout: { after: PT2S } }
";
    let stage = Stage::new(FakeIo::new());
    let plan = stage.start(&load(caught), json!({}));
    stage.result(&plan).expect_err("the second one is not caught");
    let view = stage.view(&plan);
    let tree = view.tree();
    let state = |name: &str| tree.nodes.iter().find(|node| node.name == name).map(|it| it.state);
    assert_eq!(state("do/0/careful"), Some(StepState::Success));
    assert_eq!(state("do/0/careful/try/0/slow"), Some(StepState::Error));
    assert_eq!(state("do/1/branches"), Some(StepState::Error));
    let nested = "do/1/branches/fork/branches/0/nested";
    assert_eq!(state(nested), Some(StepState::Error));
    assert_eq!(state(&format!("{nested}/do/0/inner")), Some(StepState::Dropped));
    let node = tree.nodes.iter().find(|node| node.name.ends_with("slow")).expect("it is there");
    let error = node.steps.last().and_then(|step| step.error.clone()).expect("it says why");
    assert!(error.message.contains("Timeout (408) at /do/0/careful/try/0/slow"), "{error}");
    let failure = failure_of(&view).expect("the plan has failed");
    assert!(failure.starts_with("branches › nested: Timeout"), "{failure}");
    let failed = |states: Vec<StepState>| {
        states.into_iter().filter(|state| *state == StepState::Error).count()
    };
    assert_eq!(failed(view.graph().nodes.iter().map(|node| node.state).collect()), 4);
    assert_eq!(failed(view.timeline().bars.iter().map(|bar| bar.state).collect()), 4);
}

#[test]
fn a_task_of_the_main_list_that_takes_too_long_is_shown_as_failed() {
    let stage = Stage::new(FakeIo::new());
    let flow = load("do: [ { slow: { wait: PT1H, timeout: { after: PT5S } } } ]");
    let plan = stage.start(&flow, json!({}));
    stage.result(&plan).expect_err("nobody catches it");
    let view = stage.view(&plan);
    let tree = view.tree();
    let states: Vec<_> = tree.nodes.iter().map(|node| (&*node.name, node.state)).collect();
    assert_eq!(states, [("flow", StepState::Error), ("do/0/slow", StepState::Error)]);
    let failure = failure_of(&view).expect("the plan has failed");
    assert!(failure.starts_with("slow: Timeout"), "{failure}");
}

#[test]
fn an_error_is_found_by_the_text_that_lists_show() {
    let stage = Stage::new(FakeIo::new());
    let kind = "https://example.org/mail";
    let flow = load(&format!(
        "do: [ {{ send: {{ raise: {{ error: {{ type: '{kind}', status: 500, detail: no such mailbox }} }} }} }} ]"
    ));
    let plan = stage.start(&flow, json!({}));
    stage.result(&plan).expect_err("it raises an error");
    stage.pass(5);
    let found = |text: &str| {
        let filter = Filter { text: Some(text.to_owned()), limit: 10, ..Filter::default() };
        stage.sim.block_on(stage.world.list(filter)).expect("it ends").expect("it is read").len()
    };
    let shown = failure_of(&stage.view(&plan)).expect("the plan has failed");
    assert_eq!(shown, "send: no such mailbox (500)");
    assert_eq!((found(&shown), found("mailbox (500)"), found("at /do/0/send")), (1, 1, 0));
}

#[test]
fn a_status_that_is_computed_is_checked() {
    let raised = |status: &str| {
        let flow = format!(
            "do: [ {{ a: {{ raise: {{ error: {{ type: 'https://a.b/x', status: '{status}' }} }} }} }} ]"
        );
        fault(&flow, json!({ "low": 99, "high": 600, "good": 429, "text": "400", "part": 400.5 }))
    };
    assert_eq!(raised("${ .good }")["status"], 429);
    for wrong in ["${ .low }", "${ .high }", "${ .text }", "${ .part }", "${ .none }"] {
        let fault = raised(wrong);
        assert_eq!((&fault["status"], &fault["instance"]), (&json!(400), &json!("/do/0/a")));
        let detail = fault["detail"].as_str().expect("it says why");
        assert!(detail.contains("100 to 599"), "{wrong}: {detail}");
    }
}

#[test]
fn failure_of_a_handler_is_told_and_not_what_it_has_caught() {
    let raise = |name: &str| {
        format!("{name}: {{ raise: {{ error: {{ type: 'https://a.b/{name}', status: 500, title: {name} }} }} }}")
    };
    let failing = |handler: &str| {
        format!("try: [ {{ {} }} ], catch: {{ do: [ {handler} ] }}", raise("first"))
    };
    let (second, nested) = (raise("second"), failing(&format!("{{ {} }}", raise("inner"))));
    for (handler, told) in [
        (format!("{{ {second} }}"), "outer › second: second (500)"),
        (format!("{{ in: {{ do: [ {{ {second} }} ] }} }}"), "outer › in › second: second (500)"),
        (format!("{{ in: {{ {nested} }} }}"), "outer › in › inner: inner (500)"),
    ] {
        let flow = format!("do: [ {{ outer: {{ {} }} }} ]", failing(&handler));
        let (ended, view) = run_with(FakeIo::new(), &flow, json!({}));
        ended.expect_err("the handler fails");
        let failure = failure_of(&view).expect("the plan has failed");
        assert!(failure.starts_with(told), "{failure}");
    }
}

#[test]
fn the_error_of_a_flow_is_the_one_that_ended_it() {
    let raise = "raise: { error: { type: 'https://a.b/not-ready', status: 503 } }";
    let cases = [
        (
            "a task that is tried again until it takes too long",
            "do: [ { poll: { timeout: { after: PT5S }, try: [ { ask: { RAISE } } ], catch: { retry: { delay: PT1S } } } } ]",
            "poll: Timeout: ",
        ),
        (
            "the flow takes too long",
            "timeout: { after: PT5S }\ndo: [ { poll: { try: [ { ask: { RAISE } } ], catch: { retry: { delay: PT1S } } } } ]",
            "flow failed: Timeout (408) of the workflow",
        ),
        (
            "a handler of a task that takes too long",
            "do: [ { poll: { timeout: { after: PT5S }, try: [ { one: { do: [ { ask: { RAISE } } ] } } ], catch: { do: [ { slow: { wait: PT1H } } ] } } } ]",
            "poll: Timeout: ",
        ),
        (
            "an attempt that takes too long after a task whose error was handled",
            "do: [ { poll: { try: [ { safe: { try: [ { ask: { RAISE } } ], catch: {} } }, { slow: { wait: PT1H } } ], \
             catch: { retry: { limit: { attempt: { count: 1, duration: PT5S } } } } } } ]",
            "poll: Timeout: ",
        ),
        (
            "an output that is not as its schema says",
            "do: [ { poll: { try: [ { ask: { RAISE } } ], catch: { do: [ { fallback: { set: { n: text } } } ] }, \
             output: { schema: { document: { type: object, properties: { n: { type: number } } } } } } } ]",
            "poll: the output: /n: ",
        ),
        (
            "a task of the same name beside one whose error was handled",
            "do: [ { poll: { try: [ { ask: { RAISE } } ], catch: {} } }, { ask: { raise: { error: { type: 'https://a.b/two', status: 500 } } } } ]",
            "ask:",
        ),
    ];
    let mut wrong = Vec::new();
    for (what, text, told) in cases {
        let stage = Stage::new(FakeIo::new());
        let plan = stage.start(&load(&text.replace("RAISE", raise)), json!({}));
        let error = stage.result(&plan).expect_err("nobody catches it").to_string();
        let failure = failure_of(&stage.view(&plan)).expect("the plan has failed");
        if !failure.starts_with(told) {
            wrong.push(format!("{what}: {failure}, and {error}"));
        }
        stage.pass(5);
        let filter = Filter { text: Some(failure.clone()), limit: 10, ..Filter::default() };
        let found = stage.sim.block_on(stage.world.list(filter)).expect("it ends");
        assert_eq!(found.expect("it is read").len(), 1, "{what}: {failure} is found");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_long_error_is_told_of_the_task_that_has_it() {
    let detail = "x".repeat(100_000);
    let text = format!(
        "do: [ {{ out: {{ do: [ {{ a: {{ raise: {{ error: {{ type: 'https://a.b/c', status: 500, detail: {detail} }} }} }} }} ] }} }} ]"
    );
    let (ended, view) = run_with(FakeIo::new(), &text, json!({}));
    ended.expect_err("it raises an error");
    let failure = failure_of(&view).expect("the plan has failed");
    assert!(failure.starts_with("out › a: x"), "{failure}");
}

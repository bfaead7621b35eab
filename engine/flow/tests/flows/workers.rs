//! Tasks that external workers do.

use serde_json::{json, Value};
use turnwheel_engine::action::{Action, Next, Rescue, Run, Runs, StepContext};
use turnwheel_engine::{ActionError, MemoryStore, World};
use turnwheel_flow::{self as flow, FakeIo, FlowError, Flows, WithFlows, WORKER_CALL};

use crate::flow_common::{add, fault, load, problems};

/// Stands for the workers of a host: answers with what it was given, or fails.
#[derive(Debug)]
struct Worker;

impl Action for Worker {
    const NAME: &'static str = WORKER_CALL;
    type Input = Value;
    type Output = Value;
    type Phases = Runs;

    fn rescue(&self, _: &ActionError) -> Rescue {
        Rescue::Fail
    }
}

impl Run for Worker {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.input["topic"] == "broken" {
            return Err(ActionError::new("bounced", "there is no such box").and_final());
        }
        step.output = step.input.clone();
        Ok(Next::Done)
    }
}

fn run(rest: &str, input: Value) -> Result<Value, FlowError> {
    let builder = World::builder().action(Worker).flows(FakeIo::new());
    let world = builder.build(MemoryStore::new()).expect("it can be built");
    let (flows, flow) = (Flows::new(&world).expect("it has flows"), load(rest));
    add(&flows, &flow);
    let plan = flows.start(&flow, input).wait().expect("it starts");
    let view = plan.finished().wait().expect("it ends");
    world.shutdown().expect("it ends in time");
    flow::result(&view)
}

#[test]
fn task_of_a_worker_has_topic_input_and_time_and_gives_the_output() {
    let called = run(
        "do:\n  - scale:\n      call: worker\n      timeout: { after: PT5M }\n      \
         with: { topic: 'images-${ .format }', input: { width: '${ .width }' }, attempts: 2 }\n",
        json!({"format": "png", "width": 20}),
    );
    let given = json!({
        "topic": "images-png", "input": {"width": 20}, "attempts": 2, "within_ms": 300_000,
    });
    assert_eq!(called.expect("a worker did it"), given);
    let plain = run("do:\n  - one: { call: worker, with: { topic: mail } }\n", json!({"to": 1}));
    assert_eq!(plain.expect("it is done"), json!({"topic": "mail", "input": {"to": 1}}));
}

#[test]
fn failure_of_a_worker_is_a_fault_with_its_kind_that_can_be_caught() {
    let called = run(
        "do:\n  - mail:\n      try:\n        - one: { call: worker, with: { topic: broken } }\n      \
         catch: { errors: { with: { type: bounced } }, as: e, do: [ { two: { set: { was: '${ $e.detail }' } } } ] }\n",
        json!({}),
    );
    assert_eq!(called.expect("it is caught"), json!({"was": "there is no such box"}));
}

#[test]
fn worker_of_a_host_without_workers_is_a_configuration_fault() {
    let fault = fault("do:\n  - one: { call: worker, with: { topic: mail } }\n", json!({}));
    let kind = fault["type"].as_str().expect("it has a type");
    assert!(kind.ends_with("/configuration"), "{fault}");
}

#[test]
fn calls_of_workers_that_make_no_sense_are_refused() {
    let cases = [
        ("call: worker", "must have the field «with»"),
        ("{ call: worker, with: { input: 1 } }", "topic"),
        ("{ call: worker, with: { topic: mail, attempts: 0 } }", "at least 1"),
        ("{ call: worker, with: { topic: mail, lease: 1 } }", "lease"),
    ];
    for (task, wanted) in cases {
        let task = if task.starts_with('{') { task.to_owned() } else { format!("{{ {task} }}") };
        let told = problems(&format!("do:\n  - one: {task}\n"));
        assert!(told.contains(wanted), "{task}: {told}");
    }
}

#[test]
fn function_with_the_name_worker_is_still_a_function() {
    let rest = "use: { functions: { worker: { set: { own: true } } } }\n\
                do:\n  - one: { call: worker, with: { topic: mail } }\n";
    assert_eq!(run(rest, json!({})).expect("it runs"), json!({"own": true}));
}

//! A world of flows for tests, and what is said about its plans.
#![allow(dead_code, reason = "each test file uses a part of it")]

use serde_json::Value;
use turnwheel_engine::flow::{self, FakeIo, Flow, FlowError, Flows};
use turnwheel_engine::{MemoryStore, PlanView, World};
use turnwheel_runtime::completion::block_on;

/// The head of a definition, so that tests begin with what they are about.
pub(crate) fn define(rest: &str) -> String {
    format!("document: {{ dsl: '1.0.3', namespace: test, name: it, version: '1.0.0' }}\n{rest}")
}

/// Reads a definition that is right.
pub(crate) fn load(rest: &str) -> Flow {
    flow::load(&define(rest), "it.yaml").unwrap_or_else(|problems| panic!("{problems}"))
}

/// What is wrong with a definition.
pub(crate) fn problems(rest: &str) -> String {
    match flow::load(&define(rest), "it.yaml") {
        Ok(_) => panic!("it was read: {rest}"),
        Err(problems) => problems.to_string(),
    }
}

/// A world with these effects.
pub(crate) fn world(io: FakeIo) -> (World, Flows) {
    let world = World::builder().flows(io).build(MemoryStore::new()).expect("it can be built");
    let flows = Flows::new(&world).expect("it has flows");
    (world, flows)
}

/// Adds a flow.
pub(crate) fn add(flows: &Flows, flow: &Flow) {
    block_on(flows.add(flow)).expect("off the workers").expect("it can be added");
}

/// Runs a flow to its end.
pub(crate) fn run_with(
    io: FakeIo,
    rest: &str,
    input: Value,
) -> (Result<Value, FlowError>, PlanView) {
    let (world, flows) = world(io);
    let flow = load(rest);
    add(&flows, &flow);
    let plan = flows.start(&flow, input).wait().expect("it starts");
    let view = plan.finished().wait().expect("it ends");
    world.shutdown().expect("it ends in time");
    (flow::result(&view), view)
}

/// The output of a flow that has no effects.
pub(crate) fn run(rest: &str, input: Value) -> Value {
    match run_with(FakeIo::new(), rest, input).0 {
        Ok(output) => output,
        Err(error) => panic!("{error}"),
    }
}

/// The fault of one that ends with one, as data.
pub(crate) fn fault(rest: &str, input: Value) -> Value {
    match run_with(FakeIo::new(), rest, input).0 {
        Err(FlowError::Faulted(fault)) => fault.to_value(),
        other => panic!("{other:?}"),
    }
}

/// The pointers of the tasks that were run, in the order in which they were asked for.
pub(crate) fn trace(view: &PlanView) -> Vec<String> {
    let inputs = view.actions.iter().skip(1).map(|action| action.input.read::<Value>());
    let inputs = inputs.map(|input| input.expect("it is data"));
    inputs.map(|input| input["at"].as_str().unwrap_or_default().to_owned()).collect()
}

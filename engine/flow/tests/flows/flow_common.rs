//! A world of flows for tests, and what is said about its plans.
#![allow(dead_code, reason = "each test file uses a part of it")]

use serde_json::Value;
use turnwheel_engine::{MemoryStore, PlanView, Store, World};
use turnwheel_flow::{self as flow, FakeIo, Flow, FlowError, Flows, WithFlows};
use turnwheel_runtime::completion::block_on;
use turnwheel_testkit::FaultStore;

/// The head of a definition, so that tests begin with what they are about.
pub(crate) fn define(rest: &str) -> String {
    format!("document: {{ dsl: '1.0.3', namespace: test, name: it, version: '1.0.0' }}\n{rest}")
}

/// Reads a definition that is right.
pub(crate) fn load(rest: &str) -> Flow {
    flow::load(&define(rest), "it.yaml").unwrap_or_else(|problems| panic!("{problems}"))
}

/// Problems of a definition.
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

/// A world of flows in a simulation, whose time passes only when nothing else is to be done.
pub(crate) struct Stage {
    pub(crate) sim: turnwheel_runtime::sim::Sim,
    pub(crate) store: MemoryStore,
    pub(crate) world: World,
    pub(crate) flows: Flows,
    io: FakeIo,
}

impl Stage {
    pub(crate) fn new(io: FakeIo) -> Self {
        Self::over(turnwheel_runtime::sim::Sim::new(5), MemoryStore::new(), io)
    }

    /// Over a store that fails when it is told to.
    pub(crate) fn with_faults(io: FakeIo) -> (Self, FaultStore) {
        let memory = MemoryStore::new();
        let fault = FaultStore::new(memory.clone());
        (Self::open(turnwheel_runtime::sim::Sim::new(5), memory, fault.clone(), io), fault)
    }

    fn over(sim: turnwheel_runtime::sim::Sim, store: MemoryStore, io: FakeIo) -> Self {
        Self::open(sim, store.clone(), store, io)
    }

    fn open(
        sim: turnwheel_runtime::sim::Sim,
        store: MemoryStore,
        opened: impl Store + 'static,
        io: FakeIo,
    ) -> Self {
        let builder = World::builder()
            .flows(io.clone())
            .group(&sim.group("plans"))
            .io_group(&sim.group("journal"))
            .seed(1);
        let world = sim.block_on(builder.open(opened));
        let world = world.expect("it ends").expect("it can be built");
        let flows = Flows::new(&world).expect("it has flows");
        Self { sim, store, world, flows, io }
    }

    /// Another world over the same store, so much later.
    pub(crate) fn crash(self, later: std::time::Duration) -> Self {
        let Self { sim, store, world, flows, io } = self;
        let wall = sim.wall() + later;
        drop((world, flows, sim));
        let sim = turnwheel_runtime::sim::Sim::builder().seed(6).wall(wall).build();
        Self::over(sim, store, io)
    }

    /// Adds a flow and starts it.
    pub(crate) fn start(&self, flow: &Flow, input: Value) -> turnwheel_engine::PlanHandle {
        let added = self.sim.block_on(self.flows.add(flow));
        added.expect("it ends").expect("it can be added");
        let started = self.sim.block_on(self.flows.start(flow, input));
        started.expect("it ends").expect("it starts")
    }

    /// Lets time pass.
    pub(crate) fn pass(&self, seconds: u64) {
        self.sim.advance(std::time::Duration::from_secs(seconds));
        self.sim.run_until_idle();
    }

    pub(crate) fn view(&self, plan: &turnwheel_engine::PlanHandle) -> PlanView {
        self.sim.run_until_idle();
        self.sim.block_on(plan.view()).expect("it ends").expect("it is there")
    }

    pub(crate) fn result(&self, plan: &turnwheel_engine::PlanHandle) -> Result<Value, FlowError> {
        let is_over = |view: &PlanView| view.state == turnwheel_engine::PlanState::Stopped;
        for _ in 0..2_000 {
            if is_over(&self.view(plan)) {
                break;
            }
            self.pass(1);
        }
        let view = self.view(plan);
        assert!(is_over(&view), "{}", view.waits_for());
        flow::result(&view)
    }

    pub(crate) fn publish(&self, event: flow::CloudEvent) -> flow::Published {
        let published = self.sim.block_on(self.flows.publish(event));
        published.expect("it ends").expect("it is told")
    }
}

//! Sub-flows and tasks of workers that nobody waits for any more are told to end, whatever has dropped
//! them and wherever the process ends.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{json, Value};
use turnwheel_engine::action::{Action, Cause, Next, Rescue, RunAsync, RunsAsync, StepContext};
use turnwheel_engine::store::{Filter, PlanRow};
use turnwheel_engine::{
    internal::row, ActionError, MemoryStore, Plan, PlanResult, PlanState, StepId, StoreError,
    World, WorldBuilder,
};
use turnwheel_flow::{
    self as flow, CloudEvent, FakeIo, Flow, FlowPlan, Flows, WithFlows, WORKER_CALL,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_testkit::{Client, CrashPoints, FaultStore, Workload};

use crate::flow_common::{define, load};

/// Stands for work that a worker has: it is done when that says so. When it is told to end it counts
/// that, and may take its time.
#[derive(Clone, Debug, Default)]
struct Work {
    told: Arc<AtomicU32>,
    is_slow: bool,
}

impl Action for Work {
    const NAME: &'static str = WORKER_CALL;
    type Input = Value;
    type Output = Value;
    type Phases = RunsAsync;

    fn is_cancellable(&self) -> bool {
        true
    }

    fn rescue(&self, _: &ActionError) -> Rescue {
        Rescue::Fail
    }
}

impl RunAsync for Work {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        match step.cause() {
            Cause::Cancel { .. } => {
                self.told.fetch_add(1, Ordering::SeqCst);
                Ok(if self.is_slow { Next::suspend("its worker") } else { Next::Done })
            }
            Cause::Event => Ok(Next::Done),
            _ => Ok(Next::suspend("its worker")),
        }
    }
}

/// It begins with a wait that an event ends, and does something after that.
fn child() -> Flow {
    let text = define(
        "do:\n  - hold: { listen: { to: { one: { with: { type: finish } } } } }\n  \
         - charge: { run: { shell: { command: charge } } }\n",
    );
    flow::load(&text.replace("name: it", "name: child"), "child").expect("it is right")
}

const CHILD: &str = "{ run: { workflow: { namespace: test, name: child, version: '1.0.0' } } }";
const WORK: &str = "{ call: worker, with: { topic: images } }";

/// A world of flows over a store, and a simulation of its own.
struct Life {
    sim: Sim,
    world: World,
    flows: Flows,
    io: FakeIo,
}

impl Life {
    fn over(store: FaultStore, seed: u64, work: &Work) -> Self {
        let sim = Sim::new(seed);
        let io = FakeIo::new();
        let builder = World::builder()
            .action(work.clone())
            .flows(io.clone())
            .group(&sim.group("plans"))
            .io_group(&sim.group("journal"))
            .seed(1);
        let world = sim.block_on(builder.open(store)).expect("it ends").expect("it can be built");
        let flows = Flows::new(&world).expect("it has flows");
        Self { sim, world, flows, io }
    }

    fn new() -> Self {
        Self::over(FaultStore::new(MemoryStore::new()), 5, &Work::default())
    }

    fn start(&self, text: &str) -> turnwheel_engine::PlanHandle {
        for flow in [&child(), &load(text)] {
            let added = self.sim.block_on(self.flows.add(flow));
            added.expect("it ends").expect("it can be added");
        }
        let started = self.sim.block_on(self.flows.start(&load(text), json!({})));
        let plan = started.expect("it ends").expect("it starts");
        self.sim.run_until_idle();
        plan
    }

    fn pass(&self, seconds: u64) {
        self.sim.advance(Duration::from_secs(seconds));
        self.sim.run_until_idle();
    }

    fn publish(&self, kind: &str) {
        let event = CloudEvent::new(kind, "/test", kind);
        self.sim.block_on(self.flows.publish(event)).expect("it ends").expect("it is told");
        self.sim.run_until_idle();
    }

    /// The rows of all plans: a look at them brings no plan into memory.
    fn rows(&self) -> Vec<PlanRow> {
        self.sim.run_until_idle();
        let rows = self.sim.block_on(self.world.list(Filter { limit: 100, ..Filter::default() }));
        rows.expect("it ends").expect("the store answers")
    }

    fn children(&self) -> Vec<PlanRow> {
        let mut rows = self.rows();
        rows.retain(|row| row.caller.is_some());
        rows
    }
}

/// Flows that drop a task `CHILD` after a second or two, and how often it begins.
const DROPS: [(&str, &str, usize); 13] = [
    (
        "a lost race",
        "do: [ { f: { fork: { compete: true, branches: [ { a: CHILD }, { b: { wait: PT1S } } ] } } } ]",
        1,
    ),
    (
        "two of them in a lost race, one deep inside",
        "
do:
  - f:
      fork:
        compete: true
        branches: [ { a: CHILD }, { b: { wait: PT1S } }, { c: { do: [ { d: { for: { in: '[1]' }, do: [ { e: CHILD } ] } } ] } } ]
",
        2,
    ),
    (
        "a time limit of the task",
        "do: [ { t: { try: [ { a: CHILD_LATE } ], catch: { do: [ { h: { set: 1 } } ] } } } ]",
        1,
    ),
    (
        "a time limit of a block",
        "
do:
  - t:
      try: [ { d: { do: [ { a: CHILD } ], timeout: { after: PT1S } } } ]
      catch: { do: [ { h: { set: 1 } } ] }
",
        1,
    ),
    ("a time limit of the flow", "timeout: { after: PT1S }\ndo: [ { a: CHILD } ]", 1),
    (
        "a time limit of an attempt",
        "
do:
  - t:
      try: [ { a: CHILD } ]
      catch: { retry: { delay: PT1S, limit: { attempt: { count: 2, duration: PT1S } } }, do: [ { h: { set: 1 } } ] }
",
        3,
    ),
    (
        "a time limit of a function",
        "
use: { functions: { f: CHILD } }
do: [ { t: { try: [ { a: { call: f, timeout: { after: PT1S } } } ], catch: { do: [ { h: { set: 1 } } ] } } } ]
",
        1,
    ),
    (
        "a fault of a sibling",
        "
do:
  - t:
      try:
        - f: { fork: { branches: [ { a: CHILD }, { b: { do: [ { w: { wait: PT1S } }, { r: { raise: { error: { type: 'https://x', status: 400 } } } } ] } } ] } }
      catch: { do: [ { h: { set: 1 } } ] }
",
        1,
    ),
    (
        "a fault of a sibling that nobody catches",
        "
do:
  - f: { fork: { branches: [ { a: CHILD }, { b: { do: [ { w: { wait: PT1S } }, { r: { raise: { error: { type: 'https://x', status: 400 } } } } ] } } ] } }
",
        1,
    ),
    (
        "attempts that take too long, without a pause",
        "
do:
  - t:
      try: [ { a: CHILD_LATE } ]
      catch: { retry: { limit: { attempt: { count: 2 } } }, do: [ { h: { set: 1 } } ] }
",
        3,
    ),
    (
        "an end of the flow out of a branch",
        "
do:
  - f: { fork: { branches: [ { a: CHILD }, { b: { do: [ { w: { wait: PT1S } }, { e: { set: 1, then: end } } ] } } ] } }
",
        1,
    ),
    (
        "a time limit of a loop",
        "
do:
  - t:
      try: [ { d: { for: { in: '[1, 2]' }, do: [ { a: CHILD } ], timeout: { after: PT1S } } } ]
      catch: { do: [ { h: { set: 1 } } ] }
",
        1,
    ),
    (
        "a time limit of a listener that handles an event",
        "
do:
  - t:
      try:
        - d:
            listen: { to: { any: [ { with: { type: item } } ], until: 'false' } }
            foreach: { do: [ { a: CHILD } ] }
            timeout: { after: PT1S }
      catch: { do: [ { h: { set: 1 } } ] }
",
        1,
    ),
];

fn with(text: &str, task: &str) -> String {
    let late = task.replacen("{ ", "{ timeout: { after: PT1S }, ", 1);
    format!("{}\n", text.replace("CHILD_LATE", &late).replace("CHILD", task))
}

#[test]
fn a_sub_flow_or_task_of_a_worker_that_is_dropped_ends_and_does_nothing_more() {
    for (what, text, count) in DROPS {
        for task in [CHILD, WORK] {
            let life = Life::new();
            let plan = life.start(&with(text, task));
            life.publish("item");
            (0..10).for_each(|_| life.pass(1));
            let view = life.sim.block_on(plan.view()).expect("it ends").expect("it is there");
            assert_eq!(view.state, PlanState::Stopped, "{what}: {}", view.waits_for());
            let children = life.children();
            assert_eq!(children.len(), count, "{what}");
            for row in &children {
                let (state, result) = (row.state.name(), row.result.name());
                assert_eq!((state, result), ("stopped", "cancelled"), "{what}: {}", row.label);
            }
            life.publish("finish");
            life.pass(10);
            assert!(life.io.asked().is_empty(), "{what}: {:?}", life.io.asked());
            assert!(life.rows().iter().all(|row| !row.is_busy), "{what}: nothing is left to tell");
        }
    }
}

#[test]
fn an_attempt_that_is_tried_again_begins_a_sub_flow_after_the_end_of_the_one_before() {
    let text = "
do:
  - t:
      try: [ { a: CHILD_LATE } ]
      catch: { retry: { limit: { attempt: { count: 3 } } } }
";
    let life = Life::new();
    let _plan = life.start(&with(text, CHILD));
    (0..10).for_each(|_| life.pass(1));
    let mut children = life.children();
    children.sort_by_key(|row| row.id);
    assert_eq!(children.len(), 4);
    for pair in children.windows(2) {
        let ended = pair[0].ended_at.expect("it is over");
        assert!(ended <= pair[1].created_at, "{ended} and {}", pair[1].created_at);
    }
}

#[test]
fn a_sub_flow_that_nobody_awaits_is_not_told_to_end() {
    let text = "
do:
  - f: { fork: { compete: true, branches: [ { a: { do: [ { x: CHILD }, { w: { wait: PT1H } } ] } }, { b: { wait: PT1S } } ] } }
";
    let life = Life::new();
    let plan = life.start(&with(text, &CHILD.replace("run: {", "run: { await: false,")));
    (0..5).for_each(|_| life.pass(1));
    let view = life.sim.block_on(plan.view()).expect("it ends").expect("it is there");
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
    life.publish("finish");
    assert_eq!(life.io.asked().len(), 1, "it has gone on");
}

const RACE: &str = "
do:
  - f:
      fork:
        compete: true
        branches: [ { a: CHILD }, { b: WORK }, { c: { listen: { to: { one: { with: { type: go } } } } } } ]
";

fn race() -> String {
    RACE.replace("CHILD", CHILD).replace("WORK", WORK)
}

/// Ends the process at each write after a race is decided, and looks at what comes of its losers in the
/// next one, in which nobody asks for a plan.
#[test]
fn a_drop_is_told_wherever_the_process_ends() {
    let mut results = BTreeMap::new();
    for cut in 0.. {
        let (memory, work) = (MemoryStore::new(), Work::default());
        let store = FaultStore::new(memory.clone());
        let life = Life::over(store.clone(), 5, &work);
        let plan = life.start(&race()).id();
        let written = store.commits();
        for commit in written + 1 + cut..written + 200 {
            store.fail_at(commit, StoreError::Failed("the process is gone".to_owned()));
        }
        let go = CloudEvent::new("go", "/test", "go");
        let told = life.sim.block_on(life.flows.publish(go)).is_ok_and(|told| told.is_ok());
        life.sim.run_until_idle();
        let is_whole = store.commits() <= written + cut;
        let kept = memory.copied();
        drop((life, store));
        let next = Life::over(FaultStore::new(kept), 6, &work);
        next.pass(60);
        let rows = next.rows();
        let parent = rows.iter().find(|row| row.id == plan).expect("it is stored");
        if told {
            assert_eq!(parent.state, PlanState::Stopped, "cut {cut}: its event was taken");
        }
        let children = rows.iter().filter(|row| row.caller.is_some());
        for row in children.filter(|_| parent.state == PlanState::Stopped) {
            assert_eq!(row.state, PlanState::Stopped, "cut {cut}: {} was not told", row.label);
        }
        let is_quiet = rows.iter().all(|row| !row.is_busy || row.state != PlanState::Stopped);
        assert!(is_quiet, "cut {cut}: something is left to tell");
        *results.entry(parent.state.name()).or_insert(0) += 1;
        if is_whole {
            break;
        }
        assert!(cut < 100, "it does not come to an end");
    }
    assert!(results["stopped"] > 3 && results.contains_key("running"), "{results:?}");
}

/// A task of a worker that takes its time to end, in the run of a plan before the last one.
#[test]
fn what_was_dropped_ends_once_however_often_its_plan_is_read_and_in_later_runs_of_it() {
    let text = "
do:
  - f: { fork: { compete: true, branches: [ { a: WORK }, { b: { wait: PT1S } } ] } }
  - begin: { set: { n: 0 } }
  - count: { set: { n: '${ .n + 1 }' } }
  - again: { switch: [ { more: { when: .n < 130, then: count } } ] }
  - rest: { listen: { to: { one: { with: { type: finish } } } } }
";
    let (memory, work) = (MemoryStore::new(), Work { is_slow: true, ..Work::default() });
    let life = Life::over(FaultStore::new(memory.clone()), 5, &work);
    let plan = life.start(&text.replace("WORK", WORK)).id();
    life.pass(2);
    let view = life.sim.block_on(life.world.plan(plan).view()).expect("it ends");
    let view = view.expect("it is there");
    assert!(view.run_number > 1, "it has continued as new: {}", view.waits_for());
    assert_eq!(work.told.load(Ordering::SeqCst), 1, "it is told once");
    drop(life);
    let memory = memory.copied();
    let life = Life::over(FaultStore::new(memory.clone()), 6, &work);
    life.pass(2);
    for _ in 0..3 {
        // Each look reads the plan anew, since it is not kept while it waits.
        life.pass(600);
        let view = life.sim.block_on(life.world.plan(plan).view()).expect("it ends");
        view.expect("it is there");
    }
    assert_eq!(work.told.load(Ordering::SeqCst), 1, "it has heard that already");
    let child = life.children()[0].id;
    assert_eq!(life.children()[0].state, PlanState::Running);
    let said = life.world.event(child, StepId(2), Some("done"), &json!({}));
    life.sim.block_on(said).expect("it ends").expect("it answers").expect("it is taken");
    assert_eq!(life.children()[0].state, PlanState::Stopped);
    let memory = memory.copied();
    drop(life);
    let life = Life::over(FaultStore::new(memory), 7, &work);
    life.pass(2);
    assert_eq!(work.told.load(Ordering::SeqCst), 1, "it is over");
    assert!(life.rows().iter().all(|row| !row.is_busy));
}

/// The winner of the race is the event that its loser has waited for: both end at the same moment.
#[test]
fn a_sub_flow_that_ends_while_it_is_dropped_leaves_nothing_behind() {
    let text = "
do:
  - f:
      fork:
        compete: true
        branches: [ { a: CHILD }, { b: CHILD }, { c: { listen: { to: { one: { with: { type: finish } } } } } } ]
";
    for seed in 0..40 {
        let life = Life::over(FaultStore::new(MemoryStore::new()), seed, &Work::default());
        let plan = life.start(&with(text, CHILD));
        life.publish("finish");
        life.pass(5);
        let view = life.sim.block_on(plan.view()).expect("it ends").expect("it is there");
        assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
        let rows = life.rows();
        assert_eq!(rows.len(), 3);
        assert!(rows.iter().all(|row| row.state == PlanState::Stopped && !row.is_busy), "{seed}");
    }
}

/// A race and a time limit drop sub-flows and work of which nothing would ever end by itself.
struct Dropping(usize);

const DROPPING: &str = "
do:
  - race: { fork: { compete: true, branches: [ { a: CHILD }, { b: WORK }, { c: { wait: PT1S } } ] } }
  - careful:
      try: [ { a: { do: [ { both: { fork: { branches: [ { a: CHILD }, { b: WORK } ] } } } ], timeout: { after: PT1S } } } ]
      catch: { retry: { delay: PT1S, limit: { attempt: { count: 1 } } }, do: [ { h: { set: { done: true } } } ] }
";

impl Workload for Dropping {
    fn name(&self) -> &str {
        "dropping"
    }

    fn worlds(&self) -> usize {
        self.0
    }

    fn world(&self, builder: WorldBuilder) -> WorldBuilder {
        builder.action(Work::default()).flows(FakeIo::new())
    }

    /// Not before all that it has dropped are over.
    fn is_end(&self, plan: &Plan) -> bool {
        plan.state == PlanState::Stopped && !row(plan).is_busy
    }

    async fn client(&self, client: Client) -> Result<(), String> {
        let flow = load(&DROPPING.replace("CHILD", CHILD).replace("WORK", WORK));
        let flows = Flows::new(client.world()).map_err(|error| error.to_string())?;
        for flow in [&child(), &flow] {
            client.insist(|| flows.add(flow)).await?;
        }
        let plan = client.trigger::<FlowPlan>("one", flow.start(json!({}))).await?;
        let view = client.finished(plan).await?;
        match flow::result(&view) {
            Ok(output) if output == json!({ "done": true }) => Ok(()),
            other => Err(format!("it came to {other:?}")),
        }
    }
}

#[test]
fn flows_that_drop_others_come_to_their_end_wherever_the_process_ends() {
    for worlds in [1, 2] {
        let report = CrashPoints::new().points(30).run(|| Dropping(worlds));
        eprintln!("{report}");
        report.assert_clean();
    }
}

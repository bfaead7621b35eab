//! Flows: what waits, what is tried again, what takes too long, and crashes in between.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use turnwheel_engine::{PlanState, Waiting, WorldBuilder};
use turnwheel_flow::{FakeIo, FlowPlan, Flows, HttpResponse, WithFlows};
use turnwheel_testkit::{Client, CrashPoints, Workload};

use crate::flow_common::{load, Stage};

#[test]
fn a_wait_is_a_durable_timer_and_never_early() {
    let stage = Stage::new(FakeIo::new());
    let flow = load(
        "
do:
  - rest: { wait: { minutes: 10 } }
  - done: { set: { had: '${ .n }' } }
",
    );
    let plan = stage.start(&flow, json!({ "n": 1 }));
    stage.pass(599);
    let view = stage.view(&plan);
    assert_eq!(view.state, PlanState::Running);
    assert!(view.waits_for().contains("waits for"), "{}", view.waits_for());
    let id = plan.id();
    let stage = stage.crash(Duration::from_secs(5));
    let result = stage.result(&stage.world.plan(id));
    assert_eq!(result.unwrap(), json!({ "had": 1 }));
}

#[test]
fn what_a_flow_waits_for_is_what_its_task_waits_for() {
    let io = FakeIo::new().on_http(|_| Ok(HttpResponse { status: 503, ..HttpResponse::default() }));
    let waits = |rest: &str| {
        let stage = Stage::new(io.clone());
        let view = stage.view(&stage.start(&load(rest), json!({})));
        (view.waiting(), view.waits_for())
    };
    let listens = "
do:
  - approval:
      listen: { to: { one: { with: { type: org.example.approved } } } }
      timeout: { after: { hours: 24 } }
";
    let (waiting, text) = waits(listens);
    assert_eq!(
        (waiting, text.as_str()),
        (Waiting::Event, "/do/0/approval waits for the event org.example.approved")
    );
    let (waiting, text) = waits("\ndo:\n  - rest: { wait: { hours: 1 } }\n");
    assert_eq!((waiting, text.as_str()), (Waiting::Timer, "/do/0/rest waits for its time"));
    let tries = "
do:
  - careful:
      try: [ { get: { call: http, with: { method: get, endpoint: 'https://a.example/' } } } ]
      catch: { retry: { delay: PT1H, limit: { attempt: { count: 3 } } } }
";
    let (waiting, text) = waits(tries);
    assert_eq!(waiting, Waiting::Timer);
    assert_eq!(text, "/do/0/careful waits for its next attempt");
}

#[test]
fn attempts_have_pauses_that_grow_and_an_end() {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let io = FakeIo::new().on_http(move |_| {
        let call = counted.fetch_add(1, Ordering::SeqCst);
        let status = if call < 3 { 503 } else { 200 };
        Ok(HttpResponse { status, ..HttpResponse::default() })
    });
    let text = "
use:
  retries:
    usual: { delay: PT10S, backoff: { exponential: {} }, limit: { attempt: { count: 3 } } }
do:
  - careful:
      try: [ { get: { call: http, with: { method: get, endpoint: 'https://a.example/' } } } ]
      catch:
        errors: { with: { type: 'https://serverlessworkflow.io/spec/1.0.0/errors/communication' } }
        retry: usual
";
    let stage = Stage::new(io);
    let begun = stage.sim.wall();
    let plan = stage.start(&load(text), json!({}));
    assert!(stage.result(&plan).is_ok());
    assert_eq!(calls.load(Ordering::SeqCst), 4);
    let took = stage.sim.wall().duration_since(begun).unwrap();
    assert!(took >= Duration::from_secs(10 + 20 + 40), "{took:?}");

    calls.store(0, Ordering::SeqCst);
    let fewer = text.replace("count: 3", "count: 2").replace("1.0.0' }\n", "1.0.1' }\n");
    let fewer = turnwheel_flow::load(
        &crate::flow_common::define(&fewer).replace("name: it", "name: fewer"),
        "x.yaml",
    )
    .unwrap();
    let plan = stage.start(&fewer, json!({}));
    assert!(stage.result(&plan).unwrap_err().to_string().contains("503"));
    assert_eq!(calls.load(Ordering::SeqCst), 3);
}

#[test]
fn retry_policy_by_name_sees_the_error_that_it_is_asked_about() {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let io = FakeIo::new().on_http(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(HttpResponse { status: 503, ..HttpResponse::default() })
    });
    let text = "
use:
  retries:
    once: { when: '$error.status == 503', delay: PT1S, limit: { attempt: { count: 1 } } }
do:
  - outer:
      try: [ { broken: { raise: { error: { type: 'https://a.b/c', status: 418 } } } } ]
      catch:
        do:
          - inner:
              try: [ { get: { call: http, with: { method: get, endpoint: 'https://a.example/' } } } ]
              catch:
                as: own
                retry: once
                do: [ { both: { set: { outer: '${ $error.status }', own: '${ $own.status }' } } } ]
";
    let stage = Stage::new(io);
    let plan = stage.start(&load(text), json!({}));
    assert_eq!(stage.result(&plan).unwrap(), json!({ "outer": 418, "own": 503 }));
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

#[test]
fn delay_of_a_retry_is_not_shortened() {
    let flow = |name: &str, limit: &str| {
        let text = format!(
            "
do:
  - careful:
      try: [ {{ broken: {{ raise: {{ error: {{ type: 'https://a.b/c', status: 500 }} }} }} }} ]
      catch:
        retry: {{ delay: P2D, limit: {{ duration: {limit} }} }}
        do: [ {{ give-up: {{ set: {{ is: over }} }} }} ]
"
        );
        let text = crate::flow_common::define(&text).replace("name: it", name);
        turnwheel_flow::load(&text, "it.yaml").unwrap()
    };
    let stage = Stage::new(FakeIo::new());
    let plan = stage.start(&flow("name: short", "PT36H"), json!({}));
    assert_eq!(stage.view(&plan).state, PlanState::Stopped, "the pause would end after the limit");
    let plan = stage.start(&flow("name: long", "P3D"), json!({}));
    stage.pass(47 * 3_600);
    assert_eq!(stage.view(&plan).state, PlanState::Running);
    stage.pass(2 * 3_600);
    assert_eq!(stage.view(&plan).state, PlanState::Stopped);
}

#[test]
fn what_takes_too_long_is_dropped_and_can_be_caught() {
    let stage = Stage::new(FakeIo::new());
    let flow = load(
        "
use: { timeouts: { short: { after: PT5S } } }
do:
  - careful:
      try:
        - slow:
            do: [ { rest: { wait: PT1H } } ]
            timeout: short
      catch:
        errors: { with: { status: 408 } }
        as: e
        do: [ { note: { set: { late: '${ $e.instance }' } } } ]
",
    );
    let plan = stage.start(&flow, json!({}));
    let result = stage.result(&plan).unwrap();
    assert_eq!(result, json!({ "late": "/do/0/careful/try/0/slow" }));
    let view = stage.view(&plan);
    assert!(view.steps.iter().any(|step| step.state.name() == "dropped"));
}

#[test]
fn a_limit_that_is_an_expression_sees_the_input_of_its_own_task() {
    let stage = Stage::new(FakeIo::new());
    let flow = load(
        "
do:
  - set: { set: { limits: { short: PT2S } } }
  - t:
      try:
        - first: { set: { limits: '${ .limits }' } }
        - left out: { if: '${ false }', set: { x: 1 }, timeout: { after: '${ .none }' } }
        - w: { input: { from: .limits }, wait: PT30S, timeout: { after: '${ .short }' } }
      catch:
        errors: { with: { status: 408 } }
        do:
          - u:
              try: [ { x: { set: { y: 1 }, timeout: { after: '${ .none }' } } } ]
              catch: { as: wrong, do: [ { h: { set: { late: '${ $error.instance }', wrong: '${ $wrong.instance }' } } } ] }
",
    );
    let plan = stage.start(&flow, json!({}));
    let (late, wrong) = ("/do/1/t/try/2/w", "/do/1/t/catch/do/0/u/try/0/x");
    assert_eq!(stage.result(&plan).expect("it ends"), json!({ "late": late, "wrong": wrong }));
    assert_eq!(stage.sim.now().as_secs(), 2);
}

#[test]
fn a_flow_has_a_limit_as_a_whole() {
    let stage = Stage::new(FakeIo::new());
    let flow = load("timeout: { after: { seconds: 30 } }\ndo: [ { rest: { wait: P1D } } ]\n");
    let plan = stage.start(&flow, json!({}));
    let error = stage.result(&plan).unwrap_err().to_string();
    assert!(error.contains("408"), "{error}");
}

#[test]
fn a_started_plan_keeps_its_definition_when_a_new_version_comes() {
    let stage = Stage::new(FakeIo::new());
    let old = load("do: [ { rest: { wait: PT1M } }, { say: { set: { version: old } } } ]\n");
    let plan = stage.start(&old, json!({}));
    stage.pass(1);
    let text = crate::flow_common::define("do: [ { say: { set: { version: new } } } ]\n");
    let same = turnwheel_flow::load(&text, "x.yaml").unwrap();
    let refused = stage.sim.block_on(stage.flows.add(&same)).unwrap();
    assert!(refused.unwrap_err().to_string().contains("another version"));
    let new = turnwheel_flow::load(&text.replace("'1.0.0'", "'1.1.0'"), "x.yaml").unwrap();
    let other = stage.start(&new, json!({}));
    assert_eq!(stage.result(&other).unwrap(), json!({ "version": "new" }));
    let live = stage.sim.block_on(stage.flows.live("test", "it")).unwrap().unwrap();
    assert_eq!(live, [(plan.id(), "1.0.0".to_owned())], "what a new version runs beside");
    let stage = stage.crash(Duration::from_secs(1));
    assert_eq!(stage.result(&stage.world.plan(plan.id())).unwrap(), json!({ "version": "old" }));
    let ids: Vec<String> = stage.flows.list().iter().map(|entry| entry.id()).collect();
    assert_eq!(ids, ["test/it:1.0.0", "test/it:1.1.0"]);
    assert_eq!(stage.flows.find("test", "it", "latest").unwrap().version(), "1.1.0");
}

#[test]
fn a_flow_runs_another_one_and_has_its_output_or_its_fault() {
    let stage = Stage::new(FakeIo::new());
    let text = crate::flow_common::define("do: [ { add: { set: { sum: '${ .a + .b }' } } } ]\n");
    let child = turnwheel_flow::load(&text.replace("name: it", "name: child"), "c").unwrap();
    stage.sim.block_on(stage.flows.add(&child)).unwrap().unwrap();
    let flow = load("
do:
  - ask:
      run: { workflow: { namespace: test, name: child, version: latest, input: { a: '${ .n }', b: 2 } } }
  - twice: { set: { twice: '${ .sum * 2 }' } }
");
    let plan = stage.start(&flow, json!({ "n": 1 }));
    assert_eq!(stage.result(&plan).unwrap(), json!({ "twice": 6 }));
    let plan = stage.start(&flow, json!({ "n": {} }));
    assert!(stage.result(&plan).unwrap_err().to_string().contains("/do/0/add"));
}

#[test]
fn a_flow_that_is_not_there_is_a_fault_that_can_be_caught() {
    let stage = Stage::new(FakeIo::new());
    for await_ in ["true", "false"] {
        let run =
            format!("await: {await_}, workflow: {{ namespace: no, name: such, version: '1.0.0' }}");
        let text = format!(
            "
do:
  - t:
      try: [ {{ r: {{ run: {{ {run} }} }} }} ]
      catch: {{ do: [ {{ h: {{ set: {{ told: '${{ $error }}' }} }} }} ] }}
"
        );
        let text = crate::flow_common::define(&text)
            .replace("1.0.0' }\n", &format!("1.0.0-{await_}' }}\n"));
        let flow = turnwheel_flow::load(&text, "it.yaml").expect("it is right");
        let plan = stage.start(&flow, json!({}));
        let told = stage.result(&plan).expect("it is caught")["told"].clone();
        assert_eq!(told["instance"], "/do/0/t/try/0/r", "{told}");
        assert!(told["detail"].to_string().contains("no/such:1.0.0"), "{told}");
        assert_eq!(told["status"], 400, "{told}");
    }
}

#[test]
fn a_schedule_starts_a_flow_by_itself() {
    let stage = Stage::new(FakeIo::new());
    let flow = load("schedule: { every: PT1M }\ndo: [ { say: { set: { at: '${ now }' } } } ]\n");
    stage.sim.block_on(stage.flows.add(&flow)).unwrap().unwrap();
    stage.sim.block_on(stage.flows.schedule(&flow)).unwrap().unwrap();
    stage.pass(200);
    let listed =
        stage.world.list(turnwheel_engine::store::Filter { limit: 10, ..Default::default() });
    let rows = stage.sim.block_on(listed).unwrap().unwrap();
    assert!((3..=4).contains(&rows.len()), "{}", rows.len());
    assert!(rows.iter().all(|row| &*row.label == "test/it:1.0.0"));
}

#[test]
fn a_flow_that_is_not_awaited_runs_by_itself() {
    let stage = Stage::new(FakeIo::new());
    let text = crate::flow_common::define("do: [ { rest: { wait: PT1M } } ]\n")
        .replace("name: it", "name: child");
    let child = turnwheel_flow::load(&text, "c").unwrap();
    stage.sim.block_on(stage.flows.add(&child)).unwrap().unwrap();
    let flow = load(
        "
do:
  - begin: { run: { await: false, workflow: { namespace: test, name: child, version: '1.0.0' } } }
",
    );
    let plan = stage.start(&flow, json!({ "n": 1 }));
    stage.sim.run_until_idle();
    assert_eq!(stage.result(&plan).unwrap(), json!({ "n": 1 }), "its output is its input");
    let live = stage.sim.block_on(stage.flows.live("test", "child")).unwrap().unwrap();
    assert_eq!(live.len(), 1);
}

/// A flow with a fork, a loop, a wait, an attempt and a call.
struct Mixed;

const MIXED: &str = "
do:
  - both:
      fork:
        branches:
          - left: { do: [ { a: { set: { n: 1 } } }, { rest: { wait: PT2S } }, { b: { set: { n: '${ .n + 1 }' } } } ] }
          - right: { call: http, with: { method: get, endpoint: 'https://a.example/' } }
  - sum:
      for: { each: part, in: '.' }
      do: [ { add: { set: '${ (numbers // 0) + ($part.n // 10) }' } } ]
  - careful:
      try: [ { fail: { raise: { error: { type: 'https://a.b/c', status: 500 } } } } ]
      catch: { retry: { delay: PT1S, limit: { attempt: { count: 1 } } }, do: [ { keep: { set: '${ . + 1 }' } } ] }
";

impl Workload for Mixed {
    fn name(&self) -> &str {
        "flows"
    }

    fn world(&self, builder: WorldBuilder) -> WorldBuilder {
        builder.flows(
            FakeIo::new().on_http(|_| Ok(HttpResponse { status: 200, ..Default::default() })),
        )
    }

    async fn client(&self, client: Client) -> Result<(), String> {
        let flow = load(MIXED);
        let flows = Flows::new(client.world()).map_err(|error| error.to_string())?;
        while let Err(error) = flows.add(&flow).await {
            // The store may have refused it: again, as everybody would.
            if !error.to_string().contains("fail") {
                return Err(error.to_string());
            }
            client.pause(Duration::from_secs(1)).await;
        }
        let plan = client.trigger::<FlowPlan>("one", flow.start(json!({}))).await?;
        let view = client.finished(plan).await?;
        match turnwheel_flow::result(&view) {
            Ok(sum) if sum == json!(13) => Ok(()),
            other => Err(format!("it came to {other:?}")),
        }
    }
}

#[test]
fn a_flow_goes_on_wherever_the_process_ends() {
    let report = CrashPoints::new().seeds([1]).points(60).run(|| Mixed);
    eprintln!("{report}");
    report.assert_clean();
}

#[test]
fn fault_that_a_task_has_caught_is_not_why_its_flow_has_failed() {
    let stage = Stage::new(FakeIo::new());
    let flow = load(
        "
do:
  - safe:
      try: [ { first: { raise: { error: { type: 'https://a.example/one', status: 400, title: one } } } } ]
      catch: {}
  - last: { raise: { error: { type: 'https://a.example/two', status: 400, title: two } } }
",
    );
    let plan = stage.start(&flow, json!({}));
    assert!(stage.result(&plan).is_err());
    stage.pass(5);
    let filter = turnwheel_engine::store::Filter { limit: 10, ..Default::default() };
    let rows = stage.sim.block_on(stage.world.list(filter)).expect("it ends").expect("read");
    assert!(rows[0].waits_for.starts_with("last: two (400)"), "{}", rows[0].waits_for);
}

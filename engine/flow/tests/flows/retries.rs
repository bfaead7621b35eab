//! A failed run is retried from its failed task, as a plan of its own.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use serde_json::{json, Value};
use turnwheel_engine::{picture, PlanView, StepState, TriggerOptions, World};
use turnwheel_flow::{
    self as flow, Asked, BrokerMessage, FakeIo, Flow, FlowError, Flows, HttpResponse, ProcessResult,
};
use turnwheel_runtime::completion::block_on;

use crate::flow_common::{add, define, load, trace, world, Stage};

const THREE: &str = "
timeout: { after: PT1H }
do:
  - first:
      run: { shell: { command: first } }
      export: { as: '${ { seen: 1 } }' }
      output: { as: '${ { amount: 5 } }' }
  - second:
      run: { shell: { command: second, arguments: ['${ .amount | tostring }'] } }
      output: { as: '${ { amount: 7, name: $workflow.input.name, seen: $context.seen } }' }
  - third: { set: { amount: '${ .amount }', name: '${ .name }', seen: '${ .seen }' } }
";

/// Effects whose command `second` fails so often.
fn failing(times: u32) -> FakeIo {
    let left = Arc::new(AtomicU32::new(times));
    FakeIo::new().on_process(move |process| {
        let is_second = format!("{process:?}").contains("second");
        let take = |left: u32| left.checked_sub(1);
        let fails =
            is_second && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        Ok(ProcessResult { code: i32::from(fails), ..ProcessResult::default() })
    })
}

/// The commands that were run.
fn commands(io: &FakeIo) -> Vec<String> {
    let name = |asked: &Asked| match asked {
        Asked::Process(process, _) => {
            let text = format!("{process:?}");
            let is = |name: &&&str| text.contains(**name);
            ["first", "second"].iter().find(is).map(|name| (*name).to_owned())
        }
        _ => None,
    };
    io.asked().iter().filter_map(name).collect()
}

fn run(flows: &Flows, flow: &Flow, input: Value) -> PlanView {
    add(flows, flow);
    let options = TriggerOptions::new().label("customer", "ann").priority(3);
    let plan = flows.start_with(flow, input, options).wait().expect("it starts");
    plan.finished().wait().expect("it ends")
}

fn retried(
    flows: &Flows,
    failed: &PlanView,
    flow: Option<&Flow>,
    input: Option<Value>,
) -> Result<PlanView, FlowError> {
    let retry = flows.retry(failed, flow, input, TriggerOptions::new().by("eva"));
    let named = block_on(retry).expect("off the workers")?;
    let plan = named.triggering.wait()?;
    Ok(plan.finished().wait().expect("it ends"))
}

fn refusal(outcome: Result<PlanView, FlowError>) -> String {
    match outcome {
        Err(FlowError::NotRetried(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn end(world: World) {
    world.shutdown().expect("it ends in time");
}

#[test]
fn a_failed_run_goes_on_from_its_failed_task_with_its_data_and_context() {
    let io = failing(1);
    let (world, flows) = world(io.clone());
    let flow = load(THREE);
    let failed = run(&flows, &flow, json!({ "name": "ann" }));
    flow::result(&failed).expect_err("its second task failed");
    let again = retried(&flows, &failed, None, None).expect("it is retried");
    let expected = json!({ "amount": 7, "name": "ann", "seen": 1 });
    assert_eq!(flow::result(&again).expect("it ends well"), expected);
    assert_eq!(trace(&again), ["/do/1/second", "/do/2/third"]);
    assert_eq!(commands(&io), ["first", "second", "second"]);
    assert_eq!(again.labels["retry.of"], failed.id.to_string());
    assert_eq!(again.labels["customer"], "ann");
    assert_eq!((again.created.by.as_str(), again.created.priority), ("eva", 3));
    // Twice is once.
    let twice = retried(&flows, &failed, None, None).expect("it is the same");
    assert_eq!(twice.id, again.id);
    let why = refusal(retried(&flows, &again, None, None));
    assert!(why.contains("has succeeded") && why.contains("turnwheel again"), "{why}");
    end(world);
}

#[test]
fn a_call_of_a_task_that_has_a_fault_has_failed_in_the_history() {
    let (world, flows) = world(failing(1));
    let failed = run(&flows, &load(THREE), json!({ "name": "ann" }));
    let history = block_on(world.plan(failed.id).history());
    let history = history.expect("off the workers").expect("it is told");
    let state = |name: &str| {
        let action = failed.actions.iter().find(|action| picture::name_of(action) == name);
        let step = action.and_then(|action| action.run_step).expect("it has begun");
        let calls: Vec<_> = history.calls_of(step).collect();
        let error = calls.last().and_then(|call| call.error.as_ref());
        (calls.last().map(|call| call.state), error.is_some())
    };
    assert_eq!(state("do/0/first"), (Some(StepState::Success), false));
    assert_eq!(state("do/1/second"), (Some(StepState::Error), true));
    end(world);
}

#[test]
fn a_retry_that_fails_is_retried_itself_also_with_other_data() {
    let io = failing(2);
    let (world, flows) = world(io.clone());
    let failed = run(&flows, &load(THREE), json!({ "name": "ann" }));
    let second = retried(&flows, &failed, None, None).expect("it is retried");
    flow::result(&second).expect_err("it has failed once more");
    let third = retried(&flows, &second, None, Some(json!({ "amount": 41 })));
    let third = third.expect("it is retried");
    assert_eq!(flow::result(&third).expect("it ends well")["amount"], 7);
    assert_eq!(third.labels["retry.of"], second.id.to_string());
    let last = io.asked().pop();
    let Some(Asked::Process(process, _)) = last else { panic!("{last:?}") };
    assert_eq!(process.arguments, ["41"]);
    end(world);
}

#[test]
fn a_repaired_definition_goes_on_at_the_task_of_the_same_name() {
    let io = failing(1);
    let (world, flows) = world(io.clone());
    let failed = run(&flows, &load(THREE), json!({ "name": "ann" }));
    let text = define(THREE).replace("version: '1.0.0'", "version: '1.1.0'");
    let text = text.replace("  - second:\n", "  - between: { set: { amount: 0 } }\n  - second:\n");
    let repaired = flow::load(&text, "it.yaml").expect("it is right");
    add(&flows, &repaired);
    let again = retried(&flows, &failed, Some(&repaired), None).expect("it is retried");
    assert_eq!(flow::result(&again).expect("it ends well")["amount"], 7);
    assert_eq!(trace(&again), ["/do/2/second", "/do/3/third"]);
    assert_eq!(again.labels["flow.version"], "1.1.0");
    end(world);

    let (world, flows) = crate::flow_common::world(failing(9));
    let failed = run(&flows, &load(THREE), json!({ "name": "ann" }));
    let other = define("do: [ { only: { set: { n: 1 } } } ]").replace("1.0.0", "2.0.0");
    let other = flow::load(&other, "it.yaml").expect("it is right");
    add(&flows, &other);
    let why = refusal(retried(&flows, &failed, Some(&other), None));
    assert!(why.contains("«second»"), "{why}");
    end(world);
}

#[test]
fn a_fault_inside_of_a_task_or_after_the_last_one_has_its_place_too() {
    let (world, flows) = world(failing(1));
    let nested = load(
        "
do:
  - first: { set: { n: 1 } }
  - outer:
      do:
        - inner: { set: { n: '${ .n + 1 }' } }
        - second: { run: { shell: { command: second } } }
  - last: { set: { done: true } }
",
    );
    let failed = run(&flows, &nested, json!({}));
    let again = retried(&flows, &failed, None, None).expect("it is retried");
    let failed = ["/do/1/outer", "/do/1/outer/do/1/second"];
    assert_eq!(trace(&again), [&failed[..], &["/do/2/last"]].concat());
    flow::result(&again).expect("it ends well");
    end(world);

    // The output of the whole could not be made: no task is run again.
    let (world, flows) = crate::flow_common::world(FakeIo::new());
    let text = "
output: { as: '${ if .n == 2 then error(\"no\") else . end }' }
do: [ { only: { set: { n: 2 } } } ]
";
    let failed = run(&flows, &load(text), json!({}));
    let fixed = define(text).replace("1.0.0", "1.0.1").replace(".n == 2", ".n == 3");
    let fixed = flow::load(&fixed, "it.yaml").expect("it is right");
    add(&flows, &fixed);
    let again = retried(&flows, &failed, Some(&fixed), None).expect("it is retried");
    assert_eq!(flow::result(&again).expect("it ends well"), json!({ "n": 2 }));
    assert_eq!(trace(&again), Vec::<String>::new());
    end(world);
}

#[test]
fn a_retry_goes_on_in_the_round_of_a_loop_and_in_a_try_that_failed() {
    let (world, flows) = world(failing(1));
    let looped = load(
        "
do:
  - each:
      for: { each: item, in: '${ .items }', at: at }
      do:
        - count: { set: { items: '${ .items }', sum: '${ (.sum // 0) + $item }' } }
        - maybe:
            if: $item == 3
            try:
              - inner: { set: { items: '${ .items }', sum: '${ .sum + 100 }' } }
              - second:
                  run: { shell: { command: second } }
                  output: { as: '${ $input }' }
            catch: { errors: { with: { status: 404 } } }
",
    );
    let failed = run(&flows, &looped, json!({ "items": [1, 2, 3, 4] }));
    flow::result(&failed).expect_err("the third round failed");
    let again = retried(&flows, &failed, None, None).expect("it is retried");
    assert_eq!(flow::result(&again).expect("it ends well")["sum"], 110);
    let places: Vec<String> =
        trace(&again).iter().filter_map(|at| at.rsplit('/').next().map(str::to_owned)).collect();
    assert_eq!(places, ["each", "maybe", "second", "count", "maybe"]);
    end(world);
}

#[test]
fn retry_goes_on_in_the_failed_branch_of_a_fork_and_in_a_function() {
    let (world, flows) = world(failing(1));
    let forked = load(
        "
use:
  functions:
    work:
      do:
        - prepare: { set: { n: '${ .n + 1 }' } }
        - second:
            run: { shell: { command: second } }
            output: { as: '${ $input }' }
        - after: { set: { n: '${ .n + 100 }' } }
do:
  - both:
      fork:
        branches:
          - quick: { set: { quick: '${ .n }' } }
          - long:
              do:
                - before: { set: { n: '${ .n + 10 }' } }
                - work: { call: work, with: { n: '${ .n }' } }
",
    );
    let failed = run(&flows, &forked, json!({ "n": 1 }));
    flow::result(&failed).expect_err("the function failed");
    let again = retried(&flows, &failed, None, None).expect("it is retried");
    let output = flow::result(&again).expect("it ends well");
    assert_eq!(output, json!([{ "quick": 1 }, { "n": 112 }]));
    let places: Vec<String> =
        trace(&again).iter().filter_map(|at| at.rsplit('/').next().map(str::to_owned)).collect();
    assert_eq!(places, ["both", "long", "work", "work", "second", "after"]);
    end(world);
}

#[test]
fn retry_goes_on_in_the_handler_that_failed_and_knows_its_error() {
    let (world, flows) = world(failing(1));
    let handled = load(
        "
do:
  - outer:
      try:
        - breaks: { raise: { error: { type: https://e.org/x, status: 409, title: Taken } } }
      catch:
        as: why
        do:
          - first: { run: { shell: { command: first } }, output: { as: '{ n: 1 }' } }
          - second:
              run: { shell: { command: second } }
              output: { as: '{ n: ($input.n + 1), title: $why.title, status: $why.status }' }
  - last: { set: { n: '${ .n }', title: '${ .title }', status: '${ .status }' } }
",
    );
    let failed = run(&flows, &handled, json!({}));
    flow::result(&failed).expect_err("the handler failed");
    let again = retried(&flows, &failed, None, None).expect("it is retried");
    let output = flow::result(&again).expect("it ends well");
    assert_eq!(output, json!({ "n": 2, "title": "Taken", "status": 409 }));
    assert_eq!(trace(&again), ["/do/0/outer", "/do/0/outer/catch/do/1/second", "/do/1/last"]);
    end(world);
}

#[test]
fn retry_goes_on_with_the_event_that_failed_and_those_before_and_after_it() {
    let stage = Stage::new(failing(1));
    let heard = load(
        "
do:
  - hear:
      listen:
        to: { any: [ { with: { type: org.example.n } } ], until: 'length >= 3' }
      foreach:
        item: event
        do:
          - first: { set: { n: '${ $event.n }' } }
          - maybe:
              if: .n == 2
              run: { shell: { command: second } }
              output: { as: '${ $input }' }
",
    );
    let plan = stage.start(&heard, json!({}));
    stage.sim.run_until_idle();
    let event = |n: u32| {
        flow::CloudEvent::new(n.to_string(), "/test", "org.example.n").data(json!({ "n": n }))
    };
    stage.publish(event(1));
    stage.publish(event(2));
    flow::result(&stage.view(&plan)).expect_err("the second event failed");
    let failed = stage.view(&plan);
    let retry = stage.flows.retry(&failed, None, None, TriggerOptions::new());
    let named = stage.sim.block_on(retry).expect("it ends").expect("it is retried");
    let again = stage.sim.block_on(named.triggering).expect("it ends").expect("it starts");
    stage.sim.run_until_idle();
    stage.publish(event(3));
    let output = stage.result(&again).expect("it ends well");
    assert_eq!(output, json!([{ "n": 1 }, { "n": 2 }, { "n": 3 }]));
    let all = trace(&stage.view(&again));
    let places: Vec<_> = all.iter().filter_map(|at| at.rsplit('/').next()).collect();
    assert_eq!(places, ["hear", "maybe", "first", "maybe"]);
}

#[test]
fn retry_goes_on_with_the_message_whose_tasks_failed() {
    let document = r##"{ "asyncapi": "3.0.0", "channels": { "work": {} },
        "servers": { "bus": { "host": "bus.example", "protocol": "amqp" } } }"##;
    let io = failing(1)
        .on_http(move |_| {
            let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
            Ok(HttpResponse { status: 200, headers, body: document.into() })
        })
        .on_broker(|_| {
            let message = |body: &str| BrokerMessage { body: body.into(), ..Default::default() };
            Ok(["1", "2", "3"].map(message).to_vec())
        });
    let (world, flows) = world(io.clone());
    let flow = load(
        "
do:
  - a:
      call: asyncapi
      with:
        document: { endpoint: 'https://a.example/d' }
        channel: work
        subscription:
          consume: { amount: 3 }
          foreach:
            do:
              - one:
                  if: $item.payload == 2
                  run: { shell: { command: second } }
              - two: { set: { n: '${ $item.payload }', at: '${ $index }' } }
",
    );
    let failed = run(&flows, &flow, json!({}));
    assert!(flow::result(&failed).is_err());
    let again = retried(&flows, &failed, None, None).expect("it is retried");
    let expected = json!([{ "n": 1, "at": 0 }, { "n": 2, "at": 1 }, { "n": 3, "at": 2 }]);
    assert_eq!(flow::result(&again).expect("it goes well"), expected);
    assert_eq!(commands(&io), ["second", "second"]);
    end(world);
}

#[test]
fn a_run_that_failed_before_its_first_task_begins_from_its_begin() {
    let (world, flows) = world(FakeIo::new());
    let text = "
input:
  schema: { document: { type: object, required: [n] } }
do: [ { only: { set: { n: '${ .n }' } } } ]
";
    let failed = run(&flows, &load(text), json!({}));
    let again = retried(&flows, &failed, None, Some(json!({ "n": 3 }))).expect("it is retried");
    assert_eq!(flow::result(&again).expect("it ends well"), json!({ "n": 3 }));
    end(world);
}

#[test]
fn a_run_that_is_not_over_is_not_retried() {
    let (world, flows) = world(FakeIo::new());
    let flow = load("do: [ { waits: { listen: { to: { one: { with: { type: go } } } } } } ]");
    add(&flows, &flow);
    let plan = flows.start(&flow, json!({})).wait().expect("it starts");
    let view = plan.view().wait().expect("it is there");
    assert!(refusal(retried(&flows, &view, None, None)).contains("is not over"));
    plan.cancel("eva").wait().expect("it answers").expect("it is cancelled");
    let view = plan.finished().wait().expect("it ends");
    let retry = flows.retry(&view, None, None, TriggerOptions::new());
    let named = block_on(retry).expect("off the workers").expect("a cancelled one is retried");
    let again = named.triggering.wait().expect("it starts");
    again.halt("eva").wait().expect("it answers").expect("it is halted");
    end(world);
}

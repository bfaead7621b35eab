//! Loops: what their rounds cost, and that their items are those that there were when they began.

use std::time::Duration;

use serde_json::json;
use turnwheel_engine::store::Store;
use turnwheel_flow::FakeIo;

use crate::flow_common::{fault, load, run, Stage};

/// Bytes of the journal of a loop with so many rounds.
fn journal_of(rounds: usize) -> usize {
    let stage = Stage::new(FakeIo::new());
    let flow = load(
        "do: [ { l: { for: { in: .items }, do: [ { s: { set: { sum: '${ (.sum // 0) + $item }' } } } ] } } ]\n",
    );
    let items: Vec<usize> = (0..rounds).collect();
    let plan = stage.start(&flow, json!({ "items": items }));
    let sum = rounds * (rounds - 1) / 2;
    assert_eq!(stage.result(&plan).expect("it ends well"), json!({ "sum": sum }));
    let mut reader = stage.store.reader().expect("it can be read");
    let entries = reader.journal(0, usize::MAX).expect("it can be read");
    entries.iter().map(|entry| entry.records.len()).sum()
}

#[test]
fn a_round_of_a_loop_costs_the_same_however_many_there_are() {
    let (few, many) = (journal_of(200), journal_of(800));
    // The items themselves are written twice: as input of the flow and of its first task.
    assert!(many < 4 * few + 4 * few / 10, "{few} bytes for 200 rounds, {many} for 800");
}

#[test]
fn the_items_of_a_loop_are_the_same_after_a_crash() {
    let flow = load(
        "
do:
  - l:
      for: { in: '[now, now + 1, now + 2]' }
      do:
        - w: { wait: PT10S }
        - s: { set: '${ ((. | arrays) // []) + [$item] }' }
output: { as: 'map(. - $workflow.startedAt.epoch.milliseconds / 1000 | floor)' }
",
    );
    let stage = Stage::new(FakeIo::new());
    let plan = stage.start(&flow, json!({}));
    stage.pass(12);
    let id = plan.id();
    drop(plan);
    let stage = stage.crash(Duration::from_secs(3_600));
    let plan = stage.world.plan(id);
    assert_eq!(stage.result(&plan).expect("it ends well"), json!([0, 1, 2]));
}

/// Counts rounds, with a second of rest in each; the count is in the data and in the context.
const FOR_EVER: &str = "
timeout: { after: PT10M }
do:
  - count: { set: { n: '${ .n + 1 }' }, export: { as: '{ seen: (($context.seen // 0) + 1) }' } }
  - rest: { wait: PT1S }
  - again: { switch: [ { more: { when: .n < $workflow.input.until, then: count } } ] }
  - last: { set: { n: '${ .n }', seen: '${ $context.seen }' } }
";

#[test]
fn flow_that_jumps_back_for_ever_has_the_steps_of_its_last_rounds_only() {
    let stage = Stage::new(FakeIo::new());
    let plan = stage.start(&load(FOR_EVER), json!({ "n": 0, "until": 500 }));
    stage.pass(501);
    let ended = stage.result(&plan).expect("it ends well");
    assert_eq!(ended, json!({ "n": 500, "seen": 500 }));
    let view = stage.view(&plan);
    assert!(view.run_number > 1, "run {}", view.run_number);
    assert!(view.steps.len() < 600, "{} steps", view.steps.len());
}

#[test]
fn limit_of_a_flow_that_jumps_back_for_ever_counts_from_its_first_task() {
    let stage = Stage::new(FakeIo::new());
    let plan = stage.start(&load(FOR_EVER), json!({ "n": 0, "until": 5_000 }));
    let id = plan.id();
    drop(plan);
    stage.pass(590);
    let stage = stage.crash(Duration::ZERO);
    let plan = stage.world.plan(id);
    stage.pass(1);
    assert_eq!(stage.view(&plan).state.name(), "running");
    stage.pass(10);
    let fault = stage.result(&plan).expect_err("it takes too long");
    assert!(fault.to_string().contains("too long"), "{fault}");
}

/// The same inside of a function, a loop and a `try`, whose variables, data and context stay.
const FOR_EVER_INSIDE: &str = "
use:
  functions:
    work:
      do:
        - rounds:
            for: { in: '[10, 20]' }
            do:
              - tries:
                  try:
                    - count:
                        set: { n: '${ .n + 1 }', sum: '${ (.sum // 0) + $item }' }
                        export: { as: '{ seen: (($context.seen // 0) + 1) }' }
                    - rest: { wait: PT1S }
                    - again:
                        switch: [ { more: { when: '.n % $workflow.input.until != 0', then: count } } ]
                  catch: { errors: { with: { status: 404 } } }
do:
  - before: { set: { n: 0 } }
  - work: { call: work, with: { n: '${ .n }' }, timeout: { after: PT11M } }
  - last: { set: { n: '${ .n }', sum: '${ .sum }', seen: '${ $context.seen }' } }
";

#[test]
fn jump_back_inside_of_tasks_has_the_steps_of_its_last_rounds_only() {
    let stage = Stage::new(FakeIo::new());
    let plan = stage.start(&load(FOR_EVER_INSIDE), json!({ "until": 300 }));
    stage.pass(620);
    let ended = stage.result(&plan).expect("it ends well");
    assert_eq!(ended, json!({ "n": 600, "sum": 300 * 30, "seen": 600 }));
    let view = stage.view(&plan);
    assert!(view.run_number > 1, "run {}", view.run_number);
    assert!(view.steps.len() < 700, "{} steps", view.steps.len());
}

#[test]
fn limit_of_a_task_that_jumps_back_inside_counts_from_its_begin() {
    let stage = Stage::new(FakeIo::new());
    let plan = stage.start(&load(FOR_EVER_INSIDE), json!({ "until": 10_000 }));
    stage.pass(650);
    assert_eq!(stage.view(&plan).state.name(), "running");
    stage.pass(15);
    let fault = stage.result(&plan).expect_err("it takes too long");
    assert!(fault.to_string().contains("too long"), "{fault}");
}

#[test]
fn branches_that_jump_back_stay_in_their_run() {
    let stage = Stage::new(FakeIo::new());
    let flow = load(
        "
do:
  - both:
      fork:
        branches:
          - counts:
              do:
                - count: { set: { n: '${ .n + 1 }' } }
                - again: { switch: [ { more: { when: .n < 300, then: count } } ] }
          - waits: { wait: PT1M }
",
    );
    let plan = stage.start(&flow, json!({ "n": 0 }));
    let ended = stage.result(&plan).expect("it ends well");
    assert_eq!(ended, json!([{ "n": 300 }, { "n": 0 }]));
    assert_eq!(stage.view(&plan).run_number, 1);
}

#[test]
fn a_loop_over_null_is_a_fault() {
    let flow =
        "do: [ { f: { for: { each: x, in: '${ .list }' }, do: [ { s: { set: { v: 1 } } } ] } } ]";
    for input in [json!({}), json!({ "list": null }), json!({ "list": 5 })] {
        let fault = fault(flow, input);
        let detail = fault["detail"].as_str().expect("it says why");
        assert!(detail.contains("«for.in» must give a list"), "{detail}");
    }
    let flow = flow.replace(".list", ".list // []");
    assert_eq!(run(&flow, json!({ "n": 1 })), json!({ "n": 1 }));
}

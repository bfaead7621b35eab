//! Life-cycle events: what happens to flows, told to those who listen for it.

use serde_json::{json, Value};
use turnwheel_engine::StoreError;
use turnwheel_flow::{load, CloudEvent, FakeIo};

use crate::flow_common::Stage;

#[test]
fn what_happens_to_flows_is_published_for_those_who_name_it() {
    let stage = Stage::new(FakeIo::new());
    let _life = stage.flows.publish_life_cycle();
    let listens = "
do:
  - l:
      listen:
        to:
          any:
            - { with: { type: 'io[.]serverlessworkflow[.].*[.]v1', source: /test/it } }
          until: '. | any(.type | test(\"workflow[.](completed|faulted)\"))'
        read: envelope
";
    let listens = crate::flow_common::define(listens).replace("name: it", "name: log");
    let listens = turnwheel_flow::load(&listens, "log").expect("it is right");
    let all = crate::flow_common::define("do: [ { l: { listen: { to: { any: [] } } } } ]\n");
    let all = turnwheel_flow::load(&all.replace("name: it", "name: all"), "all");
    let all = stage.start(&all.expect("it is right"), json!({}));
    let hear = |text: &str, version: &str| {
        let log = stage.start(&listens, json!({}));
        stage.sim.run_until_idle();
        let text = crate::flow_common::define(text).replace("1.0.0", version);
        let flow = turnwheel_flow::load(&text, "it").expect("it is right");
        let plan = stage.start(&flow, json!({}));
        let heard = stage.result(&log).expect("it hears the end");
        let heard = heard.as_array().cloned().expect("it is a list");
        (plan.id().to_string(), heard)
    };
    let kinds = |heard: &[Value]| -> Vec<String> {
        let kind = |event: &Value| {
            let task = event["data"]["task"].as_str().unwrap_or_default();
            let kind = event["type"].as_str().unwrap_or_default();
            format!("{} {task}", kind.trim_start_matches("io.serverlessworkflow."))
                .trim()
                .to_owned()
        };
        heard.iter().map(kind).collect()
    };
    let (plan, heard) = hear("do: [ { s: { set: { n: 1 } } } ]\n", "1.0.0");
    let expected = [
        "workflow.started.v1",
        "task.created.v1 /do/0/s",
        "task.started.v1 /do/0/s",
        "task.completed.v1 /do/0/s",
        "workflow.completed.v1",
    ];
    assert_eq!(kinds(&heard), expected);
    let started = &heard[0]["data"];
    assert_eq!(started["name"], format!("it-{plan}.test"));
    let definition = json!({ "name": "it", "namespace": "test", "version": "1.0.0" });
    assert_eq!(started["definition"], definition);
    assert!(started["startedAt"].is_string());
    assert_eq!(heard[3]["data"]["output"], json!({ "n": 1 }));
    assert_eq!(heard[4]["data"]["output"], json!({ "n": 1 }));
    let raise = "do: [ { r: { raise: { error: { type: 'x:y', status: 418 } } } } ]\n";
    let (_, heard) = hear(raise, "1.1.0");
    let faulted = heard.last().expect("there are some");
    assert_eq!(faulted["type"], "io.serverlessworkflow.workflow.faulted.v1");
    assert_eq!(faulted["data"]["error"]["status"], 418);
    assert!(kinds(&heard).contains(&"task.faulted.v1 /do/0/r".to_owned()), "{heard:?}");
    assert!(stage.view(&all).waits_for().contains("events"), "who listens to all is left alone");
}

/// The life-cycle events of a flow and their data, of these kinds, without the begin of their types.
fn told(stage: &Stage, kinds: &str, flow: &str, publish: &[CloudEvent]) -> Vec<(String, Value)> {
    let listens = format!(
        "
do:
  - l:
      listen:
        to:
          any:
            - {{ with: {{ type: 'io[.]serverlessworkflow[.]({kinds})[.]v1' }} }}
            - {{ with: {{ type: 'io[.]serverlessworkflow[.]workflow[.]completed[.]v1' }} }}
          until: '. | any(.type | test(\"workflow[.]completed\"))'
        read: envelope
"
    );
    let listens = crate::flow_common::define(&listens).replace("name: it", "name: log");
    let log = stage.start(&load(&listens, "log").expect("it is right"), json!({}));
    stage.sim.run_until_idle();
    stage.start(&load(&crate::flow_common::define(flow), "it").expect("it is right"), json!({}));
    stage.sim.run_until_idle();
    publish.iter().for_each(|event| drop(stage.publish(event.clone())));
    let heard = stage.result(&log).expect("it hears the end");
    let heard = heard.as_array().cloned().unwrap_or_default();
    let of = |event: Value| {
        let kind = event["type"].as_str().unwrap_or_default();
        let kind = kind.trim_start_matches("io.serverlessworkflow.").to_owned();
        (kind, event["data"].clone())
    };
    heard.into_iter().map(of).collect()
}

#[test]
fn a_retry_is_told_with_the_task_that_is_tried_again() {
    let stage = Stage::new(FakeIo::new());
    let _life = stage.flows.publish_life_cycle();
    let flow = "
do:
  - t:
      try:
        - first: { set: { n: 1 } }
        - fails: { raise: { error: { type: 'x:y', status: 418 } } }
      catch:
        retry: { delay: { seconds: 3 }, limit: { attempt: { count: 2 } } }
        do: [ { over: { set: { done: true } } } ]
";
    let heard = told(&stage, "task[.](retried|faulted)", flow, &[]);
    let kinds: Vec<String> = heard
        .iter()
        .map(|(kind, data)| format!("{kind} {}", data["task"].as_str().unwrap_or_default()))
        .collect();
    let expected = [
        "task.faulted.v1 /do/0/t/try/1/fails",
        "task.retried.v1 /do/0/t",
        "task.faulted.v1 /do/0/t/try/1/fails",
        "task.retried.v1 /do/0/t",
        "task.faulted.v1 /do/0/t/try/1/fails",
        "workflow.completed.v1 ",
    ];
    assert_eq!(kinds, expected);
    let data = &heard[1].1;
    assert!(data["workflow"].as_str().is_some_and(|name| name.starts_with("it-")), "{data}");
    assert!(data["retriedAt"].is_string(), "{data}");
}

#[test]
fn correlations_are_told_from_their_begin_to_their_end_with_their_keys() {
    let stage = Stage::new(FakeIo::new());
    let _life = stage.flows.publish_life_cycle();
    let flow = "
do:
  - skipped: { if: '${ false }', listen: { to: { one: { with: { type: never } } } } }
  - l:
      listen:
        to:
          all:
            - { with: { type: a }, correlate: { order: { from: .data.order } } }
            - { with: { type: b }, correlate: { order: { from: .data.order } } }
";
    let event = |id: &str, kind: &str, order: u32| {
        CloudEvent::new(id, "/test", kind).data(json!({ "order": order }))
    };
    let publish = [event("1", "a", 7), event("2", "b", 8), event("3", "b", 7)];
    let heard = told(&stage, "workflow[.]correlation.*", flow, &publish);
    let kinds: Vec<&str> = heard.iter().map(|(kind, _)| kind.as_str()).collect();
    let expected = [
        "workflow.correlation-started.v1",
        "workflow.correlation-completed.v1",
        "workflow.completed.v1",
    ];
    // The log listens too: what it does itself is told of as well.
    let own: Vec<&str> = heard
        .iter()
        .filter(|(_, data)| data["name"].as_str().is_some_and(|name| name.starts_with("it-")))
        .map(|(kind, _)| kind.as_str())
        .collect();
    assert_eq!(own, expected, "{kinds:?}");
    let completed = heard.iter().find(|(kind, _)| kind.contains("correlation-completed"));
    let data = &completed.expect("it is told").1;
    assert_eq!(data["correlationKeys"], json!({ "order": 7 }), "{data}");
    assert!(data["completedAt"].is_string(), "{data}");
}

#[test]
fn events_of_a_plan_that_cannot_be_read_for_a_while_come_later() {
    let (stage, store) = Stage::with_faults(FakeIo::new());
    let listens = "
do:
  - l:
      listen:
        to:
          any:
            - { with: { type: 'io[.]serverlessworkflow[.].*completed[.]v1', source: /test/it } }
          until: '. | any(.type | test(\"workflow[.]completed\"))'
        read: envelope
";
    let listens = crate::flow_common::define(listens).replace("name: it", "name: log");
    let log = stage.start(&load(&listens, "log").expect("it is right"), json!({}));
    let flow = "do: [ { hold: { wait: { seconds: 10 } } }, { s: { set: { n: 1 } } } ]\n";
    let flow = load(&crate::flow_common::define(flow), "it").expect("it is right");
    stage.start(&flow, json!({}));
    stage.pass(1);
    // It does not know how these plans began.
    let _life = stage.flows.publish_life_cycle();
    stage.pass(1);
    // The first read is that of the plan, which goes on when its time comes.
    for number in 2..5 {
        let error = StoreError::Failed("no answer".to_owned());
        store.fail_read_at(store.reads() + number, error);
    }
    let heard = stage.result(&log).expect("it hears the end");
    let tasks = heard.as_array().expect("it is a list").iter();
    let tasks: Vec<&str> = tasks.filter_map(|event| event["data"]["task"].as_str()).collect();
    assert_eq!(tasks, ["/do/0/hold", "/do/1/s"]);
}

#[test]
fn input_of_a_task_is_edited_as_it_is_shown() {
    let stage = Stage::new(FakeIo::new());
    let hold = "do: [ { hold: { wait: { hours: 1 }, output: { as: '${ .word }' } } } ]\n";
    let plan = stage.start(&crate::flow_common::load(hold), json!({ "word": "old" }));
    stage.pass(1);
    stage
        .sim
        .block_on(plan.pause("ann"))
        .expect("it ends")
        .expect("it is there")
        .expect("it is paused");
    stage.pass(1);
    let view = stage.view(&plan);
    let task = view.actions.last().expect("the task is there").id;
    let shown = stage.world.present_action(&view, task).expect("it is shown");
    assert_eq!(shown.input, json!({ "word": "old" }));
    let edited = plan.edit_input(task, &json!({ "word": "new" }), "ann");
    stage.sim.block_on(edited).expect("it ends").expect("it is there").expect("it is taken");
    let shown = stage.world.present_action(&stage.view(&plan), task).expect("it is shown");
    assert_eq!(shown.input, json!({ "word": "new" }));
    stage
        .sim
        .block_on(plan.resume("ann"))
        .expect("it ends")
        .expect("it is there")
        .expect("it goes on");
    stage.pass(3_600);
    assert_eq!(stage.result(&plan).expect("it ends well"), json!("new"));
}

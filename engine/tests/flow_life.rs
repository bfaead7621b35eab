//! Life-cycle events: what happens to flows, told to those who listen for it.

mod flow_common;

use flow_common::Stage;
use serde_json::{json, Value};
use turnwheel_engine::flow::FakeIo;

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
    let listens = flow_common::define(listens).replace("name: it", "name: log");
    let listens = turnwheel_engine::flow::load(&listens, "log").expect("it is right");
    let all = flow_common::define("do: [ { l: { listen: { to: { any: [] } } } } ]\n");
    let all = turnwheel_engine::flow::load(&all.replace("name: it", "name: all"), "all");
    let all = stage.start(&all.expect("it is right"), json!({}));
    let hear = |text: &str, version: &str| {
        let log = stage.start(&listens, json!({}));
        stage.sim.run_until_idle();
        let text = flow_common::define(text).replace("1.0.0", version);
        let flow = turnwheel_engine::flow::load(&text, "it").expect("it is right");
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

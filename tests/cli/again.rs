//! A failed flow goes on from its failed task, and a flow runs once more: in a process of its own.

use serde_json::{json, Value};

use crate::cli_common::Folder;

/// Its second task fails until its data says that it is mended.
const BROKEN: &str = "document: { dsl: '1.0.3', namespace: shop, name: sell, version: '1.0.0' }
do:
  - first: { set: { mended: false, count: '${ (.count // 0) + 1 }' } }
  - second:
      if: .mended | not
      raise: { error: { type: 'https://example.org/broken', status: 500, title: 'It is broken' } }
";

#[test]
fn a_failed_flow_goes_on_from_its_failed_task() {
    let folder = Folder::new();
    folder.write("broken.yaml", BROKEN);
    folder.run(&["run", "broken.yaml", "--quiet"]).fails(1, &["It is broken", "turnwheel retry"]);
    let failed =
        folder.json(&["list", "--json"])["plans"][0]["id"].as_str().expect("an id").to_owned();
    folder.run(&["retry", &failed, "--input", "{"]).fails(2, &["no JSON"]);
    folder.run(&["retry", &failed, "--flow-version", "9.9.9"]).fails(3, &["9.9.9"]);
    // The input of the failed task is mended.
    let input = r#"{"mended": true, "count": 7}"#;
    let text = folder.ok(&["retry", &failed, "--input", input, "--quiet"]);
    assert_eq!(text.parse::<Value>().expect("JSON"), json!({"mended": true, "count": 7}));
    let shown = folder.json(&["show", "last", "--json"]);
    assert_eq!(shown["labels"]["retry.of"], failed.as_str());
    // The same once more is the same plan; in another way it is refused.
    folder.ok(&["retry", &failed, "--input", input]);
    folder.run(&["retry", &failed]).fails(1, &["was retried already"]);
    assert_eq!(folder.json(&["list", "--json"])["plans"].as_array().map(Vec::len), Some(2));
    folder.run(&["retry", "last"]).fails(1, &["has succeeded", "turnwheel again"]);
    folder.run(&["resume", "last"]).fails(1, &["is over", "turnwheel retry"]);
}

#[test]
fn a_repaired_version_goes_on_and_a_flow_runs_again_with_another_input() {
    let folder = Folder::new();
    folder.write("broken.yaml", BROKEN);
    let input = ["--input", r#"{"count": 1}"#, "--label", "customer=ann", "--quiet"];
    folder.run(&[&["run", "broken.yaml"][..], &input].concat()).fails(1, &["It is broken"]);
    let failed =
        folder.json(&["list", "--json"])["plans"][0]["id"].as_str().expect("an id").to_owned();
    let mended = BROKEN.replace("1.0.0", "1.1.0").replace(".mended | not", "'false'");
    folder.write("mended.yaml", &mended);
    folder.ok(&["run", "mended.yaml", "--quiet"]);
    let text = folder.ok(&["retry", &failed, "--flow-version", "latest", "--quiet"]);
    assert!(text.contains("\"count\": 2"), "the data of the failed run: {text}");
    assert_eq!(folder.json(&["show", "last", "--json"])["labels"]["customer"], "ann");

    let text = folder.ok(&["again", "last", "--quiet"]);
    assert!(text.contains("\"count\": 2"), "from its begin, with the same input: {text}");
    assert_eq!(folder.json(&["show", "last", "--json"])["labels"]["retry.of"], Value::Null);
    let text = folder.ok(&["again", "last", "--input", r#"{"count": 5}"#, "--quiet"]);
    assert!(text.contains("\"count\": 6"), "{text}");
    folder.run(&["again", &failed, "--quiet"]).fails(1, &["It is broken"]);
    folder.run(&["again", "xyz"]).fails(2, &["xyz"]);
    folder.run(&["again"]).fails(2, &["PLAN"]);
}

#[test]
fn what_is_not_a_failed_flow_is_retried_as_before() {
    let (folder, plans) = Folder::with_plans();
    let (paused, done) = (plans.paused.to_string(), plans.done.to_string());
    folder.ok(&["retry", &paused]);
    folder.run(&["retry", &paused, "--input", "1"]).fails(2, &["flows that have failed"]);
    folder.run(&["retry", &done]).fails(1, &["«greet»"]);
    folder.run(&["again", &done]).fails(1, &["«greet»"]);
    folder.run(&["retry", "--state", "stopped"]).fails(1, &["turnwheel serve"]);
    let dry = folder.ok(&["retry", "--state", "stopped", "--dry-run"]);
    assert!(dry.contains(&done) && dry.contains("would be asked"), "{dry}");
}

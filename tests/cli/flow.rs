//! The verb flow: definitions are added, listed, shown, started and removed; contexts.

use serde_json::{json, Value};

use crate::cli_common::Folder;

fn flow(version: &str, text: &str) -> String {
    format!(
        "document: {{ dsl: '1.0.3', namespace: guide, name: hello, version: '{version}' }}
do:
  - say: {{ set: {{ text: '${{ \"{text} \\(.name)\" }}' }} }}
"
    )
}

const FAILS: &str = "document: { dsl: '1.0.3', namespace: guide, name: order, version: '1.0.0' }
do:
  - charge:
      raise: { error: { type: 'https://example.org/declined', status: 402, title: declined } }
";

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("one.yaml", &flow("1.0.0", "hello"));
    folder.write("two.yaml", &flow("1.1.0", "good morning"));
    let said = folder.ok(&["flow", "add", "one.yaml"]);
    assert_eq!(said, "guide/hello:1.0.0 is added\n");
    folder
}

#[test]
fn flows_are_added_listed_shown_and_started_by_name() {
    let folder = folder();
    folder.ok(&["flow", "add", "one.yaml"]);
    folder.ok(&["flow", "add", "two.yaml"]);
    let list = folder.json(&["flow", "list", "--json"]);
    let versions: Vec<&Value> =
        list["flows"].as_array().into_iter().flatten().map(|flow| &flow["version"]).collect();
    assert_eq!(versions, ["1.0.0", "1.1.0"]);
    assert!(folder.ok(&["flow", "list"]).contains("guide/hello  1.1.0"));
    let shown = folder.json(&["flow", "show", "hello:1.0.0", "--json"]);
    assert_eq!(shown["document"]["version"], "1.0.0");
    let written = std::fs::read_to_string(folder.path("one.yaml")).expect("it is there");
    assert_eq!(folder.ok(&["flow", "show", "hello:1.0.0"]).trim_end(), written.trim_end());
    let started =
        |name: &str| folder.json(&["flow", "start", name, "--input", "{\"name\": \"Ann\"}"]);
    for (name, text) in [
        ("hello", "good morning Ann"),
        ("guide/hello", "good morning Ann"),
        ("hello:1.0.0", "hello Ann"),
    ] {
        assert_eq!(started(name), json!({ "text": text }), "{name}");
    }
    let found = folder.json(&["list", "guide/hello", "--json"]);
    assert_eq!(found["plans"].as_array().map(Vec::len), Some(3));
    // A plan is shown with the user's values, without what the interpreter keeps beside them.
    let plan = folder.json(&["show", "last", "--json"]);
    assert_eq!(plan["input"], json!({ "name": "Ann" }));
    assert_eq!(plan["output"], json!({ "text": "hello Ann" }));
    folder.run(&["flow", "start", "hullo"]).fails(3, &["hullo", "turnwheel flow list"]);
    folder.run(&["flow", "show", "hello:9.9.9"]).fails(3, &["hello:9.9.9"]);
    folder.run(&["flow", "start", "hello", "--detach"]).fails(1, &["turnwheel serve"]);
    folder.write("other.yaml", &flow("1.0.0", "something else"));
    folder.run(&["flow", "add", "other.yaml"]).fails(1, &["another content"]);
    folder.run(&["flow"]).fails(2, &["add"]);
}

#[test]
fn a_flow_is_removed_and_its_plans_stay() {
    let folder = folder();
    folder.ok(&["flow", "start", "hello", "--input", "{\"name\": \"Ann\"}"]);
    folder.run(&["flow", "rm", "hello"]).fails(2, &["«hello»", "version"]);
    folder.run(&["flow", "rm", "hello:2.0.0"]).fails(3, &["2.0.0"]);
    assert_eq!(folder.ok(&["flow", "rm", "hello:1.0.0"]), "guide/hello:1.0.0 is removed\n");
    assert_eq!(folder.json(&["flow", "list", "--json"])["flows"], json!([]));
    folder.run(&["flow", "start", "hello"]).fails(3, &["hello"]);
    // Plans that are over can be shown and run again, with the definition that they had.
    let again = folder.json(&["again", "last", "--quiet"]);
    assert_eq!(again, json!({ "text": "hello Ann" }));
    folder.ok(&["flow", "add", "one.yaml"]);
    assert_eq!(folder.ok(&["flow", "list"]).lines().count(), 2);
}

#[test]
fn a_schedule_starts_a_flow_by_its_name() {
    let folder = folder();
    let add = ["schedule", "add", "nightly", "--cron", "0 3 * * *", "--zone", "Europe/Berlin"];
    folder.ok(&[&add[..], &["--flow", "guide/hello"]].concat());
    let all = folder.json(&["schedule", "list", "--json"]);
    let schedule = &all["schedules"][0];
    assert_eq!(schedule["action"], "flow");
    assert_eq!(schedule["input"]["flow"], "guide/hello:1.0.0");
    assert_eq!(schedule["input"]["input"], json!({}));
    let list = folder.ok(&["schedule", "list"]);
    assert!(list.contains("guide/hello:1.0.0") && list.contains("0 3 * * *"), "{list}");
    folder.run(&[&add[..], &["--flow", "nobody"]].concat()).fails(3, &["nobody"]);
    folder.run(&add).fails(2, &["--action", "--flow"]);
    let both = ["--flow", "hello", "--action", "greet"];
    folder.run(&[&add[..], &both].concat()).fails(2, &["--action"]);
    folder.run(&["schedule", "trigger", "nightly"]).fails(1, &["turnwheel serve"]);
}

#[test]
fn the_error_of_a_failed_flow_is_in_the_list_and_finds_it() {
    let folder = folder();
    folder.write("order.yaml", FAILS);
    assert_eq!(folder.run(&["run", "order.yaml", "--quiet"]).code(), 1);
    folder.ok(&["flow", "start", "hello", "--input", "{\"name\": \"Ann\"}"]);
    let list = folder.json(&["list", "declined", "--json"]);
    assert_eq!(list["plans"].as_array().map(Vec::len), Some(1), "{list}");
    let error = list["plans"][0]["error"].as_str().expect("it says why");
    assert!(error.contains("declined") && error.contains("402"), "{error}");
    assert_eq!(list["plans"][0]["waits_for"], Value::Null);
    assert!(folder.ok(&["list"]).contains("declined"));
    let id = list["plans"][0]["id"].as_str().expect("an id");
    let text = folder.ok(&["show", id]);
    assert!(text.contains("declined"), "{text}");
    // Tasks are counted and listed, not what the engine does behind them; each name once.
    assert!(text.contains("tasks     1 error\n"), "{text}");
    assert!(text.contains("state     stopped, error\n"), "{text}");
    assert!(!text.contains("flow  ") && !text.contains("  plan  "), "{text}");
    let row = text.lines().last().expect("the table has a row");
    assert_eq!(row.matches("charge").count(), 1, "{text}");
    assert!(row.contains("declined"), "{text}");
    let logs = folder.ok(&["logs", id]);
    let failed = logs.lines().find(|line| line.contains("declined")).expect("it says why");
    assert_eq!(failed.matches("charge").count(), 1, "{logs}");
    assert!(failed.contains("charge failed: "), "{logs}");
    for inner in ["asks for", "by policy", "step ", "flow failed"] {
        assert!(!logs.contains(inner), "«{inner}» is the engine's: {logs}");
    }
    assert!(logs.contains("stopped: a task has failed"), "{logs}");
}

#[cfg(unix)]
#[test]
fn contexts_are_kept_for_this_user_only() {
    use std::os::unix::fs::PermissionsExt as _;

    let (folder, _) = Folder::with_plans();
    let add = ["context", "add", "far", "--server", "http://127.0.0.1:1", "--token", "s3cret"];
    folder.ok(&add);
    let file = folder.path(".config/turnwheel/contexts.json");
    let mode = std::fs::metadata(&file).expect("it is written").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(folder.json(&["list", "--json"])["plans"].as_array().map(Vec::len), Some(3));
    folder.ok(&["context", "use", "far"]);
    let list = folder.json(&["context", "list", "--json"]);
    assert_eq!(
        (&list["contexts"][0]["is_current"], &list["contexts"][0]["has_token"]),
        (&json!(true), &json!(true))
    );
    assert!(!folder.ok(&["context", "list"]).contains("s3cret"));
    let asked = folder.run(&["list"]);
    asked.fails(1, &["127.0.0.1:1", "does not answer"]);
    for verb in [&["backup", "b.db"][..], &["restore", "b.db"], &["store", "check"]] {
        folder.run(verb).fails(2, &["a server is named", "--store FILE"]);
    }
    for verb in ["list", "slots"] {
        folder.run(&["node", verb]).fails(1, &["127.0.0.1:1", "does not answer"]);
    }
    let here = folder.json(&["list", "--json", "--store", "turnwheel.db"]);
    assert_eq!(here["plans"].as_array().map(Vec::len), Some(3), "a named store goes before it");
    folder.ok(&["context", "use"]);
    assert_eq!(folder.run(&["list"]).code(), 0);
    folder.run(&["list", "--context", "far"]).fails(1, &["127.0.0.1:1"]);
    folder.run(&["context", "use", "near"]).fails(3, &["near", "context list"]);
    folder.run(&["context", "add", "x"]).fails(2, &["--server"]);
    folder.ok(&["context", "rm", "far"]);
    assert_eq!(folder.json(&["context", "list", "--json"])["contexts"], json!([]));
}

#[test]
fn schedule_of_an_older_version_that_goes_on_is_said() {
    let folder = Folder::new();
    folder.write("old.yaml", &format!("schedule: {{ every: PT1H }}\n{}", flow("1.0.0", "hello")));
    folder.write("new.yaml", &flow("1.1.0", "hello"));
    let said = folder.run(&["flow", "add", "old.yaml"]).stderr();
    assert!(!said.contains("goes on"), "{said}");
    let said = folder.run(&["flow", "add", "new.yaml"]).stderr();
    assert!(said.contains("the schedule of guide/hello:1.0.0 goes on"), "{said}");
    folder.ok(&["schedule", "rm", "flow:guide/hello"]);
    let said = folder.run(&["flow", "add", "new.yaml"]).stderr();
    assert!(!said.contains("goes on"), "{said}");
}

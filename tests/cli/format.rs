//! Forms of results, completions and manual pages.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{json, Value};
use turnwheel::engine::StepId;
use turnwheel::flow::documents;

use crate::cli_common::Folder;

fn yaml(text: &str) -> Value {
    documents(text, "output").unwrap_or_else(|wrong| panic!("{wrong}\n{text}")).remove(0)
}

#[test]
fn each_list_and_show_prints_json_yaml_names_and_all_columns() {
    let (folder, plans) = Folder::with_plans();
    let waits = plans.waits.to_string();
    folder.ok(&["schedule", "add", "nightly", "--every", "1h", "--action", "greet"]);
    folder.write(
        "say.yaml",
        "document: { dsl: '1.0.3', namespace: test, name: say, version: '1.0.0' }
do: [{ say: { set: { text: '${ .name }' } } }]
",
    );
    folder.ok(&["flow", "add", "say.yaml"]);
    folder.ok(&["job", "add", "backup", "--schedule", "@daily", "--command", "true"]);
    for verb in [
        &["list"][..],
        &["show", "last"],
        &["show", "last", "--step", "2"],
        &["tree", "last"],
        &["stats"],
        &["flow", "list"],
        &["flow", "show", "say"],
        &["schedule", "list"],
        &["schedule", "show", "nightly"],
        &["job", "list"],
        &["job", "show", "backup"],
        &["job", "history", "backup"],
        &["job", "executors"],
        &["journey", "list"],
        &["node", "list"],
        &["context", "list"],
    ] {
        let with = |format: &str| folder.ok(&[verb, &["-o", format]].concat());
        let _: Value = serde_json::from_str(&with("json")).expect("JSON");
        // JSON is YAML: one reader, so that both round numbers alike.
        assert_eq!(yaml(&with("yaml")), yaml(&with("json")), "{verb:?}");
        let shortened = folder.ok(&[verb, &["--json"]].concat());
        assert_eq!(shortened, with("json"), "{verb:?}");
        assert!(with("wide").len() >= with("table").len(), "{verb:?}");
        assert!(!with("name").contains(' '), "{verb:?}: {}", with("name"));
        folder.run(&[verb, &["-o", "xml"]].concat()).fails(2, &["yaml"]);
        folder.run(&[verb, &["-o", "yaml", "--json"]].concat()).fails(2, &["--json"]);
    }
    let names = folder.ok(&["list", "-o", "name", "--state", "running"]);
    assert_eq!(names.trim(), waits);
    assert_eq!(folder.ok(&["flow", "list", "-o", "name"]).trim(), "test/say");
    assert_eq!(folder.ok(&["schedule", "list", "-o", "name"]).trim(), "nightly");
    assert_eq!(folder.ok(&["job", "list", "-o", "name"]).trim(), "backup");
    assert!(folder.ok(&["list", "-o", "wide"]).contains("customer=Ann"));
    assert!(!folder.ok(&["list"]).contains("customer=Ann"));
}

#[test]
fn a_watched_plan_is_shown_until_it_is_over() {
    let (folder, plans) = Folder::with_plans();
    let waits = plans.waits.to_string();
    let over = folder.ok(&["show", &plans.done.to_string(), "--watch", "-o", "name"]);
    assert_eq!(over.trim(), plans.done.to_string(), "once");
    let world = folder.world();
    let mut command = folder.command(&["show", &waits, "--watch", "-o", "json"]);
    let mut watches = command.stdout(Stdio::piped()).spawn().expect("it begins");
    let mut shown = BufReader::new(watches.stdout.take().expect("it is piped")).lines();
    let mut states = shown.by_ref().map_while(Result::ok).filter_map(|line| {
        Some(line.strip_prefix("  \"state\": \"")?.trim_end_matches("\",").to_owned())
    });
    assert_eq!(states.next().as_deref(), Some("running"));
    let (plan, step) = (plans.waits, StepId(2));
    let sent = world.event_by(plan, step, None, &json!("go on"), "tester").wait();
    sent.expect("it is answered").expect("it is taken");
    assert_eq!(states.last().as_deref(), Some("stopped"), "the last one is of its end");
    assert!(watches.wait().expect("it ends").success());
    world.shutdown().expect("it ends");
}

/// Offers of a shell for the last word.
fn offered(folder: &Folder, words: &[&str]) -> Vec<String> {
    let index = (words.len() - 1).to_string();
    let mut command = folder.command(&["--"]);
    command.args(words).env("TURNWHEEL_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", index);
    command.env("_CLAP_IFS", "\n").env("_CLAP_COMPLETE_COMP_TYPE", "9");
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{words:?}: {said}");
    String::from_utf8_lossy(&output.stdout).lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn completions_know_verbs_plans_flows_and_schedules() {
    let (folder, plans) = Folder::with_plans();
    let id = plans.paused.to_string();
    assert_eq!(offered(&folder, &["turnwheel", "comp"]), ["completions"]);
    assert_eq!(offered(&folder, &["turnwheel", "show", "la"]), ["last"]);
    let all = offered(&folder, &["turnwheel", "show", ""]);
    assert!(all.contains(&id) && all.contains(&plans.done.to_string()), "{all:?}");
    let end = &id[id.len() - 8..];
    assert!(offered(&folder, &["turnwheel", "cancel", &end[..5]]).contains(&end.to_owned()));
    folder.ok(&["schedule", "add", "nightly", "--every", "1h", "--action", "greet"]);
    assert_eq!(offered(&folder, &["turnwheel", "schedule", "pause", "ni"]), ["nightly"]);
    let flow = "document: { dsl: '1.0.3', namespace: test, name: say, version: '1.0.0' }
do: [{ say: { set: { a: 1 } } }]
";
    folder.write("say.yaml", flow);
    folder.ok(&["run", "say.yaml", "--quiet"]);
    assert_eq!(offered(&folder, &["turnwheel", "flow", "start", "te"]), ["test/say"]);
    // Another store, by a flag before the word.
    let other = ["turnwheel", "--store", "none.db", "schedule", "pause", "ni"];
    assert_eq!(offered(&folder, &other), Vec::<String>::new());
}

#[cfg(unix)]
#[test]
fn bash_completes_names_with_the_script() {
    let (folder, _) = Folder::with_plans();
    folder.ok(&["schedule", "add", "nightly", "--every", "1h", "--action", "greet"]);
    folder.write("script", &folder.ok(&["completions", "bash"]));
    let line =
        "source ./script; COMP_WORDS=(turnwheel schedule pause ni); COMP_CWORD=3; COMP_TYPE=9; \
                _clap_complete_turnwheel turnwheel ni pause; echo \"${COMPREPLY[@]}\"";
    let binary = folder.command(&[]).get_program().to_owned();
    let folder_of = std::path::Path::new(&binary).parent().expect("it lies in a folder");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut bash = std::process::Command::new("bash");
    bash.args(["-c", line]).current_dir(folder.folder.path()).env("HOME", folder.folder.path());
    bash.env("PATH", format!("{}:{path}", folder_of.display()));
    // A shell that is not installed cannot judge.
    let Ok(output) = bash.output() else { return };
    let (said, wrong) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.trim(), "nightly", "{wrong}");
}

#[test]
fn there_is_a_manual_page_for_each_verb() {
    let folder = Folder::new();
    let said = folder.ok(&["man", "pages/man1"]);
    assert!(said.contains("pages in pages/man1"), "{said}");
    let read = |name: &str| {
        let file = folder.path("pages/man1").join(format!("{name}.1"));
        std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    assert!(read("turnwheel").contains(".TH turnwheel 1"));
    assert!(read("turnwheel-list").contains("connection refused"));
    assert!(read("turnwheel-schedule-backfill").contains("\\-\\-from"));
}

#[test]
fn help_is_as_wide_as_the_terminal() {
    let folder = Folder::new();
    for columns in [50_usize, 80] {
        let mut command = folder.command(&["list", "--help"]);
        let output = command.env("COLUMNS", columns.to_string()).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let longest = text.lines().max_by_key(|line| line.chars().count()).expect("lines");
        assert!(longest.chars().count() <= columns, "{columns}: «{longest}»");
    }
}

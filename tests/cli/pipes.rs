//! What scripts rely on: closed pipes, standard input, shapes of JSON, no surprises in a terminal.
#![cfg(feature = "cli")]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use serde_json::Value;

use crate::cli_common::Folder;

const FLOW: &str = "document: { dsl: '1.0.3', namespace: test, name: say, version: '1.0.0' }
do:
  - say: { set: { text: '${ .name }' } }
";

/// Runs the binary, and closes its output after a line: how it ended, and what it complained about.
fn head(folder: &Folder, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = folder.command(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it begins");
    let mut line = String::new();
    let mut stdout = BufReader::with_capacity(1, child.stdout.take().expect("it is piped"));
    stdout.read_line(&mut line).expect("it prints");
    drop(stdout);
    let output = child.wait_with_output().expect("it ends");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let (folder, plans) = Folder::with_plans();
    let waits = plans.waits.to_string();
    for arguments in [
        &["list"][..],
        &["list", "--json"],
        &["show", "last"],
        &["show", "last", "--json"],
        &["tree", "last"],
        &["tree", "last", "--json"],
        &["logs", "last"],
        &["logs", "last", "--records"],
        &["stats"],
        &["stats", "--json"],
        &["export"],
        &["schedule", "next", "--every", "1s", "-n", "10000"],
        &["config", "print"],
        &["completions", "zsh"],
        &["help", "serve"],
        &["--help"],
    ] {
        let (code, said) = head(&folder, arguments);
        assert_eq!((code, said.contains("panicked")), (Some(0), false), "{arguments:?}: {said}");
    }
    // Who follows a plan that waits ends when nobody reads any longer: the next line is for nobody.
    let mut command = folder.command(&["logs", &waits, "--follow"]);
    let mut follows = command.stdout(Stdio::piped()).spawn().expect("it begins");
    let mut line = String::new();
    let mut stdout = BufReader::with_capacity(1, follows.stdout.take().expect("it is piped"));
    stdout.read_line(&mut line).expect("it prints");
    drop(stdout);
    folder.ok(&["cancel", &waits]);
    assert_eq!(follows.wait().expect("it ends").code(), Some(0));
}

#[test]
fn flows_and_inputs_come_from_standard_input() {
    let folder = Folder::new();
    let piped = |arguments: &[&str], text: &str| {
        let mut command = folder.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it begins");
        child.stdin.take().expect("it is piped").write_all(text.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, said, _) = piped(&["check", "-"], FLOW);
    assert_eq!(code, Some(0), "{said}");
    let (code, said, error) = piped(&["run", "-", "--input", "{\"name\": \"Ann\"}"], FLOW);
    assert_eq!((code, said.as_str()), (Some(0), "{\n  \"text\": \"Ann\"\n}\n"), "{error}");
    folder.write("say.yaml", FLOW);
    let (code, said, error) = piped(&["run", "say.yaml", "--input", "-"], "{\"name\": \"Eva\"}");
    assert_eq!((code, said.as_str()), (Some(0), "{\n  \"text\": \"Eva\"\n}\n"), "{error}");
    folder.run(&["run", "-", "--input", "-"]).fails(2, &["both", "standard input"]);
    let (code, _, error) = piped(&["run", "-"], "do: [");
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("-:2:1:"), "the place is told: {error}");
}

#[test]
fn files_that_cannot_be_read_do_not_keep_others_from_being_checked() {
    let folder = Folder::new();
    folder.write("good.yaml", FLOW);
    folder.write("bad.yaml", &FLOW.replace("set:", "sett:"));
    let files = ["gone.yaml", "bad.yaml", "gone-too.yaml", "good.yaml"];
    let ended = folder.run(&[&["check"][..], &files].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, error) = (text(&ended.output.stdout), text(&ended.output.stderr));
    assert_eq!(ended.output.status.code(), Some(2), "{error}");
    for part in ["gone.yaml", "gone-too.yaml", "bad.yaml:", "did you mean «set»?"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(said.contains("good.yaml: ") && said.contains("is right"), "{said}");
    let ended = folder.run(&["check", "bad.yaml", "good.yaml"]);
    assert_eq!(ended.output.status.code(), Some(1), "all can be read");
}

/// The names of the fields of an object, sorted.
fn names(value: &Value) -> Vec<&str> {
    let object = value.as_object().unwrap_or_else(|| panic!("no object: {value}"));
    let mut names: Vec<&str> = object.keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

#[test]
fn shapes_of_json_are_as_scripts_know_them() {
    // Fields may come; one that is gone breaks somebody's script.
    let (folder, plans) = Folder::with_plans();
    let has = |value: &Value, wanted: &str| {
        let names = names(value);
        for name in wanted.split(' ') {
            assert!(names.contains(&name), "«{name}» is not among {names:?}");
        }
    };
    let row = "action by caller created_at ended_at id label labels result started_at state waits \
               waits_for wakes_at";
    let list = folder.json(&["list", "--json"]);
    has(&list, "next plans");
    has(&list["plans"][0], row);
    let plan = folder.json(&["show", "last", "--json"]);
    has(&plan, "action by created_at id input key label labels output progress result state steps");
    let steps = folder.json(&["show", "last", "--steps", "--json"]);
    has(&steps["steps"][1], "action attempt calls error id name phase state");
    has(&folder.json(&["show", "last", "--step", "2", "--json"]), "error input output state");
    let tree = folder.json(&["tree", "last", "--json"]);
    has(&tree, "nodes plan result state sub_plans");
    has(&tree["nodes"][0], "action depth name parent state steps");
    let stats = "bytes locks oldest_open plans results schedules states store waits";
    has(&folder.json(&["stats", "--json"]), stats);
    has(&folder.json(&["config", "print", "--json"]), "file settings");
    folder.write("say.yaml", FLOW);
    let check = folder.json(&["check", "say.yaml", "--json"]);
    has(&check, "flows live problems");
    has(&check["flows"][0], "file hash id secrets tasks title");
    folder.ok(&["schedule", "add", "n", "--every", "1h", "--action", "greet"]);
    let schedules = folder.json(&["schedule", "list", "--json"]);
    has(&schedules["schedules"][0], "action name next paused timing");
    has(&folder.json(&["schedule", "next", "n", "--json"]), "times");
    let waits = plans.waits.to_string();
    has(&folder.json(&["event", "send", &waits, "1", "--json"]), "plan step");
    let order = folder.json(&["cancel", &waits, "--json"]);
    has(&order, "is_dry_run order plans refused");
    has(
        &folder.json(&["event", "emit", "x.y", "--json"]),
        "delivered id is_repeated repeated started undecided",
    );
}

#[test]
fn addresses_and_sizes_are_taken_as_people_type_them() {
    let folder = Folder::new();
    for (flags, says) in [
        (&["--listen", "nowhere"][..], "127.0.0.1:7070"),
        (&["--listen", "127.0.0.1:99999"], "127.0.0.1:7070"),
        (&["--body-bytes-max", "4MB"], "4MiB"),
        (&["--body-bytes-max", "0"], "4MiB"),
        (&["--head-within", "soon"], "90s"),
        (&["--log-format", "xml"], "json"),
        (&["--tls-key", "key.pem"], "--tls-certificates"),
    ] {
        let all: Vec<&str> = ["serve"].iter().chain(flags).copied().collect();
        folder.run(&all).fails(2, &[says]);
    }
    #[cfg(feature = "server")]
    {
        let mut command = folder.command(&["serve", "--listen", "localhost:0"]);
        let mut server =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it runs");
        let mut line = String::new();
        let mut stdout = BufReader::new(server.stdout.take().expect("it is piped"));
        stdout.read_line(&mut line).expect("it listens");
        assert!(line.starts_with("listening on http://127.0.0.1:"), "{line}");
        server.kill().expect("it runs");
        server.wait().expect("it ends");
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).expect("it has ended");
    }
}

#[cfg(unix)]
#[test]
fn completions_are_scripts_that_shells_understand() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = folder.write("script", &folder.ok(&["completions", shell]));
        let mut check = std::process::Command::new(shell);
        let check = check.arg(if shell == "fish" { "--no-execute" } else { "-n" }).arg(&script);
        // A shell that is not installed cannot judge.
        if let Ok(output) = check.current_dir(folder.folder.path()).output() {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{shell}: {said}");
        }
    }
}

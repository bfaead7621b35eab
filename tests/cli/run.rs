//! `turnwheel check` and `turnwheel run`: flows that end, fail, are interrupted, and go on.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{json, Value};

use crate::cli_common::{Ended, Folder};

const GREET: &str = "document: { dsl: '1.0.3', namespace: test, name: greet, version: '1.0.0' }
do:
  - greet: { set: { text: '${ \"hello \\(.name // \"you\")\" }' } }
";

const TICK: &str = "document: { dsl: '1.0.3', namespace: test, name: tick, version: '1.0.0' }
schedule: { every: P1D }
do:
  - tick: { set: { n: 1 } }
";

const RAISE: &str = "document: { dsl: '1.0.3', namespace: test, name: raise, version: '1.0.0' }
do:
  - fall:
      raise: { error: { type: 'https://example.org/no', status: 418, title: No tea, detail: 'the pot is empty' } }
";

/// Says that it has begun, waits until a file is there, and counts how often it was begun.
const GATE: &str = "document: { dsl: '1.0.3', namespace: test, name: gate, version: '1.0.0' }
do:
  - first: { set: { step: 1 } }
  - wait:
      run:
        shell:
          command: echo x >> begun; trap '' TERM; until test -e gate; do sleep 0.02; done; wc -l < begun
";

fn flow(folder: &Folder, name: &str, text: &str) -> String {
    folder.write(&format!("{name}.yaml"), text)
}

/// A run that is under way, once its command has begun.
fn begun(folder: &Folder, arguments: &[&str]) -> (Child, String) {
    let mut command = folder.command(arguments);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built for this test");
    let stderr = child.stderr.take().expect("it is piped");
    let mut line = String::new();
    BufReader::new(stderr).read_line(&mut line).expect("it says which plan it is");
    let plan = line.strip_prefix("plan ").and_then(|rest| rest.split(';').next());
    let plan = plan.unwrap_or_else(|| panic!("no plan in «{line}»")).to_owned();
    while !folder.path("begun").exists() {
        std::thread::yield_now();
    }
    (child, plan)
}

#[cfg(unix)]
fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    let sent = std::process::Command::new("kill").args([name, &pid]).status();
    assert!(sent.is_ok_and(|status| status.success()), "{name} is sent");
}

#[test]
fn a_flow_prints_what_came_of_it() {
    let folder = Folder::new();
    flow(&folder, "greet", GREET);
    assert_eq!(folder.json(&["run", "greet.yaml"]), json!({ "text": "hello you" }));
    let named = folder.run(&["run", "greet.yaml", "--input", r#"{"name": "Ann"}"#]);
    assert_eq!(named.ok(), "{\n  \"text\": \"hello Ann\"\n}\n");
    assert!(named.stderr().starts_with("plan "), "{}", named.stderr());
    folder.write("input.json", r#"{"name": "Bob"}"#);
    let quiet =
        folder.run(&["run", "greet.yaml", "--quiet", "-i", "@input.json", "--label", "who=Bob"]);
    assert!(quiet.ok().contains("Bob"));
    assert_eq!(quiet.stderr(), "");
    let found =
        folder.json(&["list", "--label", "who=Bob", "--label", "flow.name=greet", "--json"]);
    assert_eq!(found["plans"].as_array().map(Vec::len), Some(1));
    for _ in 0..2 {
        folder.ok(&["run", "greet.yaml", "--key", "k"]);
    }
    assert_eq!(folder.json(&["stats", "--json"])["plans"], 4, "the same key is the same plan");
    for key in ["k", "http/tester/k"] {
        let found = folder.json(&["list", "--key", key, "--json"]);
        assert_eq!(found["plans"].as_array().map(Vec::len), Some(1), "{key}");
    }
    assert_eq!(folder.json(&["show", "last", "--json"])["by"], "tester");
}

#[test]
fn a_flow_that_fails_says_where_and_what() {
    let folder = Folder::new();
    flow(&folder, "raise", RAISE);
    folder.run(&["run", "raise.yaml"]).fails(1, &["No tea", "the pot is empty", "turnwheel show"]);
    assert_eq!(folder.json(&["show", "last", "--json"])["result"], "error");
}

#[test]
fn what_is_wrong_with_a_flow_has_its_place() {
    let folder = Folder::new();
    flow(&folder, "greet", GREET);
    flow(&folder, "wrong", &GREET.replace("set:", "sett:"));
    let says = ["wrong.yaml:3:14", "set"];
    let ended = folder.run(&["check", "greet.yaml", "wrong.yaml"]);
    assert_eq!(ended.code(), 1);
    assert!(ended.stdout().contains("greet.yaml: test/greet:1.0.0 is right"), "{}", ended.stdout());
    for said in says {
        assert!(ended.stderr().contains(said), "{}", ended.stderr());
    }
    folder.run(&["run", "wrong.yaml"]).fails(2, &says);
    assert!(!folder.path("turnwheel.db").exists(), "nothing was begun");
    let all = folder.run(&["check", "greet.yaml", "wrong.yaml", "--json"]);
    let all: Value = serde_json::from_str(&all.stdout()).expect("JSON");
    assert_eq!(all["flows"][0]["id"], "test/greet:1.0.0");
    assert_eq!(
        (&all["problems"][0]["line"], &all["problems"][0]["column"]),
        (&3.into(), &14.into())
    );
    folder.run(&["check", "missing.yaml"]).fails(2, &["missing.yaml"]);
    folder.run(&["run", "missing.yaml"]).fails(2, &["missing.yaml"]);
    folder.run(&["run", "."]).fails(2, &["."]);
    folder.run(&["check"]).fails(2, &["<FILES>"]);
    folder.run(&["run"]).fails(2, &["<FILE>"]);
    folder.run(&["run", "greet.yaml", "--input", "{"]).fails(2, &["JSON"]);
    folder.run(&["run", "greet.yaml", "--input", "@missing.json"]).fails(2, &["missing.json"]);
    folder.run(&["run", "greet.yaml", "--inptu", "{}"]).fails(2, &["--input"]);
    flow(&folder, "two", &format!("{GREET}---\n{}", GREET.replace("greet", "grate")));
    folder.ok(&["check", "two.yaml"]);
    folder.run(&["run", "two.yaml"]).fails(2, &["two.yaml", "2 definitions"]);
}

#[test]
fn another_content_needs_another_version() {
    let folder = Folder::new();
    flow(&folder, "greet", GREET);
    folder.ok(&["run", "greet.yaml"]);
    flow(&folder, "greet", &GREET.replace("hello", "good day"));
    folder.run(&["run", "greet.yaml"]).fails(1, &["test/greet:1.0.0", "document.version"]);
    flow(&folder, "greet", &GREET.replace("hello", "good day").replace("'1.0.0'", "'1.0.1'"));
    assert!(folder.ok(&["run", "greet.yaml"]).contains("good day"));
}

#[test]
fn limits_of_the_settings_hold_for_flows() {
    let folder = Folder::new();
    flow(
        &folder,
        "shell",
        &RAISE.replace("raise: { error:", "run: { shell: { command: 'true' } } #"),
    );
    let mut command = folder.command(&["run", "shell.yaml"]);
    let output = command.env("TURNWHEEL_IO_ALLOW_SHELL", "false").output().expect("it runs");
    let ended = Ended { output, arguments: "run".to_owned() };
    ended.fails(1, &["io.allow-shell"]);
}

#[test]
fn what_this_host_lacks_for_a_flow_is_said_before_it_runs() {
    let folder = Folder::new();
    let text = RAISE.replace("raise: { error:", "run: { container: { image: alpine } } #");
    flow(&folder, "box", &text);
    let place = "box.yaml:4:14: containers cannot be run here";
    let without = |arguments: &[&str]| {
        let mut command = folder.command(arguments);
        let output = command.env("TURNWHEEL_IO_CONTAINER_ENGINE", "no-such-engine").output();
        Ended { output: output.expect("it runs"), arguments: arguments.join(" ") }
    };
    without(&["check", "box.yaml"]).fails(1, &[place, "no-such-engine", "--for-another-host"]);
    without(&["run", "box.yaml"]).fails(1, &["no-such-engine", "io.container-engine"]);
    assert_eq!(without(&["check", "box.yaml", "--for-another-host"]).code(), 0);
}

#[cfg(unix)]
#[test]
fn a_flow_that_was_killed_goes_on() {
    let folder = Folder::new();
    flow(&folder, "gate", GATE);
    let (mut child, plan) = begun(&folder, &["run", "gate.yaml"]);
    // The lock tells who has the store.
    folder.run(&["run", "gate.yaml"]).fails(4, &["in use by process", "does not serve"]);
    folder.run(&["cancel", &plan]).fails(4, &["does not serve"]);
    let live = folder.ok(&["check", "gate.yaml", "--against-live"]);
    assert!(live.contains(&plan) && live.contains("this version"), "{live}");
    signal(&child, "-KILL");
    child.wait().expect("it was killed");
    assert_eq!(folder.json(&["show", &plan, "--json"])["state"], "running");
    let refused = folder.run(&["resume", &plan, "--no-wait"]);
    assert_eq!(refused.code(), 1, "it is not paused: there is nothing to write down");
    folder.write("gate", "");
    let again = folder.run(&["resume", &plan]);
    assert_eq!(again.ok().trim(), "\"2\\n\"", "the command was begun twice");
    assert_eq!(folder.json(&["show", &plan, "--json"])["result"], "success");
    folder.run(&["resume", &plan]).fails(1, &["is over", "turnwheel again"]);
}

/// Its command holds a pipe open for as long as it lives, and does what it can to live on.
#[cfg(unix)]
const HOLD: &str = "document: { dsl: '1.0.3', namespace: test, name: hold, version: '1.0.0' }
do:
  - hold:
      run:
        shell:
          command: trap '' TERM INT HUP; exec 3> pipe; (trap '' TERM HUP; sleep 1000) & echo x >> begun; wait; wait
";

#[cfg(unix)]
#[test]
fn a_command_ends_with_the_process_that_has_started_it() {
    let folder = Folder::new();
    flow(&folder, "hold", HOLD);
    let pipe = folder.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.is_ok_and(|status| status.success()), "there is mkfifo");
    let reading = std::thread::spawn(move || {
        let mut pipe = std::fs::File::open(pipe).expect("somebody writes");
        std::io::Read::read_to_end(&mut pipe, &mut Vec::new()).expect("it can be read")
    });
    let (mut child, _) = begun(&folder, &["run", "hold.yaml"]);
    assert!(!reading.is_finished(), "the command holds it");
    signal(&child, "-KILL");
    child.wait().expect("it was killed");
    // It ends when nobody holds the other side any more: neither the command nor what it has begun.
    assert_eq!(reading.join().expect("it ends"), 0);
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_it_cleanly_and_says_how_to_go_on() {
    let folder = Folder::new();
    flow(&folder, "gate", GATE);
    for (name, code) in [("-INT", 130), ("-TERM", 143)] {
        let (child, plan) = begun(&folder, &["run", "gate.yaml", "--store", "other.db"]);
        signal(&child, name);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(code), "{name}");
        assert!(output.stdout.is_empty());
        let state = &folder.json(&["show", &plan, "--json", "--store", "other.db"])["state"];
        assert_eq!(state, "running", "{name}: it is neither failed nor over");
        std::fs::remove_file(folder.path("begun")).expect("it has begun");
        folder.write("gate", "");
        assert_eq!(
            folder.ok(&["resume", &plan, "--store", "other.db"]).trim(),
            "\"1\\n\"",
            "{name}"
        );
        std::fs::remove_file(folder.path("gate")).expect("it is there");
        std::fs::remove_file(folder.path("begun")).expect("it has begun");
    }
}

#[test]
fn a_short_flow_takes_a_moment() {
    let folder = Folder::new();
    flow(&folder, "greet", GREET);
    folder.ok(&["run", "greet.yaml"]);
    let mut best = u128::MAX;
    for _ in 0..5 {
        let begun = Instant::now();
        folder.ok(&["run", "greet.yaml"]);
        best = best.min(begun.elapsed().as_millis());
    }
    // The aim of 30 ms is measured with a release build on an idle machine; this is against waits.
    assert!(best < 1_000, "{best} ms");
}

const LISTEN: &str = "document: { dsl: '1.0.3', namespace: test, name: listen, version: '1.0.0' }
do:
  - hear: { listen: { to: { one: { with: { type: org.example.word } } } } }
  - say: { set: { word: '${ .[0].word }' } }
";

#[cfg(unix)]
#[test]
fn an_event_reaches_a_flow_that_was_interrupted() {
    let folder = Folder::new();
    flow(&folder, "listen", LISTEN);
    folder.write("begun", "");
    let (mut child, plan) = begun(&folder, &["run", "listen.yaml"]);
    let until = Instant::now() + Duration::from_secs(60);
    while !folder.run(&["show", &plan, "--steps", "--json"]).stdout().contains("suspended") {
        assert!(Instant::now() < until, "the flow does not listen");
    }
    signal(&child, "-KILL");
    child.wait().expect("it was killed");
    let told = folder.run(&["event", "emit", "org.example.other", "1"]);
    assert!(
        told.ok().starts_with("delivered to 0 steps") && told.stderr().contains("nobody waits"),
        "{}",
        told.stderr()
    );
    let emit = ["event", "emit", "org.example.word", "{\"word\": \"yes\"}", "--id", "e-1"];
    let more = ["--source", "urn:test", "--subject", "s", "--json"];
    let sent = folder.json(&[&emit[..], &more].concat());
    assert_eq!((&sent["delivered"], &sent["id"]), (&1.into(), &"e-1".into()));
    assert_eq!((&sent["repeated"], &sent["is_repeated"]), (&0.into(), &false.into()));
    let again = folder.run(&[&emit[..], &more[..4]].concat());
    assert_eq!(
        again.ok(),
        "delivered to 0 steps, begun with it: 0 plans, had it before: 1 (it is a repeat, and has \
         changed nothing)\n"
    );
    assert_eq!(folder.json(&["resume", "last"]), json!({ "word": "yes" }));
    folder.run(&["event", "emit"]).fails(2, &["<TYPE>"]);
    folder.run(&["event", "emit", "x", "{"]).fails(2, &["JSON"]);
    folder.run(&["event", "emit", ""]).fails(2, &["type"]);
    folder.run(&["event", "emit", "x", "--id", ""]).fails(2, &["id"]);
    folder.run(&["event", "emit", "x", "--store", "missing.db"]).fails(3, &["missing.db"]);
}

#[cfg(unix)]
#[test]
fn a_server_that_has_the_store_runs_the_flow() {
    let folder = Folder::new();
    flow(&folder, "greet", GREET);
    flow(&folder, "raise", RAISE);
    flow(&folder, "listen", LISTEN);
    let mut command = folder.command(&["serve", "--listen", "127.0.0.1:0", "--log", "error"]);
    let mut server = command.stdout(Stdio::piped()).spawn().expect("it begins");
    let mut line = String::new();
    let stdout = server.stdout.take().expect("it is piped");
    BufReader::new(stdout).read_line(&mut line).expect("it says where it listens");
    let named = folder.run(&["run", "greet.yaml", "-i", r#"{"name": "Ann"}"#, "--label", "a=b"]);
    assert_eq!(named.ok(), "{\n  \"text\": \"hello Ann\"\n}\n");
    assert!(named.stderr().contains("http://127.0.0.1:"), "{}", named.stderr());
    let key = folder.run(&["run", "greet.yaml", "--key", "k", "--quiet"]);
    assert_eq!(
        (key.ok(), key.stderr()),
        (folder.ok(&["run", "greet.yaml", "--key", "k"]), String::new())
    );
    folder.run(&["run", "raise.yaml"]).fails(1, &["No tea"]);
    let mut listens = folder.command(&["run", "listen.yaml"]);
    let listens = listens.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it begins");
    let event = ["event", "emit", "org.example.word", "{\"word\": \"yes\"}", "--json"];
    while folder.json(&event)["delivered"] == 0 {
        std::thread::yield_now();
    }
    let output = listens.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "{\n  \"word\": \"yes\"\n}\n");
    let add = ["schedule", "add", "n", "--every", "1h", "--action", "flow", "--input", "{}"];
    folder.run(&add).fails(1, &["the input of a flow names it"]);
    // The schedule of a flow begins when somebody asks for it, and not before.
    flow(&folder, "tick", TICK);
    let name = "flow:test/tick";
    let said = folder.run(&["run", "tick.yaml"]);
    assert!(said.stderr().contains("--schedule begins it"), "{}", said.stderr());
    folder.run(&["schedule", "pause", name]).fails(3, &[name]);
    let said = folder.run(&["run", "tick.yaml", "--schedule"]);
    assert!(said.stderr().contains("starts by itself"), "{}", said.stderr());
    folder.ok(&["schedule", "pause", name, "--why", "test"]);
    folder.ok(&["schedule", "remove", name]);
    folder.ok(&["run", "tick.yaml"]);
    folder.run(&["schedule", "pause", name]).fails(3, &[name]);
    let over = folder.run(&["cancel", "last"]);
    assert_eq!(over.code(), 1);
    assert!(over.stdout().contains("the server"), "{}", over.stdout());
    signal(&server, "-TERM");
    assert!(server.wait().expect("it ends").success());
    folder.ok(&["list", "--label", "a=b"]);
}

#[cfg(unix)]
#[test]
fn who_interrupts_twice_does_not_wait_for_commands() {
    let folder = Folder::new();
    let deaf = "document: { dsl: '1.0.3', namespace: test, name: deaf, version: '1.0.0' }
do:
  - wait: { run: { shell: { command: \"trap '' TERM; echo $$ > pid; until test -e gate; do sleep 0.02; done\" } } }
";
    flow(&folder, "deaf", deaf);
    let mut command = folder.command(&["run", "deaf.yaml"]);
    command.env("TURNWHEEL_IO_COMMAND_GRACE", "10m").stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary was built for this test");
    let mut said = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    let pid = || std::fs::read_to_string(folder.path("pid")).unwrap_or_default();
    while !pid().ends_with('\n') {
        std::thread::yield_now();
    }
    signal(&child, "-INT");
    assert!(said.any(|line| line.expect("it is text").contains("Ctrl-C again")));
    signal(&child, "-INT");
    assert!(said.any(|line| line.expect("it is text").contains("turnwheel resume")));
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    // The command does not outlive it, and the flow goes on.
    let is_there = || {
        let asked = std::process::Command::new("kill").args(["-0", pid().trim()]).output();
        asked.expect("there is kill").status.success()
    };
    while is_there() {
        std::thread::yield_now();
    }
    folder.write("gate", "");
    folder.ok(&["resume", "last"]);
}

//! Plugins of jobs: those of the examples, and those that do not what they should.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{json, Value};

use super::jobs::over;
use crate::serve_common::{Place, Serve};

/// A hello in shell.
const HELLO: &str = r#"read -r l; echo '{"type":"hello","protocol":1,"version":"9"}'; read -r l"#;

fn install(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::write(&path, text).expect("the folder is writable");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
}

fn serve(place: &Place, more: &[(&str, &str)]) -> Serve {
    let folder = place.path("plugins");
    fs::create_dir_all(&folder).expect("the folder is writable");
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/plugins");
    for name in ["greet.py", "count.sh"] {
        let text = fs::read_to_string(format!("{examples}/{name}")).expect("there are examples");
        install(&folder, name, &text);
    }
    let sh = |body: &str| format!("#!/bin/sh\n{body}\n");
    install(&folder, "turnwheel-executor-exits", &sh("echo 'no licence' >&2; exit 3"));
    install(&folder, "babbles.sh", &sh("read -r l; echo 'hello there'; sleep 600"));
    let other = r#"read -r l; echo '{"type":"hello","protocol":7}'; sleep 600"#;
    install(&folder, "lies.sh", &sh(other));
    let quits = format!("{HELLO}; echo 'out of memory' >&2; exit 1");
    install(&folder, "quits.sh", &sh(&quits));
    let floods = format!(
        "{HELLO}; yes '{{\"type\":\"progress\",\"output\":\"0123456789\"}}' | head -n 100000; \
         echo '{{\"type\":\"result\",\"success\":true}}'"
    );
    install(&folder, "floods.sh", &sh(&floods));
    let long = format!("{HELLO}; head -c 3000000 /dev/zero; sleep 600");
    install(&folder, "long.sh", &sh(&long));
    let hangs = format!("trap '' TERM; {HELLO}; while :; do sleep 1; done");
    install(&folder, "hangs.sh", &sh(&hangs));
    fs::write(folder.join("notes.txt"), "no program").expect("the folder is writable");
    let folder = folder.display().to_string();
    let mut variables = vec![("TURNWHEEL_JOBS_PLUGINS", folder.as_str())];
    variables.extend_from_slice(more);
    place.serve_with(&["--allow-shell"], &variables)
}

/// Runs a job by a plugin; answers its end and its output.
fn run(server: &Serve, plugin: &str, config: &Value, more: &Value) -> (Value, String) {
    let mut body = json!({"schedule": "@manually", "executor": plugin, "config": config});
    for (name, value) in more.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    let path = format!("/api/v1/jobs/by_{plugin}");
    server.send("DELETE", &path, &[], None);
    server.send("PUT", &path, &[], Some(&body.to_string())).ok();
    server.post(&format!("{path}/run"), &json!({})).ok();
    let launch = over(server, &format!("by_{plugin}"));
    let output = server.get(&format!("{path}/launches/1/output")).ok();
    (launch, output["output"].as_str().expect("a text").to_owned())
}

#[test]
fn plugins_have_no_network_and_take_outputs_as_processors() {
    let place = Place::new();
    let folder = place.path("plugins");
    fs::create_dir_all(&folder).expect("the folder is writable");
    let links = format!(
        "{HELLO}; echo \"{{\\\"type\\\":\\\"result\\\",\\\"success\\\":true,\\\"output\\\":\\\"$(grep -c : /proc/net/dev) links\\\"}}\""
    );
    install(&folder, "links.sh", &format!("#!/bin/sh\n{links}\n"));
    let keeps = format!(
        "#!/bin/sh\n{HELLO}; printf '%s\\n' \"$l\" > {}; \
         echo '{{\"type\":\"result\",\"success\":true,\"output\":\"kept\"}}'\n",
        place.path("taken.json").display()
    );
    install(&folder, "turnwheel-processor-keeps", &keeps);
    let fails = format!("#!/bin/sh\n{HELLO}; exit 4\n");
    install(&folder, "turnwheel-processor-fails", &fails);
    let folder = folder.display().to_string();
    let server = place.serve_with(&["--allow-shell"], &[("TURNWHEEL_JOBS_PLUGINS", &folder)]);
    let (launch, output) = run(&server, "links", &json!({}), &json!({}));
    assert_eq!(launch["state"], "succeeded", "{launch}");
    let can_be_alone = std::process::Command::new("unshare").args(["--net", "--", "true"]).status();
    if can_be_alone.is_ok_and(|status| status.success()) {
        assert_eq!(output, "1 links", "only its own loopback, which is down");
    }
    let more = json!({"processors": {
        "keeps": {"order": "1", "tag": "a"}, "fails": {"order": "2", "forward": "true"},
    }});
    let (launch, output) = run(&server, "links", &json!({}), &more);
    assert_eq!((&launch["state"], output.as_str()), (&json!("succeeded"), "kept"));
    let note = launch["runs"][0]["note"].as_str().expect("a text");
    assert!(note.starts_with("processor fails: the plugin fails"), "{note}");
    let taken = fs::read_to_string(place.path("taken.json")).expect("it was written");
    let taken: Value = serde_json::from_str(&taken).expect("a message");
    assert_eq!((&taken["type"], &taken["settings"]["tag"]), (&json!("process"), &json!("a")));
    assert!(taken["output"].as_str().is_some_and(|it| it.ends_with("links")), "{taken}");
    server.stopped();
}

#[test]
fn plugins_in_python_and_shell_do_the_work_of_jobs() {
    let place = Place::new();
    let server = serve(&place, &[]);
    let (launch, output) = run(&server, "greet", &json!({"name": "Ann"}), &json!({}));
    assert_eq!(
        (&launch["state"], output.as_str()),
        (&json!("succeeded"), "looking for a name\nhello Ann\n")
    );
    let (launch, _) = run(&server, "greet", &json!({}), &json!({}));
    assert_eq!(launch["state"], "failed");
    assert_eq!(launch["reason"], "name: there is none in the config");
    let (launch, output) = run(&server, "count", &json!({"type": "hello"}), &json!({}));
    assert_eq!((&launch["state"], output.as_str()), (&json!("succeeded"), "1\n2\n3\n"));
    let body = json!({"schedule": "@manually", "executor": "notes"}).to_string();
    let unknown = server.send("PUT", "/api/v1/jobs/x", &[], Some(&body));
    unknown.is_problem(400, "job-invalid");
    assert!(unknown.text.contains("greet, grpc, hangs, http"), "{}", unknown.text);
    server.stopped();
}

#[test]
fn plugins_that_are_broken_are_a_state_and_never_a_crash() {
    let place = Place::new();
    let server = serve(&place, &[("TURNWHEEL_IO_COMMAND_GRACE", "100ms")]);
    for (plugin, problem) in [
        ("exits", "ended without an answer: no licence"),
        ("babbles", "wrote what is no message: «hello there»"),
        ("lies", "speaks protocol 7, and 1 is wanted"),
        ("quits", "ended without an answer: out of memory"),
        ("long", "a message of more than 1048576 bytes"),
    ] {
        let (launch, _) = run(&server, plugin, &json!({}), &json!({}));
        let reason = launch["reason"].as_str().expect("a text");
        assert_eq!(launch["state"], "failed", "{plugin}");
        assert!(reason.contains(problem) && reason.contains(plugin), "{plugin}: {reason}");
    }
    let (launch, output) = run(&server, "floods", &json!({}), &json!({"output_max": 100}));
    assert_eq!((&launch["state"], output.len()), (&json!("succeeded"), 100));
    assert_eq!(launch["runs"][0]["output_bytes"], 1_000_000);
    assert_eq!(launch["runs"][0]["output_truncated"], true);
    let (launch, _) = run(&server, "hangs", &json!({}), &json!({"timeout": "300ms"}));
    let reason = launch["reason"].as_str().expect("a text");
    assert!(reason.contains("the plugin hangs ran longer than 300ms"), "{reason}");
    let list = server.get("/api/v1/job-executors").ok();
    let state = |name: &str| {
        let all = list["executors"].as_array().expect("a list");
        all.iter().find(|it| it["name"] == name).cloned().expect("it is known")
    };
    assert_eq!(
        (&state("greet")["is_ready"], &state("shell")["is_ready"]),
        (&json!(true), &json!(true))
    );
    assert_eq!((&state("greet")["detail"]), &json!("plugin 1.0"));
    for name in ["exits", "babbles", "lies", "quits", "hangs"] {
        assert_eq!(state(name)["is_ready"], false, "{name}");
    }
    assert!(state("hangs")["detail"].as_str().expect("a text").contains("within 5s"));
    let shown = place.ok(&["job", "executors"]);
    assert!(shown.contains("speaks protocol 7"), "{shown}");
    server.stopped();
}

//! Jobs over a real store and server: the command line, Dkron's API, commands.

use serde_json::{json, Value};
use turnwheel::engine::Time;

use crate::serve_common::{eventually, Place, Serve};

/// The first launch of a job, once it is over.
pub(crate) fn over(server: &Serve, job: &str) -> Value {
    eventually(&format!("the launch of {job} ends"), || {
        let answer = server.get(&format!("/api/v1/jobs/{job}/history")).ok();
        let launch = answer["launches"].as_array().and_then(|all| all.last()).cloned();
        launch.filter(|launch| !launch["ended_at"].is_null())
    })
}

pub(crate) fn shell(server: &Serve, job: &str, config: &Value) -> (Value, String) {
    let body = json!({"schedule": "@manually", "config": config});
    let path = format!("/api/v1/jobs/{job}");
    server.send("PUT", &path, &[], Some(&body.to_string())).ok();
    server.post(&format!("{path}/run"), &json!({})).ok();
    let launch = over(server, job);
    let output = server.get(&format!("{path}/launches/1/output")).ok();
    (launch, output["output"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn run_has_the_time_that_its_command_took() {
    let place = Place::new();
    let server = place.serve(&["--allow-shell"]);
    let (launch, _) = shell(&server, "slow", &json!({"command": "sleep 0.3"}));
    let run = &launch["runs"][0];
    let time = |of: &Value| of.as_str().and_then(|text| text.parse::<Time>().ok());
    let (began, ended) = (time(&run["started_at"]), time(&run["ended_at"]));
    let took = ended.expect("it has an end").0 - began.expect("it has a begin").0;
    assert!((300_000..60_000_000).contains(&took), "{launch}");
}

#[test]
fn jobs_are_made_and_run_by_the_command_line() {
    let place = Place::new();
    let server = place.serve(&["--allow-shell"]);
    let added = place.ok(&[
        "job",
        "add",
        "hello",
        "--schedule",
        "@every 1h",
        "--command",
        "echo 'hi there'",
        "--overlap",
        "forbid",
        "--retries",
        "1",
    ]);
    assert!(added.contains("hello is stored; its next time is"), "{added}");
    assert_eq!(place.ok(&["job", "run", "hello"]), "hello is launched: launch 1\n");
    assert_eq!(over(&server, "hello")["state"], "succeeded");
    assert_eq!(place.ok(&["job", "history", "hello", "--output", "1"]), "hi there\n");
    assert!(place.ok(&["job", "list"]).contains("hello"));
    assert_eq!(place.ok(&["job", "next", "hello", "-n", "3"]).lines().count(), 3);
    // Names are parts of paths.
    let added = ["job", "add", "añada_1", "--schedule", "@daily", "--command", "true"];
    assert!(place.ok(&added).contains("añada_1 is stored"));
    assert_eq!(place.ok(&["job", "rm", "añada_1"]), "añada_1 is removed\n");
    let refused = place.run(&["job", "add", "A b", "--schedule", "@daily", "--command", "true"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("lower-case letters"), "{refused:?}");
    assert_eq!(place.ok(&["job", "toggle", "hello"]), "hello is off\n");
    let exported = place.ok(&["job", "export"]);
    server.stopped();
    // The same without a server: edits only.
    let shown = place.json(&["job", "show", "hello"]);
    assert_eq!((&shown["spec"]["disabled"], &shown["success"]), (&json!(true), &json!(1)));
    let refused = place.run(&["job", "run", "hello"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("turnwheel serve"), "{refused:?}");
    assert_eq!(place.ok(&["job", "rm", "hello"]), "hello is removed\n");
    assert_eq!(place.run(&["job", "show", "hello"]).status.code(), Some(3));
    let file = place.write("jobs.json", &exported);
    assert_eq!(place.ok(&["job", "import", &file]), "success create hello\n");
    assert_eq!(place.ok(&["job", "import", &file]), "success create hello\n");
    assert_eq!(place.json(&["job", "show", "hello"])["revision"], 1, "nothing has changed");
}

#[test]
fn a_job_is_launched_once_for_each_idempotency_key() {
    let place = Place::new();
    let server = place.serve(&["--allow-shell"]);
    let body = json!({"schedule": "@manually", "config": {"command": "true"}});
    server.send("PUT", "/api/v1/jobs/j1", &[], Some(&body.to_string())).ok();
    let run = |server: &Serve, path: &str, key: &str, body: &str| {
        server.send("POST", path, &[("idempotency-key", key)], Some(body))
    };
    let (path, plain) = ("/api/v1/jobs/j1/run", "{}");
    let first = run(&server, path, "jr", plain);
    assert_eq!(
        (first.ok()["launch"].as_u64(), first.header("idempotency-replayed")),
        (Some(1), "")
    );
    let again = run(&server, path, "jr", plain);
    assert_eq!(again.ok()["launch"], 1);
    assert_eq!(again.header("idempotency-replayed"), "true");
    run(&server, path, "jr", r#"{"force": true}"#).is_problem(422, "key-reused");
    // Clients of Dkron have the same key, and a restart forgets none.
    assert_eq!(run(&server, "/v1/jobs/j1/run", "jr", "").header("idempotency-replayed"), "true");
    over(&server, "j1");
    server.stopped();
    let server = place.serve(&["--allow-shell"]);
    assert_eq!(run(&server, path, "jr", plain).ok()["launch"], 1);
    assert_eq!(run(&server, path, "other", plain).ok()["launch"], 2);
    let toggled = run(&server, "/api/v1/jobs/j1/toggle", "t", plain);
    toggled.is_problem(422, "body-invalid");
    assert!(toggled.json()["detail"].as_str().unwrap().contains("say «disabled»"));
}

#[test]
fn commands_have_the_settings_of_dkron() {
    let place = Place::new();
    let server = place.serve(&["--allow-shell"]);
    let (launch, output) = shell(&server, "fails", &json!({"command": "sh -c 'echo no; exit 3'"}));
    assert_eq!((&launch["state"], output.as_str()), (&json!("failed"), "no\n"));
    assert_eq!(launch["reason"], "its exit code is 3");
    let slow = json!({"command": "sh -c 'sleep 30 & sleep 30'", "timeout": "1s"});
    let (launch, output) = shell(&server, "slow", &slow);
    assert_eq!(launch["state"], "failed");
    assert!(output.contains("ran longer than 1s"), "{output}");
    let (_, output) = shell(&server, "input", &json!({"command": "cat", "payload": "aGVsbG8="}));
    assert_eq!(output, "hello");
    let (_, output) = shell(&server, "plain", &json!({"command": "echo a && echo b"}));
    assert_eq!(output, "a && echo b\n");
    let both = json!({"command": "echo a && echo $ENV_JOB_NAME $X", "shell": "true", "env": "X=1"});
    assert_eq!(shell(&server, "both", &both).1, "a\nboth 1\n");
    let (launch, _) = shell(&server, "none", &json!({"command": "no-such-program"}));
    assert!(launch["reason"].as_str().expect("it has one").contains("could not be started"));
    assert_eq!(shell(&server, "where", &json!({"command": "pwd", "cwd": "/"})).1, "/\n");
    for (config, problem) in [
        (json!({"command": " "}), "command: it is empty"),
        (json!({"command": "a", "timeout": "soon"}), "timeout: «soon»"),
        (json!({"command": "a", "mem_limit": "-5MB"}), "mem_limit"),
        (json!({"command": "a", "payload": "%"}), "payload: it is not base64"),
        (json!({"command": "a", "sue": "x"}), "sue: shell has no such setting"),
    ] {
        let body = json!({"schedule": "@manually", "config": config});
        let answer = server.send("PUT", "/api/v1/jobs/bad", &[], Some(&body.to_string()));
        answer.is_problem(400, "job-invalid");
        assert!(answer.text.contains(problem), "{problem}: {}", answer.text);
    }
    server.stopped();
}

fn dkron(name: &str, more: &Value) -> Value {
    let mut job = json!({
        "name": name, "schedule": "@manually", "executor": "shell",
        "executor_config": {"command": "echo done"},
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        job[field] = value.clone();
    }
    job
}

#[test]
fn clients_of_dkron_are_answered() {
    let place = Place::new();
    let server = place.serve(&["--allow-shell"]);
    let made = server.post("/v1/jobs", &dkron("one", &json!({"metadata": {"team": "a"}})));
    assert_eq!((made.status, made.header("location")), (201, "/v1/jobs/one"));
    assert!(!made.header("x-whom").is_empty());
    assert_eq!(server.post("/v1/jobs", &dkron("one", &json!({"owner": "ann"}))).status, 201);
    assert_eq!(server.get("/v1/jobs/one").ok()["metadata"], json!({}), "it is replaced");
    let patch = json!({"name": "one", "metadata": {"team": "a"}}).to_string();
    let patched = server.send("PATCH", "/v1/jobs", &[], Some(&patch)).ok();
    assert_eq!((&patched["owner"], &patched["metadata"]["team"]), (&json!("ann"), &json!("a")));
    let nobody = dkron("nobody", &json!({})).to_string();
    server.send("PATCH", "/v1/jobs", &[], Some(&nobody)).is_problem(404, "job-unknown");
    server.send("PUT", "/api/v1/jobs/one", &[], Some("[\"one\"]")).is_problem(422, "body-invalid");
    for (more, says) in [
        (json!({"name": "One"}), "name"),
        (json!({"concurrency": "sometimes"}), "none of allow and forbid"),
        (json!({"executor_config": {"command": "a", "timeout": "x"}}), "timeout"),
        (json!({"parent_job": "bad"}), "after itself"),
        (json!({"retries": "many"}), "retries"),
        (json!({"starts_at": "soon"}), "starts_at"),
    ] {
        let answer = server.post("/v1/jobs", &dkron("bad", &more));
        answer.is_problem(400, "job-invalid");
        assert!(answer.text.contains(says), "{says}: {}", answer.text);
    }
    let lone = server.post("/v1/jobs", &dkron("lone", &json!({"parent_job": "nobody"})));
    lone.is_problem(404, "job-unknown");
    server.get("/v1/jobs/lone").is_problem(404, "job-unknown");
    server.post("/v1/jobs", &dkron("child", &json!({"parent_job": "one"}))).ok();
    assert_eq!(server.get("/v1/jobs/one").ok()["dependent_jobs"], json!(["child"]));
    server.send("DELETE", "/v1/jobs/one", &[], None).is_problem(409, "job-state");
    let list = server.get("/v1/jobs?_sort=name&_order=DESC&_start=0&_end=1");
    assert_eq!((list.header("x-total-count"), &list.ok()[0]["name"]), ("2", &json!("one")));
    assert_eq!(server.get("/v1/jobs?_start=7&_end=9").ok(), json!([]));
    server.get("/v1/jobs?_start=-1").is_problem(400, "query-invalid");
    assert_eq!(server.get("/v1/jobs?metadata[team]=a").ok()[0]["name"], "one");
    assert_eq!(server.get("/v1/jobs?metadata[team]=b").ok(), json!([]));
    assert_eq!(server.get("/v1/jobs?status=untriggered&q=chi").ok()[0]["name"], "child");
    assert_eq!(server.get("/v1/jobs/one/executions").ok(), json!([]));
    let run = server.post("/v1/jobs/one/run", &json!({}));
    assert_eq!(run.status, 202);
    over(&server, "one");
    over(&server, "child");
    let executions = server.get("/v1/jobs/one/executions?output_size_limit=2").ok();
    let first = &executions[0];
    assert_eq!((&first["output"], &first["output_truncated"]), (&json!("e\n"), &json!(true)));
    assert_eq!(first["id"], run.header("x-execution-id"));
    let whole = server.get(&format!("/v1/jobs/one/executions/{}", run.header("x-execution-id")));
    assert_eq!(whole.ok()["output"], "done\n");
    server.get("/v1/jobs/one/executions/9-1-x").is_problem(404, "job-unknown");
    let emptied = server.send("DELETE", "/v1/jobs/one/executions", &[], None).ok();
    assert_eq!((&emptied["success_count"], &emptied["last_success"]), (&json!(0), &Value::Null));
    assert_eq!(server.send("POST", "/v1/jobs/child/toggle", &[], None).ok()["disabled"], true);
    assert_eq!((server.get("/v1/busy").ok(), server.get("/v1/isleader").status), (json!([]), 200));
    assert_eq!(server.get("/v1/members").ok()[0]["statusText"], "alive");
    server.send("POST", "/v1/pause", &[], None).ok();
    server.post("/v1/jobs", &dkron("two", &json!({}))).is_problem(503, "jobs-paused");
    server.send("POST", "/v1/unpause", &[], None).ok();
    let made = server.post("/v1/jobs?runoncreate=true", &dkron("two", &json!({})));
    assert_eq!((made.status, made.header("x-execution-id").is_empty()), (201, false));
    over(&server, "two");
    let executions = server.get("/v1/jobs/two/executions").ok();
    assert_eq!(executions[0]["id"], made.header("x-execution-id"));
    assert_eq!(server.send("DELETE", "/v1/jobs/child", &[], None).ok()["name"], "child");
    server.send("DELETE", "/v1/jobs/child", &[], None).is_problem(404, "job-unknown");
    server.stopped();
}

#[test]
fn a_launch_that_no_node_takes_is_an_execution_for_clients_of_dkron() {
    let place = Place::new();
    let server = place.serve(&["--allow-shell"]);
    server.post("/v1/jobs", &dkron("far", &json!({"tags": {"region": "mars"}}))).ok();
    server.post("/v1/jobs/far/run", &json!({})).ok();
    let far = server.get("/v1/jobs/far/executions").ok();
    let said = far[0]["output"].as_str().unwrap_or_default();
    assert!(said.contains("region") && far[0]["node_name"] == "", "{far}");
    let path = format!("/v1/jobs/far/executions/{}", far[0]["id"].as_str().unwrap_or_default());
    assert_eq!(server.get(&path).ok()["output"], far[0]["output"]);
    server.send("DELETE", "/v1/jobs/far", &[], None).ok();
    server.stopped();
}

#[test]
fn a_backup_of_dkron_is_restored_and_imported() {
    let place = Place::new();
    let server = place.serve(&["--allow-shell"]);
    let backup = json!([
        dkron("leaf", &json!({"parent_job": "stem", "id": "leaf", "success_count": 7})),
        dkron("stem", &json!({"parent_job": "root", "tags": null})),
        dkron("root", &json!({"schedule": "0 0 ~ * * *", "next": "2020-01-01T00:00:00Z"})),
        dkron("odd", &json!({"executor": "carrier-pigeon"})),
    ]);
    let kind = [("content-type", "multipart/form-data; boundary=x")];
    let form = server.send("POST", "/v1/restore", &kind, Some("--x--"));
    form.is_problem(415, "body-type-wrong");
    let report = server.post("/v1/restore", &backup).ok();
    let lines: Vec<&str> =
        report.as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert!(lines.contains(&"success create leaf") && lines.len() == 4, "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("fail create odd:")), "{lines:?}");
    let file = place.write("dkron.json", &backup.to_string());
    let again = place.run(&["job", "import", "--from", "dkron", &file]);
    let said = String::from_utf8_lossy(&again.stdout).into_owned();
    assert_eq!(again.status.code(), Some(1), "one is refused: {said}");
    assert!(said.contains("success create root\n  ~ keeps its value in Dkron"), "{said}");
    assert_eq!(server.get("/api/v1/jobs/root").ok()["revision"], 1, "nothing has changed");
    let lone = json!([dkron("leaf", &json!({"parent_job": "gone"}))]).to_string();
    let answer = server.send("POST", "/v1/restore", &[], Some(&lone));
    let told = answer.ok();
    let line = told[0].as_str().expect("a line");
    assert!(line.starts_with("fail create leaf:") && line.contains("gone"), "{told}");
    server.stopped();
}

#[test]
fn a_hundred_jobs_of_all_kinds_come_from_a_server_of_dkron() {
    let (old, new) = (Place::new(), Place::new());
    let server = old.serve(&["--allow-shell"]);
    let schedules = ["@daily", "0 */5 * * * *", "@every 1h", "@manually", "0 0 ~ * * *"];
    let mut backup = Vec::new();
    for number in 0..100 {
        let mut more = json!({
            "schedule": schedules[number % 5], "retries": number % 3,
            "concurrency": if number % 2 == 0 { "allow" } else { "forbid" },
            "metadata": {"number": number.to_string()}, "ephemeral": number == 7,
            "timezone": if number % 4 == 0 { "Europe/Madrid" } else { "" },
            "processors": if number % 10 == 0 { json!({"files": {"forward": "true"}}) } else { json!({}) },
        });
        if number % 10 == 3 {
            more["parent_job"] = json!(format!("job_{}", number + 1));
        }
        if number % 10 == 5 {
            more["executor"] = json!("http");
            more["executor_config"] = json!({"method": "GET", "url": "http://127.0.0.1:9/"});
        }
        backup.push(dkron(&format!("job_{number}"), &more));
    }
    let report = server.post("/v1/restore", &json!(backup)).ok();
    let restored = report.as_array().expect("a list").iter().filter_map(Value::as_str);
    assert_eq!(restored.filter(|line| line.starts_with("success create")).count(), 100, "{report}");
    let both = new.serve(&["--allow-shell"]);
    let said = new.ok(&["job", "import", "--from", "dkron", &server.url]);
    let made = said.lines().filter(|line| line.starts_with("success create job_"));
    assert_eq!(made.count(), 100, "{said}");
    let list = both.get("/v1/jobs?_start=0&_end=5");
    assert_eq!(
        (list.header("x-total-count"), list.ok().as_array().map(Vec::len)),
        ("100", Some(5))
    );
    for name in ["job_3", "job_5", "job_20", "job_24"] {
        let fields = ["schedule", "parent_job", "executor", "processors", "timezone", "next"];
        let (was, is) = (
            server.get(&format!("/v1/jobs/{name}")).ok(),
            both.get(&format!("/v1/jobs/{name}")).ok(),
        );
        fields.iter().for_each(|field| assert_eq!(was[field], is[field], "{name}: {field}"));
    }
    both.post("/v1/jobs/job_3/run", &json!({})).ok();
    over(&both, "job_3");
    assert_eq!(both.figure("turnwheel_job_runs_succeeded_total{job=\"job_3\"}"), 1);
    server.stopped();
    both.stopped();
    let refused = new.run(&["job", "import", "--from", "dkron", "http://127.0.0.1:9"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("http://127.0.0.1:9/v1/jobs"),
        "{refused:?}"
    );
}

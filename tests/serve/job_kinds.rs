//! Jobs whose work is a flow, a container or a request with certificates; names that nothing has; and
//! outcomes that nobody knows.

use serde_json::{json, Value};

use super::jobs::over;
use crate::serve_common::{eventually, Place, Serve};

fn put(server: &Serve, name: &str, job: &Value) {
    let path = format!("/api/v1/jobs/{name}");
    server.send("PUT", &path, &[], Some(&job.to_string())).ok();
}

/// Makes a job, runs it, and answers its end and its output.
fn run(server: &Serve, name: &str, job: Value) -> (Value, String) {
    let mut job = job;
    job["schedule"] = json!("@manually");
    put(server, name, &job);
    server.post(&format!("/api/v1/jobs/{name}/run"), &json!({})).ok();
    let launch = over(server, name);
    let id = &launch["id"];
    let output = server.get(&format!("/api/v1/jobs/{name}/launches/{id}/output")).ok();
    (launch, output["output"].as_str().unwrap_or_default().to_owned())
}

fn flow(name: &str, task: Value) -> Value {
    json!({
        "document": {"dsl": "1.0.3", "namespace": "cron", "name": name, "version": "1.0.0"},
        "do": [{"work": task}],
    })
}

#[test]
fn a_job_runs_a_flow_once_and_has_its_output() {
    let place = Place::new();
    let server = place.serve(&[]);
    let set = json!({"set": {"text": "${ \"day \\(.day)\" }"}});
    server.post("/api/v1/flows", &flow("report", set)).ok();
    let raise = json!({"raise": {"error": {
        "type": "https://serverlessworkflow.io/spec/1.0.0/errors/runtime", "status": 500,
        "title": "no paper",
    }}});
    server.post("/api/v1/flows", &flow("fails", raise)).ok();
    server.post("/api/v1/flows", &flow("long", json!({"wait": {"hours": 1}}))).ok();
    let job = |name: &str, input: &str| {
        let config = json!({"flow": name, "input": input});
        json!({"executor": "flow", "config": config})
    };
    let (launch, output) = run(&server, "daily", job("cron/report", "{\"day\": 7}"));
    assert_eq!((&launch["state"], output.as_str()), (&json!("succeeded"), "{\"text\":\"day 7\"}"));
    let plans = server.get("/api/v1/plans?labels=job%3Ddaily").ok();
    let flows = plans["plans"].as_array().expect("a list").iter();
    assert_eq!(flows.filter(|plan| plan["action"] != "job.run").count(), 1, "{plans}");
    let (launch, _) = run(&server, "bad", job("fails", ""));
    assert_eq!(launch["state"], "failed");
    assert!(launch["reason"].as_str().is_some_and(|it| it.contains("no paper")), "{launch}");
    let (launch, _) = run(&server, "gone", job("nobody", ""));
    let reason = launch["reason"].as_str().expect("a reason");
    assert!(reason.contains("turnwheel flow list"), "{reason}");
    let mut late = job("long:1.0.0", "");
    late["timeout"] = json!("1s");
    let (launch, _) = run(&server, "late", late);
    let reason = launch["reason"].as_str().expect("a reason");
    assert!(reason.contains("ran longer than 1s"), "{reason}");
    // A cancel ends the flow too.
    put(
        &server,
        "stuck",
        &json!({
            "schedule": "@manually", "executor": "flow", "config": {"flow": "long"},
        }),
    );
    server.post("/api/v1/jobs/stuck/run", &json!({})).ok();
    let flows = |state: &str| {
        let plans = server.get(&format!("/api/v1/plans?labels=job%3Dstuck&state={state}")).ok();
        let plans = plans["plans"].as_array().expect("a list").clone();
        plans.into_iter().filter(|plan| plan["action"] != "job.run").count()
    };
    eventually("the flow goes on", || (flows("running") == 1).then_some(()));
    let busy = server.get("/v1/busy").ok();
    assert!(!busy[0]["started_at"].is_null() && busy[0]["finished_at"].is_null(), "{busy}");
    let shown = server.get("/api/v1/jobs/stuck").ok();
    assert!(!shown["active"][0]["runs"][0]["started_at"].is_null(), "{shown}");
    server.post("/api/v1/jobs/stuck/cancel", &json!({"launch": 1})).ok();
    assert_eq!(over(&server, "stuck")["state"], "cancelled");
    eventually("the flow has ended", || (flows("stopped") == 1).then_some(()));
    server.stopped();
}

#[test]
fn a_flow_of_a_job_is_found_again_when_the_server_was_killed_as_it_began() {
    let place = Place::new();
    let server = place.serve(&[]);
    server.post("/api/v1/flows", &flow("brief", json!({"wait": {"seconds": 2}}))).ok();
    let job = json!({
        "schedule": "@manually", "executor": "flow", "config": {"flow": "brief"},
        "overlap": "forbid", "unknown": "fail",
    });
    put(&server, "keeps", &job);
    server.post("/api/v1/jobs/keeps/run", &json!({})).ok();
    let flows = |server: &Serve| {
        let plans = server.get("/api/v1/plans?labels=job%3Dkeeps").ok();
        let plans = plans["plans"].as_array().expect("a list").clone();
        plans.into_iter().filter(|plan| plan["action"] != "job.run").count()
    };
    // The first call of the executor looks at the flow for a second.
    eventually("the flow has begun", || (flows(&server) == 1).then_some(()));
    server.killed();
    let server = place.serve(&[]);
    let launch = over(&server, "keeps");
    assert_eq!((&launch["id"], &launch["state"]), (&json!(1), &json!("succeeded")), "{launch}");
    assert_eq!(flows(&server), 1, "it is the same flow");
    server.stopped();
}

#[test]
fn names_of_executors_that_are_not_here_are_refused_with_what_to_do() {
    let place = Place::new();
    let server = place.serve(&["--allow-shell"]);
    for (executor, config, says) in [
        ("kafka", json!({}), "the executor «kafka» is not here"),
        ("gcppubsub", json!({}), "jobs.plugins"),
        ("ecs", json!({}), "the executor «ecs» is not here"),
        ("telepathy", json!({}), "there is no executor «telepathy» here; there are: container"),
        ("container", json!({}), "image: it is empty"),
        ("docker", json!({"image": "a", "env": "X"}), "env: «X» is no pair"),
        ("container", json!({"image": "a", "pull": "now"}), "pull: «now»"),
        ("container", json!({"image": "a", "arguments": "x"}), "arguments: a JSON list"),
        ("flow", json!({}), "flow: it is empty"),
        ("flow", json!({"flow": "a", "input": "{"}), "input: JSON is wanted"),
        ("shell", json!({"command": "a", "su": ":x"}), "su: «:x» is no user"),
        ("http", json!({"method": "GET", "url": "http://a", "tlsCertificateFile": "x"}), "the key"),
        ("http", json!({"method": "GET", "url": "http://a", "tlsNoVerifyPeer": "y"}), "neither"),
    ] {
        let body = json!({"schedule": "@manually", "executor": executor, "config": config});
        let answer = server.send("PUT", "/api/v1/jobs/bad", &[], Some(&body.to_string()));
        answer.is_problem(400, "job-invalid");
        assert!(answer.text.contains(says), "{says}: {}", answer.text);
    }
    server.stopped();
}

#[test]
fn commands_run_as_another_user_if_the_server_may_do_that() {
    let place = Place::new();
    let server = place.serve(&["--allow-shell"]);
    let job = |su: &str| json!({"config": {"command": "id -un", "su": su}});
    let (launch, output) = run(&server, "other", job("nobody"));
    match rustix::process::geteuid().is_root() {
        true => assert_eq!(output, "nobody\n", "{launch}"),
        false => {
            let reason = launch["reason"].as_str().expect("a reason");
            assert!(reason.contains("runs as root"), "{reason}");
        }
    }
    let (launch, _) = run(&server, "missing", job("nobody-of-this-name"));
    let reason = launch["reason"].as_str().expect("a reason");
    assert!(reason.contains("has no user «nobody-of-this-name»"), "{reason}");
    server.stopped();
}

#[cfg(feature = "tls")]
#[test]
fn requests_have_certificates_and_roots_of_their_own() {
    let place = Place::new();
    let key = rcgen::KeyPair::generate().expect("a key");
    let names = vec!["127.0.0.1".to_owned()];
    let made = rcgen::CertificateParams::new(names).expect("names").self_signed(&key);
    let chain = place.write("chain.pem", &made.expect("a certificate").pem());
    let private = place.write("key.pem", &key.serialize_pem());
    let server =
        place.serve(&["--allow-shell", "--tls-certificates", &chain, "--tls-key", &private]);
    let verb = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        let output = command.env("TURNWHEEL_SERVER_CERTIFICATES", &chain).output();
        String::from_utf8_lossy(&output.expect("it runs").stdout).into_owned()
    };
    let url = format!("{}/health/live", server.url);
    let state = |name: &str, more: &[(&str, &str)]| {
        let mut config = json!({"method": "GET", "url": url, "expectCode": "204"});
        for (setting, value) in more {
            config[*setting] = json!(value);
        }
        let job = json!([{
            "name": name, "schedule": "@manually", "executor": "http", "config": config,
        }]);
        let file = place.write("job.json", &job.to_string());
        verb(&["job", "import", &file]);
        verb(&["job", "run", name]);
        eventually("its launch ends", || {
            let shown = verb(&["job", "history", name, "--json"]);
            let shown: Value = serde_json::from_str(&shown).ok()?;
            let launch = shown["launches"][0].clone();
            (!launch["ended_at"].is_null()).then_some(launch)
        })
    };
    assert_eq!(state("untrusted", &[])["state"], "failed");
    let trusting = state("trusting", &[("tlsRootCAsFile", &chain)]);
    assert_eq!(trusting["state"], "succeeded", "{trusting}");
    let careless = state("careless", &[("tlsNoVerifyPeer", "true")]);
    assert_eq!(careless["state"], "succeeded", "{careless}");
    let both = [
        ("tlsRootCAsFile", chain.as_str()),
        ("tlsCertificateFile", &chain),
        ("tlsCertificateKeyFile", &private),
    ];
    assert_eq!(state("known", &both)["state"], "succeeded");
    let missing = state("missing", &[("tlsRootCAsFile", "/no/such.pem")]);
    let reason = missing["reason"].as_str().expect("a reason");
    assert!(reason.contains("tlsRootCAsFile: /no/such.pem"), "{reason}");
    let strange = state("strange", &[("tlsRootCAsFile", &private)]);
    assert!(strange["reason"].as_str().is_some_and(|it| it.contains("no certificate")));
    server.stopped();
}

#[test]
fn a_person_says_what_became_of_a_run_whose_server_was_killed() {
    let place = Place::new();
    let server = place.serve(&["--allow-shell"]);
    for name in ["paid", "unpaid"] {
        put(
            &server,
            name,
            &json!({
                "schedule": "@manually", "unknown": "ask", "config": {"command": "sleep 600"},
            }),
        );
        server.post(&format!("/api/v1/jobs/{name}/run"), &json!({})).ok();
        eventually("it has begun", || {
            let shown = server.get(&format!("/api/v1/jobs/{name}")).ok();
            (!shown["active"][0]["runs"][0]["started_at"].is_null()).then_some(())
        });
    }
    server.killed();
    let server = place.serve(&["--allow-shell"]);
    for name in ["paid", "unpaid"] {
        let launch = eventually("nobody knows its outcome", || {
            let shown = server.get(&format!("/api/v1/jobs/{name}")).ok();
            let launch = shown["active"][0].clone();
            (launch["state"] == "unknown").then_some(launch)
        });
        assert!(launch["reason"].as_str().is_some_and(|it| it.contains("job answer")), "{launch}");
    }
    assert_eq!(
        place.ok(&["job", "answer", "paid", "1", "succeeded"]),
        "launch 1 of paid: succeeded\n"
    );
    let body = json!({"launch": 1, "outcome": "failed"});
    server.post("/api/v1/jobs/unpaid/answer", &body).ok();
    server.post("/api/v1/jobs/unpaid/answer", &body).is_problem(409, "job-state");
    let odd = json!({"launch": 1, "outcome": "maybe"});
    server.post("/api/v1/jobs/unpaid/answer", &odd).is_problem(422, "body-invalid");
    assert_eq!(over(&server, "paid")["state"], "succeeded");
    let failed = over(&server, "unpaid");
    assert_eq!((&failed["state"], &failed["cancelled_by"]), (&json!("failed"), &Value::Null));
    assert!(!failed["answered_by"].is_null(), "{failed}");
    server.stopped();
}

#[test]
fn a_patch_of_dkron_leaves_what_dkron_does_not_know() {
    let place = Place::new();
    let server = place.serve(&["--allow-shell"]);
    put(
        &server,
        "rich",
        &json!({
            "schedule": "@daily", "config": {"command": "true"}, "jitter": "5m", "deadline": "1h",
            "overlap": "queue_one", "missed": {"all": "2h"}, "unknown": "ask", "nodes": "all",
        }),
    );
    let patch = json!({"name": "rich", "owner": "ann", "concurrency": "forbid"}).to_string();
    server.send("PATCH", "/v1/jobs", &[], Some(&patch));
    let spec = server.get("/api/v1/jobs/rich").ok()["spec"].clone();
    let kept = ["jitter", "deadline", "overlap", "unknown", "nodes", "owner"];
    let kept = kept.map(|field| spec[field].as_str().unwrap_or_default().to_owned());
    assert_eq!(kept, ["5m", "1h", "queue_one", "ask", "all", "ann"], "{spec}");
    assert_eq!(spec["missed"], json!({"all": "2h"}));
    let nameless = json!({"owner": "bob"}).to_string();
    server.send("PATCH", "/v1/jobs", &[], Some(&nameless)).is_problem(400, "job-invalid");
    // More jobs than a page: an export has all of them, and a list of Dkron is cut where it says.
    let many: Vec<Value> = (0..1_100)
        .map(|number| json!({
            "name": format!("n{number:04}"), "schedule": "@manually", "config": {"command": "true"},
        }))
        .collect();
    let file = place.write("many.json", &json!(many).to_string());
    place.ok(&["job", "import", &file]);
    let exported: Value = serde_json::from_str(&place.ok(&["job", "export"])).expect("JSON");
    assert_eq!(exported.as_array().map(Vec::len), Some(1_101));
    assert!(place
        .ok(&["job", "apply", &file, "--dry-run"])
        .contains("0 to add, 0 to change, 1100"));
    let page = server.get("/v1/jobs?_sort=name&_order=DESC&_start=1&_end=3");
    assert_eq!(page.header("x-total-count"), "1101");
    let names: Vec<Value> =
        page.ok().as_array().expect("a list").iter().map(|job| job["name"].clone()).collect();
    assert_eq!(names, ["n1099", "n1098"]);
    let beyond = server.get("/v1/jobs?_start=5000&_end=6000");
    assert_eq!((beyond.header("x-total-count"), beyond.ok()), ("1101", json!([])));
    let sorted = server.get("/v1/jobs?_sort=success_count&_start=0&_end=2").ok();
    assert_eq!((&sorted[0]["name"], &sorted[1]["name"]), (&json!("n0000"), &json!("n0001")));
    let all = server.get("/v1/jobs").ok();
    let all = all.as_array().expect("a list").iter().map(|job| job["name"].clone());
    let all: Vec<Value> = all.collect();
    assert_eq!((all.len(), &all[0], &all[1_100]), (1_101, &json!("n0000"), &json!("rich")));
    let part = server.get("/v1/jobs?_start=1099&_end=1200&q=n1").ok();
    assert_eq!(part, json!([]), "the places are those of the jobs that fit");
    server.stopped();
}

#[test]
fn a_child_of_a_parent_that_is_gone_is_exported_and_imported() {
    let place = Place::new();
    let server = place.serve(&["--allow-shell"]);
    put(
        &server,
        "once",
        &json!({
            "schedule": "@manually", "ephemeral": true, "config": {"command": "true"},
        }),
    );
    put(&server, "then", &json!({"after": [{"job": "once"}], "config": {"command": "true"}}));
    server.post("/api/v1/jobs/once/run", &json!({})).ok();
    eventually("it is removed after its success", || {
        (server.get("/api/v1/jobs/once").status == 404).then_some(())
    });
    let exported = place.ok(&["job", "export"]);
    let backup = server.get("/v1/jobs").text;
    let file = place.write("export.json", &exported);
    assert!(place.ok(&["job", "apply", &file, "--dry-run"]).contains("1 as they are"));
    server.send("DELETE", "/api/v1/jobs/then", &[], None).ok();
    assert_eq!(place.ok(&["job", "import", &file]), "success create then\n");
    let shown = server.get("/api/v1/jobs/then").ok();
    assert_eq!(shown["spec"]["after"], json!([{"job": "once", "on": "success"}]));
    assert!(shown["problem"].as_str().is_some_and(|it| it.contains("once")), "{shown}");
    server.send("DELETE", "/api/v1/jobs/then", &[], None).ok();
    let restored = server.send("POST", "/v1/restore", &[], Some(&backup)).ok();
    assert_eq!(restored, json!(["success create then"]));
    // A parent that is missing without a word is refused, as before.
    server.send("DELETE", "/api/v1/jobs/then", &[], None).ok();
    let job = json!({"after": [{"job": "once"}], "config": {"command": "true"}}).to_string();
    server.send("PUT", "/api/v1/jobs/then", &[], Some(&job)).is_problem(404, "job-unknown");
    server.stopped();
}

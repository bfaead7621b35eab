//! `turnwheel serve` as a process: who may ask, over what, and what they may rely on.
#![cfg(all(feature = "server", feature = "cli", unix))]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{json, Value};

use crate::serve_common::{agent, eventually, Place};

#[test]
fn roles_are_read_or_operate_and_other_machines_need_a_token() {
    let place = Place::new();
    let open = place.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(open.status.code(), Some(2));
    let said = String::from_utf8_lossy(&open.stderr);
    assert!(said.contains("other machines") && said.contains("--tokens"), "{said}");

    let tokens = place.write("tokens.txt", "# who may\noperate ann s3cret\n\nread bob look\n");
    let mut server = place.serve(&["--listen", "0.0.0.0:0", "--tokens", &tokens]);
    let body = json!({"action": "external", "input": {"topic": "t"}});
    server.get("/api/v1/plans").is_problem(401, "unauthorized");
    server.post("/api/v1/plans", &body).is_problem(401, "unauthorized");
    assert_eq!(server.get("/health").status, 200, "a load balancer has no token");
    server.token = Some("look".to_owned());
    assert_eq!(server.get("/api/v1/plans").status, 200);
    server.post("/api/v1/plans", &body).is_problem(403, "forbidden");
    server.token = Some("s3cret".to_owned());
    let plan = server.post("/api/v1/plans", &body).ok()["id"].clone();
    let plan = server.get(&format!("/api/v1/plans/{}", plan.as_str().expect("an id"))).ok();
    assert_eq!(plan["by"], "ann");
    server.stopped();
    // One token by the environment is enough, and operates.
    let mut server = place.serve_with(&["--listen", "0.0.0.0:0"], &[("TURNWHEEL_TOKEN", "one")]);
    server.get("/api/v1/plans").is_problem(401, "unauthorized");
    server.token = Some("one".to_owned());
    assert_eq!(server.post("/api/v1/plans", &body).status, 201);
    // What it has announced can be reached by verbs.
    let mut cancel = place.command(&["cancel", "last"]);
    let output = cancel.env("TURNWHEEL_TOKEN", "one").output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    server.stopped();
    for (text, says) in [
        ("operate ann\n", "line 1: it has 2 parts"),
        ("\nadmin ann x\n", "line 2: there is no such role"),
        ("# nobody\n", "holds no token"),
    ] {
        let tokens = place.write("tokens.txt", text);
        let refused = place.run(&["serve", "--listen", "127.0.0.1:0", "--tokens", &tokens]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains(says) && said.contains("tokens.txt"), "{said}");
    }
}

const ENVIRONMENT: &str = "document: { dsl: '1.0.3', namespace: test, name: peek, version: '1.0.0' }
use: { secrets: [key] }
do:
  - peek: { run: { shell: { command: 'grep -c -a -e TURNWHEEL_SECRET -e TURNWHEEL_TOKEN /proc/$PPID/environ || true' } } }
  - use: { run: { shell: { command: 'test \"$KEY\" = s3cr3t-k3y && echo known', environment: { KEY: '${ $secrets.key }' } } } }
";

#[test]
fn the_role_read_gets_no_credentials_of_jobs() {
    let place = Place::new();
    let tokens = place.write("tokens.txt", "operate ann s3cret\nread bob look\n");
    let server = place.serve(&["--tokens", &tokens]);
    let with = |method: &str, path: &str, token: &str, body: Option<&str>| {
        let token = format!("Bearer {token}");
        server.send(method, path, &[("authorization", &token)], body)
    };
    let config = json!({
        "method": "GET", "url": "http://u:pw12345@127.0.0.1:1/q?api_key=keykey",
        "headers": "[\"Authorization: Bearer hunter2\"]",
    });
    let job = json!({
        "schedule": "@manually", "executor": "http", "config": config, "concurrency_key": "k",
    });
    with("PUT", "/api/v1/jobs/hk", "s3cret", Some(&job.to_string())).ok();
    let secrets = ["pw12345", "keykey", "hunter2"];
    for path in ["/api/v1/jobs", "/api/v1/jobs/hk", "/v1/jobs", "/v1/jobs/hk"] {
        let read = with("GET", path, "look", None);
        assert_eq!(read.status, 200, "{path}: {}", read.text);
        assert!(secrets.iter().all(|secret| !read.text.contains(secret)), "{path}: {}", read.text);
        let whole = with("GET", path, "s3cret", None);
        assert!(secrets.iter().all(|secret| whole.text.contains(secret)), "{path}: {}", whole.text);
    }
    // Neither does the plan of a run show them, to anybody.
    with("POST", "/api/v1/jobs/hk/run", "s3cret", Some("{}")).ok();
    let plan = eventually("the run has a plan", || {
        let history = with("GET", "/api/v1/jobs/hk/history", "look", None).ok();
        history["launches"][0]["runs"][0]["plan"].as_str().map(str::to_owned)
    });
    let at = format!("/api/v1/plans/{plan}");
    let shown = with("GET", &at, "look", None);
    assert!(secrets.iter().all(|secret| !shown.text.contains(secret)), "{}", shown.text);
    let shown = with("GET", &format!("{at}/steps/3"), "look", None);
    assert!(secrets.iter().all(|secret| !shown.text.contains(secret)), "{}", shown.text);
    // Copied texts with masks replace no credentials, and reach no service.
    let mut copied = job;
    copied["config"]["headers"] = json!("[\"Authorization: ••••\"]");
    let put = with("PUT", "/api/v1/jobs/hk", "s3cret", Some(&copied.to_string()));
    assert!(put.status == 400 && put.text.contains("stands for a credential"), "{}", put.text);
    let input = json!({ "input": shown.ok()["input"] }).to_string();
    let again = with("POST", &format!("{at}/again"), "s3cret", Some(&input));
    assert!(again.status == 422 && again.text.contains("stands for what"), "{}", again.text);
    let whole = with("GET", "/api/v1/jobs/hk", "s3cret", None).text;
    assert!(secrets.iter().all(|secret| whole.contains(secret)), "{whole}");
}

#[test]
fn the_role_read_gets_no_path_of_a_webhook() {
    let place = Place::new();
    let tokens = place.write("tokens.txt", "operate ann s3cret\nread bob look\n");
    let server = place.serve(&["--tokens", &tokens, "--allow-shell"]);
    let with = |method: &str, path: &str, token: &str, body: Option<&str>| {
        let token = format!("Bearer {token}");
        server.send(method, path, &[("authorization", &token)], body)
    };
    let hook = "http://127.0.0.1:1/services/T0/hunter2";
    let job = json!({
        "schedule": "@manually", "config": {"command": "false"},
        "notify": [{"on": ["failure"], "webhook": hook}],
    });
    with("PUT", "/api/v1/jobs/told", "s3cret", Some(&job.to_string())).ok();
    let mut read = with("GET", "/api/v1/jobs/told", "look", None).ok();
    assert_eq!(read["spec"]["notify"][0]["webhook"], "http://127.0.0.1:1/••••");
    let whole = with("GET", "/api/v1/jobs/told", "s3cret", None).ok();
    assert_eq!(whole["spec"]["notify"][0]["webhook"], hook, "who may write it sees it");
    // A masked address that was read is none.
    let copied = read["spec"].take().to_string();
    let put = with("PUT", "/api/v1/jobs/told", "s3cret", Some(&copied));
    assert!(put.status == 400 && put.text.contains("stands for a credential"), "{}", put.text);
    // Neither do the plan of the notification and its error show it, to anybody.
    with("POST", "/api/v1/jobs/told/run", "s3cret", Some("{}")).ok();
    let plan = eventually("the notification has failed once", || {
        let plans = with("GET", "/api/v1/plans?action=job.notify", "look", None).ok();
        let at = format!("/api/v1/plans/{}", plans["plans"][0]["id"].as_str()?);
        let steps = with("GET", &format!("{at}/steps"), "look", None);
        steps.text.contains("refused").then_some((at, steps.text))
    });
    let shown = with("GET", &plan.0, "s3cret", None).text;
    for text in [&plan.1, &shown] {
        assert!(text.contains("http://127.0.0.1:1/••••") && !text.contains("hunter2"), "{text}");
    }
    server.stopped();
}

#[test]
fn tokens_that_can_be_guessed_and_plain_http_for_others_are_warned_of() {
    let place = Place::new();
    let variables = [("TURNWHEEL_TOKEN", "x")];
    let mut server = place.serve_with(&["--listen", "0.0.0.0:0"], &variables);
    server.token = Some("x".to_owned());
    server.stopped();
    let log = place.log();
    assert!(log.contains("«operator» can be guessed") && log.contains("without TLS"), "{log}");
    let variables = [("TURNWHEEL_TOKEN", "a-token-that-nobody-guesses")];
    place.serve_with(&[], &variables).stopped();
    let log = place.log();
    assert!(!log.contains("guessed") && !log.contains("without TLS"), "{log}");
}

#[cfg(unix)]
#[test]
fn the_store_its_copies_and_exports_are_readable_by_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;

    let place = Place::new();
    let server = place.serve(&[]);
    server.suspended(&server.begin("t"));
    let store = place.store().display().to_string();
    place.ok(&["backup", "copy.db"]);
    place.ok(&["export", "--output", "plans.jsonl"]);
    let copies = ["copy.db", "plans.jsonl"].map(|name| place.path(name).display().to_string());
    let files = [store.clone(), format!("{store}-wal"), format!("{store}-shm")];
    for file in files.iter().chain(&copies) {
        let mode = std::fs::metadata(file).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    server.stopped();
}

#[test]
fn commands_of_flows_need_a_token_or_a_flag_and_never_see_the_servers_secrets() {
    let place = Place::new();
    let yaml = [("content-type", "application/yaml")];
    let variables = [("TURNWHEEL_SECRET_KEY", "s3cr3t-k3y")];
    // Everybody on this machine may ask: nobody may run commands.
    let server = place.serve_with(&[], &variables);
    let refused = server.send("POST", "/api/v1/flows", &yaml, Some(ENVIRONMENT));
    assert!((400..500).contains(&refused.status), "{}", refused.text);
    assert!(refused.text.contains("--allow-shell"), "{}", refused.text);
    assert_eq!(server.get("/api/v1/flows").ok()["flows"], json!([]));
    server.stopped();
    let run = |server: &crate::serve_common::Serve| {
        server.send("POST", "/api/v1/flows", &yaml, Some(ENVIRONMENT)).ok();
        let started = server.post("/api/v1/flows/test/peek/1.0.0/start", &json!({})).ok();
        let id = started["id"].as_str().expect("an id").to_owned();
        let plan = server.ended_plan(&id);
        assert_eq!(plan["output"], "known\n", "{plan}");
        // What a command of the same user sees of the server, and what root sees.
        let steps = server.get(&format!("/api/v1/plans/{id}/steps")).ok();
        assert!(steps.to_string().contains("\"0\\n\""), "{steps}");
        let environment = std::fs::read(format!("/proc/{}/environ", server.id()));
        let environment = environment.unwrap_or_default();
        let environment = String::from_utf8_lossy(&environment);
        for secret in ["s3cr3t-k3y", "t0k3n-of-one"] {
            assert!(!environment.contains(secret), "{environment}");
        }
    };
    let server = place.serve_with(&["--allow-shell"], &variables);
    run(&server);
    server.stopped();
    let mut server = place.serve_with(&[], &[variables[0], ("TURNWHEEL_TOKEN", "t0k3n-of-one")]);
    server.token = Some("t0k3n-of-one".to_owned());
    run(&server);
    server.stopped();
    // A setting that forbids them is stronger than a token, and the flag stronger than the setting.
    let forbidden = [("TURNWHEEL_TOKEN", "t0k3n-of-one"), ("TURNWHEEL_IO_ALLOW_SHELL", "false")];
    let mut server = place.serve_with(&[], &forbidden);
    server.token = Some("t0k3n-of-one".to_owned());
    let started = server.post("/api/v1/flows/test/peek/1.0.0/start", &json!({})).ok();
    let plan = server.ended_plan(started["id"].as_str().expect("an id"));
    assert_ne!(plan["result"], "success", "{plan}");
    server.stopped();
}

#[cfg(feature = "tls")]
#[test]
fn with_a_certificate_it_speaks_tls_and_verbs_trust_who_they_are_told_to() {
    let place = Place::new();
    let key = rcgen::KeyPair::generate().expect("a key");
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::CertificateParams::new(names).expect("names").self_signed(&key);
    let chain = place.write("chain.pem", &made.expect("a certificate").pem());
    let private = place.write("key.pem", &key.serialize_pem());
    let server = place.serve(&["--tls-certificates", &chain, "--tls-key", &private]);
    assert!(server.url.starts_with("https://127.0.0.1:"), "{}", server.url);
    let plain = agent().get(server.url.replace("https", "http")).call();
    assert!(plain.is_err(), "{plain:?}");
    // A verb does not trust just anybody, and says what to do about it.
    let add = ["schedule", "add", "n", "--every", "1h", "--action", "external"];
    let refused = place.run(&add);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("server-certificates"), "{said}");
    let mut trusting = place.command(&add);
    let output = trusting.env("TURNWHEEL_SERVER_CERTIFICATES", &chain).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    server.stopped();
    assert_eq!(place.json(&["schedule", "list", "--json"])["schedules"][0]["name"], "n");
    let half = place.run(&["serve", "--tls-key", &private]);
    assert_eq!(half.status.code(), Some(2));
    let wrong = ["serve", "--listen", "127.0.0.1:0", "--tls-certificates", &private];
    let wrong = place.run(&[&wrong[..], &["--tls-key", &private]].concat());
    assert_eq!(wrong.status.code(), Some(2), "{}", String::from_utf8_lossy(&wrong.stderr));
}

#[test]
fn the_same_idempotency_key_gives_the_same_answer_and_no_other_body() {
    let place = Place::new();
    let begin = |server: &crate::serve_common::Serve, topic: &str| {
        let body = json!({"action": "external", "input": {"topic": topic}}).to_string();
        server.send("POST", "/api/v1/plans", &[("idempotency-key", "order-7")], Some(&body))
    };
    let server = place.serve(&[]);
    // Many at once: one begins it.
    let answers: Vec<(u16, String)> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..8).map(|_| scope.spawn(|| begin(&server, "t"))).collect();
        let answers = asked.into_iter().map(|asked| asked.join().expect("no panic"));
        answers.map(|answer| (answer.status, answer.ok()["id"].to_string())).collect()
    });
    let ids: BTreeSet<&String> = answers.iter().map(|(_, id)| id).collect();
    assert_eq!(ids.len(), 1, "{answers:?}");
    let begun = answers.iter().filter(|(status, _)| *status == 201).count();
    assert_eq!(begun, 1, "{answers:?}");
    begin(&server, "other").is_problem(422, "key-reused");
    server.killed();
    let server = place.serve(&[]);
    let again = begin(&server, "t");
    assert_eq!((again.status, again.header("idempotency-replayed")), (200, "true"));
    assert_eq!(again.ok()["id"].to_string(), answers[0].1);
    begin(&server, "other").is_problem(422, "key-reused");
    server.stopped();
}

#[test]
fn pages_have_each_plan_once_while_others_begin() {
    let place = Place::new();
    let server = place.serve(&[]);
    let known: BTreeSet<String> = (0..60).map(|_| server.begin("t")).collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                server.begin("t");
            }
        });
        for _ in 0..3 {
            let (mut seen, mut path) = (Vec::new(), "/api/v1/plans?limit=7".to_owned());
            loop {
                let page: Value = server.get(&path).ok();
                let ids = page["plans"].as_array().expect("plans").iter();
                seen.extend(ids.map(|plan| plan["id"].as_str().expect("an id").to_owned()));
                let Some(next) = page["next"].as_str() else { break };
                path = format!("/api/v1/plans?limit=7&cursor={next}");
            }
            let once: BTreeSet<String> = seen.iter().cloned().collect();
            assert_eq!(once.len(), seen.len(), "a plan is on two pages");
            assert!(known.is_subset(&once), "a plan is on no page");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    server.stopped();
}

#[test]
fn its_description_is_that_of_the_library_and_has_every_path() {
    let place = Place::new();
    let server = place.serve(&[]);
    let told = server.get("/api/v1/openapi.json").ok();
    let made = serde_json::to_value(turnwheel::http::openapi()).expect("JSON");
    assert_eq!(told, made);
    assert_eq!(told["openapi"].as_str().map(|version| &version[..3]), Some("3.1"));
    // What needs nothing in its path is there, as described.
    for (path, operations) in told["paths"].as_object().expect("paths") {
        if !path.contains('{') && operations["get"].is_object() && path != "/api/v1/events" {
            let status = server.get(path).status;
            assert!((200..300).contains(&status), "{path}: {status}");
        }
    }
    server.stopped();
}

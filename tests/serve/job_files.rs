//! Files of jobs: what they would change, and edits that meet.

use std::process::Output;

use serde_json::json;

use crate::serve_common::Place;

const JOBS: &str = "\
# Parents may come later.
- name: report
  after: [{job: backup}]
  config: {command: 'echo report'}
---
name: backup
schedule: '0 30 2 * * *'
timezone: Europe/Madrid
config:
  command: /opt/backup
overlap: forbid
";

fn said(output: &Output) -> String {
    let (out, error) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(error))
}

#[test]
fn files_are_applied_after_a_look_at_what_changes() {
    let place = Place::new();
    let server = place.serve(&["--allow-shell"]);
    let file = place.write("jobs.yaml", JOBS);
    let looked = place.ok(&["job", "apply", "--dry-run", &file]);
    for part in ["+ backup\n", "    overlap: \"forbid\"\n", "+ report\n", "2 to add, 0 to change"] {
        assert!(looked.contains(part), "{part}: {looked}");
    }
    let asked = place.run(&["job", "apply", &file]);
    assert_eq!(asked.status.code(), Some(2), "nobody can be asked: {}", said(&asked));
    assert!(said(&asked).contains("--yes"), "{}", said(&asked));
    server.get("/api/v1/jobs/backup").is_problem(404, "job-unknown");
    assert!(place.ok(&["job", "apply", "--yes", &file]).ends_with("2 applied\n"));
    assert_eq!(server.get("/api/v1/jobs/backup").ok()["dependants"], json!(["report"]));
    let again = place.ok(&["job", "apply", &file]);
    assert_eq!(again, "0 to add, 0 to change, 2 as they are\n");
    let file = place.write("jobs.yaml", &JOBS.replace("forbid", "queue_one"));
    let changed = place.ok(&["job", "apply", "--yes", &file]);
    assert!(changed.contains("~ backup\n    overlap: \"forbid\" → \"queue_one\"\n"), "{changed}");
    assert_eq!(server.get("/api/v1/jobs/backup").ok()["revision"], 2);
    for (text, problem) in [
        ("name: a\n  bad: [", "jobs.yaml:"),
        ("name: a\nshedule: '@daily'\n", "unknown field `shedule`"),
        ("- name: a\n- name: a\n", "is there twice"),
        ("[{\"name\": }]", "expected value"),
    ] {
        let file = place.write("jobs.yaml", text);
        let refused = place.run(&["job", "apply", "--yes", &file]);
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
        assert!(said(&refused).contains(problem), "{problem}: {}", said(&refused));
    }
    server.stopped();
}

const PARTLY: &str = "\
- {name: good, schedule: '@daily', config: {command: a}}
- {name: bad, schedule: '@daily', executor: nope}
- {name: zone, schedule: '@daily', timezone: Nowhere/Else, config: {command: a}}
- {name: child, after: [{job: good}, {job: nobody}], config: {command: a}}
";

/// Jobs that reverse a stored chain: first → between → last.
const REVERSED: &str = "\
- {name: first, after: [{job: between}], config: {command: a}}
- {name: last, schedule: '@daily', config: {command: a}}
- {name: between, after: [{job: last}], config: {command: a}}
";

/// Applies a file that would be refused: nothing is written, whoever has the store.
fn refused(place: &Place, text: &str, parts: &[&str]) {
    let file = place.write("jobs.yaml", text);
    for how in ["--dry-run", "--yes"] {
        let output = place.run(&["job", "apply", how, &file]);
        assert_eq!(output.status.code(), Some(1), "{how}: {}", said(&output));
        for part in parts.iter().chain(&["nothing was changed"]) {
            assert!(said(&output).contains(part), "{how}, {part}: {}", said(&output));
        }
    }
}

#[test]
fn files_with_a_job_that_would_be_refused_write_nothing() {
    let place = Place::new();
    let here = || {
        let parts = [
            "fail job «bad», executor: there is no executor «nope»",
            "fail the job «child» is to run after «nobody»",
        ];
        refused(&place, &PARTLY.replace("Nowhere/Else", "UTC"), &parts);
        let shown = place.run(&["job", "show", "good"]);
        assert_eq!(shown.status.code(), Some(3), "{}", said(&shown));
    };
    let server = place.serve(&["--allow-shell"]);
    here();
    let zone = place.write("jobs.yaml", PARTLY);
    let zone = place.run(&["job", "apply", "--yes", &zone]);
    assert_eq!(zone.status.code(), Some(2), "that needs no server: {}", said(&zone));
    // A cycle over a stored job that no file names.
    for (name, after) in [("first", None), ("between", Some("first")), ("last", Some("between"))] {
        let after = after.map_or_else(|| json!([]), |job| json!([{"job": job}]));
        let job = json!({"schedule": "@daily", "after": after, "config": {"command": "a"}});
        server.send("PUT", &format!("/api/v1/jobs/{name}"), &[], Some(&job.to_string())).ok();
    }
    let lines: Vec<&str> = REVERSED.lines().collect();
    let cycle =
        format!("- {{name: good, schedule: '@daily', config: {{command: a}}}}\n{}\n", lines[0]);
    refused(&place, &cycle, &["the jobs would wait for each other: first → between → first"]);
    server.get("/api/v1/jobs/good").is_problem(404, "job-unknown");
    // Without one they are written in an order that makes no cycle on the way.
    let reversed = place.write("jobs.yaml", REVERSED);
    let applied = place.run(&["job", "apply", "--yes", &reversed]);
    assert!(said(&applied).ends_with("3 applied\n"), "{}", said(&applied));
    assert_eq!(server.get("/api/v1/jobs/last").ok()["dependants"], json!(["between"]));
    server.stopped();
    here();
}

#[test]
fn many_jobs_are_checked_in_parts() {
    let place = Place::new();
    let server = place.serve(&["--allow-shell"]);
    let many = |executor: &str| {
        let jobs = (0..401).map(|number| {
            let executor = if number == 400 { executor } else { "shell" };
            json!({"name": format!("j{number}"), "schedule": "@manually", "executor": executor,
                "config": {"command": "a"}})
        });
        place.write("many.json", &serde_json::Value::from_iter(jobs).to_string())
    };
    let output = place.run(&["job", "apply", "--yes", &many("nope")]);
    assert!(said(&output).contains("fail job «j400», executor"), "{}", said(&output));
    assert_eq!(server.get("/api/v1/jobs").ok()["jobs"], json!([]));
    assert!(place.ok(&["job", "apply", "--yes", &many("shell")]).ends_with("401 applied\n"));
    let too_many = json!({"jobs": vec![json!({"spec": {"name": "a"}}); 201]});
    server.post("/api/v1/job-check", &too_many).is_problem(422, "body-invalid");
    server.stopped();
}

#[test]
fn the_second_of_two_editors_gets_a_conflict() {
    let place = Place::new();
    let server = place.serve(&["--allow-shell"]);
    let put = |headers: &[(&str, &str)], command: &str| {
        let job = json!({"schedule": "@daily", "config": {"command": command}});
        server.send("PUT", "/api/v1/jobs/shared", headers, Some(&job.to_string()))
    };
    put(&[("if-match", "*")], "nobody").is_problem(412, "precondition-failed");
    assert_eq!(put(&[("if-none-match", "*")], "first").header("etag"), "\"1\"");
    put(&[("if-none-match", "*")], "again").is_problem(412, "precondition-failed");
    let tag = server.get("/api/v1/jobs/shared").header("etag").to_owned();
    assert_eq!(put(&[("if-match", tag.as_str())], "ann").header("etag"), "\"2\"");
    let late = put(&[("if-match", tag.as_str())], "bob");
    late.is_problem(412, "precondition-failed");
    assert!(late.text.contains("read it again and repeat the edit"), "{}", late.text);
    assert_eq!(server.get("/api/v1/jobs/shared").ok()["spec"]["config"]["command"], "ann");
    put(&[("if-match", "soon")], "eve").is_problem(400, "query-invalid");
    assert_eq!(put(&[("if-match", "*")], "last").ok()["revision"], 3);
    let toggle = |tag: &str| {
        let headers = [("if-match", tag)];
        server.send("POST", "/api/v1/jobs/shared/toggle", &headers, Some("{}"))
    };
    toggle("\"2\"").is_problem(412, "precondition-failed");
    assert_eq!(server.get("/api/v1/jobs/shared").ok()["spec"]["disabled"], json!(false));
    let off = toggle("\"3\"").ok();
    assert_eq!((&off["spec"]["disabled"], &off["revision"]), (&json!(true), &json!(4)));
    server.stopped();
}

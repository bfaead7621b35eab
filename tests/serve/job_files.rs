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
    // A job that the server refuses leaves the others.
    let text = "- {name: good, schedule: '@daily', config: {command: a}}\n- {name: bad, schedule: '@daily', executor: nope}\n";
    let file = place.write("jobs.yaml", text);
    let partly = place.run(&["job", "apply", "--yes", &file]);
    assert_eq!(partly.status.code(), Some(1));
    assert!(said(&partly).contains("1 applied\nfail bad:"), "{}", said(&partly));
    server.stopped();
    assert_eq!(place.json(&["job", "show", "good"])["revision"], 1);
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

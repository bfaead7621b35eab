//! Schedules and jobs whose flow refuses their input: they are refused when they are added.
#![cfg(all(feature = "server", feature = "cli"))]

use serde_json::json;

use crate::serve_common::Place;

/// A flow that needs `k`, with this head.
fn flow(name: &str, head: &str) -> String {
    format!(
        "document: {{ dsl: '1.0.3', namespace: x, name: {name}, version: '1.0.0' }}\n{head}\
         input: {{ schema: {{ document: {{ type: object, required: [ k ] }} }} }}\n\
         do: [ {{ a: {{ set: {{ x: '${{ .k }}' }} }} }} ]\n"
    )
}

fn fails(place: &Place, arguments: &[&str], says: &str) {
    let output = place.run(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{arguments:?}: {said}");
    assert!(said.contains(says), "{arguments:?}: {said}");
}

const MISSING: &str = "x/need:1.0.0 does not take it: the whole: «k» is missing";

/// On a file, and by a server alike.
fn schedules_are_checked(place: &Place) {
    let need = place.write("need.yaml", &flow("need", ""));
    place.ok(&["flow", "add", &need]);
    let add = ["schedule", "add", "bad", "--every", "1h", "--flow", "x/need", "--input"];
    fails(place, &[&add[..], &["{}"]].concat(), MISSING);
    place.ok(&[&add[..], &["{\"k\": 1}"]].concat());
    fails(place, &[&add[..], &["{}"]].concat(), MISSING);
    let hourly = place.write("hourly.yaml", &flow("hourly", "schedule: { every: PT1H }\n"));
    let refused = "/schedule/every of x/hourly:1.0.0 starts it with the input {}";
    fails(place, &["flow", "add", &hourly], refused);
    fails(place, &["flow", "show", "x/hourly"], "hourly");
    place.ok(&["flow", "add", &hourly, "--no-schedule"]);
    fails(place, &["run", &hourly, "--schedule", "--input", "{\"k\": 1}"], refused);
    let add = ["job", "add", "nightly", "--schedule", "@hourly", "--executor", "flow"];
    let job = |input| [&add[..], &["--set", "flow=x/need", "--set", input]].concat();
    fails(place, &job("input={}"), "input: x/need:1.0.0 does not take it");
    place.ok(&job("input={\"k\": 1}"));
}

#[test]
fn schedules_and_jobs_that_could_only_fail_are_refused_on_a_file() {
    let place = Place::new();
    place.serve(&[]).stopped();
    schedules_are_checked(&place);
    // A program of its own may serve this file later.
    let output = place.run(&["schedule", "add", "own", "--every", "1h", "--action", "report"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("«turnwheel serve» has no action «report»"), "{said}");
    let known = place.run(&["schedule", "add", "work", "--every", "1h", "--action", "external"]);
    assert!(known.status.success());
    assert_eq!(String::from_utf8_lossy(&known.stderr), "");
}

#[test]
fn schedules_and_jobs_that_could_only_fail_are_refused_by_a_server() {
    let place = Place::new();
    let server = place.serve(&[]);
    schedules_are_checked(&place);
    let spec = |input: serde_json::Value| {
        json!({
            "timing": { "every": { "period_ms": 3_600_000 } }, "action": "flow",
            "input": { "flow": "x/need", "input": input },
        })
        .to_string()
    };
    let headers = [("content-type", "application/json")];
    let put = |text: &str| server.send("PUT", "/api/v1/schedules/api", &headers, Some(text));
    let refused = put(&spec(json!({})));
    refused.is_problem(422, "input-invalid");
    assert!(refused.text.contains(MISSING), "{}", refused.text);
    assert_eq!(put(&spec(json!({ "k": 1 }))).status, 201);
    server.stopped();
}

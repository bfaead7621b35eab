//! The description of the API as a list of lines, so that a change of it is seen in a review.
#![cfg(feature = "server")]

use std::fmt::Write as _;

use serde_json::Value;

/// Writes the file anew in place of comparing it.
const WRITE: &str = "TURNWHEEL_WRITE_SNAPSHOTS";

fn keys(value: &Value) -> String {
    let keys = value.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    keys.collect::<Vec<_>>().join(" ")
}

/// The name of a schema, or its type.
fn schema(value: &Value) -> String {
    match value["$ref"].as_str() {
        Some(name) => name.rsplit('/').next().unwrap_or(name).to_owned(),
        None => value["type"].as_str().unwrap_or("any").to_owned(),
    }
}

fn lines(api: &Value) -> String {
    let mut text = String::new();
    for (path, item) in api["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            let id = operation["operationId"].as_str().expect("an id");
            let _ = write!(text, "{} {path} {id}", method.to_uppercase());
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let (name, place) = (&parameter["name"], &parameter["in"]);
                let mark = if parameter["required"] == true { "!" } else { "" };
                let part = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let _ = write!(text, " {}:{}{mark}", part(place), part(name));
            }
            let body = operation["requestBody"]["content"].as_object();
            for (kind, content) in body.into_iter().flatten() {
                let _ = write!(text, " < {kind} {}", schema(&content["schema"]));
            }
            for (status, answer) in operation["responses"].as_object().expect("answers") {
                let content = answer["content"].as_object().and_then(|all| all.values().next());
                let shape = content.map_or("-".to_owned(), |it| schema(&it["schema"]));
                if shape != "Problem" {
                    let _ = write!(text, " > {status} {shape}");
                }
            }
            text.push('\n');
        }
    }
    for (name, shape) in api["components"]["schemas"].as_object().expect("schemas") {
        let _ = writeln!(text, "{name}: {}", keys(&shape["properties"]));
    }
    text
}

#[test]
fn the_api_is_as_it_was_looked_at_last() {
    let api = serde_json::to_value(turnwheel::http::openapi()).expect("JSON");
    let now = lines(&api);
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http/api.txt");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&file, &now).expect("the file is writable");
    }
    let before = std::fs::read_to_string(&file).expect("the file is there");
    let new: Vec<&str> = now.lines().filter(|line| !before.lines().any(|it| it == *line)).collect();
    let gone: Vec<&str> =
        before.lines().filter(|line| !now.lines().any(|it| it == *line)).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "the API has changed: look at the change, and write tests/http/api.txt with {WRITE}=1\n\
         new:\n{}\ngone:\n{}",
        new.join("\n"),
        gone.join("\n")
    );
}

#[test]
fn each_operation_tells_who_may_ask_and_what_may_go_wrong() {
    let api = serde_json::to_value(turnwheel::http::openapi()).expect("JSON");
    assert_eq!(api["servers"][0]["url"], "/");
    let schemes = &api["components"]["securitySchemes"];
    assert_eq!(
        (&schemes["token"]["scheme"], &schemes["password"]["scheme"]),
        (&"bearer".into(), &"basic".into())
    );
    let operation = |path: &str, method: &str| api["paths"][path][method].clone();
    let has = |operation: &Value, status: &str| operation["responses"].get(status).is_some();
    let put = operation("/api/v1/schedules/{name}", "put");
    for status in
        ["200", "400", "401", "403", "404", "409", "412", "413", "415", "422", "429", "503", "507"]
    {
        assert!(has(&put, status), "{status}");
    }
    let text = put["responses"]["412"]["description"].as_str().expect("a text");
    assert_eq!(text, "A problem: precondition-failed");
    let job = "/api/v1/jobs/{name}";
    for method in ["put", "delete"] {
        let edit = operation(job, method);
        assert!(has(&edit, "412") && has(&edit, "409") && has(&edit, "503"), "{method} of a job");
    }
    assert!(!has(&operation(job, "get"), "412") && !has(&operation(job, "get"), "304"));
    let flow = operation("/api/v1/flows/{namespace}/{name}/{version}", "get");
    assert!(has(&flow, "304"), "{flow:#}");
    let header = |operation: &Value, status: &str, name: &str| {
        operation["responses"][status]["headers"].get(name).is_some()
    };
    assert!(header(&put, "200", "ETag") && header(&put, "201", "Location"), "{put:#}");
    assert!(header(&put, "429", "Retry-After"));
    for shape in ["Start", "FlowRun", "ScheduleSpec", "BulkOrder", "Lease", "TaskComplete"] {
        assert!(api["components"]["schemas"][shape]["example"].is_object(), "{shape}");
    }
    let run = operation("/api/v1/jobs/{name}/run", "post");
    assert!(header(&run, "200", "Idempotency-Replayed"));
    assert!(put["security"].as_array().is_some_and(|ways| ways.len() == 3));
    let health = operation("/health", "get");
    assert!(health["security"].as_array().is_some_and(|ways| ways.len() == 1));
    let list = operation("/api/v1/plans", "get");
    assert!(!has(&list, "412") && !has(&list, "404") && !has(&list, "415"));
}

//! A hundred flows of real kinds, and the same with names that are not known.

use serde_json::{json, Value};
use turnwheel_flow as flow;

use crate::cases::{example, yaml};

/// The flows, each with what becomes of it.
fn flows() -> Vec<Value> {
    let Value::Array(flows) = yaml(include_str!("hundred.yaml")) else { panic!("it is a list") };
    flows
}

/// The text of a flow of the hundred.
fn text_of(case: &Value) -> String {
    let mut all = case.get("top").cloned().unwrap_or_else(|| json!({}));
    all["document"] =
        json!({ "dsl": "1.0.3", "namespace": "test", "name": "it", "version": "1.0.0" });
    all["do"] = case["do"].clone();
    all.to_string()
}

#[test]
fn a_hundred_flows_of_real_kinds_run() {
    let (cases, mut failed) = (flows(), Vec::new());
    for case in &cases {
        if let Err(why) = example(&text_of(case), case) {
            failed.push(format!("{}: {why}", case["name"]));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(cases.len() >= 100, "{}", cases.len());
}

/// Names of maps in which every name may stand, and of templates.
const FREE: [&str; 12] = [
    "set",
    "headers",
    "query",
    "body",
    "data",
    "parameters",
    "environment",
    "arguments",
    "as",
    "from",
    "document",
    "metadata",
];

/// Whether each name may stand in the object at this place.
fn is_free(whole: &Value, pointer: &str) -> bool {
    let parts: Vec<&str> = pointer.split('/').skip(1).collect();
    let around = |up: usize| {
        let mut path = pointer;
        (0..up).for_each(|_| path = path.rsplit_once('/').map_or("", |it| it.0));
        whole.pointer(path).cloned().unwrap_or(Value::Null)
    };
    let is_template = parts.iter().skip(1).any(|part| FREE.contains(part));
    let last = parts.last().copied().unwrap_or_default();
    let calls = around(1)["call"].as_str().unwrap_or_default().to_owned();
    let is_known = ["http", "openapi", "mcp", "worker"].contains(&calls.as_str());
    let is_input = last == "input" && parts.iter().rev().nth(1) == Some(&"workflow");
    is_template || (last == "with" && !is_known) || is_input || parts.first() == Some(&"input")
}

/// The places of all objects.
fn objects(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.push(at.to_owned());
            fields.iter().for_each(|(name, value)| objects(value, &format!("{at}/{name}"), found));
        }
        Value::Array(list) => {
            let list = list.iter().enumerate();
            list.for_each(|(index, value)| objects(value, &format!("{at}/{index}"), found));
        }
        _ => {}
    }
}

#[test]
fn unknown_names_are_refused_in_each_object_but_free_ones() {
    // Some of them, since each of their objects is read once.
    let some = flows().into_iter().step_by(4).map(|case| yaml(&text_of(&case)));
    let (mut refused, mut taken) = (0, Vec::new());
    for whole in some {
        if flow::load(&whole.to_string(), "it").is_err() {
            continue;
        }
        let mut places = Vec::new();
        objects(&whole, "", &mut places);
        for place in places.iter().filter(|place| !place.contains("/schema")) {
            let mut wrong = whole.clone();
            let object = wrong.pointer_mut(place).and_then(Value::as_object_mut);
            // A text, so that it is no task or component of that name.
            object.expect("it is one").insert("notKnown".to_owned(), json!("x"));
            match flow::load(&wrong.to_string(), "it") {
                Err(problems) => {
                    refused += usize::from(problems.to_string().contains("notKnown"));
                }
                Ok(_) if is_free(&whole, place) => {}
                Ok(_) => taken.push(place.clone()),
            }
        }
    }
    assert!(taken.is_empty(), "{}", taken.join("\n"));
    assert!(refused > 200, "{refused}");
}

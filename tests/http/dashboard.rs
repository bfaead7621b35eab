//! The dashboard for Grafana asks for figures that a server has.
#![cfg(feature = "server")]

use std::collections::BTreeSet;

use serde_json::{json, Value};

use crate::openapi::served;

const DASHBOARD: &str = include_str!("../../packaging/grafana/turnwheel.json");

/// Names of figures in a text.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
    let words = text.split(|sign| !is_part(sign));
    words.filter(|word| word.starts_with("turnwheel_")).map(str::to_owned).collect()
}

#[test]
fn the_dashboard_asks_for_figures_that_a_server_has() {
    let served = served();
    let hourly = json!({"timing": {"every": {"period_ms": 3_600_000}}, "action": "echo"});
    let put = served.send("PUT", "/api/v1/schedules/hourly", &[], Some(&hourly));
    assert_eq!(put.status, 201, "{}", put.text);
    let metrics = served.get("/metrics").text;
    let known = names(&metrics);
    let described = |name: &String| metrics.contains(&format!("# TYPE {name} "));
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    assert!(panels.len() >= 10);
    for panel in panels {
        for target in panel["targets"].as_array().expect("targets") {
            let text = target["expr"].as_str().expect("an expression");
            let asked = names(text);
            assert!(!asked.is_empty(), "{text}");
            for name in asked {
                let is_there = known.contains(&name) || described(&name);
                assert!(is_there, "{}: there is no figure {name}", panel["title"]);
            }
        }
    }
    let launches = "turnwheel_schedule_launches_total{schedule=\"hourly\",outcome=\"launched\"} 0";
    assert!(metrics.contains(launches), "{metrics}");
    assert!(metrics.contains("turnwheel_build_info{version=\"0."), "{metrics}");
    assert!(metrics.contains("turnwheel_commit_seconds{quantile=\"0.99\"} "), "{metrics}");
}

//! `turnwheel bench`: what it prints, what it leaves, and that an interrupt ends it with what was measured.
#![cfg(all(feature = "server", feature = "cli", unix))]

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use serde_json::Value;

use crate::cli_common::Folder;

/// The value of a figure, and whether it is what is wanted.
fn figure(measured: &Value, name: &str) -> (f64, Option<bool>) {
    let figures = measured["figures"].as_array().expect("there are figures");
    let found = figures.iter().find(|figure| figure["name"] == name);
    let found = found.unwrap_or_else(|| panic!("no figure {name} in {measured:#}"));
    (found["value"].as_f64().unwrap_or(f64::NAN), found["is_met"].as_bool())
}

/// Nothing of what was measured is left.
fn is_empty(folder: &Folder) -> bool {
    let left = std::fs::read_dir(folder.path(".")).expect("it is a folder");
    left.count() == 0
}

#[test]
fn starts_are_counted_and_leave_nothing() {
    let folder = Folder::new();
    let measured = folder.json(&["bench", "starts", "-n", "4", "--time", "300ms", "--json"]);
    assert!(figure(&measured, "starts").0 > 0.0);
    assert!(figure(&measured, "answer, p50").0 <= figure(&measured, "answer, p99").0);
    assert_eq!(figure(&measured, "not started"), (0.0, Some(true)));
    assert!(figure(&measured, "plans run to their end").0 > 0.0);
    assert_eq!(measured["is_interrupted"], false);
    assert!(is_empty(&folder));
}

#[test]
fn an_interrupt_ends_a_measurement_with_what_was_measured() {
    let folder = Folder::new();
    let mut bench = folder
        .command(&["bench", "starts", "-n", "4", "--time", "1h", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built for this test");
    let mut messages = BufReader::new(bench.stderr.take().expect("it is piped"));
    let mut line = String::new();
    while !line.contains("starting flows") {
        line.clear();
        assert_ne!(messages.read_line(&mut line).expect("text"), 0, "it says what it does");
    }
    let interrupt = std::process::Command::new("kill")
        .args(["-INT", &bench.id().to_string()])
        .status()
        .expect("there is kill");
    assert!(interrupt.success());
    let mut text = String::new();
    bench.stdout.take().expect("it is piped").read_to_string(&mut text).expect("text");
    let ended = bench.wait().expect("it is a child");
    assert_eq!(ended.code(), Some(130));
    let measured: Value = serde_json::from_str(&text).expect("the figures are printed");
    assert_eq!(measured["is_interrupted"], true);
    assert!(is_empty(&folder));
}

#[test]
fn cold_starts_are_measured() {
    let folder = Folder::new();
    let measured = folder.json(&["bench", "cold", "--runs", "1", "--json"]);
    for name in ["run, new store, median", "run, old store, median", "serve, healthy, median"] {
        let (ms, is_met) = figure(&measured, name);
        assert!(ms > 0.0 && is_met.is_some(), "{name}: {measured:#}");
    }
    assert!(figure(&measured, "binary").0 > 0.0);
    assert!(is_empty(&folder));
}

#[test]
fn steps_are_counted_at_each_concurrency() {
    let folder = Folder::new();
    // Where many share the machine, no step may end in a short time.
    let measured = ["300ms", "3s", "30s"].iter().find_map(|time| {
        let arguments = ["bench", "steps", "--plans", "1,8", "--time", time, "--json"];
        let measured = folder.json(&arguments);
        let names = ["1 at a time, steps", "8 at a time, steps", "append + fdatasync"];
        let is_counted = names.iter().all(|name| figure(&measured, name).0 > 0.0);
        is_counted.then_some(measured)
    });
    let measured = measured.expect("steps end within half a minute");
    assert!(figure(&measured, "1 at a time, p50").1.is_none());
    assert!(is_empty(&folder));
}

#[test]
fn pages_are_asked_for_and_their_store_is_kept_if_wanted() {
    let folder = Folder::new();
    let arguments =
        ["bench", "pages", "--plans", "300", "--steps", "50", "--keep", "crowd", "--json"];
    let measured = folder.json(&arguments);
    for name in ["overview", "plans", "plan of many steps, graph", "world", "making the store"] {
        assert!(figure(&measured, name).0 > 0.0, "{name}: {measured:#}");
    }
    let stats = folder.json(&["stats", "--store", "crowd/pages.db", "--json"]);
    let states = stats["states"].as_object().expect("counts by state").values();
    let count: u64 = states.map(|count| count.as_u64().expect("a number")).sum();
    assert_eq!(count, 301, "{stats:#}");
    let again = folder.json(&arguments);
    let figures = again["figures"].as_array().expect("there are figures");
    assert!(figures.iter().all(|figure| figure["name"] != "making the store"));
}

#[test]
fn what_cannot_be_measured_is_told() {
    let folder = Folder::new();
    let told = folder.run(&["bench", "starts", "--dir", "missing"]);
    told.fails(2, &["no folder can be made in missing", "--dir"]);
    let told = folder.run(&["bench", "starts", "--server", "https://127.0.0.1:1"]);
    told.fails(2, &["https://127.0.0.1:1", "http://"]);
    folder.run(&["bench", "starts", "-n", "0"]).fails(2, &["1..=4096"]);
    assert!(is_empty(&folder));
}

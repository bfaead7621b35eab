//! The verb `server` with the binary `turnwheel` beside the harness: `cargo build -p turnwheel` makes it.
#![cfg(target_os = "linux")]

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// The measurement, with its stores in this folder.
fn bench(folder: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_turnwheel-bench"));
    command.args(["server", "--json", "-"]).args(arguments).env("TMPDIR", folder.path());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A figure of the rows.
#[track_caller]
fn figure(output: &Output, workload: &str, metric: &str) -> f64 {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).expect("rows are JSON");
    let found = rows.iter().find(|row| row["workload"] == workload && row["metric"] == metric);
    found.unwrap_or_else(|| panic!("{workload} {metric}: {rows:?}"))["value"]
        .as_f64()
        .expect("a number")
}

fn is_empty(folder: &TempDir) -> bool {
    std::fs::read_dir(folder.path()).expect("it is a folder").count() == 0
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder can be made")
}

#[test]
fn starts_are_counted_and_leave_nothing() {
    let (folder, named) = (folder(), folder());
    let name = named.path().display().to_string();
    let arguments = ["--case", "starts", "--connections", "3", "--seconds", "1", "--folder", &name];
    let output = bench(&folder, &arguments).output().expect("the harness starts");
    let starts = |metric| figure(&output, "starts_3_connections", metric);
    for metric in ["starts_per_s", "starts_per_sync", "server_cpu_us"] {
        assert!(starts(metric) > 0.0, "{metric}");
    }
    assert!(starts("p50_us") <= starts("p99_us"));
    assert!(figure(&output, "disk", "append_sync_us") > 0.0);
    assert!(is_empty(&folder) && is_empty(&named));
}

#[test]
fn cold_starts_are_measured() {
    let folder = folder();
    let output = bench(&folder, &["--case", "cold", "--runs", "1"]).output().expect("it starts");
    for workload in ["run_new_store", "run_old_store", "serve_listening", "serve_healthy"] {
        assert!(figure(&output, &format!("cold_{workload}"), "median_ms") > 0.0, "{workload}");
    }
    assert!(figure(&output, "binary", "mib") > 0.0);
    assert!(is_empty(&folder));
}

#[test]
fn pages_are_asked_for_and_a_kept_store_is_used_again() {
    let (folder, kept) = (folder(), folder());
    let kept = kept.path().join("crowd").display().to_string();
    let arguments = ["--case", "pages", "--plans", "300", "--steps", "50", "--keep", &kept];
    let first = bench(&folder, &arguments).output().expect("it starts");
    assert!(figure(&first, "pages_store", "made_s") > 0.0);
    let second = bench(&folder, &arguments).output().expect("it starts");
    assert!(figure(&second, "page_files", "kib") > 50.0, "scripts and styles");
    for page in ["overview", "runs", "run", "large_run_graph", "events", "system"] {
        let page = format!("page_{page}");
        assert!(figure(&second, &page, "median_ms") > 0.0 && figure(&second, &page, "kib") > 0.0);
    }
    assert!(!text(&second.stdout).contains("made_s"));
    assert!(is_empty(&folder));
}

/// Begins, and is interrupted as soon as this is so.
fn interrupted(folder: &TempDir, arguments: &[&str], is_so: impl Fn() -> bool) -> Output {
    let mut command = bench(folder, arguments);
    let pipes = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = pipes.spawn().expect("the harness starts");
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        let ended = running.try_wait().expect("it is a child");
        assert!(ended.is_none() && Instant::now() < until, "the server starts: {ended:?}");
        std::thread::yield_now();
    }
    let interrupt = Command::new("kill").args(["-INT", &running.id().to_string()]).status();
    assert!(interrupt.expect("there is kill").success());
    let output = running.wait_with_output().expect("it is a child");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("interrupted"), "{}", text(&output.stderr));
    output
}

#[test]
fn interrupt_ends_server_and_folder() {
    let folder = folder();
    let is_serving = || {
        let mut places = std::fs::read_dir(folder.path()).expect("it is a folder").flatten();
        places.any(|place| place.path().join("wheel.db").exists())
    };
    let arguments = ["--case", "starts", "--connections", "2", "--seconds", "3600"];
    let output = interrupted(&folder, &arguments, is_serving);
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).expect("rows are JSON");
    assert_eq!(rows[0]["workload"], "disk");
    assert!(is_empty(&folder));
}

#[test]
fn store_of_an_interrupted_run_is_not_measured() {
    let (folder, kept) = (folder(), folder());
    let name = kept.path().display().to_string();
    let arguments = ["--case", "pages", "--plans", "1000000", "--keep", &name];
    interrupted(&folder, &arguments, || kept.path().join("pages.db").exists());
    let again = bench(&folder, &arguments).output().expect("it starts");
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("not made to its end"), "{}", text(&again.stderr));
    assert!(is_empty(&folder));
}

#[test]
fn wrong_orders_are_told() {
    let folder = folder();
    for (arguments, code, said) in [
        (["--case", "nothing"], 1, "starts, cold, pages"),
        (["--folder", "missing"], 1, "missing"),
        (["--connections", "0"], 2, "1..="),
        (["--seconds", "0"], 2, "1..="),
    ] {
        let output = bench(&folder, &arguments).output().expect("the harness starts");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert!(text(&output.stderr).contains(said), "{}", text(&output.stderr));
    }
    assert!(is_empty(&folder));
}

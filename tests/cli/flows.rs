//! The flows of `examples/flows`, run with their inputs as `.ci/run` does.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a flow in a folder of its own, from which `examples` is seen.
fn run(name: &str) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    #[cfg(unix)]
    for entry in ["examples", ".git"] {
        std::os::unix::fs::symlink(root().join(entry), folder.path().join(entry)).expect("a link");
    }
    let file = format!("examples/flows/{name}.yaml");
    let input = format!("@examples/flows/inputs/{name}.json");
    let output = Command::new(env!("CARGO_BIN_EXE_turnwheel"))
        .args(["run", &file, "--input", &input, "--store", "flows.db"])
        .current_dir(folder.path())
        .output()
        .expect("the binary was built for this test");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{name}: {error}");
    let result =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}: {text}"));
    if name == "audit" {
        let report = std::fs::read_to_string(folder.path().join("audit-report.md"));
        let report = report.expect("the report is written");
        assert!(
            report.contains("./access.log") && report.contains("Approved by nobody"),
            "{report}"
        );
    }
    result
}

fn names(folder: &Path, end: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let files = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> =
        files.filter_map(|file| file.strip_suffix(end).map(str::to_owned)).collect();
    names.sort();
    names
}

#[test]
fn every_flow_has_an_input() {
    let flows = root().join("examples/flows");
    let all = names(&flows, ".yaml");
    assert!(all.len() >= 11, "{all:?}");
    assert_eq!(all, names(&flows.join("inputs"), ".json"));
}

#[test]
fn the_audit_hashes_every_file_and_writes_its_report() {
    let result = run("audit");
    assert_eq!(result["files"], 2, "{result}");
    assert_eq!((&result["large"], &result["approvedBy"]), (&1.into(), &"nobody".into()));
}

#[test]
fn flows_of_commands_do_their_work() {
    let result = run("backup-rotation");
    assert!(result["entries"].as_u64().is_some_and(|entries| entries >= 2), "{result}");
    assert_eq!(run("flaky-download")["attempts"], 3);
    let result = run("text-statistics");
    assert_eq!(result["lines"], 20_000);
    assert_eq!(result["words"], 200_000);
    let result = run("access-report");
    assert_eq!(result["top"].as_array().map(Vec::len), Some(5), "{result}");
    assert_eq!(run("disk-watch")["isFull"], true);
    assert_eq!(run("certificate-expiry")["unreadable"][0], "/no/such/certificate.pem");
    assert!(run("release-notes")["commits"].as_u64().is_some_and(|commits| commits > 0));
}

#[test]
fn flows_of_decisions_decide() {
    let result = run("order-saga");
    assert_eq!(result["done"], serde_json::json!(["reserved", "released"]), "{result}");
    assert_eq!(run("approval")["isApproved"], true);
    assert_eq!(run("fastest-mirror")["mirror"], "near");
    let result = run("import");
    assert_eq!((&result["taken"], &result["sum"]), (&2.into(), &12.5.into()));
    assert_eq!(result["refused"].as_array().map(Vec::len), Some(2), "{result}");
    assert_eq!(run("site-check")["down"].as_array().map(Vec::len), Some(2));
}

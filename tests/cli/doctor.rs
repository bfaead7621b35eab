//! `turnwheel doctor` as a user meets it: output, exit codes, what it leaves behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder of this test process that goes away at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("turnwheel-test-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("the temporary folder is writable");
        Self(path)
    }

    fn entries(&self) -> usize {
        fs::read_dir(&self.0).expect("the folder exists").count()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn turnwheel(arguments: &[&str], directory: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_turnwheel"))
        .args(arguments)
        .current_dir(directory)
        .output()
        .expect("the binary was built for this test")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("the output is text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("the messages are text")
}

#[test]
fn json_holds_every_floor_and_the_scratch_file_is_gone() {
    let folder = Folder::new("json");
    let output = turnwheel(&["doctor", "--json"], &folder.0);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stderr(&output), "", "no progress unless standard error is a terminal");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["processors"]["workers"].as_u64().unwrap() >= 1);
    assert!(report["pinning"]["outcome"].is_string());
    let floors = &report["floors"];
    for name in ["atomic_ns", "clock_ns", "unpark_us", "append_sync_ms"] {
        let min = floors[name]["min"].as_f64().expect(name);
        let p50 = floors[name]["p50"].as_f64().expect(name);
        let p99 = floors[name]["p99"].as_f64().expect(name);
        assert!(min > 0.0, "{name}: {min}");
        assert!(min <= p50, "{name}: {min} {p50}");
        assert!(p50 <= p99, "{name}: {p50} {p99}");
    }
    let cores = report["processors"]["allowed"].as_array().unwrap().len();
    assert_eq!(floors["handover_ns"].is_object(), cores >= 2);
    assert_eq!(folder.entries(), 0, "the scratch file stays behind");
}

#[test]
fn the_table_names_every_fact() {
    let folder = Folder::new("table");
    let directory = folder.0.to_str().unwrap();
    let output = turnwheel(&["doctor", "--dir", directory], &std::env::temp_dir());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    for fact in [
        "cores allowed (cpuset)",
        "cgroup CPU quota",
        "workers by default",
        "pinning",
        "cache-line hand-over",
        "atomic operation",
        "clock read",
        "unpark to running",
        "append + fdatasync",
        directory,
    ] {
        assert!(text.contains(fact), "«{fact}» is missing from:\n{text}");
    }
    assert_eq!(folder.entries(), 0, "the scratch file stays behind");
}

#[test]
fn a_missing_directory_is_wrong_usage_and_is_named() {
    let folder = Folder::new("missing");
    let output = turnwheel(&["doctor", "--dir", "no/such/place"], &folder.0);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no/such/place"), "{}", stderr(&output));
    assert!(stderr(&output).contains("--dir"), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
}

#[test]
fn a_file_in_place_of_the_directory_is_wrong_usage() {
    let folder = Folder::new("file");
    fs::write(folder.0.join("plain"), "text").unwrap();
    let output = turnwheel(&["doctor", "--dir", "plain"], &folder.0);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("plain"), "{}", stderr(&output));
}

#[test]
fn an_unknown_flag_is_wrong_usage_and_is_named() {
    let folder = Folder::new("flag");
    let output = turnwheel(&["doctor", "--jsn"], &folder.0);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--jsn"), "{}", stderr(&output));
}

#[test]
fn no_verb_teaches_and_is_wrong_usage() {
    let folder = Folder::new("none");
    let output = turnwheel(&[], &folder.0);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("turnwheel doctor"), "{}", stderr(&output));
}

#[test]
fn help_and_version_succeed_and_teach() {
    let folder = Folder::new("help");
    let help = turnwheel(&["--help"], &folder.0);
    assert_eq!(help.status.code(), Some(0));
    assert!(stdout(&help).contains("Exit codes"));
    let doctor = turnwheel(&["doctor", "--help"], &folder.0);
    assert_eq!(doctor.status.code(), Some(0));
    assert!(stdout(&doctor).contains("What the figures are"));
    let version = turnwheel(&["--version"], &folder.0);
    assert_eq!(stdout(&version).trim(), concat!("turnwheel ", env!("CARGO_PKG_VERSION")));
}

//! Published files: licences, notices, bill of materials, and the packages of this workspace.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use turnwheel_packaging::{licence, notices, packages, sbom};

#[test]
fn every_package_has_a_licence_that_deny_toml_allows() {
    licence::check_all().unwrap();
}

#[test]
fn notices_and_bill_name_every_package_of_the_binary_and_no_tool_of_tests() {
    let shipped = packages::shipped().unwrap();
    let names: BTreeSet<&str> = shipped.iter().map(|package| package.name.as_str()).collect();
    assert!(names.contains("tokio") && names.contains("turnwheel-engine"), "{names:?}");
    assert!(!names.contains("rcgen") && !names.contains("turnwheel-testkit"), "{names:?}");
    let notices = notices::of(&shipped).unwrap();
    let bill: Value = serde_json::from_str(&sbom::of(&shipped).unwrap()).unwrap();
    assert_eq!(bill["metadata"]["component"]["name"], "turnwheel");
    let components = bill["components"].as_array().unwrap();
    assert_eq!(components.len() + 1, shipped.len());
    assert_eq!(bill["dependencies"].as_array().unwrap().len(), shipped.len());
    for package in shipped.iter().filter(|package| !package.is_own) {
        assert!(notices.contains(&format!("{} {}", package.name, package.version)));
        let component = components.iter().find(|it| it["name"] == package.name.as_str()).unwrap();
        assert!(component["hashes"][0]["content"].is_string(), "{component}");
    }
    assert!(notices.contains("Permission is hereby granted"), "texts are in it");
}

/// Folders of the packages that are published.
fn published() -> Vec<(String, PathBuf)> {
    let own = packages::all().expect("cargo resolves").into_iter().filter(|package| package.is_own);
    let is_published = |folder: &PathBuf| {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
        !manifest.contains("\npublish = false\n")
    };
    own.map(|package| (package.name, package.folder)).filter(|it| is_published(&it.1)).collect()
}

#[test]
fn published_packages_need_published_ones_only_and_say_their_versions() {
    let names: BTreeSet<String> = published().into_iter().map(|(name, _)| name).collect();
    assert!(names.len() >= 12, "{names:?}");
    for package in packages::all().unwrap() {
        if !names.contains(&package.name) {
            continue;
        }
        for (needed, _) in package.needs {
            let is_own = needed.starts_with("turnwheel");
            assert!(!is_own || names.contains(&needed), "{} needs {needed}", package.name);
        }
    }
    let root = fs::read_to_string(packages::root().join("Cargo.toml")).unwrap();
    for line in root.lines().filter(|line| line.starts_with("turnwheel")) {
        let is_for_tests = root.find("[dev-dependencies]") < root.find(line);
        assert!(is_for_tests || !line.contains("path = ") || line.contains("version = "), "{line}");
    }
    // With a version two packages that test each other could never be published.
    for (name, folder) in published() {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let tests = manifest.split_once("[dev-dependencies]").map_or("", |(_, rest)| rest);
        for line in tests.lines().filter(|line| line.starts_with("turnwheel")) {
            assert!(line.contains("path = ") && !line.contains("version"), "{name}: {line}");
        }
    }
}

#[test]
fn packages_contain_their_licences_and_say_what_docs_rs_shows() {
    for (name, folder) in published() {
        let mut command = Command::new(env!("CARGO"));
        command.args(["package", "--list", "--allow-dirty", "-p", &name]);
        let output = command.current_dir(packages::root()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let list = String::from_utf8(output.stdout).unwrap();
        let files: BTreeSet<&str> = list.lines().collect();
        for file in ["LICENSE-MIT", "LICENSE-APACHE", "Cargo.toml"] {
            assert!(files.contains(file), "{name} has no {file}");
        }
        let manifest: toml::Table =
            fs::read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap();
        if manifest.contains_key("features") {
            let shown = &manifest["package"]["metadata"]["docs"]["rs"]["all-features"];
            assert_eq!(shown.as_bool(), Some(true), "{name}");
        }
    }
}

#[test]
fn workflow_runs_every_step_of_ci_once() {
    let read = |file: &str| fs::read_to_string(packages::root().join(file)).unwrap();
    let script = read(".ci/run");
    let all = script.lines().find_map(|line| line.strip_prefix("all_steps=(")).unwrap();
    let mut steps: Vec<&str> = all.trim_end_matches(')').split_whitespace().collect();
    let workflow = read(".github/workflows/ci.yml");
    assert!(workflow.contains("run: .ci/run ${{ matrix.steps }}"));
    let (_, matrix) = workflow.split_once("        steps:\n").unwrap();
    let rows = matrix.lines().map_while(|line| line.strip_prefix("          - "));
    let mut run: Vec<&str> = rows.flat_map(str::split_whitespace).collect();
    steps.sort_unstable();
    run.sort_unstable();
    assert_eq!(run, steps);
}

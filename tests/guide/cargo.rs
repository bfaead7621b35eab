//! What pages ask of cargo: what it names is there. Nothing is built by it; the binary is.

use std::path::{Path, PathBuf};

use clap::Parser as _;

use crate::bench_cli::Cli;

/// The folders of the packages.
const PACKAGES: [(&str, &str); 10] = [
    ("turnwheel", "."),
    ("turnwheel-runtime", "runtime"),
    ("turnwheel-actors", "actors"),
    ("turnwheel-actors-macros", "actors/macros"),
    ("turnwheel-engine", "engine"),
    ("turnwheel-flow", "engine/flow"),
    ("turnwheel-testkit", "engine/testkit"),
    ("turnwheel-bench", "benches"),
    ("turnwheel-loom", "loom-tests"),
    ("turnwheel-browser", "browser-tests"),
];

pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of a package.
pub(crate) fn folder_of(package: &str) -> Option<PathBuf> {
    let found = PACKAGES.iter().find(|(name, _)| *name == package);
    found.map(|(_, folder)| root().join(folder))
}

/// Looks at all commands of cargo, and of the benchmark harness, in lines of shell.
pub(crate) fn check(lines: &str) -> Result<(), String> {
    for line in lines.replace("\\\n", " ").lines() {
        let line = line.split(" #").next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        let of_program = words.iter().position(|word| !word.contains('=')).unwrap_or(0);
        match words.get(of_program).map(|word| word.rsplit('/').next().unwrap_or(word)) {
            Some("cargo") => cargo(&words[of_program + 1..])?,
            Some("turnwheel-bench") => bench(&words[of_program + 1..])?,
            _ => {}
        }
    }
    Ok(())
}

fn cargo(words: &[&str]) -> Result<(), String> {
    let (own, others) = match words.iter().position(|word| *word == "--") {
        Some(at) => (&words[..at], &words[at + 1..]),
        None => (words, &[][..]),
    };
    let known = ["run", "test", "build", "install", "bench", "doc", "add"];
    let verb = own.first().copied().unwrap_or_default();
    if !known.contains(&verb) {
        return Err(format!("«cargo {verb}» is nothing that the checker of pages knows"));
    }
    let value = |flags: &[&str]| {
        let at = own.iter().position(|word| flags.contains(word))?;
        own.get(at + 1).copied()
    };
    let package = value(&["-p", "--package"]).unwrap_or("turnwheel");
    let folder = folder_of(package).ok_or_else(|| format!("there is no package {package}"))?;
    let named = [("--example", "examples"), ("--test", "tests"), ("--bench", "benches")];
    for (flag, place) in named {
        let Some(name) = value(&[flag]).filter(|name| *name != "NAME") else { continue };
        let place = folder.join(place);
        let is_there = place.join(format!("{name}.rs")).is_file()
            || place.join(name).join("main.rs").is_file();
        if !is_there {
            return Err(format!("{package} has nothing named «{name}» for {flag}"));
        }
    }
    if let Some(path) = value(&["--path"]) {
        if !root().join(path).join("Cargo.toml").is_file() {
            return Err(format!("there is no package in «{path}»"));
        }
    }
    if let Some(features) = value(&["--features"]) {
        for feature in features.split(',') {
            has_feature(&folder, feature)?;
        }
    }
    if let Some(profile) = value(&["--profile"]) {
        let manifest = std::fs::read_to_string(root().join("Cargo.toml"));
        let section = format!("\n[profile.{profile}]\n");
        if !manifest.is_ok_and(|text| text.contains(&section)) {
            return Err(format!("there is no profile «{profile}»"));
        }
    }
    match package {
        "turnwheel-bench" if verb == "run" => bench(others),
        _ => Ok(()),
    }
}

/// That the manifest of a package has a feature.
pub(crate) fn has_feature(folder: &Path, feature: &str) -> Result<(), String> {
    let file = folder.join("Cargo.toml");
    let text = std::fs::read_to_string(&file).map_err(|error| error.to_string())?;
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    let features = table.get("features").and_then(toml::Value::as_table);
    match features.is_some_and(|features| features.contains_key(feature)) {
        true => Ok(()),
        false => Err(format!("{} has no feature «{feature}»", file.display())),
    }
}

/// The arguments are those of the harness's real command line.
fn bench(arguments: &[&str]) -> Result<(), String> {
    if arguments.iter().any(|word| matches!(*word, "--help" | "VERB")) {
        return Ok(());
    }
    let words = std::iter::once("turnwheel-bench").chain(arguments.iter().copied());
    Cli::try_parse_from(words).map(drop).map_err(|error| error.to_string())
}

//! Names the commit that a binary is built from, for `turnwheel --version`.
//!
//! A package of the crate has the commit in `.cargo_vcs_info.json`. In a repository only release
//! builds ask git: a build for development would be made anew after each commit.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=TURNWHEEL_COMMIT");
    println!("cargo:rerun-if-changed=build.rs");
    let commit = said().or_else(packaged).or_else(of_repository);
    if let Some(commit) = commit.filter(|commit| !commit.is_empty()) {
        let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
        println!("cargo:rustc-env=TURNWHEEL_VERSION={version} ({commit})");
    }
}

/// The commit that the builder says, where there is no repository.
fn said() -> Option<String> {
    std::env::var("TURNWHEEL_COMMIT").ok().map(short)
}

fn packaged() -> Option<String> {
    let file = Path::new(".cargo_vcs_info.json");
    let text = file.is_file().then(|| std::fs::read_to_string(file).ok())??;
    let (_, rest) = text.split_once("\"sha1\"")?;
    rest.split('"').nth(1).map(|commit| short(commit.to_owned()))
}

fn of_repository() -> Option<String> {
    if std::env::var("PROFILE").as_deref() != Ok("release") {
        return None;
    }
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = output.status.success().then(|| String::from_utf8(output.stdout).ok())??;
        Some(text.trim().to_owned())
    };
    for file in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", file])?;
        println!("cargo:rerun-if-changed={path}");
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn short(commit: String) -> String {
    commit.chars().filter(char::is_ascii_hexdigit).take(12).collect()
}

//! Rules of the source tree that no compiler checks.

mod order;
mod page;
mod size;

use std::fs;
use std::path::{Path, PathBuf};

/// Names reserved for `sync/` (clocks: `time/clock.rs`), with the exceptions and their reasons.
const RESERVED: &[(&str, &[&str])] = &[
    ("std::sync::atomic::", &["sync/"]),
    ("std::sync::Mutex", &["sync/"]),
    ("std::sync::RwLock", &["sync/"]),
    ("std::sync::Condvar", &["sync/"]),
    ("parking_lot::", &["sync/"]),
    ("Instant::now", &["sync/", "time/clock.rs"]),
    ("SystemTime::now", &["time/clock.rs"]),
    ("thread::sleep", &[]),
    ("thread::spawn", &[]),
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder is readable") {
        let path = entry.expect("the folder is readable").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace")
}

fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
}

fn each_source(look: impl FnMut(&str, &str)) {
    each_source_of("runtime/src", look);
}

/// Calls `look` with the path below `folder` and the text of each source. `folder` is a path from
/// the root of the workspace.
fn each_source_of(folder: &str, mut look: impl FnMut(&str, &str)) {
    let root = workspace().join(folder);
    let mut paths = Vec::new();
    sources(&root, &mut paths);
    assert!(!paths.is_empty(), "{folder} has no sources");
    for path in paths {
        let name = path
            .strip_prefix(&root)
            .expect("it was found below")
            .to_string_lossy()
            .replace('\\', "/");
        look(&name, &fs::read_to_string(&path).expect("sources are text"));
    }
}

#[test]
fn only_sync_names_std_primitives() {
    let mut broken = Vec::new();
    each_source(|name, text| {
        for (line_number, line) in code_lines(text) {
            for (reserved, allowed) in RESERVED {
                let is_allowed = allowed.iter().any(|prefix| name.starts_with(prefix));
                if line.contains(reserved) && !is_allowed && !name.ends_with("_tests.rs") {
                    broken.push(format!("{name}:{line_number}: {reserved}"));
                }
            }
        }
    });
    assert!(broken.is_empty(), "use crate::sync or the clock instead:\n{}", broken.join("\n"));
}

#[test]
fn user_code_is_called_from_the_turn_only() {
    // `run.rs` and `phases.rs` call jobs and hooks; `submit.rs` and `context.rs` hold the
    // trampolines that they call; `node.rs` discards.
    let callers = ["task/turn/run.rs", "task/turn/phases.rs", "task/lane/node.rs"];
    let mut broken = Vec::new();
    each_source(|name, text| {
        for (line_number, line) in code_lines(text) {
            if line.contains("Use::Run)") && !callers.contains(&name) {
                broken.push(format!("{name}:{line_number}: {line}"));
            }
        }
    });
    assert!(broken.is_empty(), "only a turn runs jobs:\n{}", broken.join("\n"));
}

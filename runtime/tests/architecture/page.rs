//! Promises of the page about security name tests that exist.

use std::collections::HashSet;
use std::fs;

use super::{each_source_of, workspace};

/// Folders with tests that the page names.
const FOLDERS: [&str; 6] =
    ["src", "tests", "engine", "runtime/tests", "actors/tests", "benches/src"];

/// The name of the test that a line of code begins.
fn function(line: &str) -> Option<&str> {
    let rest = line.trim_start().trim_start_matches("async ").strip_prefix("fn ")?;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    Some(&rest[..end])
}

#[test]
fn each_promise_of_the_page_about_security_names_tests_that_exist() {
    let mut tests = HashSet::new();
    for folder in FOLDERS {
        each_source_of(folder, |_, text| {
            tests.extend(text.lines().filter_map(function).map(str::to_owned));
        });
    }
    let page = fs::read_to_string(workspace().join("docs/security.md")).expect("it is there");
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
    let (mut promises, mut missing) = (0, Vec::new());
    for row in rows {
        let Some(cell) = row.trim_end_matches([' ', '|']).rsplit(" | ").next() else { continue };
        // The last cell of a promise is a list of names, and nothing else.
        let names: Vec<&str> = cell.split(", ").map(|name| name.trim_matches('`')).collect();
        if !cell.starts_with('`') || names.iter().any(|name| name.matches('_').count() < 2) {
            continue;
        }
        promises += 1;
        missing.extend(names.iter().filter(|name| !tests.contains(**name)).copied());
    }
    assert_eq!(missing, [""; 0], "tests that docs/security.md names and nobody has");
    assert!(promises > 70, "{promises} promises");
}

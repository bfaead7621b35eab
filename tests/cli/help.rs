//! The help of all verbs in one file, so that a change of it is seen in a review.

use std::path::Path;
use std::process::Command;

/// Writes the file anew in place of comparing it.
const WRITE: &str = "TURNWHEEL_WRITE_SNAPSHOTS";

fn help(verbs: &[String]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_turnwheel"));
    // Variables are settings too, and are shown.
    command.env_clear().args(verbs).arg("--help");
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{verbs:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The verbs that a help lists.
fn listed(help: &str) -> Vec<String> {
    let commands = help.split("\nCommands:\n").nth(1).unwrap_or_default();
    let lines = commands.lines().take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| {
        let name = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '))?;
        name.split(' ').next().map(str::to_owned)
    });
    names.filter(|name| name != "help").collect()
}

/// Adds the help of a verb, and of all below it. What all verbs have is told once.
fn add(text: &mut String, verbs: &[String]) {
    let help = help(verbs);
    let own = match verbs {
        [] => help.as_str(),
        _ => help.split("\nEverywhere:\n").next().unwrap_or(&help),
    };
    text.push_str(&format!("=== turnwheel {}\n", verbs.join(" ")));
    let rest = help.split("\nExamples:\n").nth(1).filter(|_| !own.contains("\nExamples:\n"));
    for line in own.lines().chain(rest.map(|_| "Examples:")).chain(rest.unwrap_or("").lines()) {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    for name in listed(&help) {
        let mut below = verbs.to_vec();
        below.push(name);
        add(text, &below);
    }
}

#[test]
fn the_help_is_as_it_was_looked_at_last() {
    let mut now = String::new();
    add(&mut now, &[]);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/help.txt");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&file, &now).expect("it can be written");
        return;
    }
    let before = std::fs::read_to_string(&file).expect("the file is there");
    let differs = before.lines().zip(now.lines()).find(|(before, now)| before != now);
    assert!(
        before == now,
        "the help has changed, first at {differs:?}: look at it, and write it anew with {WRITE}=1"
    );
}

#[test]
fn help_fits_into_a_narrow_terminal() {
    for verbs in [&[][..], &["list"], &["serve"], &["run"], &["cancel"], &["schedule", "add"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_turnwheel"));
        command.env_clear().env("COLUMNS", "50").args(verbs).arg("--help");
        let output = command.output().expect("it runs");
        let help = String::from_utf8(output.stdout).expect("text");
        for line in help.lines() {
            let is_one_word = line.split_whitespace().count() < 2;
            let columns = line.chars().count();
            assert!(columns <= 50 || is_one_word, "{verbs:?}, {columns} columns: «{line}»");
        }
        let examples = help.split("\nExamples:\n").nth(1).unwrap_or_default();
        let examples = examples.split("\n\n").next().unwrap_or_default();
        for line in examples.lines() {
            let is_laid_out = line.starts_with("  turnwheel") || line.starts_with("      ");
            assert!(is_laid_out, "{verbs:?}: «{line}»");
        }
    }
}

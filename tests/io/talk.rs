//! Programs that flows talk with, line by line.
#![cfg(unix)]

use std::time::Duration;

use turnwheel::flow::{Io, IoCall, IoError, IoErrorKind, Process, Program, Reply};
use turnwheel::io::{HostIo, IoOptions};

fn program(script: &str) -> Process {
    Process {
        program: Program::Command("/bin/sh".to_owned()),
        arguments: vec!["-c".to_owned(), script.to_owned()],
        environment: vec![("COLOUR".to_owned(), "green".to_owned())],
        stdin: None,
    }
}

fn options() -> IoOptions {
    let mut options = IoOptions::default();
    options.output_max = 10_000;
    options
}

/// Says `hello` and hears lines until one of them is the last.
fn heard(script: &str, last: &str, limit: Duration) -> (Result<(), IoError>, Vec<String>) {
    let mut lines = Vec::new();
    let mut talk = |line: Option<&str>| match line {
        None => Reply::Say(vec!["hello".to_owned()]),
        Some(line) => {
            lines.push(line.to_owned());
            if line == last {
                Reply::Enough
            } else {
                Reply::Say(vec![format!("after {line}")])
            }
        }
    };
    let call = IoCall::new("plan/1", &|| false).limit(Some(limit));
    let ended = HostIo::new(options()).talk(&program(script), &mut talk, &call);
    (ended, lines)
}

/// Longer than any of these talks takes.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn program_is_told_lines_and_heard_until_it_is_enough() {
    // It would go on for ever.
    let script = "while read line; do echo \"$COLOUR $line\"; done; sleep 100";
    let (ended, lines) = heard(script, "green after green hello", LONG);
    ended.expect("it is enough");
    assert_eq!(lines, ["green hello", "green after green hello"]);
}

#[test]
fn program_that_ends_hangs_floods_or_is_not_there_is_an_error() {
    let (ended, _) = heard("echo broken >&2; exit 3", "never", LONG);
    let error = ended.expect_err("it has ended");
    assert!(error.message.contains("broken"), "{error}");
    let (ended, _) = heard("sleep 100", "never", Duration::from_millis(200));
    assert_eq!(ended.expect_err("it hangs").kind, IoErrorKind::TimedOut);
    let (ended, _) = heard("yes | tr -d '\\n'", "never", LONG);
    let error = ended.expect_err("it floods");
    assert!(error.message.contains("10000 bytes"), "{error}");
    let missing = Process { program: Program::Command("/no/such".to_owned()), ..program("") };
    let call = IoCall::new("plan/1", &|| false);
    let ended = HostIo::new(options()).talk(&missing, &mut |_| Reply::Enough, &call);
    assert_eq!(ended.expect_err("it is not there").kind, IoErrorKind::NotFound);
}

#[test]
fn programs_are_not_talked_with_where_commands_are_not_allowed() {
    let mut options = options();
    options.allow_shell = false;
    let call = IoCall::new("plan/1", &|| false);
    let ended = HostIo::new(options).talk(&program("echo"), &mut |_| Reply::Enough, &call);
    assert_eq!(ended.expect_err("it is refused").kind, IoErrorKind::Forbidden);
}

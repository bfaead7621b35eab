//! Child processes of the harness: speed modes are per process, and memory that one run has freed hides
//! what the next one takes.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use serde::de::DeserializeOwned;
use serde::Serialize;

use crate::error::BenchError;

/// Last lines of a child's standard error that its failure keeps: a panic with its backtrace.
const SAID_LINES_MAX: usize = 40;
/// Bytes of one such line that are kept.
const SAID_BYTES_MAX: usize = 400;

/// How a child ended that did not do what it was ordered.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Exit status, signal, or what was wrong with its output.
    pub(crate) why: String,
    /// The last lines of its standard error.
    pub(crate) said: Vec<String>,
}

impl Failure {
    fn of(error: impl ToString) -> Self {
        Self { why: error.to_string(), said: Vec::new() }
    }

    /// The error that names the process and what it was doing.
    pub(crate) fn at(self, index: usize, case: String) -> BenchError {
        BenchError::Child { index, case, why: self.why, said: self.said }
    }
}

/// Runs a child with a hidden verb and its orders as JSON, and hands on each line that it tells.
pub(crate) fn run<L: DeserializeOwned>(
    verb: &str,
    orders: &impl Serialize,
    each: impl FnMut(L),
) -> Result<(), Failure> {
    run_in(None, verb, orders, each)
}

/// The same in another binary of the harness, an older one for example; without one, in this one.
pub(crate) fn run_in<L: DeserializeOwned>(
    program: Option<&Path>,
    verb: &str,
    orders: &impl Serialize,
    each: impl FnMut(L),
) -> Result<(), Failure> {
    let program = match program {
        Some(program) => program.to_owned(),
        None => std::env::current_exe().map_err(Failure::of)?,
    };
    let orders = serde_json::to_string(orders).map_err(Failure::of)?;
    let mut command = Command::new(program);
    command.args([verb, &orders]);
    watch(&mut command, each)
}

/// Runs the command to its end; the last lines of its standard error go into its failure.
fn watch<L: DeserializeOwned>(command: &mut Command, each: impl FnMut(L)) -> Result<(), Failure> {
    let pipes = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = pipes.spawn().map_err(Failure::of)?;
    let errors = process.stderr.take().ok_or_else(|| Failure::of("has no standard error"))?;
    let errors = std::thread::spawn(move || last_lines(errors));
    let heard = hear(&mut process, each);
    if heard.is_err() {
        // It may have ended by itself.
        let _ = process.kill();
    }
    let status = process.wait().map_err(Failure::of);
    let said = joined(errors);
    match (heard, status) {
        (Ok(()), Ok(status)) if status.success() => Ok(()),
        (Ok(()), Ok(status)) => Err(Failure { why: status.to_string(), said }),
        (Err(why), Ok(status)) => Err(Failure { why: format!("{why}; {status}"), said }),
        (_, Err(failure)) => Err(Failure { said, ..failure }),
    }
}

/// Hands on the rows that a child tells; the error says what else it told.
fn hear<L: DeserializeOwned>(process: &mut Child, mut each: impl FnMut(L)) -> Result<(), String> {
    let out = process.stdout.take().ok_or("has no standard output")?;
    for line in BufReader::new(out).lines() {
        let line = line.map_err(|error| error.to_string())?;
        let line: L = serde_json::from_str(&line)
            .map_err(|error| format!("does not speak in rows ({error}): {line}"))?;
        each(line);
    }
    Ok(())
}

/// Passes on what a child writes to its standard error, and answers the end of it.
fn last_lines(errors: impl Read) -> Vec<String> {
    let mut last = VecDeque::with_capacity(SAID_LINES_MAX);
    for line in BufReader::new(errors).split(b'\n').map_while(Result::ok) {
        let text = String::from_utf8_lossy(&line);
        eprintln!("{text}");
        if last.len() == SAID_LINES_MAX {
            last.pop_front();
        }
        last.push_back(cut(&text).to_owned());
    }
    last.into()
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(SAID_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn joined(errors: JoinHandle<Vec<String>>) -> Vec<String> {
    errors.join().unwrap_or_else(|_| vec!["its messages could not be passed on".to_owned()])
}

/// In a child: reads its orders.
pub(crate) fn orders<O: DeserializeOwned>(text: &str) -> Result<O, BenchError> {
    serde_json::from_str(text).map_err(|error| BenchError::BadValue(format!("orders: {error}")))
}

/// In a child: tells a line.
pub(crate) fn tell(line: &impl Serialize) {
    let text = serde_json::to_string(line).expect("lines are plain records");
    let mut out = io::stdout().lock();
    // The parent reads to the end; if it is gone, so is the purpose.
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    if written.is_err() {
        std::process::exit(1);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str) -> (Vec<u32>, Result<(), Failure>) {
        let mut rows = Vec::new();
        let mut command = Command::new("sh");
        let ended = watch(command.args(["-c", script]), |row: u32| rows.push(row));
        (rows, ended)
    }

    #[test]
    fn failure_keeps_the_exit_status_and_the_last_lines() {
        let script = "echo 1; for i in $(seq 1 100); do echo line $i >&2; done; exit 3";
        let (rows, ended) = shell(script);
        let failure = ended.unwrap_err();
        assert_eq!(rows, [1]);
        assert_eq!(failure.why, "exit status: 3");
        assert_eq!(failure.said.len(), SAID_LINES_MAX);
        assert_eq!(failure.said.last().unwrap(), "line 100");
    }

    #[test]
    fn failure_names_the_signal() {
        let (_, ended) = shell("echo gone >&2; kill -9 $$");
        let failure = ended.unwrap_err();
        assert!(failure.why.contains("signal: 9"), "{}", failure.why);
        assert_eq!(failure.said, ["gone"]);
    }

    #[test]
    fn failure_keeps_a_bounded_part_of_a_long_line() {
        let (_, ended) = shell("printf 'ä%.0s' $(seq 1 1000) >&2; exit 1");
        assert_eq!(ended.unwrap_err().said, ["ä".repeat(SAID_BYTES_MAX / 2)]);
    }

    #[test]
    fn child_that_tells_no_row_is_ended_and_its_words_are_kept() {
        let (_, ended) = shell("echo why >&2; echo no row; exec sleep 600");
        let failure = ended.unwrap_err();
        assert!(failure.why.contains("does not speak in rows"), "{}", failure.why);
        assert!(failure.why.contains("no row"), "{}", failure.why);
        assert_eq!(failure.said, ["why"]);
    }
}

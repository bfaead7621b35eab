//! Child processes of the harness: speed modes are per process, and memory that one run has freed hides
//! what the next one takes.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use serde::de::DeserializeOwned;
use serde::Serialize;

use crate::error::BenchError;

/// Runs a child with a hidden verb and its orders as JSON, and hands on each line that it tells.
pub(crate) fn run<L: DeserializeOwned>(
    index: usize,
    verb: &str,
    orders: &impl Serialize,
    mut each: impl FnMut(L),
) -> Result<(), BenchError> {
    let fail = |why: String| BenchError::Child { index, why };
    let program = std::env::current_exe().map_err(|error| fail(error.to_string()))?;
    let orders = serde_json::to_string(orders).map_err(|error| fail(error.to_string()))?;
    let mut process = Command::new(program)
        .args([verb, &orders])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| fail(error.to_string()))?;
    let out = process.stdout.take().ok_or_else(|| fail("has no standard output".to_owned()))?;
    for line in BufReader::new(out).lines() {
        let line = line.map_err(|error| fail(error.to_string()))?;
        let line: L = serde_json::from_str(&line)
            .map_err(|error| fail(format!("does not speak in rows ({error}): {line}")))?;
        each(line);
    }
    let status = process.wait().map_err(|error| fail(error.to_string()))?;
    if status.success() {
        Ok(())
    } else {
        Err(fail(format!("{status}; see its message above")))
    }
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

//! What ends a measurement without a result.

/// Why the harness stops with an error exit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum BenchError {
    /// A run came to another result than the one that is known.
    #[error("{what}: expected {expected}, got {got}")]
    WrongResult {
        /// Which check.
        what: String,
        /// The known result.
        expected: String,
        /// What the run came to.
        got: String,
    },
    /// A run did not end; messages were lost or something hangs.
    #[error("{what}: not finished after {seconds} s, {left} of its actors have not reported")]
    Unfinished {
        /// Which run.
        what: String,
        /// The limit.
        seconds: u64,
        /// Reports that never came.
        left: u64,
    },
    /// A contender could not be started.
    #[error("{what} cannot be started: {why}")]
    Start {
        /// Which contender.
        what: String,
        /// Its own words.
        why: String,
    },
    /// What is measured has failed.
    #[error("{0}")]
    Failed(String),
    /// A child process failed.
    #[error("child process {index}, at {case}: {why}{}", quoted(said))]
    Child {
        /// Which one, from 1.
        index: usize,
        /// The case that it was running.
        case: String,
        /// Exit status, signal or a bad row.
        why: String,
        /// The last lines of its standard error.
        said: Vec<String>,
    },
    /// Some cases have no result, or fewer repetitions; the rows of the others are written.
    #[error("{0} of the child processes failed; the rows of the others are complete")]
    Incomplete(usize),
    /// A name on the command line that means nothing.
    #[error("no such {what}: {name}; known are {known}")]
    UnknownName {
        /// Pattern, implementation, program.
        what: &'static str,
        /// As given.
        name: String,
        /// What there is.
        known: String,
    },
    /// A value on the command line that cannot be.
    #[error("{0}")]
    BadValue(String),
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is no array of rows.
    #[error("{path}: not an array of rows: {source}")]
    Rows {
        /// The file.
        path: String,
        /// Where it went wrong.
        source: serde_json::Error,
    },
}

/// The lines of a child below its error.
fn quoted(said: &[String]) -> String {
    said.iter().map(|line| format!("\n    {line}")).collect()
}

/// Checks one figure of a result.
pub(crate) fn check<T>(what: impl Into<String>, got: T, expected: T) -> Result<(), BenchError>
where
    T: PartialEq + std::fmt::Display,
{
    if got == expected {
        return Ok(());
    }
    Err(BenchError::WrongResult {
        what: what.into(),
        expected: expected.to_string(),
        got: got.to_string(),
    })
}

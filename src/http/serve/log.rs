//! The log of a server: lines for people, or JSON for log collectors.

use std::io;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// The log cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The log filter is invalid.
    #[error(
        "«{filter}» does not say what to log: {problem}; write it as info,turnwheel::http=debug"
    )]
    Filter {
        /// The given filter.
        filter: String,
        /// The problem.
        problem: String,
    },
    /// Something in this process logs already.
    #[error("this process has a log already: {0}")]
    Started(String),
}

/// Logs to standard error the events that pass the filter: a level, or levels by target such as
/// `info,turnwheel::http=debug`. Changes go to the target `turnwheel::audit`.
///
/// # Errors
///
/// The filter is invalid, or this process has a log already.
pub fn start_log(format: LogFormat, filter: &str) -> Result<(), LogError> {
    let registry = tracing_subscriber::registry().with(targets(filter)?);
    let started = match format {
        LogFormat::Text => {
            let says_no = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            let is_terminal = !says_no && io::IsTerminal::is_terminal(&io::stderr());
            let lines = fmt::layer().with_writer(io::stderr).with_ansi(is_terminal);
            registry.with(lines).try_init()
        }
        LogFormat::Json => {
            let lines = fmt::layer().json().flatten_event(true).with_writer(io::stderr);
            registry.with(lines).try_init()
        }
    };
    started.map_err(|error| LogError::Started(error.to_string()))
}

/// The same, and sends the spans of steps to a trace collector, regardless of the filter.
///
/// # Errors
///
/// As [`start_log`].
#[cfg(feature = "otlp")]
pub fn start_log_and_traces(
    format: LogFormat,
    filter: &str,
    traces: crate::otlp::Layer,
) -> Result<(), LogError> {
    use tracing_subscriber::Layer as _;
    let targets = targets(filter)?;
    let lines = match format {
        LogFormat::Text => {
            let is_terminal = io::IsTerminal::is_terminal(&io::stderr());
            fmt::layer().with_writer(io::stderr).with_ansi(is_terminal).boxed()
        }
        LogFormat::Json => fmt::layer().json().flatten_event(true).with_writer(io::stderr).boxed(),
    };
    let started = tracing_subscriber::registry()
        .with(lines.with_filter(targets))
        .with(traces.with_filter(crate::otlp::wanted()))
        .try_init();
    started.map_err(|error| LogError::Started(error.to_string()))
}

fn targets(filter: &str) -> Result<Targets, LogError> {
    filter.parse().map_err(|error| LogError::Filter {
        filter: filter.to_owned(),
        problem: format!("{error}"),
    })
}

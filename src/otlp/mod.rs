//! Traces for a collector: each call of a step, and each request that a flow sends, as a span of OTLP
//! over HTTP, in JSON.
//!
//! The engine opens a span for each call of a step's code, with the W3C trace of its plan.
//! [`start`] gives a layer for `tracing` that turns these spans into OTLP when they end, and a
//! thread that sends them in batches. No step waits for the collector: spans go through a bounded
//! queue. Spans that do not fit, or are refused by the collector, are dropped and counted.
//!
//! A plan that belongs to no trace is a trace of its own, whose id is that of the plan.

mod environment;
mod layer;
mod sender;
mod span;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::Layer as _;

pub use environment::Environment;
pub use layer::Layer;
pub use sender::Exporter;

/// Spans that wait to be sent: some seconds of a busy server, about 2 MiB.
pub const QUEUE_MAX: usize = 4_096;

/// Spans of one request.
pub const BATCH_MAX: usize = 512;

/// Time for which a span waits for others before it is sent.
pub const SENT_WITHIN: Duration = Duration::from_secs(1);

/// Time limit of a collector's answer.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(10);

static SENT: AtomicU64 = AtomicU64::new(0);
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Counts of the spans of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// The collector has taken them.
    pub sent: u64,
    /// They did not fit into the queue, or the collector did not take them.
    pub dropped: u64,
}

/// Counts of the spans of this process so far.
pub fn fate() -> Fate {
    Fate { sent: SENT.load(Ordering::Relaxed), dropped: DROPPED.load(Ordering::Relaxed) }
}

/// Spans cannot be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OtlpError {
    /// The address is none.
    #[error("«{url}» is no address of a collector: write it as http://HOST:4318")]
    Address {
        /// The given address.
        url: String,
    },
    /// No thread to send from.
    #[error("no thread to send traces from: {0}")]
    Thread(std::io::Error),
}

/// A layer that takes the spans of steps, and the exporter that sends them to the collector at this
/// address. An address without a path gets `/v1/traces`. Headers, time limit and attributes of the
/// process are those of the [`Environment`].
///
/// Cost: a thread; for each call of a step one span as JSON, made when it ends.
///
/// # Errors
///
/// The address is invalid, or the thread cannot be started.
pub fn start(url: &str) -> Result<(Layer, Exporter), OtlpError> {
    let exporter = Exporter::start(&address(url)?, Environment::read())?;
    Ok((Layer::new(exporter.queue()), exporter))
}

/// The targets that a [`Layer`] needs: the spans of steps and of their requests.
pub fn wanted() -> Targets {
    Targets::new().with_targets(layer::TARGETS.map(|target| (target, LevelFilter::INFO)))
}

/// Hands the spans of steps to a collector in a process that logs nothing. Whether it has begun: a process
/// has one subscriber.
#[must_use = "without it no spans are sent"]
pub fn install(traces: Layer) -> bool {
    tracing_subscriber::registry().with(traces.with_filter(wanted())).try_init().is_ok()
}

/// The URL for posting spans.
fn address(url: &str) -> Result<String, OtlpError> {
    let wrong = || OtlpError::Address { url: url.to_owned() };
    let (scheme, rest) = url.trim().split_once("://").ok_or_else(wrong)?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    if !matches!(scheme, "http" | "https") || host.is_empty() || host.contains(char::is_whitespace)
    {
        return Err(wrong());
    }
    let path = if path.is_empty() { "v1/traces" } else { path };
    Ok(format!("{scheme}://{host}/{path}"))
}

fn dropped(spans: usize) {
    DROPPED.fetch_add(spans as u64, Ordering::Relaxed);
}

fn sent(spans: usize) {
    SENT.fetch_add(spans as u64, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_path_gets_the_usual_one() {
        let found = |url: &str| address(url).ok();
        let usual = Some("http://localhost:4318/v1/traces".to_owned());
        assert_eq!(found("http://localhost:4318"), usual);
        assert_eq!(found("http://localhost:4318/"), usual);
        assert_eq!(found("https://c/in"), Some("https://c/in".to_owned()));
        for wrong in ["", "localhost:4318", "ftp://host", "http://", "http://a b"] {
            assert_eq!(found(wrong), None, "{wrong}");
        }
    }
}

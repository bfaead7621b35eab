//! Spans of steps for a collector, if the settings name one.

use std::time::Duration;

use turnwheel::otlp::{self, Environment, Exporter, Layer};

use super::exit::Exit;
use super::paint::tell;
use super::settings::Settings;

/// Time that the end of the process waits for unsent spans.
const FLUSH_WITHIN: Duration = Duration::from_secs(5);

/// The layer that takes spans and the exporter that sends them; `None` without a collector.
pub(crate) fn of(
    settings: &Settings,
    flag: Option<&str>,
) -> Result<Option<(Layer, Exporter)>, Exit> {
    let environment = Environment::read();
    let url = flag.or_else(|| settings.text("otlp")).or(environment.endpoint.as_deref());
    let Some(url) = url else { return Ok(None) };
    let started = otlp::start(url);
    started.map(Some).map_err(|error| {
        Exit::usage(error).advice("name a collector with --otlp URL or the setting «otlp»")
    })
}

/// In a process that logs nothing.
pub(crate) fn start(settings: &Settings, flag: Option<&str>) -> Result<Option<Exporter>, Exit> {
    let Some((layer, exporter)) = of(settings, flag)? else { return Ok(None) };
    if !otlp::install(layer) {
        return Err(Exit::failed("traces cannot be taken: this process has a log already"));
    }
    Ok(Some(exporter))
}

/// Sends the rest, and reports lost spans.
pub(crate) fn end(exporter: Option<Exporter>) {
    let Some(exporter) = exporter else { return };
    let is_flushed = exporter.flush(FLUSH_WITHIN);
    let dropped = otlp::fate().dropped;
    if dropped > 0 || !is_flushed {
        tell!("turnwheel: the collector has not taken all traces: {dropped} spans are lost");
    }
}

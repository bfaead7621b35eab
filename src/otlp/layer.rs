//! The layer that takes the spans of steps from `tracing`.

use std::time::SystemTime;

use tracing::span::{Attributes, Id, Record};
use tracing::Subscriber;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::sender::Queue;
use super::span::Open;

/// The targets of the spans of steps, of the requests that they send, and of plans.
pub(super) const TARGETS: [&str; 3] = ["turnwheel::step", "turnwheel::http", PLAN];

/// The target of the spans of plans.
pub(super) const PLAN: &str = "turnwheel::plan";

/// A layer that hands the spans of steps to an [`Exporter`](super::Exporter) when they end.
#[derive(Debug)]
pub struct Layer {
    queue: Queue,
}

impl Layer {
    pub(super) fn new(queue: Queue) -> Self {
        Self { queue }
    }
}

impl<S> tracing_subscriber::Layer<S> for Layer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if !TARGETS.contains(&attributes.metadata().target()) {
            return;
        }
        let Some(span) = context.span(id) else { return };
        let mut open = Open::new(SystemTime::now());
        attributes.record(&mut open);
        if let Some(around) = span.parent() {
            if let Some(around) = around.extensions_mut().get_mut::<Open>() {
                open.within(around);
            }
        }
        span.extensions_mut().insert(open);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut extensions = span.extensions_mut();
        if let Some(open) = extensions.get_mut::<Open>() {
            values.record(open);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let open = span.extensions_mut().remove::<Open>();
        if let Some(open) = open {
            self.queue.put(open.ended(SystemTime::now()));
        }
    }
}

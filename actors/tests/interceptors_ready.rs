//! The interceptors that are ready to be installed: spans and metrics.

mod intercepted;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use intercepted::*;
use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use turnwheel_actors::intercept::Direction;
use turnwheel_actors::{RequestContext, System, TraceContext};
use turnwheel_interceptors::{Metrics, Spans, METRICS_ROWS_MAX};
use turnwheel_runtime::sim::Sim;

type Fields = BTreeMap<&'static str, String>;

/// Keeps spans, and in which of them this thread is.
#[derive(Clone, Default)]
struct Kept {
    is_deaf: bool,
    spans: Arc<Mutex<Vec<Fields>>>,
    inside: Arc<Mutex<Vec<u64>>>,
    open: Arc<AtomicU64>,
}

struct Into<'a>(&'a mut Fields);

impl Visit for Into<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl Subscriber for Kept {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        !self.is_deaf && metadata.is_span() && metadata.target() == "turnwheel::message"
    }
    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut fields = Fields::new();
        attributes.record(&mut Into(&mut fields));
        let inside = self.inside.lock().last().copied().filter(|_| attributes.is_contextual());
        fields.insert("inside", format!("{inside:?}"));
        let mut spans = self.spans.lock();
        spans.push(fields);
        self.open.fetch_add(1, Ordering::Relaxed);
        Id::from_u64(spans.len() as u64)
    }
    fn record(&self, id: &Id, values: &Record<'_>) {
        values.record(&mut Into(&mut self.spans.lock()[id.into_u64() as usize - 1]));
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, id: &Id) {
        self.inside.lock().push(id.into_u64());
    }
    fn exit(&self, id: &Id) {
        assert_eq!(self.inside.lock().pop(), Some(id.into_u64()));
    }
    fn try_close(&self, _: Id) -> bool {
        self.open.fetch_sub(1, Ordering::Relaxed);
        true
    }
}

const HEADER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[test]
fn each_message_has_a_span_with_its_actor_and_type_in_the_trace_of_its_request() -> Tested {
    let kept = Kept::default();
    let sim = Sim::fifo();
    tracing::subscriber::with_default(kept.clone(), || -> Tested {
        let system = System::builder(&sim.group("cpu"))
            .intercept_outgoing(Spans::seeded(1))
            .intercept(Spans::seeded(2))
            .build();
        let adder = system.actor(Adder::default()).name("sum").class("adders").spawn()?;
        let trace: TraceContext = HEADER.parse()?;
        let asked = RequestContext::new().with_trace(trace).scope(|| adder.ask(Exclusive(1)));
        sim.advance(Duration::from_secs(1));
        assert_eq!(sim.block_on(asked)??, 1);
        assert!(sim.block_on(adder.ask(Fall))?.is_err());
        Ok(())
    })?;
    let spans = kept.spans.lock();
    let [sent, handled, sent_untraced, fallen] = &spans[..] else {
        return Err(format!("two messages, sent and handled: {spans:?}").into());
    };
    for (span, direction) in [(sent, "outgoing"), (handled, "incoming")] {
        assert_eq!((&*span["actor"], &*span["class"]), ("sum", "adders"));
        assert!(span["message"].ends_with("Exclusive"));
        assert_eq!((&*span["direction"], &*span["ask"]), (direction, "true"));
        assert_eq!(span["trace_id"], "0af7651916cd43dd8448eb211c80319c");
        assert!(!span.contains_key("error"));
    }
    assert_eq!(sent["parent_id"], "b7ad6b7169203331");
    assert_eq!(handled["parent_id"], sent["span_id"], "from span to span");
    assert_ne!(handled["span_id"], sent["span_id"]);
    assert!(!sent_untraced.contains_key("trace_id"), "no trace is started unasked");
    assert!(fallen["error"].contains("fell over"), "{fallen:?}");
    assert_eq!(kept.open.load(Ordering::Relaxed), 0, "all are closed");
    assert!(kept.inside.lock().is_empty());
    Ok(())
}

#[test]
fn a_trace_is_started_if_wanted_and_goes_on_unchanged_if_nobody_wants_spans() -> Tested {
    let sim = Sim::fifo();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let traces = Arc::clone(&seen);
    let system = System::builder(&sim.group("cpu"))
        .intercept(Spans::seeded(3).starting_traces())
        .intercept(before(move |call| {
            traces.lock().push(call.request().trace().cloned());
            Ok(())
        }))
        .build();
    let adder = system.spawn(Adder::default())?;
    let trace: TraceContext = HEADER.parse()?;
    let request = RequestContext::new().with_trace(trace.clone());
    let deaf = Kept { is_deaf: true, ..Kept::default() };
    tracing::subscriber::with_default(deaf, || -> Tested {
        sim.block_on(request.scope(|| adder.ask(Sum)))??;
        sim.block_on(adder.ask(Sum))??;
        Ok(())
    })?;
    assert_eq!(*seen.lock(), [Some(trace), None]);
    seen.lock().clear();
    tracing::subscriber::with_default(Kept::default(), || -> Tested {
        sim.block_on(adder.ask(Sum))??;
        sim.block_on(adder.ask(Sum))??;
        Ok(())
    })?;
    let seen = seen.lock();
    let [Some(first), Some(second)] = &seen[..] else { return Err("each has a trace".into()) };
    assert!(first.is_sampled() && first.trace_id() != second.trace_id());
    assert_eq!(first.to_string().parse::<TraceContext>()?, *first);
    Ok(())
}

#[test]
fn metrics_count_by_class_message_and_direction() -> Tested {
    let sim = Sim::fifo();
    let metrics = Metrics::new();
    let system = System::builder(&sim.group("cpu"))
        .intercept_outgoing(metrics.clone())
        .intercept(metrics.clone())
        .build();
    let adder = system.actor(Adder::default()).class("adders").spawn()?;
    for _ in 0..3 {
        let asked = adder.ask(Exclusive(1));
        sim.advance(Duration::from_secs(1));
        sim.block_on(asked)??;
    }
    assert!(sim.block_on(adder.ask(Fall))?.is_err());
    adder.tell(Plain(1))?;
    sim.run_until_idle();
    let waiting = adder.ask(Exclusive(1));
    sim.run_until_idle();
    let rows = metrics.rows();
    let row = |name: &str, direction| {
        let found =
            rows.iter().find(|row| row.message.ends_with(name) && row.direction == direction);
        found.unwrap_or_else(|| panic!("no row for {name}: {rows:?}"))
    };
    assert_eq!(rows.len(), 6);
    assert!(rows.iter().all(|row| row.class == "adders"));
    let handled = row("Exclusive", Direction::Incoming);
    assert_eq!((handled.messages, handled.failures, handled.under_way), (3, 0, 1));
    let second = Duration::from_secs(1);
    assert!(handled.latency.p50 >= second * 99 / 100, "{:?}", handled.latency);
    assert!(handled.latency.max <= second * 102 / 100, "{:?}", handled.latency);
    let sent = row("Exclusive", Direction::Outgoing);
    assert_eq!((sent.messages, sent.under_way), (3, 1));
    for direction in [Direction::Incoming, Direction::Outgoing] {
        assert_eq!((row("Fall", direction).messages, row("Fall", direction).failures), (1, 1));
        assert_eq!((row("Plain", direction).messages, row("Plain", direction).failures), (1, 0));
    }
    drop(waiting);
    assert_eq!(metrics.rows().iter().map(|row| row.under_way).sum::<u64>(), 1, "its handler");
    metrics.clear();
    assert!(metrics.rows().is_empty());
    Ok(())
}

#[test]
fn metrics_have_a_bounded_number_of_rows() -> Tested {
    let sim = Sim::fifo();
    let metrics = Metrics::new();
    let system = System::builder(&sim.group("cpu")).intercept(metrics.clone()).build();
    for number in 0..METRICS_ROWS_MAX + 10 {
        let one = system.actor(Adder::default()).class(&format!("class {number}")).spawn()?;
        sim.block_on(one.ask(Sum))??;
        sim.block_on(one.close())??;
    }
    let rows = metrics.rows();
    assert_eq!(rows.len(), METRICS_ROWS_MAX + 1);
    let others = rows.iter().find(|row| row.class == "(other)").ok_or("no row for the others")?;
    assert_eq!(others.messages, 10);
    Ok(())
}

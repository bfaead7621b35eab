//! Each call of a step runs in a span. Alone in its process: who listens to a span is decided for all
//! threads when one of them meets it first.

mod common;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use common::{error, Piece, Theatre};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use turnwheel_engine::TriggerOptions;

const HEADER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

type Fields = BTreeMap<String, String>;

/// Keeps the spans of steps.
#[derive(Clone, Default)]
struct Spans {
    last: Arc<AtomicU64>,
    spans: Arc<Mutex<BTreeMap<u64, Fields>>>,
}

struct Write<'a>(&'a mut Fields);

impl Visit for Write<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        ["turnwheel::step", "turnwheel::plan"].contains(&metadata.target())
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let mut fields = Fields::new();
        span.record(&mut Write(&mut fields));
        self.spans.lock().expect("no panic here").insert(id, fields);
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut spans = self.spans.lock().expect("no panic here");
        if let Some(fields) = spans.get_mut(&span.into_u64()) {
            values.record(&mut Write(fields));
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Spans {
    fn all(&self) -> Vec<Fields> {
        self.spans.lock().expect("no panic here").values().cloned().collect()
    }
}

fn field<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.get(name).map_or("", String::as_str)
}

#[test]
fn each_call_of_a_step_runs_in_a_span() {
    let spans = Spans::default();
    let kept = spans.clone();
    tracing::subscriber::with_default(spans, || {
        let theatre = Theatre::new();
        theatre.script.on("bob", |_| Err(error("fail")));
        let options = TriggerOptions::new().traceparent(HEADER).expect("it is one");
        let triggering = theatre.world.trigger_with::<Piece>(options, "ann bob".to_owned());
        let plan = theatre.sim.block_on(triggering).unwrap().unwrap();
        theatre.finished(&plan);
        let all = kept.all();
        // The plan has one span, at its end, around those of its steps.
        let [ann, bob, whole] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!(field(ann, "plan"), plan.id().to_string());
        assert_eq!((field(ann, "action"), field(ann, "phase")), ("play", "run"));
        assert_eq!((field(ann, "attempt"), field(ann, "label")), ("1", "piece"));
        assert_eq!(field(ann, "trace_id"), "0af7651916cd43dd8448eb211c80319c");
        assert_ne!(field(ann, "span_id"), field(bob, "span_id"));
        assert_eq!((field(ann, "error"), field(bob, "error")), ("", "fail me (fail)"));
        assert_eq!((field(ann, "error.type"), field(bob, "error.type")), ("", "fail"));
        assert_eq!(field(whole, "parent_id"), "b7ad6b7169203331");
        assert!([ann, bob].iter().all(|it| field(it, "parent_id") == field(whole, "span_id")));
        assert_eq!((field(whole, "result"), field(whole, "error.type")), ("error", "fail"));
        assert!(field(whole, "error").contains("fail me"), "{whole:?}");
    });
}

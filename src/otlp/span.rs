//! A call of a step as OTLP has it.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{json, Map, Value};
use tracing::field::{Field, Visit};

/// The kind of a span inside a program.
const INTERNAL: u8 = 1;

/// The kind of a span that waits for another program.
const CLIENT: u8 = 3;

/// The code of a span that has failed.
const FAILED: u8 = 2;

/// The method of a request; steps have none.
const METHOD: &str = "http.request.method";

/// Fields that say which span it is, and are no attributes of it.
const OWN: [&str; 6] = ["trace_id", "span_id", "parent_id", "error", BEGAN, ENDED];

/// The times of a span that is told when it is over, in microseconds since the begin of 1970.
const BEGAN: &str = "began_us";
const ENDED: &str = "ended_us";

/// The result of a plan; steps have none.
const RESULT: &str = "result";

/// The root action of a plan that is a flow.
const FLOW: &str = "flow";

/// An open span: its begin and attributes.
#[derive(Debug)]
pub(super) struct Open {
    began: SystemTime,
    fields: Map<String, Value>,
}

impl Open {
    pub(super) fn new(began: SystemTime) -> Self {
        Self { began, fields: Map::new() }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name)?.as_str()
    }

    fn time(&self, name: &str) -> Option<SystemTime> {
        let us = self.fields.get(name)?.as_u64()?;
        Some(UNIX_EPOCH + Duration::from_micros(us))
    }

    /// The task of a flow by its name, a flow by its name and version, else the action: as many names
    /// as definitions have. Requests have their method alone, as their conventions say.
    fn name(&self) -> String {
        if let Some(method) = self.text(METHOD) {
            return method.to_owned();
        }
        if self.text(RESULT).is_some() && self.text("action") == Some(FLOW) {
            return self.text("label").unwrap_or(FLOW).to_owned();
        }
        let task = self.text("task").and_then(|place| place.rsplit('/').next());
        match task {
            // The path is a JSON pointer.
            Some(task) => task.replace("~1", "/").replace("~0", "~"),
            None => self.text("action").unwrap_or("step").to_owned(),
        }
    }

    /// Makes it a child of the span around it, unless it says another parent.
    pub(super) fn within(&mut self, around: &mut Self) {
        let (trace, span) = around.ids();
        self.fields.insert("trace_id".to_owned(), trace.into());
        self.fields.insert("parent_id".to_owned(), span.into());
    }

    /// Trace and span. A plan without a trace is one of its own; ids of plans have as many bits.
    fn ids(&mut self) -> (String, String) {
        let plan = self.text("plan").unwrap_or_default();
        let trace = match self.text("trace_id") {
            Some(trace) => trace.to_owned(),
            None => plan.replace('-', ""),
        };
        let span = match self.text("span_id") {
            Some(span) => span.to_owned(),
            // It is a name, no secret; never zero.
            None => format!("{:016x}", RandomState::new().hash_one(plan) | 1),
        };
        self.fields.insert("span_id".to_owned(), span.clone().into());
        (trace, span)
    }

    /// The span as OTLP has it.
    pub(super) fn ended(mut self, at: SystemTime) -> Value {
        let (trace, span) = self.ids();
        let attributes = self.fields.iter().filter(|(name, _)| !OWN.contains(&name.as_str()));
        let attributes: Vec<Value> =
            attributes.map(|(name, value)| attribute(semantic(name), value)).collect();
        let mut shown = json!({
            "traceId": trace,
            "spanId": span,
            "name": self.name(),
            "kind": if self.text(METHOD).is_some() { CLIENT } else { INTERNAL },
            "startTimeUnixNano": nanos(self.time(BEGAN).unwrap_or(self.began)),
            "endTimeUnixNano": nanos(self.time(ENDED).unwrap_or(at)),
            "attributes": attributes,
        });
        if let Some(parent) = self.text("parent_id") {
            shown["parentSpanId"] = parent.into();
        }
        if let Some(error) = self.text("error") {
            shown["status"] = json!({ "code": FAILED, "message": error });
        }
        shown
    }
}

/// All spans of a request, of a process with these attributes.
pub(super) fn request(spans: &[Value], own: &[(String, String)]) -> Value {
    let usual = [
        ("service.name", "turnwheel"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("telemetry.sdk.name", "turnwheel"),
        ("telemetry.sdk.language", "rust"),
    ];
    let usual = usual.into_iter().filter(|(name, _)| !own.iter().any(|(known, _)| known == name));
    let own = own.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let resource = usual.chain(own).map(|(name, value)| attribute(name, &value.into()));
    let resource: Vec<Value> = resource.collect();
    json!({ "resourceSpans": [{
        "resource": { "attributes": resource },
        "scopeSpans": [{ "scope": { "name": "turnwheel::step" }, "spans": spans }],
    }] })
}

/// The name of a field as an attribute, in the name space of this program.
fn semantic(field: &str) -> &str {
    match field {
        "plan" => "turnwheel.plan.id",
        "label" => "turnwheel.plan.name",
        "step" => "turnwheel.step.id",
        "action" => "turnwheel.action.name",
        "task" => "turnwheel.task.path",
        "phase" => "turnwheel.step.phase",
        "attempt" => "turnwheel.step.attempt",
        "call" => "turnwheel.step.call",
        "result" => "turnwheel.plan.result",
        other => other,
    }
}

fn attribute(name: &str, value: &Value) -> Value {
    // Whole numbers have 64 bits, which JSON has only as text.
    let value = match value {
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        Value::Bool(value) => json!({ "boolValue": value }),
        Value::String(text) => json!({ "stringValue": text }),
        other => json!({ "stringValue": other.to_string() }),
    };
    json!({ "key": name, "value": value })
}

fn nanos(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}

impl Visit for Open {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields.insert(field.name().to_owned(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name().to_owned(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.fields.insert(field.name().to_owned(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.fields.insert(field.name().to_owned(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.fields.insert(field.name().to_owned(), value.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(fields: Value) -> Open {
        let Value::Object(fields) = fields else { panic!("fields are an object") };
        Open { began: UNIX_EPOCH + Duration::from_nanos(5), fields }
    }

    #[test]
    fn a_plan_without_a_trace_is_one_of_its_own() {
        let plan = "0190a5c4-7b1e-7cc3-98c4-dc0c0c07398f";
        let span = open(json!({ "plan": plan, "step": 2, "action": "play" }));
        let span = span.ended(UNIX_EPOCH + Duration::from_nanos(7));
        assert_eq!(span["traceId"], "0190a5c47b1e7cc398c4dc0c0c07398f");
        assert_eq!(span["spanId"].as_str().map(str::len), Some(16));
        assert_eq!(
            (&span["startTimeUnixNano"], &span["endTimeUnixNano"]),
            (&"5".into(), &"7".into())
        );
        assert_eq!(span["name"], "play");
        let step = json!({ "key": "turnwheel.step.id", "value": { "intValue": "2" } });
        assert!(span["attributes"].as_array().expect("a list").contains(&step), "{span:#}");
        assert!(span.get("status").is_none() && span.get("parentSpanId").is_none());
    }

    #[test]
    fn a_trace_that_was_given_goes_on() {
        let span = open(json!({
            "plan": "p", "trace_id": "t", "span_id": "s", "parent_id": "q", "error": "no luck",
        }));
        let span = span.ended(UNIX_EPOCH);
        assert_eq!((&span["traceId"], &span["spanId"]), (&"t".into(), &"s".into()));
        assert_eq!(span["parentSpanId"], "q");
        assert_eq!(span["status"], json!({ "code": 2, "message": "no luck" }));
        assert_eq!(span["attributes"].as_array().map(Vec::len), Some(1));
    }
}

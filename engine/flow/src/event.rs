//! CloudEvents 1.0, as data.

use std::collections::BTreeMap;

use base64::Engine;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use turnwheel_engine::{Time, TimeError};

use crate::text::nearest;

/// An event of CloudEvents 1.0.
///
/// It is written and read as the JSON of structured mode. Other modes are read by the owner of the
/// headers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CloudEvent {
    /// The version of the specification: `1.0`.
    pub specversion: String,
    /// With the source it is unique.
    pub id: String,
    /// Its source: a URI.
    pub source: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// When it happened: a time of RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// Its subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Content type of the data; JSON by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datacontenttype: Option<String>,
    /// The schema of the data: a URI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataschema: Option<String>,
    /// Its data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// Its binary data in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_base64: Option<String>,
    /// Attributes of extensions.
    #[serde(flatten)]
    pub extensions: BTreeMap<String, Value>,
}

fn version() -> String {
    "1.0".to_owned()
}

/// Why a value is no event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no event of CloudEvents 1.0: {0}")]
pub struct NoEvent(String);

/// Refuses what is no time of RFC 3339. Its year may be any: clocks of senders may be far off.
fn check_time(text: &str) -> Result<(), TimeError> {
    let near = || format!("2000{}", text.get(4..)?).parse::<Time>().ok();
    let is_year = |year: &str| year.bytes().all(|digit| digit.is_ascii_digit());
    match text.parse::<Time>() {
        Err(_) if text.get(..4).is_some_and(is_year) && near().is_some() => Ok(()),
        parsed => parsed.map(drop),
    }
}

impl CloudEvent {
    /// An event without data.
    pub fn new(id: impl Into<String>, source: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            specversion: version(),
            id: id.into(),
            source: source.into(),
            kind: kind.into(),
            time: None,
            subject: None,
            datacontenttype: None,
            dataschema: None,
            data: None,
            data_base64: None,
            extensions: BTreeMap::new(),
        }
    }

    /// The same with data.
    #[must_use]
    pub fn data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// The same about something.
    #[must_use]
    pub fn subject(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// Reads an event as structured mode has it, and checks it.
    ///
    /// # Errors
    ///
    /// An attribute is missing, empty, or not of its kind.
    pub fn from_value(value: Value) -> Result<Self, NoEvent> {
        let wrong = |text: String| NoEvent(text);
        let Value::Object(mut fields) = value else {
            return Err(wrong("it is no object".to_owned()));
        };
        // An attribute without a value is none, by CloudEvents.
        fields.retain(|name, value| name == "data" || !value.is_null());
        for name in ["specversion", "id", "source", "type"] {
            match fields.get(name) {
                Some(Value::String(text)) if !text.is_empty() => {}
                Some(_) => return Err(wrong(format!("«{name}» must be a text that is not empty"))),
                None => {
                    let near = nearest(name, fields.keys().map(String::as_str));
                    let hint = near.map(|near| format!(" («{near}» is there)")).unwrap_or_default();
                    return Err(wrong(format!("«{name}» is missing{hint}")));
                }
            }
        }
        let is_good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if let Some(name) = fields.keys().find(|name| !name.chars().all(is_good)) {
            return Err(wrong(format!("«{name}» cannot be an attribute")));
        }
        for (name, value) in fields.iter().filter(|(name, _)| *name != "data") {
            let is_simple = value.is_string() || value.is_boolean() || value.is_i64();
            if !is_simple {
                let problem = "must be a text, a whole number, true or false";
                return Err(wrong(format!("the attribute «{name}» {problem}")));
            }
        }
        let event: Self = serde_json::from_value(Value::Object(fields))
            .map_err(|error| wrong(error.to_string()))?;
        if event.specversion != "1.0" {
            return Err(wrong(format!("the version «{}» is not known", event.specversion)));
        }
        if let Some(time) = &event.time {
            check_time(time).map_err(|error| wrong(error.to_string()))?;
        }
        if event.data.is_some() && event.data_base64.is_some() {
            return Err(wrong("it has data twice".to_owned()));
        }
        let encoded = event.data_base64.as_ref();
        let decoded = encoded.map(|text| base64::engine::general_purpose::STANDARD.decode(text));
        if let Some(Err(error)) = decoded {
            return Err(wrong(format!("«data_base64» is no base 64: {error}")));
        }
        Ok(event)
    }

    /// As structured mode has it.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or(Value::Null)
    }

    /// Its unique key.
    pub fn key(&self) -> String {
        format!("{} {}", self.source, self.id)
    }

    /// Its data, whatever it is.
    pub(crate) fn content(&self) -> Value {
        match (&self.data, &self.data_base64) {
            (Some(data), _) => data.clone(),
            (None, Some(text)) => {
                let bytes = base64::engine::general_purpose::STANDARD.decode(text);
                let text = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok());
                text.map_or(Value::Null, Value::String)
            }
            (None, None) => Value::Null,
        }
    }

    /// Its data as it came: base 64 is not decoded.
    pub(crate) fn raw(&self) -> Value {
        let encoded = || self.data_base64.clone().map_or(Value::Null, Value::String);
        self.data.clone().unwrap_or_else(encoded)
    }

    /// An attribute by its name.
    pub(crate) fn attribute(&self, name: &str) -> Option<Value> {
        match name {
            "data" => Some(self.content()),
            name => match self.to_value() {
                Value::Object(mut fields) => fields.remove(name),
                _ => None,
            },
        }
    }

    /// Makes one from what a task says, with an id and a time if that has none.
    pub(crate) fn emitted(
        mut fields: Map<String, Value>,
        id: String,
        now: turnwheel_engine::Time,
    ) -> Result<Self, NoEvent> {
        // An attribute without a value is none, by CloudEvents.
        fields.retain(|_, value| !value.is_null());
        fields.entry("id").or_insert(Value::String(id));
        fields.entry("time").or_insert_with(|| Value::String(now.to_string()));
        fields.entry("specversion").or_insert_with(|| Value::String(version()));
        Self::from_value(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_read_and_checked() {
        let good = json!({ "specversion": "1.0", "id": "1", "source": "/a", "type": "t", "x": 1 });
        let event = CloudEvent::from_value(good.clone()).unwrap();
        assert_eq!(event.to_value(), good);
        assert_eq!(event.attribute("x"), Some(json!(1)));
        let wrong = |change: Value| {
            let mut event = good.clone();
            for (name, value) in change.as_object().unwrap() {
                event[name] = value.clone();
            }
            CloudEvent::from_value(event).unwrap_err().to_string()
        };
        assert!(wrong(json!({ "id": "" })).contains("«id»"));
        assert!(wrong(json!({ "specversion": "0.3" })).contains("0.3"));
        assert!(wrong(json!({ "Upper": 1 })).contains("«Upper»"));
        for time in ["yesterday", "9999-31-12T00:00:00Z", "9999-12-31", "-001-01-01T00:00:00Z"] {
            assert!(wrong(json!({ "time": time })).contains(time), "{time}");
        }
        for time in ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "1969-07-20T20:17:40+02:00"] {
            let mut event = good.clone();
            event["time"] = json!(time);
            assert_eq!(CloudEvent::from_value(event).unwrap().time.as_deref(), Some(time));
        }
        assert!(wrong(json!({ "data": 1, "data_base64": "YQ==" })).contains("twice"));
        assert!(wrong(json!({ "data_base64": "?" })).contains("«data_base64»"));
        for value in [json!({ "a": 1 }), json!([1]), json!(1.5)] {
            let said = wrong(json!({ "x": value, "subject": null }));
            assert!(said.contains("«x» must be a text, a whole number"), "{said}");
        }
        assert!(wrong(json!({ "subject": {} })).contains("«subject»"));
        assert!(wrong(json!({ "specversion": null })).contains("«specversion» is missing"));
        let binary = json!({
            "specversion": "1.0", "id": "1", "source": "/a", "type": "t", "data_base64": "YQ==",
        });
        assert_eq!(CloudEvent::from_value(binary).unwrap().content(), json!("a"));
    }
}

//! Faults of a flow, as the DSL describes them: problems in the sense of RFC 7807.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The begin of the types that the specification names.
const STANDARD: &str = "https://serverlessworkflow.io/spec/1.0.0/errors/";

/// Prefixes of the same types in older texts of the specification, and in its conformance kit.
const ALIASES: [&str; 3] = [
    "https://serverlessworkflow.io/dsl/errors/types/",
    "https://serverlessworkflow.io.io/dsl/errors/types/",
    "https://https://serverlessworkflow.io/spec/1.0.0/errors/",
];

/// An error that a flow can catch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// A URI that says what kind of error it is.
    #[serde(rename = "type")]
    pub kind: String,
    /// A status as HTTP has them.
    pub status: u16,
    /// The task it comes from, as a JSON pointer into the definition; empty for the workflow
    /// itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Title of its type, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Details of this fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = self.title.as_deref().unwrap_or(&self.kind);
        let (instance, detail) = (self.instance.as_deref(), self.detail.as_deref());
        f.write_str(&turnwheel_engine::internal::fault_text(title, self.status, instance, detail))
    }
}

impl Fault {
    fn standard(name: &str, status: u16, title: &str, detail: impl fmt::Display) -> Self {
        Self {
            kind: format!("{STANDARD}{name}"),
            status,
            instance: None,
            title: Some(title.to_owned()),
            detail: Some(detail.to_string()),
        }
    }

    /// Settings that make no sense, or are not there.
    pub fn configuration(detail: impl fmt::Display) -> Self {
        Self::standard("configuration", 400, "Configuration Error", detail)
    }

    /// Data that is not as its schema says.
    pub fn validation(detail: impl fmt::Display) -> Self {
        Self::standard("validation", 400, "Validation Error", detail)
    }

    /// An expression that cannot be evaluated.
    pub fn expression(detail: impl fmt::Display) -> Self {
        Self::standard("expression", 400, "Expression Error", detail)
    }

    /// Credentials that cannot be had.
    pub fn authentication(detail: impl fmt::Display) -> Self {
        Self::standard("authentication", 401, "Authentication Error", detail)
    }

    /// A secret that is not there, or not for this flow.
    pub fn authorization(detail: impl fmt::Display) -> Self {
        Self::standard("authorization", 403, "Authorization Error", detail)
    }

    /// Something took too long.
    pub fn timeout(detail: impl fmt::Display) -> Self {
        Self::standard("timeout", 408, "Timeout", detail)
    }

    /// A service that does not answer, or not well.
    pub fn communication(status: u16, detail: impl fmt::Display) -> Self {
        Self::standard("communication", status, "Communication Error", detail)
    }

    /// Anything else that happens while a flow runs.
    pub fn runtime(detail: impl fmt::Display) -> Self {
        Self::standard("runtime", 500, "Runtime Error", detail)
    }

    /// Checks the status of an error that a flow raises: a whole number as HTTP has them.
    pub(crate) fn check_status(fields: &serde_json::Map<String, Value>) -> Result<(), Self> {
        let status = fields.get("status").unwrap_or(&Value::Null);
        match status.as_f64() {
            Some(number) if number.fract() == 0.0 && (100.0..600.0).contains(&number) => Ok(()),
            _ => {
                let problem = "the status of an error is a number from 100 to 599, and not";
                Err(Self::configuration(format!("{problem} {status}")))
            }
        }
    }

    /// The same, from a task if it does not say where it comes from.
    #[must_use]
    pub fn from_task(mut self, pointer: &str) -> Self {
        self.instance.get_or_insert_with(|| pointer.to_owned());
        self
    }

    /// As data.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or(Value::Null)
    }

    /// Whether a filter such as `{type: …, status: 503}` fits: each of its properties is equal.
    pub(crate) fn fits(&self, filter: &serde_json::Map<String, Value>) -> bool {
        let own = self.to_value();
        filter.iter().all(|(name, wanted)| {
            let name = if name == "details" { "detail" } else { name };
            match (name, own.get(name), wanted) {
                ("type", Some(Value::String(own)), Value::String(wanted)) => {
                    canonical(own) == canonical(wanted)
                }
                (_, Some(own), wanted) => own == wanted,
                (_, None, wanted) => wanted.is_null(),
            }
        })
    }
}

/// A type as this version of the specification writes it.
fn canonical(kind: &str) -> String {
    let name = ALIASES.iter().find_map(|alias| kind.strip_prefix(alias));
    name.map_or_else(|| kind.to_owned(), |name| format!("{STANDARD}{name}"))
}

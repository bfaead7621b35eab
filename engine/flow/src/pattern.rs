//! Patterns of event filters: values, regular expressions for texts, fields that an object must
//! have.

use regex_lite::Regex;
use serde_json::Value;

/// Characters that make a text a regular expression. A dot alone does not: types of events are
/// written with dots, and mean themselves.
const MARKS: &[char] = &['\\', '^', '$', '|', '?', '*', '+', '(', ')', '[', ']', '{', '}'];

/// Value of a filter, compiled once.
#[derive(Debug)]
pub(crate) enum Pattern {
    /// This value.
    Equal(Value),
    /// This text, or a text that matches as a whole.
    Matching(String, Regex),
    /// An object that has at least these fields.
    Fields(Vec<(String, Pattern)>),
}

impl Pattern {
    pub(crate) fn new(wanted: &Value) -> Self {
        match wanted {
            Value::String(text) if text.contains(MARKS) => {
                match Regex::new(&format!("^(?:{text})$")) {
                    Ok(regex) => Self::Matching(text.clone(), regex),
                    Err(_) => Self::Equal(wanted.clone()),
                }
            }
            Value::Object(fields) => {
                let fields = fields.iter().map(|(name, value)| (name.clone(), Self::new(value)));
                Self::Fields(fields.collect())
            }
            other => Self::Equal(other.clone()),
        }
    }

    pub(crate) fn fits(&self, value: &Value) -> bool {
        match self {
            Self::Equal(wanted) => wanted == value,
            Self::Matching(wanted, regex) => {
                value.as_str().is_some_and(|text| wanted == text || regex.is_match(text))
            }
            Self::Fields(fields) => fields
                .iter()
                .all(|(name, wanted)| value.get(name).is_some_and(|value| wanted.fits(value))),
        }
    }

    /// The text, if no other value fits.
    pub(crate) fn only_text(&self) -> Option<&str> {
        match self {
            Self::Equal(Value::String(text)) => Some(text),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_with_dots_are_compared_and_regular_expressions_match_as_a_whole() {
        let fits = |wanted: Value, value: Value| Pattern::new(&wanted).fits(&value);
        assert!(fits(json!("a.b"), json!("a.b")));
        assert!(!fits(json!("a.b"), json!("axb")));
        assert!(fits(json!("a\\..*"), json!("a.b")));
        assert!(!fits(json!("a.+"), json!("xab")));
        assert!(fits(json!("a("), json!("a(")), "what is no regular expression is itself");
        assert!(fits(json!({ "a": { "b": "x+" } }), json!({ "a": { "b": "xx", "c": 1 } })));
        assert!(!fits(json!({ "a": 1 }), json!({ "b": 1 })));
        assert!(!fits(json!({ "a": 1 }), json!(1)));
        assert!(!fits(json!(1), json!(2)));
    }
}

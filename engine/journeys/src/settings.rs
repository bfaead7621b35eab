//! Settings of a definition as they are read: each for itself, so that each wrong one is told, with
//! its place.

use std::slice::from_ref;

use serde_json::{Map, Value};
use turnwheel_flow::internal::{nearest, Complaint};

use crate::element::Settings;

/// Fields of a definition of ours that are no settings.
pub(crate) const OWN: [&str; 3] = ["journey", "elements", "description"];

/// Bytes of a wrong value that are told.
const VALUE_BYTES_MAX: usize = 60;

/// The form of a value.
enum Form {
    Word(&'static [&'static str]),
    Text,
    Whole,
    Flag,
    /// An object with these fields. Those that are needed say so.
    Fields(&'static [(&'static str, Form, Needed)]),
    /// An object whose fields have any names.
    Each(&'static Form),
}

/// Whether an object must have a field.
#[derive(Clone, Copy, PartialEq)]
enum Needed {
    Yes,
    No,
}

const TYPES: Form =
    Form::Word(&["boolean", "integer", "number", "string", "time", "array", "object"]);

/// Each setting with its form, and an example.
const SETTINGS: [(&str, Form, &str); 10] = [
    ("platform", Form::Text, "platform: shop"),
    ("attributes", Form::Each(&TYPES), "attributes: { vip: boolean }"),
    ("entry", Form::Word(&["again", "once", "replace", "parallel"]), "entry: once"),
    ("every", Form::Text, "every: P7D"),
    ("priority", Form::Whole, "priority: 1"),
    ("essential", Form::Flag, "essential: true"),
    (
        "cap",
        Form::Fields(&[("messages", Form::Whole, Needed::Yes), ("per", Form::Text, Needed::Yes)]),
        "cap: { messages: 2, per: P1D }",
    ),
    (
        "quiet",
        Form::Fields(&[
            ("from", Form::Text, Needed::Yes),
            ("to", Form::Text, Needed::Yes),
            ("zone", Form::Text, Needed::No),
        ]),
        "quiet: { from: '22:00', to: '08:00' }",
    ),
    ("under_way", Form::Word(&["finish", "move"]), "under_way: move"),
    ("moves", Form::Each(&Form::Text), "moves: { first-order: order }"),
];

/// Reads settings. Those that are wrong are left out, and told with their places among the fields.
pub(crate) fn read(fields: &Map<String, Value>) -> (Settings, Vec<Complaint>) {
    let (mut good, mut wrong) = (Map::new(), Vec::new());
    for (name, value) in fields {
        let one = Map::from_iter([(name.clone(), value.clone())]);
        match serde_json::from_value::<Settings>(Value::Object(one)) {
            Ok(_) => drop(good.insert(name.clone(), value.clone())),
            Err(error) => wrong.extend(explained(name, value, &error)),
        }
    }
    let settings = serde_json::from_value(Value::Object(good));
    (settings.expect("each of them can be read"), wrong)
}

/// The problems of a setting that cannot be read.
fn explained(name: &str, value: &Value, error: &serde_json::Error) -> Vec<Complaint> {
    let at = vec![name.to_owned()];
    let Some((_, form, example)) = SETTINGS.iter().find(|(known, ..)| *known == name) else {
        let names = || SETTINGS.iter().map(|(known, ..)| *known);
        let hint = match nearest(name, names().chain(OWN)) {
            Some(near) => format!("did you mean «{near}»?"),
            None => format!("it may have {}", names().collect::<Vec<_>>().join(", ")),
        };
        let message = format!("a journey has no field «{name}»");
        return vec![Complaint { at, message, suggestion: Some(hint) }];
    };
    let mut explain = Explain { example, wrong: Vec::new() };
    explain.value(&at, value, form);
    if explain.wrong.is_empty() {
        explain.add(&at, format!("«{name}» cannot be read: {error}"), None);
    }
    explain.wrong
}

/// The problems of one setting.
struct Explain {
    example: &'static str,
    wrong: Vec<Complaint>,
}

impl Explain {
    fn add(&mut self, at: &[String], message: String, near: Option<&str>) {
        let hint = near.map(|near| format!("did you mean «{near}»?"));
        let suggestion = Some(hint.unwrap_or_else(|| self.example.to_owned()));
        self.wrong.push(Complaint { at: at.to_vec(), message, suggestion });
    }

    fn value(&mut self, at: &[String], value: &Value, form: &Form) {
        let name = at.join(".");
        let mut near = None;
        let what = match (form, value) {
            (Form::Word(words), _) => {
                let said = value.as_str().unwrap_or_default();
                if words.contains(&said) {
                    return;
                }
                near = nearest(said, words.iter().copied());
                format!("one of {}", words.join(", "))
            }
            (Form::Text, Value::String(_)) | (Form::Flag, Value::Bool(_)) => return,
            (Form::Whole, Value::Number(number)) if number.as_u64().is_some_and(is_small) => return,
            (Form::Text, _) => "a text".to_owned(),
            (Form::Whole, _) => "a whole number".to_owned(),
            (Form::Flag, _) => "true or false".to_owned(),
            (Form::Fields(known), Value::Object(fields)) => return self.fields(at, fields, known),
            (Form::Each(each), Value::Object(fields)) => {
                let below = |field: &String| [at, from_ref(field)].concat();
                return fields.iter().for_each(|(field, value)| {
                    self.value(&below(field), value, each);
                });
            }
            (Form::Fields(_) | Form::Each(_), _) => "an object".to_owned(),
        };
        self.add(at, format!("«{name}» is {what}, and not {}", shown(value)), near);
    }

    fn fields(
        &mut self,
        at: &[String],
        fields: &Map<String, Value>,
        known: &'static [(&'static str, Form, Needed)],
    ) {
        let of = at.join(".");
        for (field, value) in fields {
            let below = [at, from_ref(field)].concat();
            match known.iter().find(|(name, ..)| name == field) {
                Some((_, _, Needed::No)) if value.is_null() => {}
                Some((_, form, _)) => self.value(&below, value, form),
                None => {
                    let near = nearest(field, known.iter().map(|(name, ..)| *name));
                    self.add(&below, format!("«{of}» has no field «{field}»"), near);
                }
            }
        }
        for (name, _, needed) in known {
            if *needed == Needed::Yes && !fields.contains_key(*name) {
                self.add(at, format!("«{of}» has no «{name}»"), None);
            }
        }
    }
}

/// Whether a number has a place in 32 bits.
fn is_small(number: u64) -> bool {
    u32::try_from(number).is_ok()
}

/// A value as a person reads it.
fn shown(value: &Value) -> String {
    let text = match value {
        Value::String(text) => format!("«{text}»"),
        other => other.to_string(),
    };
    match text.char_indices().find(|(at, _)| *at >= VALUE_BYTES_MAX) {
        Some((at, _)) => format!("{} …", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use turnwheel_flow::internal::Source;

    use super::*;

    #[test]
    fn examples_can_be_read() {
        for (name, _, example) in &SETTINGS {
            let source = Source::read(example, "example").expect("it is YAML");
            let Value::Object(fields) = source.value() else { panic!("{example} is an object") };
            assert!(fields.contains_key(*name), "{example}");
            let (_, wrong) = read(&fields);
            assert!(wrong.is_empty(), "{example}: {wrong:?}");
        }
    }

    #[test]
    fn words_that_are_named_can_be_read() {
        for (name, form, _) in &SETTINGS {
            let (words, is_each) = match form {
                Form::Word(words) | Form::Each(Form::Word(words)) => {
                    (words, matches!(form, Form::Each(_)))
                }
                _ => continue,
            };
            for word in *words {
                let value =
                    if is_each { serde_json::json!({ "a": word }) } else { Value::from(*word) };
                let (_, wrong) = read(&Map::from_iter([((*name).to_owned(), value)]));
                assert!(wrong.is_empty(), "{name}: {word}: {wrong:?}");
            }
        }
    }
}

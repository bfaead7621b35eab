//! An idempotency key that has begun a plan: whether a second trigger asks for the same plan.

use serde_json::{Number, Value};

use crate::error::TriggerError;
use crate::payload::Payload;
use crate::plan::{Created, Plan};

/// Integers below this, 2^53, are the same as a float.
const EXACT_BELOW: f64 = 9_007_199_254_740_992.0;

/// The contents of a trigger with a key, to be compared with the plan that the key has begun.
#[derive(Clone, Debug)]
pub(crate) struct Keyed {
    key: String,
    action: String,
    input: Payload,
}

impl Keyed {
    /// Nothing if there is no key, or if only the key counts.
    pub(super) fn of(created: &Created) -> Option<Box<Self>> {
        let key = created.key.clone()?;
        let (action, input) = (created.action.clone(), created.input.clone());
        Some(Box::new(Self { key, action, input }))
    }

    /// Compares with the plan that the key has begun.
    pub(super) fn compare(&self, plan: &Plan) -> Result<(), TriggerError> {
        let known = &plan.created;
        let differs = if known.action != self.action {
            format!("another action, «{}» instead of «{}»", known.action, self.action)
        } else {
            match difference(&known.input, &self.input) {
                None => return Ok(()),
                Some(place) if place.is_empty() => "another input".to_owned(),
                Some(place) => format!("another input, which differs at «{place}»"),
            }
        };
        Err(TriggerError::KeyReused { key: self.key.clone(), plan: plan.id, differs })
    }
}

/// The place where two inputs differ, as a JSON pointer; the order of an object's fields is no
/// difference.
fn difference(known: &Payload, given: &Payload) -> Option<String> {
    if known == given {
        return None;
    }
    match (known.read::<Value>(), given.read::<Value>()) {
        (Ok(known), Ok(given)) => place(&known, &given),
        _ => Some(String::new()),
    }
}

fn place(known: &Value, given: &Value) -> Option<String> {
    match (known, given) {
        (Value::Object(known), Value::Object(given)) => {
            let names = known.keys().chain(given.keys());
            let mut places = names.filter_map(|name| {
                let inner = match (known.get(name), given.get(name)) {
                    (Some(known), Some(given)) => place(known, given)?,
                    _ => String::new(),
                };
                let name = name.replace('~', "~0").replace('/', "~1");
                Some(format!("/{name}{inner}"))
            });
            places.next()
        }
        (Value::Array(known), Value::Array(given)) if known.len() == given.len() => {
            let mut pairs = known.iter().zip(given).enumerate();
            pairs.find_map(|(at, (known, given))| Some(format!("/{at}{}", place(known, given)?)))
        }
        (Value::Number(known), Value::Number(given)) => {
            (!is_same_number(known, given)).then(String::new)
        }
        _ => (known != given).then(String::new),
    }
}

/// Whether two numbers have the same value: `1` and `1.0` have.
fn is_same_number(known: &Number, given: &Number) -> bool {
    let is_same = |(known, given): (f64, f64)| known == given && known.abs() < EXACT_BELOW;
    known == given || known.as_f64().zip(given.as_f64()).is_some_and(is_same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_difference_is_a_pointer_and_the_order_of_fields_is_none() {
        let differs = |known: &str, given: &str| {
            let read = |text| Payload::from_json(text).expect("it is JSON");
            difference(&read(known), &read(given))
        };
        assert_eq!(differs(r#"{"a": 1, "b": [2]}"#, r#"{"b":[2],"a":1}"#), None);
        assert_eq!(differs(r#"{"a": {"b/c": 1}}"#, r#"{"a": {"b/c": 2}}"#).unwrap(), "/a/b~1c");
        assert_eq!(differs(r#"{"a": 1}"#, r#"{"a": 1, "b": null}"#).unwrap(), "/b");
        assert_eq!(differs("[1, 2, 3]", "[1, 2, 4]").unwrap(), "/2");
        assert_eq!(differs("[1, 2, 3]", "[1, 2]").unwrap(), "");
        assert_eq!(differs("1", "2").unwrap(), "");
        assert_eq!(differs(r#"{"a": [1, 0]}"#, r#"{"a": [1.0, -0.0]}"#), None);
        assert_eq!(differs("1", "1.5").unwrap(), "");
        // As floats they were the same.
        assert_eq!(differs("9007199254740993", "9007199254740992").unwrap(), "");
    }
}

//! Equal values of JSON Schema.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use serde_json::Value;

/// Whether an element is there twice. Only elements with the same hash are compared.
pub(super) fn repeats(elements: &[Value]) -> bool {
    let hashed = |element: &Value| {
        let mut hasher = DefaultHasher::new();
        hash(element, &mut hasher);
        hasher.finish()
    };
    let mut order: Vec<(u64, &Value)> = elements.iter().map(|it| (hashed(it), it)).collect();
    order.sort_unstable_by_key(|(hash, _)| *hash);
    order.chunk_by(|(one, _), (other, _)| one == other).any(|same| {
        let is_before = |at: usize| same[..at].iter().any(|it| is_equal(it.1, same[at].1));
        (1..same.len()).any(is_before)
    })
}

/// Equal values have the same hash.
fn hash(value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Number(number) => {
            // Without the sign of zero.
            (number.as_f64().unwrap_or_default() + 0.0).to_bits().hash(hasher);
        }
        Value::String(text) => text.hash(hasher),
        Value::Array(elements) => {
            elements.len().hash(hasher);
            elements.iter().for_each(|element| hash(element, hasher));
        }
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| {
                let mut own = DefaultHasher::new();
                name.hash(&mut own);
                hash(value, &mut own);
                own.finish()
            };
            // Fields have no order.
            fields.iter().map(field).fold(0_u64, u64::wrapping_add).hash(hasher);
        }
        Value::Bool(value) => value.hash(hasher),
        Value::Null => 0_u8.hash(hasher),
    }
}

/// Whether two values are equal by JSON Schema: 1 is 1.0.
pub(super) fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) => {
            a == b || (a.is_f64() != b.is_f64() && a.as_f64() == b.as_f64())
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let is_in = |(name, a): (&String, &Value)| b.get(name).is_some_and(|b| is_equal(a, b));
            a.len() == b.len() && a.iter().all(is_in)
        }
        _ => one == other,
    }
}

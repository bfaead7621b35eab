//! Whether a value is as a schema of the API says, and values that are, or nearly are.

use serde_json::{json, Map, Value};

/// Numbers by a seed.
pub(crate) struct Seeded(u64);

impl Seeded {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(2).wrapping_add(1))
    }

    /// Below a limit.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit.max(1)
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

fn resolve<'a>(api: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(reference) => {
            let path = reference.strip_prefix('#').expect("references stay in the document");
            resolve(api, api.pointer(path).unwrap_or_else(|| panic!("{reference} is there")))
        }
        None => schema,
    }
}

/// Checks a value; the error says where it differs. A field that is not described is a difference,
/// too.
pub(crate) fn check(api: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let schema = resolve(api, schema);
    check_names(api, schema, value, at)?;
    check_part(api, schema, value, at)
}

/// The names of all fields that an object may have; nothing if it may have any.
fn names(api: &Value, schema: &Value) -> Option<Vec<String>> {
    let schema = resolve(api, schema);
    let is_open = schema.get("additionalProperties").is_some_and(|extra| *extra != false);
    if is_open || schema.get("oneOf").is_some() || schema.get("anyOf").is_some() {
        return None;
    }
    let mut all = Vec::new();
    for part in schema["allOf"].as_array().into_iter().flatten() {
        all.extend(names(api, part)?);
    }
    let own = schema["properties"].as_object();
    if own.is_none() && schema.get("allOf").is_none() {
        return None;
    }
    all.extend(own.into_iter().flatten().map(|(name, _)| name.clone()));
    Some(all)
}

fn check_names(api: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let (Some(object), Some(names)) = (value.as_object(), names(api, schema)) else {
        return Ok(());
    };
    match object.keys().find(|name| !names.contains(name)) {
        Some(name) => Err(format!("{at}: «{name}» is not described")),
        None => Ok(()),
    }
}

fn check_part(api: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let schema = resolve(api, schema);
    let all = |name: &str| schema[name].as_array().cloned().unwrap_or_default();
    for part in all("allOf") {
        check_part(api, &part, value, at)?;
    }
    for name in ["oneOf", "anyOf"] {
        let parts = all(name);
        if !parts.is_empty() && !parts.iter().any(|part| check(api, part, value, at).is_ok()) {
            return Err(format!("{at}: {value} fits none of {name}"));
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        if !values.contains(value) {
            return Err(format!("{at}: {value} is none of {values:?}"));
        }
    }
    check_type(schema, value, at)?;
    if let (Some(properties), Some(object)) = (schema["properties"].as_object(), value.as_object())
    {
        for (name, property) in properties {
            if let Some(value) = object.get(name) {
                check(api, property, value, &format!("{at}/{name}"))?;
            }
        }
    }
    if let (Some(required), Some(object)) = (schema["required"].as_array(), value.as_object()) {
        for name in required.iter().filter_map(Value::as_str) {
            if !object.contains_key(name) {
                return Err(format!("{at}: «{name}» is missing in {value}"));
            }
        }
    }
    if let (Some(extra), Some(object)) = (schema.get("additionalProperties"), value.as_object()) {
        if extra.is_object() {
            for (name, value) in object {
                check(api, extra, value, &format!("{at}/{name}"))?;
            }
        }
    }
    if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
        for (index, value) in values.iter().enumerate() {
            check(api, items, value, &format!("{at}/{index}"))?;
        }
    }
    Ok(())
}

fn types(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(some) => some.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn check_type(schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let types = types(schema);
    let is = |name: &&str| match *name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{at}: the schema has the type {other}"),
    };
    if types.is_empty() || types.iter().any(is) {
        return Ok(());
    }
    Err(format!("{at}: {value} is not of {types:?}"))
}

/// Texts that programs stumble over, and some that are right somewhere.
const TEXTS: [&str; 16] = [
    "",
    "a",
    "echo",
    "ask",
    "external",
    "mail",
    "running",
    "0",
    "-1",
    "2026-11-21T10:00:00Z",
    "9999-12-31T23:59:59Z",
    "0190a5c4-7b1e-7cc3-98c4-dc0c0c07398f",
    "* * * * *",
    "\u{0}\n«ä»\u{1f980}",
    "../../etc/passwd",
    "' OR 1=1 --",
];

/// A value that fits a schema, but for now and then something that does not.
pub(crate) fn sample(api: &Value, schema: &Value, seeded: &mut Seeded, depth: u32) -> Value {
    if seeded.below(24) == 0 || depth > 6 {
        return odd(seeded);
    }
    let schema = resolve(api, schema);
    for name in ["oneOf", "anyOf"] {
        if let Some(parts) = schema[name].as_array() {
            let part = &parts[seeded.below(parts.len())];
            return sample(api, part, seeded, depth + 1);
        }
    }
    if let Some(parts) = schema["allOf"].as_array() {
        let mut object = Map::new();
        for part in parts {
            if let Value::Object(part) = sample(api, part, seeded, depth + 1) {
                object.extend(part);
            }
        }
        return Value::Object(object);
    }
    if let Some(values) = schema["enum"].as_array() {
        return values[seeded.below(values.len())].clone();
    }
    let types = types(schema);
    if types.is_empty() {
        return odd(seeded);
    }
    match seeded.pick(&types) {
        "null" => Value::Null,
        "boolean" => json!(seeded.below(2) == 0),
        "integer" => json!(seeded.below(4)),
        "number" => json!(seeded.below(100) as f64 / 7.0),
        "string" => json!(TEXTS[seeded.below(TEXTS.len())]),
        "array" => {
            (0..seeded.below(3)).map(|_| sample(api, &schema["items"], seeded, depth + 1)).collect()
        }
        _ => object(api, schema, seeded, depth),
    }
}

fn object(api: &Value, schema: &Value, seeded: &mut Seeded, depth: u32) -> Value {
    let mut object = Map::new();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let is_required = required.iter().any(|required| required == name);
        let is_there = if is_required { seeded.below(20) > 0 } else { seeded.below(3) == 0 };
        if is_there {
            object.insert(name.clone(), sample(api, property, seeded, depth + 1));
        }
    }
    if seeded.below(30) == 0 {
        object.insert("unknown".to_owned(), odd(seeded));
    }
    Value::Object(object)
}

fn odd(seeded: &mut Seeded) -> Value {
    match seeded.below(9) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(-1),
        3 => json!(u64::MAX),
        4 => json!(1e300),
        5 => json!("x".repeat(5_000)),
        6 => json!([[[]], {}]),
        7 => json!({"a": {"b": [1, 2]}}),
        _ => json!(TEXTS[seeded.below(TEXTS.len())]),
    }
}

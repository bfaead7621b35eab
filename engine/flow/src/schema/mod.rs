//! The part of JSON Schema that flows use. Unknown parts are refused when a schema is read.

mod equal;
mod keywords;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use regex_lite::Regex;
use serde_json::{Map, Value};

use equal::{is_equal, repeats};
use keywords::check;

/// Maximum depth of schemas that are entered for a value and for its parts.
const DEPTH_MAX: usize = 1_000;

/// Checks of a validation: so many for each part of the value, and so many at all. Alternatives
/// that refer to alternatives would make more of them than anybody waits for.
const CHECKS_PER_PART: u64 = 1_000;
const CHECKS_MAX: u64 = 20_000_000;

/// Stack for each schema that is entered, and what is added when it is used up.
const STACK: usize = 64 << 10;
const STACK_MORE: usize = 1 << 20;

/// A schema that was checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Schema(Value);

impl Schema {
    /// Takes a schema, or says what of it is not supported.
    pub(crate) fn new(schema: &Value) -> Result<Self, String> {
        check(schema, schema, "")?;
        Ok(Self(schema.clone()))
    }

    /// As it was written.
    pub(crate) fn document(&self) -> &Value {
        &self.0
    }

    /// The first error of a value, with its place as a JSON pointer.
    pub(crate) fn validate(&self, value: &Value) -> Result<(), String> {
        let checks = CHECKS_PER_PART.saturating_mul(parts(value)).min(CHECKS_MAX);
        let (checks, stop) = (Cell::new(checks), Cell::new(""));
        let validation = Validation { root: &self.0, checks, stop, patterns: RefCell::default() };
        let outcome = validation.valid(&self.0, value, "", 0);
        // A stopped check is an error, whatever an alternative or a «not» has made of it.
        match validation.stop.get() {
            "" => outcome,
            stop => Err(stop.to_owned()),
        }
    }
}

/// The number of values in a value, itself included.
fn parts(value: &Value) -> u64 {
    1 + match value {
        Value::Array(elements) => elements.iter().map(parts).sum(),
        Value::Object(fields) => fields.values().map(parts).sum(),
        _ => 0,
    }
}

/// Validation of one value.
struct Validation<'s> {
    root: &'s Value,
    /// Checks that are left.
    checks: Cell<u64>,
    /// Why it was stopped; empty as long as it was not.
    stop: Cell<&'static str>,
    /// Patterns that were compiled; nothing for those that are none.
    patterns: RefCell<HashMap<String, Option<Regex>>>,
}

impl Validation<'_> {
    fn valid(&self, schema: &Value, value: &Value, at: &str, depth: usize) -> Result<(), String> {
        stacker::maybe_grow(STACK, STACK_MORE, || self.valid_here(schema, value, at, depth))
    }

    fn valid_here(
        &self,
        schema: &Value,
        value: &Value,
        at: &str,
        depth: usize,
    ) -> Result<(), String> {
        let here = if at.is_empty() { "the whole" } else { at };
        if depth > DEPTH_MAX {
            self.stop.set("the schema refers to itself too often");
        } else if self.checks.get() == 0 {
            self.stop.set("the schema has too many alternatives to be checked");
        }
        if !self.stop.get().is_empty() {
            return Err(self.stop.get().to_owned());
        }
        self.checks.set(self.checks.get() - 1);
        let schema = match schema {
            Value::Bool(true) => return Ok(()),
            Value::Object(schema) => schema,
            _ => return Err(format!("{here}: nothing is allowed here")),
        };
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            let target =
                resolve(self.root, target).ok_or_else(|| format!("{here}: no {target}"))?;
            self.valid(target, value, at, depth + 1)?;
        }
        let matches = |pattern: &str, text: &str| self.matches(pattern, text);
        own(schema, value, &matches).map_err(|problem| format!("{here}: {problem}"))?;
        match value {
            Value::Object(fields) => self.fields(schema, fields, at, depth)?,
            Value::Array(elements) => self.elements(schema, elements, at, depth)?,
            _ => {}
        }
        self.combined(schema, value, at, depth)
    }

    fn matches(&self, pattern: &str, text: &str) -> bool {
        let mut patterns = self.patterns.borrow_mut();
        let known = match patterns.get(pattern) {
            Some(known) => known,
            None => patterns.entry(pattern.to_owned()).or_insert(Regex::new(pattern).ok()),
        };
        known.as_ref().is_some_and(|pattern| pattern.is_match(text))
    }

    fn fields(
        &self,
        schema: &Map<String, Value>,
        fields: &Map<String, Value>,
        at: &str,
        depth: usize,
    ) -> Result<(), String> {
        let known = schema.get("properties").and_then(Value::as_object);
        let patterns = schema.get("patternProperties").and_then(Value::as_object);
        for (name, value) in fields {
            let place = format!("{at}/{name}");
            if let Some(names) = schema.get("propertyNames") {
                self.valid(names, &Value::String(name.clone()), &place, depth + 1)?;
            }
            let mut is_known = false;
            if let Some(schema) = known.and_then(|known| known.get(name)) {
                is_known = true;
                self.valid(schema, value, &place, depth + 1)?;
            }
            for (pattern, schema) in patterns.into_iter().flatten() {
                if self.matches(pattern, name) {
                    is_known = true;
                    self.valid(schema, value, &place, depth + 1)?;
                }
            }
            if let (false, Some(rest)) = (is_known, schema.get("additionalProperties")) {
                self.valid(rest, value, &place, depth + 1)?;
            }
        }
        Ok(())
    }

    fn elements(
        &self,
        schema: &Map<String, Value>,
        elements: &[Value],
        at: &str,
        depth: usize,
    ) -> Result<(), String> {
        let first = schema.get("prefixItems").and_then(Value::as_array);
        for (index, value) in elements.iter().enumerate() {
            let own = first.and_then(|first| first.get(index)).or_else(|| schema.get("items"));
            if let Some(schema) = own {
                self.valid(schema, value, &format!("{at}/{index}"), depth + 1)?;
            }
        }
        if let Some(wanted) = schema.get("contains") {
            if !elements.iter().any(|value| self.valid(wanted, value, at, depth + 1).is_ok()) {
                return Err(format!("{at}: no element is as it must be"));
            }
        }
        Ok(())
    }

    fn combined(
        &self,
        schema: &Map<String, Value>,
        value: &Value,
        at: &str,
        depth: usize,
    ) -> Result<(), String> {
        let here = if at.is_empty() { "the whole" } else { at };
        let fits = |schema: &Value| self.valid(schema, value, at, depth + 1).is_ok();
        let list = |name: &str| schema.get(name).and_then(Value::as_array).map(Vec::as_slice);
        for schema in list("allOf").unwrap_or_default() {
            self.valid(schema, value, at, depth + 1)?;
        }
        if list("anyOf").is_some_and(|any| !any.iter().any(fits)) {
            return Err(format!("{here}: none of the alternatives fits"));
        }
        if let Some(one) = list("oneOf") {
            let count = one.iter().filter(|schema| fits(schema)).count();
            if count != 1 {
                return Err(format!("{here}: {count} of the alternatives fit instead of one"));
            }
        }
        if schema.get("not").is_some_and(fits) {
            return Err(format!("{here}: it is what it must not be"));
        }
        let branch = match schema.get("if") {
            Some(test) if fits(test) => schema.get("then"),
            Some(_) => schema.get("else"),
            None => None,
        };
        branch.map_or(Ok(()), |branch| self.valid(branch, value, at, depth + 1))
    }
}

fn resolve<'a>(root: &'a Value, target: &str) -> Option<&'a Value> {
    let pointer = target.strip_prefix('#')?;
    root.pointer(pointer)
}

/// The keywords of a schema about a value itself.
fn own(
    schema: &Map<String, Value>,
    value: &Value,
    matches: &dyn Fn(&str, &str) -> bool,
) -> Result<(), String> {
    if let Some(wanted) = schema.get("type") {
        let is_of = |name: &Value| name.as_str().is_some_and(|name| is_a(value, name));
        let fits = match wanted {
            Value::Array(names) => names.iter().any(is_of),
            name => is_of(name),
        };
        if !fits {
            return Err(format!("it must be {wanted} and is {}", type_of(value)));
        }
    }
    if schema.get("const").is_some_and(|wanted| !is_equal(wanted, value)) {
        return Err(format!("it must be {}", schema["const"]));
    }
    if let Some(Value::Array(allowed)) = schema.get("enum") {
        if !allowed.iter().any(|allowed| is_equal(allowed, value)) {
            return Err(format!("it must be one of {}", Value::Array(allowed.clone())));
        }
    }
    let limit = |name: &str| schema.get(name).and_then(Value::as_f64);
    let size = |size: usize, least: &str, most: &str, of: &str| {
        if limit(least).is_some_and(|least| (size as f64) < least) {
            return Err(format!("it has {size} {of}, less than it must have"));
        }
        if limit(most).is_some_and(|most| size as f64 > most) {
            return Err(format!("it has {size} {of}, more than it may have"));
        }
        Ok(())
    };
    match value {
        Value::Number(number) => of_number(&limit, number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => {
            size(text.chars().count(), "minLength", "maxLength", "characters")?;
            match schema.get("pattern").and_then(Value::as_str) {
                Some(pattern) if !matches(pattern, text) => {
                    Err(format!("it must be like «{pattern}»"))
                }
                _ => Ok(()),
            }
        }
        Value::Array(elements) => {
            size(elements.len(), "minItems", "maxItems", "elements")?;
            let is_set = schema.get("uniqueItems") == Some(&Value::Bool(true));
            if is_set && repeats(elements) {
                return Err("an element is there twice".to_owned());
            }
            Ok(())
        }
        Value::Object(fields) => {
            size(fields.len(), "minProperties", "maxProperties", "fields")?;
            let required = schema.get("required").and_then(Value::as_array);
            let missing = required.into_iter().flatten().filter_map(Value::as_str);
            match missing.into_iter().find(|name| !fields.contains_key(*name)) {
                Some(name) => Err(format!("«{name}» is missing")),
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

fn of_number(limit: &dyn Fn(&str) -> Option<f64>, number: f64) -> Result<(), String> {
    let wrong = limit("minimum").is_some_and(|least| number < least)
        || limit("maximum").is_some_and(|most| number > most)
        || limit("exclusiveMinimum").is_some_and(|least| number <= least)
        || limit("exclusiveMaximum").is_some_and(|most| number >= most);
    if wrong {
        return Err(format!("{number} is out of its range"));
    }
    let step = limit("multipleOf").filter(|step| *step > 0.0);
    if step.is_some_and(|step| !is_multiple(number, step)) {
        return Err(format!("{number} is no multiple of what it must be"));
    }
    Ok(())
}

/// Whether a number is a multiple of another one. 19.99 is one of 0.01, although the quotient of
/// the floats is not quite whole.
fn is_multiple(number: f64, step: f64) -> bool {
    if number.fract() == 0.0 && step.fract() == 0.0 {
        return number % step == 0.0;
    }
    let quotient = number / step;
    (quotient - quotient.round()).abs() <= (quotient.abs() * 4.0 * f64::EPSILON).max(1e-9)
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn is_a(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_validated() {
        let schema = Schema::new(&json!({
            "type": "object",
            "required": ["id"],
            "properties": {
                "id": { "type": "integer", "minimum": 1 },
                "tags": { "type": "array", "items": { "$ref": "#/$defs/tag" }, "maxItems": 2 }
            },
            "additionalProperties": false,
            "$defs": { "tag": { "type": "string", "pattern": "^[a-z]+$" } }
        }))
        .unwrap();
        let says = |value: Value| schema.validate(&value).err().unwrap_or_default();
        assert_eq!(says(json!({ "id": 1, "tags": ["a"] })), "");
        assert!(says(json!({})).contains("«id» is missing"));
        assert!(says(json!({ "id": 0 })).starts_with("/id: "));
        assert!(says(json!({ "id": 1, "tags": ["a", "B"] })).starts_with("/tags/1: "));
        assert!(says(json!({ "id": 1, "tags": ["a", "b", "c"] })).contains("3 elements"));
        assert!(says(json!({ "id": 1, "x": 1 })).starts_with("/x: "));
        assert!(says(json!([])).contains("an array"));
        let one = Schema::new(&json!({ "oneOf": [{ "type": "string" }, { "const": 1 }] })).unwrap();
        assert!(one.validate(&json!(1)).is_ok() && one.validate(&json!(2)).is_err());
    }

    #[test]
    fn keywords_with_values_that_say_nothing_are_refused() {
        let refused = [
            json!({ "type": "strng" }),
            json!({ "type": ["string", 1] }),
            json!({ "properties": { "a": { "maxLength": "5" } } }),
            json!({ "required": "a" }),
            json!({ "enum": "a" }),
            json!({ "minimum": "1" }),
            json!({ "minimum": 1, "exclusiveMinimum": true }),
            json!({ "multipleOf": 0 }),
            json!({ "anyOf": [] }),
            json!({ "properties": [] }),
            json!({ "patternProperties": { "(": true } }),
            json!({ "pattern": "(" }),
            json!({ "uniqueItems": "yes" }),
        ];
        for schema in refused {
            let problem = Schema::new(&schema).unwrap_err();
            assert!(problem.contains("it must be"), "{schema}: {problem}");
        }
    }

    #[test]
    fn multiples_and_equal_numbers_are_those_of_decimal_numbers() {
        let is_valid =
            |schema: Value, value: Value| Schema::new(&schema).unwrap().validate(&value).is_ok();
        for (number, step) in [(19.99, 0.01), (0.3, 0.1), (4.35, 0.05), (1e15, 0.5), (7.5, 2.5)] {
            assert!(is_valid(json!({ "multipleOf": step }), json!(number)), "{number} {step}");
        }
        for (number, step) in [(19.995, 0.01), (0.35, 0.1), (10_000_000_001.0, 2.0), (7.5, 2.0)] {
            assert!(!is_valid(json!({ "multipleOf": step }), json!(number)), "{number} {step}");
        }
        assert!(is_valid(json!({ "const": 1 }), json!(1.0)));
        assert!(is_valid(json!({ "enum": [{ "a": [2.0] }] }), json!({ "a": [2] })));
        assert!(!is_valid(json!({ "uniqueItems": true }), json!([1, 1.0])));
        for (elements, are_unique) in [
            (json!([0, -0.0]), false),
            (json!([{ "a": 1, "b": [2] }, { "b": [2.0], "a": 1 }]), false),
            (json!([{ "a": 1 }, { "a": 2 }, { "b": 1 }, 1, "1", [1], [[1]], true, null]), true),
            (json!([9_007_199_254_740_993_i64, 9_007_199_254_740_992_i64]), true),
        ] {
            assert_eq!(
                is_valid(json!({ "uniqueItems": true }), elements.clone()),
                are_unique,
                "{elements}"
            );
        }
        // Each with each other one would take minutes.
        let many: Value = (0..200_000).map(|n| json!({ "n": n })).collect();
        assert!(is_valid(json!({ "uniqueItems": true }), many));
        assert!(!is_valid(json!({ "const": 1 }), json!("1")));
    }

    #[test]
    fn deep_values_are_validated_and_endless_schemas_are_stopped() {
        let tree = json!({
            "$ref": "#/$defs/node",
            "$defs": { "node": {
                "type": "object",
                "properties": { "parts": { "type": "array", "items": { "$ref": "#/$defs/node" } } }
            } }
        });
        let tree = Schema::new(&tree).unwrap();
        let nested = |inner: Value| (0..100).fold(inner, |inner, _| json!({ "parts": [inner] }));
        assert_eq!(tree.validate(&nested(json!({}))), Ok(()));
        assert!(tree.validate(&nested(json!(1))).unwrap_err().contains("\"object\""));
        let endless = [
            json!({ "$ref": "#" }),
            json!({ "anyOf": [{ "$ref": "#" }, { "$ref": "#" }] }),
            json!({ "not": { "$ref": "#" } }),
        ];
        for schema in endless {
            let endless = Schema::new(&schema).unwrap();
            let problem = endless.validate(&json!(1)).unwrap_err();
            assert!(problem.starts_with("the schema "), "{schema}: {problem}");
        }
        let part =
            |next: &str| json!({ "required": ["x"], "properties": { "a": { "$ref": next } } });
        let wide = json!({ "anyOf": [part("#"), part("#")] });
        let nested = (0..60).fold(json!(1), |inner, _| json!({ "a": inner, "x": 1 }));
        let wide = Schema::new(&json!({ "not": wide })).unwrap();
        assert!(wide.validate(&nested).is_err());
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name() {
        let refused = |schema: Value| Schema::new(&schema).unwrap_err();
        assert!(
            refused(json!({ "unevaluatedProperties": false })).contains("unevaluatedProperties")
        );
        assert!(refused(json!({ "properties": { "a": { "typo": 1 } } })).contains("typo"));
        assert!(refused(json!({ "$ref": "https://example.org" })).contains("example.org"));
        assert!(refused(json!(3)).contains("a schema is"));
    }
}

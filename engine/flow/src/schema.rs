//! The part of JSON Schema that flows use. Unknown parts are refused when a schema is read.

use serde_json::{Map, Value};

/// Keywords that are checked.
const KNOWN: [&str; 32] = [
    "type",
    "enum",
    "const",
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "items",
    "prefixItems",
    "contains",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "$ref",
];

/// Keywords that say something to people only; `format` is an annotation too, unless a vocabulary says
/// otherwise.
const NOTES: [&str; 14] = [
    "$schema",
    "$id",
    "$defs",
    "definitions",
    "$comment",
    "title",
    "description",
    "default",
    "examples",
    "example",
    "format",
    "deprecated",
    "readOnly",
    "writeOnly",
];

/// Maximum depth of references.
const DEPTH_MAX: usize = 64;

/// A schema that was checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Schema(Value);

impl Schema {
    /// Takes a schema, or says what of it is not supported.
    pub(crate) fn new(schema: &Value) -> Result<Self, String> {
        check(schema, schema, "")?;
        Ok(Self(schema.clone()))
    }

    /// The first error of a value, with its place as a JSON pointer.
    pub(crate) fn validate(&self, value: &Value) -> Result<(), String> {
        self.valid(&self.0, value, "", 0)
    }

    fn valid(&self, schema: &Value, value: &Value, at: &str, depth: usize) -> Result<(), String> {
        let here = if at.is_empty() { "the whole" } else { at };
        if depth > DEPTH_MAX {
            return Err(format!("{here}: the schema refers to itself too often"));
        }
        let schema = match schema {
            Value::Bool(true) => return Ok(()),
            Value::Object(schema) => schema,
            _ => return Err(format!("{here}: nothing is allowed here")),
        };
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            let target = resolve(&self.0, target).ok_or_else(|| format!("{here}: no {target}"))?;
            self.valid(target, value, at, depth + 1)?;
        }
        own(schema, value).map_err(|problem| format!("{here}: {problem}"))?;
        match value {
            Value::Object(fields) => self.fields(schema, fields, at, depth)?,
            Value::Array(elements) => self.elements(schema, elements, at, depth)?,
            _ => {}
        }
        self.combined(schema, value, at, depth)
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
                if matches(pattern, name) {
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

/// Whether the keywords of a schema, and of those in it, are known.
fn check(root: &Value, schema: &Value, at: &str) -> Result<(), String> {
    let fields = match schema {
        Value::Bool(_) => return Ok(()),
        Value::Object(fields) => fields,
        _ => return Err(format!("{at}: a schema is an object or a boolean")),
    };
    for (name, value) in fields {
        let here = format!("{at}/{name}");
        let all = |value: &Value| match value {
            Value::Array(schemas) => schemas.iter().try_for_each(|s| check(root, s, &here)),
            Value::Object(schemas) => schemas.values().try_for_each(|s| check(root, s, &here)),
            _ => Err(format!("{here}: it holds no schemas")),
        };
        match name.as_str() {
            "properties" | "patternProperties" | "$defs" | "definitions" | "allOf" | "anyOf"
            | "oneOf" | "prefixItems" => all(value)?,
            "additionalProperties"
            | "items"
            | "contains"
            | "not"
            | "if"
            | "then"
            | "else"
            | "propertyNames" => check(root, value, &here)?,
            "$ref" => {
                let target = value.as_str().unwrap_or_default();
                if resolve(root, target).is_none() {
                    return Err(format!("{here}: «{target}» is no place in this schema"));
                }
            }
            "pattern" if value.as_str().is_none_or(|p| regex_lite::Regex::new(p).is_err()) => {
                return Err(format!("{here}: {value} is no regular expression"));
            }
            known if KNOWN.contains(&known) || NOTES.contains(&known) => {}
            other => return Err(format!("{at}: the keyword «{other}» is not supported")),
        }
    }
    Ok(())
}

fn resolve<'a>(root: &'a Value, target: &str) -> Option<&'a Value> {
    let pointer = target.strip_prefix('#')?;
    root.pointer(pointer)
}

fn matches(pattern: &str, text: &str) -> bool {
    regex_lite::Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text))
}

/// The keywords of a schema about a value itself.
fn own(schema: &Map<String, Value>, value: &Value) -> Result<(), String> {
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
    if schema.get("const").is_some_and(|wanted| wanted != value) {
        return Err(format!("it must be {}", schema["const"]));
    }
    if let Some(Value::Array(allowed)) = schema.get("enum") {
        if !allowed.contains(value) {
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
            let repeats =
                || elements.iter().enumerate().any(|(i, element)| elements[..i].contains(element));
            if is_set && repeats() {
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
    if step.is_some_and(|step| (number / step).fract().abs() > 1e-9) {
        return Err(format!("{number} is no multiple of what it must be"));
    }
    Ok(())
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

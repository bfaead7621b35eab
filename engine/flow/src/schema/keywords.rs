//! The keywords of schemas: which are known, and what their values must be.

use serde_json::Value;

use super::resolve;

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

/// Keywords that say something to people only; `format` is an annotation too, unless a vocabulary
/// says otherwise.
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

/// Names of types.
const TYPES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];

/// Whether the keywords of a schema, and of those in it, are known.
pub(super) fn check(root: &Value, schema: &Value, at: &str) -> Result<(), String> {
    let fields = match schema {
        Value::Bool(_) => return Ok(()),
        Value::Object(fields) => fields,
        _ => return Err(format!("{at}: a schema is an object or a boolean")),
    };
    for (name, value) in fields {
        let here = format!("{at}/{name}");
        if let Some(wanted) = wanted(name, value) {
            return Err(format!("{here}: it must be {wanted} and is {value}"));
        }
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
            known if KNOWN.contains(&known) || NOTES.contains(&known) => {}
            other => return Err(format!("{at}: the keyword «{other}» is not supported")),
        }
    }
    Ok(())
}

/// The kind that the value of a keyword must have, if it has another: it would say nothing.
fn wanted(name: &str, value: &Value) -> Option<&'static str> {
    let is_list = |is_good: &dyn Fn(&Value) -> bool| {
        value.as_array().is_some_and(|elements| elements.iter().all(is_good))
    };
    let is_type = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    let is_regex = |text: &str| regex_lite::Regex::new(text).is_ok();
    let (is_good, what) = match name {
        "type" => (is_type(value) || is_list(&is_type), "the name of a type, or a list of such"),
        "required" => (is_list(&Value::is_string), "a list of texts"),
        "enum" | "prefixItems" => (value.is_array(), "a list"),
        "allOf" | "anyOf" | "oneOf" => {
            (value.as_array().is_some_and(|schemas| !schemas.is_empty()), "a list of schemas")
        }
        "properties" | "$defs" | "definitions" => (value.is_object(), "an object of schemas"),
        "patternProperties" => (
            value.as_object().is_some_and(|all| all.keys().all(|pattern| is_regex(pattern))),
            "an object of schemas, whose names are regular expressions",
        ),
        "pattern" => (value.as_str().is_some_and(is_regex), "a regular expression"),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {
            (value.is_number(), "a number")
        }
        "multipleOf" => (value.as_f64().is_some_and(|step| step > 0.0), "a number above zero"),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            let is_size = |size: f64| size >= 0.0 && size.fract() == 0.0;
            (value.as_f64().is_some_and(is_size), "a whole number that is not negative")
        }
        "uniqueItems" => (value.is_boolean(), "true or false"),
        _ => (true, ""),
    };
    (!is_good).then_some(what)
}

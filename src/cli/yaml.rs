//! JSON values as YAML.

use serde_json::Value;

/// A value as a YAML document in block style.
///
/// A text is written plain only if no reader can take it for something else; otherwise as in JSON,
/// which is YAML.
pub(crate) fn text(value: &Value) -> String {
    let mut text = String::new();
    write(value, 0, &mut text);
    text
}

/// Writes a value that begins a line of its own, at this depth.
fn write(value: &Value, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                text.push_str(&format!("{indent}{}:", scalar(name)));
                below(value, depth, text);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                text.push_str(&format!("{indent}-"));
                below(item, depth, text);
            }
        }
        simple => text.push_str(&format!("{indent}{}\n", inline(simple))),
    }
}

/// Writes the value of a field or an item.
fn below(value: &Value, depth: usize, text: &mut String) {
    let is_empty = match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    };
    if is_empty {
        text.push_str(&format!(" {}\n", inline(value)));
        return;
    }
    text.push('\n');
    write(value, depth + 1, text);
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        other => other.to_string(),
    }
}

fn scalar(text: &str) -> String {
    let is_word = text.chars().all(|sign| sign.is_ascii_alphanumeric() || "_-./".contains(sign));
    // Words such as `no`, `null` and `.inf`, and all that begins like a number, mean something else.
    let begins_well = text.starts_with(|sign: char| sign.is_ascii_alphabetic());
    let lower = text.to_ascii_lowercase();
    let means = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    if is_word && begins_well && !means.contains(&lower.as_str()) {
        return text.to_owned();
    }
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use turnwheel::flow::documents;

    use super::*;

    #[test]
    fn a_value_is_read_back_as_it_was_written() {
        let hard = [
            "",
            "a",
            "no",
            "Null",
            "~",
            "1",
            "1e3",
            "0x1f",
            "a: b",
            "- a",
            "# c",
            "'",
            "\"",
            "{",
            "[",
            "a\nb",
            " a ",
            "\u{85}",
            "é",
            "2026-11-23",
            "-",
            ".5",
            ".inf",
            "a\\b",
            "%",
            "@",
            "`",
            "a/b-c_d.e",
        ];
        let fields: serde_json::Map<String, Value> =
            hard.iter().map(|text| ((*text).to_owned(), json!(text))).collect();
        let values = [
            json!(hard),
            Value::Object(fields),
            json!({"a": {"b": [[], {}, [1, [2.5, null]], {"c": [{"d": true, "e": -1}]}]}, "f": null}),
            json!([[["x"]], {"y": {}}]),
            json!("only"),
        ];
        for value in values {
            let written = text(&value);
            let read =
                documents(&written, "test").unwrap_or_else(|wrong| panic!("{wrong}\n{written}"));
            assert_eq!(read, [value], "{written}");
        }
    }
}

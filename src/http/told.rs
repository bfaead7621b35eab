//! Errors of JSON in the words of its callers: a caller knows objects and lists, and no structs.

/// The message of an error of a body.
pub(super) fn told(error: &serde_json::Error) -> String {
    plain(&error.to_string())
}

fn plain(text: &str) -> String {
    let Some((found, expected)) = text.rsplit_once(", expected ") else {
        return text.replace("unknown variant", "unknown value");
    };
    let (expected, place) = match expected.rfind(" at line ") {
        Some(at) => expected.split_at(at),
        None => (expected, ""),
    };
    let Some(wanted) = wanted(expected) else {
        return text.replace("unknown variant", "unknown value");
    };
    let kinds = ["invalid type: ", "invalid value: ", "invalid length "];
    let found = match kinds.iter().find_map(|kind| found.strip_prefix(kind)) {
        Some("map") => "an object".to_owned(),
        Some("sequence") => "a list".to_owned(),
        Some("unit variant") => "a name".to_owned(),
        Some(number) if number.parse::<u64>().is_ok() => format!("a list of {number}"),
        Some(found) => found.replace('`', ""),
        None => return format!("{found}, wanted is {wanted}{place}"),
    };
    format!("{found} stands where {wanted} is wanted{place}")
}

/// The kind of value that is meant by the name of a type; nothing for words that are plain already.
fn wanted(expected: &str) -> Option<&'static str> {
    let first = expected.split(' ').next().unwrap_or_default();
    Some(match first {
        "struct" | "map" | "newtype" if !expected.starts_with("newtype") => "an object",
        "unit" => "no value (null)",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "tuple" | "sequence" => "a list",
        "enum" | "string" | "variant" | "newtype" => "a name, or an object with one field",
        _ => match expected {
            "a map" => "an object",
            "a sequence" => "a list",
            "a boolean" => "true or false",
            "a string" => "a text",
            _ => return None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn types_of_rust_are_told_as_kinds_of_json() {
        for (text, told) in [
            (
                "invalid type: string \"0 3 * * *\", expected struct variant TimingSpec::Cron at line 1 column 9",
                "string \"0 3 * * *\" stands where an object is wanted at line 1 column 9",
            ),
            (
                "invalid length 0, expected struct BulkOrder with 7 elements at line 1 column 2",
                "a list of 0 stands where an object is wanted at line 1 column 2",
            ),
            ("invalid type: integer `1`, expected unit", "integer 1 stands where no value (null) is wanted"),
            ("invalid value: integer `-5`, expected u64", "integer -5 stands where a whole number from 0 is wanted"),
            ("invalid type: map, expected a string", "an object stands where a text is wanted"),
            ("unknown field `a`, expected `b` or `c`", "unknown field `a`, expected `b` or `c`"),
            ("unknown variant `a`, expected `b`", "unknown value `a`, expected `b`"),
            ("missing field `definition`", "missing field `definition`"),
        ] {
            assert_eq!(plain(text), told);
        }
    }
}

//! Durations as the DSL writes them: ISO 8601, or an object.

use std::time::Duration;

use serde_json::Value;

/// The longest duration: a thousand years.
const MILLISECONDS_MAX: f64 = 1_000.0 * 366.0 * 86_400_000.0;

/// Seconds of the units of ISO 8601: a year has 365 days and a month 30, because nothing tells which
/// ones are meant.
const DATE_UNITS: [(char, f64); 4] =
    [('Y', 365.0 * 86_400.0), ('M', 30.0 * 86_400.0), ('W', 7.0 * 86_400.0), ('D', 86_400.0)];
const TIME_UNITS: [(char, f64); 3] = [('H', 3_600.0), ('M', 60.0), ('S', 1.0)];

/// The fields of a duration that is an object, with their milliseconds.
pub(crate) const FIELDS: [(&str, f64); 5] = [
    ("days", 86_400_000.0),
    ("hours", 3_600_000.0),
    ("minutes", 60_000.0),
    ("seconds", 1_000.0),
    ("milliseconds", 1.0),
];

/// A duration such as `PT1H30M`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || match suggested(text) {
        Some(meant) => format!("«{text}» is no duration of ISO 8601: write {meant}"),
        None => format!("«{text}» is no duration of ISO 8601 such as PT1H30M or P2D"),
    };
    let rest = text.trim().strip_prefix('P').ok_or_else(wrong)?;
    let (date, time) = match rest.split_once('T') {
        Some((_, "")) => return Err(wrong()),
        Some((date, time)) => (date, time),
        None => (rest, ""),
    };
    if date.is_empty() && time.is_empty() {
        return Err(wrong());
    }
    let date = part(date, &DATE_UNITS).ok_or_else(wrong)?;
    let time = part(time, &TIME_UNITS).ok_or_else(wrong)?;
    from_ms((date + time) * 1_000.0)
}

/// The ISO form of a short form such as `5s`, `1h30m` or `10 minutes`.
fn suggested(text: &str) -> Option<String> {
    let mut seconds = 0.0;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        let tail = rest[end..].trim_start();
        let end = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let unit = match &tail[..end] {
            "ms" | "millis" | "milliseconds" => 0.001,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3_600.0,
            "d" | "day" | "days" => 86_400.0,
            _ => return None,
        };
        seconds += number * unit;
        rest = tail[end..].trim_start();
    }
    (0.0..MILLISECONDS_MAX / 1_000.0).contains(&seconds).then(|| written(seconds))
}

/// A duration as ISO 8601 writes it.
fn written(seconds: f64) -> String {
    let days = (seconds / 86_400.0).floor();
    let hours = ((seconds - days * 86_400.0) / 3_600.0).floor();
    let minutes = ((seconds - days * 86_400.0 - hours * 3_600.0) / 60.0).floor();
    let rest = seconds - days * 86_400.0 - hours * 3_600.0 - minutes * 60.0;
    let part = |number: f64, unit: &str| match number > 0.0 {
        true => format!("{}{unit}", (number * 1_000.0).round() / 1_000.0),
        false => String::new(),
    };
    let date = part(days, "D");
    let time = [part(hours, "H"), part(minutes, "M"), part(rest, "S")].concat();
    match (date.is_empty(), time.is_empty()) {
        (true, true) => "PT0S".to_owned(),
        (_, true) => format!("P{date}"),
        (_, false) => format!("P{date}T{time}"),
    }
}

/// Numbers, each with its unit, the units in their order.
fn part(mut text: &str, mut units: &[(char, f64)]) -> Option<f64> {
    let mut seconds = 0.0;
    while !text.is_empty() {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = text[..end].parse().ok()?;
        let unit = text[end..].chars().next()?;
        let at = units.iter().position(|(known, _)| *known == unit)?;
        seconds += number * units[at].1;
        units = &units[at + 1..];
        text = &text[end + unit.len_utf8()..];
    }
    Some(seconds)
}

fn from_ms(ms: f64) -> Result<Duration, String> {
    if !(0.0..=MILLISECONDS_MAX).contains(&ms) {
        return Err("a duration is from nothing to a thousand years".to_owned());
    }
    Ok(Duration::from_micros((ms * 1_000.0).round() as u64))
}

/// A duration as a value: a text, or an object such as `{"minutes": 5}`.
pub(crate) fn of_value(value: &Value) -> Result<Duration, String> {
    match value {
        Value::String(text) => parse(text),
        Value::Object(fields) if !fields.is_empty() => {
            let mut ms = 0.0;
            for (name, value) in fields {
                let unit = FIELDS.iter().find(|(known, _)| known == name);
                let (Some((_, unit)), Some(number)) = (unit, value.as_f64()) else {
                    return Err(format!("«{name}: {value}» is no part of a duration"));
                };
                ms += unit * number;
            }
            from_ms(ms)
        }
        other => Err(format!("{other} is no duration")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn durations_are_read() {
        let seconds = |text| parse(text).map(|duration| duration.as_secs_f64());
        assert_eq!(seconds("PT1H30M"), Ok(5_400.0));
        assert_eq!(seconds("P1DT0.5S"), Ok(86_400.5));
        assert_eq!(seconds("P2W"), Ok(1_209_600.0));
        for wrong in ["", "P", "PT", "1H", "PT1X", "P1H", "PT5", "PT1M1H", "P99999999999Y", "PT-1S"]
        {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        let short = [
            ("5s", "PT5S"),
            ("500ms", "PT0.5S"),
            ("1h30m", "PT1H30M"),
            ("10 minutes", "PT10M"),
            ("2 days", "P2D"),
            ("36h", "P1DT12H"),
        ];
        for (text, meant) in short {
            let wrong = parse(text).unwrap_err();
            assert!(wrong.ends_with(&format!("write {meant}")), "{wrong}");
            assert!(parse(meant).is_ok(), "{meant}");
        }
        assert_eq!(
            of_value(&json!({ "minutes": 2, "milliseconds": 5 })),
            Ok(Duration::from_millis(120_005))
        );
        assert!(of_value(&json!({ "minute": 2 })).is_err());
        assert!(of_value(&json!({ "seconds": -2 })).is_err());
        assert!(of_value(&json!(5)).is_err());
    }
}

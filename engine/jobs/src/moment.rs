//! Moments in the settings of a job: RFC 3339, or a local minute, which is taken as UTC.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serializer};
use turnwheel_engine::Time;

/// Reads a moment: `2026-01-01T10:00:00+01:00`, or `2026-01-01T10:00` in UTC.
///
/// # Errors
///
/// The text is none of these.
pub fn parse(text: &str) -> Result<Time, String> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    if let Some(time) = beyond(text) {
        return Ok(time);
    }
    let is_minute = text.len() == "2026-01-01T10:00".len() && text.contains('T');
    let local = text.parse::<DateTime>().ok().filter(|_| is_minute);
    let zoned = local.and_then(|local| local.to_zoned(TimeZone::UTC).ok());
    let us = zoned.and_then(|zoned| u64::try_from(zoned.timestamp().as_microsecond()).ok());
    us.map(Time).ok_or_else(|| {
        format!("«{text}» is no time: write it as 2026-01-01T10:00:00Z or 2026-01-01T10:00")
    })
}

/// A moment before 1970 or at the end of the year 9999, as others write «never»: the first or the
/// last that there is here.
fn beyond(text: &str) -> Option<Time> {
    let (local, offset) = text.split_at_checked("2026-01-01T10:00:00".len())?;
    let offset = offset
        .strip_prefix('.')
        .map_or(offset, |rest| rest.trim_start_matches(|digit: char| digit.is_ascii_digit()));
    // With its offset it is a moment like others, in a year that is known.
    format!("2000-06-15T12:00:00{offset}").parse::<Time>().ok()?;
    let local: DateTime = local.parse().ok()?;
    match local.year() {
        9_999 => u64::try_from(Timestamp::MAX.as_microsecond()).ok().map(Time),
        year if year < 1_970 => Some(Time(0)),
        _ => None,
    }
}

pub(crate) fn serialize<S: Serializer>(time: &Option<Time>, to: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => to.collect_str(time),
        None => to.serialize_none(),
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Time>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    text.map(|text| parse(&text).map_err(serde::de::Error::custom)).transpose()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use turnwheel_engine::Time;

    use super::parse;

    #[test]
    fn moments_that_mean_never_are_the_first_and_the_last_one() {
        let last = u64::try_from(Timestamp::MAX.as_microsecond()).map(Time).unwrap();
        for text in ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999999999+00:00"] {
            assert_eq!(parse(text), Ok(last), "{text}");
        }
        for text in ["0001-01-01T00:00:00Z", "1969-12-31T23:59:59+02:00"] {
            assert_eq!(parse(text), Ok(Time(0)), "{text}");
        }
        for text in ["9999-12-31T23:59:59", "0001-13-01T00:00:00Z", "1900-01-01T00:00:00 Z", "1900"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

//! Moments in the settings of a job: RFC 3339, or a local minute, which is taken as UTC.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
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
    let is_minute = text.len() == "2026-01-01T10:00".len() && text.contains('T');
    let local = text.parse::<DateTime>().ok().filter(|_| is_minute);
    let zoned = local.and_then(|local| local.to_zoned(TimeZone::UTC).ok());
    let us = zoned.and_then(|zoned| u64::try_from(zoned.timestamp().as_microsecond()).ok());
    us.map(Time).ok_or_else(|| {
        format!("«{text}» is no time: write it as 2026-01-01T10:00:00Z or 2026-01-01T10:00")
    })
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

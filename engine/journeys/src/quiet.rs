//! Hours of the day in which nothing is sent.

use jiff::civil::{Date, Time as Hour};
use jiff::tz::TimeZone;
use jiff::Timestamp;

use crate::element::Quiet;

/// Reads an hour such as `22:00`.
pub(crate) fn hour(text: &str) -> Result<Hour, String> {
    let wrong = || format!("«{text}» is no time of day: write it as 22:00");
    let (hours, minutes) = text.split_once(':').ok_or_else(wrong)?;
    let number = |text: &str| text.parse::<i8>().map_err(|_| wrong());
    Hour::new(number(hours)?, number(minutes)?, 0, 0).map_err(|_| wrong())
}

/// A zone by its name.
pub(crate) fn zone(name: &str) -> Result<TimeZone, String> {
    TimeZone::get(name).map_err(|_| format!("«{name}» is no time zone: write Europe/Berlin"))
}

/// When the quiet hours end in which a moment lies; nothing if it lies in none. The user's zone
/// stands if it is known.
pub(crate) fn ends(quiet: &Quiet, user_zone: Option<&str>, now_ms: u64) -> Option<u64> {
    let (from, to) = (hour(&quiet.from).ok()?, hour(&quiet.to).ok()?);
    let known = user_zone.and_then(|name| zone(name).ok());
    let usual = || quiet.zone.as_deref().and_then(|name| zone(name).ok()).unwrap_or(TimeZone::UTC);
    let zone = known.unwrap_or_else(usual);
    let now = Timestamp::from_millisecond(i64::try_from(now_ms).ok()?).ok()?.to_zoned(zone.clone());
    let (day, time) = (now.date(), now.time());
    let is_quiet = match from <= to {
        true => from <= time && time < to,
        false => from <= time || time < to,
    };
    let end: Date = match is_quiet && time >= to {
        true => day.tomorrow().ok()?,
        false => day,
    };
    let end = is_quiet.then(|| end.to_datetime(to).to_zoned(zone).ok())??;
    u64::try_from(end.timestamp().as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_hours_end_in_the_zone_of_the_user() {
        let quiet = Quiet { from: "22:00".into(), to: "08:00".into(), zone: None };
        let ms = |text: &str| text.parse::<Timestamp>().unwrap().as_millisecond() as u64;
        let ends = |zone, at: &str| ends(&quiet, zone, ms(at));
        assert_eq!(ends(None, "2026-01-05T12:00:00Z"), None);
        assert_eq!(ends(None, "2026-01-05T08:00:00Z"), None, "the end is not in it");
        let morning = Some(ms("2026-01-06T08:00:00Z"));
        assert_eq!(ends(None, "2026-01-05T22:00:00Z"), morning);
        assert_eq!(ends(None, "2026-01-06T07:59:59Z"), morning);
        let tokyo = Some("Asia/Tokyo");
        assert_eq!(ends(tokyo, "2026-01-05T14:00:00Z"), Some(ms("2026-01-05T23:00:00Z")));
        assert_eq!(ends(tokyo, "2026-01-05T02:00:00Z"), None);
        assert_eq!(ends(Some("Nowhere"), "2026-01-05T22:00:00Z"), morning, "as without a zone");
        // The night in which clocks go forward is an hour shorter.
        let berlin = ends(Some("Europe/Berlin"), "2026-03-28T22:00:00Z");
        assert_eq!(berlin, Some(ms("2026-03-29T06:00:00Z")));
    }
}

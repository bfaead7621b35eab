//! Hours of the day in which nothing is sent.

use jiff::civil::{Date, Time as Hour};
use jiff::tz::TimeZone;
use jiff::Timestamp;
use turnwheel_flow::internal::nearest;

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

/// The name of a zone that is most like this one, if one is like it at all.
pub(crate) fn zone_like(name: &str) -> Option<String> {
    let all: Vec<String> = jiff::tz::db().available().map(|zone| zone.to_string()).collect();
    nearest(name, all.iter().map(String::as_str)).map(str::to_owned)
}

/// When the quiet hours end in which a moment lies, always later than that; nothing if it lies in
/// none. The user's zone stands if it is known. An end that the clocks repeat is the next one, and
/// one that they skip is as much later as they skip.
pub(crate) fn ends(quiet: &Quiet, user_zone: Option<&str>, now_ms: u64) -> Option<u64> {
    let (from, to) = (hour(&quiet.from).ok()?, hour(&quiet.to).ok()?);
    let known = user_zone.and_then(|name| zone(name).ok());
    let usual = || quiet.zone.as_deref().and_then(|name| zone(name).ok()).unwrap_or(TimeZone::UTC);
    let zone = known.unwrap_or_else(usual);
    let now = Timestamp::from_millisecond(i64::try_from(now_ms).ok()?).ok()?;
    let clock = now.to_zoned(zone.clone()).datetime();
    let (day, time) = (clock.date(), clock.time());
    let is_quiet = match from <= to {
        true => from <= time && time < to,
        false => from <= time || time < to,
    };
    let end: Date = match is_quiet && time >= to {
        true => day.tomorrow().ok()?,
        false => day,
    };
    let end = is_quiet.then(|| zone.to_ambiguous_timestamp(end.to_datetime(to)))?;
    let first = end.compatible().ok()?;
    let end = if first > now { first } else { end.later().ok()? };
    u64::try_from(end.as_millisecond()).ok().filter(|end| *end > now_ms)
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
    #[test]
    fn quiet_hours_end_later_than_now_where_clocks_repeat_or_skip_the_end() {
        let ms = |text: &str| text.parse::<Timestamp>().unwrap().as_millisecond() as u64;
        let ends = |from: &str, to: &str, at: &str| {
            let quiet = Quiet { from: from.into(), to: to.into(), zone: None };
            ends(&quiet, Some("Europe/Berlin"), ms(at))
        };
        // Clocks go back from 03:00 to 02:00 at 01:00 UTC: 02:30 is there twice.
        let (first, second) = (Some(ms("2026-10-25T00:30:00Z")), Some(ms("2026-10-25T01:30:00Z")));
        let back = |at| ends("22:00", "02:30", at);
        assert_eq!(back("2026-10-24T22:00:00Z"), first, "00:00");
        assert_eq!(back("2026-10-25T00:15:00Z"), first, "the first 02:15");
        assert_eq!(back("2026-10-25T00:45:00Z"), None, "the first 02:45");
        assert_eq!(back("2026-10-25T01:00:00Z"), second, "the second 02:00");
        assert_eq!(back("2026-10-25T01:15:00Z"), second, "the second 02:15");
        assert_eq!(back("2026-10-25T01:30:00Z"), None, "the second 02:30");
        let within = |at| ends("02:10", "02:30", at);
        assert_eq!(within("2026-10-25T00:20:00Z"), first, "the first 02:20");
        assert_eq!(within("2026-10-25T01:20:00Z"), second, "the second 02:20");
        // Clocks go forward from 02:00 to 03:00 at 01:00 UTC: 02:30 is not there.
        let forward = |at| ends("22:00", "02:30", at);
        assert_eq!(forward("2026-03-29T00:59:59Z"), Some(ms("2026-03-29T01:30:00Z")), "01:59:59");
        assert_eq!(forward("2026-03-29T01:00:00Z"), None, "03:00");
    }

    #[test]
    fn quiet_hours_always_end_later_than_now() {
        let zones = ["Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe"];
        let begin = "2018-01-01T00:00:00Z".parse::<Timestamp>().unwrap().as_millisecond() as u64;
        for to in ["00:15", "01:45", "02:30", "23:45"] {
            let quiet = Quiet { from: "22:00".into(), to: to.into(), zone: None };
            for zone in zones {
                for now in (begin..begin + 366 * 86_400_000).step_by(2_100_000) {
                    let end = ends(&quiet, Some(zone), now);
                    assert!(end.is_none_or(|end| end > now), "to {to} in {zone} at {now}");
                }
            }
        }
    }
}

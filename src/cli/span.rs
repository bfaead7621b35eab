//! Lengths of time and moments, as people type and read them.

use std::time::{Duration, SystemTime};

use turnwheel::engine::Time;

/// A length of time such as `90s`, `15m`, `2h`, `7d` or `500ms`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("«{text}» is no length of time: write it as 500ms, 90s, 15m, 2h or 7d");
    let unit = text.find(|sign: char| !sign.is_ascii_digit() && sign != '.').ok_or_else(wrong)?;
    let (number, unit) = text.split_at(unit);
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())
}

/// A moment: a text of RFC 3339, or a length of time before now.
pub(crate) fn moment(text: &str) -> Result<Time, String> {
    if let Ok(before) = duration(text) {
        let now = Time::from(SystemTime::now());
        let before = u64::try_from(before.as_micros()).unwrap_or(u64::MAX);
        return Ok(Time(now.0.saturating_sub(before)));
    }
    text.parse().map_err(|_| {
        format!(
            "«{text}» is no time: write it as 2026-03-29T01:30:00Z, or how long ago as 2h or 7d"
        )
    })
}

/// A moment to the second; a text that is no time as it is.
pub(crate) fn shown(time: &str) -> String {
    time.parse().map_or_else(
        |_| time.to_owned(),
        |time: Time| Time(time.0 - time.0 % 1_000_000).to_string(),
    )
}

/// The time between two moments; nothing if one of them is no time.
pub(crate) fn between(from: &str, to: &str) -> Option<Duration> {
    let (from, to): (Time, Time) = (from.parse().ok()?, to.parse().ok()?);
    Some(to.since(from))
}

/// A length of time for people: two digits that matter and a unit.
pub(crate) fn long(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        seconds if seconds < 0.001 => format!("{:.0}µs", seconds * 1e6),
        seconds if seconds < 1.0 => format!("{:.0}ms", seconds * 1e3),
        seconds if seconds < 60.0 => format!("{seconds:.1}s"),
        seconds if seconds < 3_600.0 => {
            format!("{:.0}m{:02.0}s", (seconds / 60.0).floor(), seconds % 60.0)
        }
        seconds if seconds < 172_800.0 => {
            format!(
                "{:.0}h{:02.0}m",
                (seconds / 3_600.0).floor(),
                (seconds % 3_600.0 / 60.0).floor()
            )
        }
        seconds => format!("{:.0}d", seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_and_shown() {
        for (text, seconds) in [("90s", 90.0), ("1.5h", 5_400.0), ("500ms", 0.5), ("7d", 604_800.0)]
        {
            assert_eq!(duration(text).map(|found| found.as_secs_f64()), Ok(seconds), "{text}");
        }
        for text in ["", "5", "s", "-1s", "1.2.3s", "5y", "1e400d", "99999999999999999999d"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert_eq!(long(Duration::from_millis(12)), "12ms");
        assert_eq!(long(Duration::from_secs(61)), "1m01s");
        assert_eq!(long(Duration::from_secs(7_320)), "2h02m");
    }

    #[test]
    fn every_length_that_is_typed_is_read_as_it_is_meant() {
        let units =
            [("ms", 1_u64), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
        let mut number = 1_u64;
        for step in 0..2_000_u64 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step);
            let count = number >> 44;
            for (unit, ms) in units {
                let found = duration(&format!("{count}{unit}")).expect("it is one");
                let wanted = Duration::from_millis(count * ms);
                assert!(
                    found.abs_diff(wanted) < Duration::from_millis(1),
                    "{count}{unit}: {found:?}"
                );
                // What is shown begins with a number, whatever its size.
                assert!(long(found).starts_with(|sign: char| sign.is_ascii_digit()), "{found:?}");
                assert!(duration(&format!("{count}{unit}x")).is_err());
                assert!(duration(&format!(" {count}{unit}")).is_err());
            }
        }
    }

    #[test]
    fn moments_are_times_or_how_long_ago() {
        let now = Time::from(SystemTime::now());
        let hour = moment("1h").expect("an hour ago");
        assert!(now.since(hour) >= Duration::from_secs(3_599));
        assert_eq!(moment("1970-01-01T00:00:01Z"), Ok(Time(1_000_000)));
        assert!(moment("yesterday").is_err_and(|problem| problem.contains("yesterday")));
    }
}

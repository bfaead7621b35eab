//! Wall time, as it is stored and shown.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A moment of wall time: microseconds since the begin of 1970, UTC.
///
/// It shows itself as a text of RFC 3339, and is read from one:
///
/// ```
/// use turnwheel_engine::Time;
///
/// let time: Time = "2026-03-29T03:30:00+02:00".parse()?;
/// assert_eq!(time.to_string(), "2026-03-29T01:30:00Z");
/// assert_eq!(Time(1_500_000).to_string(), "1970-01-01T00:00:01.5Z");
/// # Ok::<(), turnwheel_engine::TimeError>(())
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub u64);

/// A text that is no time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("«{text}» is no time: {problem}; write it as 2026-03-29T01:30:00Z")]
#[non_exhaustive]
pub struct TimeError {
    /// The text.
    pub text: String,
    /// The problem.
    pub problem: String,
}

impl Time {
    /// Later by so much; the end of time if that is beyond it.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(us))
    }

    /// Time from `earlier` to this time; zero if it is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }
}

impl From<Time> for SystemTime {
    fn from(time: Time) -> Self {
        Self::UNIX_EPOCH + Duration::from_micros(time.0)
    }
}

/// A text of RFC 3339 with any offset; parts of a microsecond are left out.
impl FromStr for Time {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        let wrong = |problem: String| TimeError { text: text.to_owned(), problem };
        let time: Timestamp =
            text.parse().map_err(|error: jiff::Error| wrong(error.to_string()))?;
        let us = u64::try_from(time.as_microsecond());
        us.map(Self).map_err(|_| wrong("it is before 1970".to_owned()))
    }
}

/// In UTC. Times after the year 9999 have no such text: they are shown in microseconds.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = i64::try_from(self.0).ok().and_then(|us| Timestamp::from_microsecond(us).ok());
        match time {
            Some(time) => write!(f, "{time}"),
            None => write!(f, "{} us after 1970", self.0),
        }
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_as_it_is_read() {
        for text in ["1970-01-01T00:00:00Z", "2026-11-21T14:15:47.123456Z", "9999-12-30T21:00:00Z"]
        {
            let time: Time = text.parse().expect("a time");
            assert_eq!((time.to_string(), format!("{time:?}")), (text.to_owned(), text.to_owned()));
        }
        let same: Time = "2026-11-21t15:15:47+01:00".parse().expect("a time");
        assert_eq!(same, "2026-11-21T14:15:47Z".parse().expect("a time"));
        let fine: Time = "2026-11-21T14:15:47.123456789Z".parse().expect("a time");
        assert_eq!(fine.0 % 1_000_000, 123_456);
    }

    #[test]
    fn what_is_no_time_is_named() {
        for text in
            ["", "yesterday", "2026-13-01T00:00:00Z", "2026-11-21T14:15:47", "1969-12-31T23:59:59Z"]
        {
            let error = text.parse::<Time>().expect_err(text);
            assert_eq!(error.text, text);
            assert!(error.to_string().contains("2026-03-29T01:30:00Z"), "{error}");
        }
    }

    #[test]
    fn times_that_no_calendar_has_are_shown_all_the_same() {
        assert_eq!(Time(u64::MAX).to_string(), format!("{} us after 1970", u64::MAX));
        assert_eq!(Time(0).to_string(), "1970-01-01T00:00:00Z");
    }
}

//! Durations as text, in the form of Go: `90s`, `1h30m`, `1.5h`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Units by name, with their nanoseconds.
const UNITS: [(&str, f64); 9] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("μs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 6e10),
    ("h", 3.6e12),
    ("d", 8.64e13),
];

/// Longest span: about 292 years, as of Go.
const SECONDS_MAX: f64 = 9.2e9;

/// Length of time, written as `90s` or `1h30m`; serialized as this text.
///
/// ```
/// use std::time::Duration;
/// use turnwheel_jobs::Span;
///
/// let span: Span = "1h30m".parse()?;
/// assert_eq!((span.0, span.to_string().as_str()), (Duration::from_secs(5_400), "1h30m"));
/// assert!("soon".parse::<Span>().unwrap_err().contains("write it as 90s, 15m or 1h30m"));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub Duration);

impl Span {
    /// So many seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// Whether it is zero.
    pub fn is_zero(&self) -> bool {
        self.0.is_zero()
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("«{text}» is no length of time: write it as 90s, 15m or 1h30m");
        let (mut rest, mut nanos) = (text.trim(), 0.0);
        if rest == "0" {
            return Ok(Self::default());
        }
        if rest.is_empty() {
            return Err(wrong());
        }
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
            let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
            rest = &rest[digits..];
            let letters = rest.find(|c: char| c.is_ascii_digit() || c == '.');
            let (unit, after) = rest.split_at(letters.unwrap_or(rest.len()));
            let known = UNITS.iter().find(|(name, _)| *name == unit);
            nanos += number * known.ok_or_else(wrong)?.1;
            rest = after;
        }
        if nanos > SECONDS_MAX * 1e9 {
            return Err(format!("«{text}» is longer than 290 years"));
        }
        Ok(Self(Duration::from_secs_f64(nanos / 1e9)))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0.as_secs(), self.0.subsec_nanos());
        if nanos > 0 && seconds == 0 {
            return write!(f, "{}ms", f64::from(nanos) / 1e6);
        }
        let (hours, minutes, rest) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        match (rest, nanos) {
            (0, 0) if seconds > 0 => Ok(()),
            (rest, 0) => write!(f, "{rest}s"),
            (rest, nanos) => write!(f, "{}s", rest as f64 + f64::from(nanos) / 1e9),
        }
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

//! Schedules: text with a zone to times.
//!
//! | form | meaning |
//! | --- | --- |
//! | six fields | second, minute, hour, day of the month, month, weekday (0 to 6, Sunday is 0) |
//! | five fields | the same with second 0, in [`Dialect::Classic`]; 7 is Sunday too |
//! | `@yearly` `@annually` `@monthly` `@weekly` `@daily` `@midnight` `@hourly` `@minutely` | at their begin, by the zone's clocks |
//! | `@every 1h30m` | after each period, counted from a stored start; whole seconds, at least one |
//! | `@at 2026-01-01T00:00:00Z` | once |
//! | `@manually` | never by itself |
//!
//! A prefix `TZ=` or `CRON_TZ=` gives the zone. In a field `?` is `*`, and `~` a value from a hash
//! of the job's name ([`Hash`]). `zoned` has the table for daylight saving.

mod field;
mod pattern;
mod span;
mod spread;
mod zoned;

use jiff::tz::TimeZone;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use turnwheel_engine::Time;

pub use span::Span;
pub(crate) use spread::jitter;
pub use spread::Hash;

use pattern::Pattern;
use zoned::Zoned;

/// Bytes of a schedule; real ones are far shorter.
const TEXT_BYTES_MAX: usize = 256;

const US: u64 = 1_000_000;

/// Number of fields that a pattern may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// Six, the second first, as in Dkron.
    #[default]
    Seconds,
    /// Five or six, as in crontabs.
    Classic,
}

/// Policy for times of a day that the clocks leave out in spring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Gap {
    /// One fire at the first moment after the gap.
    #[default]
    First,
    /// Each fires as much later as the clocks were moved.
    Shift,
    /// They do not fire on that day.
    Skip,
}

/// Inputs of a schedule beside its text.
#[derive(Clone, Debug)]
pub(crate) struct Terms<'a> {
    pub(crate) job: &'a str,
    /// The zone of the job; empty if it names none.
    pub(crate) zone: &'a str,
    /// The zone of schedules that name none.
    pub(crate) usual: &'a TimeZone,
    pub(crate) dialect: Dialect,
    pub(crate) hash: Hash,
    pub(crate) gap: Gap,
    /// Start of the periods of `@every`.
    pub(crate) anchor: Time,
}

/// A parsed schedule.
#[derive(Clone, Debug)]
pub(crate) enum Schedule {
    Cron(Box<Zoned>),
    Every { period_us: u64, anchor_us: u64 },
    At(Time),
    Manual,
}

impl Schedule {
    /// Parses a text; the error says which part is wrong.
    pub(crate) fn parse(text: &str, terms: &Terms<'_>) -> Result<Self, String> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(format!("it is longer than {TEXT_BYTES_MAX} bytes"));
        }
        let (zone, rest) = split_zone(text.trim())?;
        let zone = match (zone, terms.zone) {
            (Some(own), other) if !other.is_empty() && own != other => {
                return Err(format!("it names the zone {own}, and the job {other}: give one"));
            }
            (Some(own), _) => named(own)?,
            (None, "") => terms.usual.clone(),
            (None, name) => named(name)?,
        };
        let (word, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let argument = argument.trim();
        let fields = match word {
            "@every" => return every(argument, terms.anchor),
            "@at" => {
                let at =
                    argument.parse().map_err(|e: turnwheel_engine::TimeError| e.to_string())?;
                return Ok(Self::At(at));
            }
            "@manually" => return Ok(Self::Manual),
            "@yearly" | "@annually" => "0 0 0 1 1 *",
            "@monthly" => "0 0 0 1 * *",
            "@weekly" => "0 0 0 * * 0",
            "@daily" | "@midnight" => "0 0 0 * * *",
            "@hourly" => "0 0 * * * *",
            "@minutely" => "0 * * * * *",
            _ if word.starts_with('@') => {
                return Err(format!(
                    "«{word}» is unknown; known are @yearly, @annually, @monthly, @weekly, @daily, \
                     @midnight, @hourly, @minutely, @every, @at and @manually"
                ));
            }
            _ => rest,
        };
        let pattern = Pattern::parse(fields, terms.job, terms.dialect, terms.hash)?;
        Ok(Self::Cron(Box::new(Zoned { pattern, zone, gap: terms.gap })))
    }

    /// The first time after one.
    pub(crate) fn next(&self, after: Time) -> Option<Time> {
        match self {
            Self::Cron(zoned) => {
                let after = Timestamp::from_microsecond(i64::try_from(after.0).ok()?).ok()?;
                let found = zoned.next(after)?.as_second();
                u64::try_from(found).ok()?.checked_mul(US).map(Time)
            }
            Self::Every { period_us, anchor_us } => {
                let done = after.0.saturating_sub(*anchor_us) / period_us;
                let next = (done + 1).checked_mul(*period_us)?.checked_add(*anchor_us)?;
                Some(Time(next))
            }
            Self::At(time) => (*time > after).then_some(*time),
            Self::Manual => None,
        }
    }

    /// Whether it never fires by itself, as its owner wants.
    pub(crate) fn is_manual(&self) -> bool {
        matches!(self, Self::Manual)
    }
}

/// The zone in front of a schedule, and the rest.
fn split_zone(text: &str) -> Result<(Option<&str>, &str), String> {
    let named = text.strip_prefix("CRON_TZ=").or(text.strip_prefix("TZ="));
    let Some(named) = named else { return Ok((None, text)) };
    match named.split_once(char::is_whitespace) {
        Some((zone, rest)) if !zone.is_empty() => Ok((Some(zone), rest.trim())),
        _ => Err("after TZ= comes a zone and then the schedule".to_owned()),
    }
}

fn named(zone: &str) -> Result<TimeZone, String> {
    TimeZone::get(zone).map_err(|_| {
        format!(
            "the zone «{zone}» is unknown: give a name of the IANA database, such as Europe/Madrid"
        )
    })
}

fn every(period: &str, anchor: Time) -> Result<Schedule, String> {
    let period: Span = period.parse().map_err(|problem| format!("@every: {problem}"))?;
    // Whole seconds, as Dkron has them.
    let (period_us, anchor_us) = (period.0.as_secs().max(1) * US, anchor.0 / US * US);
    Ok(Schedule::Every { period_us, anchor_us })
}

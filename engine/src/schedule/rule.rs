//! The times of a schedule, computed from its stored settings, without a clock.
//!
//! Daylight saving, for patterns of cron: a pattern with one second, one minute and one hour means
//! a time of day. If that time is left out on a day, the launch is planned for the first moment
//! after the gap; if it comes twice, for the first of both. All other patterns mean an interval: a
//! time in a gap has no launch, and a time that comes twice has two. A day that a zone leaves out
//! altogether has no launches.

use croner::parser::CronParser;
use croner::Cron;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use super::error::ScheduleError;
use super::timing::Timing;
use crate::limits::SCHEDULE_TIMES_MAX;
use crate::time::Time;

/// Bytes of a pattern; real ones are far shorter.
const PATTERN_BYTES_MAX: usize = 256;

/// Days in a row that a zone leaves out, at most; none has left out two.
const DAYS_LEFT_OUT_MAX: usize = 3;

/// The fields of a pattern with a second and a year; others leave the first or the last one out.
const FIELDS: [&str; 7] =
    ["second", "minute", "hour", "day of the month", "month", "day of the week", "year"];

const US_PER_MILLISECOND: u64 = 1_000;
const US_PER_SECOND: u64 = 1_000_000;
const US_PER_DAY: u64 = 86_400 * US_PER_SECOND;

/// Rule for the times of a schedule.
#[derive(Clone, Debug)]
pub(crate) enum Rule {
    Cron {
        cron: Box<Cron>,
        zone: TimeZone,
    },
    Every {
        period_us: u64,
        offset_us: u64,
    },
    At(Time),
    Manual,
    /// So long after what was decided last: the end of the plan before.
    After {
        pause_us: u64,
    },
}

impl Rule {
    /// Understands what is stored.
    pub(crate) fn of(timing: &Timing) -> Result<Self, ScheduleError> {
        match timing {
            Timing::Cron { pattern, zone } => {
                let cron = Box::new(parse(pattern)?);
                let zone = TimeZone::get(zone)
                    .map_err(|_| ScheduleError::UnknownZone { zone: zone.clone() })?;
                Ok(Self::Cron { cron, zone })
            }
            Timing::Every { period_us, .. } if *period_us < US_PER_SECOND => {
                Err(ScheduleError::NoPeriod)
            }
            Timing::Every { period_us, offset_us } => {
                Ok(Self::Every { period_us: *period_us, offset_us: offset_us % period_us })
            }
            Timing::At(time) => Ok(Self::At(*time)),
            Timing::Manual => Ok(Self::Manual),
            Timing::After { pause_us } if *pause_us < US_PER_MILLISECOND => {
                Err(ScheduleError::NoPeriod)
            }
            Timing::After { pause_us } => Ok(Self::After { pause_us: *pause_us }),
        }
    }

    /// The first time after this one.
    pub(crate) fn next(&self, after: Time) -> Option<Time> {
        match self {
            Self::Cron { cron, zone } => next_of_cron(cron, zone, after),
            Self::Every { period_us, offset_us } => {
                if after.0 < *offset_us {
                    return Some(Time(*offset_us));
                }
                let done = (after.0 - offset_us) / period_us;
                let next = (done + 1).checked_mul(*period_us)?.checked_add(*offset_us)?;
                Some(Time(next))
            }
            Self::At(time) => (*time > after).then_some(*time),
            Self::Manual => None,
            Self::After { pause_us } => after.0.checked_add(*pause_us).map(Time),
        }
    }

    /// Whether its times depend on the ends of its plans.
    pub(crate) fn follows_ends(&self) -> bool {
        matches!(self, Self::After { .. })
    }

    /// The last time in `after..=until`.
    ///
    /// Cost: a few searches; for patterns with bursts, one for each time of the burst.
    pub(crate) fn latest(&self, after: Time, until: Time) -> Option<Time> {
        if let Self::Every { period_us, offset_us } = self {
            let since = until.0.checked_sub(*offset_us)?;
            return Some(Time(until.0 - since % period_us)).filter(|time| *time > after);
        }
        // Windows that grow: the first one that has a time at all has few of them.
        for window_us in [60 * US_PER_SECOND, 3_600 * US_PER_SECOND, US_PER_DAY, 32 * US_PER_DAY] {
            let from = Time(until.0.saturating_sub(window_us)).max(after);
            if let Some(latest) = self.times(from, until).last() {
                return Some(latest);
            }
            if from == after {
                return None;
            }
        }
        self.times(after, until).last()
    }

    /// Number of times in `after..=until`, counted up to a limit.
    pub(crate) fn count(&self, after: Time, until: Time, limit: u64) -> u64 {
        if let Self::Every { period_us, offset_us } = self {
            let before = |time: Time| match time.0.checked_sub(*offset_us) {
                Some(since) => since / period_us + 1,
                None => 0,
            };
            return before(until).saturating_sub(before(after)).min(limit);
        }
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        self.times(after, until).take(limit).count() as u64
    }

    /// The first times after one, at most so many.
    pub(crate) fn preview(&self, after: Time, limit: usize) -> Vec<Time> {
        self.times(after, Time(u64::MAX)).take(limit.min(SCHEDULE_TIMES_MAX)).collect()
    }

    /// The times in `after..=until`.
    pub(crate) fn times(&self, after: Time, until: Time) -> impl Iterator<Item = Time> + '_ {
        std::iter::successors(self.next(after), |time| self.next(*time))
            .take_while(move |time| *time <= until)
    }
}

fn next_of_cron(cron: &Cron, zone: &TimeZone, after: Time) -> Option<Time> {
    let second = i64::try_from(after.0 / US_PER_SECOND).ok()?;
    let mut from = Timestamp::from_second(second).ok()?.to_zoned(zone.clone());
    let mut is_included = false;
    for _ in 0..=DAYS_LEFT_OUT_MAX {
        if let Ok(found) = cron.find_next_occurrence(&from, is_included) {
            let second = u64::try_from(found.timestamp().as_second()).ok()?;
            return second.checked_mul(US_PER_SECOND).map(Time);
        }
        // The pattern has no times any more, or its next one is on a day that does not exist.
        let local = cron.find_next_occurrence(&from.datetime(), false).ok()?;
        let before: Zoned = zone.to_ambiguous_zoned(local).earlier().ok()?;
        let gap = zone.following(before.timestamp()).next()?;
        from = gap.timestamp().to_zoned(zone.clone());
        is_included = true;
    }
    None
}

/// Parses a pattern; the error says which field is wrong.
pub(crate) fn parse(pattern: &str) -> Result<Cron, ScheduleError> {
    let wrong = |field: String, problem: String| ScheduleError::Pattern {
        pattern: pattern.chars().take(PATTERN_BYTES_MAX).collect(),
        field,
        problem,
    };
    if pattern.len() > PATTERN_BYTES_MAX {
        let problem = format!("is longer than {PATTERN_BYTES_MAX} bytes");
        return Err(wrong("the text".to_owned(), problem));
    }
    let problem = match CronParser::new().parse(pattern) {
        Ok(cron) => return Ok(cron),
        Err(problem) => problem,
    };
    let fields: Vec<&str> = pattern.split_whitespace().collect();
    if pattern.trim_start().starts_with('@') {
        let known = "known are @yearly, @annually, @monthly, @weekly, @daily and @hourly";
        return Err(wrong("the name".to_owned(), format!("is unknown; {known}")));
    }
    if !(5..=7).contains(&fields.len()) {
        let problem = format!(
            "has {} fields and needs 5: minute, hour, day of the month, month, day of the week; or 6 \
             with a second before them, or 7 with a year behind them",
            fields.len()
        );
        return Err(wrong("the text".to_owned(), problem));
    }
    let names = if fields.len() == 5 { &FIELDS[1..6] } else { &FIELDS[..fields.len()] };
    for (place, field) in fields.iter().enumerate() {
        let mut alone = vec!["*"; fields.len()];
        alone[place] = field;
        if let Err(problem) = CronParser::new().parse(&alone.join(" ")) {
            let field = format!("field {}, the {}, «{field}»", place + 1, names[place]);
            return Err(wrong(field, format!("is wrong: {problem}")));
        }
    }
    Err(wrong("the text".to_owned(), format!("is wrong: {problem}")))
}

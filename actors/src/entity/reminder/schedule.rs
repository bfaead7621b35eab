//! When a reminder ticks, and the arithmetic of its occurrences. Pure: no clock, no store.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{ReminderError, ReminderId, ReminderRow};

/// The latest time that can be stored, milliseconds: that of a signed number of 64 bits.
const TIME_MAX_MS: u64 = i64::MAX as u64;

/// Times of a reminder's ticks.
///
/// Times are kept in whole milliseconds of universal time, rounded up: a reminder is never early.
///
/// ```
/// use std::time::Duration;
/// use turnwheel_actors::entity::{MissedTicks, Schedule};
///
/// let hour = Duration::from_secs(3600);
/// let hourly = Schedule::every(hour).first(Duration::from_secs(60)).missed(MissedTicks::Once);
/// assert_ne!(hourly, Schedule::every(hour));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Schedule {
    first: First,
    period: Option<Duration>,
    missed: MissedTicks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    After(Duration),
    At(SystemTime),
}

/// Treatment of occurrences of a reminder that fell due while no process was there to tick. One
/// without a period is never missed: it ticks as soon as it is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissedTicks {
    /// Missed ticks are skipped: the next tick is at the next occurrence, and has their number.
    #[default]
    Skip,
    /// One tick at once for all of them, for the latest; then the next occurrence.
    Once,
    /// A tick for each of them, one after the other.
    Every,
}

impl Schedule {
    /// Again and again, the first time after one period.
    pub fn every(period: Duration) -> Self {
        Self { first: First::After(period), period: Some(period), missed: MissedTicks::default() }
    }

    /// Once, after a delay.
    pub fn once(delay: Duration) -> Self {
        Self { first: First::After(delay), period: None, missed: MissedTicks::default() }
    }

    /// Once, at a time; at once if it is past.
    pub fn once_at(time: SystemTime) -> Self {
        Self { first: First::At(time), ..Self::once(Duration::ZERO) }
    }

    setters! {
        /// The first time after this delay, counted from the registration; zero is at once.
        first(self, delay: Duration) => self.first = First::After(delay);

        /// Origin of the times: if it is past, the first tick is the next whole period after it.
        first_at(self, time: SystemTime) => self.first = First::At(time);

        /// Sets the treatment of occurrences that fell due while no process was there to tick.
        missed(self, missed: MissedTicks) => self.missed = missed;
    }

    /// The row of a reminder with this schedule, registered now.
    pub(super) fn plan(&self, id: ReminderId, now_ms: u64) -> Result<ReminderRow, ReminderError> {
        let far = || ReminderError::OutOfRange { name: id.name.to_string() };
        let period_ms = self.period.map(|period| whole_ms(period).ok_or_else(far)).transpose()?;
        let (delay_ms, first_due_ms) = match self.first {
            First::After(delay) => {
                let delay_ms = whole_ms(delay).ok_or_else(far)?;
                (Some(delay_ms), now_ms.checked_add(delay_ms).ok_or_else(far)?)
            }
            First::At(time) => {
                let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
                (None, whole_ms(since).ok_or_else(far)?)
            }
        };
        if first_due_ms > TIME_MAX_MS {
            return Err(far());
        }
        let due_ms = match period_ms {
            // The occurrence of now itself counts.
            Some(period_ms) if first_due_ms < now_ms => after(first_due_ms, period_ms, now_ms - 1),
            _ => first_due_ms,
        };
        let mut row = ReminderRow::new(id);
        (row.delay_ms, row.first_due_ms) = (delay_ms, first_due_ms);
        (row.period_ms, row.missed) = (period_ms, self.missed);
        (row.planned_ms, row.due_ms) = (due_ms, due_ms);
        Ok(row)
    }

    /// Its period, if it has one.
    pub(super) fn period(&self) -> Option<Duration> {
        self.period
    }
}

/// Whether two rows have the same times, so that the schedule continues.
pub(super) fn has_same_times(row: &ReminderRow, other: &ReminderRow) -> bool {
    let same_first = match row.delay_ms {
        Some(_) => row.delay_ms == other.delay_ms,
        None => other.delay_ms.is_none() && row.first_due_ms == other.first_due_ms,
    };
    same_first && row.period_ms == other.period_ms
}

/// Action for a row that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Skip missed occurrences: the next occurrence, and the number of skipped ones.
    Skip { next_ms: u64, skipped: u64 },
    /// Tick for this occurrence; so many before it are left out.
    Tick { planned_ms: u64, skipped: u64 },
}

/// Decides about a due row in a process that has run since `since_ms`.
pub(super) fn step(row: &ReminderRow, now_ms: u64, since_ms: u64) -> Step {
    let planned_ms = row.planned_ms;
    let was_missed = row.failures == 0 && planned_ms < since_ms;
    match row.period_ms.filter(|_| was_missed) {
        Some(period_ms) if row.missed == MissedTicks::Skip => {
            // The occurrence of the very beginning is not missed.
            let next_ms = after(row.first_due_ms, period_ms, since_ms - 1);
            let skipped = (next_ms - planned_ms) / period_ms;
            if next_ms <= now_ms {
                return Step::Tick { planned_ms: next_ms, skipped };
            }
            Step::Skip { next_ms, skipped }
        }
        Some(period_ms) if row.missed == MissedTicks::Once => {
            let latest_ms = after(row.first_due_ms, period_ms, now_ms) - period_ms;
            let latest_ms = latest_ms.max(planned_ms);
            Step::Tick { planned_ms: latest_ms, skipped: (latest_ms - planned_ms) / period_ms }
        }
        _ => Step::Tick { planned_ms, skipped: 0 },
    }
}

/// The occurrence that follows a tick, and how many are left out; `None` if that was the only one.
pub(super) fn next(row: &ReminderRow, planned_ms: u64, now_ms: u64) -> Option<(u64, u64)> {
    let period_ms = row.period_ms?;
    let following_ms = planned_ms.saturating_add(period_ms);
    if row.missed == MissedTicks::Every {
        return Some((following_ms, 0));
    }
    // Occurrences during the tick are late by now: the cadence is kept, without a burst.
    let next_ms = after(row.first_due_ms, period_ms, now_ms.max(planned_ms));
    Some((next_ms, (next_ms - following_ms) / period_ms))
}

/// The first occurrence strictly after a time, without drift: whole periods since the first.
fn after(first_ms: u64, period_ms: u64, time_ms: u64) -> u64 {
    if time_ms < first_ms {
        return first_ms;
    }
    let periods = (time_ms - first_ms) / period_ms + 1;
    first_ms.saturating_add(periods.saturating_mul(period_ms)).min(TIME_MAX_MS)
}

/// Milliseconds of a duration, rounded up; `None` if they cannot be stored.
pub(super) fn whole_ms(duration: Duration) -> Option<u64> {
    let ms = duration.as_nanos().div_ceil(1_000_000);
    u64::try_from(ms).ok().filter(|ms| *ms <= TIME_MAX_MS)
}

/// Milliseconds of universal time that have passed.
pub(super) fn passed_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(TIME_MAX_MS).min(TIME_MAX_MS)
}

/// The time that is so many milliseconds after the begin of 1970, universal time.
pub(super) fn time_of(ms: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_millis(ms)).unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
#[path = "../../../tests/unit/schedule.rs"]
mod tests;

//! A pattern of cron: the local times that fit.

use jiff::civil::{Date, DateTime, Time};
use jiff::ToSpan;

use super::field::{Field, Reading, KINDS};
use super::{Dialect, Hash};

/// Years without a fitting time after which a pattern counts as never firing.
const YEARS_MAX: i16 = 5;

/// Fields of a pattern, each a set of values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pattern {
    second: Field,
    minute: Field,
    hour: Field,
    day: Field,
    month: Field,
    weekday: Field,
}

impl Pattern {
    /// Parses six fields, or five with second 0 in the classic dialect.
    pub(super) fn parse(
        text: &str,
        job: &str,
        dialect: Dialect,
        hash: Hash,
    ) -> Result<Self, String> {
        let mut fields: Vec<&str> = text.split_whitespace().collect();
        let is_classic = fields.len() == 5 && dialect == Dialect::Classic;
        if is_classic {
            fields.insert(0, "0");
        }
        if fields.len() != 6 {
            return Err(format!(
                "it has {} fields and needs 6: second, minute, hour, day of the month, month, \
                 weekday; with the dialect «classic» five, without the second",
                fields.len()
            ));
        }
        let reading = Reading { job, hash, is_classic };
        let mut parsed = Vec::with_capacity(6);
        for (place, (kind, field)) in KINDS.iter().zip(&fields).enumerate() {
            let shown = place + usize::from(!is_classic);
            parsed.push(reading.field(kind, field).map_err(|problem| {
                format!("field {shown}, the {}, «{field}»: {problem}", kind.name)
            })?);
        }
        let [second, minute, hour, day, month, weekday] = parsed[..] else {
            return Err("it has no six fields".to_owned());
        };
        Ok(Self { second, minute, hour, day, month, weekday })
    }

    /// Whether it means an interval, such as every ten minutes, rather than times of a day.
    pub(super) fn is_interval(&self) -> bool {
        self.second.is_interval || self.minute.is_interval || self.hour.is_interval
    }

    /// Whether it fires in each hour.
    pub(super) fn is_hourly(&self) -> bool {
        self.hour.is_interval
    }

    /// The first local time that fits and is not before `from`, within five years.
    pub(super) fn at_or_after(&self, from: DateTime) -> Option<DateTime> {
        let (mut date, mut time) = (from.date(), from.time());
        let last = date.year().saturating_add(YEARS_MAX);
        while date.year() <= last {
            if !self.month.has(date.month()) {
                date = date.first_of_month().checked_add(1.month()).ok()?;
                time = Time::midnight();
                continue;
            }
            if self.fits(date) {
                if let Some(found) = self.time_from(time) {
                    return Some(date.to_datetime(found));
                }
            }
            date = date.tomorrow().ok()?;
            time = Time::midnight();
        }
        None
    }

    /// Whether a day fits: if both day fields are restricted one of them has to.
    fn fits(&self, date: Date) -> bool {
        let day = self.day.has(date.day());
        let weekday = self.weekday.has(date.weekday().to_sunday_zero_offset());
        if self.day.is_any || self.weekday.is_any {
            day && weekday
        } else {
            day || weekday
        }
    }

    fn time_from(&self, from: Time) -> Option<Time> {
        let (hour, minute, second) = (from.hour(), from.minute(), from.second());
        let first = |field: Field| field.from(0);
        let at = |hour, minute, second| Time::new(hour, minute, second, 0).ok();
        if self.hour.has(hour) {
            if self.minute.has(minute) {
                if let Some(second) = self.second.from(second) {
                    return at(hour, minute, second);
                }
            }
            if let Some(minute) = self.minute.from(minute + 1) {
                return at(hour, minute, first(self.second)?);
            }
        }
        at(self.hour.from(hour + 1)?, first(self.minute)?, first(self.second)?)
    }
}

//! One field of a pattern: the set of its values.

use super::spread::{even, legacy, Hash};

/// The values that a field may hold.
pub(super) struct Kind {
    pub(super) name: &'static str,
    min: u8,
    max: u8,
    /// Names of values, from `min` on.
    names: &'static [&'static str],
}

const MONTHS: &[&str] =
    &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The six fields of a pattern, in order.
pub(super) const KINDS: [Kind; 6] = [
    Kind { name: "second", min: 0, max: 59, names: &[] },
    Kind { name: "minute", min: 0, max: 59, names: &[] },
    Kind { name: "hour", min: 0, max: 23, names: &[] },
    Kind { name: "day of the month", min: 1, max: 31, names: &[] },
    Kind { name: "month", min: 1, max: 12, names: MONTHS },
    Kind { name: "weekday", min: 0, max: 6, names: WEEKDAYS },
];

/// Days of each month that exist in all of them: `~` picks one of these.
const DAYS_ALWAYS: u64 = 28;

/// A parsed field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    bits: u64,
    /// Whether it is `*` or `?`: it restricts nothing.
    pub(super) is_any: bool,
    /// Whether it stands for an interval: `*`, `*/n` or `~/n`.
    pub(super) is_interval: bool,
}

impl Field {
    pub(super) fn has(self, value: i8) -> bool {
        u8::try_from(value).is_ok_and(|value| self.bits & (1 << value) != 0)
    }

    /// The first value that is not less.
    pub(super) fn from(self, value: i8) -> Option<i8> {
        (value..64).find(|value| self.has(*value))
    }
}

/// Names and rules for the values of a field.
pub(super) struct Reading<'a> {
    pub(super) job: &'a str,
    pub(super) hash: Hash,
    /// Whether 7 is a Sunday.
    pub(super) is_classic: bool,
}

impl Reading<'_> {
    pub(super) fn field(&self, kind: &Kind, text: &str) -> Result<Field, String> {
        let replaced = match self.hash {
            Hash::Legacy => text.replace('~', &legacy(self.job, kind.name).to_string()),
            Hash::Even => text.to_owned(),
        };
        let mut field = Field { bits: 0, is_any: false, is_interval: false };
        for part in replaced.split(',') {
            self.part(kind, part, &mut field)?;
        }
        Ok(field)
    }

    fn part(&self, kind: &Kind, part: &str, field: &mut Field) -> Result<(), String> {
        let (range, step) = match part.split_once('/') {
            None => (part, None),
            Some((range, step)) => {
                let step: u8 = step.parse().map_err(|_| format!("«{step}» is no step"))?;
                if step == 0 {
                    return Err("a step of 0 never ends: give 1 or more".to_owned());
                }
                (range, Some(step))
            }
        };
        let max = if self.is_classic && kind.name == "weekday" { 7 } else { kind.max };
        let (first, last) = match range {
            "*" | "?" => {
                field.is_any |= step.is_none_or(|step| step == 1);
                field.is_interval = true;
                (kind.min, kind.max)
            }
            "~" => {
                field.is_interval |= step.is_some();
                self.left_open(kind, step)
            }
            _ => match range.split_once('-') {
                Some((first, last)) => {
                    let (first, last) = (self.value(kind, first)?, self.value(kind, last)?);
                    if first > last {
                        return Err(format!("the range «{range}» ends before it begins"));
                    }
                    (first, last)
                }
                None => {
                    let first = self.value(kind, range)?;
                    (first, if step.is_some() { max } else { first })
                }
            },
        };
        for value in (first..=last).step_by(usize::from(step.unwrap_or(1))) {
            // The classic 7 is Sunday as well.
            let value = if kind.name == "weekday" { value % 7 } else { value };
            field.bits |= 1 << value;
        }
        Ok(())
    }

    /// The value of `~`, and with a step the first one of the interval and its last.
    fn left_open(&self, kind: &Kind, step: Option<u8>) -> (u8, u8) {
        let size = match kind.name {
            "day of the month" => DAYS_ALWAYS,
            _ => u64::from(kind.max - kind.min) + 1,
        };
        let width = step.map_or(size, |step| u64::from(step).min(size));
        let first = kind.min + u8::try_from(even(self.job, kind.name) % width).unwrap_or(0);
        (first, if step.is_some() { kind.max } else { first })
    }

    fn value(&self, kind: &Kind, text: &str) -> Result<u8, String> {
        let lower = text.to_lowercase();
        if let Some(place) = kind.names.iter().position(|name| *name == lower) {
            return Ok(kind.min + u8::try_from(place).unwrap_or(0));
        }
        let is_seventh = kind.name == "weekday" && text == "7";
        if is_seventh && self.is_classic {
            return Ok(7);
        }
        let digits = text.chars().all(|c| c.is_ascii_digit());
        let value = text.parse::<u8>().ok().filter(|_| digits);
        let value = value.filter(|value| (kind.min..=kind.max).contains(value));
        value.ok_or_else(|| {
            let advice = if is_seventh { "; Sunday is 0" } else { "" };
            format!("«{text}» is not from {} to {}{advice}", kind.min, kind.max)
        })
    }
}

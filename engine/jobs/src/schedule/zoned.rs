//! The times of a pattern by the clocks of a zone.
//!
//! Between two changes of the zone's offset local time runs evenly, so the search goes from one change
//! to the next. A change forward leaves local times out (the gap); a change back repeats an hour.
//!
//! | pattern | in the gap | in the repeated hour |
//! | --- | --- | --- |
//! | fires in each hour (`*`, `*/2` as hour) | no fire | fires in both |
//! | interval within given hours (`*/10` as minute) | by the policy, once | fires in both |
//! | fixed times | by the policy, once | fires in the first one |

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::pattern::Pattern;
use super::Gap;

/// Changes of the offset that a search passes at most: more than any zone has in five years.
const CHANGES_MAX: usize = 64;

/// A second.
const SECOND: SignedDuration = SignedDuration::from_secs(1);

/// A pattern with its zone.
#[derive(Clone, Debug)]
pub(crate) struct Zoned {
    pub(super) pattern: Pattern,
    pub(super) zone: TimeZone,
    pub(super) gap: Gap,
}

/// A change forward of the zone's offset.
struct Skipped {
    at: Timestamp,
    from: DateTime,
    until: DateTime,
}

impl Zoned {
    /// The first time after one.
    pub(super) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let mut start = Timestamp::from_second(after.as_second()).ok()?.checked_add(SECOND).ok()?;
        let mut before = self.zone.preceding(start).next().map(|change| change.timestamp());
        for _ in 0..CHANGES_MAX {
            let end = self.zone.following(start).next().map(|change| change.timestamp());
            let regular = self.regular(start, end);
            let moved = before.and_then(|change| self.moved(change, start));
            let found = [regular.unwrap_or(None), moved].into_iter().flatten().min();
            if found.is_some() {
                return found;
            }
            // Without any fitting time within years no later change makes one.
            regular?;
            before = Some(end?);
            start = end?;
        }
        None
    }

    /// The first time from `start` on before the next change; outer `None` if there is none at all.
    #[expect(clippy::option_option, reason = "none here, and none anywhere")]
    fn regular(&self, start: Timestamp, end: Option<Timestamp>) -> Option<Option<Timestamp>> {
        let offset = self.zone.to_offset(start);
        let mut local = offset.to_datetime(start);
        loop {
            let found = self.pattern.at_or_after(local)?;
            let time = offset.to_timestamp(found).ok()?;
            if end.is_some_and(|end| time >= end) {
                return Some(None);
            }
            if self.pattern.is_interval() || !self.is_repeated(found, time) {
                return Some(Some(time));
            }
            local = found.checked_add(SECOND).ok()?;
        }
    }

    /// Whether the clocks have shown this local time before.
    fn is_repeated(&self, local: DateTime, time: Timestamp) -> bool {
        let ambiguous = self.zone.to_ambiguous_timestamp(local);
        ambiguous.is_ambiguous() && ambiguous.earlier().is_ok_and(|first| first < time)
    }

    /// The first time from `start` on that stands for one that a change has left out.
    fn moved(&self, change: Timestamp, start: Timestamp) -> Option<Timestamp> {
        if self.pattern.is_hourly() {
            return None;
        }
        let skipped = self.skipped(change)?;
        match self.gap {
            Gap::Skip => None,
            Gap::First => {
                let is_left_out = self.pattern.at_or_after(skipped.from)? < skipped.until;
                (is_left_out && skipped.at >= start).then_some(skipped.at)
            }
            Gap::Shift => {
                let late = start.duration_since(skipped.at).max(SignedDuration::ZERO);
                let from = skipped.from.checked_add(late).ok()?;
                let found =
                    self.pattern.at_or_after(from).filter(|found| *found < skipped.until)?;
                skipped.at.checked_add(found.duration_since(skipped.from)).ok()
            }
        }
    }

    fn skipped(&self, at: Timestamp) -> Option<Skipped> {
        let before = at.checked_sub(SECOND).ok()?;
        let (old, new) = (self.zone.to_offset(before), self.zone.to_offset(at));
        let (from, until) = (old.to_datetime(at), new.to_datetime(at));
        (from < until).then_some(Skipped { at, from, until })
    }
}

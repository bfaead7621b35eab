//! Plans that have ended, by time and by name.

use std::collections::BTreeMap;
use std::time::Duration;

use turnwheel_engine::limits::TALLY_TOOK_MS;
use turnwheel_engine::store::Tally;
use turnwheel_engine::{PlanResult, Time};

use super::time;
use crate::api;

/// Names in one answer.
const NAMES_MAX: usize = 1_000;

/// Classes of durations: one for each limit, and what is longer.
const CLASSES: usize = TALLY_TOOK_MS.len() + 1;

/// Plans that are counted together.
#[derive(Clone, Debug, Default)]
struct Sum {
    ended: u64,
    failed: u64,
    took: [u64; CLASSES],
}

impl Sum {
    fn add(&mut self, tally: &Tally) {
        self.ended += tally.plans;
        if tally.result == PlanResult::Error {
            self.failed += tally.plans;
        }
        if let Some(class) = tally.took {
            self.took[class.min(CLASSES - 1)] += tally.plans;
        }
    }

    /// The duration that this part of the plans has not exceeded, as if those of a class were
    /// spread evenly.
    fn quantile(&self, part: f64) -> Option<f64> {
        let all: u64 = self.took.iter().sum();
        let mut left = part * all as f64;
        for (class, plans) in self.took.iter().enumerate().filter(|(_, plans)| **plans > 0) {
            let plans = *plans as f64;
            if left > plans {
                left -= plans;
                continue;
            }
            let below = class.checked_sub(1).map_or(0.0, |below| TALLY_TOOK_MS[below] as f64);
            let limit = TALLY_TOOK_MS.get(class).map_or(below, |limit| *limit as f64);
            return Some(below + (limit - below) * (left / plans));
        }
        None
    }

    fn shown(&self) -> api::EndedPlans {
        api::EndedPlans {
            ended: self.ended,
            failed: self.failed,
            p50_ms: self.quantile(0.5),
            p99_ms: self.quantile(0.99),
        }
    }
}

/// The numbers of a span of time until now, in so many parts.
///
/// Parts begin with a minute, so the newest one is the shortest.
pub fn ended(tallies: &[Tally], now: Time, span: Duration, parts: usize) -> api::Ended {
    let us = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    let minute = us(Duration::from_secs(60));
    let parts = parts.max(1);
    let part = us(span).div_ceil(parts as u64).next_multiple_of(minute).max(minute);
    let end = Tally::minute_of(now).0.saturating_add(minute);
    let from = end.saturating_sub(part.saturating_mul(parts as u64));
    let mut all = Sum::default();
    let mut by_time = vec![Sum::default(); parts];
    let mut by_name: BTreeMap<&str, Sum> = BTreeMap::new();
    for tally in tallies.iter().filter(|tally| (from..end).contains(&tally.minute.0)) {
        all.add(tally);
        by_time[((tally.minute.0 - from) / part) as usize].add(tally);
        by_name.entry(&tally.name).or_default().add(tally);
    }
    let mut names: Vec<api::EndedName> = by_name
        .into_iter()
        .map(|(name, sum)| api::EndedName { name: name.to_owned(), plans: sum.shown() })
        .collect();
    names.sort_by_key(|name| std::cmp::Reverse(name.plans.ended));
    names.truncate(NAMES_MAX);
    api::Ended {
        from: time(Time(from)),
        until: time(now),
        part_ms: part / 1_000,
        all: all.shown(),
        parts: by_time.iter().map(Sum::shown).collect(),
        names,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(minute: u64, name: &str, result: PlanResult, class: usize, plans: u64) -> Tally {
        let minute = Time(minute * 60_000_000);
        Tally { minute, name: name.to_owned(), result, took: Some(class), plans }
    }

    #[test]
    fn numbers_are_by_time_and_by_name() {
        let tallies = [
            tally(1_000, "old", PlanResult::Success, 0, 7),
            tally(1_001, "a", PlanResult::Success, 3, 2),
            tally(1_060, "a", PlanResult::Error, 20, 1),
            tally(1_060, "b", PlanResult::Success, 3, 4),
        ];
        let now = Time(1_060 * 60_000_000 + 5);
        let ended = ended(&tallies, now, Duration::from_secs(3_600), 30);
        assert_eq!((ended.part_ms, ended.parts.len()), (120_000, 30));
        assert_eq!((ended.all.ended, ended.all.failed), (7, 1));
        let by_time: Vec<u64> = ended.parts.iter().map(|part| part.ended).collect();
        assert_eq!((by_time[0], by_time[29], by_time.iter().sum::<u64>()), (2, 5, 7));
        let names: Vec<_> = ended.names.iter().map(|it| (&*it.name, it.plans.ended)).collect();
        assert_eq!(names, [("b", 4), ("a", 3)]);
        let median = ended.names[0].plans.p50_ms.expect("four have ended");
        assert!((5.0..=10.0).contains(&median), "{median}");
        assert_eq!(ended.parts[3].p50_ms, None);
        assert_eq!(ended.all.p99_ms, Some(3_600_000.0), "longer ones are of an hour at least");
    }
}

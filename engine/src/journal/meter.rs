//! Counts of the journal's writer: written by it alone, so without atomics.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::plan::{End, PlanResult, PlanState, Record};

/// Times of the rates, in seconds.
const RATE_SECONDS: usize = 10;

/// Significant digits of the histograms: one percent, some kilobytes.
const DIGITS: u8 = 2;

/// The greatest value that the histograms tell from others: ten minutes in microseconds. Their range is
/// said at the begin, for what is clamped to a range makes it no wider.
const VALUE_MAX: u64 = 600_000_000;

/// Counts of one entry.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    begun: bool,
    ended: bool,
    failed: bool,
    pauses: u32,
    calls: u32,
    steps: u32,
    failures: u32,
    events: u32,
}

impl Tally {
    /// `result` is that of the plan after the records.
    pub(crate) fn of(records: &[Record], result: PlanResult) -> Self {
        let mut tally = Self::default();
        for record in records {
            match record {
                Record::Created(_) => tally.begun = true,
                Record::Planned(planned) if planned.error.is_some() => tally.ended = true,
                Record::NotPlanned { .. } => tally.ended = true,
                Record::Became { state: PlanState::Stopped, .. } => tally.ended = true,
                Record::Became { state: PlanState::Paused, .. } => tally.pauses += 1,
                Record::Started { .. } | Record::Reverting { .. } => tally.calls += 1,
                Record::Event { .. } => tally.events += 1,
                Record::Ended { end, .. } => match end {
                    End::Success | End::Skipped | End::Cancelled => tally.steps += 1,
                    End::Suspended { .. } => {}
                    End::Failed(_) | End::NotCalled(_) | End::Retry { .. } => tally.failures += 1,
                },
                _ => {}
            }
        }
        tally.failed = tally.ended && result == PlanResult::Error;
        tally
    }
}

/// Distribution of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Spread {
    /// Number of values.
    pub count: u64,
    /// Half of them are not above this.
    pub p50: u64,
    /// 99 of 100 of them are not above this.
    pub p99: u64,
    /// The greatest.
    pub max: u64,
    /// On average.
    pub mean: f64,
}

impl Spread {
    fn of(histogram: &Histogram<u64>) -> Self {
        Self {
            count: histogram.len(),
            p50: histogram.value_at_quantile(0.5),
            p99: histogram.value_at_quantile(0.99),
            max: histogram.max(),
            mean: histogram.mean(),
        }
    }
}

/// Counts of the journal since the world began.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct JournalStats {
    /// Plans that have begun.
    pub plans_begun: u64,
    /// Plans that were stopped, however.
    pub plans_ended: u64,
    /// Plans that were stopped with the result «error».
    pub plans_failed: u64,
    /// Number of pauses of plans.
    pub pauses: u64,
    /// Calls of steps that have begun.
    pub calls: u64,
    /// Steps that have ended well, cancelled or left out.
    pub steps: u64,
    /// Calls of steps that have failed.
    pub failures: u64,
    /// Events that were taken.
    pub events: u64,
    /// Steps that have ended a second, over the last ten.
    pub steps_per_s: f64,
    /// Plans that were stopped a second, over the last ten.
    pub plans_per_s: f64,
    /// Entries that were written.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Commits of the store, also those of rows alone. Each is one sync of the disk, if the store syncs.
    pub commits: u64,
    /// Commits that have failed.
    pub commits_failed: u64,
    /// Duration of commits with entries, in microseconds.
    pub commit_us: Spread,
    /// Number of their entries.
    pub commit_entries: Spread,
    /// Plans whose rows are behind their entries.
    pub rows_behind: u64,
    /// Entries that wait for a commit.
    pub entries_waiting: u64,
}

/// Counts for one writer.
pub(super) struct Meter {
    stats: JournalStats,
    commit_us: Histogram<u64>,
    commit_entries: Histogram<u64>,
    /// Steps and plans of the last seconds: the second, then both.
    seconds: [(u64, u64, u64); RATE_SECONDS + 1],
}

impl Meter {
    pub(super) fn new() -> Self {
        let histogram = || {
            Histogram::new_with_max(VALUE_MAX, DIGITS).expect("the range and the digits are valid")
        };
        Self {
            stats: JournalStats::default(),
            commit_us: histogram(),
            commit_entries: histogram(),
            seconds: [(0, 0, 0); RATE_SECONDS + 1],
        }
    }

    /// An entry has become durable.
    pub(super) fn entry(&mut self, tally: Tally, bytes: usize, now_ns: u64) {
        let stats = &mut self.stats;
        stats.plans_begun += u64::from(tally.begun);
        stats.plans_ended += u64::from(tally.ended);
        stats.plans_failed += u64::from(tally.failed);
        stats.pauses += u64::from(tally.pauses);
        stats.calls += u64::from(tally.calls);
        stats.steps += u64::from(tally.steps);
        stats.failures += u64::from(tally.failures);
        stats.events += u64::from(tally.events);
        stats.entries += 1;
        stats.bytes += bytes as u64;
        let second = now_ns / 1_000_000_000;
        let place = &mut self.seconds[second as usize % (RATE_SECONDS + 1)];
        if place.0 != second {
            *place = (second, 0, 0);
        }
        place.1 += u64::from(tally.steps);
        place.2 += u64::from(tally.ended);
    }

    /// The store has committed, or not.
    pub(super) fn committed(&mut self, is_written: bool) {
        self.stats.commits += u64::from(is_written);
        self.stats.commits_failed += u64::from(!is_written);
    }

    /// A commit of so many entries took so long.
    pub(super) fn took(&mut self, entries: u64, ns: u64) {
        if entries > 0 {
            self.commit_us.saturating_record(ns / 1_000);
            self.commit_entries.saturating_record(entries);
        }
    }

    pub(super) fn entries(&self) -> u64 {
        self.stats.entries
    }

    pub(super) fn stats(&self, now_ns: u64) -> JournalStats {
        let second = now_ns / 1_000_000_000;
        // The second that is not over counts too, so that a burst is seen at once.
        let is_recent = |place: &&(u64, u64, u64)| place.0 + (RATE_SECONDS as u64) > second;
        let recent = self.seconds.iter().filter(is_recent);
        let (steps, plans) = recent.fold((0, 0), |(s, p), place| (s + place.1, p + place.2));
        let span = (second + 1).min(RATE_SECONDS as u64) as f64;
        JournalStats {
            steps_per_s: steps as f64 / span,
            plans_per_s: plans as f64 / span,
            commit_us: Spread::of(&self.commit_us),
            commit_entries: Spread::of(&self.commit_entries),
            ..self.stats.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_a_commit_took_is_told_as_it_was() {
        let mut meter = Meter::new();
        meter.took(3, 9_140_000);
        meter.took(400, 20_000_000);
        meter.took(1, u64::MAX);
        let stats = meter.stats(0);
        assert_eq!(stats.commit_us.count, 3);
        assert!(stats.commit_us.p50.abs_diff(20_000) <= 200, "{:?}", stats.commit_us);
        assert!(stats.commit_us.max >= VALUE_MAX, "{:?}", stats.commit_us);
        assert!(stats.commit_entries.max.abs_diff(400) <= 4, "{:?}", stats.commit_entries);
    }
}

//! Numbers of ended plans by time, for figures of the last hour and day.

use std::collections::{BTreeMap, BTreeSet};

use super::PlanRow;
use crate::limits::{TALLY_NAMES_MAX, TALLY_TOOK_MS};
use crate::plan::{PlanResult, PlanState};
use crate::time::Time;

const MINUTE_US: u64 = 60_000_000;

/// Plans that were stopped in one minute and are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// The begin of the minute.
    pub minute: Time,
    /// Their label, or their action if they have none. Empty for names beyond
    /// [`TALLY_NAMES_MAX`].
    pub name: String,
    /// Their result.
    pub result: PlanResult,
    /// How long they took, from the begin of their planning on: the index of the first limit of
    /// [`TALLY_TOOK_MS`] that is not below, or the number of limits. Nothing if they never began.
    pub took: Option<usize>,
    /// Number of plans.
    pub plans: u64,
}

impl Tally {
    /// The begin of the minute of a time.
    pub fn minute_of(time: Time) -> Time {
        Time(time.0 - time.0 % MINUTE_US)
    }

    /// A plan as a tally of one; nothing if it is not over.
    pub fn of(row: &PlanRow) -> Option<Self> {
        let ended = row.ended_at.filter(|_| row.state == PlanState::Stopped)?;
        let took = row.started_at.map(|started| {
            let ms = ended.0.saturating_sub(started.0) / 1_000;
            TALLY_TOOK_MS.partition_point(|limit| *limit < ms)
        });
        let name = if row.label.is_empty() { &row.action } else { &row.label };
        let (minute, name) = (Self::minute_of(ended), name.to_string());
        Some(Self { minute, name, result: row.result, took, plans: 1 })
    }
}

/// Key of a tally: minute, name, result by its name, duration.
type Key = (Time, String, &'static str, Option<usize>);

/// Tallies that are added up.
#[derive(Clone, Debug, Default)]
pub struct Tallies {
    all: BTreeMap<Key, Tally>,
    names: BTreeSet<String>,
}

impl Tallies {
    /// Adds a plan, if it is over.
    pub fn add(&mut self, row: &PlanRow) {
        let Some(mut tally) = Tally::of(row) else { return };
        if !self.names.contains(&tally.name) {
            match self.names.len() < TALLY_NAMES_MAX {
                true => _ = self.names.insert(tally.name.clone()),
                false => tally.name = String::new(),
            }
        }
        let key = (tally.minute, tally.name.clone(), tally.result.name(), tally.took);
        self.all.entry(key).and_modify(|known| known.plans += 1).or_insert(tally);
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The sums, by time.
    pub fn into_rows(self) -> Vec<Tally> {
        self.all.into_values().collect()
    }
}

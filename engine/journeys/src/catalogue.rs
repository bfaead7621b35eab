//! All journeys, as events look them up: starts by platform and kind, charts by number and version.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::chart::Chart;
use crate::definition::Definition;

/// A journey as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Number in the rows of users.
    pub(crate) number: u32,
    /// Versions, the newest last.
    pub(crate) versions: Vec<Version>,
    pub(crate) is_removed: bool,
}

/// A version as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Version {
    pub(crate) version: u32,
    /// Microseconds since the begin of 1970.
    pub(crate) at: u64,
    pub(crate) by: String,
    pub(crate) text: String,
}

/// A journey in memory.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) kept: Kept,
    /// Version of the stored record.
    pub(crate) stored: u64,
    pub(crate) current: Option<Arc<Chart>>,
}

/// All journeys. It is replaced as a whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalogue {
    pub(crate) journeys: BTreeMap<String, Known>,
    charts: HashMap<(u32, u32), Arc<Chart>>,
    current: HashMap<u32, Arc<Chart>>,
    /// By platform, then by kind; of a higher priority first.
    starts: HashMap<String, HashMap<String, Vec<Arc<Chart>>>>,
    removed: Vec<u32>,
}

impl Kept {
    /// Adds a version, unless the newest one is the same. Returns whether it was added.
    pub(crate) fn add(&mut self, text: &str, at: u64, by: &str) -> bool {
        let newest = self.versions.last();
        if !self.is_removed && newest.is_some_and(|newest| newest.text == text) {
            return false;
        }
        let version = newest.map_or(1, |newest| newest.version + 1);
        let (text, by) = (text.to_owned(), by.to_owned());
        self.versions.push(Version { version, at, by, text });
        self.is_removed = false;
        true
    }
}

impl Catalogue {
    /// Takes a journey as it is stored. A version that this program cannot read is left out and
    /// logged.
    pub(crate) fn set(&mut self, name: &str, kept: Kept, stored: u64) {
        let number = kept.number;
        self.charts.retain(|(journey, _), _| *journey != number);
        self.removed.retain(|journey| *journey != number);
        for version in &kept.versions {
            match Definition::read(&version.text, name) {
                Ok(definition) => {
                    let chart = Arc::new(Chart::new(&definition, number, version.version));
                    self.charts.insert((number, version.version), chart);
                }
                Err(problem) => {
                    let version = version.version;
                    tracing::error!(journey = name, version, %problem, "a version is unreadable");
                }
            }
        }
        let newest = kept.versions.last().map(|newest| newest.version);
        let current = newest.and_then(|newest| self.charts.get(&(number, newest)).cloned());
        self.current.remove(&number);
        match (&current, kept.is_removed) {
            (_, true) => self.removed.push(number),
            (Some(current), false) => {
                self.current.insert(number, Arc::clone(current));
            }
            (None, false) => {}
        }
        self.journeys.insert(name.to_owned(), Known { kept, stored, current });
        self.index();
    }

    /// Orders the starts anew.
    fn index(&mut self) {
        self.starts.clear();
        let mut current: Vec<&Arc<Chart>> = self.current.values().collect();
        current.sort_by_key(|chart| (std::cmp::Reverse(chart.settings.priority), chart.journey));
        for chart in current {
            let of = self.starts.entry(chart.settings.platform.clone()).or_default();
            for (_, start) in chart.starts() {
                let kind = start.event().unwrap_or_default();
                let charts = of.entry(kind.to_owned()).or_default();
                if charts.last().is_none_or(|last| last.journey != chart.journey) {
                    charts.push(Arc::clone(chart));
                }
            }
        }
    }

    pub(crate) fn starts(&self, platform: &str, kind: &str) -> &[Arc<Chart>] {
        let of = self.starts.get(platform).and_then(|kinds| kinds.get(kind));
        of.map_or(&[], Vec::as_slice)
    }

    pub(crate) fn chart(&self, journey: u32, version: u32) -> Option<&Arc<Chart>> {
        self.charts.get(&(journey, version))
    }

    pub(crate) fn current(&self, journey: u32) -> Option<&Arc<Chart>> {
        self.current.get(&journey)
    }

    pub(crate) fn is_removed(&self, journey: u32) -> bool {
        self.removed.contains(&journey)
    }

    pub(crate) fn next_number(&self) -> u32 {
        self.journeys.values().map(|known| known.kept.number).max().map_or(1, |last| last + 1)
    }
}

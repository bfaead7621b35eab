//! All journeys, as events look them up: starts by platform and kind, charts by number and version.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use turnwheel_actors::entity::Record;
use turnwheel_flow::internal::nearest;

use crate::attributes::Attributes;
use crate::chart::Chart;
use crate::definition::Definition;
use crate::element::Kind;
use crate::error::JourneyError;

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
    /// When it was removed, in microseconds: no pass of it goes on.
    #[serde(default)]
    pub(crate) removed: Option<u64>,
}

/// A journey in memory.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) kept: Kept,
    /// Version of the stored record.
    pub(crate) stored: u64,
    /// The charts of its versions that this program can read.
    charts: HashMap<u32, Arc<Chart>>,
}

/// All journeys. It is replaced as a whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalogue {
    pub(crate) journeys: BTreeMap<String, Arc<Known>>,
    numbers: HashMap<u32, Arc<Known>>,
    /// By platform, then by kind; of a higher priority first.
    starts: HashMap<String, HashMap<String, Vec<Arc<Chart>>>>,
    /// Kinds of events that some element of a platform looks at, in any version.
    heard: HashMap<String, Heard>,
    /// Declared types of attributes.
    pub(crate) attributes: Attributes,
    /// Version of the index at which it was read.
    pub(crate) seen: u64,
}

/// Kinds of events that starts and triggers of a platform look at.
#[derive(Clone, Debug, Default)]
struct Heard {
    /// Whether a trigger looks at all of them.
    all: bool,
    kinds: HashSet<String>,
}

impl Kept {
    pub(crate) fn new(number: u32) -> Self {
        Self { number, versions: Vec::new(), is_removed: false }
    }

    /// Removes all of its versions.
    pub(crate) fn remove(&mut self, at: u64) {
        self.is_removed = true;
        self.versions.iter_mut().for_each(|version| version.removed = version.removed.or(Some(at)));
    }

    /// When a version was removed. A record of an older program has no such time.
    fn removed(&self, version: u32) -> Option<u64> {
        let found = self.versions.iter().rev().find(|found| found.version == version)?;
        found.removed.or(self.is_removed.then_some(found.at))
    }

    /// Whether a text is another one than that of the newest version.
    pub(crate) fn is_new(&self, text: &str) -> bool {
        self.is_removed || self.versions.last().is_none_or(|newest| newest.text != text)
    }

    /// Adds a version, unless the newest one is the same. Returns whether it was added.
    pub(crate) fn add(&mut self, text: &str, at: u64, by: &str) -> bool {
        if !self.is_new(text) {
            return false;
        }
        let newest = self.versions.last();
        let version = newest.map_or(1, |newest| newest.version + 1);
        if self.is_removed {
            self.remove(at);
        }
        let (text, by) = (text.to_owned(), by.to_owned());
        self.versions.push(Version { version, at, by, text, removed: None });
        self.is_removed = false;
        true
    }
}

impl Known {
    /// Versions that are known already are not read again: they never change.
    fn new(name: &str, kept: Kept, stored: u64, before: Option<&Self>) -> Self {
        let before = before.filter(|before| before.kept.number == kept.number);
        let mut charts = before.map(|before| before.charts.clone()).unwrap_or_default();
        for version in &kept.versions {
            let (number, text) = (version.version, &version.text);
            if charts.contains_key(&number) {
                continue;
            }
            match Definition::read_stored(text, name) {
                Ok(definition) => {
                    let chart = Chart::new(&definition, kept.number, number);
                    charts.insert(number, Arc::new(chart));
                }
                Err(problem) => {
                    tracing::error!(journey = name, number, %problem, "a version is unreadable");
                }
            }
        }
        Self { kept, stored, charts }
    }

    /// A version that this program can read.
    pub(crate) fn chart(&self, version: u32) -> Option<&Arc<Chart>> {
        self.charts.get(&version)
    }

    /// The newest version, unless the journey was removed.
    pub(crate) fn current(&self) -> Option<&Arc<Chart>> {
        let newest = self.kept.versions.last().filter(|_| !self.kept.is_removed)?;
        self.charts.get(&newest.version)
    }

    /// The newest version that moves users under way, unless it was removed.
    pub(crate) fn newest_that_moves(&self) -> Option<&Arc<Chart>> {
        let of = self.kept.versions.iter().rev().filter(|version| version.removed.is_none());
        let mut charts = of.filter_map(|version| self.charts.get(&version.version));
        charts.find(|chart| chart.moves_users()).filter(|_| !self.kept.is_removed)
    }

    /// Refuses a map for users under way that names no element of an older version: with a slip of
    /// the pen they would stay where they are.
    pub(crate) fn check_moves(&self, of: &Definition) -> Result<(), JourneyError> {
        // A map of the newest version was taken, maybe where there was no version before it.
        let said =
            |id: &str| self.current().is_some_and(|newest| newest.settings.moves.contains_key(id));
        let is_known = |id: &str| self.charts.values().any(|chart| chart.number(id).is_some());
        let has = |id: &str| is_known(id) || said(id);
        let lost = of.settings.moves.keys().find(|id| !has(id));
        let Some(id) = lost.filter(|_| !self.charts.is_empty()) else { return Ok(()) };
        let ids = self.charts.values().flat_map(|chart| chart.ids());
        let near = nearest(id, ids).map(|near| format!(": did you mean «{near}»?"));
        let problem = format!("no older version has «{id}»{}", near.unwrap_or_default());
        Err(JourneyError::Invalid { what: "moves", problem })
    }
}

impl Catalogue {
    /// Takes a stored journey if it is newer than the known one; a record that this program cannot
    /// read is left out and logged.
    pub(crate) fn take(&mut self, name: &str, record: &Record) {
        let before = self.journeys.get(name);
        if before.is_some_and(|before| before.stored >= record.version) {
            return;
        }
        match serde_json::from_slice(record.bytes.as_deref().unwrap_or_default()) {
            Ok(kept) => {
                let known = Known::new(name, kept, record.version, before.map(Arc::as_ref));
                self.set(name, Arc::new(known));
            }
            Err(problem) => tracing::error!(journey = name, %problem, "a journey is unreadable"),
        }
    }

    /// Takes a journey that is stored nowhere.
    pub(crate) fn only(name: &str, kept: Kept) -> Self {
        let mut catalogue = Self::default();
        catalogue.set(name, Arc::new(Known::new(name, kept, 1, None)));
        catalogue.order_starts();
        catalogue
    }

    /// Takes what another catalogue has in newer versions.
    pub(crate) fn take_newer(&mut self, other: &Self) {
        for (name, known) in &other.journeys {
            if self.journeys.get(name).is_none_or(|before| before.stored < known.stored) {
                self.set(name, Arc::clone(known));
            }
        }
        self.seen = self.seen.max(other.seen);
    }

    fn set(&mut self, name: &str, known: Arc<Known>) {
        self.numbers.insert(known.kept.number, Arc::clone(&known));
        self.journeys.insert(name.to_owned(), known);
    }

    /// Orders the starts anew, after journeys were taken.
    pub(crate) fn order_starts(&mut self) {
        self.starts.clear();
        self.listen();
        let current = self.journeys.values().filter_map(|known| known.current());
        let mut current: Vec<&Arc<Chart>> = current.collect();
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

    /// Collects the kinds of events that matter, and the types of attributes.
    fn listen(&mut self) {
        (self.heard, self.attributes) = Default::default();
        for (name, known) in &self.journeys {
            if let Some(current) = known.current() {
                self.attributes.add(name, &current.settings);
            }
            // Users may be under way on each version.
            let charts = known.charts.values();
            for chart in charts.filter(|chart| known.kept.removed(chart.version).is_none()) {
                let heard = self.heard.entry(chart.settings.platform.clone()).or_default();
                let listens = |kind| matches!(kind, Kind::Start | Kind::Trigger);
                for node in chart.nodes.iter().filter(|node| listens(node.kind)) {
                    match node.event() {
                        Some(kind) if !heard.kinds.contains(kind) => {
                            heard.kinds.insert(kind.to_owned());
                        }
                        Some(_) => {}
                        None => heard.all = true,
                    }
                }
            }
        }
    }

    /// Whether an event of this kind can change anything for a user of the platform.
    pub(crate) fn hears(&self, platform: &str, kind: &str) -> bool {
        let heard = self.heard.get(platform);
        heard.is_some_and(|heard| heard.all || heard.kinds.contains(kind))
    }

    pub(crate) fn starts(&self, platform: &str, kind: &str) -> &[Arc<Chart>] {
        let of = self.starts.get(platform).and_then(|kinds| kinds.get(kind));
        of.map_or(&[], Vec::as_slice)
    }

    pub(crate) fn chart(&self, journey: u32, version: u32) -> Option<&Arc<Chart>> {
        self.numbers.get(&journey)?.chart(version)
    }

    /// Newer versions of a journey in their order, up to the first one that this program cannot read.
    pub(crate) fn newer(&self, journey: u32, version: u32) -> impl Iterator<Item = &Arc<Chart>> {
        (version + 1..).map_while(move |version| self.chart(journey, version))
    }

    /// When a version of a journey was removed, in milliseconds.
    pub(crate) fn removed(&self, journey: u32, version: u32) -> Option<u64> {
        self.numbers.get(&journey)?.kept.removed(version).map(|at| at / 1_000)
    }

    pub(crate) fn last_number(&self) -> u32 {
        self.numbers.keys().copied().max().unwrap_or(0)
    }
}

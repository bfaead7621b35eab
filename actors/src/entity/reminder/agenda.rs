//! The reminders that are due soon, in memory: the next one, and the current deliveries. Pure: no
//! clock, no store, no task.
//!
//! Invariant: of the rows visible to the last look at the store, all up to the *horizon* are here,
//! or newer versions of them. The rows of a look may be old by the time they come: a row counts
//! only if its version is newer than the known one, also if the known one was removed.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{ReminderId, ReminderRow, LOADED_MAX};

/// A write about a row that is still to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// The row continues like this; the version is that of the row before.
    Row(ReminderRow),
    /// The last tick was delivered.
    End,
}

/// Something that is due.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) row: ReminderRow,
    /// Delivered already; only this write is left to do.
    pub(super) record: Option<Record>,
}

/// Result of some work.
#[derive(Debug)]
pub(super) enum Done {
    /// The current row: written here, or changed by another process.
    Row(ReminderRow),
    /// Removed, or another process has it.
    Gone,
    /// Try again at that time; with a record, only that is left to write.
    Again { record: Option<Record>, again_ms: u64 },
}

/// Extent of a look at the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) until_ms: u64,
    /// Whether the window has no more rows.
    pub(super) is_all: bool,
}

#[derive(Debug)]
struct Entry {
    row: ReminderRow,
    /// Time of the next work.
    at_ms: u64,
    record: Option<Record>,
}

/// The reminders that are due soon.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    entries: HashMap<ReminderId, Entry>,
    /// Records that are not being delivered.
    by_due: BTreeSet<(u64, ReminderId)>,
    pub(super) under_way: HashSet<ReminderId>,
    /// The last known versions of rows that have left, with the number of the look of that time.
    gone: HashMap<ReminderId, (u64, u64)>,
    /// End of the range covered by the last look.
    horizon_ms: u64,
    /// End of the window: later reminders stay in the store.
    reach_ms: u64,
    is_looking: bool,
    /// Looks begun so far.
    looks: u64,
    /// The horizon is nearer than the window: there were too many.
    is_short: bool,
    /// The nearest that was left to the store since the look began.
    evicted_ms: Option<u64>,
}

impl Agenda {
    /// Number of reminders in memory.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Time of the next work.
    pub(super) fn next_ms(&self) -> Option<u64> {
        self.by_due.first().map(|(at_ms, _)| *at_ms)
    }

    /// Whether another look at the store is wanted before its time.
    pub(super) fn wants_look(&self, now_ms: u64) -> bool {
        let is_due = now_ms >= self.horizon_ms || self.entries.len() <= LOADED_MAX / 2;
        self.is_short && !self.is_looking && is_due
    }

    /// Time has passed: the window ends then.
    pub(super) fn reach(&mut self, until_ms: u64) {
        self.reach_ms = until_ms;
    }

    /// Stores a row that was just written.
    pub(super) fn put(&mut self, row: ReminderRow) {
        let gone = self.gone.get(&row.id).map_or(0, |(version, _)| *version);
        if row.version > gone.max(self.known(&row.id)) {
            self.insert(row);
            self.shrink();
        }
    }

    /// Notes that a row was removed when it had this version.
    pub(super) fn remove(&mut self, id: &ReminderId, version: u64) {
        self.has_gone(id, version);
        if self.entries.get(id).is_some_and(|entry| entry.row.version <= version) {
            self.take(id);
        }
    }

    /// Takes up to so many that are due; each must be answered with [`Agenda::done`].
    pub(super) fn take_due(&mut self, now_ms: u64, count: usize) -> Vec<Work> {
        let mut due = Vec::new();
        while due.len() < count {
            let is_due = |first: &&(u64, ReminderId)| first.0 <= now_ms;
            let Some((_, id)) = self.by_due.first().filter(is_due).cloned() else { break };
            self.by_due.pop_first();
            let Some(entry) = self.entries.get(&id) else { continue };
            due.push(Work { row: entry.row.clone(), record: entry.record.clone() });
            self.under_way.insert(id);
        }
        due
    }

    /// Stores the outcome of work on a row that had this version.
    pub(super) fn done(&mut self, id: &ReminderId, version: u64, done: Done) {
        self.under_way.remove(id);
        let Some(mut entry) = self.entries.remove(id) else {
            // Removed meanwhile; only a new row of another writer counts.
            if let Done::Row(row) = done {
                self.put(row);
            }
            return;
        };
        if entry.row.version != version {
            // Registered anew meanwhile: that counts.
            self.by_due.insert((entry.at_ms, id.clone()));
            self.entries.insert(id.clone(), entry);
            return;
        }
        match done {
            Done::Row(row) => {
                self.insert(row);
                self.shrink();
            }
            Done::Gone => self.has_gone(id, version),
            Done::Again { record, again_ms } => {
                (entry.record, entry.at_ms) = (record.or(entry.record), again_ms);
                self.by_due.insert((again_ms, id.clone()));
                self.entries.insert(id.clone(), entry);
            }
        }
    }

    /// A look at the store begins. False if one is under way.
    pub(super) fn begin_look(&mut self, until_ms: u64) -> bool {
        if self.is_looking {
            return false;
        }
        self.reach_ms = until_ms;
        self.looks += 1;
        self.evicted_ms = None;
        self.is_looking = true;
        true
    }

    /// Takes in the rows that a look has found, in the order of the store.
    pub(super) fn load(&mut self, row: ReminderRow) {
        // Changes made before the look began are part of its result.
        let gone = self.gone.get(&row.id).filter(|(_, look)| *look >= self.looks);
        if row.version > gone.map_or(0, |(version, _)| *version).max(self.known(&row.id)) {
            self.insert(row);
        }
    }

    /// The look is over: it has seen all up to this time, and that was all; or it has failed.
    pub(super) fn end_look(&mut self, seen: Option<Seen>) {
        self.is_looking = false;
        let Some(Seen { until_ms, is_all }) = seen else { return };
        self.is_short = !is_all;
        self.horizon_ms = until_ms;
        if let Some(evicted_ms) = self.evicted_ms {
            self.shorten(evicted_ms);
        }
        let looks = self.looks;
        self.gone.retain(|_, (_, look)| *look >= looks);
        self.shrink();
    }

    /// The version of a row that is here; 0 if it is not.
    fn known(&self, id: &ReminderId) -> u64 {
        self.entries.get(id).map_or(0, |entry| entry.row.version)
    }

    /// Adds a row if it is due soon, replacing the known one.
    fn insert(&mut self, row: ReminderRow) {
        let id = row.id.clone();
        let was_here = self.take(&id);
        if row.due_ms > self.reach_ms {
            // A look that is under way may still bring it as it was.
            if was_here || self.is_looking {
                self.has_gone(&id, row.version);
            }
            return;
        }
        self.gone.remove(&id);
        if !self.under_way.contains(&id) {
            self.by_due.insert((row.due_ms, id.clone()));
        }
        self.entries.insert(id, Entry { at_ms: row.due_ms, row, record: None });
    }

    fn take(&mut self, id: &ReminderId) -> bool {
        let entry = self.entries.remove(id);
        if let Some(entry) = &entry {
            self.by_due.remove(&(entry.at_ms, entry.row.id.clone()));
        }
        entry.is_some()
    }

    /// Remembers the last version of a removed row until a full look has passed. With very many,
    /// only during a look: outside of looks, this guards only against news of two writers of one
    /// reminder in the wrong order, which cost at most one extra tick.
    fn has_gone(&mut self, id: &ReminderId, version: u64) {
        if self.gone.len() < LOADED_MAX || self.is_looking {
            let known = self.gone.entry(id.clone()).or_default();
            *known = (known.0.max(version), self.looks);
        }
    }

    /// Leaves the farthest to the store if there are too many.
    fn shrink(&mut self) {
        while self.entries.len() > LOADED_MAX {
            let Some((at_ms, id)) = self.by_due.pop_last() else { return };
            let is_unwritten = self.entries.get(&id).is_some_and(|entry| entry.record.is_some());
            if is_unwritten {
                // The store does not know it as it is.
                self.by_due.insert((at_ms, id));
                return;
            }
            self.entries.remove(&id);
            self.evicted_ms = Some(self.evicted_ms.map_or(at_ms, |known| known.min(at_ms)));
            self.shorten(at_ms);
        }
    }

    /// Something that is due then is not here.
    fn shorten(&mut self, due_ms: u64) {
        self.is_short = true;
        self.horizon_ms = self.horizon_ms.min(due_ms.saturating_sub(1));
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/agenda.rs"]
mod tests;

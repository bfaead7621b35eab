//! States and reminders of entities, in memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use turnwheel_actors::entity::{DueRange, Record, ReminderId, ReminderRow};

use super::change::{admit, Change};
use super::{Verdict, Worked, OF_PLAN};
use crate::id::PlanId;

/// The states and reminders of entities.
#[derive(Clone, Debug, Default)]
pub(super) struct States {
    states: HashMap<(String, String), (Record, u64)>,
    reminders: BTreeMap<ReminderId, ReminderRow>,
    by_due: BTreeSet<(u64, ReminderId)>,
    /// The newest epoch that has written reminders of an entity.
    epochs: HashMap<(String, String), u64>,
    /// Of all reminders: so none comes back after a removal.
    version: u64,
}

impl States {
    pub(super) fn change(&mut self, change: &Change) -> Verdict {
        let outcome = match change {
            Change::State { entity, key, bytes, expected, epoch } => {
                let kept = self.states.entry((entity.clone(), key.clone())).or_default();
                admit((kept.0.version, kept.1), *expected, *epoch).map(|()| {
                    *kept = (Record { bytes: bytes.clone(), version: expected + 1 }, *epoch);
                    kept.0.version
                })
            }
            Change::Reminder { row, epoch } => {
                self.admit(&row.id, row.version, *epoch).map(|()| self.upsert(row))
            }
            Change::ReminderGone { id, expected, epoch } => {
                self.admit(id, *expected, *epoch).map(|()| {
                    self.take(id);
                    *expected
                })
            }
            Change::Work(_) => Err(Verdict::Worked(Worked::Unsupported)),
            Change::Under { change, .. } => return self.change(change),
        };
        outcome.map_or_else(|refused| refused, Verdict::Changed)
    }

    fn admit(&mut self, id: &ReminderId, expected: u64, epoch: u64) -> Result<(), Verdict> {
        let of = (id.entity.to_string(), id.key.to_string());
        let newest = self.epochs.get(&of).copied().unwrap_or(0);
        let version = self.reminders.get(id).map_or(0, |row| row.version);
        admit((version, newest), expected, epoch)?;
        self.epochs.insert(of, epoch);
        Ok(())
    }

    fn take(&mut self, id: &ReminderId) {
        if let Some(row) = self.reminders.remove(id) {
            self.by_due.remove(&(row.due_ms, row.id));
        }
    }

    fn upsert(&mut self, row: &ReminderRow) -> u64 {
        self.take(&row.id);
        self.version += 1;
        let mut row = row.clone();
        row.version = self.version;
        if row.revision == 0 {
            row.revision = self.version;
        }
        self.by_due.insert((row.due_ms, row.id.clone()));
        self.reminders.insert(row.id.clone(), row);
        self.version
    }

    /// The states that were kept for a plan go with it.
    pub(super) fn forget(&mut self, plan: PlanId) {
        let prefix = plan.to_string();
        self.states.retain(|(entity, key), _| entity != OF_PLAN || !key.starts_with(&prefix));
    }

    pub(super) fn state(&self, entity: &str, key: &str) -> Record {
        let kept = self.states.get(&(entity.to_owned(), key.to_owned()));
        kept.map(|(record, _)| record.clone()).unwrap_or_default()
    }

    pub(super) fn reminder(&self, id: &ReminderId) -> Option<ReminderRow> {
        self.reminders.get(id).cloned()
    }

    pub(super) fn reminders_of(&self, entity: &str, key: &str, limit: usize) -> Vec<ReminderRow> {
        let from = self.reminders.range(ReminderId::new(entity, key, "")..);
        let rows = from.take_while(|(id, _)| id.is_of(entity, key)).take(limit);
        rows.map(|(_, row)| row.clone()).collect()
    }

    pub(super) fn reminders_due(&self, range: &DueRange) -> Vec<ReminderRow> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = range.after.as_ref().map_or(Unbounded, Excluded);
        let places = self.by_due.range((from, Unbounded));
        let places = places.take_while(|(due_ms, _)| *due_ms <= range.until_ms);
        let places = places.filter(|(_, id)| range.is_of(id)).take(range.limit);
        places.filter_map(|(_, id)| self.reminders.get(id).cloned()).collect()
    }
}

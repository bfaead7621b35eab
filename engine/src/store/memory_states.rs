//! States and reminders of entities, in memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use turnwheel_actors::entity::{DueRange, Record, ReminderId, ReminderRow};

use super::change::{admit, Change};
use super::{StateRow, StateScan, Verdict, Worked, OF_PLAN};
use crate::id::PlanId;
use crate::time::Time;

/// The states and reminders of entities.
#[derive(Clone, Debug, Default)]
pub(super) struct States {
    states: BTreeMap<(String, String), Kept>,
    /// The states that are due at some time: entity, time, key.
    states_due: BTreeSet<(String, Time, String)>,
    reminders: BTreeMap<ReminderId, ReminderRow>,
    by_due: BTreeSet<(u64, ReminderId)>,
    /// The newest epoch that has written reminders of an entity.
    epochs: HashMap<(String, String), u64>,
    /// Of all reminders: so none comes back after a removal.
    version: u64,
}

/// A state with the newest epoch that has written it.
#[derive(Clone, Debug, Default)]
struct Kept {
    record: Record,
    due: Option<Time>,
    epoch: u64,
}

impl States {
    pub(super) fn change(&mut self, change: &Change) -> Verdict {
        let outcome = match change {
            Change::State { entity, key, bytes, due, expected, epoch } => {
                let kept = self.states.entry((entity.clone(), key.clone())).or_default();
                admit((kept.record.version, kept.epoch), *expected, *epoch).map(|()| {
                    if let Some(before) = kept.due {
                        self.states_due.remove(&(entity.clone(), before, key.clone()));
                    }
                    if let Some(due) = due {
                        self.states_due.insert((entity.clone(), *due, key.clone()));
                    }
                    let record = Record { bytes: bytes.clone(), version: expected + 1 };
                    *kept = Kept { record, due: *due, epoch: *epoch };
                    expected + 1
                })
            }
            Change::StateGone { entity, key } => {
                let gone = self.states.remove(&(entity.clone(), key.clone()));
                if let Some(due) = gone.and_then(|gone| gone.due) {
                    self.states_due.remove(&(entity.clone(), due, key.clone()));
                }
                Ok(0)
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
        kept.map(|kept| kept.record.clone()).unwrap_or_default()
    }

    pub(super) fn states_of(&self, entity: &str, scan: &StateScan, limit: usize) -> Vec<StateRow> {
        use std::ops::Bound::{Excluded, Unbounded};
        let row = |key: &str, kept: &Kept| StateRow {
            key: key.to_owned(),
            due: kept.due,
            record: kept.record.clone(),
        };
        match scan {
            StateScan::Due(until) => {
                let from = (entity.to_owned(), Time(0), String::new());
                let due = self.states_due.range(from..);
                let due = due.take_while(|(of, due, _)| of == entity && due <= until).take(limit);
                let found = due.filter_map(|(of, _, key)| {
                    let kept = self.states.get(&(of.clone(), key.clone()))?;
                    Some(row(key, kept))
                });
                found.collect()
            }
            StateScan::After(key) => {
                let from = (entity.to_owned(), key.clone());
                let rows = self.states.range((Excluded(from), Unbounded));
                let rows = rows.take_while(|((of, _), _)| of == entity);
                let rows = rows.filter(|(_, kept)| kept.record.bytes.is_some()).take(limit);
                rows.map(|((_, key), kept)| row(key, kept)).collect()
            }
        }
    }

    pub(super) fn entities_with_states(&self) -> Vec<String> {
        let with_bytes = self.states.iter().filter(|(_, kept)| kept.record.bytes.is_some());
        let names: BTreeSet<&String> = with_bytes.map(|((entity, _), _)| entity).collect();
        names.into_iter().cloned().collect()
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

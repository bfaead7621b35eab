//! Storage of reminders: rows with a version, ordered by due time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::Mutex;

use super::schedule::MissedTicks;
use crate::entity::{StoreError, StoreFuture};

/// Identity of a reminder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReminderId {
    /// Name of the entity's type.
    pub entity: Arc<str>,
    /// Its key as text.
    pub key: Arc<str>,
    /// The name that the entity has given it.
    pub name: Arc<str>,
}

impl ReminderId {
    /// The reminder of this name of this entity.
    pub fn new(entity: &str, key: &str, name: &str) -> Self {
        Self { entity: entity.into(), key: key.into(), name: name.into() }
    }

    /// Whether it belongs to this entity.
    pub fn is_of(&self, entity: &str, key: &str) -> bool {
        *self.entity == *entity && *self.key == *key
    }
}

impl fmt::Display for ReminderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} «{}» reminder «{}»", self.entity, self.key, self.name)
    }
}

/// A stored reminder. Times are whole milliseconds since the begin of 1970, universal time, and fit
/// a signed number of 64 bits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReminderRow {
    /// Its entity and its name.
    pub id: ReminderId,
    /// The first occurrence; all others follow it by whole periods.
    pub first_due_ms: u64,
    /// The delay by which the first was given, if it was given so.
    pub delay_ms: Option<u64>,
    /// Time between two occurrences; `None` if there is only one.
    pub period_ms: Option<u64>,
    /// Treatment of missed occurrences.
    pub missed: MissedTicks,
    /// The next occurrence to deliver.
    pub planned_ms: u64,
    /// When that is to be tried: at its time, or later when it has failed. Rows are listed by it.
    pub due_ms: u64,
    /// Failed attempts to tell it, in a row.
    pub failures: u32,
    /// Occurrences skipped since the last delivered one.
    pub skipped: u64,
    /// The version by which it was last registered; 0 in a write that registers it.
    pub revision: u64,
    /// Rises with each write of this reminder, also over its removal; given by the store.
    pub version: u64,
}

impl ReminderRow {
    /// A row for a store to fill with the data that it read.
    pub fn new(id: ReminderId) -> Self {
        Self { id, ..Self::default() }
    }
}

/// Range of listed rows: in the order of [`ReminderRow::due_ms`], equal ones in that of their ids.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DueRange {
    /// Only rows after this position; all if `None`.
    pub after: Option<(u64, ReminderId)>,
    /// Only rows that are due then or before.
    pub until_ms: u64,
    /// So many at most.
    pub limit: usize,
    /// Only rows of this entity, by its type's name and key; all if `None`.
    pub of: Option<(Arc<str>, Arc<str>)>,
}

impl DueRange {
    /// The first rows that are due at a time.
    pub fn until(until_ms: u64, limit: usize) -> Self {
        Self { after: None, until_ms, limit, of: None }
    }

    /// Only rows of one entity. Its cost is that of the entity's rows, or less where a store has an
    /// index.
    #[must_use]
    pub fn of(mut self, entity: &str, key: &str) -> Self {
        self.of = Some((Arc::from(entity), Arc::from(key)));
        self
    }

    /// Whether a row is of the entity that is meant.
    pub fn is_of(&self, id: &ReminderId) -> bool {
        self.of.as_ref().is_none_or(|(entity, key)| id.is_of(entity, key))
    }
}

/// Storage of reminders. One behaviour suite runs against every store:
/// `turnwheel_actors_testkit::check_reminder_store`.
pub trait ReminderStore: Send + Sync + fmt::Debug {
    /// Reads a reminder.
    fn get<'a>(&'a self, id: &'a ReminderId) -> StoreFuture<'a, Option<ReminderRow>>;

    /// Reads the reminders of an entity, in the order of their names; so many at most.
    fn list_of<'a>(
        &'a self,
        entity: &'a str,
        key: &'a str,
        limit: usize,
    ) -> StoreFuture<'a, Vec<ReminderRow>>;

    /// Lists a range by due time. Needs an index: its cost follows the number of rows returned.
    fn list<'a>(&'a self, range: &'a DueRange) -> StoreFuture<'a, Vec<ReminderRow>>;

    /// Writes a reminder if its version is still `row.version` (0: there is none) and no later
    /// epoch has written reminders of the entity; returns the new version. A `revision` of 0
    /// becomes the new version.
    fn upsert<'a>(&'a self, row: &'a ReminderRow, epoch: u64) -> StoreFuture<'a, u64>;

    /// Removes a reminder under the same conditions.
    fn remove<'a>(&'a self, id: &'a ReminderId, expected: u64, epoch: u64) -> StoreFuture<'a, ()>;
}

/// Reminders in memory: for tests, and for reminders that may go with the process.
#[derive(Debug, Default)]
pub struct MemoryReminders {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    rows: BTreeMap<ReminderId, ReminderRow>,
    by_due: BTreeSet<(u64, ReminderId)>,
    /// The newest epoch that has written reminders of an entity, from the second on.
    epochs: HashMap<(Arc<str>, Arc<str>), u64>,
    /// Shared by all rows: so a version does not return after a removal.
    version: u64,
}

impl MemoryReminders {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of reminders.
    pub fn len(&self) -> usize {
        self.table.lock().rows.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Table {
    /// Whether a write is allowed, and notes its epoch.
    fn admit(&mut self, id: &ReminderId, expected: u64, epoch: u64) -> Result<(), StoreError> {
        let of = (Arc::clone(&id.entity), Arc::clone(&id.key));
        let newest = self.epochs.get(&of).copied().unwrap_or(1);
        if epoch < newest {
            let (entity, key) = (id.entity.to_string(), id.key.to_string());
            return Err(StoreError::Fenced { entity, key, epoch, newest });
        }
        let found = self.rows.get(id).map_or(0, |row| row.version);
        if found != expected {
            let (entity, key) = (id.entity.to_string(), format!("{}/{}", id.key, id.name));
            return Err(StoreError::Conflict { entity, key, expected, found });
        }
        if epoch > newest {
            self.epochs.insert(of, epoch);
        }
        Ok(())
    }

    fn take(&mut self, id: &ReminderId) {
        if let Some(row) = self.rows.remove(id) {
            self.by_due.remove(&(row.due_ms, row.id));
        }
    }

    fn upsert(&mut self, row: &ReminderRow, epoch: u64) -> Result<u64, StoreError> {
        self.admit(&row.id, row.version, epoch)?;
        self.take(&row.id);
        self.version += 1;
        let revision = if row.revision == 0 { self.version } else { row.revision };
        let row = ReminderRow { version: self.version, revision, ..row.clone() };
        self.by_due.insert((row.due_ms, row.id.clone()));
        self.rows.insert(row.id.clone(), row);
        Ok(self.version)
    }

    fn list(&self, range: &DueRange) -> Vec<ReminderRow> {
        let from = range.after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let places = self.by_due.range::<(u64, ReminderId), _>((from, Bound::Unbounded));
        places
            .take_while(|(due_ms, _)| *due_ms <= range.until_ms)
            .filter(|(_, id)| range.is_of(id))
            .take(range.limit)
            .filter_map(|(_, id)| self.rows.get(id).cloned())
            .collect()
    }
}

fn done<'a, T: Send + 'a>(outcome: Result<T, StoreError>) -> StoreFuture<'a, T> {
    Box::pin(std::future::ready(outcome))
}

impl ReminderStore for MemoryReminders {
    fn get<'a>(&'a self, id: &'a ReminderId) -> StoreFuture<'a, Option<ReminderRow>> {
        done(Ok(self.table.lock().rows.get(id).cloned()))
    }

    fn list_of<'a>(
        &'a self,
        entity: &'a str,
        key: &'a str,
        limit: usize,
    ) -> StoreFuture<'a, Vec<ReminderRow>> {
        let table = self.table.lock();
        let from = table.rows.range(ReminderId::new(entity, key, "")..);
        let rows = from.take_while(|(id, _)| id.is_of(entity, key)).take(limit);
        done(Ok(rows.map(|(_, row)| row.clone()).collect()))
    }

    fn list<'a>(&'a self, range: &'a DueRange) -> StoreFuture<'a, Vec<ReminderRow>> {
        done(Ok(self.table.lock().list(range)))
    }

    fn upsert<'a>(&'a self, row: &'a ReminderRow, epoch: u64) -> StoreFuture<'a, u64> {
        done(self.table.lock().upsert(row, epoch))
    }

    fn remove<'a>(&'a self, id: &'a ReminderId, expected: u64, epoch: u64) -> StoreFuture<'a, ()> {
        let mut table = self.table.lock();
        let admitted = table.admit(id, expected, epoch).map(|()| table.take(id));
        done(admitted)
    }
}

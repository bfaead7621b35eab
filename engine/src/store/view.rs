//! Looking at a store without a world: beside the process that has it, or when none has.

use std::collections::BTreeMap;
use std::fmt;

use super::{Count, Filter, Order, Owner, PlanRow, Seq, Store, StoreReader, Tally};
use uuid::Uuid;

use crate::error::{PlanError, StoreError};
use crate::id::PlanId;
use crate::journal::{decode, decode_plan};
use crate::plan::{Plan, Record};
use crate::run::row;
use crate::schedule::ScheduleView;
use crate::time::Time;
use crate::world::{Counts, PlanView, WorldView};

/// A read-only view of a store. It needs no world, runs no plan, and does not disturb a process
/// that writes to the store.
///
/// ```
/// use turnwheel_engine::store::{Filter, StoreView};
/// use turnwheel_engine::{MemoryStore, World};
///
/// let store = MemoryStore::new();
/// let world = World::builder().build(store.clone())?;
/// let mut view = StoreView::of(&store)?;
/// assert!(view.list(&Filter::default())?.is_empty());
/// # world.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// It shows the durable state at the time of each query. Outdated rows are rebuilt from the
/// journal: that costs the reading of those plans.
pub struct StoreView {
    reader: Box<dyn StoreReader>,
}

impl fmt::Debug for StoreView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreView").finish_non_exhaustive()
    }
}

impl StoreView {
    /// Looks at a store. A file that does not exist is made by it, unlike by
    /// `SqliteStore::view`.
    ///
    /// # Errors
    ///
    /// It cannot be opened.
    pub fn of(store: &dyn Store) -> Result<Self, StoreError> {
        Ok(Self { reader: store.reader()? })
    }

    /// A plan as it is now.
    ///
    /// # Errors
    ///
    /// There is none, or it cannot be read.
    pub fn plan(&mut self, id: PlanId) -> Result<PlanView, PlanError> {
        let head = self.behind()?.get(&id).copied();
        let plan = read_plan(&mut *self.reader, id, head)?;
        plan.map(PlanView::of).ok_or(PlanError::Unknown(id))
    }

    /// The registered worlds, the oldest first.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub fn worlds(&mut self) -> Result<Vec<WorldView>, StoreError> {
        Ok(WorldView::all(&self.reader.worlds()?))
    }

    /// The owners of all slots, in the order of the slots.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub fn slot_owners(&mut self) -> Result<Vec<Owner>, StoreError> {
        Ok(self.reader.worlds()?.owners().to_vec())
    }

    /// All that has happened to a plan, oldest first.
    ///
    /// # Errors
    ///
    /// There is none, or it cannot be read.
    pub fn records(&mut self, id: PlanId) -> Result<Vec<Record>, PlanError> {
        let head = self.behind()?.get(&id).copied();
        let loaded = self.reader.load(id, head)?.ok_or(PlanError::Unknown(id))?;
        self.records_until(id, loaded.head)
    }

    /// All records of a plan at the time when its row was listed, oldest first. Cheaper than
    /// [`records`](Self::records), which first updates outdated rows.
    ///
    /// # Errors
    ///
    /// The plan is gone, or cannot be read.
    pub fn records_of(&mut self, row: &PlanRow) -> Result<Vec<Record>, PlanError> {
        self.records_until(row.id, row.head)
    }

    fn records_until(&mut self, id: PlanId, head: Seq) -> Result<Vec<Record>, PlanError> {
        let mut records = Vec::new();
        for (_, entry) in self.reader.history(id, head)? {
            records.extend(decode(id, &entry)?);
        }
        Ok(records)
    }

    /// The plans that fit, as [`World::list`](crate::World::list) has them.
    ///
    /// Cost: beside the page itself, the plans of that page whose rows are behind are read.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub fn list(&mut self, filter: &Filter) -> Result<Vec<PlanRow>, StoreError> {
        let behind = self.behind()?;
        let mut rows = self.up_to_date(filter, &behind)?;
        let is_in_page = |id: &PlanId| {
            filter.before.is_none_or(|before| *id < before)
                && filter.after.is_none_or(|after| *id > after)
        };
        let mut late: Vec<_> = behind.into_iter().filter(|(id, _)| is_in_page(id)).collect();
        if filter.order == Order::NewestFirst {
            late.reverse();
        }
        let mut found = 0;
        for (id, head) in late {
            if found >= filter.limit {
                break;
            }
            let plan = read_plan(&mut *self.reader, id, Some(head))?;
            let row = plan.map(|plan| PlanRow { head, ..row(&plan) }).filter(|r| filter.fits(r));
            found += usize::from(row.is_some());
            rows.extend(row);
        }
        filter.sort(&mut rows);
        rows.truncate(filter.limit);
        Ok(rows)
    }

    /// A page of the rows that are not behind.
    fn up_to_date(
        &mut self,
        filter: &Filter,
        behind: &BTreeMap<PlanId, Seq>,
    ) -> Result<Vec<PlanRow>, StoreError> {
        let (mut page, mut rows) = (filter.clone(), Vec::new());
        loop {
            let mut found = self.reader.list(&page)?;
            let last = found.last().map(|row| row.id);
            let is_end = found.len() < page.limit;
            found.retain(|row| !behind.contains_key(&row.id));
            rows.extend(found);
            match last {
                Some(last) if !is_end && rows.len() < filter.limit => page = page.next_page(last),
                _ => return Ok(rows),
            }
        }
    }

    /// Schedules by name, at most `limit` after one; begin with an empty name.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub fn schedules(
        &mut self,
        after: &str,
        limit: usize,
    ) -> Result<Vec<ScheduleView>, StoreError> {
        let rows = self.reader.schedules(after, limit)?;
        Ok(rows.iter().map(ScheduleView::read).collect())
    }

    /// The locks that plans have, by name.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub fn locks(&mut self) -> Result<Vec<(String, PlanId)>, StoreError> {
        self.reader.locks()
    }

    /// Numbers of plans.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub fn counts(&mut self) -> Result<Counts, StoreError> {
        let mut groups = self.reader.counts()?;
        for (id, head) in self.behind()? {
            let next = PlanId::new(Uuid::from_u128(id.uuid().as_u128().saturating_add(1)));
            let old = Filter { before: Some(next), limit: 1, ..Filter::default() };
            let old = self.reader.list(&old)?.pop().filter(|row| row.id == id);
            if let Some(old) = old {
                add(&mut groups, &old, -1);
            }
            if let Some(plan) = read_plan(&mut *self.reader, id, Some(head))? {
                add(&mut groups, &row(&plan), 1);
            }
        }
        groups.retain(|group| group.plans > 0);
        Ok(Counts::of(groups))
    }

    /// Numbers of plans that were stopped in the minutes since a time, as far as their rows say so.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub fn tallies(&mut self, from: Time) -> Result<Vec<Tally>, StoreError> {
        self.reader.tallies(from)
    }

    fn behind(&mut self) -> Result<BTreeMap<PlanId, Seq>, StoreError> {
        Ok(self.reader.behind()?.into_iter().collect())
    }
}

/// Counts a plan in its group.
fn add(groups: &mut Vec<Count>, row: &PlanRow, change: i64) {
    let (state, result, waits) = (row.state, row.result, row.waits);
    let is_it = |group: &Count| (group.state, group.result, group.waits) == (state, result, waits);
    if !groups.iter().any(is_it) {
        groups.push(Count { state, result, waits, plans: 0 });
    }
    if let Some(group) = groups.iter_mut().find(|group| is_it(group)) {
        group.plans = group.plans.saturating_add_signed(change);
    }
}

/// A plan from its newest snapshot and what came after it.
pub(crate) fn read_plan(
    reader: &mut dyn StoreReader,
    id: PlanId,
    head: Option<Seq>,
) -> Result<Option<Plan>, StoreError> {
    let Some(loaded) = reader.load(id, head)? else { return Ok(None) };
    let mut plan = loaded.snapshot.map(|bytes| decode_plan(id, &bytes)).transpose()?;
    let corrupt = |error: &dyn fmt::Display| StoreError::Corrupt(error.to_string());
    for (place, entry) in &loaded.entries {
        let after = Plan::after_entry(plan, id, *place, decode(id, entry)?);
        plan = Some(after.map_err(|error| corrupt(&error))?);
    }
    Ok(plan)
}

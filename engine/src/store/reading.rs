//! The reading end of a store, and what is read.

use std::collections::BTreeMap;
use std::sync::Arc;

use turnwheel_actors::entity::{DueRange, Record, ReminderId, ReminderRow};

use super::{slot_of, slot_of_key, Filter, ScheduleRow, Seq, Slots, Tallies, Tally, Worlds};
use crate::error::StoreError;
use crate::id::{PlanId, StepId};
use crate::plan::{PlanResult, PlanState, Waiting};
use crate::time::Time;

/// The reading end of a store.
pub trait StoreReader: Send {
    /// The entries of a plan after its snapshot, oldest first. `head` is its newest entry if that
    /// is known; else its row says it, or the journal where other processes write to the store.
    ///
    /// # Errors
    ///
    /// The store failed, or an entry is missing.
    fn load(&mut self, plan: PlanId, head: Option<Seq>) -> Result<Option<Loaded>, StoreError>;

    /// Several plans, in their order, as [`load`](Self::load) reads each.
    ///
    /// Cost: one trip to a store on another machine.
    ///
    /// # Errors
    ///
    /// The store failed. Inside of the list: one of the plans is damaged.
    fn load_many(&mut self, plans: &[(PlanId, Option<Seq>)]) -> Result<Vec<Found>, StoreError> {
        Ok(plans.iter().map(|(plan, head)| self.load(*plan, *head)).collect())
    }

    /// All entries of a plan up to one with their places, oldest first, whether there is a snapshot or
    /// not.
    ///
    /// # Errors
    ///
    /// The store failed, or an entry is missing.
    fn history(&mut self, plan: PlanId, head: Seq) -> Result<Vec<(Seq, Vec<u8>)>, StoreError> {
        self.history_after(plan, 0, head)
    }

    /// The same, but only those after a place.
    ///
    /// # Errors
    ///
    /// The store failed, or an entry is missing.
    fn history_after(
        &mut self,
        plan: PlanId,
        after: Seq,
        head: Seq,
    ) -> Result<Vec<(Seq, Vec<u8>)>, StoreError>;

    /// Entries of all plans as they were written, at most `limit` after a place: for export and for
    /// checks.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn journal(&mut self, after: Seq, limit: usize) -> Result<Vec<Written>, StoreError>;

    /// The place of the next entry after a place. As provided: for entries that are never damaged.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn place_after(&mut self, after: Seq) -> Result<Option<Seq>, StoreError> {
        Ok(self.journal(after, 1)?.first().map(|entry| entry.seq))
    }

    /// The newest place of the journal that was given out. Its entry may never become visible.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn last_place(&mut self) -> Result<Seq, StoreError>;

    /// The newest visible entry, and the writes under way after it was read: entries up to its place
    /// are visible to later reads, but for theirs. As provided: for places that are visible at once.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn newest(&mut self) -> Result<Newest, StoreError> {
        Ok(Newest { seq: self.last_place()?, under_way: Vec::new() })
    }

    /// The locks that plans have, by name.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn locks(&mut self) -> Result<Vec<(String, PlanId)>, StoreError>;

    /// Plans that wait for the end of others, as pairs: the plan that must end first, then the
    /// waiting one; sorted.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn followers(&mut self) -> Result<Vec<(PlanId, PlanId)>, StoreError>;

    /// The worlds that are registered.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn worlds(&mut self) -> Result<Worlds, StoreError>;

    /// The slots of all plans that are not stopped, as their rows say.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn live(&mut self) -> Result<Slots, StoreError>;

    /// The plans with journal entries that are not in their rows: with their heads, by id.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn behind(&mut self) -> Result<Vec<(PlanId, Seq)>, StoreError>;

    /// The plans of these slots with journal entries that are not in their rows, as the rows are:
    /// with their heads, by id. For a world that gets slots.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn behind_in(&mut self, slots: &Slots) -> Result<Vec<(PlanId, Seq)>, StoreError> {
        let mut behind = self.behind()?;
        behind.retain(|(plan, _)| slots.has(slot_of(*plan)));
        Ok(behind)
    }

    /// The plans that a start has to go on with, at most `limit` after `from`, by id.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn busy(&mut self, from: Option<PlanId>, limit: usize) -> Result<Vec<PlanId>, StoreError>;

    /// The same of some slots: for a world that gets them.
    ///
    /// Cost: that of the plans of other slots too, which are read and left out.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn busy_in(
        &mut self,
        slots: &Slots,
        mut from: Option<PlanId>,
        limit: usize,
    ) -> Result<Vec<PlanId>, StoreError> {
        let mut found = Vec::new();
        loop {
            let page = self.busy(from, limit)?;
            from = page.last().copied();
            found.extend(page.iter().filter(|plan| slots.has(slot_of(**plan))));
            if page.len() < limit || found.len() >= limit {
                found.truncate(limit);
                return Ok(found);
            }
        }
    }

    /// The plans that have to do something by themselves, at most `limit`, the earliest first.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn wakes(&mut self, until: Time, limit: usize) -> Result<Vec<(Time, PlanId)>, StoreError>;

    /// The same of some slots: for a world that gets them.
    ///
    /// Cost: that of an index on slot and time, in a store that several processes share.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn wakes_in(
        &mut self,
        slots: &Slots,
        until: Time,
        limit: usize,
    ) -> Result<Vec<(Time, PlanId)>, StoreError> {
        let mut wakes = self.wakes(until, usize::MAX)?;
        wakes.retain(|(_, plan)| slots.has(slot_of(*plan)));
        wakes.truncate(limit);
        Ok(wakes)
    }

    /// The plan that has taken an idempotency key.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn by_key(&mut self, key: &str) -> Result<Option<PlanId>, StoreError>;

    /// The state of an entity; the default if there is none.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn state(&mut self, entity: &str, key: &str) -> Result<Record, StoreError>;

    /// States by name and key, in their order; the default for those that are not there.
    ///
    /// Cost: one trip to a store on another machine.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn states_by_key(&mut self, of: &[(String, String)]) -> Result<Vec<Record>, StoreError> {
        of.iter().map(|(entity, key)| self.state(entity, key)).collect()
    }

    /// The states of entities with one name, in the order of a scan, at most so many.
    ///
    /// Cost: that of an index for each of the scans.
    ///
    /// # Errors
    ///
    /// The store failed, or it has no such indexes.
    fn states_of(
        &mut self,
        entity: &str,
        scan: &StateScan,
        limit: usize,
    ) -> Result<Vec<StateRow>, StoreError> {
        let _unknown = (entity, scan, limit);
        Err(StoreError::Failed("this store cannot list states".to_owned()))
    }

    /// The names of entities that have states with bytes, in any order.
    ///
    /// # Errors
    ///
    /// As [`StoreReader::states_of`].
    fn entities_with_states(&mut self) -> Result<Vec<String>, StoreError> {
        Err(StoreError::Failed("this store cannot list states".to_owned()))
    }

    /// [States](StoreReader::states_of) whose keys are in some slots: see [`slot_of_key`].
    ///
    /// Cost: that of a list without slots, which grows with the states of other slots before those
    /// that are found.
    ///
    /// # Errors
    ///
    /// As [`StoreReader::states_of`].
    fn states_in(
        &mut self,
        entity: &str,
        scan: &StateScan,
        slots: &Slots,
        limit: usize,
    ) -> Result<Vec<StateRow>, StoreError> {
        let mut most = limit;
        loop {
            let mut rows = self.states_of(entity, scan, most)?;
            let is_all = rows.len() < most;
            rows.retain(|row| slots.has(slot_of_key(&row.key)));
            if is_all || rows.len() >= limit {
                rows.truncate(limit);
                return Ok(rows);
            }
            most = most.saturating_mul(4);
        }
    }

    /// A reminder.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn reminder(&mut self, id: &ReminderId) -> Result<Option<ReminderRow>, StoreError>;

    /// The reminders of an entity by name, at most so many.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn reminders_of(
        &mut self,
        entity: &str,
        key: &str,
        limit: usize,
    ) -> Result<Vec<ReminderRow>, StoreError>;

    /// A range of reminders by due time.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn reminders_due(&mut self, range: &DueRange) -> Result<Vec<ReminderRow>, StoreError>;

    /// The rows of plans in the order of their ids, without their snapshots.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn list(&mut self, filter: &Filter) -> Result<Vec<PlanRow>, StoreError>;

    /// The plan at this place of a list, counted from 1, as the list is read: before the conditions
    /// that have no index. Nothing if there are fewer places, or if they are not to be counted:
    /// then a list of this filter has to be cheap, however few of its rows fit.
    ///
    /// Cost: that of so many places of an index.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn plan_at(&mut self, filter: &Filter, place: usize) -> Result<Option<PlanId>, StoreError> {
        let _uncounted = (filter, place);
        Ok(None)
    }

    /// Numbers of plans that were stopped in the minutes since a time, as far back as
    /// [`TALLY_KEPT`](crate::limits::TALLY_KEPT), in any order. Those of removed plans may be
    /// in it.
    ///
    /// Cost: that of a list of these plans, unless the store has counters.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn tallies(&mut self, from: Time) -> Result<Vec<Tally>, StoreError> {
        let states = vec![PlanState::Stopped];
        let ended_from = Some(Tally::minute_of(from));
        let filter = Filter { states, ended_from, limit: usize::MAX, ..Filter::default() };
        let mut tallies = Tallies::default();
        self.list(&filter)?.iter().for_each(|row| tallies.add(row));
        Ok(tallies.into_rows())
    }

    /// Numbers of plans, by state, result and reason for waiting; without zeros.
    ///
    /// Cost: independent of the number of plans, except in memory.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn counts(&mut self) -> Result<Vec<Count>, StoreError>;

    /// The same of those plans that fit a filter, whatever its limit is.
    ///
    /// Cost: that of a list of them.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn counts_of(&mut self, filter: &Filter) -> Result<Vec<Count>, StoreError> {
        let rows = self.list(&Filter { limit: usize::MAX, ..filter.clone() })?;
        let mut counts = Vec::new();
        rows.iter().for_each(|row| Count::add(&mut counts, row));
        Ok(counts)
    }

    /// A schedule.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn schedule(&mut self, name: &str) -> Result<Option<ScheduleRow>, StoreError>;

    /// Schedules by name, at most `limit` after one.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn schedules(&mut self, after: &str, limit: usize) -> Result<Vec<ScheduleRow>, StoreError>;
}

/// Which states of entities are listed, and in which order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateScan {
    /// States that are due then or before, the earliest first.
    Due(Time),
    /// Those with a key after this one that have bytes, by key.
    After(String),
}

/// A listed state of an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateRow {
    /// The key of the entity.
    pub key: String,
    /// When its owner has to look at it.
    pub due: Option<Time>,
    /// The state.
    pub record: Record,
}

/// A plan of several that are read together; nothing if it is not there.
pub type Found = Result<Option<Loaded>, StoreError>;

/// A plan as it is stored.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The whole plan at some entry.
    pub snapshot: Option<Vec<u8>>,
    /// The entries after that, with their places.
    pub entries: Vec<(Seq, Vec<u8>)>,
    /// The newest one.
    pub head: Seq,
    /// Whether its row says [`Waiting::Unreadable`](crate::Waiting::Unreadable).
    pub is_quarantined: bool,
}

/// An entry of the journal as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its place.
    pub seq: Seq,
    /// The plan.
    pub plan: PlanId,
    /// The entry before it of the same plan; 0 if it is the first.
    pub prev: Seq,
    /// The records, encoded.
    pub records: Vec<u8>,
}

/// The end of a journal, as a reader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newest {
    /// The newest visible place, or a later one whose entry was removed; 0 if there was none.
    pub seq: Seq,
    /// Writes that may have taken places and are not visible yet, by names that are used once.
    pub under_way: Vec<String>,
}

/// Data of a plan without its journal.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanRow {
    /// The plan.
    pub id: PlanId,
    /// Its newest journal entry.
    pub head: Seq,
    /// Its state.
    pub state: PlanState,
    /// Its result.
    pub result: PlanResult,
    /// Its label.
    pub label: Arc<str>,
    /// The name of its root action.
    pub action: Arc<str>,
    /// The principal or plan that triggered it.
    pub by: Arc<str>,
    /// Labels for searches.
    pub labels: BTreeMap<String, String>,
    /// When it was created.
    pub created_at: Time,
    /// When its planning began.
    pub started_at: Option<Time>,
    /// When it was stopped.
    pub ended_at: Option<Time>,
    /// When it has to do something by itself.
    pub wakes_at: Option<Time>,
    /// Whether it was doing something, so that a start has to go on with it.
    pub is_busy: bool,
    /// The plan and step that triggered it.
    pub caller: Option<(PlanId, StepId)>,
    /// Its reason for waiting.
    pub waits: Waiting,
    /// The same for people, if it is live and waits. Of a plan that has failed and is over: why.
    pub waits_for: String,
    /// The whole plan as of a journal entry, encoded.
    pub snapshot: Option<(Seq, Vec<u8>)>,
}

/// Plans that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Their state.
    pub state: PlanState,
    /// Their result.
    pub result: PlanResult,
    /// Their reason for waiting.
    pub waits: Waiting,
    /// Number of plans.
    pub plans: u64,
}

impl Count {
    /// One more plan.
    pub(crate) fn add(counts: &mut Vec<Self>, row: &PlanRow) {
        let (state, result, waits) = (row.state, row.result, row.waits);
        let is_alike =
            |count: &&mut Self| (count.state, count.result, count.waits) == (state, result, waits);
        match counts.iter_mut().find(is_alike) {
            Some(count) => count.plans += 1,
            None => counts.push(Self { state, result, waits, plans: 1 }),
        }
    }
}

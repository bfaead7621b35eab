//! A store in memory: for tests, for simulation, and for plans that may go with the process.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use turnwheel_actors::entity::{DueRange, Record, ReminderId, ReminderRow};

use super::aside::{parts, whole_again, ValueId};
use super::memory_leases::{Heartbeats, Leases, StoreClock};
use super::memory_states::States;
use super::{
    memory_list, slot_of, Append, Batch, Change, Count, Filter, Hold, Loaded, Members, PlanRow,
    Removal, RowWrite, ScheduleRow, ScheduleWrite, Seq, Slots, StateRow, StateScan, Store,
    StoreReader, StoreWriter, Swap, Verdict, Worlds, WorldsWrite, Written,
};
use crate::error::StoreError;
use crate::id::PlanId;
use crate::plan::{PlanState, Waiting};
use crate::time::Time;

/// A store in memory. Clones share what it holds, so a clone that is kept «survives» the world.
#[derive(Clone, Default)]
pub struct MemoryStore {
    data: Arc<Mutex<Data>>,
}

#[derive(Clone, Default)]
pub(super) struct Data {
    /// The number of the newest writer.
    epoch: u64,
    /// Writers before this one are refused.
    fence: u64,
    last: Seq,
    /// For each writer: all that it has made or found up to here is in the rows.
    projected: BTreeMap<u64, Seq>,
    journal: BTreeMap<Seq, Entry>,
    pub(super) rows: BTreeMap<PlanId, PlanRow>,
    /// Large values, kept apart.
    values: HashMap<PlanId, HashMap<ValueId, Vec<u8>>>,
    pub(super) keys: HashMap<String, PlanId>,
    pub(super) states: States,
    schedules: BTreeMap<String, ScheduleRow>,
    locks: BTreeMap<String, PlanId>,
    followers: BTreeSet<(PlanId, PlanId)>,
    pub(super) worlds: Worlds,
    pub(super) leases: Leases,
}

#[derive(Clone)]
struct Entry {
    plan: PlanId,
    prev: Seq,
    epoch: u64,
    records: Vec<u8>,
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("entries", &self.data.lock().last).finish()
    }
}

impl MemoryStore {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the time of leases from this clock, instead of the system's: for simulations.
    #[must_use]
    pub fn with_clock(self, clock: impl Fn() -> Time + Send + Sync + 'static) -> Self {
        self.data.lock().leases.clock = StoreClock(Arc::new(clock));
        self
    }

    /// A separate store with the same content: the state after a crash at this moment.
    ///
    /// Cost: everything is copied.
    #[must_use]
    pub fn copied(&self) -> Self {
        Self { data: Arc::new(Mutex::new(self.data.lock().clone())) }
    }
}

impl Store for MemoryStore {
    fn open(&self) -> Result<Box<dyn StoreWriter>, StoreError> {
        let mut data = self.data.lock();
        data.epoch += 1;
        let (epoch, mark) = (data.epoch, data.mark());
        data.projected.insert(epoch, mark);
        Ok(Box::new(Writer { data: Arc::clone(&self.data), epoch }))
    }

    fn writer(&self) -> Result<Box<dyn StoreWriter>, StoreError> {
        let writer = self.open()?;
        let mut data = self.data.lock();
        data.fence = writer.epoch();
        data.projected.retain(|epoch, _| *epoch >= writer.epoch());
        Ok(writer)
    }

    fn reader(&self) -> Result<Box<dyn StoreReader>, StoreError> {
        Ok(Box::new(Reader { data: Arc::clone(&self.data) }))
    }

    fn members(&self) -> Result<Option<Box<dyn Members>>, StoreError> {
        Ok(Some(Box::new(Heartbeats(Arc::clone(&self.data)))))
    }

    fn name(&self) -> String {
        "in memory".to_owned()
    }
}

struct Writer {
    data: Arc<Mutex<Data>>,
    epoch: u64,
}

impl Writer {
    /// The data, if no later writer has taken the store for itself.
    fn data(&self) -> Result<MutexGuard<'_, Data>, StoreError> {
        let data = self.data.lock();
        if data.fence > self.epoch {
            return Err(StoreError::Fenced { epoch: self.epoch, newest: data.fence });
        }
        Ok(data)
    }
}

impl StoreWriter for Writer {
    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn last(&self) -> Seq {
        self.data.lock().last
    }

    fn remove(&mut self, plans: &[Removal]) -> Result<usize, StoreError> {
        let mut data = self.data()?;
        Ok(plans.iter().filter(|removal| data.remove(removal)).count())
    }

    fn free(&mut self, locks: &[(String, PlanId)]) -> Result<(), StoreError> {
        let mut data = self.data()?;
        data.locks
            .retain(|name, holder| !locks.iter().any(|lock| (&lock.0, lock.1) == (name, *holder)));
        Ok(())
    }

    fn commit(&mut self, batch: &Batch<'_>) -> Result<Vec<Verdict>, StoreError> {
        let mut data = self.data()?;
        let mut verdicts: Vec<Verdict> =
            batch.appends.iter().map(|append| data.append(append)).collect();
        verdicts.extend(batch.changes.iter().map(|change| data.change(change)));
        for RowWrite { row, epoch, is_refresh } in batch.rows {
            let is_held = data.worlds.admit(Hold::of(row.id, *epoch)).is_ok();
            if is_held && (!is_refresh || data.rows.contains_key(&row.id)) {
                data.write_row(row);
            }
        }
        if !batch.rows.is_empty() {
            let mark = data.projected.entry(self.epoch).or_default();
            *mark = batch.projected.max(*mark);
        }
        Ok(verdicts)
    }

    fn settled(&mut self) -> Result<(), StoreError> {
        let mut data = self.data()?;
        let (epoch, last) = (self.epoch, data.last);
        data.projected.insert(epoch, last);
        Ok(())
    }

    fn written_after(&mut self, place: Seq) -> Result<Vec<(Seq, PlanId, Seq)>, StoreError> {
        let data = self.data.lock();
        let written = data.journal.range(place.saturating_add(1)..);
        Ok(written.map(|(seq, entry)| (*seq, entry.plan, entry.prev)).collect())
    }

    fn written(&mut self, entries: &[&Append], place: Seq) -> Result<Vec<Option<Seq>>, StoreError> {
        let data = self.data.lock();
        let found = |append: &&Append| {
            let mut written = data.journal.range(place.saturating_add(1)..);
            let same = written.find(|(_, it)| {
                (it.plan, it.prev, it.epoch) == (append.plan, append.prev, append.epoch)
            });
            same.map(|(seq, _)| *seq)
        };
        Ok(entries.iter().map(found).collect())
    }

    fn write_schedules(&mut self, writes: &[ScheduleWrite]) -> Result<Vec<Swap>, StoreError> {
        let mut data = self.data()?;
        let mut swap = |write: &ScheduleWrite| match data.worlds.admit(write.hold()) {
            Ok(()) => memory_list::swap(&mut data.schedules, write),
            Err(owner) => Swap::Moved { epoch: owner.epoch },
        };
        Ok(writes.iter().map(&mut swap).collect())
    }

    fn write_worlds(&mut self, write: &WorldsWrite) -> Result<Swap, StoreError> {
        let mut data = self.data()?;
        Ok(data.worlds.swap(write))
    }

    fn declare_dead(&mut self, write: &WorldsWrite) -> Result<Swap, StoreError> {
        let mut data = self.data()?;
        if !data.leases.are_over(&write.gone) {
            return Ok(Swap::Changed { version: data.worlds.version });
        }
        Ok(data.worlds.swap(write))
    }
}

impl Data {
    /// All entries up to here are in the rows, whichever writer has made them.
    fn mark(&self) -> Seq {
        self.projected.values().min().copied().unwrap_or_default()
    }

    fn change(&mut self, change: &Change) -> Verdict {
        let (hold, change) = change.parts();
        match hold.map_or(Ok(()), |hold| self.worlds.admit(hold)) {
            Ok(()) => self.states.change(change),
            Err(owner) => owner.into(),
        }
    }

    fn append(&mut self, append: &Append) -> Verdict {
        if let Err(owner) = self.worlds.admit(Hold::of(append.plan, append.epoch)) {
            return owner.into();
        }
        if let Some(key) = &append.key {
            if let Some(holder) = self.keys.get(key) {
                return Verdict::KeyTaken(*holder);
            }
        }
        for name in &append.take {
            if let Some(holder) = self.locks.get(name).filter(|holder| **holder != append.plan) {
                return Verdict::LockTaken { name: name.clone(), holder: *holder };
            }
        }
        self.locks.extend(append.take.iter().map(|name| (name.clone(), append.plan)));
        for name in &append.release {
            if self.locks.get(name) == Some(&append.plan) {
                self.locks.remove(name);
            }
        }
        self.followers.extend(append.follow.iter().map(|before| (*before, append.plan)));
        for before in &append.unfollow {
            self.followers.remove(&(*before, append.plan));
        }
        if let Some(key) = &append.key {
            self.keys.insert(key.clone(), append.plan);
        }
        self.last += 1;
        let seq = self.last;
        let records = self.keep(append.plan, &append.records);
        let (plan, prev, epoch) = (append.plan, append.prev, append.epoch);
        self.journal.insert(seq, Entry { plan, prev, epoch, records });
        Verdict::Written(seq)
    }

    /// Stores the large values of an entry or a snapshot apart. Returns the bytes to store in its
    /// place.
    fn keep(&mut self, plan: PlanId, bytes: &[u8]) -> Vec<u8> {
        let Some(parts) = parts(bytes) else { return bytes.to_vec() };
        let values = self.values.entry(plan).or_default();
        for (id, value) in &parts.values {
            values.entry(*id).or_insert_with(|| value.to_vec());
        }
        parts.rest()
    }

    fn whole(&self, plan: PlanId, kept: &[u8]) -> Result<Vec<u8>, StoreError> {
        let values = self.values.get(&plan);
        whole_again(plan, kept.to_vec(), |id| Ok(values.and_then(|all| all.get(id)).cloned()))
    }

    /// The entries of a plan after one place and up to another, oldest first.
    /// The newest entry of a plan whose row is behind, if several processes write.
    fn newest(&self, plan: PlanId) -> Option<Seq> {
        let after = if self.projected.len() > 1 { self.mark() } else { return None };
        let mut behind = self.journal.range(after + 1..).rev();
        behind.find(|(_, entry)| entry.plan == plan).map(|(seq, _)| *seq)
    }

    fn chain(&self, plan: PlanId, head: Seq, from: Seq) -> Result<Vec<(Seq, Vec<u8>)>, StoreError> {
        let mut entries = Vec::new();
        let mut seq = head;
        while seq > from {
            let Some(Entry { prev, records, .. }) = self.journal.get(&seq) else {
                return Err(StoreError::Corrupt(format!("plan {plan}: entry {seq} is missing")));
            };
            entries.push((seq, self.whole(plan, records)?));
            seq = *prev;
        }
        entries.reverse();
        Ok(entries)
    }

    fn remove(&mut self, removal: &Removal) -> bool {
        let Removal { plan, head, epoch } = *removal;
        let fits = |row: &PlanRow| row.head == head && row.state == PlanState::Stopped;
        let is_held = self.worlds.admit(Hold::of(plan, epoch)).is_ok();
        if !is_held || !self.rows.get(&plan).is_some_and(fits) {
            return false;
        }
        self.rows.remove(&plan);
        let mut seq = head;
        while let Some(entry) = self.journal.remove(&seq) {
            seq = entry.prev;
        }
        self.keys.retain(|_, holder| *holder != plan);
        self.values.remove(&plan);
        self.states.forget(plan);
        true
    }

    /// Whether a plan waits for this one that is not stopped.
    pub(super) fn is_needed(&self, row: &PlanRow) -> bool {
        let is_live = |caller: &PlanRow| caller.state != PlanState::Stopped;
        let is_called =
            row.caller.is_some_and(|(plan, _)| self.rows.get(&plan).is_some_and(is_live));
        let mut followers = self.followers.range((row.id, PlanId::from_bytes([0; 16]))..);
        is_called || followers.next().is_some_and(|(plan, _)| *plan == row.id)
    }

    fn write_row(&mut self, row: &PlanRow) {
        let mut row = row.clone();
        if let Some((_, snapshot)) = &mut row.snapshot {
            *snapshot = self.keep(row.id, snapshot);
        } else {
            row.snapshot = self.rows.remove(&row.id).and_then(|old| old.snapshot);
        }
        self.rows.insert(row.id, row);
    }
}

struct Reader {
    data: Arc<Mutex<Data>>,
}

impl StoreReader for Reader {
    fn load(&mut self, plan: PlanId, head: Option<Seq>) -> Result<Option<Loaded>, StoreError> {
        let data = self.data.lock();
        let row = data.rows.get(&plan);
        let newest = || data.newest(plan).or(row.map(|row| row.head));
        let Some(head) = head.or_else(newest) else { return Ok(None) };
        let snapshot = row.and_then(|row| row.snapshot.clone());
        let from = snapshot.as_ref().map_or(0, |(seq, _)| *seq);
        let entries = data.chain(plan, head, from)?;
        let snapshot = snapshot.map(|(_, bytes)| data.whole(plan, &bytes)).transpose()?;
        let is_quarantined = row.is_some_and(|row| row.waits == Waiting::Unreadable);
        Ok(Some(Loaded { snapshot, entries, head, is_quarantined }))
    }

    fn history_after(
        &mut self,
        plan: PlanId,
        after: Seq,
        head: Seq,
    ) -> Result<Vec<(Seq, Vec<u8>)>, StoreError> {
        self.data.lock().chain(plan, head, after)
    }

    fn journal(&mut self, after: Seq, limit: usize) -> Result<Vec<Written>, StoreError> {
        let data = self.data.lock();
        let entries = data.journal.range(after.saturating_add(1)..).take(limit);
        let whole = |(seq, entry): (&Seq, &Entry)| {
            let records = data.whole(entry.plan, &entry.records)?;
            Ok(Written { seq: *seq, plan: entry.plan, prev: entry.prev, records })
        };
        entries.map(whole).collect()
    }

    fn last_place(&mut self) -> Result<Seq, StoreError> {
        Ok(self.data.lock().last)
    }

    fn behind(&mut self) -> Result<Vec<(PlanId, Seq)>, StoreError> {
        let data = self.data.lock();
        let mut heads = BTreeMap::new();
        for (seq, entry) in data.journal.range(data.mark() + 1..) {
            heads.insert(entry.plan, *seq);
        }
        Ok(heads.into_iter().collect())
    }

    fn behind_in(&mut self, slots: &Slots) -> Result<Vec<(PlanId, Seq)>, StoreError> {
        let mut behind = self.behind()?;
        let data = self.data.lock();
        behind.retain(|(plan, head)| {
            let is_behind = data.rows.get(plan).is_none_or(|row| row.head < *head);
            is_behind && slots.has(slot_of(*plan))
        });
        Ok(behind)
    }

    fn busy(&mut self, from: Option<PlanId>, limit: usize) -> Result<Vec<PlanId>, StoreError> {
        let data = self.data.lock();
        let busy = data.rows.values().filter(|row| row.is_busy && Some(row.id) > from);
        Ok(busy.map(|row| row.id).take(limit).collect())
    }

    fn wakes(&mut self, until: Time, limit: usize) -> Result<Vec<(Time, PlanId)>, StoreError> {
        let data = self.data.lock();
        let wakes = data.rows.values().filter_map(|row| Some((row.wakes_at?, row.id)));
        let mut wakes: Vec<_> = wakes.filter(|(at, _)| *at <= until).collect();
        wakes.sort_unstable();
        wakes.truncate(limit);
        Ok(wakes)
    }

    fn worlds(&mut self) -> Result<Worlds, StoreError> {
        Ok(self.data.lock().worlds.clone())
    }

    fn live(&mut self) -> Result<Slots, StoreError> {
        let data = self.data.lock();
        let mut slots = Slots::default();
        let live = data.rows.values().filter(|row| row.state != PlanState::Stopped);
        live.for_each(|row| slots.add(slot_of(row.id)));
        Ok(slots)
    }

    fn locks(&mut self) -> Result<Vec<(String, PlanId)>, StoreError> {
        let data = self.data.lock();
        Ok(data.locks.iter().map(|(name, holder)| (name.clone(), *holder)).collect())
    }

    fn followers(&mut self) -> Result<Vec<(PlanId, PlanId)>, StoreError> {
        Ok(self.data.lock().followers.iter().copied().collect())
    }

    fn by_key(&mut self, key: &str) -> Result<Option<PlanId>, StoreError> {
        Ok(self.data.lock().keys.get(key).copied())
    }

    fn state(&mut self, entity: &str, key: &str) -> Result<Record, StoreError> {
        Ok(self.data.lock().states.state(entity, key))
    }

    fn states_of(
        &mut self,
        entity: &str,
        scan: &StateScan,
        limit: usize,
    ) -> Result<Vec<StateRow>, StoreError> {
        Ok(self.data.lock().states.states_of(entity, scan, limit))
    }

    fn entities_with_states(&mut self) -> Result<Vec<String>, StoreError> {
        Ok(self.data.lock().states.entities_with_states())
    }

    fn reminder(&mut self, id: &ReminderId) -> Result<Option<ReminderRow>, StoreError> {
        Ok(self.data.lock().states.reminder(id))
    }

    fn reminders_of(
        &mut self,
        entity: &str,
        key: &str,
        limit: usize,
    ) -> Result<Vec<ReminderRow>, StoreError> {
        Ok(self.data.lock().states.reminders_of(entity, key, limit))
    }

    fn reminders_due(&mut self, range: &DueRange) -> Result<Vec<ReminderRow>, StoreError> {
        Ok(self.data.lock().states.reminders_due(range))
    }

    fn list(&mut self, filter: &Filter) -> Result<Vec<PlanRow>, StoreError> {
        Ok(memory_list::list(&self.data.lock(), filter))
    }

    fn counts(&mut self) -> Result<Vec<Count>, StoreError> {
        let mut counts = Vec::new();
        self.data.lock().rows.values().for_each(|row| Count::add(&mut counts, row));
        Ok(counts)
    }

    fn schedule(&mut self, name: &str) -> Result<Option<ScheduleRow>, StoreError> {
        Ok(self.data.lock().schedules.get(name).cloned())
    }

    fn schedules(&mut self, after: &str, limit: usize) -> Result<Vec<ScheduleRow>, StoreError> {
        use std::ops::Bound::{Excluded, Unbounded};
        let data = self.data.lock();
        let rows = data.schedules.range::<str, _>((Excluded(after), Unbounded)).take(limit);
        Ok(rows.map(|(_, row)| row.clone()).collect())
    }
}

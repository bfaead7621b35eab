//! The reading end of a store that fails when it is told to.

use std::sync::Arc;

use parking_lot::Mutex;
use turnwheel_actors::entity::{DueRange, Record, ReminderId, ReminderRow};
use turnwheel_engine::store::{
    Count, Filter, Found, Loaded, Newest, PlanRow, ScheduleRow, Seq, Slots, StateRow, StateScan,
    StoreReader, Tally, Worlds, Written,
};
use turnwheel_engine::{PlanId, StoreError, Time};

use crate::fault_store::{Op, Script, Twin};

pub(super) struct Reader {
    pub(super) inner: Box<dyn StoreReader>,
    pub(super) script: Arc<Mutex<Script>>,
}

impl Reader {
    /// The reader, unless this read is to fail.
    fn inner(&mut self) -> Result<&mut dyn StoreReader, StoreError> {
        Script::begin(&self.script, Op::Read)?;
        Ok(&mut *self.inner)
    }

    /// Whether none of these entries is damaged.
    fn check(&self, mut places: impl Iterator<Item = Seq>) -> Result<(), StoreError> {
        let script = self.script.lock();
        places.find_map(|place| script.damaged.get(&place)).map_or(Ok(()), |it| Err(it.clone()))
    }

    /// What was read, or nothing if the store is broken in this way.
    fn unless<T>(&self, twin: Twin, read: Vec<T>) -> Vec<T> {
        match self.script.lock().twin == Some(twin) {
            true => Vec::new(),
            false => read,
        }
    }
}

impl StoreReader for Reader {
    fn load(&mut self, plan: PlanId, head: Option<Seq>) -> Result<Option<Loaded>, StoreError> {
        self.script.lock().loads += 1;
        self.inner()?.load(plan, head)
    }

    fn load_many(&mut self, plans: &[(PlanId, Option<Seq>)]) -> Result<Vec<Found>, StoreError> {
        self.inner()?.load_many(plans)
    }

    fn history_after(
        &mut self,
        plan: PlanId,
        after: Seq,
        head: Seq,
    ) -> Result<Vec<(Seq, Vec<u8>)>, StoreError> {
        let entries = self.inner()?.history_after(plan, after, head)?;
        self.check(entries.iter().map(|(seq, _)| *seq))?;
        Ok(entries)
    }

    fn journal(&mut self, after: Seq, limit: usize) -> Result<Vec<Written>, StoreError> {
        let entries = self.inner()?.journal(after, limit)?;
        self.check(entries.iter().map(|entry| entry.seq))?;
        Ok(entries)
    }

    fn place_after(&mut self, after: Seq) -> Result<Option<Seq>, StoreError> {
        self.inner()?.place_after(after)
    }

    fn last_place(&mut self) -> Result<Seq, StoreError> {
        self.inner()?.last_place()
    }

    fn newest(&mut self) -> Result<Newest, StoreError> {
        self.script.lock().looks += 1;
        if let Some(error) = self.script.lock().looks_fail.clone() {
            return Err(error);
        }
        self.inner()?.newest()
    }

    fn locks(&mut self) -> Result<Vec<(String, PlanId)>, StoreError> {
        self.inner()?.locks()
    }

    fn followers(&mut self) -> Result<Vec<(PlanId, PlanId)>, StoreError> {
        let followers = self.inner()?.followers()?;
        Ok(self.unless(Twin::ForgetsFollowers, followers))
    }

    fn worlds(&mut self) -> Result<Worlds, StoreError> {
        self.inner()?.worlds()
    }

    fn live(&mut self) -> Result<Slots, StoreError> {
        self.inner()?.live()
    }

    fn behind(&mut self) -> Result<Vec<(PlanId, Seq)>, StoreError> {
        let behind = self.inner()?.behind()?;
        Ok(self.unless(Twin::ForgetsBusy, behind))
    }

    fn behind_in(&mut self, slots: &Slots) -> Result<Vec<(PlanId, Seq)>, StoreError> {
        let behind = self.inner()?.behind_in(slots)?;
        Ok(self.unless(Twin::ForgetsBusy, behind))
    }

    fn wakes_in(
        &mut self,
        slots: &Slots,
        until: Time,
        limit: usize,
    ) -> Result<Vec<(Time, PlanId)>, StoreError> {
        let wakes = self.inner()?.wakes_in(slots, until, limit)?;
        Ok(self.unless(Twin::ForgetsWakes, wakes))
    }

    fn busy(&mut self, from: Option<PlanId>, limit: usize) -> Result<Vec<PlanId>, StoreError> {
        let busy = self.inner()?.busy(from, limit)?;
        Ok(self.unless(Twin::ForgetsBusy, busy))
    }

    fn wakes(&mut self, until: Time, limit: usize) -> Result<Vec<(Time, PlanId)>, StoreError> {
        let wakes = self.inner()?.wakes(until, limit)?;
        Ok(self.unless(Twin::ForgetsWakes, wakes))
    }

    fn by_key(&mut self, key: &str) -> Result<Option<PlanId>, StoreError> {
        self.inner()?.by_key(key)
    }

    fn state(&mut self, entity: &str, key: &str) -> Result<Record, StoreError> {
        self.inner()?.state(entity, key)
    }

    fn states_by_key(&mut self, of: &[(String, String)]) -> Result<Vec<Record>, StoreError> {
        self.inner()?.states_by_key(of)
    }

    fn states_of(
        &mut self,
        entity: &str,
        scan: &StateScan,
        limit: usize,
    ) -> Result<Vec<StateRow>, StoreError> {
        self.inner()?.states_of(entity, scan, limit)
    }

    fn entities_with_states(&mut self) -> Result<Vec<String>, StoreError> {
        self.inner()?.entities_with_states()
    }

    fn reminder(&mut self, id: &ReminderId) -> Result<Option<ReminderRow>, StoreError> {
        self.inner()?.reminder(id)
    }

    fn reminders_of(
        &mut self,
        entity: &str,
        key: &str,
        limit: usize,
    ) -> Result<Vec<ReminderRow>, StoreError> {
        self.inner()?.reminders_of(entity, key, limit)
    }

    fn reminders_due(&mut self, range: &DueRange) -> Result<Vec<ReminderRow>, StoreError> {
        self.inner()?.reminders_due(range)
    }

    fn list(&mut self, filter: &Filter) -> Result<Vec<PlanRow>, StoreError> {
        self.inner()?.list(filter)
    }

    fn plan_at(&mut self, filter: &Filter, place: usize) -> Result<Option<PlanId>, StoreError> {
        self.inner()?.plan_at(filter, place)
    }

    fn tallies(&mut self, from: Time) -> Result<Vec<Tally>, StoreError> {
        self.inner()?.tallies(from)
    }

    fn counts_of(&mut self, filter: &Filter) -> Result<Vec<Count>, StoreError> {
        self.inner()?.counts_of(filter)
    }

    fn counts(&mut self) -> Result<Vec<Count>, StoreError> {
        self.inner()?.counts()
    }

    fn schedule(&mut self, name: &str) -> Result<Option<ScheduleRow>, StoreError> {
        self.inner()?.schedule(name)
    }

    fn schedules(&mut self, after: &str, limit: usize) -> Result<Vec<ScheduleRow>, StoreError> {
        if let Some(error) = self.script.lock().schedules_fail.clone() {
            return Err(error);
        }
        self.inner()?.schedules(after, limit)
    }
}

//! The reading end: its own connection, beside the writer.

use rusqlite::types::Value;
use rusqlite::{params_from_iter, Connection, OptionalExtension};
use turnwheel_actors::entity::{DueRange, Record, ReminderId, ReminderRow};
use turnwheel_engine::store::{
    slot_of, Count, Filter, Loaded, PlanRow, ScheduleRow, Seq, Slots, StateRow, StateScan,
    StoreReader, Tally, Worlds, Written,
};
use turnwheel_engine::{PlanId, StoreError, Time};

use crate::cell::number;
use crate::error::failure_in;
use crate::statements::NOW;
use crate::{counts, list, schedules, states, tallies, values, worlds};

pub(super) struct Reader {
    connection: Connection,
}

impl Reader {
    pub(super) fn new(connection: Connection) -> Self {
        Self { connection }
    }

    fn plan(&self, plan: PlanId, head: Option<Seq>) -> rusqlite::Result<Option<Chain>> {
        let read = "SELECT head, seq, bytes, waits = 'unreadable' FROM plans
             LEFT JOIN turnwheel_snapshots ON plan = id WHERE id = ?1";
        let row = self
            .connection
            .prepare_cached(read)?
            .query_row([plan.to_bytes()], |row| {
                Ok((row.get(0)?, row.get::<_, Option<Seq>>(1)?, row.get(2)?, row.get(3)?))
            })
            .optional()?;
        let (known, from, snapshot, is_quarantined) = match row {
            Some((head, from, snapshot, is_quarantined)) => {
                (Some(head), from.unwrap_or(0), snapshot, is_quarantined)
            }
            None => (None, 0, None, false),
        };
        let Some(head) = head.or(known) else { return Ok(None) };
        let (entries, missing) = self.chain(head, from)?;
        Ok(Some(Chain { loaded: Loaded { snapshot, entries, head, is_quarantined }, missing }))
    }

    /// The entries after one place and up to another, oldest first; and the place of one that is
    /// missing.
    fn chain(&self, head: Seq, from: Seq) -> rusqlite::Result<(Entries, Option<Seq>)> {
        let read = "SELECT prev, records FROM journal WHERE seq = ?1";
        let mut read = self.connection.prepare_cached(read)?;
        let (mut entries, mut seq, mut missing) = (Vec::new(), head, None);
        while seq > from {
            let entry = read.query_row([seq], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
            let Some((prev, records)) = entry else {
                missing = Some(seq);
                break;
            };
            entries.push((seq, records));
            seq = prev;
        }
        entries.reverse();
        Ok((entries, missing))
    }

    fn ids(&self, sql: &str, values: Vec<Value>) -> rusqlite::Result<Vec<(Seq, PlanId)>> {
        let mut read = self.connection.prepare_cached(sql)?;
        let rows = read.query_map(params_from_iter(values), |row| {
            Ok((row.get(0)?, PlanId::from_bytes(row.get(1)?)))
        })?;
        rows.collect()
    }
}

/// Entries with their places.
type Entries = Vec<(Seq, Vec<u8>)>;

struct Chain {
    loaded: Loaded,
    missing: Option<Seq>,
}

impl StoreReader for Reader {
    fn load(&mut self, plan: PlanId, head: Option<Seq>) -> Result<Option<Loaded>, StoreError> {
        let chain = self.plan(plan, head).map_err(|error| failure_in(&self.connection, &error))?;
        match chain {
            Some(Chain { missing: Some(seq), .. }) => Err(missing(plan, seq)),
            Some(Chain { loaded, .. }) => {
                let Loaded { snapshot, entries, .. } = loaded;
                let whole = |bytes| values::whole(&self.connection, plan, bytes);
                let snapshot = snapshot.map(whole).transpose()?;
                let entries = entries.into_iter().map(|(seq, bytes)| Ok((seq, whole(bytes)?)));
                let entries = entries.collect::<Result<_, StoreError>>()?;
                Ok(Some(Loaded { snapshot, entries, ..loaded }))
            }
            None => Ok(None),
        }
    }

    fn history_after(
        &mut self,
        plan: PlanId,
        after: Seq,
        head: Seq,
    ) -> Result<Entries, StoreError> {
        match self.chain(head, after).map_err(|error| failure_in(&self.connection, &error))? {
            (entries, None) => {
                let whole = |(seq, bytes)| Ok((seq, values::whole(&self.connection, plan, bytes)?));
                entries.into_iter().map(whole).collect()
            }
            (_, Some(seq)) => Err(missing(plan, seq)),
        }
    }

    fn journal(&mut self, after: Seq, limit: usize) -> Result<Vec<Written>, StoreError> {
        let sql =
            "SELECT seq, plan, prev, records FROM journal WHERE seq > ?1 ORDER BY seq LIMIT ?2";
        let after = Value::Integer(i64::try_from(after).unwrap_or(i64::MAX));
        let entries = || -> rusqlite::Result<Vec<Written>> {
            let mut read = self.connection.prepare_cached(sql)?;
            let rows = read.query_map(params_from_iter([after, number(limit)]), |row| {
                Ok(Written {
                    seq: row.get(0)?,
                    plan: PlanId::from_bytes(row.get(1)?),
                    prev: row.get(2)?,
                    records: row.get(3)?,
                })
            })?;
            rows.collect()
        };
        let mut entries = entries().map_err(|error| failure_in(&self.connection, &error))?;
        for entry in &mut entries {
            let kept = std::mem::take(&mut entry.records);
            entry.records = values::whole(&self.connection, entry.plan, kept)?;
        }
        Ok(entries)
    }

    fn place_after(&mut self, after: Seq) -> Result<Option<Seq>, StoreError> {
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let sql = "SELECT min(seq) FROM journal WHERE seq > ?1";
        let next = self.connection.query_row(sql, [after], |row| row.get(0));
        next.map_err(|error| failure_in(&self.connection, &error))
    }

    fn last_place(&mut self) -> Result<Seq, StoreError> {
        let last = self.connection.query_row(NOW, [], |row| row.get(2));
        last.map_err(|error| failure_in(&self.connection, &error))
    }

    fn behind(&mut self) -> Result<Vec<(PlanId, Seq)>, StoreError> {
        let sql = "SELECT max(seq), plan FROM journal
            WHERE seq > (SELECT min(projected) FROM turnwheel_marks) GROUP BY plan ORDER BY plan";
        let heads =
            self.ids(sql, Vec::new()).map_err(|error| failure_in(&self.connection, &error))?;
        Ok(heads.into_iter().map(|(seq, plan)| (plan, seq)).collect())
    }

    fn busy(&mut self, from: Option<PlanId>, limit: usize) -> Result<Vec<PlanId>, StoreError> {
        let sql = "SELECT 0, id FROM plans WHERE is_busy AND id > ?1 ORDER BY id LIMIT ?2";
        let from = from.map_or_else(Vec::new, |from| from.to_bytes().to_vec());
        let values = vec![Value::Blob(from), number(limit)];
        let plans = self.ids(sql, values).map_err(|error| failure_in(&self.connection, &error))?;
        Ok(plans.into_iter().map(|(_, plan)| plan).collect())
    }

    fn wakes(&mut self, until: Time, limit: usize) -> Result<Vec<(Time, PlanId)>, StoreError> {
        self.wakes_in(&Slots::all(), until, limit)
    }

    fn wakes_in(
        &mut self,
        slots: &Slots,
        until: Time,
        limit: usize,
    ) -> Result<Vec<(Time, PlanId)>, StoreError> {
        let wakes = || -> rusqlite::Result<Vec<(Time, PlanId)>> {
            let sql = "SELECT wakes_at, id FROM plans
                WHERE wakes_at IS NOT NULL AND wakes_at <= ?1 ORDER BY wakes_at, id";
            let mut read = self.connection.prepare_cached(sql)?;
            let until = i64::try_from(until.0).unwrap_or(i64::MAX);
            let plans = read.query_map([until], |row| {
                Ok((Time(row.get(0)?), PlanId::from_bytes(row.get(1)?)))
            })?;
            let is_of = |wake: &rusqlite::Result<(Time, PlanId)>| {
                wake.as_ref().map_or(true, |(_, plan)| slots.has(slot_of(*plan)))
            };
            plans.filter(is_of).take(limit).collect()
        };
        wakes().map_err(|error| failure_in(&self.connection, &error))
    }

    fn worlds(&mut self) -> Result<Worlds, StoreError> {
        worlds::all(&self.connection)
    }

    fn live(&mut self) -> Result<Slots, StoreError> {
        let live = || -> rusqlite::Result<Slots> {
            // By ranges of the index over states, so that no row is read.
            let sql = "SELECT id FROM plans WHERE state < 'stopped'
                UNION ALL SELECT id FROM plans WHERE state > 'stopped'";
            let mut read = self.connection.prepare_cached(sql)?;
            let plans = read.query_map([], |row| Ok(PlanId::from_bytes(row.get(0)?)))?;
            let mut slots = Slots::default();
            for plan in plans {
                slots.add(slot_of(plan?));
            }
            Ok(slots)
        };
        live().map_err(|error| failure_in(&self.connection, &error))
    }

    fn locks(&mut self) -> Result<Vec<(String, PlanId)>, StoreError> {
        let locks = || -> rusqlite::Result<Vec<(String, PlanId)>> {
            let mut read =
                self.connection.prepare_cached("SELECT name, plan FROM locks ORDER BY name")?;
            let rows =
                read.query_map([], |row| Ok((row.get(0)?, PlanId::from_bytes(row.get(1)?))))?;
            rows.collect()
        };
        locks().map_err(|error| failure_in(&self.connection, &error))
    }

    fn followers(&mut self) -> Result<Vec<(PlanId, PlanId)>, StoreError> {
        let followers = || -> rusqlite::Result<Vec<(PlanId, PlanId)>> {
            let read = "SELECT plan, follower FROM turnwheel_followers ORDER BY plan, follower";
            let mut read = self.connection.prepare_cached(read)?;
            let rows = read.query_map([], |row| {
                Ok((PlanId::from_bytes(row.get(0)?), PlanId::from_bytes(row.get(1)?)))
            })?;
            rows.collect()
        };
        followers().map_err(|error| failure_in(&self.connection, &error))
    }

    fn by_key(&mut self, key: &str) -> Result<Option<PlanId>, StoreError> {
        let sql = "SELECT 0, plan FROM keys WHERE key = ?1";
        let plans = self.ids(sql, vec![Value::Text(key.to_owned())]);
        Ok(plans
            .map_err(|error| failure_in(&self.connection, &error))?
            .first()
            .map(|(_, plan)| *plan))
    }

    fn state(&mut self, entity: &str, key: &str) -> Result<Record, StoreError> {
        states::state(&self.connection, entity, key)
            .map_err(|error| failure_in(&self.connection, &error))
    }

    fn states_by_key(&mut self, of: &[(String, String)]) -> Result<Vec<Record>, StoreError> {
        states::states_by_key(&self.connection, of)
            .map_err(|error| failure_in(&self.connection, &error))
    }

    fn states_of(
        &mut self,
        entity: &str,
        scan: &StateScan,
        limit: usize,
    ) -> Result<Vec<StateRow>, StoreError> {
        states::states_of(&self.connection, entity, scan, limit)
            .map_err(|error| failure_in(&self.connection, &error))
    }

    fn entities_with_states(&mut self) -> Result<Vec<String>, StoreError> {
        states::entities_with_states(&self.connection)
            .map_err(|error| failure_in(&self.connection, &error))
    }

    fn reminder(&mut self, id: &ReminderId) -> Result<Option<ReminderRow>, StoreError> {
        states::reminder(&self.connection, id).map_err(|error| failure_in(&self.connection, &error))
    }

    fn reminders_of(
        &mut self,
        entity: &str,
        key: &str,
        limit: usize,
    ) -> Result<Vec<ReminderRow>, StoreError> {
        states::reminders_of(&self.connection, entity, key, limit)
            .map_err(|error| failure_in(&self.connection, &error))
    }

    fn reminders_due(&mut self, range: &DueRange) -> Result<Vec<ReminderRow>, StoreError> {
        states::reminders_due(&self.connection, range)
            .map_err(|error| failure_in(&self.connection, &error))
    }

    fn list(&mut self, filter: &Filter) -> Result<Vec<PlanRow>, StoreError> {
        list::list(&self.connection, filter).map_err(|error| failure_in(&self.connection, &error))
    }

    fn plan_at(&mut self, filter: &Filter, place: usize) -> Result<Option<PlanId>, StoreError> {
        list::plan_at(&self.connection, filter, place)
            .map_err(|error| failure_in(&self.connection, &error))
    }

    fn tallies(&mut self, from: Time) -> Result<Vec<Tally>, StoreError> {
        tallies::since(&self.connection, from).map_err(|error| failure_in(&self.connection, &error))
    }

    fn counts(&mut self) -> Result<Vec<Count>, StoreError> {
        counts::all(&self.connection).map_err(|error| failure_in(&self.connection, &error))
    }

    fn counts_of(&mut self, filter: &Filter) -> Result<Vec<Count>, StoreError> {
        list::counts_of(&self.connection, filter)
            .map_err(|error| failure_in(&self.connection, &error))
    }

    fn schedule(&mut self, name: &str) -> Result<Option<ScheduleRow>, StoreError> {
        schedules::one(&self.connection, name).map_err(|error| failure_in(&self.connection, &error))
    }

    fn schedules(&mut self, after: &str, limit: usize) -> Result<Vec<ScheduleRow>, StoreError> {
        schedules::page(&self.connection, after, limit)
            .map_err(|error| failure_in(&self.connection, &error))
    }
}

fn missing(plan: PlanId, seq: Seq) -> StoreError {
    StoreError::Corrupt(format!("plan {plan}: entry {seq} is missing"))
}

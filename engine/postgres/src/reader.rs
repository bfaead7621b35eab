//! The reading end: a connection of its own, beside the writer.

use std::collections::HashMap;
use std::sync::Arc;

use tokio_postgres::types::Type;
use tokio_postgres::Row;
use turnwheel_actors::entity::{DueRange, Record, ReminderId, ReminderRow};
use turnwheel_engine::store::aside::{whole_again, ValueId};
use turnwheel_engine::store::{
    slot_of, Count, Filter, Found, Loaded, Newest, PlanRow, ScheduleRow, Seq, Slots, StateRow,
    StateScan, StoreReader, Tally, Worlds, Written,
};
use turnwheel_engine::{PlanId, StoreError, Time};
use uuid::Uuid;

use crate::cell::{cell, count, count_if_any, digest, limit, moment, number, plan, string, text};
use crate::session::{Session, Shared, Value};
use crate::{list, reminders, schema, worlds};

/// Entries with their places.
type Entries = Vec<(Seq, Vec<u8>)>;

/// The heads and the snapshots of plans, each with its entries after that: one statement, so that
/// no removal comes in between. A head that is not known here is read from the journal, since
/// another node may not have written the row yet. The lateral query keeps to the index over plans.
const LOAD: &str = "WITH asked AS MATERIALIZED (
        SELECT u.ord, u.plan, coalesce(u.head,
                CASE WHEN (SELECT count(*) > 1 FROM tw.writers)
                    THEN (SELECT max(j.seq) FROM tw.journal j WHERE j.plan = u.plan) END,
                p.head) AS last, coalesce(k.seq, 0) AS first,
            k.bytes, p.waits = 'unreadable' AS is_bad
        FROM unnest($1, $2) WITH ORDINALITY AS u (plan, head, ord)
            LEFT JOIN tw.plans p ON p.id = u.plan LEFT JOIN tw.snapshots k ON k.plan = p.id)
    SELECT 0 AS part, last, first, bytes, is_bad, ord FROM asked
    UNION ALL SELECT 1, j.seq, j.prev, j.records, NULL, a.ord FROM asked a CROSS JOIN LATERAL (
        SELECT seq, prev, records FROM tw.journal
        WHERE plan = a.plan AND seq > a.first AND seq <= a.last OFFSET 0) j
    ORDER BY ord, part";

pub(crate) struct Reader {
    session: Session,
}

impl Reader {
    pub(crate) fn new(shared: &Arc<Shared>) -> Result<Self, StoreError> {
        let mut session = Session::new(Arc::clone(shared));
        let ready = session.open().and_then(|()| schema::check(&mut session));
        ready.map_err(|trouble| trouble.told(&shared.settings.name, 0))?;
        Ok(Self { session })
    }

    /// The values that entries and snapshots of a plan refer to.
    fn values(&mut self, plan: PlanId) -> Result<HashMap<ValueId, Vec<u8>>, StoreError> {
        let sql = "SELECT id, bytes FROM tw.large_values WHERE plan = $1";
        let rows = self.session.read(sql, &[(&plan.uuid(), Type::UUID)])?;
        let mut values = HashMap::with_capacity(rows.len());
        for row in &rows {
            let id: &[u8] = cell(row, 0)?;
            if let Ok(id) = ValueId::try_from(id) {
                values.insert(id, cell(row, 1)?);
            }
        }
        Ok(values)
    }

    /// Entries with their large values. Most plans have none.
    fn whole(
        &mut self,
        plan: PlanId,
        entries: Vec<(Seq, Vec<u8>)>,
    ) -> Result<Vec<(Seq, Vec<u8>)>, StoreError> {
        let mut known = None;
        let mut all = Vec::with_capacity(entries.len());
        for (seq, bytes) in entries {
            let bytes = whole_again(plan, bytes, |id| {
                if known.is_none() {
                    known = Some(self.values(plan)?);
                }
                Ok(known.as_ref().and_then(|known| known.get(id)).cloned())
            })?;
            all.push((seq, bytes));
        }
        Ok(all)
    }

    /// A plan as its rows say: its head with its snapshot first, then its entries.
    fn loaded(&mut self, plan: PlanId, rows: &[Row]) -> Found {
        let Some((row, rows)) = rows.split_first() else { return Ok(None) };
        let Some(head) = count_if_any(row, 1)? else { return Ok(None) };
        let from = count(row, 2)?;
        let snapshot: Option<Vec<u8>> = cell(row, 3)?;
        let is_quarantined = cell::<Option<bool>>(row, 4)?.unwrap_or(false);
        let mut entries = chain(plan, rows, head, from)?;
        let has_snapshot = snapshot.is_some();
        entries.splice(0..0, snapshot.map(|bytes| (from, bytes)));
        let mut entries = self.whole(plan, entries)?;
        let snapshot = has_snapshot.then(|| entries.remove(0).1);
        Ok(Some(Loaded { snapshot, entries, head, is_quarantined }))
    }

    fn plans(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<PlanId>, StoreError> {
        self.session.read(sql, values)?.iter().map(|row| plan(row, 0)).collect()
    }
}

/// The entries of a plan from its newest one back to a place, oldest first.
fn chain(plan: PlanId, rows: &[Row], head: Seq, from: Seq) -> Result<Entries, StoreError> {
    let mut known = HashMap::with_capacity(rows.len());
    for row in rows {
        known.insert(count(row, 1)?, (count(row, 2)?, cell::<Vec<u8>>(row, 3)?));
    }
    let (mut entries, mut seq) = (Vec::with_capacity(known.len()), head);
    while seq > from {
        let Some((prev, records)) = known.remove(&seq) else {
            return Err(StoreError::Corrupt(format!("plan {plan}: entry {seq} is missing")));
        };
        entries.push((seq, records));
        seq = prev;
    }
    entries.reverse();
    Ok(entries)
}

impl StoreReader for Reader {
    fn load(&mut self, plan: PlanId, head: Option<Seq>) -> Result<Option<Loaded>, StoreError> {
        self.load_many(&[(plan, head)])?.remove(0)
    }

    fn load_many(&mut self, plans: &[(PlanId, Option<Seq>)]) -> Result<Vec<Found>, StoreError> {
        let ids: Vec<Uuid> = plans.iter().map(|(plan, _)| plan.uuid()).collect();
        let heads: Vec<Option<i64>> = plans.iter().map(|(_, head)| head.map(number)).collect();
        let values: [Value<'_>; 2] = [(&ids, Type::UUID_ARRAY), (&heads, Type::INT8_ARRAY)];
        let rows = self.session.read(LOAD, &values)?;
        let of_plans = rows.chunk_by(|one, next| one.get::<_, i64>(5) == next.get::<_, i64>(5));
        let found: Vec<Found> =
            plans.iter().zip(of_plans).map(|((plan, _), rows)| self.loaded(*plan, rows)).collect();
        if found.len() == plans.len() {
            return Ok(found);
        }
        Err(StoreError::Corrupt("the answer has not all plans".to_owned()))
    }

    fn history_after(
        &mut self,
        plan: PlanId,
        after: Seq,
        head: Seq,
    ) -> Result<Entries, StoreError> {
        let sql = "SELECT 1, seq, prev, records FROM tw.journal
            WHERE plan = $1 AND seq > $2 AND seq <= $3";
        let (id, first, last) = (plan.uuid(), number(after), number(head));
        let values: [Value<'_>; 3] = [(&id, Type::UUID), (&first, Type::INT8), (&last, Type::INT8)];
        let rows = self.session.read(sql, &values)?;
        let entries = chain(plan, &rows, head, after)?;
        self.whole(plan, entries)
    }

    fn journal(&mut self, after: Seq, most: usize) -> Result<Vec<Written>, StoreError> {
        let sql = "SELECT seq, plan, prev, records FROM tw.journal
            WHERE seq > $1 ORDER BY seq LIMIT $2";
        let (after, most) = (number(after), limit(most));
        let rows = self.session.read(sql, &[(&after, Type::INT8), (&most, Type::INT8)])?;
        let mut all = Vec::with_capacity(rows.len());
        for row in &rows {
            let (seq, plan) = (count(row, 0)?, plan(row, 1)?);
            let records = self.whole(plan, vec![(seq, cell(row, 3)?)])?.remove(0).1;
            all.push(Written { seq, plan, prev: count(row, 2)?, records });
        }
        Ok(all)
    }

    fn place_after(&mut self, after: Seq) -> Result<Option<Seq>, StoreError> {
        let sql = "SELECT min(seq) FROM tw.journal WHERE seq > $1";
        let rows = self.session.read(sql, &[(&number(after), Type::INT8)])?;
        rows.first().map_or(Ok(None), |row| count_if_any(row, 0))
    }

    fn last_place(&mut self) -> Result<Seq, StoreError> {
        let sql = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM tw.place";
        let rows = self.session.read(sql, &[])?;
        rows.first().map_or(Ok(0), |row| count(row, 0))
    }

    /// The transactions that have locked rows of writers: each commit does so before it takes its
    /// places, and keeps that lock on the table until its entries are visible. Transactions of
    /// other programs do not count, however long they last.
    ///
    /// One statement shows both. It sees the entries of a snapshot that is taken before it runs,
    /// and the locks at the moment at which it reads them, which is later.
    fn newest(&mut self) -> Result<Newest, StoreError> {
        let sql = "SELECT coalesce((SELECT max(seq) FROM tw.journal), 0),
            ARRAY(SELECT DISTINCT virtualtransaction FROM pg_catalog.pg_locks
                WHERE relation = 'tw.writers'::pg_catalog.regclass AND granted
                    AND mode IN ('RowShareLock', 'RowExclusiveLock')
                    AND database = (SELECT oid FROM pg_catalog.pg_database
                        WHERE datname = pg_catalog.current_database()))";
        let rows = self.session.read(sql, &[])?;
        let row = rows.first().ok_or_else(|| StoreError::Failed("no answer".to_owned()))?;
        Ok(Newest { seq: count(row, 0)?, under_way: cell(row, 1)? })
    }

    fn behind(&mut self) -> Result<Vec<(PlanId, Seq)>, StoreError> {
        let sql = "SELECT plan, max(seq) FROM tw.journal
            WHERE seq > (SELECT min(projected) FROM tw.writers) GROUP BY plan ORDER BY plan";
        let rows = self.session.read(sql, &[])?;
        rows.iter().map(|row| Ok((plan(row, 0)?, count(row, 1)?))).collect()
    }

    fn busy(&mut self, from: Option<PlanId>, most: usize) -> Result<Vec<PlanId>, StoreError> {
        let sql = "SELECT id FROM tw.plans WHERE is_busy AND ($1::uuid IS NULL OR id > $1)
            ORDER BY id LIMIT $2";
        let (from, most) = (from.map(PlanId::uuid), limit(most));
        self.plans(sql, &[(&from, Type::UUID), (&most, Type::INT8)])
    }

    fn busy_in(
        &mut self,
        slots: &Slots,
        from: Option<PlanId>,
        most: usize,
    ) -> Result<Vec<PlanId>, StoreError> {
        let sql = "SELECT id FROM tw.plans WHERE is_busy AND ($1::uuid IS NULL OR id > $1)
            AND slot = ANY ($3) ORDER BY id LIMIT $2";
        let (from, most) = (from.map(PlanId::uuid), limit(most));
        let slots: Vec<i32> = slots.iter().map(|slot| slot as i32).collect();
        let values: [Value<'_>; 3] =
            [(&from, Type::UUID), (&most, Type::INT8), (&slots, Type::INT4_ARRAY)];
        self.plans(sql, &values)
    }

    fn wakes(&mut self, until: Time, most: usize) -> Result<Vec<(Time, PlanId)>, StoreError> {
        self.wakes_in(&Slots::all(), until, most)
    }

    fn behind_in(&mut self, slots: &Slots) -> Result<Vec<(PlanId, Seq)>, StoreError> {
        let sql = "SELECT plan, last FROM (SELECT plan, max(seq) AS last FROM tw.journal
                WHERE seq > (SELECT min(projected) FROM tw.writers) GROUP BY plan) AS newest
            WHERE last > coalesce((SELECT head FROM tw.plans WHERE id = plan), 0) ORDER BY plan";
        let rows = self.session.read(sql, &[])?;
        let behind = rows.iter().map(|row| Ok((plan(row, 0)?, count(row, 1)?)));
        let mut behind = behind.collect::<Result<Vec<_>, StoreError>>()?;
        behind.retain(|(plan, _)| slots.has(slot_of(*plan)));
        Ok(behind)
    }

    /// By the index on slot and time, once for each slot.
    fn wakes_in(
        &mut self,
        slots: &Slots,
        until: Time,
        most: usize,
    ) -> Result<Vec<(Time, PlanId)>, StoreError> {
        let sql = "SELECT wakes_at, id FROM unnest($1) AS own (slot) CROSS JOIN LATERAL (
                SELECT wakes_at, id FROM tw.plans WHERE slot = own.slot
                    AND wakes_at IS NOT NULL AND wakes_at <= $2
                ORDER BY wakes_at, id LIMIT $3) AS due
            ORDER BY wakes_at, id LIMIT $3";
        let slots: Vec<i32> = slots.iter().map(|slot| slot as i32).collect();
        let (until, most) = (moment(until), limit(most));
        let values: [Value<'_>; 3] =
            [(&slots, Type::INT4_ARRAY), (&until, Type::INT8), (&most, Type::INT8)];
        let rows = self.session.read(sql, &values)?;
        rows.iter().map(|row| Ok((Time(count(row, 0)?), plan(row, 1)?))).collect()
    }

    fn worlds(&mut self) -> Result<Worlds, StoreError> {
        worlds::all(&mut self.session)
    }

    fn live(&mut self) -> Result<Slots, StoreError> {
        // By ranges of the index over states, which has the ids.
        let sql =
            "SELECT DISTINCT (get_byte(uuid_send(id), 14) & 3) << 8 | get_byte(uuid_send(id), 15)
            FROM tw.plans WHERE state < 'stopped' OR state > 'stopped'";
        let mut slots = Slots::default();
        for row in &self.session.read(sql, &[])? {
            slots.add(cell::<i32>(row, 0)? as usize);
        }
        Ok(slots)
    }

    fn locks(&mut self) -> Result<Vec<(String, PlanId)>, StoreError> {
        let rows = self.session.read("SELECT name, plan FROM tw.locks", &[])?;
        let locks = rows.iter().map(|row| Ok((string(row, 0)?, plan(row, 1)?)));
        let mut locks = locks.collect::<Result<Vec<_>, StoreError>>()?;
        locks.sort_unstable();
        Ok(locks)
    }

    fn followers(&mut self) -> Result<Vec<(PlanId, PlanId)>, StoreError> {
        let sql = "SELECT plan, follower FROM tw.followers ORDER BY plan, follower";
        let rows = self.session.read(sql, &[])?;
        rows.iter().map(|row| Ok((plan(row, 0)?, plan(row, 1)?))).collect()
    }

    fn by_key(&mut self, key: &str) -> Result<Option<PlanId>, StoreError> {
        let sql = "SELECT plan FROM tw.keys WHERE digest = $1";
        let plans = self.plans(sql, &[(&digest(&[key]), Type::BYTEA)])?;
        Ok(plans.first().copied())
    }

    fn state(&mut self, entity: &str, key: &str) -> Result<Record, StoreError> {
        let sql = "SELECT bytes, version FROM tw.states WHERE digest = $1";
        let rows = self.session.read(sql, &[(&digest(&[entity, key]), Type::BYTEA)])?;
        let Some(row) = rows.first() else { return Ok(Record::default()) };
        Ok(Record { bytes: cell(row, 0)?, version: count(row, 1)? })
    }

    fn states_by_key(&mut self, of: &[(String, String)]) -> Result<Vec<Record>, StoreError> {
        let digests: Vec<Vec<u8>> = of.iter().map(|(entity, key)| digest(&[entity, key])).collect();
        let sql = "SELECT digest, bytes, version FROM tw.states WHERE digest = ANY ($1)";
        let mut found = HashMap::with_capacity(of.len());
        for row in &self.session.read(sql, &[(&digests, Type::BYTEA_ARRAY)])? {
            let record = Record { bytes: cell(row, 1)?, version: count(row, 2)? };
            found.insert(cell::<Vec<u8>>(row, 0)?, record);
        }
        // A state may be asked for twice.
        Ok(digests.iter().map(|of| found.get(of).cloned().unwrap_or_default()).collect())
    }

    fn states_of(
        &mut self,
        entity: &str,
        scan: &StateScan,
        limit: usize,
    ) -> Result<Vec<StateRow>, StoreError> {
        let columns = "SELECT key, due, bytes, version FROM tw.states WHERE entity = $1";
        let (entity, most) = (text(entity), self::limit(limit));
        let rows = match scan {
            StateScan::Due(until) => {
                let sql = format!("{columns} AND due <= $2 ORDER BY due, key LIMIT $3");
                let until = moment(*until);
                let values: &[Value<'_>] =
                    &[(&entity, Type::TEXT), (&until, Type::INT8), (&most, Type::INT8)];
                self.session.read(&sql, values)?
            }
            StateScan::After(key) => {
                let sql = format!(
                    "{columns} AND left(key, 200) >= left($2, 200) AND key > $2
                     AND bytes IS NOT NULL ORDER BY left(key, 200), key LIMIT $3"
                );
                let key = text(key);
                let values: &[Value<'_>] =
                    &[(&entity, Type::TEXT), (&key, Type::TEXT), (&most, Type::INT8)];
                self.session.read(&sql, values)?
            }
        };
        let row = |row: &Row| {
            let due: Option<i64> = cell(row, 1)?;
            let record = Record { bytes: cell(row, 2)?, version: count(row, 3)? };
            let due = due.map(|due| Time(due.unsigned_abs()));
            Ok(StateRow { key: string(row, 0)?, due, record })
        };
        rows.iter().map(row).collect()
    }

    fn entities_with_states(&mut self) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT DISTINCT entity FROM tw.states WHERE bytes IS NOT NULL";
        let rows = self.session.read(sql, &[])?;
        rows.iter().map(|row| string(row, 0)).collect()
    }

    fn reminder(&mut self, id: &ReminderId) -> Result<Option<ReminderRow>, StoreError> {
        reminders::one(&mut self.session, id)
    }

    fn reminders_of(
        &mut self,
        entity: &str,
        key: &str,
        most: usize,
    ) -> Result<Vec<ReminderRow>, StoreError> {
        reminders::of(&mut self.session, entity, key, most)
    }

    fn reminders_due(&mut self, range: &DueRange) -> Result<Vec<ReminderRow>, StoreError> {
        reminders::due(&mut self.session, range)
    }

    fn list(&mut self, filter: &Filter) -> Result<Vec<PlanRow>, StoreError> {
        list::list(&mut self.session, filter)
    }

    fn plan_at(&mut self, filter: &Filter, place: usize) -> Result<Option<PlanId>, StoreError> {
        list::plan_at(&mut self.session, filter, place)
    }

    fn tallies(&mut self, from: Time) -> Result<Vec<Tally>, StoreError> {
        list::tallies(&mut self.session, from)
    }

    fn counts(&mut self) -> Result<Vec<Count>, StoreError> {
        list::counts(&mut self.session)
    }

    fn counts_of(&mut self, filter: &Filter) -> Result<Vec<Count>, StoreError> {
        list::counts_of(&mut self.session, filter)
    }

    fn schedule(&mut self, name: &str) -> Result<Option<ScheduleRow>, StoreError> {
        let sql = "SELECT name, version, data FROM tw.schedules WHERE name = $1";
        let rows = self.session.read(sql, &[(&text(name), Type::TEXT)])?;
        rows.first().map(schedule).transpose()
    }

    fn schedules(&mut self, after: &str, most: usize) -> Result<Vec<ScheduleRow>, StoreError> {
        let sql = "SELECT name, version, data FROM tw.schedules WHERE name > $1
            ORDER BY name LIMIT $2";
        let (after, most) = (text(after), limit(most));
        let rows = self.session.read(sql, &[(&after, Type::TEXT), (&most, Type::INT8)])?;
        rows.iter().map(schedule).collect()
    }
}

fn schedule(row: &Row) -> Result<ScheduleRow, StoreError> {
    Ok(ScheduleRow { name: string(row, 0)?, version: count(row, 1)?, data: cell(row, 2)? })
}

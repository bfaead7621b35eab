//! The writing end: a batch is one statement, and so one transaction in one round trip.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio_postgres::types::Type;
use tokio_postgres::Row;
use turnwheel_engine::store::{
    slot_of, Append, Batch, Change, Removal, ScheduleWrite, Seq, StoreWriter, Swap, Verdict,
    Worked, WorldsWrite,
};
use turnwheel_engine::{PlanId, StoreError};
use uuid::Uuid;

use crate::batch::{self, Appends, Changes, Held};
use crate::cell::{self, cell, count, count_if_any, digest, epoch, number, text};
use crate::error::Trouble;
use crate::holding::{self, Holding, OwnLease};
use crate::rows::Rows;
use crate::schema;
use crate::session::{Session, Shared, Value};
use crate::worlds;

/// Numbers of values of the parts of a commit, after the writer and its connection.
const COMMIT_VALUES: usize = 24;
const ROWS_VALUES: usize = 30;

pub(crate) struct Writer {
    session: Session,
    epoch: u64,
    last: Seq,
    /// Counts the connections of this writer: the server refuses all but the newest.
    number: i64,
    commit: String,
    commit_rows: String,
    rows: String,
    _holding: Option<Arc<Holding>>,
}

impl Writer {
    /// Opens the store; with `held` for this process alone.
    pub(crate) fn new(shared: &Arc<Shared>, held: Option<&OwnLease>) -> Result<Self, StoreError> {
        let alone = held.is_some();
        let mut session = Session::new(Arc::clone(shared));
        let told = |trouble: Trouble| trouble.told(&shared.settings.name, 0);
        session.open().map_err(told)?;
        schema::migrate(&mut session).map_err(told)?;
        let open = shared.sql("SELECT number, last FROM tw.open_1($1, $2, $3, $4)");
        let (said, lease) = (holding::said(), holding::lease_us());
        let values: [Value<'_>; 4] = [
            (&alone, Type::BOOL),
            (&shared.instance, Type::UUID),
            (&said, Type::TEXT),
            (&lease, Type::INT8),
        ];
        let rows = holding::opened(|| session.ask_again(&open, &values)).map_err(told)?;
        let row = one(&rows)?;
        let (epoch, last) = (count(row, 0)?, count(row, 1)?);
        let places = |from: usize, values: usize| -> String {
            (from..from + values).map(|at| format!("${at}")).collect::<Vec<_>>().join(", ")
        };
        let commit = format!("tw.commit_1($1, $2, {})", places(3, COMMIT_VALUES));
        let rows = format!("tw.rows_1($1, $2, {})", places(3, ROWS_VALUES));
        let more = format!("tw.rows_1($1, $2, {})", places(3 + COMMIT_VALUES, ROWS_VALUES));
        Ok(Self {
            epoch,
            last,
            number: 0,
            commit: shared.sql(&format!("SELECT * FROM {commit}")),
            // The columns are computed after the function of the FROM.
            commit_rows: shared.sql(&format!("SELECT c.*, {more} FROM {commit} c")),
            rows: shared.sql(&format!("SELECT {rows}")),
            session,
            _holding: held.map(|held| holding::hold(shared, held)),
        })
    }

    fn told(&self, trouble: Trouble) -> StoreError {
        trouble.told(self.session.name(), self.epoch)
    }

    /// Has a connection. After a lost one this waits for the end of what was under way on it.
    fn connected(&mut self) -> Result<(), Trouble> {
        if self.session.is_open() {
            return Ok(());
        }
        self.session.open()?;
        let sql = self.session.shared.sql("SELECT session FROM tw.session_1($1)");
        let own = number(self.epoch);
        let rows = self.session.ask_again(&sql, &[(&own, Type::INT8)])?;
        self.number = rows.first().map_or(0, |row| row.get(0));
        Ok(())
    }

    /// One statement of this writer.
    fn write(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
        let own = number(self.epoch);
        let rows = self.connected().and_then(|()| {
            let session = self.number;
            let mut all: Vec<Value<'_>> = vec![(&own, Type::INT8), (&session, Type::INT8)];
            all.extend(values.iter().map(|(value, kind)| (*value, kind.clone())));
            self.session.ask_again(sql, &all)
        });
        rows.map_err(|trouble| self.told(trouble))
    }

    fn swap_worlds(&mut self, write: &WorldsWrite, is_dead: bool) -> Result<Swap, StoreError> {
        let worlds = worlds::Columns::of(write, is_dead)?;
        let sql = self.session.shared.sql(worlds::WRITE);
        let rows = self.write(&sql, &worlds.values())?;
        let found: Option<i64> = cell(one(&rows)?, 0)?;
        if found.is_none() {
            self.session.shared.seen.worlds(write.from + 1);
        }
        Ok(found.map_or(Swap::Done, |version| Swap::Changed { version: version.unsigned_abs() }))
    }

    fn write_batch(&mut self, batch: &Batch<'_>) -> Result<Vec<Verdict>, StoreError> {
        let of_appends = batch.appends.iter().map(|append| slot_of(append.plan));
        let of_changes = batch.changes.iter().filter_map(|change| Some(change.parts().0?.slot));
        let held = Held::of(of_appends.chain(of_changes));
        let (appends, changes) =
            (Appends::of(batch.appends, &held), Changes::of(batch.changes, &held));
        let mut values: Vec<Value<'_>> = vec![(&held.slots, Type::INT4_ARRAY)];
        values.extend(appends.values());
        values.extend(changes.values());
        let gone = batch::gone(batch.changes);
        if batch.rows.is_empty() {
            let sql = self.with_gone(&self.commit, &gone, &mut values);
            let answer = self.write(&sql, &values)?;
            return self.decided(one(&answer)?, batch);
        }
        let held_rows = Held::of(batch.rows.iter().map(|write| slot_of(write.row.id)));
        let (rows, mark) = (Rows::of(batch.rows, &held_rows), number(batch.projected));
        let mut row_values: Vec<Value<'_>> =
            vec![(&held_rows.slots, Type::INT4_ARRAY), (&mark, Type::INT8)];
        row_values.extend(rows.values());
        if batch.appends.is_empty() && batch.changes.is_empty() {
            let sql = self.rows.clone();
            self.write(&sql, &row_values)?;
            return Ok(Vec::new());
        }
        values.append(&mut row_values);
        let sql = self.with_gone(&self.commit_rows, &gone, &mut values);
        let answer = self.write(&sql, &values)?;
        self.decided(one(&answer)?, batch)
    }

    /// A statement of a commit that deletes states as well: their keys are in no other change.
    fn with_gone<'a>(
        &self,
        sql: &str,
        gone: &'a Vec<Vec<u8>>,
        values: &mut Vec<Value<'a>>,
    ) -> String {
        if gone.is_empty() {
            return sql.to_owned();
        }
        values.push((gone, Type::BYTEA_ARRAY));
        // The writer and its connection are before all values.
        let place = values.len() + 2;
        let delete = format!("DELETE FROM tw.states s WHERE s.digest = ANY(${place})");
        format!("WITH gone AS ({}) {sql}", self.session.shared.sql(&delete))
    }

    fn decided(&mut self, row: &Row, batch: &Batch<'_>) -> Result<Vec<Verdict>, StoreError> {
        let before = self.last;
        let verdicts = verdicts(row, batch, &mut self.last)?;
        if self.last > before {
            self.session.shared.seen.entry(self.last);
        }
        Ok(verdicts)
    }
}

fn one(rows: &[Row]) -> Result<&Row, StoreError> {
    rows.first().ok_or_else(|| StoreError::Corrupt("a function has no answer".to_owned()))
}

/// Whether this answer of a commit is that of a state that is gone.
fn is_gone(batch: &Batch<'_>, index: usize) -> bool {
    let change = index.checked_sub(batch.appends.len()).and_then(|at| batch.changes.get(at));
    matches!(change, Some(Change::StateGone { .. }))
}

/// Answers of a commit, in the order of its appends and changes.
fn verdicts(row: &Row, batch: &Batch<'_>, last: &mut Seq) -> Result<Vec<Verdict>, StoreError> {
    let codes: Vec<i32> = cell(row, 0)?;
    let places: Vec<i64> = cell(row, 1)?;
    let numbers: Option<Vec<i64>> = cell(row, 2)?;
    let newer: Option<Vec<i64>> = cell(row, 3)?;
    let plans: Option<Vec<Option<Uuid>>> = cell(row, 4)?;
    let names: Option<Vec<Option<String>>> = cell(row, 5)?;
    let (numbers, newer) = (numbers.unwrap_or_default(), newer.unwrap_or_default());
    let (plans, names) = (plans.unwrap_or_default(), names.unwrap_or_default());
    if codes.len() != batch.appends.len() + batch.changes.len() {
        return Err(StoreError::Corrupt("a commit has answers for other entries".to_owned()));
    }
    let mut places = places.into_iter();
    let mut verdicts = Vec::with_capacity(codes.len());
    for (index, code) in codes.into_iter().enumerate() {
        let unsigned = |list: &[i64]| {
            let value = list.get(index).copied().unwrap_or_default();
            u64::try_from(value).map_err(|_| cell::damaged(row, 2, &format!("the value {value}")))
        };
        let plan = || {
            let plan = plans.get(index).copied().flatten().map(PlanId::new);
            plan.ok_or_else(|| cell::damaged(row, 4, "no plan"))
        };
        verdicts.push(match code {
            0 => {
                let place = places.next().and_then(|place| u64::try_from(place).ok());
                let place = place.ok_or_else(|| cell::damaged(row, 1, "too few places"))?;
                *last = place.max(*last);
                Verdict::Written(place)
            }
            1 => Verdict::KeyTaken(plan()?),
            2 => {
                let name = names.get(index).cloned().flatten().unwrap_or_default();
                Verdict::LockTaken { name: cell::plain(name), holder: plan()? }
            }
            3 => Verdict::Moved { owner: unsigned(&numbers)?, epoch: unsigned(&newer)? },
            4 => Verdict::Changed(unsigned(&numbers)?),
            5 => Verdict::Conflict { found: unsigned(&numbers)? },
            6 => Verdict::Outdated { newest: unsigned(&numbers)? },
            7 if is_gone(batch, index) => Verdict::Changed(0),
            7 => Verdict::Worked(Worked::Unsupported),
            other => return Err(cell::damaged(row, 0, &format!("the value {other}"))),
        });
    }
    Ok(verdicts)
}

impl StoreWriter for Writer {
    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn last(&self) -> Seq {
        self.last
    }

    fn remove(&mut self, plans: &[Removal]) -> Result<usize, StoreError> {
        let held = Held::of(plans.iter().map(|removal| slot_of(removal.plan)));
        let ids: Vec<Uuid> = plans.iter().map(|removal| removal.plan.uuid()).collect();
        let heads: Vec<i64> = plans.iter().map(|removal| number(removal.head)).collect();
        let at: Vec<i32> = plans.iter().map(|it| held.place(slot_of(it.plan))).collect();
        let epochs: Vec<i64> = plans.iter().map(|removal| epoch(removal.epoch)).collect();
        let sql = self.session.shared.sql("SELECT tw.remove_1($1, $2, $3, $4, $5, $6, $7)");
        let values: [Value<'_>; 5] = [
            (&held.slots, Type::INT4_ARRAY),
            (&ids, Type::UUID_ARRAY),
            (&heads, Type::INT8_ARRAY),
            (&at, Type::INT4_ARRAY),
            (&epochs, Type::INT8_ARRAY),
        ];
        self.session.shared.seen.removed();
        let rows = self.write(&sql, &values)?;
        Ok(count(one(&rows)?, 0)? as usize)
    }

    fn free(&mut self, locks: &[(String, PlanId)]) -> Result<(), StoreError> {
        let digests: Vec<Vec<u8>> = locks.iter().map(|(name, _)| digest(&[name])).collect();
        let plans: Vec<Uuid> = locks.iter().map(|(_, plan)| plan.uuid()).collect();
        let sql = self.session.shared.sql("SELECT tw.free_1($1, $2, $3, $4)");
        let values: [Value<'_>; 2] = [(&digests, Type::BYTEA_ARRAY), (&plans, Type::UUID_ARRAY)];
        self.write(&sql, &values).map(drop)
    }

    fn commit(&mut self, batch: &Batch<'_>) -> Result<Vec<Verdict>, StoreError> {
        self.write_batch(batch)
    }

    fn settled(&mut self) -> Result<(), StoreError> {
        // The row is locked by each commit of this writer, and none is under way.
        let sql = "UPDATE tw.writers r SET projected = p.last_value FROM tw.place p
            WHERE r.number = $1 AND r.session = $2 AND p.is_called AND r.projected < p.last_value";
        let sql = self.session.shared.sql(sql);
        self.write(&sql, &[]).map(drop)
    }

    fn written_after(&mut self, place: Seq) -> Result<Vec<(Seq, PlanId, Seq)>, StoreError> {
        // A new connection has waited for the end of what was under way.
        self.connected().map_err(|trouble| self.told(trouble))?;
        let sql = "SELECT seq, plan, prev FROM tw.journal WHERE seq > $1 ORDER BY seq";
        let sql = self.session.shared.sql(sql);
        let rows = self.session.ask_again(&sql, &[(&number(place), Type::INT8)]);
        let rows = rows.map_err(|trouble| self.told(trouble))?;
        let written =
            rows.iter().map(|row| Ok((count(row, 0)?, cell::plan(row, 1)?, count(row, 2)?)));
        let written = written.collect::<Result<Vec<_>, StoreError>>()?;
        if let Some((last, _, _)) = written.last() {
            self.last = self.last.max(*last);
        }
        Ok(written)
    }

    fn written(&mut self, entries: &[&Append], place: Seq) -> Result<Vec<Option<Seq>>, StoreError> {
        self.connected().map_err(|trouble| self.told(trouble))?;
        let plans: Vec<Uuid> = entries.iter().map(|entry| entry.plan.uuid()).collect();
        let prevs: Vec<i64> = entries.iter().map(|entry| number(entry.prev)).collect();
        let epochs: Vec<i64> = entries.iter().map(|it| epoch(it.epoch)).collect();
        let sql = self.session.shared.sql(
            "SELECT (SELECT min(j.seq) FROM tw.journal j WHERE j.plan = e.plan AND j.seq > $4
                AND j.prev = e.prev AND j.epoch = e.epoch)
             FROM unnest($1, $2, $3) WITH ORDINALITY AS e (plan, prev, epoch, ord) ORDER BY e.ord",
        );
        let place = number(place);
        let values: [Value<'_>; 4] = [
            (&plans, Type::UUID_ARRAY),
            (&prevs, Type::INT8_ARRAY),
            (&epochs, Type::INT8_ARRAY),
            (&place, Type::INT8),
        ];
        let rows = self.session.ask_again(&sql, &values).map_err(|trouble| self.told(trouble))?;
        let found: Result<Vec<_>, _> = rows.iter().map(|row| count_if_any(row, 0)).collect();
        let found = found?;
        self.last = found.iter().flatten().fold(self.last, |last, seq| last.max(*seq));
        Ok(found)
    }

    fn write_schedules(&mut self, writes: &[ScheduleWrite]) -> Result<Vec<Swap>, StoreError> {
        let names: Vec<_> = writes.iter().map(|write| text(&write.name)).collect();
        let from: Vec<i64> = writes.iter().map(|write| number(write.from)).collect();
        let data: Vec<Option<&[u8]>> = writes.iter().map(|write| write.data.as_deref()).collect();
        let epochs: Vec<i64> = writes.iter().map(|write| epoch(write.epoch)).collect();
        let slot = |write: &ScheduleWrite| i32::try_from(write.hold().slot).unwrap_or(i32::MAX);
        let slots: Vec<i32> = writes.iter().map(slot).collect();
        let held: Vec<i32> = slots.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
        let sql = "SELECT tw.schedules_3($1, $2, $3, $4, $5, $6, $7, $8)";
        let sql = self.session.shared.sql(sql);
        let values: [Value<'_>; 6] = [
            (&held, Type::INT4_ARRAY),
            (&names, Type::TEXT_ARRAY),
            (&from, Type::INT8_ARRAY),
            (&data, Type::BYTEA_ARRAY),
            (&slots, Type::INT4_ARRAY),
            (&epochs, Type::INT8_ARRAY),
        ];
        let rows = self.write(&sql, &values)?;
        let found: Vec<Option<i64>> = cell(one(&rows)?, 0)?;
        let swap = |found: Option<i64>| match found {
            None => Swap::Done,
            Some(moved) if moved < 0 => Swap::Moved { epoch: (-1 - moved).unsigned_abs() },
            Some(version) => Swap::Changed { version: version.unsigned_abs() },
        };
        Ok(found.into_iter().map(swap).collect())
    }

    fn write_worlds(&mut self, write: &WorldsWrite) -> Result<Swap, StoreError> {
        self.swap_worlds(write, false)
    }

    fn declare_dead(&mut self, write: &WorldsWrite) -> Result<Swap, StoreError> {
        self.swap_worlds(write, true)
    }
}

//! The writing end: one transaction for each batch.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::{params, Connection, OptionalExtension, Transaction, TransactionBehavior};

use super::ballast::{self, Ballast};
use super::identity::Identity;
use super::keeper::{pages, Log};
use super::lock::Lock;
use super::room::Room;
use super::{failure, schedules, states, values, work, worlds};
use crate::error::StoreError;
use crate::id::PlanId;
use crate::limits::STORE_BYTES_MAX;
use crate::store::{
    slot_of, Append, Batch, Change, PlanRow, ScheduleWrite, Seq, StoreWriter, Swap, Upkeep,
    Verdict, Worlds, WorldsWrite, SCHEDULES_SLOT,
};
use crate::time::Time;

/// What `PRAGMA synchronous` answers for `NORMAL`.
const SYNC_NORMAL: i64 = 1;

const EPOCH: &str = "SELECT value FROM meta WHERE name = 'epoch'";

/// Why nothing was written.
enum Refusal {
    Failed(rusqlite::Error),
    Fenced {
        epoch: u64,
        newest: u64,
    },
    /// The work of this change was stopped, and everything was rolled back with it.
    Stopped {
        change: usize,
    },
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(error)
    }
}

/// State shared by a writer and its store.
pub(super) struct Beside {
    pub(super) room: Arc<Room>,
    pub(super) log: Arc<Log>,
    pub(super) ballast: Arc<Ballast>,
}

pub(super) struct Writer {
    connection: Connection,
    epoch: u64,
    last: Seq,
    path: PathBuf,
    /// The file that the name has led to; nothing if it could not be looked at.
    identity: Option<Identity>,
    beside: Beside,
    /// The size of the file that the connection knows of.
    bytes_max: u64,
    /// Who owns which plans. Nobody else writes that as long as this is the newest writer.
    worlds: Worlds,
    /// No other process writes as long as this one may.
    _lock: Arc<Lock>,
}

impl Writer {
    /// Takes the next epoch.
    pub(super) fn new(
        mut connection: Connection,
        path: PathBuf,
        beside: Beside,
        worlds: Worlds,
        lock: Arc<Lock>,
    ) -> rusqlite::Result<Self> {
        let transaction = begin(&mut connection)?;
        transaction.execute("UPDATE meta SET value = value + 1 WHERE name = 'epoch'", [])?;
        transaction.execute("UPDATE meta SET value = 0 WHERE name = 'clean'", [])?;
        let epoch = transaction.query_row(EPOCH, [], |row| row.get(0))?;
        // The newest entries may have been removed: places before the mark are never taken again.
        let read = "SELECT max(coalesce((SELECT max(seq) FROM journal), 0), value) FROM meta
             WHERE name = 'projected'";
        let last = transaction.query_row(read, [], |row| row.get(0))?;
        transaction.commit()?;
        connection.set_prepared_statement_cache_capacity(32);
        Ok(Self {
            connection,
            epoch,
            last,
            identity: Identity::of(&path).ok(),
            path,
            beside,
            bytes_max: STORE_BYTES_MAX,
            worlds,
            _lock: lock,
        })
    }

    /// Writes a batch, but not the work that was stopped before.
    fn write(
        &mut self,
        batch: &Batch<'_>,
        stopped: &[usize],
    ) -> Result<(Vec<Verdict>, Seq), Refusal> {
        if self.bytes_max != self.beside.room.bytes_max() {
            self.bytes_max = self.beside.room.bytes_max();
            self.beside.room.apply(&self.connection)?;
        }
        let transaction = begin(&mut self.connection)?;
        refuse_fenced(&transaction, self.epoch)?;
        let mut last = self.last;
        let mut verdicts = Vec::with_capacity(batch.appends.len() + batch.changes.len());
        for append in batch.appends {
            verdicts.push(match self.worlds.admit(slot_of(append.plan), append.epoch) {
                Ok(()) => write_append(&transaction, append, &mut last)?,
                Err(newest) => Verdict::Outdated { newest },
            });
        }
        for (place, change) in batch.changes.iter().enumerate() {
            verdicts.push(match change {
                Change::Work(work) if stopped.contains(&place) => {
                    Verdict::Worked(work::stopped(work))
                }
                Change::Work(work) => match work::perform(&transaction, work)? {
                    Some(worked) => Verdict::Worked(worked),
                    None => return Err(Refusal::Stopped { change: place }),
                },
                change => states::change(&transaction, change)?,
            });
        }
        for row in batch.rows {
            write_row(&transaction, row)?;
        }
        if !batch.rows.is_empty() {
            let write = "UPDATE meta SET value = max(value, ?1) WHERE name = 'projected'";
            transaction.prepare_cached(write)?.execute([batch.projected])?;
        }
        transaction.commit()?;
        Ok((verdicts, last))
    }

    fn swap_worlds(&mut self, write: &WorldsWrite) -> Result<Swap, Refusal> {
        let transaction = begin(&mut self.connection)?;
        refuse_fenced(&transaction, self.epoch)?;
        let mut worlds = self.worlds.clone();
        let swap = worlds.swap(write);
        if swap == Swap::Done {
            worlds::write(&transaction, write)?;
            transaction.commit()?;
            self.worlds = worlds;
        }
        Ok(swap)
    }

    fn swap(&mut self, writes: &[ScheduleWrite]) -> Result<Vec<Swap>, Refusal> {
        for write in writes {
            self.worlds
                .admit(SCHEDULES_SLOT, write.epoch)
                .map_err(|newest| Refusal::Fenced { epoch: write.epoch, newest })?;
        }
        let transaction = begin(&mut self.connection)?;
        refuse_fenced(&transaction, self.epoch)?;
        let mut swaps = Vec::with_capacity(writes.len());
        for write in writes {
            swaps.push(schedules::write(&transaction, write)?);
        }
        transaction.commit()?;
        Ok(swaps)
    }
}

impl Writer {
    /// The name still leads to the file that is open.
    fn is_in_place(&self) -> Result<(), StoreError> {
        self.identity.map_or(Ok(()), |identity| identity.check(&self.path))
    }

    fn shorten(&self) -> Result<(), StoreError> {
        ballast::shorten(&self.connection).map_err(|error| failure(&error))
    }

    /// With a ballast the log stays short enough for it: when it cannot be moved, nothing is added.
    fn keep_log_short(&self) -> Result<(), StoreError> {
        if !self.beside.log.is_over_limit() {
            return Ok(());
        }
        self.beside.log.restart(&self.connection).map_err(|error| failure(&error))?;
        if self.beside.log.is_over_limit() {
            tracing::debug!("a reader is in the way of the log, which grows");
        }
        Ok(())
    }

    fn remove_all(&mut self, plans: &[(PlanId, Seq)]) -> Result<usize, Refusal> {
        let transaction = begin(&mut self.connection)?;
        refuse_fenced(&transaction, self.epoch)?;
        let mut count = 0;
        for (plan, head) in plans {
            count += usize::from(remove(&transaction, *plan, *head)?);
        }
        transaction.commit()?;
        self.beside.log.add(plans.len() as u64 * 2);
        Ok(count)
    }

    fn free_all(&mut self, locks: &[(String, PlanId)]) -> Result<(), Refusal> {
        let transaction = begin(&mut self.connection)?;
        refuse_fenced(&transaction, self.epoch)?;
        for (name, plan) in locks {
            free(&transaction, name, *plan)?;
        }
        transaction.commit()?;
        self.beside.log.add(locks.len() as u64);
        Ok(())
    }
}

impl StoreWriter for Writer {
    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn last(&self) -> Seq {
        self.last
    }

    fn upkeep(&self) -> Upkeep {
        self.beside.log.upkeep()
    }

    fn keep(&mut self) -> Result<(), StoreError> {
        self.beside.log.restart(&self.connection).map_err(|error| failure(&error))
    }

    fn remove(&mut self, plans: &[(PlanId, Seq)]) -> Result<usize, StoreError> {
        let removed = self.remove_all(plans).map_err(Refusal::told);
        match removed {
            Err(error) if Ballast::may_help(&self.path, &error) => {
                let (ballast, log) =
                    (Arc::clone(&self.beside.ballast), Arc::clone(&self.beside.log));
                let path = self.path.clone();
                ballast.without(&path, &log, || {
                    self.shorten()?;
                    let removed = self.remove_all(plans).map_err(Refusal::told);
                    self.shorten()?;
                    removed
                })
            }
            removed => removed,
        }
    }

    fn free(&mut self, locks: &[(String, PlanId)]) -> Result<(), StoreError> {
        self.free_all(locks).map_err(Refusal::told)
    }

    fn takes_plans(&mut self) -> Result<(), StoreError> {
        self.is_in_place()?;
        self.beside.room.check(&self.path, &self.connection)
    }

    fn commit(&mut self, batch: &Batch<'_>) -> Result<Vec<Verdict>, StoreError> {
        self.is_in_place()?;
        self.keep_log_short()?;
        let mut stopped = Vec::new();
        loop {
            match self.write(batch, &stopped) {
                Ok((verdicts, last)) => {
                    self.last = last;
                    self.beside.log.add(pages(batch));
                    return Ok(verdicts);
                }
                Err(Refusal::Stopped { change }) => stopped.push(change),
                Err(refusal) => return Err(refusal.told()),
            }
        }
    }

    fn written_after(&mut self, place: Seq) -> Result<Vec<(Seq, PlanId, Seq)>, StoreError> {
        let written = || -> rusqlite::Result<Vec<(Seq, PlanId, Seq)>> {
            let read = "SELECT seq, plan, prev FROM journal WHERE seq > ?1 ORDER BY seq";
            let mut read = self.connection.prepare_cached(read)?;
            let rows = read.query_map([place], |row| {
                Ok((row.get(0)?, PlanId::from_bytes(row.get(1)?), row.get(2)?))
            })?;
            rows.collect()
        };
        let written = written().map_err(|error| failure(&error))?;
        if let Some((last, _, _)) = written.last() {
            self.last = self.last.max(*last);
        }
        Ok(written)
    }

    fn write_schedules(&mut self, writes: &[ScheduleWrite]) -> Result<Vec<Swap>, StoreError> {
        self.is_in_place()?;
        self.swap(writes).map_err(Refusal::told)
    }

    fn write_worlds(&mut self, write: &WorldsWrite) -> Result<Swap, StoreError> {
        self.swap_worlds(write).map_err(Refusal::told)
    }
}

impl Refusal {
    fn told(self) -> StoreError {
        match self {
            Self::Failed(error) => failure(&error),
            Self::Fenced { epoch, newest } => StoreError::Fenced { epoch, newest },
            Self::Stopped { .. } => StoreError::Failed("a step's work was stopped".to_owned()),
        }
    }
}

/// Whether no other writer was taken since: part of each transaction.
fn refuse_fenced(transaction: &Transaction<'_>, epoch: u64) -> Result<(), Refusal> {
    let newest: u64 = transaction.prepare_cached(EPOCH)?.query_row([], |row| row.get(0))?;
    if newest == epoch {
        Ok(())
    } else {
        Err(Refusal::Fenced { epoch, newest })
    }
}

/// Removes a stopped plan if its newest entry is this one.
fn remove(transaction: &Transaction<'_>, plan: PlanId, head: Seq) -> rusqlite::Result<bool> {
    let remove = "DELETE FROM plans WHERE id = ?1 AND head = ?2 AND state = 'stopped'";
    let mut remove = transaction.prepare_cached(remove)?;
    if remove.execute(params![plan.to_bytes(), head])? == 0 {
        return Ok(false);
    }
    let mut entry =
        transaction.prepare_cached("DELETE FROM journal WHERE seq = ?1 RETURNING prev")?;
    let mut seq = Some(head);
    while let Some(at) = seq {
        seq = entry.query_row([at], |row| row.get(0)).optional()?;
    }
    transaction.prepare_cached("DELETE FROM keys WHERE plan = ?1")?.execute([plan.to_bytes()])?;
    let snapshots = "DELETE FROM turnwheel_snapshots WHERE plan = ?1";
    transaction.prepare_cached(snapshots)?.execute([plan.to_bytes()])?;
    let works = "DELETE FROM turnwheel_works WHERE plan = ?1";
    transaction.prepare_cached(works)?.execute([plan.to_bytes()])?;
    values::remove(transaction, plan)?;
    states::forget(transaction, plan)?;
    Ok(true)
}

impl Drop for Writer {
    /// Says that the end was a good one. It must not be said when another writer has taken over.
    ///
    /// It is not waited for: the log is synced when it is put into the file, right after this if no other
    /// connection is open, and what is lost with the power is a check that the next start can do.
    fn drop(&mut self) {
        let is_full = |mode: i64| mode > SYNC_NORMAL;
        let mode = self.connection.pragma_query_value(None, "synchronous", |row| row.get(0));
        if mode.is_ok_and(is_full) {
            let set = self.connection.pragma_update(None, "synchronous", SYNC_NORMAL);
            if let Err(error) = set {
                tracing::debug!(%error, "the end of a store waits for the disk once more");
            }
        }
        let write = "UPDATE meta SET value = 1 WHERE name = 'clean'
             AND (SELECT value FROM meta WHERE name = 'epoch') = ?1";
        if let Err(error) = self.connection.execute(write, [self.epoch]) {
            tracing::debug!(%error, "the next start will check the store");
        }
    }
}

/// Takes the lock for writing at once: a transaction that read first could not be made to write.
fn begin(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

/// Takes and gives back the locks of an entry; the verdict if one is taken.
fn lock(transaction: &Transaction<'_>, append: &Append) -> rusqlite::Result<Option<Verdict>> {
    let plan = append.plan.to_bytes();
    for name in &append.take {
        let mut read = transaction.prepare_cached("SELECT plan FROM locks WHERE name = ?1")?;
        let holder: Option<[u8; 16]> = read.query_row([name], |row| row.get(0)).optional()?;
        if let Some(holder) = holder.filter(|holder| *holder != plan) {
            let holder = PlanId::from_bytes(holder);
            return Ok(Some(Verdict::LockTaken { name: name.clone(), holder }));
        }
    }
    for name in &append.take {
        let write = "INSERT OR REPLACE INTO locks (name, plan) VALUES (?1, ?2)";
        transaction.prepare_cached(write)?.execute(params![name, plan])?;
    }
    append.release.iter().try_for_each(|name| free(transaction, name, append.plan))?;
    Ok(None)
}

/// A lock is free, if it is of this plan.
fn free(transaction: &Transaction<'_>, name: &str, plan: PlanId) -> rusqlite::Result<()> {
    let write = "DELETE FROM locks WHERE name = ?1 AND plan = ?2";
    transaction.prepare_cached(write)?.execute(params![name, plan.to_bytes()]).map(|_| ())
}

/// Keeps which plans the plan of an entry waits for.
fn follow(transaction: &Transaction<'_>, append: &Append) -> rusqlite::Result<()> {
    let plan = append.plan.to_bytes();
    for before in &append.follow {
        let write = "INSERT OR IGNORE INTO turnwheel_followers (plan, follower) VALUES (?1, ?2)";
        transaction.prepare_cached(write)?.execute(params![before.to_bytes(), plan])?;
    }
    for before in &append.unfollow {
        let write = "DELETE FROM turnwheel_followers WHERE plan = ?1 AND follower = ?2";
        transaction.prepare_cached(write)?.execute(params![before.to_bytes(), plan])?;
    }
    Ok(())
}

fn write_append(
    transaction: &Transaction<'_>,
    append: &Append,
    last: &mut Seq,
) -> rusqlite::Result<Verdict> {
    if let Some(key) = &append.key {
        let mut read = transaction.prepare_cached("SELECT plan FROM keys WHERE key = ?1")?;
        let holder: Option<[u8; 16]> = read.query_row([key], |row| row.get(0)).optional()?;
        if let Some(holder) = holder {
            return Ok(Verdict::KeyTaken(PlanId::from_bytes(holder)));
        }
    }
    if let Some(taken) = lock(transaction, append)? {
        return Ok(taken);
    }
    if let Some(key) = &append.key {
        let write = "INSERT INTO keys (key, plan) VALUES (?1, ?2)";
        transaction.prepare_cached(write)?.execute(params![key, append.plan.to_bytes()])?;
    }
    follow(transaction, append)?;
    let seq = *last + 1;
    let write = "INSERT INTO journal (seq, plan, prev, records) VALUES (?1, ?2, ?3, ?4)";
    transaction.prepare_cached(write)?.execute(params![
        seq,
        append.plan.to_bytes(),
        append.prev,
        values::keep(transaction, append.plan, &append.records)?
    ])?;
    *last = seq;
    Ok(Verdict::Written(seq))
}

fn write_row(transaction: &Transaction<'_>, row: &PlanRow) -> rusqlite::Result<()> {
    if let Some((seq, bytes)) = &row.snapshot {
        let write =
            "INSERT OR REPLACE INTO turnwheel_snapshots (plan, seq, bytes) VALUES (?1, ?2, ?3)";
        let bytes = values::keep(transaction, row.id, bytes)?;
        transaction.prepare_cached(write)?.execute(params![row.id.to_bytes(), seq, bytes])?;
    }
    let write =
        "INSERT INTO plans (id, head, state, result, label, created_at, started_at, ended_at,
             wakes_at, is_busy, caller_plan, caller_step, waits_for, action, by, labels, waits)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
         ON CONFLICT (id) DO UPDATE SET head = excluded.head, state = excluded.state,
             result = excluded.result, label = excluded.label, started_at = excluded.started_at,
             ended_at = excluded.ended_at, wakes_at = excluded.wakes_at, is_busy = excluded.is_busy,
             waits_for = excluded.waits_for, labels = excluded.labels, waits = excluded.waits";
    transaction.prepare_cached(write)?.execute(params![
        row.id.to_bytes(),
        row.head,
        row.state.name(),
        row.result.name(),
        row.label,
        moment(row.created_at),
        row.started_at.map(moment),
        row.ended_at.map(moment),
        row.wakes_at.map(moment),
        row.is_busy,
        row.caller.map(|(plan, _)| plan.to_bytes()),
        row.caller.map(|(_, step)| step.0),
        row.waits_for,
        row.action,
        row.by,
        labels(&row.labels),
        row.waits.name(),
    ])?;
    Ok(())
}

/// Labels as the file keeps them: an object of JSON.
fn labels(labels: &BTreeMap<String, String>) -> Cow<'static, str> {
    if labels.is_empty() {
        return Cow::Borrowed("{}");
    }
    Cow::Owned(serde_json::to_string(labels).expect("texts are JSON"))
}

/// A time as the file keeps it: what is beyond its numbers becomes the latest that it can hold.
pub(super) fn moment(time: Time) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}

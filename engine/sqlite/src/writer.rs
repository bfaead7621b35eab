//! The writing end: one transaction for each batch.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, Row, Transaction, TransactionBehavior};
use turnwheel_engine::limits::STORE_BYTES_MAX;
use turnwheel_engine::store::{
    Batch, Change, Hold, Removal, RowWrite, ScheduleWrite, Seq, StoreWriter, Swap, Tallies, Upkeep,
    Verdict, Worlds, WorldsWrite,
};
use turnwheel_engine::{PlanId, StoreError};

use crate::ballast::{self, Ballast};
use crate::counts::Counts;
use crate::error::failure;
use crate::head::Head;
use crate::identity::Files;
use crate::keeper::{pages, Log};
use crate::lock::Lock;
use crate::path::real;
use crate::room::Room;
use crate::rows::RowWriter;
use crate::statements::{entry_writer, free, remove, write_append, NOW};
use crate::{schedules, states, tallies, work, worlds};

/// Answer of `PRAGMA synchronous` for `NORMAL`.
const SYNC_NORMAL: i64 = 1;

/// Why nothing was written.
enum Refusal {
    Failed(rusqlite::Error),
    Told(StoreError),
    Fenced {
        epoch: u64,
        newest: u64,
    },
    /// The work of this change was stopped, and everything was rolled back with it.
    Stopped {
        change: usize,
    },
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Told(error)
    }
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
    pub(super) head: Arc<Head>,
}

pub(super) struct Writer {
    connection: Connection,
    epoch: u64,
    last: Seq,
    path: PathBuf,
    /// The write-ahead log.
    log_path: PathBuf,
    /// The files that it has opened.
    files: Files,
    beside: Beside,
    /// The size of the file that the connection knows of.
    bytes_max: u64,
    /// The owners of plans, as of the last transaction.
    worlds: Worlds,
    /// No other process writes as long as this one may. All writers of a store share it.
    lock: Arc<Lock>,
}

impl Writer {
    /// Takes the next number. An earlier writer is refused from now on if the store is taken
    /// `alone`.
    pub(super) fn new(
        mut connection: Connection,
        path: PathBuf,
        beside: Beside,
        lock: Arc<Lock>,
        alone: bool,
    ) -> Result<Self, StoreError> {
        let number = |connection: &mut Connection| -> rusqlite::Result<(u64, Seq)> {
            let transaction = begin(connection)?;
            let next = "UPDATE meta SET value = value + 1 WHERE name = 'epoch' RETURNING value";
            let epoch: u64 = transaction.query_row(next, [], |row| row.get(0))?;
            transaction.execute("UPDATE meta SET value = 0 WHERE name = 'clean'", [])?;
            let last: Seq = transaction.query_row(NOW, [], |row| row.get(2))?;
            let mark = "INSERT INTO turnwheel_marks SELECT ?1, coalesce(min(projected),
                (SELECT value FROM meta WHERE name = 'projected')) FROM turnwheel_marks";
            transaction.execute(mark, [epoch])?;
            if alone {
                transaction.execute("UPDATE meta SET value = ?1 WHERE name = 'fence'", [epoch])?;
                transaction.execute(
                    "UPDATE meta SET value = max(value, (SELECT max(projected) FROM turnwheel_marks))
                     WHERE name = 'projected'",
                    [],
                )?;
                transaction.execute("DELETE FROM turnwheel_marks WHERE writer < ?1", [epoch])?;
            }
            transaction.commit()?;
            Ok((epoch, last))
        };
        let (epoch, last) = number(&mut connection).map_err(|error| failure(&error))?;
        beside.head.open(&real(&path)?, last, &connection);
        let files = Files::of(&path)?;
        let worlds = worlds::all(&connection)?;
        connection.set_prepared_statement_cache_capacity(32);
        Ok(Self {
            connection,
            epoch,
            last,
            log_path: beside_real(&path)?,
            path,
            files,
            beside,
            bytes_max: STORE_BYTES_MAX,
            worlds,
            lock,
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
        let mut last = look_again(&transaction, self.epoch, &mut self.worlds)?;
        let mut verdicts = Vec::with_capacity(batch.appends.len() + batch.changes.len());
        let mut entries = entry_writer(&transaction)?;
        for append in batch.appends {
            verdicts.push(match self.worlds.admit(Hold::of(append.plan, append.epoch)) {
                Ok(()) => write_append(&transaction, &mut entries, append, &mut last)?,
                Err(owner) => owner.into(),
            });
        }
        for (place, change) in batch.changes.iter().enumerate() {
            let (hold, change) = change.parts();
            if let Err(owner) = hold.map_or(Ok(()), |hold| self.worlds.admit(hold)) {
                verdicts.push(owner.into());
                continue;
            }
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
        drop(entries);
        if !batch.rows.is_empty() {
            write_rows(&transaction, batch.rows, &self.worlds)?;
            let write =
                "UPDATE turnwheel_marks SET projected = max(projected, ?1) WHERE writer = ?2";
            transaction.prepare_cached(write)?.execute([batch.projected, self.epoch])?;
        }
        transaction.commit()?;
        Ok((verdicts, last))
    }

    fn swap_worlds(&mut self, write: &WorldsWrite) -> Result<Swap, Refusal> {
        let transaction = begin(&mut self.connection)?;
        look_again(&transaction, self.epoch, &mut self.worlds)?;
        let mut worlds = self.worlds.clone();
        let swap = worlds.swap(write);
        if swap == Swap::Done {
            worlds::write(&transaction, write, &self.worlds, &worlds)?;
            transaction.commit()?;
            self.worlds = worlds;
        }
        Ok(swap)
    }

    fn swap(&mut self, writes: &[ScheduleWrite]) -> Result<Vec<Swap>, Refusal> {
        let transaction = begin(&mut self.connection)?;
        look_again(&transaction, self.epoch, &mut self.worlds)?;
        let mut swaps = Vec::with_capacity(writes.len());
        for write in writes {
            swaps.push(match self.worlds.admit(write.hold()) {
                Ok(()) => schedules::write(&transaction, write)?,
                Err(owner) => Swap::Moved { epoch: owner.epoch },
            });
        }
        transaction.commit()?;
        Ok(swaps)
    }
}

impl Writer {
    /// The names still lead to the files that are open.
    fn is_in_place(&self) -> Result<(), StoreError> {
        self.files.check()
    }

    /// Writes what a start and a removal cannot do without: on a full disk with the room that the
    /// ballast takes.
    fn with_ballast<T>(
        &mut self,
        mut write: impl FnMut(&mut Self) -> Result<T, Refusal>,
    ) -> Result<T, StoreError> {
        match write(self).map_err(Refusal::told) {
            Err(error) if Ballast::may_help(&self.path, &error) => {
                let (ballast, log) =
                    (Arc::clone(&self.beside.ballast), Arc::clone(&self.beside.log));
                let path = self.path.clone();
                ballast.without(&path, &log, || {
                    ballast::shorten(&self.connection).map_err(|error| failure(&error))?;
                    let written = write(self).map_err(Refusal::told)?;
                    // What is written stays so, also if its log cannot be moved yet.
                    if let Err(error) = ballast::shorten(&self.connection) {
                        tracing::debug!(%error, "the log stays as long as it is");
                    }
                    Ok(written)
                })
            }
            written => written,
        }
    }

    /// Counts pages that were added to the log.
    fn note_log(&self, pages: u64) {
        let file_bytes = std::fs::metadata(&self.log_path).map_or(0, |file| file.len());
        self.beside.log.add(pages, file_bytes);
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

    fn remove_all(&mut self, plans: &[Removal]) -> Result<usize, Refusal> {
        let transaction = begin(&mut self.connection)?;
        look_again(&transaction, self.epoch, &mut self.worlds)?;
        let (mut count, mut counts) = (0, Counts::default());
        for Removal { plan, head, epoch } in plans {
            let is_held = self.worlds.admit(Hold::of(*plan, *epoch)).is_ok();
            count += usize::from(is_held && remove(&transaction, *plan, *head, &mut counts)?);
        }
        counts.write(&transaction)?;
        transaction.commit()?;
        self.note_log(plans.len() as u64 * 2);
        Ok(count)
    }

    fn free_all(&mut self, locks: &[(String, PlanId)]) -> Result<(), Refusal> {
        let transaction = begin(&mut self.connection)?;
        look_again(&transaction, self.epoch, &mut self.worlds)?;
        for (name, plan) in locks {
            free(&transaction, name, *plan)?;
        }
        transaction.commit()?;
        self.note_log(locks.len() as u64);
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

    fn remove(&mut self, plans: &[Removal]) -> Result<usize, StoreError> {
        self.is_in_place()?;
        self.with_ballast(|writer| writer.remove_all(plans))
    }

    fn free(&mut self, locks: &[(String, PlanId)]) -> Result<(), StoreError> {
        self.is_in_place()?;
        self.with_ballast(|writer| writer.free_all(locks))
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
                    self.beside.head.tell(last);
                    self.note_log(pages(batch));
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
        self.is_in_place()?;
        self.with_ballast(|writer| writer.swap_worlds(write))
    }
}

impl Refusal {
    fn told(self) -> StoreError {
        match self {
            Self::Failed(error) => failure(&error),
            Self::Told(error) => error,
            Self::Fenced { epoch, newest } => StoreError::Fenced { epoch, newest },
            Self::Stopped { .. } => StoreError::Failed("a step's work was stopped".to_owned()),
        }
    }
}

/// Brings rows up to date, if their slots are still those of the writer.
fn write_rows(
    transaction: &Transaction<'_>,
    rows: &[RowWrite],
    worlds: &Worlds,
) -> rusqlite::Result<()> {
    let (mut writer, mut counts) = (RowWriter::new(transaction)?, Counts::default());
    let mut ended = Tallies::default();
    for RowWrite { row, epoch, is_refresh } in rows {
        if worlds.admit(Hold::of(row.id, *epoch)).is_ok() {
            writer.write(row, *is_refresh, (&mut counts, &mut ended))?;
        }
    }
    tallies::write(transaction, ended)?;
    counts.write(transaction)
}

/// Part of each transaction: whether no other writer has taken the store for itself, and what
/// others have changed since. Returns the newest place that is taken.
fn look_again(
    transaction: &Transaction<'_>,
    epoch: u64,
    worlds: &mut Worlds,
) -> Result<Seq, Refusal> {
    let now = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let (fence, version, last): (u64, u64, Seq) =
        transaction.prepare_cached(NOW)?.query_row([], now)?;
    if fence > epoch {
        return Err(Refusal::Fenced { epoch, newest: fence });
    }
    if version != worlds.version {
        *worlds = worlds::all(transaction)?;
    }
    Ok(last)
}

impl Drop for Writer {
    /// Says that the end was a good one, if this is the last writer of the store.
    ///
    /// It is not waited for: the log is synced when it is put into the file, right after this if no
    /// other connection is open, and what is lost with the power is a check that the next start can
    /// do.
    fn drop(&mut self) {
        if Arc::strong_count(&self.lock) > 1 {
            return;
        }
        let is_full = |mode: i64| mode > SYNC_NORMAL;
        let mode = self.connection.pragma_query_value(None, "synchronous", |row| row.get(0));
        if mode.is_ok_and(is_full) {
            let set = self.connection.pragma_update(None, "synchronous", SYNC_NORMAL);
            if let Err(error) = set {
                tracing::debug!(%error, "the end of a store waits for the disk once more");
            }
        }
        let write = "UPDATE meta SET value = 1 WHERE name = 'clean'";
        if let Err(error) = self.connection.execute(write, []) {
            tracing::debug!(%error, "the next start will check the store");
        }
    }
}

/// The write-ahead log of a store: beside the file itself, wherever links to it are.
fn beside_real(path: &Path) -> Result<PathBuf, StoreError> {
    let mut log = real(path)?.into_os_string();
    log.push("-wal");
    Ok(log.into())
}

/// Takes the lock for writing at once: a transaction that read first could not be made to write.
fn begin(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

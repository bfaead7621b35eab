//! Work that is done beside the writer: checkpoints; and by hand: backup, restore, the check of a file.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::{beside, failure, identity, lock::Lock, schema, SqliteStore};
use crate::error::StoreError;
use crate::limits::{LOG_PAGES_MAX, LOG_PAGES_SOON, LOG_RESTART_WAIT};
use crate::store::{Batch, PlanRow, StoreKeeper, Upkeep};

/// Bytes of a page.
const PAGE: usize = 4_096;

/// Problems of a damaged file that are told.
const PROBLEMS: usize = 10;

/// The write-ahead log, as far as it is known without looking at it.
#[derive(Debug, Default)]
pub(super) struct Log(Mutex<Pages>);

#[derive(Debug)]
struct Pages {
    /// Added since the last checkpoint began, as the writer guesses it.
    added: u64,
    /// In the log, at the last checkpoint: it begins anew only when nothing is left and nobody
    /// reads it.
    length: u64,
    /// The length at which the writer makes it begin anew.
    restart_at: u64,
    /// The length at which a store with a ballast adds nothing before it is moved.
    limit: u64,
}

impl Default for Pages {
    fn default() -> Self {
        Self { added: 0, length: 0, restart_at: LOG_PAGES_MAX, limit: u64::MAX }
    }
}

impl Log {
    pub(super) fn add(&self, pages: u64) {
        self.0.lock().added += pages;
    }

    /// Sets the length at which nothing is added before the log is moved; 0 for none.
    pub(super) fn limit(&self, pages: u64) {
        self.0.lock().limit = if pages == 0 { u64::MAX } else { pages };
    }

    pub(super) fn is_over_limit(&self) -> bool {
        let pages = self.0.lock();
        pages.length.saturating_add(pages.added) >= pages.limit
    }

    pub(super) fn upkeep(&self) -> Upkeep {
        let Pages { added, length, restart_at, .. } = *self.0.lock();
        // While commits go on, what they add meanwhile is never moved beside them: only between two
        // commits can the log become empty, and begin anew.
        if length + added >= restart_at {
            Upkeep::Now
        } else if added >= LOG_PAGES_SOON {
            Upkeep::Soon
        } else {
            Upkeep::None
        }
    }

    /// Moves pages from the log to the file, as far as nobody needs them in the log.
    pub(super) fn checkpoint(&self, connection: &Connection) -> rusqlite::Result<()> {
        self.move_pages(connection, "PRAGMA wal_checkpoint(PASSIVE)")
    }

    /// Moves all pages, so that the log begins anew. For the writer, between two commits.
    pub(super) fn restart(&self, connection: &Connection) -> rusqlite::Result<()> {
        let before: u64 = connection.query_row("PRAGMA busy_timeout", [], |row| row.get(0))?;
        connection.busy_timeout(LOG_RESTART_WAIT)?;
        let moved = self.move_pages(connection, "PRAGMA wal_checkpoint(RESTART)");
        connection.busy_timeout(Duration::from_millis(before))?;
        moved
    }

    fn move_pages(&self, connection: &Connection, how: &str) -> rusqlite::Result<()> {
        let before = self.0.lock().added;
        let mut checkpoint = connection.prepare_cached(how)?;
        let (is_busy, log) =
            checkpoint.query_row([], |row| Ok((row.get::<_, bool>(0)?, row.get::<_, i64>(1)?)))?;
        let Ok(log) = u64::try_from(log) else {
            // Somebody else is at it.
            return Ok(());
        };
        let mut pages = self.0.lock();
        // Entries added meanwhile are kept.
        pages.added -= before.min(pages.added);
        pages.length = log;
        pages.restart_at = LOG_PAGES_MAX;
        if how.contains("RESTART") {
            if is_busy {
                pages.restart_at = LOG_PAGES_MAX.max(log + LOG_PAGES_SOON);
            } else {
                pages.length = 0;
            }
        }
        Ok(())
    }
}

/// Keeps the log short, over a connection of its own.
pub(super) struct Keeper {
    pub(super) connection: Connection,
    pub(super) log: Arc<Log>,
}

impl StoreKeeper for Keeper {
    fn keep(&mut self) -> Result<(), StoreError> {
        self.log.checkpoint(&self.connection).map_err(|error| failure(&error))
    }
}

impl SqliteStore {
    /// Moves what is committed from the write-ahead log to its place in the file, as far as no reader is
    /// in the way. A world does it by itself, beside its writer.
    ///
    /// Cost: the pages that were written since the last time, and two syncs.
    ///
    /// # Errors
    ///
    /// The file cannot be opened or written.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        let connection = self.connect()?;
        self.log.checkpoint(&connection).map_err(|error| self.failed(&error))
    }

    /// Copies the store into a new file, as it is at one moment, while worlds go on writing.
    ///
    /// Cost: the whole file is read and written once. The write-ahead log is not shortened meanwhile.
    ///
    /// ```
    /// use turnwheel_engine::{SqliteStore, Store};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let store = SqliteStore::new(folder.path().join("plans.db"));
    /// let writer = store.writer()?;
    /// store.backup(folder.path().join("backup.db"))?;
    /// drop(writer);
    /// let copy = SqliteStore::restore(folder.path().join("backup.db"), folder.path().join("copy.db"))?;
    /// assert!(copy.check()?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// There is a file of this name, or one of the two cannot be read or written. What was written of
    /// the copy is removed.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<(), StoreError> {
        copy(&self.connect()?, to.as_ref())
    }

    /// Makes a store from a backup, after a check of it.
    ///
    /// # Errors
    ///
    /// The backup is damaged, too new, or no store; there is a file of the new name.
    pub fn restore(backup: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Self, StoreError> {
        let (backup, to) = (backup.as_ref(), to.as_ref());
        let told = |error: &rusqlite::Error| match failure(error) {
            StoreError::Failed(text) => StoreError::Failed(format!("{}: {text}", backup.display())),
            other => other,
        };
        let source = Connection::open_with_flags(backup, OpenFlags::SQLITE_OPEN_READ_ONLY)
            .map_err(|error| told(&error))?;
        schema::check(&source, &backup.display().to_string())?;
        let problems = quick_check(&source).map_err(|error| told(&error))?;
        if !problems.is_empty() {
            return Err(StoreError::Corrupt(format!(
                "{}: {}",
                backup.display(),
                problems.join("; ")
            )));
        }
        let store = Self::new(to);
        let _lock = Lock::take(&super::real(to)?)?;
        copy(&source, to)?;
        Ok(store)
    }

    /// Reads the whole file and says what is damaged; nothing if all is well.
    ///
    /// Cost: the whole file is read.
    ///
    /// # Errors
    ///
    /// The file cannot be opened.
    pub fn check(&self) -> Result<Vec<String>, StoreError> {
        quick_check(&self.connect()?).map_err(|error| self.failed(&error))
    }
}

/// What SQLite finds wrong with a file.
pub(super) fn quick_check(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let problems = || -> rusqlite::Result<Vec<String>> {
        let mut check = connection.prepare(&format!("PRAGMA quick_check({PROBLEMS})"))?;
        let problems = check.query_map([], |row| row.get(0))?;
        problems.collect()
    };
    match problems() {
        Ok(problems) if problems == ["ok"] => Ok(Vec::new()),
        // Damage may also be what it stumbles over.
        Err(error) if matches!(failure(&error), StoreError::Corrupt(_)) => {
            Ok(vec![error.to_string()])
        }
        problems => problems,
    }
}

/// Copies a database into a new file, under another name until it is whole.
fn copy(source: &Connection, to: &Path) -> Result<(), StoreError> {
    let failed =
        |error: &dyn std::fmt::Display| StoreError::Failed(format!("{}: {error}", to.display()));
    if to.exists() {
        return Err(failed(&"there is such a file: remove it, or take another name"));
    }
    let part = beside(to, ".part");
    if part.exists() {
        fs::remove_file(&part).map_err(|error| failed(&error))?;
    }
    identity::make_private(&part).map_err(|error| failed(&error))?;
    let whole = || -> rusqlite::Result<StepResult> {
        let mut target = Connection::open(&part)?;
        // All in one step: it reads one state of the source, and writers are not in its way.
        let backup = Backup::new(source, &mut target)?;
        backup.step(-1)
    };
    let copied = match whole() {
        Ok(StepResult::Done) => fs::File::open(&part)
            .and_then(|file| file.sync_all())
            .and_then(|()| fs::rename(&part, to))
            .map_err(|error| failed(&error)),
        Ok(_) => Err(failed(&"the source is locked by somebody else")),
        Err(error) => Err(failed(&error)),
    };
    if copied.is_err() {
        if let Err(error) = fs::remove_file(&part) {
            tracing::warn!(file = %part.display(), %error, "a part of a copy is left behind");
        }
    }
    copied
}

/// About how many pages a batch adds to the log.
pub(super) fn pages(batch: &Batch<'_>) -> u64 {
    let snapshot = |row: &PlanRow| row.snapshot.as_ref().map_or(0, |(_, bytes)| bytes.len());
    let entries: usize = batch.appends.iter().map(|append| append.records.len() + 32).sum();
    let rows: usize = batch.rows.iter().map(|write| snapshot(&write.row) + PAGE).sum();
    let keys = batch.appends.iter().filter(|append| append.key.is_some()).count() * 2;
    let changes: usize = batch.changes.iter().map(|change| change.bytes() + PAGE).sum();
    ((entries + rows + changes) / PAGE + keys + 3) as u64
}

//! The store in one SQLite file.

mod reader;
mod schema;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode};

use super::{Store, StoreReader, StoreWriter};
use crate::error::StoreError;

/// When the store waits for the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SqliteSync {
    /// At each commit: what was acknowledged survives a loss of power.
    #[default]
    Full,
    /// At checkpoints only: a loss of power may take the last commits, a crash of the process does not.
    Normal,
    /// Never: a loss of power may damage the file. For tests and data that can be made again.
    Off,
}

impl SqliteSync {
    const fn pragma(self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::Normal => "NORMAL",
            Self::Off => "OFF",
        }
    }
}

/// A store in one SQLite file (with its `-wal` and `-shm` beside it, and a `.lock` while it is open).
#[derive(Clone)]
pub struct SqliteStore {
    path: PathBuf,
    sync: SqliteSync,
    /// Held as long as the store is open for writing, so that no second process writes.
    lock: Arc<Mutex<Option<Lock>>>,
}

/// The locked file beside the store.
#[derive(Debug)]
struct Lock(#[expect(dead_code, reason = "its lock ends with it")] std::fs::File);

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, sync) = (&self.path, self.sync);
        f.debug_struct("SqliteStore").field("path", path).field("sync", &sync).finish()
    }
}

impl SqliteStore {
    /// The store in this file, which is made if it does not exist. Nothing is opened yet.
    pub fn new(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref().to_owned();
        Self { path, sync: SqliteSync::default(), lock: Arc::default() }
    }

    /// When it waits for the disk; [`SqliteSync::Full`] unless said otherwise.
    #[must_use]
    pub fn sync(mut self, sync: SqliteSync) -> Self {
        self.sync = sync;
        self
    }

    /// Moves what is committed from the write-ahead log to its place in the file, as far as no reader is
    /// in the way. Commits go on meanwhile.
    ///
    /// Cost: the pages that were written since the last time, and two syncs.
    ///
    /// # Errors
    ///
    /// The file cannot be opened or written.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        let connection = self.connect()?;
        let mut done = connection
            .prepare("PRAGMA wal_checkpoint(PASSIVE)")
            .map_err(|error| self.failed(&error))?;
        done.query_row([], |_| Ok(())).map_err(|error| self.failed(&error))
    }

    fn connect(&self) -> Result<Connection, StoreError> {
        let connection = Connection::open(&self.path).map_err(|error| self.failed(&error))?;
        connection
            .execute_batch(&format!(
                "PRAGMA journal_mode = WAL;
                 PRAGMA synchronous = {};
                 PRAGMA busy_timeout = 10000;
                 PRAGMA temp_store = MEMORY;
                 PRAGMA cache_size = -16384;",
                self.sync.pragma()
            ))
            .map_err(|error| self.failed(&error))?;
        Ok(connection)
    }

    fn failed(&self, error: &rusqlite::Error) -> StoreError {
        match failure(error) {
            StoreError::Failed(problem) => {
                StoreError::Failed(format!("{}: {problem}", self.path.display()))
            }
            other => other,
        }
    }

    /// Locks the file beside the store: a second process is told who has it.
    fn lock(&self) -> Result<Lock, StoreError> {
        let mut name = self.path.clone().into_os_string();
        name.push(".lock");
        let failed = |error: std::io::Error| {
            StoreError::Failed(format!("{}: {error}", Path::new(&name).display()))
        };
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&name)
            .map_err(failed)?;
        if !fs4::fs_std::FileExt::try_lock_exclusive(&file).map_err(failed)? {
            let holder = std::fs::read_to_string(&name).unwrap_or_default();
            let holder = if holder.is_empty() { "another process" } else { holder.trim() };
            let store = self.path.display().to_string();
            return Err(StoreError::InUse { store, holder: holder.to_owned() });
        }
        file.set_len(0).map_err(failed)?;
        use std::io::Write;
        writeln!(file, "process {}", std::process::id()).map_err(failed)?;
        Ok(Lock(file))
    }
}

impl Store for SqliteStore {
    fn writer(&self) -> Result<Box<dyn StoreWriter>, StoreError> {
        let mut lock = self.lock.lock();
        if lock.is_none() {
            *lock = Some(self.lock()?);
        }
        let connection = self.connect()?;
        schema::prepare(&connection, &self.name())?;
        let writer = writer::Writer::new(connection).map_err(|error| self.failed(&error))?;
        Ok(Box::new(writer))
    }

    fn reader(&self) -> Result<Box<dyn StoreReader>, StoreError> {
        Ok(Box::new(reader::Reader::new(self.connect()?)))
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

/// What an error of SQLite means for us.
fn failure(error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full(error.to_string()),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Corrupt(error.to_string())
        }
        _ => StoreError::Failed(error.to_string()),
    }
}

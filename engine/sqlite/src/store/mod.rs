//! The store in one SQLite file.

mod copy;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};
use turnwheel_engine::limits::LOG_BYTES_KEPT;
use turnwheel_engine::store::{Store, StoreKeeper, StoreReader, StoreView, StoreWriter};
use turnwheel_engine::StoreError;

use crate::ballast::Ballast;
use crate::check::quick_check;
use crate::error::failure;
use crate::head::{Head, Missing};
use crate::keeper::{Keeper, Log};
use crate::lock::Lock;
use crate::path::real;
use crate::room::Room;
use crate::writer::{Beside, Writer};
use crate::{ballast, identity, reader, schema};

/// When the store waits for the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SqliteSync {
    /// At each commit: what was acknowledged survives a loss of power.
    #[default]
    Full,
    /// At checkpoints only: a loss of power may take the last commits, a crash of the process does
    /// not.
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

/// When a file is checked for damage before it is used. The whole file is read for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SqliteCheck {
    /// When the world before did not end well; a damaged file is refused with
    /// [`StoreError::Corrupt`]: restore it from a backup.
    #[default]
    AfterCrash,
    /// Never: what is damaged is found when it is read, and plans that it does not hit go on.
    Never,
}

/// A store in one SQLite file (with its `-wal` and `-shm` beside it, and a `.lock` while it is
/// open).
#[derive(Clone)]
pub struct SqliteStore {
    path: PathBuf,
    sync: SqliteSync,
    /// Held by the writers, so that no second process writes.
    lock: Arc<Mutex<Weak<Lock>>>,
    room: Arc<Room>,
    log: Arc<Log>,
    ballast: Arc<Ballast>,
    head: Arc<Head>,
    check: SqliteCheck,
}

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
        Self {
            path,
            sync: SqliteSync::default(),
            lock: Arc::default(),
            room: Arc::default(),
            log: Arc::default(),
            ballast: Arc::default(),
            head: Arc::default(),
            check: SqliteCheck::default(),
        }
    }

    /// When it waits for the disk; [`SqliteSync::Full`] unless said otherwise.
    #[must_use]
    pub fn sync(mut self, sync: SqliteSync) -> Self {
        self.sync = sync;
        self
    }

    /// How large the file may become, in bytes, instead of as large as the disk has room for. It
    /// can be changed while worlds use the store. What does not fit is refused with
    /// [`StoreError::Full`].
    pub fn set_bytes_max(&self, bytes: u64) {
        self.room.set_bytes_max(bytes);
    }

    /// Bytes that are kept for plans that are under way: when less is left, of the disk or of
    /// [`set_bytes_max`](Self::set_bytes_max), new plans are refused with [`StoreError::Full`]. 0
    /// takes them until nothing is left.
    /// [`STORE_RESERVE_BYTES`](turnwheel_engine::limits::STORE_RESERVE_BYTES) if nothing is said;
    /// it can be changed while worlds use the store.
    pub fn set_reserve(&self, bytes: u64) {
        self.room.set_reserve(bytes);
    }

    /// When the file is checked before it is used; after a crash unless said otherwise.
    #[must_use]
    pub fn check_at_start(mut self, check: SqliteCheck) -> Self {
        self.check = check;
        self
    }

    /// Looks at the file without taking it: a process that has it is not disturbed.
    ///
    /// # Errors
    ///
    /// There is no such file, or it is no store of this version.
    pub fn view(&self) -> Result<StoreView, StoreError> {
        let name = self.name();
        if !self.path.is_file() {
            return Err(StoreError::Failed(format!("there is no file {name}")));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection =
            Connection::open_with_flags(&self.path, flags).map_err(|error| self.failed(&error))?;
        schema::check_whole(&connection, &name)?;
        drop(connection);
        StoreView::of(self)
    }

    /// Says how the process that has the store can be reached: others who try to take it are told
    /// so, in [`StoreError::InUse`]. It is forgotten when the store is given back.
    ///
    /// # Errors
    ///
    /// The store is not open for writing, or what is said cannot be written.
    pub fn announce(&self, address: &str) -> Result<(), StoreError> {
        let lock = self.lock.lock().upgrade().ok_or_else(|| {
            StoreError::Failed(format!("{}: it is not open for writing", self.name()))
        })?;
        lock.say(address)
            .map_err(|error| StoreError::Failed(format!("{}.lock: {error}", self.name())))
    }

    /// The process that has the store, in the words of [`StoreError::InUse`]; nothing if none has
    /// it.
    ///
    /// # Errors
    ///
    /// It cannot be found out.
    pub fn holder(&self) -> Result<Option<String>, StoreError> {
        if self.lock.lock().upgrade().is_some() {
            return Ok(Some(format!("process {}", std::process::id())));
        }
        Lock::holder(&real(&self.path)?)
    }

    /// Moves what is committed from the write-ahead log to its place in the file, as far as no
    /// reader is in the way. A world does it by itself, beside its writer.
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

    /// Keeps so many bytes of the disk in a file beside the store, `-ballast`. A start on a full
    /// disk gives them up to move the log into the file, and a removal of plans to write at all;
    /// then the file is made again. A new one takes at most a quarter of what is free. 0, the
    /// default, makes none.
    pub fn set_ballast(&self, bytes: u64) {
        self.ballast.set_bytes(bytes);
    }

    /// Commits that were acknowledged and that the file did not have when it was opened, since its
    /// log was damaged; the log of the process says so, too. The file goes on without them.
    pub fn missing(&self) -> Option<Missing> {
        self.head.missing()
    }

    /// Why it is not known whether commits were [missing](Self::missing) when the file was opened:
    /// the file `-head` beside it, in which the newest acknowledged place is kept, is missing,
    /// damaged or of another store. The log of the process says so, too.
    pub fn unknown(&self) -> Option<String> {
        self.head.problem()
    }

    /// Moves all of the log into the file and gives its room back.
    fn shorten(&self) -> Result<(), StoreError> {
        ballast::shorten(&self.connect()?).map_err(|error| self.failed(&error))
    }

    fn connect(&self) -> Result<Connection, StoreError> {
        identity::refuse_remains(&self.path)?;
        let connection = Connection::open(&self.path).map_err(|error| self.failed(&error))?;
        connection
            .execute_batch(&format!(
                "PRAGMA journal_mode = WAL;
                 PRAGMA journal_size_limit = {LOG_BYTES_KEPT};
                 PRAGMA synchronous = {};
                 PRAGMA wal_autocheckpoint = 0;
                 PRAGMA busy_timeout = 10000;
                 PRAGMA temp_store = MEMORY;
                 PRAGMA cache_size = -16384;",
                self.sync.pragma()
            ))
            .map_err(|error| self.failed(&error))?;
        Ok(connection)
    }

    /// When a connection waits for the disk, as far as this store does at all.
    fn wait_for_disk(&self, connection: &Connection, sync: SqliteSync) -> Result<(), StoreError> {
        if self.sync == SqliteSync::Full {
            let set = connection.pragma_update(None, "synchronous", sync.pragma());
            set.map_err(|error| self.failed(&error))?;
        }
        Ok(())
    }

    /// Checks the file if the world before has not ended well.
    fn refuse_damage(&self, connection: &Connection) -> Result<(), StoreError> {
        if self.check == SqliteCheck::Never {
            return Ok(());
        }
        let clean = "SELECT value FROM meta WHERE name = 'clean'";
        let is_clean: bool = connection
            .query_row(clean, [], |row| row.get(0))
            .map_err(|error| self.failed(&error))?;
        if is_clean {
            return Ok(());
        }
        let problems = quick_check(connection).map_err(|error| self.failed(&error))?;
        if problems.is_empty() {
            return Ok(());
        }
        let (path, problems) = (self.path.display(), problems.join("; "));
        Err(StoreError::Corrupt(format!(
            "{path}: {problems}. Restore it from a backup, or open it with SqliteCheck::Never to go on \
             with the plans that are not hit"
        )))
    }

    /// Opens it with a log that is not too long for the ballast.
    fn open_short(&self, alone: bool) -> Result<Box<dyn StoreWriter>, StoreError> {
        let writer = self.open_writer(alone)?;
        if self.ballast.make(&self.path, &self.log) {
            self.checkpoint()?;
        }
        Ok(writer)
    }

    fn open_writer(&self, alone: bool) -> Result<Box<dyn StoreWriter>, StoreError> {
        let lock = {
            let mut held = self.lock.lock();
            match held.upgrade() {
                Some(lock) => lock,
                None => {
                    let lock = Arc::new(Lock::take(&real(&self.path)?)?);
                    *held = Arc::downgrade(&lock);
                    lock
                }
            }
        };
        identity::refuse_remains(&self.path)?;
        // SQLite says what is wrong with a folder that takes no file.
        let _made = identity::make_private(&self.path);
        let connection = self.connect()?;
        // The log is synced as a whole with the next commit, which takes the epoch: before that
        // nothing is done with the tables.
        self.wait_for_disk(&connection, SqliteSync::Normal)?;
        schema::prepare(&connection, &self.name())?;
        self.wait_for_disk(&connection, SqliteSync::Full)?;
        self.refuse_damage(&connection)?;
        let (room, log) = (Arc::clone(&self.room), Arc::clone(&self.log));
        let (ballast, head) = (Arc::clone(&self.ballast), Arc::clone(&self.head));
        let beside = Beside { room, log, ballast, head };
        let writer = Writer::new(connection, self.path.clone(), beside, lock, alone);
        Ok(Box::new(writer.map_err(|error| self.named(error))?))
    }

    fn failed(&self, error: &rusqlite::Error) -> StoreError {
        self.named(failure(error))
    }

    /// The error with the name of the file.
    fn named(&self, error: StoreError) -> StoreError {
        match error {
            StoreError::Failed(problem) => {
                StoreError::Failed(format!("{}: {problem}", self.path.display()))
            }
            other => other,
        }
    }

    fn open_as(&self, alone: bool) -> Result<Box<dyn StoreWriter>, StoreError> {
        let opened = match Ballast::is_needed(&self.path) {
            true => Err(StoreError::Full("nothing is left of the disk".to_owned())),
            false => self.open_short(alone),
        };
        match opened {
            Err(error) if Ballast::may_help(&self.path, &error) => {
                tracing::warn!(%error, "the ballast of the store is used to start");
                self.ballast.without(&self.path, &self.log, || {
                    self.shorten()?;
                    self.open_writer(alone)
                })
            }
            opened => opened,
        }
    }
}

impl Store for SqliteStore {
    fn open(&self) -> Result<Box<dyn StoreWriter>, StoreError> {
        self.open_as(false)
    }

    fn writer(&self) -> Result<Box<dyn StoreWriter>, StoreError> {
        self.open_as(true)
    }

    fn keeper(&self) -> Result<Box<dyn StoreKeeper>, StoreError> {
        Ok(Box::new(Keeper { connection: self.connect()?, log: Arc::clone(&self.log) }))
    }

    fn reader(&self) -> Result<Box<dyn StoreReader>, StoreError> {
        Ok(Box::new(reader::Reader::new(self.connect()?)))
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

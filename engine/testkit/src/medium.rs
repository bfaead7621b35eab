//! What a store is kept on, and what a crash leaves of it.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;
use turnwheel_engine::store::{MemoryStore, Store};
use turnwheel_sqlite::{SqliteStore, SqliteSync};

use crate::fault::{Fault, FileWrite};

/// Commits between two checkpoints of a file, so that there are crashes around them too.
const CHECKPOINT_COMMITS: u64 = 9;

/// A place for a store.
pub(super) trait Medium: Send + Sync + fmt::Debug {
    /// The store in it.
    fn store(&self) -> Arc<dyn Store>;

    /// What a crash at this moment leaves.
    fn image(&self) -> Image;

    /// Moves what was committed to its place, now and then: what was there, if it was done.
    fn checkpoint(&self) -> Option<Image> {
        None
    }
}

/// What a medium holds.
#[derive(Clone, Debug)]
pub(super) enum Image {
    Memory(MemoryStore),
    Files { pages: Arc<Vec<u8>>, log: Arc<Vec<u8>> },
}

/// The kind of a medium.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Memory,
    /// SQLite files in folders below this one.
    Sqlite(PathBuf),
}

impl Kind {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite(_) => "sqlite",
        }
    }

    /// An empty medium.
    pub(super) fn empty(&self) -> io::Result<Arc<dyn Medium>> {
        match self {
            Self::Memory => Ok(Arc::new(MemoryStore::new())),
            Self::Sqlite(folder) => Ok(Arc::new(Folder::new(folder, SqliteSync::Full)?)),
        }
    }

    /// An empty medium that nothing has to survive: no need to wait for the disk.
    pub(super) fn scratch(&self) -> io::Result<Arc<dyn Medium>> {
        match self {
            Self::Memory => self.empty(),
            Self::Sqlite(folder) => Ok(Arc::new(Folder::new(folder, SqliteSync::Off)?)),
        }
    }

    /// A medium that holds what a crash has left.
    pub(super) fn holding(&self, image: &Image) -> io::Result<Arc<dyn Medium>> {
        match (self, image) {
            (Self::Sqlite(folder), Image::Files { pages, log }) => {
                // Nothing is to survive this one: no need to wait for the disk.
                let folder = Folder::new(folder, SqliteSync::Off)?;
                if !pages.is_empty() {
                    fs::write(&folder.path, &**pages)?;
                    fs::write(beside(&folder.path, "-wal"), &**log)?;
                }
                Ok(Arc::new(folder))
            }
            (_, Image::Memory(store)) => Ok(Arc::new(store.copied())),
            (Self::Memory, Image::Files { .. }) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

impl Medium for MemoryStore {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.clone())
    }

    fn image(&self) -> Image {
        Image::Memory(self.copied())
    }
}

/// A folder with a SQLite file, which is removed in the end.
#[derive(Debug)]
struct Folder {
    folder: PathBuf,
    path: PathBuf,
    store: SqliteStore,
    commits: AtomicU64,
    /// The pages as they were read last: they change at checkpoints only.
    pages: Mutex<Arc<Vec<u8>>>,
}

impl Folder {
    fn new(parent: &Path, sync: SqliteSync) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("crash-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let path = folder.join("plans.db");
        let store = SqliteStore::new(&path).sync(sync);
        Ok(Self { folder, path, store, commits: AtomicU64::new(0), pages: Mutex::default() })
    }
}

impl Medium for Folder {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn image(&self) -> Image {
        let read = |path: &Path| fs::read(path).unwrap_or_default();
        let found = read(&self.path);
        let mut pages = self.pages.lock();
        if **pages != found {
            *pages = Arc::new(found);
        }
        let log = Arc::new(read(&beside(&self.path, "-wal")));
        Image::Files { pages: Arc::clone(&pages), log }
    }

    fn checkpoint(&self) -> Option<Image> {
        let commits = self.commits.fetch_add(1, Ordering::Relaxed) + 1;
        if commits % CHECKPOINT_COMMITS != 0 {
            return None;
        }
        let before = self.image();
        self.store.checkpoint().ok()?;
        Some(before)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::warn!(folder = %self.folder.display(), %error, "a folder is left behind");
        }
    }
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

impl Image {
    /// Everything that a crash can make of a write from this image to a later one.
    pub(super) fn faults(&self, after: &Self) -> Vec<Fault> {
        match self.write(after) {
            Some((write, _)) => write.faults(),
            None => vec![Fault::Lost],
        }
    }

    /// What a crash leaves of a write from this image to a later one.
    pub(super) fn left(&self, after: &Self, fault: Fault) -> Self {
        match (fault, self.write(after)) {
            (Fault::Lost | Fault::Twice { .. }, _) => self.clone(),
            (Fault::Kept, _) => after.clone(),
            (fault, Some((write, pages))) => {
                let file = Arc::new(write.leaves(fault));
                match pages {
                    Some(pages) => Self::Files { pages, log: file },
                    None => match self {
                        Self::Files { log, .. } => {
                            Self::Files { pages: file, log: Arc::clone(log) }
                        }
                        Self::Memory(_) => self.clone(),
                    },
                }
            }
            (_, None) => self.clone(),
        }
    }

    /// The write from this image to a later one: to the log, with the pages beside it, or to the
    /// pages.
    fn write<'a>(&self, after: &'a Self) -> Option<(FileWrite<'a>, Option<Arc<Vec<u8>>>)> {
        let (Self::Files { pages, log }, Self::Files { pages: new_pages, log: new_log }) =
            (self, after)
        else {
            return None;
        };
        if pages == new_pages {
            Some((FileWrite::to_log(log, new_log), Some(Arc::clone(pages))))
        } else {
            Some((FileWrite::to_pages(pages, new_pages), None))
        }
    }
}

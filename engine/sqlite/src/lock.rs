//! The lock beside the file: one process writes.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use std::thread;

use fs4::fs_std::FileExt;
use turnwheel_engine::StoreError;

use crate::path::beside;

/// How often a lock is asked for that nobody has who writes: who only looks ([`Lock::holder`]) has
/// it for microseconds.
const TRIES: usize = 1_000;

/// The locked file beside the store. It is unlocked when this is dropped or the process ends,
/// however it ends.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Lock {
    /// Locks the file beside a store: a second process is told who has it.
    pub(super) fn take(store: &Path) -> Result<Self, StoreError> {
        let name = beside(store, ".lock");
        let failed =
            |error: std::io::Error| StoreError::Failed(format!("{}: {error}", name.display()));
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).read(true).write(true);
        let file = options.open(&name).map_err(failed)?;
        if !take_from_readers(&file).map_err(failed)? {
            let store = store.display().to_string();
            return Err(StoreError::InUse { store, holder: said(&name) });
        }
        let lock = Self(file);
        lock.write("").map_err(failed)?;
        Ok(lock)
    }

    /// Who has it.
    pub(super) fn holder(store: &Path) -> Result<Option<String>, StoreError> {
        let name = beside(store, ".lock");
        let failed =
            |error: std::io::Error| StoreError::Failed(format!("{}: {error}", name.display()));
        let file = match File::open(&name) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        // A shared lock is refused as long as somebody writes; it is given back at once.
        let is_free = FileExt::try_lock_shared(&file).map_err(failed)?;
        if is_free {
            FileExt::unlock(&file).map_err(failed)?;
        }
        Ok((!is_free).then(|| said(&name)))
    }

    /// Says how its holder can be reached.
    pub(super) fn say(&self, address: &str) -> io::Result<()> {
        self.write(&format!(" serving {address}"))
    }

    fn write(&self, more: &str) -> io::Result<()> {
        // In one write, so that who reads it sees it whole.
        let line = format!("process {}{more}\n", std::process::id());
        let mut file = &self.0;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(line.as_bytes())?;
        file.set_len(line.len() as u64)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file is not enough: a program that another thread is starting right now has a copy of
        // it, and the lock is held until the last copy is closed. An error leaves it to that.
        let _ = FileExt::unlock(&self.0);
    }
}

/// Whether the file could be locked. It is refused at once if a writer has it, and not by those who
/// look.
fn take_from_readers(file: &File) -> io::Result<bool> {
    for _ in 0..TRIES {
        if FileExt::try_lock_exclusive(file)? {
            return Ok(true);
        }
        if !FileExt::try_lock_shared(file)? {
            return Ok(false);
        }
        FileExt::unlock(file)?;
        thread::yield_now();
    }
    Ok(false)
}

/// What the holder of a lock has said of itself.
fn said(lock: &Path) -> String {
    let holder = std::fs::read_to_string(lock).unwrap_or_default();
    if holder.is_empty() {
        return "another process".to_owned();
    }
    holder.trim().to_owned()
}

//! The lock beside the file: one process writes.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use super::beside;
use crate::error::StoreError;

/// The locked file beside the store. It is unlocked when this is dropped or the process ends, however
/// it ends.
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
        if !fs4::fs_std::FileExt::try_lock_exclusive(&file).map_err(failed)? {
            let holder = std::fs::read_to_string(&name).unwrap_or_default();
            let holder = if holder.is_empty() { "another process" } else { holder.trim() };
            let store = store.display().to_string();
            return Err(StoreError::InUse { store, holder: holder.to_owned() });
        }
        let lock = Self(file);
        lock.write("").map_err(failed)?;
        Ok(lock)
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

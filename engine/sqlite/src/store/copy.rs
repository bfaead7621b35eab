//! Backup, restore and the check of a file.

use std::fs;
use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};
use turnwheel_engine::StoreError;

use crate::check::quick_check;
use crate::error::failure;
use crate::lock::Lock;
use crate::path::{beside, real};
use crate::{head, identity, schema};

use super::SqliteStore;

impl SqliteStore {
    /// Copies the store into a new file, as it is at one moment, while worlds go on writing.
    ///
    /// Cost: the whole file is read and written once. The write-ahead log is not shortened
    /// meanwhile.
    ///
    /// ```
    /// use turnwheel_engine::Store;
    /// use turnwheel_sqlite::SqliteStore;
    ///
    /// let folder = tempfile::tempdir()?; let store =
    /// SqliteStore::new(folder.path().join("plans.db")); let writer = store.writer()?;
    /// store.backup(folder.path().join("backup.db"))?; drop(writer); let copy =
    /// SqliteStore::restore(folder.path().join("backup.db"), folder.path().join("copy.db"))?;
    /// assert!(copy.check()?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// There is a file of this name, or one of the two cannot be read or written. What was written
    /// of the copy is removed.
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
        let _lock = Lock::take(&real(to)?)?;
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

/// Copies a database into a new file, under another name until it is whole.
fn copy(source: &Connection, to: &Path) -> Result<(), StoreError> {
    let failed =
        |error: &dyn std::fmt::Display| StoreError::Failed(format!("{}: {error}", to.display()));
    if to.exists() {
        return Err(failed(&"there is such a file: remove it, or take another name"));
    }
    let log = beside(to, "-wal");
    if fs::metadata(&log).is_ok_and(|found| found.len() > 0) {
        let log = log.display();
        let problem = "is the log of a store that is gone, and would be taken for the new one's";
        return Err(failed(&format!("{log} {problem}: move it away")));
    }
    let part = beside(to, ".part");
    if part.exists() {
        fs::remove_file(&part).map_err(|error| failed(&error))?;
    }
    identity::make_private(&part).map_err(|error| failed(&error))?;
    let whole = || -> rusqlite::Result<StepResult> {
        let mut target = Connection::open(&part)?;
        // All in one step: it reads one state of the source, and writers are not in its way.
        let step = Backup::new(source, &mut target)?.step(-1)?;
        if step == StepResult::Done {
            head::forget(&target)?;
            // The file is renamed without its log.
            target.pragma_update(None, "journal_mode", "DELETE")?;
        }
        Ok(step)
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

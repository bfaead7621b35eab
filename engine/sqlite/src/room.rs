//! How much room there is: the size that the file may have, and what is left of the disk.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;
use turnwheel_engine::limits::{LOG_PAGES_SOON, STORE_BYTES_MAX, STORE_RESERVE_BYTES};
use turnwheel_engine::StoreError;

use crate::error::failure;
use crate::path::beside;

/// What a store may take. It can be changed while the store is open.
#[derive(Debug)]
pub(super) struct Room {
    bytes_max: AtomicU64,
    reserve: AtomicU64,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            bytes_max: AtomicU64::new(STORE_BYTES_MAX),
            reserve: AtomicU64::new(STORE_RESERVE_BYTES),
        }
    }
}

impl Room {
    pub(super) fn set_bytes_max(&self, bytes: u64) {
        self.bytes_max.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn set_reserve(&self, bytes: u64) {
        self.reserve.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed)
    }

    /// Tells a connection how large the file may become.
    pub(super) fn apply(&self, connection: &Connection) -> rusqlite::Result<()> {
        let page: u64 = connection.query_row("PRAGMA page_size", [], |row| row.get(0))?;
        let pages = (self.bytes_max() / page).clamp(1, u64::from(u32::MAX) - 1);
        connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
    }

    /// Whether there is room for new plans: what is left of the disk or of the file's size is more
    /// than what is kept for those that are under way.
    pub(super) fn check(&self, path: &Path, connection: &Connection) -> Result<(), StoreError> {
        let reserve = self.reserve.load(Ordering::Relaxed);
        if reserve == 0 {
            return Ok(());
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let on_disk = fs4::available_space(folder).map_err(|error| {
            StoreError::Failed(format!("{}: its free space: {error}", folder.display()))
        })?;
        let is_bounded = self.bytes_max() < STORE_BYTES_MAX;
        if !is_bounded && on_disk >= reserve {
            return Ok(());
        }
        let file = Pages::of(connection).map_err(|error| failure(&error))?;
        let in_file = if is_bounded {
            self.bytes_max().saturating_sub((file.all - file.free) * file.bytes)
        } else {
            u64::MAX
        };
        // Pages of the file that removed plans have left are room as well, if the log has some.
        let log = fs::metadata(beside(path, "-wal")).map_or(0, |log| log.len());
        let has_log = on_disk.saturating_add(log) >= reserve.min(LOG_PAGES_SOON * file.bytes);
        let reused = if has_log { file.free * file.bytes } else { 0 };
        let left = on_disk.saturating_add(reused).min(in_file);
        if left < reserve {
            return Err(StoreError::Full(format!(
                "{left} bytes are left for {} and {reserve} are kept for plans that are under way: \
                 no new plans are taken until there is more room",
                path.display()
            )));
        }
        Ok(())
    }
}

/// The pages of a file.
struct Pages {
    bytes: u64,
    all: u64,
    free: u64,
}

impl Pages {
    fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let number = |name: &str| -> rusqlite::Result<u64> {
            let pragma = format!("PRAGMA {name}");
            connection.prepare_cached(&pragma)?.query_row([], |row| row.get(0))
        };
        let (all, free) = (number("page_count")?, number("freelist_count")?);
        Ok(Self { bytes: number("page_size")?, all, free: free.min(all) })
    }
}

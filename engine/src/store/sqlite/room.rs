//! How much room there is: the size that the file may have, and what is left of the disk.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;

use super::failure;
use crate::error::StoreError;
use crate::limits::{STORE_BYTES_MAX, STORE_RESERVE_BYTES};

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

    /// Whether there is room for new plans: what is left of the disk or of the file's size is more than
    /// what is kept for those that are under way.
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
        let in_file = if self.bytes_max() < STORE_BYTES_MAX {
            left_in_file(connection, self.bytes_max()).map_err(|error| failure(&error))?
        } else {
            u64::MAX
        };
        let left = on_disk.min(in_file);
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

fn left_in_file(connection: &Connection, bytes_max: u64) -> rusqlite::Result<u64> {
    let number = |name: &str| -> rusqlite::Result<u64> {
        connection.prepare_cached(&format!("PRAGMA {name}"))?.query_row([], |row| row.get(0))
    };
    let (page, pages, free) =
        (number("page_size")?, number("page_count")?, number("freelist_count")?);
    Ok(bytes_max.saturating_sub(pages.saturating_sub(free) * page))
}

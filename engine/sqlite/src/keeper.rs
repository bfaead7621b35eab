//! Work that is done beside the writer: checkpoints.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::Connection;
use turnwheel_engine::limits::{LOG_BYTES_PAGE, LOG_PAGES_MAX, LOG_PAGES_SOON, LOG_RESTART_WAIT};
use turnwheel_engine::store::{Batch, PlanRow, StoreKeeper, Upkeep};
use turnwheel_engine::StoreError;

use crate::error::failure;

/// Bytes of a page.
const PAGE: usize = 4_096;

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
    /// In the file of the log, after the last commit: `added` is a guess, and rows that lie far from each
    /// other take three times as many pages.
    file: u64,
    /// The length at which the writer makes it begin anew.
    restart_at: u64,
    /// The length at which a store with a ballast adds nothing before it is moved.
    limit: u64,
}

impl Default for Pages {
    fn default() -> Self {
        Self { added: 0, length: 0, file: 0, restart_at: LOG_PAGES_MAX, limit: u64::MAX }
    }
}

impl Log {
    /// Counts pages of a commit, by a guess and by the size of the file after it.
    pub(super) fn add(&self, pages: u64, file_bytes: u64) {
        let mut log = self.0.lock();
        log.added += pages;
        log.file = file_bytes / LOG_BYTES_PAGE;
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
        let Pages { added, length, file, restart_at, .. } = *self.0.lock();
        // While commits go on, what they add meanwhile is never moved beside them: only between two
        // commits can the log become empty, and begin anew.
        if file.max(length + added) >= restart_at {
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
                (pages.length, pages.file) = (0, 0);
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

/// About how many pages a batch adds to the log.
pub(super) fn pages(batch: &Batch<'_>) -> u64 {
    let snapshot = |row: &PlanRow| row.snapshot.as_ref().map_or(0, |(_, bytes)| bytes.len());
    let entries: usize = batch.appends.iter().map(|append| append.records.len() + 32).sum();
    let rows: usize = batch.rows.iter().map(|write| snapshot(&write.row) + PAGE).sum();
    let keys = batch.appends.iter().filter(|append| append.key.is_some()).count() * 2;
    let changes: usize = batch.changes.iter().map(|change| change.bytes() + PAGE).sum();
    ((entries + rows + changes) / PAGE + keys + 3) as u64
}

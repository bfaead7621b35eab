//! Ballast: a file beside the store that takes room of the disk, and gives it up to a start, or to a
//! removal of plans, that finds none.
//!
//! The log is never longer than half of it, so that what it gives up takes all pages of the log. It
//! takes back all that it gave up as far as that is free: what it left would be used by plans under
//! way, and after enough starts on a full disk nothing of it would be there.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use fs4::fs_std::FileExt;
use rusqlite::Connection;
use turnwheel_engine::limits::LOG_BYTES_PAGE;
use turnwheel_engine::StoreError;

use crate::identity;
use crate::keeper::Log;
use crate::path::beside;

/// The end of its name.
const END: &str = "-ballast";

/// A new file takes at most this part of what is free.
const PART: u64 = 4;

/// Share of the free room that stays free when the file is made again and the disk does not have all
/// the room that it says is free.
const REST: u64 = 8;

/// Share of the file: a world could not begin with less room beside it.
const NEEDED: u64 = 16;

/// Smaller files are no help.
const BYTES_MIN: u64 = 64 * 1_024;

/// How large it is to be; 0 makes none, and one that is there is used all the same.
#[derive(Debug, Default)]
pub(super) struct Ballast {
    bytes: AtomicU64,
}

impl Ballast {
    pub(super) fn set_bytes(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Makes it if it is wanted and not there, and keeps the log below it. Whether the log that a
    /// killed process has left is too long for it.
    pub(super) fn make(&self, store: &Path, log: &Log) -> bool {
        let wanted = self.bytes.load(Ordering::Relaxed);
        let size = match size(store) {
            0 if wanted == 0 => return false,
            0 => take(store, &[wanted.min(free(store) / PART)]),
            size => size,
        };
        log.limit(size / 2 / LOG_BYTES_PAGE);
        size > 0 && length(&beside(store, "-wal")) > size / 2
    }

    /// Whether so little is left beside it that a world could not begin.
    pub(super) fn is_needed(store: &Path) -> bool {
        free(store) < size(store) / NEEDED
    }

    /// Whether the room that it takes may be what a failure is about.
    pub(super) fn may_help(store: &Path, error: &StoreError) -> bool {
        let is_of_room = match error {
            StoreError::Full(_) => true,
            StoreError::Failed(_) => free(store) < BYTES_MIN,
            _ => false,
        };
        is_of_room && size(store) > 0
    }

    /// Does something with the room that it takes, which is taken again afterwards.
    pub(super) fn without<T>(&self, store: &Path, log: &Log, work: impl FnOnce() -> T) -> T {
        let before = size(store);
        if let Err(error) = fs::remove_file(beside(store, END)) {
            tracing::warn!(%error, "the ballast of the store is not given up");
        }
        let done = work();
        let free = free(store);
        let size = take(store, &[before.min(free), before.min(free - free / REST)]);
        log.limit(size / 2 / LOG_BYTES_PAGE);
        done
    }
}

/// Bytes that it takes.
fn size(store: &Path) -> u64 {
    length(&beside(store, END))
}

fn length(file: &Path) -> u64 {
    fs::metadata(file).map_or(0, |file| file.len())
}

/// Bytes that are free on the disk of a store.
fn free(store: &Path) -> u64 {
    let folder = store.parent().filter(|folder| !folder.as_os_str().is_empty());
    fs4::available_space(folder.unwrap_or(Path::new("."))).unwrap_or(u64::MAX)
}

/// Makes the file with the first of these sizes for which there is room; how many bytes it takes.
fn take(store: &Path, sizes: &[u64]) -> u64 {
    let path: PathBuf = beside(store, END);
    for bytes in sizes.iter().copied().filter(|bytes| *bytes >= BYTES_MIN) {
        let file = identity::make_private(&path)
            .and_then(|()| OpenOptions::new().write(true).open(&path))
            .and_then(|file| file.allocate(bytes));
        let Err(error) = file else { return bytes };
        tracing::warn!(%error, bytes, "there is no room for the ballast of the store");
        let _unmade = fs::remove_file(&path);
    }
    0
}

/// Moves all of the log into the file and gives its room back, if no reader is in the way.
pub(super) fn shorten(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

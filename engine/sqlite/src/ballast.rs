//! Ballast: a file beside the store that takes room of the disk, and gives it up to a start, or to
//! a removal of plans, that finds none.
//!
//! The log is never longer than half of it, so that what it gives up takes all pages of the log.
//! It leaves a part of what it gave up to plans under way, but not of the room that a start needs:
//! after enough starts on a full disk nothing of it would be there.

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

/// Share of the free room that stays free when the file is made again after it was given up.
const REST: u64 = 8;

/// Room that a start needs: of that the file leaves nothing.
const START_BYTES: u64 = 1 << 20;

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
        free(store) < size(store) / REST / 2
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
        let size = take(store, &again(before, free(store)));
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

/// Sizes of a file that is made again, the better one first: a disk may not have all the room
/// that it says is free.
fn again(before: u64, free: u64) -> [u64; 2] {
    let rest = free - free / REST;
    let needed = before.min(START_BYTES).min(free);
    [before.min(rest.max(needed)), before.min(rest)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ballast_has_the_room_of_a_start_however_often_the_rest_of_the_disk_is_used_up() {
        for (first, least) in
            [(16 << 20, START_BYTES), (3 << 20, START_BYTES), (300 << 10, 300 << 10)]
        {
            let (mut size, mut left) = (first, 0);
            for _ in 0..1_000 {
                // Nothing is free but what the file gives up, and plans use what it leaves.
                let [made, lesser] = again(size, size);
                assert!(lesser <= made && made <= size, "{made} of {size}");
                left += size - made;
                size = made;
            }
            assert_eq!(size, least);
            assert_eq!(left, first - least, "plans have had the rest");
        }
        assert_eq!(again(16 << 20, 1 << 30)[0], 16 << 20, "it does not grow");
        assert_eq!(again(16 << 20, 1_000)[0], 1_000);
    }
}

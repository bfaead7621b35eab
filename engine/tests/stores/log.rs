//! The write-ahead log of a file: it does not grow without bound, whatever goes on beside checkpoints.

use std::path::Path;

use turnwheel_engine::limits::LOG_PAGES_MAX;
use turnwheel_engine::store::{Append, Batch, Seq, StoreWriter, Upkeep, Verdict};
use turnwheel_engine::Store;
use turnwheel_sqlite::{SqliteStore, SqliteSync};

use crate::place::{entry, plan};

/// Bytes of an entry: 64 pages.
const ENTRY: usize = 256 * 1_024;

fn commit(writer: &mut dyn StoreWriter, prev: &mut Seq) {
    let records = vec![b'x'; ENTRY];
    let append = Append { records, plan: plan(1), ..entry(1, *prev, "") };
    let batch = Batch { appends: &[append], changes: &[], rows: &[], projected: 0 };
    let verdicts = writer.commit(&batch).expect("it is written");
    let [Verdict::Written(seq)] = verdicts[..] else { panic!("{verdicts:?}") };
    *prev = seq;
}

fn size(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |found| found.len())
}

#[test]
fn log_begins_anew_although_commits_go_on_during_each_checkpoint() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("plans.db");
    let store = SqliteStore::new(&path).sync(SqliteSync::Off);
    let mut writer = store.writer().expect("a writer");
    let mut keeper = store.keeper().expect("a keeper");
    let reader = rusqlite::Connection::open(&path).expect("it opens");
    let (mut prev, mut largest, mut anew) = (0, 0, 0);
    let log = folder.path().join("plans.db-wal");
    // Three times what the log may have.
    for _ in 0..3 * LOG_PAGES_MAX * 4_096 / ENTRY as u64 {
        commit(&mut *writer, &mut prev);
        match writer.upkeep() {
            Upkeep::None => {}
            Upkeep::Soon => {
                // What is committed after a reader has begun is not moved before that has ended: as it is
                // with a writer that commits during the checkpoint.
                reader.execute_batch("BEGIN; SELECT count(*) FROM plans;").expect("it reads");
                commit(&mut *writer, &mut prev);
                keeper.keep().expect("it keeps");
                reader.execute_batch("COMMIT").expect("it ends");
            }
            Upkeep::Now => {
                anew += 1;
                writer.keep().expect("it keeps");
            }
        }
        largest = largest.max(size(&log));
    }
    assert!(anew >= 2, "the log begins anew {anew} times");
    let most = (LOG_PAGES_MAX + LOG_PAGES_MAX / 8) * 4_096;
    assert!(largest < most, "{largest} bytes, {most} are the limit");
}

#[test]
fn log_that_a_reader_holds_is_tried_again_and_not_at_each_commit() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("plans.db");
    let store = SqliteStore::new(&path).sync(SqliteSync::Off);
    let mut writer = store.writer().expect("a writer");
    let reader = rusqlite::Connection::open(&path).expect("it opens");
    let (mut prev, mut tries) = (0, 0);
    commit(&mut *writer, &mut prev);
    reader.execute_batch("BEGIN; SELECT count(*) FROM plans;").expect("it reads");
    let count = (LOG_PAGES_MAX + LOG_PAGES_MAX / 4) * 4_096 / ENTRY as u64;
    for _ in 0..count {
        commit(&mut *writer, &mut prev);
        if matches!(writer.upkeep(), Upkeep::Now) {
            tries += 1;
            writer.keep().expect("a reader in the way is no error");
        }
    }
    assert!((2..=6).contains(&tries), "{tries} tries for {count} commits");
    reader.execute_batch("COMMIT").expect("it ends");
    while !matches!(writer.upkeep(), Upkeep::Now) {
        commit(&mut *writer, &mut prev);
    }
    writer.keep().expect("it keeps");
    commit(&mut *writer, &mut prev);
    let kept = turnwheel_engine::limits::LOG_BYTES_KEPT;
    assert!(size(&folder.path().join("plans.db-wal")) <= kept, "the file is cut again");
}

//! The write-ahead log of a file: it does not grow without bound, whatever goes on beside checkpoints.

use std::path::Path;

use turnwheel_engine::limits::{LOG_BYTES_PAGE, LOG_PAGES_MAX};
use turnwheel_engine::store::{
    Append, Batch, PlanRow, RowWrite, Seq, StoreWriter, Upkeep, Verdict,
};
use turnwheel_engine::{PlanId, Store};
use turnwheel_sqlite::{SqliteStore, SqliteSync};

use crate::place::{entry, plan, row};

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

/// A row of one of very many plans: no two that follow one another are neighbours.
fn scattered(number: u64) -> RowWrite {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut id = [0; 16];
    id[..8].copy_from_slice(&mixed.to_be_bytes());
    let id = PlanId::from_bytes(id);
    let labels = (0..4).map(|label| (format!("name {label}"), format!("{:x}", mixed ^ label)));
    let row = PlanRow { id, labels: labels.collect(), ..row(1, 1) };
    RowWrite { row, epoch: 0, is_refresh: false }
}

#[test]
fn log_of_rows_that_lie_far_apart_is_bounded_as_well() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("plans.db");
    let store = SqliteStore::new(&path).sync(SqliteSync::Off);
    let mut writer = store.writer().expect("a writer");
    let log = folder.path().join("plans.db-wal");
    let (mut largest, mut anew) = (0, 0);
    // Nobody moves pages beside the writer.
    for batch in 0..120 {
        let rows: Vec<RowWrite> = (batch * 128..(batch + 1) * 128).map(scattered).collect();
        let batch = Batch { appends: &[], changes: &[], rows: &rows, projected: 0 };
        writer.commit(&batch).expect("it is written");
        largest = largest.max(size(&log));
        if matches!(writer.upkeep(), Upkeep::Now) {
            anew += 1;
            writer.keep().expect("it keeps");
        }
    }
    assert!(anew >= 2, "the log begins anew {anew} times");
    let most = (LOG_PAGES_MAX + LOG_PAGES_MAX / 8) * LOG_BYTES_PAGE;
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

/// Writes six commits and leaves the files as `kill -9` leaves them, with a log that something was done to.
fn killed(path: &Path, harm: impl FnOnce(&mut Vec<u8>)) -> Seq {
    let log = path.with_extension("db-wal");
    let store = SqliteStore::new(path).sync(SqliteSync::Off);
    let mut writer = store.writer().expect("a writer");
    let mut prev = 0;
    (0..6).for_each(|_| commit(&mut *writer, &mut prev));
    let (file, mut written) = (std::fs::read(path), std::fs::read(&log).expect("there is a log"));
    // Its end moves the log into the file.
    drop((writer, store));
    std::fs::write(path, file.expect("there is a file")).expect("it can be written");
    harm(&mut written);
    std::fs::write(&log, written).expect("it can be written");
    prev
}

/// Damages the bytes of a log.
type Harm = fn(&mut Vec<u8>);

#[test]
fn commits_that_a_damaged_log_drops_are_told_at_the_next_start() {
    let harms: [(&str, Harm); 4] = [
        ("none", |_| {}),
        ("a bit", |log| {
            let middle = log.len() / 2;
            log[middle] ^= 1;
        }),
        ("its end", |log| log.truncate(log.len() - 100_000)),
        ("all of it", Vec::clear),
    ];
    for (what, harm) in harms {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("plans.db");
        let last = killed(&path, harm);
        let store = SqliteStore::new(&path);
        let mut writer = store.writer().expect("it goes on");
        let missing = store.missing();
        if what == "none" {
            assert_eq!(missing, None);
            continue;
        }
        let missing = missing.expect(what);
        assert_eq!(missing.acknowledged, last, "{what}");
        assert!(missing.newest < last, "{what}: {missing}");
        // It is told once, and the store works.
        let mut prev = 0;
        commit(&mut *writer, &mut prev);
        drop((writer, store));
        let store = SqliteStore::new(&path);
        drop(store.writer().expect("it goes on"));
        assert_eq!(store.missing(), None, "{what}");
    }
}

#[test]
fn commits_that_a_damaged_log_drops_are_told_of_a_store_that_was_copied_elsewhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, moved) = (folder.path().join("plans.db"), folder.path().join("moved.db"));
    let last = killed(&path, |log| {
        let middle = log.len() / 2;
        log[middle] ^= 1;
    });
    for end in ["", "-wal", "-head"] {
        let name = |path: &Path| format!("{}{end}", path.display());
        std::fs::copy(name(&path), name(&moved)).expect("it can be copied");
    }
    let store = SqliteStore::new(&moved);
    drop(store.writer().expect("it goes on"));
    assert_eq!(store.missing().expect("it is told").acknowledged, last);
    assert_eq!(store.unknown(), None);

    // Without its head nothing is known, and that is told.
    std::fs::remove_file(folder.path().join("plans.db-head")).expect("it is there");
    let store = SqliteStore::new(&path);
    drop(store.writer().expect("it goes on"));
    assert_eq!(store.missing(), None);
    let unknown = store.unknown().expect("it is told");
    assert!(unknown.contains("plans.db-head is missing"), "{unknown}");
    // A backup is a store of its own, and has none yet.
    let backup = folder.path().join("backup.db");
    store.backup(&backup).expect("it can be copied");
    std::fs::copy(folder.path().join("moved.db-head"), folder.path().join("backup.db-head"))
        .expect("it can be copied");
    let store = SqliteStore::new(&backup);
    drop(store.writer().expect("a writer"));
    assert_eq!((store.missing(), store.unknown()), (None, None));
}

#[test]
fn empty_store_is_not_made_beside_the_log_or_the_head_of_another_one() {
    type Leave = fn(&Path);
    let remove = |path: &Path, end: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        std::fs::remove_file(&name).expect("it is there");
    };
    let cases: [(&str, Leave); 3] = [
        ("is missing", |path| std::fs::remove_file(path).expect("it is there")),
        ("is empty", |path| std::fs::write(path, "").expect("it can be written")),
        ("is missing", |path| {
            std::fs::remove_file(path).expect("it is there");
            std::fs::write(path.with_extension("db-wal"), "").expect("it can be written");
        }),
    ];
    for (what, leave) in cases {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("plans.db");
        let last = killed(&path, |_| {});
        let (aside, log) = (folder.path().join("aside"), path.with_extension("db-wal"));
        std::fs::copy(&path, &aside).expect("it can be copied");
        leave(&path);
        let left = std::fs::read(&log).expect("there is a log");
        let store = SqliteStore::new(&path);
        for refused in [store.writer().err(), store.reader().err(), store.checkpoint().err()] {
            let refused = refused.expect("it is refused").to_string();
            assert!(refused.contains(what) && refused.contains("plans.db-head"), "{refused}");
        }
        assert!(std::fs::read(&log).expect("there is a log") == left, "the log is as it was");
        if left.is_empty() {
            let backup = folder.path().join("backup.db");
            SqliteStore::new(&aside).backup(&backup).expect("it can be copied");
            let _ = std::fs::remove_file(&path);
            SqliteStore::restore(backup, &path).expect("a head is not in the way");
            continue;
        }
        // With its file it is whole again.
        std::fs::rename(&aside, &path).expect("it can be put back");
        let store = SqliteStore::new(&path);
        let mut writer = store.writer().expect("it goes on");
        assert_eq!(writer.last(), last, "nothing is lost");
        let mut prev = last;
        commit(&mut *writer, &mut prev);
        drop((writer, store));
        std::fs::remove_file(&path).expect("it is there");
        remove(&path, "-head");
        drop(SqliteStore::new(&path).writer().expect("nothing is left of the other one"));
    }
}

#[test]
fn copy_is_not_made_beside_the_log_of_another_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, to) = (folder.path().join("plans.db"), folder.path().join("copy.db"));
    let store = SqliteStore::new(&path);
    drop(store.writer().expect("a writer"));
    std::fs::write(folder.path().join("copy.db-wal"), "x").expect("it can be written");
    let refused = store.backup(&to).expect_err("a log is in the way").to_string();
    assert!(refused.contains("copy.db-wal"), "{refused}");
    let refused = SqliteStore::restore(&path, &to).expect_err("a log is in the way").to_string();
    assert!(refused.contains("copy.db-wal"), "{refused}");
    assert!(!to.exists());
}

#[test]
fn writer_whose_log_is_deleted_or_replaced_commits_nothing_until_it_is_put_back() {
    for end in ["db-wal", "db-shm"] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("plans.db");
        let store = SqliteStore::new(&path).sync(SqliteSync::Off);
        let mut writer = store.writer().expect("a writer");
        let mut prev = 0;
        commit(&mut *writer, &mut prev);
        let (log, aside) = (path.with_extension(end), folder.path().join("aside"));
        std::fs::rename(&log, &aside).expect("it is there");
        let refused = |writer: &mut dyn StoreWriter, what: &str| {
            let batch = Batch { appends: &[], changes: &[], rows: &[], projected: 0 };
            for refused in [writer.takes_plans().err(), writer.commit(&batch).err()] {
                let refused = refused.expect("it is refused").to_string();
                assert!(refused.contains(end) && refused.contains(what), "{refused}");
            }
        };
        refused(&mut *writer, "was deleted or moved");
        std::fs::copy(&aside, &log).expect("it can be copied");
        refused(&mut *writer, "was replaced by another file");
        std::fs::rename(&aside, &log).expect("it can be put back");
        writer.takes_plans().expect("all is as it was");
        commit(&mut *writer, &mut prev);
    }
}

//! The store in a file: who may open it, what damage does, room, checkpoints, backups.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use turnwheel_engine::store::{
    Append, Batch, Filter, PlanRow, Removal, RowWrite, Slots, StoreReader, StoreWriter,
};
use turnwheel_engine::{PlanId, PlanResult, PlanState, Store, StoreError, Time, Waiting};
use turnwheel_sqlite::{SqliteCheck, SqliteStore, SqliteSync};

fn plan(number: u64) -> PlanId {
    PlanId::from_bytes(u128::from(number).to_be_bytes())
}

fn entry(number: u64, text: &str) -> Append {
    Append {
        plan: plan(number),
        prev: 0,
        epoch: 0,
        records: text.into(),
        key: None,
        take: vec![],
        release: vec![],
        follow: vec![],
        unfollow: vec![],
    }
}

fn row(number: u64) -> PlanRow {
    PlanRow {
        id: plan(number),
        head: number,
        state: PlanState::Stopped,
        result: PlanResult::Success,
        label: "label".into(),
        action: "play".into(),
        by: "trigger".into(),
        labels: BTreeMap::new(),
        created_at: Time(number),
        started_at: None,
        ended_at: None,
        wakes_at: None,
        is_busy: false,
        caller: None,
        waits: Waiting::Nothing,
        waits_for: String::new(),
        snapshot: None,
    }
}

fn current(number: u64) -> RowWrite {
    RowWrite { row: row(number), epoch: 0, is_refresh: false }
}

fn gone(number: u64) -> Removal {
    Removal { plan: plan(number), head: number, epoch: 0 }
}

/// Writes so many plans with a large entry each.
fn fill(writer: &mut dyn StoreWriter, plans: std::ops::RangeInclusive<u64>) {
    for number in plans {
        let appends = [entry(number, &format!("{number:08} ").repeat(400))];
        let batch =
            Batch { changes: &[], appends: &appends, rows: &[current(number)], projected: number };
        writer.commit(&batch).expect("there is room");
    }
}

fn wal(path: &Path) -> std::path::PathBuf {
    path.with_extension("db-wal")
}

#[test]
fn a_second_holder_is_refused_and_told_who_has_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plans.db");
    let first = SqliteStore::new(&path);
    let writer = first.writer().unwrap();
    let second = SqliteStore::new(&path);
    let Err(error) = second.writer() else { panic!("two have it") };
    assert!(matches!(error, StoreError::InUse { .. }), "{error:?}");
    let text = error.to_string();
    let holder = format!("process {}", std::process::id());
    assert!(text.contains(&holder) && text.contains("plans.db"), "{text}");
    drop(writer);
    drop(first);
    assert!(second.writer().is_ok(), "it is free again");
}

#[test]
fn a_world_keeps_its_file_also_when_nobody_keeps_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plans.db");
    let world = turnwheel_engine::World::builder().build(SqliteStore::new(&path)).unwrap();
    let Err(error) = SqliteStore::new(&path).writer() else { panic!("two have it") };
    assert!(matches!(error, StoreError::InUse { .. }), "{error:?}");
    world.shutdown().unwrap();
    drop(world);
    assert!(SqliteStore::new(&path).writer().is_ok(), "it is free again");
}

/// A program that is being started has copies of all open files until it runs, that of the lock
/// among them.
#[cfg(unix)]
#[test]
fn a_file_is_free_once_it_is_closed_also_while_programs_are_started() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plans.db");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::process::Command::new("true").status().expect("every system has it");
                }
            });
        }
        let tries: Vec<_> = (0..50).map(|_| SqliteStore::new(&path).writer().map(drop)).collect();
        is_over.store(true, Ordering::Relaxed);
        for tried in tries {
            tried.expect("the one before has closed it");
        }
    });
}

#[test]
fn who_looks_for_the_holder_is_in_nobodys_way() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plans.db");
    drop(SqliteStore::new(&path).writer().unwrap());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                SqliteStore::new(&path).holder().expect("the lock can be read");
            }
        });
        let tries: Vec<_> = (0..50).map(|_| SqliteStore::new(&path).writer().map(drop)).collect();
        is_over.store(true, Ordering::Relaxed);
        for tried in tries {
            tried.expect("the one before has closed it");
        }
    });
}

#[test]
fn a_newer_file_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plans.db");
    drop(SqliteStore::new(&path).writer().unwrap());
    let file = rusqlite::Connection::open(&path).unwrap();
    file.pragma_update(None, "user_version", 99).unwrap();
    drop(file);
    let Err(error) = SqliteStore::new(&path).writer() else { panic!("it was opened") };
    assert!(matches!(error, StoreError::TooNew { found: 99, known: 5, .. }), "{error:?}");
    let Err(error) = SqliteStore::restore(&path, folder.path().join("copy.db")) else {
        panic!("it was restored")
    };
    assert!(matches!(error, StoreError::TooNew { found: 99, .. }), "{error:?}");
    let file = rusqlite::Connection::open(&path).unwrap();
    let version: u32 = file.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(version, 99);
}

/// Files of the third format counted by triggers.
#[test]
fn a_file_with_triggers_counts_each_plan_once_after_it_was_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plans.db");
    let store = SqliteStore::new(&path);
    let write = |writer: &mut dyn StoreWriter, number, labels: &[(&str, &str)]| {
        let label = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let labels = labels.iter().map(label).collect();
        let rows =
            [RowWrite { row: PlanRow { labels, ..row(number) }, epoch: 0, is_refresh: false }];
        let batch = Batch { appends: &[], changes: &[], rows: &rows, projected: 0 };
        writer.commit(&batch).unwrap();
    };
    let mut writer = store.writer().unwrap();
    write(&mut *writer, 1, &[("who", "Ann")]);
    drop(writer);
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute_batch(
        "CREATE TRIGGER counts_new AFTER INSERT ON plans BEGIN
             UPDATE counts SET plans = plans + 1;
         END;
         CREATE TRIGGER labels_new AFTER INSERT ON plans BEGIN
             INSERT INTO labels SELECT key, value, new.id FROM json_each(new.labels);
         END;
         DROP INDEX plans_faults; DROP TABLE turnwheel_tallies; PRAGMA user_version = 3;",
    )
    .unwrap();
    drop(file);

    let mut writer = store.writer().unwrap();
    write(&mut *writer, 2, &[("who", "Bob"), ("urgent", "")]);
    write(&mut *writer, 2, &[("who", "Eve")]);
    let mut reader = store.reader().unwrap();
    let counted = |reader: &mut dyn StoreReader| {
        reader.counts().unwrap().iter().map(|count| count.plans).collect::<Vec<_>>()
    };
    assert_eq!(counted(&mut *reader), [2]);
    let found = |reader: &mut dyn StoreReader, value: &str| {
        let labels = vec![("who".to_owned(), Some(value.to_owned()))];
        reader.list(&Filter { labels, limit: 9, ..Filter::default() }).unwrap().len()
    };
    let names = ["Ann", "Bob", "Eve"].map(|name| found(&mut *reader, name));
    assert_eq!(names, [1, 0, 1]);
    let removal = Removal { plan: plan(2), head: 2, epoch: 0 };
    assert_eq!(writer.remove(&[removal]).unwrap(), 1);
    assert_eq!(counted(&mut *reader), [1]);
    assert_eq!(found(&mut *reader, "Eve"), 0);
}

#[test]
fn a_file_of_the_first_format_gets_slots_with_epochs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plans.db");
    let store = SqliteStore::new(&path);
    let mut writer = store.writer().unwrap();
    fill(&mut *writer, 1..=3);
    let appends = [entry(4, "not in its row")];
    writer.commit(&Batch { changes: &[], appends: &appends, rows: &[], projected: 0 }).unwrap();
    drop(writer);
    // As it was: a set of slots for each world, eight slots a byte, and one place for all writers.
    let bits = |slots: &[usize]| {
        let mut bytes = [0_u8; 128];
        slots.iter().for_each(|slot| bytes[slot / 8] |= 1 << (slot % 8));
        bytes.to_vec()
    };
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute_batch(
        "DROP TABLE turnwheel_slots; DROP TABLE turnwheel_marks; DELETE FROM meta WHERE name = 'fence';
         UPDATE meta SET value = 3 WHERE name = 'projected'; UPDATE meta SET value = 9 WHERE name = 'worlds';
         ALTER TABLE worlds ADD COLUMN slots BLOB NOT NULL DEFAULT x'';
         DROP INDEX plans_faults; DROP TABLE turnwheel_tallies;
         DROP INDEX states_due; ALTER TABLE states DROP COLUMN due; PRAGMA user_version = 1;",
    )
    .unwrap();
    let own: [&[usize]; 2] = [&[0, 1, 2, 3, 4, 9, 63, 64, 510, 1_023], &[5, 6, 7, 8, 512, 1_022]];
    for (number, slots) in own.iter().enumerate() {
        let values = rusqlite::params![number + 7, bits(slots)];
        let world = "INSERT INTO worlds (epoch, name, kind, since, slots, meta, claims)
            VALUES (?1, 'a', 'executor', 0, ?2, '{}', '[]')";
        file.execute(world, values).unwrap();
    }
    file.execute("INSERT INTO turnwheel_snapshots VALUES (?1, 1, x'00')", [plan(1).to_bytes()])
        .unwrap();
    drop(file);

    let writer = store.writer().unwrap();
    assert_eq!(writer.last(), 4);
    let mut reader = store.reader().unwrap();
    assert_eq!(reader.behind().unwrap(), [(plan(4), 4)]);
    let loaded = reader.load(plan(1), None).unwrap().unwrap();
    assert!(loaded.snapshot.is_none() && loaded.entries.len() == 1, "read from its entries");
    let worlds = reader.worlds().unwrap();
    for (row, slots) in worlds.rows.iter().zip(own) {
        assert_eq!(row.slots.iter().collect::<Vec<_>>(), slots);
        let owned = slots.iter().map(|slot| worlds.owners()[*slot]);
        owned.for_each(|owner| assert_eq!((owner.world, owner.epoch), (row.epoch, 1)));
    }
    assert_eq!((worlds.version, worlds.free().len()), (9, 1_024 - 16));
    assert!(Slots::all().iter().all(|slot| worlds.owners()[slot].epoch <= 1));
}

#[test]
fn a_file_that_is_no_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plans.db");
    fs::write(&path, "this is a letter and no database. ".repeat(200)).unwrap();
    let Err(error) = SqliteStore::new(&path).writer() else { panic!("it was opened") };
    assert!(matches!(error, StoreError::Corrupt(_)), "{error:?}");
    let missing = folder.path().join("no such folder").join("plans.db");
    let Err(error) = SqliteStore::new(&missing).writer() else { panic!("it was opened") };
    assert!(error.to_string().contains("no such folder"), "{error}");
}

#[test]
fn a_damaged_page_is_found_after_a_crash_and_hits_only_what_is_on_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plans.db");
    let store = SqliteStore::new(&path);
    let mut writer = store.writer().unwrap();
    fill(&mut *writer, 1..=60);
    store.checkpoint().unwrap();
    // What a crash leaves: the file as it is now, without the good end.
    let hit = folder.path().join("hit.db");
    fs::copy(&path, &hit).unwrap();
    drop(writer);
    let mut bytes = fs::read(&hit).unwrap();
    // Every entry has a page to overflow to, and its own text there: the header of the page before it is
    // that of a leaf of the journal's tree.
    let text = b"00000030 00000030";
    let place = bytes.windows(text.len()).position(|window| window == text).unwrap();
    let page = place / 4_096 * 4_096;
    bytes[page..page + 4_096].fill(0xa5);
    fs::write(&hit, &bytes).unwrap();

    let Err(error) = SqliteStore::new(&hit).writer() else { panic!("it was opened") };
    assert!(matches!(error, StoreError::Corrupt(_)), "{error:?}");
    assert!(error.to_string().contains("Restore it from a backup"), "{error}");
    let store = SqliteStore::new(&hit).check_at_start(SqliteCheck::Never);
    assert!(!store.check().unwrap().is_empty());
    let mut writer = store.writer().unwrap();
    let mut reader = store.reader().unwrap();
    let mut lost = Vec::new();
    for number in 1..=60 {
        match reader.load(plan(number), None) {
            Ok(Some(loaded)) => {
                assert!(loaded.entries[0].1.starts_with(format!("{number:08}").as_bytes()))
            }
            Ok(None) => panic!("plan {number} is unknown"),
            Err(StoreError::Corrupt(_)) => lost.push(number),
            Err(error) => panic!("plan {number}: {error:?}"),
        }
    }
    assert!(lost.contains(&30) && lost.len() < 10, "{lost:?}");
    fill(&mut *writer, 61..=70);
    assert!(reader.load(plan(70), None).unwrap().is_some(), "new ones are taken");
}

#[test]
fn a_good_end_needs_no_check() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plans.db");
    let clean = |path: &Path| -> bool {
        let file = rusqlite::Connection::open(path).unwrap();
        file.query_row("SELECT value FROM meta WHERE name = 'clean'", [], |row| row.get(0)).unwrap()
    };
    let store = SqliteStore::new(&path);
    let first = store.writer().unwrap();
    assert!(!clean(&path), "it is open");
    let second = store.writer().unwrap();
    drop(first);
    assert!(!clean(&path), "another one writes");
    drop(second);
    assert!(clean(&path));
}

#[test]
fn a_log_that_was_cut_gives_what_was_before_the_cut() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plans.db");
    let store = SqliteStore::new(&path);
    let mut writer = store.writer().unwrap();
    fill(&mut *writer, 1..=20);
    let (cut, log) = (folder.path().join("cut.db"), fs::read(wal(&path)).unwrap());
    for length in [log.len(), log.len() / 2, log.len() / 3 + 7, 33, 0] {
        fs::copy(&path, &cut).unwrap();
        fs::write(wal(&cut), &log[..length]).unwrap();
        let store = SqliteStore::new(&cut).sync(SqliteSync::Off);
        let writer = store.writer().unwrap();
        let mut reader = store.reader().unwrap();
        let entries = reader.journal(0, usize::MAX).unwrap();
        assert_eq!(entries.len() as u64, writer.last());
        for (entry, number) in entries.iter().zip(1..) {
            assert_eq!((entry.seq, entry.plan), (number, plan(number)));
            assert!(reader.load(plan(number), None).unwrap().is_some(), "with its row");
        }
        match length {
            length if length == log.len() => assert_eq!(entries.len(), 20),
            length if length < 100 => assert!(entries.is_empty()),
            _ => assert!((1..20).contains(&entries.len())),
        }
        drop((writer, reader, store));
        for file in [cut.clone(), wal(&cut)] {
            let _may_be_gone = fs::remove_file(file);
        }
    }
}

#[test]
fn a_keeper_keeps_the_log_short() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plans.db");
    let store = SqliteStore::new(&path).sync(SqliteSync::Off);
    let mut writer = store.writer().unwrap();
    let mut keeper = store.keeper().unwrap();
    let _reader = store.reader().unwrap();
    let mut kept = 0;
    for round in 0..60_u64 {
        fill(&mut *writer, round * 50 + 1..=round * 50 + 50);
        if writer.upkeep() != turnwheel_engine::store::Upkeep::None {
            keeper.keep().unwrap();
            kept += 1;
        }
    }
    assert!(kept >= 2, "it is due now and then");
    let length = fs::metadata(wal(&path)).unwrap().len();
    assert!(length < 16 * 1_024 * 1_024, "the log has {length} bytes");
    assert_eq!(writer.upkeep(), turnwheel_engine::store::Upkeep::None);
}

#[test]
fn a_backup_is_one_moment_of_a_store_that_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (path, backup) = (folder.path().join("plans.db"), folder.path().join("backup.db"));
    let store = SqliteStore::new(&path).sync(SqliteSync::Off);
    let mut writer = store.writer().unwrap();
    fill(&mut *writer, 1..=100);
    let copying = std::thread::spawn({
        let (store, backup) = (store.clone(), backup.clone());
        move || store.backup(backup)
    });
    fill(&mut *writer, 101..=400);
    copying.join().unwrap().unwrap();
    let copy = SqliteStore::restore(&backup, folder.path().join("copy.db")).unwrap();
    let _writer = copy.writer().unwrap();
    let mut reader = copy.reader().unwrap();
    let entries = reader.journal(0, usize::MAX).unwrap();
    assert!((100..=400).contains(&entries.len()), "{} entries", entries.len());
    for (entry, number) in entries.iter().zip(1..) {
        assert_eq!((entry.seq, entry.plan), (number, plan(number)));
        assert!(reader.load(plan(number), None).unwrap().is_some(), "with its row");
    }
    let error = store.backup(&backup).expect_err("there is one");
    assert!(error.to_string().contains("there is such a file"), "{error}");
    let error = SqliteStore::restore(&backup, &path).expect_err("it is in use");
    assert!(matches!(error, StoreError::InUse { .. }), "{error}");
    let error = SqliteStore::restore(folder.path().join("none.db"), folder.path().join("new.db"));
    assert!(error.is_err());
    assert!(!folder.path().join("new.db").exists());
}

#[test]
fn a_full_file_refuses_and_goes_on_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(folder.path().join("plans.db")).sync(SqliteSync::Off);
    store.set_reserve(0);
    store.set_bytes_max(1_024 * 1_024);
    let mut writer = store.writer().unwrap();
    let mut written = 0;
    let error = loop {
        let appends = [entry(written + 1, &"x".repeat(10_000))];
        let batch = Batch {
            changes: &[],
            appends: &appends,
            rows: &[current(written + 1)],
            projected: written + 1,
        };
        match writer.commit(&batch) {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Full(_)), "{error:?}");
    assert!((50..110).contains(&written), "{written}");
    assert_eq!(writer.last(), written);
    let mut reader = store.reader().unwrap();
    assert_eq!(reader.journal(0, usize::MAX).unwrap().len() as u64, written, "nothing is lost");
    store.set_bytes_max(8 * 1_024 * 1_024);
    fill(&mut *writer, written + 1..=written + 50);
    assert_eq!(reader.journal(0, usize::MAX).unwrap().len() as u64, written + 50);
}

#[test]
fn new_plans_are_refused_before_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(folder.path().join("plans.db")).sync(SqliteSync::Off);
    store.set_bytes_max(1_024 * 1_024);
    store.set_reserve(400_000);
    let mut writer = store.writer().unwrap();
    assert!(writer.takes_plans().is_ok());
    fill(&mut *writer, 1..=150);
    let error = writer.takes_plans().expect_err("little is left");
    assert!(matches!(error, StoreError::Full(_)), "{error:?}");
    assert!(error.to_string().contains("no new plans are taken"), "{error}");
    fill(&mut *writer, 151..=160);
    store.set_reserve(0);
    assert!(writer.takes_plans().is_ok());
    store.set_reserve(u64::MAX);
    store.set_bytes_max(u64::MAX);
    assert!(writer.takes_plans().is_err(), "no disk has so much");
}

#[test]
fn places_of_removed_entries_are_not_taken_again_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plans.db");
    let store = SqliteStore::new(&path);
    let mut writer = store.writer().unwrap();
    fill(&mut *writer, 1..=9);
    assert_eq!(writer.remove(&[gone(9), gone(8)]).unwrap(), 2);
    drop((writer, store));
    let store = SqliteStore::new(&path);
    let mut writer = store.writer().unwrap();
    assert_eq!(writer.last(), 9);
    let appends = [entry(10, "new")];
    writer.commit(&Batch { changes: &[], appends: &appends, rows: &[], projected: 0 }).unwrap();
    assert_eq!(store.reader().unwrap().behind().unwrap(), [(plan(10), 10)], "a start finds it");
}

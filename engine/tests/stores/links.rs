//! One store has one lock, whatever its file is called; and files that are none are told by name.

use std::path::Path;

use turnwheel_engine::{Store, StoreError};
use turnwheel_sqlite::SqliteStore;

fn refused(store: &SqliteStore) -> StoreError {
    store.writer().map(|_| ()).expect_err("the store is taken")
}

#[cfg(unix)]
#[test]
fn a_link_leads_to_the_same_lock() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("other")).expect("a folder");
    // The link is there before its file.
    std::os::unix::fs::symlink("plans.db", at("link.db")).expect("a link");
    std::os::unix::fs::symlink("../link.db", at("other/far.db")).expect("a link");
    std::os::unix::fs::symlink(at("other"), at("folder")).expect("a link");
    let writer = SqliteStore::new(at("link.db")).writer().expect("nobody has it");
    let names = ["plans.db", "link.db", "other/far.db", "folder/../plans.db", "folder/far.db"];
    for name in names {
        let error = refused(&SqliteStore::new(at(name)));
        assert!(matches!(error, StoreError::InUse { .. }), "{name}: {error}");
        let holder = SqliteStore::new(at(name)).holder().expect("it can be found out");
        assert!(holder.is_some(), "{name}");
    }
    drop(writer);
    for name in names {
        drop(SqliteStore::new(at(name)).writer().expect("nobody has it"));
    }
}

#[cfg(unix)]
#[test]
fn a_file_with_two_names_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    drop(SqliteStore::new(at("plans.db")).writer().expect("it is made"));
    std::fs::hard_link(at("plans.db"), at("twin.db")).expect("a link");
    for name in ["plans.db", "twin.db"] {
        let error = refused(&SqliteStore::new(at(name))).to_string();
        assert!(error.contains("2 names") && error.contains("symbolic links"), "{error}");
    }
    std::fs::remove_file(at("twin.db")).expect("it is removed");
    drop(SqliteStore::new(at("plans.db")).writer().expect("it has one name again"));
}

fn sql(file: &Path, sql: &str) {
    let file = rusqlite::Connection::open(file).expect("it opens");
    file.execute_batch(sql).expect("it is written");
}

#[test]
fn the_database_of_another_program_is_no_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("bookmarks.db");
    sql(&path, "CREATE TABLE bookmarks (url TEXT); PRAGMA user_version = 1");
    let store = SqliteStore::new(&path);
    let view = store.view().map(|_| ()).expect_err("it is none");
    for error in [refused(&store), view] {
        let error = error.to_string();
        assert!(error.contains("bookmarks.db is no store"), "{error}");
        assert!(error.contains("another program"), "{error}");
    }
}

#[test]
fn a_value_that_cannot_be_is_told_as_damage() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("plans.db");
    let store = SqliteStore::new(&path);
    drop(store.writer().expect("it is made"));
    sql(&path, "INSERT INTO schedules VALUES ('nightly', -5, x'00')");
    let mut reader = store.reader().expect("a reader");
    let error = reader.schedule("nightly").expect_err("it cannot be");
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
    let error = error.to_string();
    assert!(error.contains("-5") && error.contains("backup"), "{error}");
}

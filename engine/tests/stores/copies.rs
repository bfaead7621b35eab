//! Copies between stores: whole, interrupted, and refused.

use std::sync::Arc;

use turnwheel_engine::store::{copy, CopyError};
use turnwheel_engine::{BuildError, MemoryStore, Store, StoreError, World};
use turnwheel_sqlite::SqliteStore;
use turnwheel_testkit::FaultStore;

use crate::copying::{check, fill, go_on};

fn file(folder: &tempfile::TempDir, name: &str) -> Arc<dyn Store> {
    Arc::new(SqliteStore::new(folder.path().join(name)))
}

#[test]
fn a_store_is_copied_into_a_file_and_into_another_one() {
    let folder = tempfile::tempdir().expect("a folder");
    check(Arc::new(MemoryStore::new()), file(&folder, "one.db"));
    check(file(&folder, "two.db"), file(&folder, "three.db"));
}

#[test]
fn an_interrupted_copy_goes_on_and_one_of_another_store_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let from = file(&folder, "from.db");
    let left = fill(Arc::clone(&from));
    let memory = MemoryStore::new();
    let failing = FaultStore::new(memory.clone());
    let to: Arc<dyn Store> = Arc::new(failing.clone());
    // Once after the first page of plans, and once in the middle of a page.
    let told = &mut |_| failing.fail(StoreError::Failed("no room".to_owned()));
    copy(Arc::clone(&from), Arc::clone(&to), told).expect_err("it is interrupted");
    failing.heal();
    failing.fail_at(failing.commits() + 2, StoreError::Failed("no room".to_owned()));
    copy(Arc::clone(&from), Arc::clone(&to), &mut |_| {}).expect_err("it is interrupted again");
    failing.heal();
    let other = file(&folder, "other.db");
    let refused = copy(other, Arc::clone(&to), &mut |_| {}).expect_err("it has a part of another");
    assert!(matches!(refused, CopyError::OtherOrigin { .. }), "{refused}");
    assert!(refused.to_string().contains("from.db"), "{refused}");
    let copied = copy(from, to, &mut |_| {}).expect("it goes on");
    let whole = copy(file(&folder, "from.db"), Arc::new(MemoryStore::new()), &mut |_| {});
    assert_eq!(copied, whole.expect("it is copied at once"));
    go_on(Arc::new(memory), &left);
}

#[test]
fn a_store_that_is_in_use_is_not_copied() {
    let folder = tempfile::tempdir().expect("a folder");
    let world = World::builder().build(file(&folder, "from.db")).expect("it opens");
    let (from, to) = (file(&folder, "from.db"), file(&folder, "to.db"));
    let refused = copy(Arc::clone(&from), Arc::clone(&to), &mut |_| {}).expect_err("it is in use");
    let CopyError::Open(BuildError::Store(StoreError::InUse { .. })) = refused else {
        panic!("{refused}")
    };
    world.shutdown().expect("it ends");
    assert_eq!(copy(from, to, &mut |_| {}).expect("it is free now").plans, 0);
}

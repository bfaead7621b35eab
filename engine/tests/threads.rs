//! Threads of worlds that nobody has ended. A program of its own: it counts the threads of the
//! process.

#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use turnwheel_engine::{MemoryStore, SharedStore, World};
use turnwheel_sqlite::SqliteStore;

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("Linux lists threads").count()
}

/// Waits until no more threads are there than before.
fn end_until(before: usize, what: &str) {
    let begun = Instant::now();
    loop {
        let left = threads().saturating_sub(before);
        if left == 0 {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{left} threads are left by {what}");
        std::thread::yield_now();
    }
}

#[test]
fn refused_builds_and_dropped_worlds_leave_no_threads() {
    let before = threads();
    for _ in 0..20 {
        let refused = World::builder().build(SqliteStore::new("/nowhere/at/all/plans.db"));
        assert!(refused.is_err(), "there is no such folder");
        assert!(SharedStore::open(SqliteStore::new("/nowhere/at/all/plans.db")).is_err());
    }
    end_until(before, "refused builds");
    for _ in 0..20 {
        drop(World::builder().build(MemoryStore::new()).expect("it is built"));
        drop(SharedStore::open(MemoryStore::new()).expect("it is opened"));
    }
    end_until(before, "dropped worlds");
}

#[test]
fn a_store_is_free_again_after_a_refused_build() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = || SqliteStore::new(folder.path().join("plans.db"));
    let first = World::builder().build(store()).expect("it is built");
    assert!(World::builder().build(store()).is_err(), "the first one has it");
    first.shutdown().expect("it ends");
    World::builder().build(store()).expect("it is free").shutdown().expect("it ends");
}

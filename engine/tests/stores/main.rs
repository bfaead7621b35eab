//! One behaviour suite for all stores: what a store promises does not depend on which one it is.
//! Beside it, what worlds do with theirs.

#[path = "../common/mod.rs"]
mod common;
#[macro_use]
mod suite;

mod cleaner;
mod codec;
mod copies;
mod copying;
mod damage;
mod damaged_ends;
mod damaged_locks;
mod disk_full;
mod entities;
mod large_values;
mod let_go;
mod links;
mod live;
mod locks;
mod log;
mod opening;
mod step_transactions;
mod transactions;
mod unencodable;
mod view;

use suite::place;
use turnwheel_engine::MemoryStore;
use turnwheel_sqlite::SqliteStore;

promises!(memory, crate::place::Place::new(crate::MemoryStore::new(), ()));
promises!(sqlite, crate::sqlite());

fn sqlite() -> place::Place {
    let folder = tempfile::tempdir().expect("a folder");
    place::Place::new(SqliteStore::new(folder.path().join("plans.db")), folder)
}

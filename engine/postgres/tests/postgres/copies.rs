//! A store is copied from one schema into another one; and one that nodes share is not.

use std::sync::Arc;
use std::time::Duration;

use turnwheel_engine::store::{copy, CopyError};
use turnwheel_engine::{BuildError, MemoryStore, SharedStore, StoreError, World};

use crate::copying::check;
use crate::server::{store, store_of, url};

#[test]
fn a_store_is_copied_into_a_database_and_out_of_it() {
    let into = check(Arc::new(MemoryStore::new()), Arc::new(store()));
    let between = check(Arc::new(store()), Arc::new(store()));
    let out = check(Arc::new(store()), Arc::new(MemoryStore::new()));
    assert_eq!([into.plans, between.plans], [out.plans; 2]);
}

#[test]
fn a_store_with_a_live_node_is_not_copied() {
    let url = url();
    let shared = SharedStore::node(store_of(&url), Duration::from_secs(3)).expect("it opens");
    let world = World::builder().name("one").join(&shared).expect("it joins");
    let (from, to) = (Arc::new(store_of(&url)), Arc::new(MemoryStore::new()));
    let refused = copy(from.clone(), to.clone(), &mut |_| {}).expect_err("it is in use");
    let CopyError::Open(BuildError::Store(StoreError::InUse { .. })) = refused else {
        panic!("{refused}")
    };
    world.shutdown().expect("it ends");
    shared.close().expect("it ends");
    copy(from, to, &mut |_| {}).expect("it is free now");
}

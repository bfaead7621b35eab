//! Looking at a store that a world has, or that none has.

use turnwheel_engine::store::{Filter, Order, StoreView};
use turnwheel_engine::{
    Next, PlanError, PlanId, PlanResult, PlanState, Store, StoreError, Time, World,
};
use turnwheel_sqlite::SqliteStore;
use turnwheel_testkit::FaultStore;

use crate::common::calendar::{every, put, HOUR};
use crate::common::Theatre;

#[test]
fn plans_are_seen_as_they_are_though_their_rows_are_behind() {
    let theatre = Theatre::new();
    theatre.script.on("a", |_| Ok(Next::Suspend("a word".to_owned())));
    let (done, waits) = (theatre.perform("b"), theatre.perform("a"));
    theatre.settle(&waits);
    put(&theatre, every("hourly", HOUR, "b"));
    // The entries of this one are in no row: the journal has not come to it.
    let last = theatre.perform("c");
    let mut view = StoreView::of(&theatre.store).expect("the store is there");
    let rows = view.list(&Filter::default()).expect("the store is there");
    let found: Vec<PlanId> = rows.iter().map(|row| row.id).collect();
    assert_eq!(found, [last.id(), waits.id(), done.id()]);
    let oldest = Filter { order: Order::OldestFirst, limit: 2, ..Filter::default() };
    let rows = view.list(&oldest).expect("the store is there");
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [done.id(), waits.id()]);
    let stopped = Filter { states: vec![PlanState::Stopped], ..Filter::default() };
    assert_eq!(view.list(&stopped).expect("the store is there")[0].id, done.id());

    let plan = view.plan(done.id()).expect("it is there");
    assert_eq!(plan.result(), PlanResult::Success);
    let records = view.records(done.id()).expect("it is there");
    assert!(matches!(records[0], turnwheel_engine::plan::Record::Created(_)), "{records:?}");
    let counts = view.counts().expect("the store is there");
    assert_eq!((counts.total(), counts.in_state(PlanState::Stopped)), (3, 1));
    let schedule = &view.schedules("", 10).expect("the store is there")[0];
    assert_eq!(schedule.times(Time(0), 2), [3_600, 7_200].map(|second| Time(second * 1_000_000)));
    assert!(view.locks().expect("the store is there").is_empty());
    let unknown = PlanId::from_bytes([9; 16]);
    assert!(matches!(view.plan(unknown), Err(PlanError::Unknown(_))));
    assert!(matches!(view.records(unknown), Err(PlanError::Unknown(_))));
}

/// How often the store is read for all pages of so many plans, whose rows in the list are all
/// behind.
fn reads_of_all_pages(plans: u64, order: Order) -> u64 {
    let theatre = Theatre::new();
    let plans: Vec<PlanId> = (0..plans).map(|_| theatre.perform("c").id()).collect();
    let store = FaultStore::new(theatre.store.clone());
    let mut view = StoreView::of(&store).expect("the store is there");
    let before = store.reads();
    let mut filter = Filter { order, limit: 4, ..Filter::default() };
    let mut found = Vec::new();
    loop {
        let rows = view.list(&filter).expect("the store is there");
        for row in &rows {
            let records = view.records_of(row).expect("it is there");
            assert!(matches!(records[0], turnwheel_engine::plan::Record::Created(_)));
        }
        found.extend(rows.iter().map(|row| row.id));
        match rows.last() {
            Some(last) if rows.len() == 4 => filter = filter.next_page(last.id),
            _ => break,
        }
    }
    if order == Order::NewestFirst {
        found.reverse();
    }
    assert_eq!(found, plans);
    store.reads() - before
}

#[test]
fn pages_of_plans_that_are_behind_cost_the_same_for_each_plan() {
    for order in [Order::OldestFirst, Order::NewestFirst] {
        let (few, many) = (reads_of_all_pages(20, order), reads_of_all_pages(80, order));
        // Four times as many plans are read four times as often, and not sixteen times.
        assert!(many <= 5 * few, "{few} reads for 20 plans, {many} for 80 ({order:?})");
    }
}

#[test]
fn a_file_is_looked_at_and_not_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing.db");
    let error = SqliteStore::new(&missing).view().expect_err("there is none").to_string();
    assert!(error.contains("there is no file") && !missing.exists(), "{error}");
    let empty = folder.path().join("empty.db");
    std::fs::write(&empty, "").expect("the folder is writable");
    let error = SqliteStore::new(&empty).view().expect_err("it is empty").to_string();
    assert!(error.contains("no store"), "{error}");
    let text = folder.path().join("text.db");
    std::fs::write(&text, "not a database, and longer than a header. ".repeat(50)).expect("room");
    assert!(matches!(SqliteStore::new(&text).view(), Err(StoreError::Corrupt(_))));
}

#[test]
fn who_finds_a_store_in_use_is_told_where_it_is_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("turnwheel.db");
    let store = SqliteStore::new(&file);
    assert!(store.announce("http://127.0.0.1:1").is_err(), "it is not open");
    let world = World::builder().build(store.clone()).expect("a world");
    let holder = || match SqliteStore::new(&file).writer().map(|_| ()) {
        Err(StoreError::InUse { holder, .. }) => holder,
        other => panic!("{other:?}"),
    };
    let process = format!("process {}", std::process::id());
    assert_eq!(holder(), process);
    store.announce("http://127.0.0.1:40000").expect("it is open");
    assert_eq!(holder(), format!("{process} serving http://127.0.0.1:40000"));
    store.announce("http://127.0.0.1:4").expect("it is open");
    assert_eq!(holder(), format!("{process} serving http://127.0.0.1:4"));
    // Beside it, everybody may look.
    let mut view = SqliteStore::new(&file).view().expect("it is a store");
    assert!(view.list(&Filter::default()).expect("it can be read").is_empty());
    world.shutdown().expect("it ends");
}

#[test]
fn a_world_has_its_store_until_it_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("turnwheel.db");
    // The store is given away, and so is its lock.
    let world = World::builder().build(SqliteStore::new(&file)).expect("a world");
    assert!(matches!(SqliteStore::new(&file).writer(), Err(StoreError::InUse { .. })));
    let holder = SqliteStore::new(&file).holder().expect("it can be found out");
    assert_eq!(holder, Some(format!("process {}", std::process::id())));
    world.shutdown().expect("it ends");
    assert_eq!(SqliteStore::new(&file).holder().expect("it can be found out"), None);
    assert!(SqliteStore::new(&file).writer().is_ok(), "nobody has it any more");
}

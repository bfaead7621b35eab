//! States and reminders of entities are kept in the store of a world, and outlive it.

use std::future::Future;
use std::task::{Context, Waker};
use std::time::Duration;

use turnwheel_actors::entity::{EntityContext, ReminderId, ReminderRow, StoreError, Stored};
use turnwheel_actors::{Actor, AsyncContext, AsyncHandler, Entities, Entity, System};
use turnwheel_actors_testkit as testkit;
use turnwheel_engine::limits::{COMMIT_APPENDS_MAX, COMMIT_SPARE_MAX, TOGETHER_MAX};
use turnwheel_engine::store::StateScan;
use turnwheel_engine::{MemoryStore, StateWrite, Store, Time, TimedStates, World};
use turnwheel_runtime::sim::Sim;
use turnwheel_sqlite::{SqliteStore, SqliteSync};
use turnwheel_testkit::FaultStore;

fn check(store: impl Store) {
    let world = World::builder().build(store).expect("the world begins");
    testkit::check_state_store(&*world.states());
    testkit::check_reminder_store(&*world.reminders());
    turnwheel_runtime::completion::block_on(check_timed(&world.timed_states()))
        .expect("times are kept");
    world.shutdown().expect("it ends");
}

/// Bytes and due time of a state change together, from the version that was read, and states are
/// found by both of their orders.
async fn check_timed(states: &TimedStates) {
    let at = |seconds: u64| Some(Time(seconds * 1_000_000));
    let save = |key: &'static str, byte: u8, due: Option<Time>, from: u64| async move {
        states.save("user", key, (Some(vec![byte]), due), from).await
    };
    for (key, due) in [("c", at(1)), ("a", at(3)), ("b", at(2)), ("d", None)] {
        assert_eq!(save(key, 1, due, 0).await.expect("it is answered"), 1, "{key}");
    }
    states.save("other", "x", (Some(vec![9]), at(0)), 0).await.expect("it is answered");
    let keys = |scan: StateScan, limit: usize| async move {
        let rows = states.list("user", scan, limit).await.expect("it is answered");
        rows.into_iter().map(|row| row.key).collect::<Vec<_>>()
    };
    let until = |seconds: u64| StateScan::Due(Time(seconds * 1_000_000));
    assert_eq!(keys(until(2), 10).await, ["c", "b"]);
    assert_eq!(keys(until(9), 2).await, ["c", "b"]);
    assert_eq!(keys(StateScan::After("a".into()), 2).await, ["b", "c"]);
    let refused = save("c", 2, at(9), 7).await.expect_err("it is refused");
    assert!(matches!(refused, StoreError::Conflict { expected: 7, found: 1, .. }), "{refused}");
    assert_eq!(keys(until(2), 10).await, ["c", "b"], "a refused write moves no due time");
    assert_eq!(save("c", 2, None, 1).await.expect("it is answered"), 2);
    assert_eq!(states.save("user", "b", (None, None), 1).await.expect("it is answered"), 2);
    assert_eq!(keys(until(9), 10).await, ["a"]);
    assert_eq!(keys(StateScan::After(String::new()), 10).await, ["a", "c", "d"]);
    let row = states.list("user", until(9), 1).await.expect("it is answered").remove(0);
    assert_eq!((row.due, row.record.bytes, row.record.version), (at(3), Some(vec![1]), 1));
    let both = [write("a", 1, at(4)), write("c", 1, None), write("e", 0, at(5))];
    let written = states.save_all(both.into()).await.expect("it is answered");
    assert!(matches!(written[..], [Ok(2), Err(StoreError::Conflict { found: 2, .. }), Ok(1)]));
    assert_eq!(keys(until(9), 10).await, ["a", "e"]);
    let gone = ["a", "c", "d", "e", "never there"].map(str::to_owned);
    states.remove_all("user", gone.into()).await.expect("it is answered");
    assert_eq!(keys(StateScan::After(String::new()), 10).await, Vec::<String>::new());
    assert_eq!(states.load("user", "a").await.expect("it is answered").version, 0);
}

fn write(key: &str, expected: u64, due: Option<Time>) -> StateWrite {
    let (name, key, bytes) = ("user".to_owned(), key.to_owned(), Some(vec![2]));
    StateWrite { name, key, bytes, due, expected, hold: None }
}

#[test]
fn states_that_are_written_together_are_in_one_commit_whatever_else_is() {
    let store = FaultStore::new(MemoryStore::new());
    let sim = Sim::builder().fifo().workers(1).build();
    let builder = World::builder().group(&sim.group("plans")).io_group(&sim.group("journal"));
    let world = sim.block_on(builder.open(store.clone())).expect("it ends").expect("it begins");
    let states = world.timed_states();
    // They leave room in the first commit for a part of what is handed over together.
    let alone = COMMIT_APPENDS_MAX - TOGETHER_MAX / 2;
    let one = |number: usize| handed_over(states.clone(), format!("alone {number}"));
    let singles: Vec<_> = (0..alone).map(one).collect();
    let keys = (0..TOGETHER_MAX).map(|number| write(&format!("together {number}"), 0, None));
    let mut together = Box::pin(states.save_all(keys.collect()));
    let polled = together.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending(), "the journal is another task");
    let failure = turnwheel_engine::StoreError::Failed("for a test".to_owned());
    store.fail_at(store.commits() + 2, failure);
    for saved in singles {
        assert_eq!(sim.block_on(saved).expect("it ends").expect("it is in the first commit"), 1);
    }
    sim.block_on(together).expect("it ends").expect_err("it is in the second commit");
    let rows = states.list("user", StateScan::After(String::new()), 9_999);
    let rows = sim.block_on(rows).expect("it ends").expect("it is answered");
    assert_eq!(rows.len(), alone, "the first commit has no part of it");
    let many = states.save_all((0..=TOGETHER_MAX).map(|_| write("x", 0, None)).collect());
    let refused = sim.block_on(many).expect("it ends").expect_err("they are too many");
    assert!(refused.to_string().contains("513 changes at once: at most 512"), "{refused}");
}

#[test]
fn a_world_in_memory_keeps_the_promises_of_both_stores() {
    check(MemoryStore::new());
}

#[test]
fn a_world_in_a_file_keeps_the_promises_of_both_stores() {
    let folder = tempfile::tempdir().expect("it is answered");
    check(SqliteStore::new(folder.path().join("plans.db")).sync(SqliteSync::Off));
}

#[test]
fn states_that_are_too_large_are_refused() {
    let world = World::builder().build(MemoryStore::new()).unwrap();
    let states = world.states();
    let large = vec![0; turnwheel_engine::limits::STATE_BYTES_MAX + 1];
    let save = states.save("account", "42", large, 0, 1);
    let error = turnwheel_runtime::completion::block_on(save).unwrap().unwrap_err();
    assert!(error.to_string().contains("account «42»: the state of the entity has"), "{error}");
    world.shutdown().unwrap();
}

/// An entity whose state is in the world's store.
struct Account {
    balance: Option<Stored<i64>>,
}

impl Actor for Account {
    type Error = StoreError;
}

impl Entity for Account {
    type Key = String;
    const NAME: &'static str = "account";

    fn create(_: &String) -> Self {
        Account { balance: None }
    }

    async fn activate(&mut self, cx: EntityContext<Self>) -> Result<(), StoreError> {
        self.balance = Some(Stored::load(&cx).await?);
        Ok(())
    }
}

struct Deposit(i64);

impl AsyncHandler<Deposit> for Account {
    type Reply = Result<i64, StoreError>;

    async fn handle(&mut self, Deposit(amount): Deposit, _: AsyncContext<Self>) -> Self::Reply {
        let balance = self.balance.as_mut().expect("it was activated");
        balance.update(|balance| *balance += amount).await?;
        Ok(**balance)
    }
}

fn deposits(store: impl Store, seed: u64, accounts: usize) -> Vec<i64> {
    let sim = Sim::new(seed);
    let builder = World::builder().group(&sim.group("plans")).io_group(&sim.group("journal"));
    let world = sim.block_on(builder.open(store)).expect("it ends").expect("the world begins");
    let system = System::new(&sim.group("entities"));
    let entities = Entities::builder(&system).store(world.states()).build();
    let asks: Vec<_> = (0..accounts)
        .map(|number| entities.get::<Account>(number.to_string().as_str()).ask(Deposit(5)))
        .collect();
    asks.into_iter()
        .map(|ask| {
            let answer = sim.block_on(ask).expect("it ends").expect("it answers");
            answer.expect("it is written")
        })
        .collect()
}

#[test]
fn the_state_of_an_entity_outlives_the_world() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plans.db");
    for life in 1..=3 {
        let store = SqliteStore::new(&path).sync(SqliteSync::Off);
        assert_eq!(deposits(store, life, 3), [5 * life as i64; 3]);
    }
    let store = MemoryStore::new();
    assert_eq!(deposits(store.clone(), 1, 2), [5, 5]);
    assert_eq!(deposits(store, 2, 2), [10, 10]);
}

#[test]
fn writes_of_many_entities_share_commits() {
    let store = FaultStore::new(MemoryStore::new());
    assert_eq!(deposits(store.clone(), 1, 200), [5; 200]);
    assert!(store.commits() < 180, "{} commits for 200 writes", store.commits());
}

/// A write that is handed to the journal at once, and whose outcome is taken later.
fn handed_over(states: TimedStates, key: String) -> impl Future<Output = Result<u64, StoreError>> {
    let save = async move { states.save("user", &key, (Some(vec![1]), None), 0).await };
    let mut save = Box::pin(save);
    let polled = save.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending(), "the journal is another task");
    save
}

#[test]
fn state_that_is_removed_is_in_no_commit_with_a_write_of_it() {
    let store = FaultStore::new(MemoryStore::new());
    let sim = Sim::builder().fifo().workers(1).build();
    let builder = World::builder().group(&sim.group("plans")).io_group(&sim.group("journal"));
    let world = sim.block_on(builder.open(store.clone())).expect("it ends").expect("it begins");
    let (states, before) = (world.timed_states(), store.commits());
    let others: Vec<_> = (0..9).map(|it| handed_over(states.clone(), format!("{it}"))).collect();
    let first = handed_over(states.clone(), "a".to_owned());
    let mut gone = Box::pin(states.remove_all("user", vec!["a".to_owned()]));
    let polled = gone.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending(), "the journal is another task");
    let again = handed_over(states.clone(), "a".to_owned());
    for saved in others.into_iter().chain([first, again]) {
        assert_eq!(sim.block_on(saved).expect("it ends").expect("it finds no version"), 1);
    }
    sim.block_on(gone).expect("it ends").expect("it is gone in between");
    assert_eq!(store.commits() - before, 3, "the write, the removal, and the next write");
}

#[test]
fn write_of_a_caller_does_not_wait_behind_those_in_spare_room() {
    let store = FaultStore::new(MemoryStore::new());
    let sim = Sim::new(3);
    let builder = World::builder().group(&sim.group("plans")).io_group(&sim.group("journal"));
    let world = sim.block_on(builder.open(store.clone())).expect("it ends").expect("it begins");
    let states = world.timed_states();
    let spare = |number| handed_over(states.in_spare_room(), format!("due {number}"));
    let due: Vec<_> = (0..3_000).map(spare).collect();
    let before = store.commits();
    let asked = handed_over(states.clone(), "asked".to_owned());
    sim.block_on(asked).expect("it ends").expect("it is written");
    let commits = store.commits() - before;
    assert!(commits <= 2, "the write of a caller is in one of the next two commits: {commits}");
    let all = states.list("user", StateScan::After(String::new()), 9_999);
    let written = sim.block_on(all).expect("it ends").expect("it is answered").len();
    assert!(written <= 2 * COMMIT_SPARE_MAX, "{written} writes were before that of the caller");
    for saved in due {
        sim.block_on(saved).expect("it ends").expect("those in spare room are written as well");
    }
}

#[test]
fn a_reminder_outlives_the_world() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plans.db");
    let id = ReminderId::new("account", "42", "interest");
    let mut row = ReminderRow::new(id.clone());
    row.due_ms = 77;
    row.period_ms = Some(Duration::from_secs(60).as_millis() as u64);
    let world = World::builder().build(SqliteStore::new(&path)).unwrap();
    let reminders = world.reminders();
    let upsert = reminders.upsert(&row, 1);
    let version = turnwheel_runtime::completion::block_on(upsert).unwrap().unwrap();
    drop(reminders);
    world.shutdown().unwrap();
    drop(world);
    let world = World::builder().build(SqliteStore::new(&path)).unwrap();
    let reminders = world.reminders();
    let found = turnwheel_runtime::completion::block_on(reminders.get(&id)).unwrap().unwrap();
    let found = found.expect("it is there");
    assert_eq!((found.due_ms, found.period_ms, found.version), (77, Some(60_000), version));
    world.shutdown().unwrap();
}

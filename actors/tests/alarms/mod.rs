//! An entity with reminders, the store of a test, and data that survives the activations.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_actors::entity::{
    DueRange, EntityContext, EntityReminders, MemoryReminders, Placement, Reminder, ReminderId,
    ReminderRow, ReminderStore, ReminderTick, Reminders, RemindersBuilder, Schedule, SingleNode,
    StoreError, StoreFuture,
};
use turnwheel_actors::{
    Actor, AsyncContext, AsyncHandler, Context, Entities, Entity, EntityRef, Handler,
};
use turnwheel_actors_testkit::Stage;
use turnwheel_runtime::completion::{completion, Completer, Completion};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);

/// State that outlives the activations of one key; every test has keys of its own.
#[derive(Default)]
pub(crate) struct Life {
    pub(crate) created: u32,
    /// Ticks that were begun.
    pub(crate) ticks: Vec<ReminderTick>,
    /// Ticks that fail.
    pub(crate) fails: u32,
    /// Ticks that panic.
    pub(crate) panics: u32,
    /// Activations that fail.
    pub(crate) dead: u32,
    /// Duration of a tick.
    pub(crate) takes: Duration,
    is_busy: bool,
}

static LIVES: Mutex<Option<HashMap<u64, Life>>> = Mutex::new(None);

pub(crate) fn life<R>(key: u64, look: impl FnOnce(&mut Life) -> R) -> R {
    look(LIVES.lock().get_or_insert_default().entry(key).or_default())
}

/// Its ticks so far.
pub(crate) fn ticks(key: u64) -> usize {
    life(key, |life| life.ticks.len())
}

/// An entity that is reminded.
pub(crate) struct Alarm {
    key: u64,
    reminders: Option<EntityReminders>,
}

#[derive(Debug, thiserror::Error)]
#[error("not today")]
pub(crate) struct NotToday;

impl Actor for Alarm {
    type Error = NotToday;
}

impl Entity for Alarm {
    type Key = u64;
    const NAME: &'static str = "alarm";
    const IDLE: Duration = Duration::from_secs(30);

    fn create(key: &u64) -> Self {
        life(*key, |life| {
            life.created += 1;
            life.is_busy = false;
        });
        Alarm { key: *key, reminders: None }
    }

    async fn activate(&mut self, cx: EntityContext<Self>) -> Result<(), NotToday> {
        self.reminders = Some(cx.reminders());
        let is_dead = |life: &mut Life| {
            let is_dead = life.dead > 0;
            life.dead = life.dead.saturating_sub(1);
            is_dead
        };
        if life(self.key, is_dead) {
            return Err(NotToday);
        }
        Ok(())
    }
}

impl AsyncHandler<ReminderTick> for Alarm {
    type Reply = Result<(), NotToday>;

    async fn handle(&mut self, tick: ReminderTick, cx: AsyncContext<Self>) -> Result<(), NotToday> {
        assert!(tick.current >= tick.planned, "early");
        let name = Arc::clone(&tick.name);
        let (takes, fails, panics) = life(self.key, |life| {
            assert!(!life.is_busy, "two ticks at a time");
            life.is_busy = true;
            life.ticks.push(tick);
            let (fails, panics) = (life.fails > 0, life.panics > 0);
            life.fails = life.fails.saturating_sub(1);
            life.panics = life.panics.saturating_sub(1);
            (life.takes, fails, panics)
        });
        assert!(!panics, "as the test wants it");
        if !takes.is_zero() {
            cx.sleep(takes).await.expect("room for a timer");
        }
        if &*name == "again" && ticks(self.key) < 3 {
            let me = self.reminders.as_ref().expect("it was activated");
            me.register("again", Schedule::once(MINUTE)).await.expect("registered");
        }
        if &*name == "bye" {
            let me = self.reminders.as_ref().expect("it was activated");
            let reminder = me.get("bye").await.expect("the store is sound").expect("it is there");
            me.unregister(&reminder).await.expect("it is as it was read");
        }
        life(self.key, |life| life.is_busy = false);
        if fails {
            return Err(NotToday);
        }
        Ok(())
    }
}

/// Does nothing.
pub(crate) struct Touch;

impl Handler<Touch> for Alarm {
    type Reply = ();

    fn handle(&mut self, _: Touch, _: &mut Context<'_, Self>) {}
}

/// A store whose writes may fail, and whose lists may be outdated when they arrive.
#[derive(Debug, Default)]
pub(crate) struct TestStore {
    pub(crate) rows: MemoryReminders,
    /// Writes that fail.
    pub(crate) fails: AtomicUsize,
    /// Whether lists fail.
    pub(crate) is_deaf: AtomicBool,
    gate: Mutex<Option<Completion<()>>>,
}

impl TestStore {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// The next list is read at once, and arrives when this is completed.
    pub(crate) fn hold_list(&self) -> Completer<()> {
        let (open, gate) = completion();
        *self.gate.lock() = Some(gate);
        open
    }

    fn may_write(&self) -> Result<(), StoreError> {
        let take = |left: usize| left.checked_sub(1);
        match self.fails.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Err(StoreError::Failed("as the test wants it".to_owned())),
            Err(_) => Ok(()),
        }
    }
}

impl ReminderStore for TestStore {
    fn get<'a>(&'a self, id: &'a ReminderId) -> StoreFuture<'a, Option<ReminderRow>> {
        self.rows.get(id)
    }

    fn list_of<'a>(
        &'a self,
        entity: &'a str,
        key: &'a str,
        limit: usize,
    ) -> StoreFuture<'a, Vec<ReminderRow>> {
        self.rows.list_of(entity, key, limit)
    }

    fn list<'a>(&'a self, range: &'a DueRange) -> StoreFuture<'a, Vec<ReminderRow>> {
        let (rows, gate) = (self.rows.list(range), self.gate.lock().take());
        let is_deaf = self.is_deaf.load(Ordering::Relaxed);
        Box::pin(async move {
            if let Some(gate) = gate {
                // Dropped is open too.
                drop(gate.await);
            }
            if is_deaf {
                return Err(StoreError::Failed("as the test wants it".to_owned()));
            }
            rows.await
        })
    }

    fn upsert<'a>(&'a self, row: &'a ReminderRow, epoch: u64) -> StoreFuture<'a, u64> {
        match self.may_write() {
            Ok(()) => self.rows.upsert(row, epoch),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn remove<'a>(&'a self, id: &'a ReminderId, expected: u64, epoch: u64) -> StoreFuture<'a, ()> {
        match self.may_write() {
            Ok(()) => self.rows.remove(id, expected, epoch),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

/// Reminders in this store.
pub(crate) fn described(store: &Arc<TestStore>) -> RemindersBuilder {
    let store: Arc<dyn ReminderStore> = Arc::clone(store) as _;
    Reminders::builder(store)
}

/// Entities with reminders in this store.
pub(crate) fn begin(stage: &Stage<'_>, store: &Arc<TestStore>) -> Entities {
    begin_placed(stage, store, Arc::new(SingleNode))
}

/// The same, with a placement of keys.
pub(crate) fn begin_placed(
    stage: &Stage<'_>,
    store: &Arc<TestStore>,
    placement: Arc<dyn Placement>,
) -> Entities {
    let reminders = described(store).entity::<Alarm, _>().build().expect("sound settings");
    let builder = Entities::builder(stage.system()).placement(placement).reminders(&reminders);
    let entities = builder.build();
    stage.run();
    entities
}

/// Ends the telling of reminders.
#[track_caller]
pub(crate) fn end(stage: &Stage<'_>, entities: Entities) {
    stage.wait(entities.end_reminders()).expect("it ends").expect("in order");
}

/// Registers a reminder.
#[track_caller]
pub(crate) fn register(
    stage: &Stage<'_>,
    of: &EntityRef<Alarm>,
    name: &str,
    schedule: Schedule,
) -> Reminder {
    let registered = stage.wait_within(of.reminders().register(name, schedule), Duration::ZERO);
    registered.expect("it comes at once").expect("it is registered")
}

/// The reminder of a name.
#[track_caller]
pub(crate) fn get(stage: &Stage<'_>, of: &EntityRef<Alarm>, name: &str) -> Option<Reminder> {
    let got = stage.wait_within(of.reminders().get(name), Duration::ZERO);
    got.expect("it comes at once").expect("the store is sound")
}

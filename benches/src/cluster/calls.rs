//! Calls to entities of another node: through the connector of worlds in one process over a store in
//! memory, and through rows of PostgreSQL.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use turnwheel::actors::entity::{EntityContext, RemoteMessage, StoreError, Stored};
use turnwheel::actors::{
    Actor, AsyncContext, AsyncHandler, Context, Entities, Entity, Handler, System,
};
use turnwheel_engine::connect::Local;
use turnwheel_engine::store::slot_of_entity;
use turnwheel_engine::{MemoryStore, SharedStore, World};
use turnwheel_postgres::PostgresStore;
use turnwheel_runtime::{Group, Pinning};

use super::{until, Stage};
use crate::engine::{failed, SceneRow};
use crate::error::BenchError;
use crate::load;

/// Callers at a time.
const CALLERS: [usize; 2] = [1, 64];

/// Entities that are called.
const KEYS: usize = 256;

/// A number that is kept in the store.
struct Counter(Option<Stored<i64>>);

impl Actor for Counter {
    type Error = StoreError;
}

impl Entity for Counter {
    type Key = u64;
    const NAME: &'static str = "counter";

    fn create(_: &u64) -> Self {
        Self(None)
    }

    async fn activate(&mut self, cx: EntityContext<Self>) -> Result<(), StoreError> {
        self.0 = Some(Stored::load(&cx).await?);
        Ok(())
    }
}

/// Reads the value from memory.
#[derive(Serialize, Deserialize)]
struct Get;

impl RemoteMessage for Get {
    const NAME: &'static str = "get";
    const IS_REPEATABLE: bool = true;
}

impl Handler<Get> for Counter {
    type Reply = i64;

    fn handle(&mut self, _: Get, _: &mut Context<'_, Self>) -> i64 {
        self.0.as_deref().copied().unwrap_or_default()
    }
}

/// Adds one, and writes it.
#[derive(Serialize, Deserialize)]
struct Add;

impl RemoteMessage for Add {
    const NAME: &'static str = "add";
}

impl AsyncHandler<Add> for Counter {
    type Reply = Result<i64, String>;

    async fn handle(&mut self, _: Add, _: AsyncContext<Self>) -> Self::Reply {
        let value = self.0.as_mut().ok_or("it was not activated")?;
        value.update(|value| *value += 1).await.map_err(|error| error.to_string())?;
        Ok(**value)
    }
}

/// A world with its entities.
struct Node {
    world: World,
    entities: Entities,
    group: Group,
}

impl Node {
    fn new(name: &str, store: &SharedStore) -> Result<Self, BenchError> {
        let group = group(name, 1)?;
        let world = World::builder().name(name).join(store).map_err(|error| failed(&error))?;
        let entities = world.entities(
            Entities::builder(&System::new(&group))
                .remote::<Counter>(|counter| counter.message::<Get, _>().message::<Add, _>()),
        );
        Ok(Self { world, entities, group })
    }

    fn end(self) -> Result<(), BenchError> {
        self.world.shutdown().map_err(|error| failed(&error))?;
        let _left = self.group.shutdown();
        Ok(())
    }
}

fn group(name: &str, workers: usize) -> Result<Group, BenchError> {
    let group = Group::builder(name).workers(workers).pinning(Pinning::None).build();
    group.map_err(|error| failed(&error))
}

/// The rows of both ways.
pub(super) fn rows(stage: &Stage<'_>) -> Result<Vec<SceneRow>, BenchError> {
    let journal = group("journal", 3)?;
    let store = SharedStore::open_in(MemoryStore::new(), &journal, Local::new());
    let store = store.map_err(|error| failed(&error))?;
    let (asks, owner) = (Node::new("asks", &store)?, Node::new("owner", &store)?);
    let mut rows = measure("memory", stage, &asks, &owner)?;
    owner.end()?;
    asks.end()?;
    store.close().map_err(|error| failed(&error))?;
    let _left = journal.shutdown();

    let store = || {
        let store = PostgresStore::new(&stage.url()).map_err(|error| failed(&error))?;
        SharedStore::node(store, stage.options.lease).map_err(|error| failed(&error))
    };
    let stores = [store()?, store()?];
    let (asks, owner) = (Node::new("asks", &stores[0])?, Node::new("owner", &stores[1])?);
    rows.extend(measure("postgres", stage, &asks, &owner)?);
    owner.end()?;
    asks.end()?;
    stores.iter().try_for_each(SharedStore::close).map_err(|error| failed(&error))?;
    Ok(rows)
}

/// Calls entities of the second node from the first one.
fn measure(
    way: &str,
    stage: &Stage<'_>,
    asks: &Node,
    owner: &Node,
) -> Result<Vec<SceneRow>, BenchError> {
    until("equal shares", || {
        asks.world.worlds().iter().filter(|world| world.slots == 512).count() == 2
    })?;
    let owners = asks.world.slot_owners();
    let is_there = |key: &u64| {
        owners[slot_of_entity(Counter::NAME, &key.to_string())].world == owner.world.id()
    };
    let keys: Vec<u64> = (0..).filter(is_there).take(KEYS).collect();
    let time = Duration::from_secs(stage.options.seconds);
    let mut rows = Vec::new();
    for callers in CALLERS {
        let get = |key| {
            let asked = asks.entities.get::<Counter>(key).ask(Get).wait();
            asked.map(drop).map_err(|error| error.to_string())
        };
        rows.extend(called(format!("calls_{way}_get_{callers}"), callers, time, &keys, &get)?);
        let add = |key| {
            let asked = asks.entities.get::<Counter>(key).ask(Add).wait();
            asked.map_err(|error| error.to_string())?.map(drop)
        };
        rows.extend(called(format!("calls_{way}_add_{callers}"), callers, time, &keys, &add)?);
    }
    Ok(rows)
}

/// Calls for some time; a failed call is told, and is a figure.
fn called(
    workload: String,
    callers: usize,
    time: Duration,
    keys: &[u64],
    call: &(dyn Fn(u64) -> Result<(), String> + Sync),
) -> Result<Vec<SceneRow>, BenchError> {
    let begun = Instant::now();
    let failures = Mutex::new(Vec::new());
    let measured: Vec<Vec<Duration>> = std::thread::scope(|scope| {
        let failures = &failures;
        let caller = |caller: usize| {
            scope.spawn(move || {
                let mut times = Vec::new();
                for key in keys.iter().cycle().skip(caller * 7) {
                    let asked = Instant::now();
                    match call(*key) {
                        Ok(()) => times.push(asked.elapsed()),
                        Err(error) => failures.lock().push(error),
                    }
                    if begun.elapsed() > time {
                        break;
                    }
                }
                times
            })
        };
        let callers: Vec<_> = (0..callers).map(caller).collect();
        callers.into_iter().map(|it| it.join().expect("a caller does not panic")).collect()
    });
    let took = begun.elapsed().as_secs_f64();
    let (mut times, failures) = (measured.concat(), failures.into_inner());
    if let Some(failure) = failures.first() {
        eprintln!("{workload}: {} calls have failed, the first one: {failure}", failures.len());
    }
    times.sort_unstable();
    let rate = times.len() as f64 / took;
    let at = |part: usize| {
        let place = (times.len() * part).div_ceil(100).saturating_sub(1);
        times.get(place).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    };
    let figures = [
        ("calls_per_s", rate),
        ("p50_ms", at(50)),
        ("p99_ms", at(99)),
        ("failed", failures.len() as f64),
    ];
    let row = |(metric, value)| SceneRow {
        workload: workload.clone(),
        metric,
        value: load::rounded(value),
    };
    Ok(figures.map(row).to_vec())
}

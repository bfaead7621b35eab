//! Measures calls to entities of another node: through the connector of worlds in one process over a store
//! in memory, and through rows of PostgreSQL, on a server of its own. Prints rows of JSON.
//!
//! `cargo run --release -p turnwheel-postgres --example entity_calls`

#![expect(clippy::print_stdout, reason = "it prints what it measures")]

use std::error::Error;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use turnwheel_actors::entity::{EntityContext, RemoteMessage, StoreError, Stored};
use turnwheel_actors::{
    Actor, AsyncContext, AsyncHandler, Context, Entities, Entity, Handler, System,
};
use turnwheel_engine::connect::Local;
use turnwheel_engine::limits::NODE_LEASE;
use turnwheel_engine::store::slot_of_entity;
use turnwheel_engine::{MemoryStore, SharedStore, World};
use turnwheel_postgres::{LocalServer, PostgresStore};
use turnwheel_runtime::{Group, Pinning};

/// How long each row is measured.
const TIME: Duration = Duration::from_secs(5);

/// Callers at a time.
const CALLERS: [usize; 2] = [1, 64];

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
    store: SharedStore,
}

impl Node {
    fn new(name: &str, store: &SharedStore) -> Result<Self, Box<dyn Error>> {
        let group = Group::builder(name).workers(1).pinning(Pinning::None).build()?;
        let world = World::builder().name(name).join(store)?;
        let entities = world.entities(
            Entities::builder(&System::new(&group))
                .remote::<Counter>(|counter| counter.message::<Get, _>().message::<Add, _>()),
        );
        Ok(Self { world, entities, group, store: store.clone() })
    }

    fn end(self) -> Result<(), Box<dyn Error>> {
        self.world.shutdown()?;
        self.store.close()?;
        self.group.shutdown()?;
        Ok(())
    }
}

/// Calls entities of the second node from the first one.
fn measure(way: &str, asks: &Node, owner: &Node) -> Result<(), Box<dyn Error>> {
    let begun = Instant::now();
    while asks.world.worlds().iter().filter(|world| world.slots == 512).count() < 2 {
        if begun.elapsed() > Duration::from_secs(30) {
            return Err(format!("slots are not shared: {:?}", asks.world.worlds()).into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let owners = asks.world.slot_owners();
    let is_there = |key: &u64| {
        owners[slot_of_entity(Counter::NAME, &key.to_string())].world == owner.world.id()
    };
    let keys: Vec<u64> = (0..).filter(is_there).take(256).collect();
    for callers in CALLERS {
        row(way, "get", callers, &keys, |key| {
            let asked = asks.entities.get::<Counter>(key).ask(Get).wait();
            asked.map(drop).map_err(|error| error.to_string())
        })?;
        row(way, "add", callers, &keys, |key| {
            let asked = asks.entities.get::<Counter>(key).ask(Add).wait();
            asked.map_err(|error| error.to_string())?.map(drop)
        })?;
    }
    Ok(())
}

fn row(
    way: &str,
    what: &str,
    callers: usize,
    keys: &[u64],
    call: impl Fn(u64) -> Result<(), String> + Sync,
) -> Result<(), Box<dyn Error>> {
    let begun = Instant::now();
    let failed = Mutex::new(Vec::new());
    let measured: Vec<Vec<Duration>> = std::thread::scope(|scope| {
        let failed = &failed;
        let call = &call;
        let caller = |caller: usize| {
            scope.spawn(move || {
                let mut times = Vec::new();
                for key in keys.iter().cycle().skip(caller * 7) {
                    let asked = Instant::now();
                    match call(*key) {
                        Ok(()) => times.push(asked.elapsed()),
                        Err(error) => failed.lock().push(error),
                    }
                    if begun.elapsed() > TIME {
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
    let (mut times, failed) = (measured.concat(), failed.into_inner());
    if times.is_empty() {
        return Err(format!("no call was answered: {failed:?}").into());
    }
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1_000.0;
    let workload = format!("{way} {what} {callers}");
    let rate = times.len() as f64 / took;
    for (metric, value) in [("calls/s", rate), ("p50_ms", at(50)), ("p99_ms", at(99))] {
        println!("{{\"workload\":\"{workload}\",\"metric\":\"{metric}\",\"value\":{value:.3}}}");
    }
    if let Some(error) = failed.first() {
        println!("# {workload}: {} calls have failed, the first one: {error}", failed.len());
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("# load of the machine: {}", std::fs::read_to_string("/proc/loadavg")?.trim());
    let group = Group::builder("journal").workers(3).pinning(Pinning::None).build()?;
    let store = SharedStore::open_in(MemoryStore::new(), &group, Local::new())?;
    let (asks, owner) = (Node::new("asks", &store)?, Node::new("owner", &store)?);
    measure("memory, connector:", &asks, &owner)?;
    asks.world.shutdown()?;
    owner.end()?;
    asks.group.shutdown()?;
    group.shutdown()?;

    let server = LocalServer::start(&[])?;
    let url = server.url("postgres");
    let node = |name: &str| -> Result<Node, Box<dyn Error>> {
        Node::new(name, &SharedStore::node(PostgresStore::new(&url)?, NODE_LEASE)?)
    };
    let (asks, owner) = (node("asks")?, node("owner")?);
    measure("postgres, mail:", &asks, &owner)?;
    owner.end()?;
    asks.end()?;
    println!("# load of the machine: {}", std::fs::read_to_string("/proc/loadavg")?.trim());
    Ok(())
}

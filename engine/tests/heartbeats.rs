//! Heartbeats of nodes whose requests take long. Real threads, and a program of its own: statements wait
//! as those of a slow database.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use turnwheel_actors::entity::RemoteMessage;
use turnwheel_actors::{Actor, Context, Entities, Entity, Handler, System};
use turnwheel_engine::store::{
    slot_of_entity, Beat, Hint, Mail, Members, StoreReader, StoreWriter,
};
use turnwheel_engine::{MemoryStore, SharedStore, Store, StoreError, World};
use turnwheel_runtime::{Group, Pinning};

const LEASE: Duration = Duration::from_secs(2);

/// A statement about rows between nodes takes half of a lease.
const STATEMENT: Duration = Duration::from_secs(1);

/// A store whose requests between nodes take long.
#[derive(Clone, Debug)]
struct Slow(MemoryStore);

impl Store for Slow {
    fn open(&self) -> Result<Box<dyn StoreWriter>, StoreError> {
        self.0.open()
    }

    fn writer(&self) -> Result<Box<dyn StoreWriter>, StoreError> {
        self.0.writer()
    }

    fn reader(&self) -> Result<Box<dyn StoreReader>, StoreError> {
        self.0.reader()
    }

    fn members(&self) -> Result<Option<Box<dyn Members>>, StoreError> {
        let inner = self.0.members()?;
        Ok(inner.map(|inner| Box::new(SlowMail(inner)) as Box<dyn Members>))
    }

    fn name(&self) -> String {
        "slow".to_owned()
    }
}

struct SlowMail(Box<dyn Members>);

impl Members for SlowMail {
    fn beat(&mut self, worlds: &[u64], lease: Duration) -> Result<Beat, StoreError> {
        self.0.beat(worlds, lease)
    }

    fn post(&mut self, mail: &[Mail]) -> Result<bool, StoreError> {
        std::thread::sleep(STATEMENT);
        self.0.post(mail)
    }

    fn mail(&mut self, worlds: &[u64], rows: usize, bytes: usize) -> Result<Vec<Mail>, StoreError> {
        std::thread::sleep(STATEMENT);
        self.0.mail(worlds, rows, bytes)
    }

    fn listen(&mut self, hint: Hint) {
        self.0.listen(hint);
    }
}

struct Echo;

impl Actor for Echo {
    type Error = std::convert::Infallible;
}

impl Entity for Echo {
    type Key = u64;
    const NAME: &'static str = "echo";

    fn create(_: &u64) -> Self {
        Self
    }
}

#[derive(Serialize, Deserialize)]
struct Hello;

impl RemoteMessage for Hello {
    const NAME: &'static str = "hello";
}

impl Handler<Hello> for Echo {
    type Reply = u8;

    fn handle(&mut self, _: Hello, _: &mut Context<'_, Self>) -> u8 {
        7
    }
}

fn entities(world: &World, group: &Group) -> Entities {
    let builder = Entities::builder(&System::new(group));
    world.entities(builder.remote::<Echo>(|echo| echo.message::<Hello, _>()))
}

#[test]
fn many_slow_requests_cost_no_node_its_lease() {
    let store = Slow(MemoryStore::new());
    let open = || SharedStore::node(store.clone(), LEASE).expect("it opens");
    let (one, two) = (open(), open());
    let join = |name: &str, store: &SharedStore| {
        World::builder().name(name).join(store).expect("the world begins")
    };
    let (asks, owns) = (join("asks", &one), join("owns", &two));
    let group = Group::builder("entities").workers(1).pinning(Pinning::None);
    let group = group.build().expect("threads");
    let (callers, _served) = (entities(&asks, &group), entities(&owns, &group));
    let begun = Instant::now();
    let own_slots = || asks.worlds().iter().filter(|world| world.slots == 512).count();
    while own_slots() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(60), "they share the slots");
        std::thread::yield_now();
    }
    let slots = owns.own_slots();
    let is_there = |key: &u64| slots.has(slot_of_entity("echo", &key.to_string()));
    let keys: Vec<u64> = (0..).filter(is_there).take(64).collect();

    let mut members = store.0.members().expect("it is open").expect("it has leases");
    let ends = Instant::now() + 4 * LEASE;
    let answered: usize = std::thread::scope(|scope| {
        let caller = |key: u64| {
            let callers = &callers;
            scope.spawn(move || {
                let mut answered = 0;
                while Instant::now() < ends {
                    let asked = callers.get::<Echo>(key).ask_within(Hello, 8 * LEASE).wait();
                    answered += usize::from(asked.expect("its owner lives") == 7);
                }
                answered
            })
        };
        let calling: Vec<_> = keys.iter().copied().map(caller).collect();
        while calling.iter().any(|caller| !caller.is_finished()) {
            let beat = members.beat(&[], LEASE).expect("it answers");
            assert_eq!((beat.left.len(), beat.lapsed()), (2, vec![]), "the leases of both");
            std::thread::sleep(LEASE / 40);
        }
        calling.into_iter().map(|caller| caller.join().expect("it is answered")).sum()
    });
    assert!(answered >= keys.len(), "{answered} of 64 callers were answered");
    for world in [asks, owns] {
        world.shutdown().expect("it ends");
    }
    for store in [one, two] {
        store.close().expect("it ends");
    }
    group.shutdown().expect("it ends");
}

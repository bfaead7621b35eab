//! A node that ends while it gives others their share of its slots. With threads: the end of a world
//! waits for them.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use turnwheel_actors::{Entities, System};
use turnwheel_engine::store::{Beat, Mail, Members, StoreReader, StoreWriter};
use turnwheel_engine::{MemoryStore, SharedStore, Store, StoreError, World};
use turnwheel_runtime::Group;

use super::entities::{Add, Counter};

/// Long, so that what waits at the gate is not taken for dead.
const LEASE: Duration = Duration::from_secs(10);

const PATIENCE: Duration = Duration::from_secs(60);

/// Holds heartbeats, and the looks at those of others.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    waiting: usize,
    passes: usize,
}

impl Gate {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().expect("no panic here"));
        self.changed.notify_all();
    }

    fn until(&self, is_so: impl Fn(&State) -> bool) {
        let state = self.state.lock().expect("no panic here");
        let waited = self.changed.wait_timeout_while(state, PATIENCE, |state| !is_so(state));
        let (_state, timed_out) = waited.expect("no panic here");
        assert!(!timed_out.timed_out(), "nothing comes to the gate, or nothing opens it");
    }

    /// In the thread that makes the heartbeat.
    fn enter(&self) {
        self.change(|state| state.waiting += 1);
        self.until(|state| !state.is_closed || state.passes > 0);
        self.change(|state| {
            state.waiting -= 1;
            state.passes = state.passes.saturating_sub(1);
        });
    }

    /// Lets one pass, and waits for the next one.
    fn pass(&self) {
        self.change(|state| state.passes = 1);
        self.until(|state| state.passes == 0 && state.waiting == 1);
    }
}

/// The store of the node whose heartbeats are held.
#[derive(Debug)]
struct Gated(MemoryStore, Arc<Gate>);

impl Store for Gated {
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
        let gate = Arc::clone(&self.1);
        let beats = |inner| Box::new(Beats { inner, gate }) as Box<dyn Members>;
        Ok(self.0.members()?.map(beats))
    }

    fn name(&self) -> String {
        "gated".to_owned()
    }
}

struct Beats {
    inner: Box<dyn Members>,
    gate: Arc<Gate>,
}

impl Members for Beats {
    fn beat(&mut self, worlds: &[u64], lease: Duration) -> Result<Beat, StoreError> {
        self.gate.enter();
        self.inner.beat(worlds, lease)
    }

    fn post(&mut self, mail: &[Mail]) -> Result<bool, StoreError> {
        self.inner.post(mail)
    }

    fn mail(&mut self, worlds: &[u64], rows: usize, bytes: usize) -> Result<Vec<Mail>, StoreError> {
        self.inner.mail(worlds, rows, bytes)
    }
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "not after {PATIENCE:?}: {what}");
        std::thread::yield_now();
    }
}

fn serve(world: &World, group: &Group) -> Entities {
    let builder = Entities::builder(&System::new(group));
    world.entities(builder.remote::<Counter>(|counter| counter.message::<Add, _>()))
}

#[test]
fn the_end_of_a_node_gives_no_slot_that_was_kept_a_moment_before_and_is_in_use_again() {
    let (memory, gate) = (MemoryStore::new(), Arc::new(Gate::default()));
    let group = Group::builder("entities").workers(2).build().expect("threads");
    let one = SharedStore::node(Gated(memory.clone(), Arc::clone(&gate)), LEASE).expect("a node");
    let two = SharedStore::node(memory, LEASE).expect("a node");
    let world = World::builder().name("one").join(&one).expect("it joins");
    let entities = serve(&world, &group);
    let has_said = |view: &turnwheel_engine::WorldView| view.meta.get("entities").is_some();
    until("it says that it has entities", || world.worlds().iter().all(has_said));
    let other = World::builder().name("two").join(&two).expect("it joins");
    let _served = serve(&other, &group);

    gate.change(|state| state.is_closed = true);
    gate.until(|state| state.waiting == 1);
    // Some of them are in slots that are to be given, and end after the look which of those are free.
    let add = |key: u64, after_ms| (key, entities.get::<Counter>(key).ask(Add { after_ms }));
    let long: Vec<_> = (0..24).map(|key| add(key, 500)).collect();
    gate.pass();
    let is_here = |key: &u64| entities.get::<Counter>(*key).not_owner().is_none();
    let closed: Vec<u64> = (0..24).filter(|key| !is_here(key)).collect();
    assert!(!closed.is_empty(), "they are given now, or kept");
    for (key, asked) in long {
        assert_eq!(asked.wait().expect("it is answered"), Ok(1), "{key}");
    }
    std::thread::scope(|scope| {
        let ends = scope.spawn(|| world.shutdown_within(Duration::from_secs(20)));
        let is_one = |view: &&turnwheel_engine::WorldView| view.name == "one";
        until("it is about to end", || {
            other.worlds().iter().find(is_one).is_some_and(|one| one.is_draining())
        });
        gate.pass();
        until("a slot that was kept is open again", || closed.iter().any(is_here));
        let calls: Vec<_> = closed.iter().map(|key| add(*key, 300)).collect();
        gate.change(|state| state.is_closed = false);
        for (key, asked) in calls {
            assert_eq!(asked.wait().expect("it is answered"), Ok(2), "{key}");
        }
        ends.join().expect("no panic").expect("it ends");
    });
    one.close().expect("its threads end");
    other.shutdown().expect("it ends");
    two.close().expect("its threads end");
    group.shutdown().expect("it ends");
}

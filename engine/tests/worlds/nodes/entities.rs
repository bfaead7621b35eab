//! Entities over nodes: one activation at the owner of a key, calls that reach it, and states that only
//! it writes.

mod load;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use turnwheel_actors::entity::{
    CreateContext, EntityContext, RemoteError, RemoteMessage, StoreError, Stored,
};
use turnwheel_actors::{
    Actor, AskError, AsyncContext, AsyncHandler, Entities, Entity, Handler, System,
};
use turnwheel_engine::limits::ENTITY_CALLS_MAX;
use turnwheel_engine::store::{slot_of_entity, slot_of_key};
use turnwheel_engine::Store;
use turnwheel_engine::StoreError::Failed;

use self::load::Load;
use super::keys::wait;
use super::{Cluster, Node, LEASE, TICK};

/// A number that is kept in the store.
pub(super) struct Counter {
    entities: Entities,
    value: Option<Stored<i64>>,
}

impl Actor for Counter {
    type Error = StoreError;
}

impl Entity for Counter {
    type Key = u64;
    const NAME: &'static str = "counter";

    fn create(_: &u64) -> Self {
        unreachable!("`create_in` is called")
    }

    fn create_in(cx: &CreateContext<'_, Self>) -> Self {
        Self { entities: cx.entities(), value: None }
    }

    async fn activate(&mut self, cx: EntityContext<Self>) -> Result<(), StoreError> {
        self.value = Some(Stored::load(&cx).await?);
        Ok(())
    }
}

/// Adds one after a time; the new value, or why it was not added.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Add {
    pub(super) after_ms: u64,
}

impl RemoteMessage for Add {
    const NAME: &'static str = "add";
}

/// Why a handler has not added.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum NotAdded {
    /// It was not written.
    Refused(String),
    /// Nobody knows whether it was.
    Unknown(String),
}

impl AsyncHandler<Add> for Counter {
    type Reply = Result<i64, NotAdded>;

    async fn handle(&mut self, Add { after_ms }: Add, cx: AsyncContext<Self>) -> Self::Reply {
        if after_ms > 0 {
            let slept = cx.sleep(Duration::from_millis(after_ms)).await;
            slept.map_err(|error| NotAdded::Refused(error.to_string()))?;
        }
        let value = self.value.as_mut().expect("it was activated");
        value.update(|value| *value += 1).await.map_err(|error| match error {
            StoreError::Conflict { .. }
            | StoreError::Fenced { .. }
            | StoreError::Replaced { .. } => NotAdded::Refused(error.to_string()),
            other => NotAdded::Unknown(other.to_string()),
        })?;
        Ok(**value)
    }
}

/// The value in memory; asked again if its owner goes.
#[derive(Debug, Serialize, Deserialize)]
struct Get;

impl RemoteMessage for Get {
    const NAME: &'static str = "get";
    const IS_REPEATABLE: bool = true;
}

impl Handler<Get> for Counter {
    type Reply = i64;

    fn handle(&mut self, _: Get, _: &mut turnwheel_actors::Context<'_, Self>) -> i64 {
        **self.value.as_ref().expect("it was activated")
    }
}

/// Has another counter add one, after a time.
#[derive(Debug, Serialize, Deserialize)]
struct AddTo {
    key: u64,
    after_ms: u64,
}

impl AsyncHandler<AddTo> for Counter {
    type Reply = Result<i64, String>;

    async fn handle(&mut self, to: AddTo, cx: AsyncContext<Self>) -> Self::Reply {
        cx.sleep(Duration::from_millis(to.after_ms)).await.map_err(|error| error.to_string())?;
        let asked = self.entities.get::<Counter>(to.key).ask_within(AT_ONCE, CALL_LIMIT).await;
        asked.map_err(|error| error.to_string())?.map_err(|error| format!("{error:?}"))
    }
}

/// A message that only the node that was asked knows.
#[derive(Debug, Serialize, Deserialize)]
struct New;

impl RemoteMessage for New {
    const NAME: &'static str = "new";
    const IS_REPEATABLE: bool = true;
}

impl Handler<New> for Counter {
    type Reply = ();

    fn handle(&mut self, _: New, _: &mut turnwheel_actors::Context<'_, Self>) {}
}

fn serve(node: &Node) -> Entities {
    let system = System::new(&node.sim.group("entities"));
    node.world.entities(
        Entities::builder(&system)
            .remote::<Counter>(|counter| counter.message::<Add, _>().message::<Get, _>()),
    )
}

/// The same at a node of the next release, which knows one more message.
fn serve_new(node: &Node) -> Entities {
    let system = System::new(&node.sim.group("entities"));
    node.world.entities(Entities::builder(&system).remote::<Counter>(|counter| {
        counter.message::<Add, _>().message::<Get, _>().message::<New, _>()
    }))
}

/// The entities of the nodes, by their worlds.
#[derive(Default)]
struct Served(BTreeMap<u64, Entities>);

impl Served {
    fn all(cluster: &Cluster) -> Self {
        let mut served = Self::default();
        served.look(cluster);
        served
    }

    /// Serves at new nodes, and forgets those that are gone.
    fn look(&mut self, cluster: &Cluster) {
        let is_there = |world: &u64| cluster.nodes.iter().any(|node| node.world.id() == *world);
        self.0.retain(|world, _| is_there(world));
        for node in &cluster.nodes {
            self.0.entry(node.world.id()).or_insert_with(|| serve(node));
        }
    }

    fn at(&self, cluster: &Cluster, index: usize) -> &Entities {
        &self.0[&cluster.nodes[index].world.id()]
    }
}

/// Some keys whose slots a node has.
fn keys_of(cluster: &Cluster, index: usize) -> impl Iterator<Item = u64> {
    let (worlds, world) = (cluster.base.worlds(), cluster.nodes[index].world.id());
    (0..).filter(move |key: &u64| {
        worlds.owner(slot_of_entity(Counter::NAME, &key.to_string())) == world
    })
}

fn key_of(cluster: &Cluster, index: usize) -> u64 {
    keys_of(cluster, index).next().expect("there are many")
}

/// The value that the store has.
fn stored(cluster: &Cluster, key: u64) -> i64 {
    let mut reader = cluster.base.memory.reader().expect("a reader");
    let record = reader.state(Counter::NAME, &key.to_string()).expect("it is read");
    record.bytes.map_or(0, |bytes| serde_json::from_slice(&bytes).expect("a number"))
}

const AT_ONCE: Add = Add { after_ms: 0 };

const CALL_LIMIT: Duration = Duration::from_secs(30);

#[test]
fn a_call_reaches_the_one_activation_that_the_owner_of_the_slot_holds() {
    // Requests are carried by the store in one, by a connector in the other.
    for seed in [8, 7] {
        let mut cluster = Cluster::new(seed, 3, false);
        cluster.run(3 * LEASE);
        let served = Served::all(&cluster);
        for owner in 0..3 {
            let key = key_of(&cluster, owner);
            for (at, value) in [(0, 1), (1, 2), (2, 3)] {
                let asked = served.at(&cluster, at).get::<Counter>(key).ask(AT_ONCE);
                assert_eq!(wait(&mut cluster, asked).expect("it is answered"), Ok(value));
            }
            assert_eq!(stored(&cluster, key), 3);
            for at in 0..3 {
                let look = served.at(&cluster, at).look("counter", &key.to_string());
                let is_active = look.is_ok_and(|look| look.activation.is_some());
                assert_eq!(is_active, at == owner, "key {key} at node {at}");
            }
        }
        let slot = slot_of_entity("counter", "42");
        assert_eq!(slot, slot_of_key("counter/42"), "every node finds the same one");
        assert_eq!(cluster.wrong(), [""; 0]);
    }
}

#[test]
fn a_node_that_does_not_know_what_is_asked_says_so_by_name() {
    let mut cluster = Cluster::new(8, 2, false);
    cluster.run(3 * LEASE);
    let key = key_of(&cluster, 0);
    // The owner has no entities, as a node of an earlier release.
    let asks = serve(&cluster.nodes[1]);
    let refused = wait(&mut cluster, asks.get::<Counter>(key).ask(AT_ONCE));
    let Err(AskError::Remote(error @ RemoteError::Refused { .. })) = refused else {
        panic!("{refused:?}")
    };
    assert!(error.to_string().contains("does not serve entities"), "{error}");
    // It has them, but not this message.
    let _served = serve(&cluster.nodes[0]);
    let unknown = wait(&mut cluster, asks.get::<Counter>(key).ask(New));
    assert!(
        matches!(&unknown, Err(AskError::NotOwner { owner, .. })
        if owner.owner.as_deref() == Some("node 1")),
        "{unknown:?}"
    );
    let asked = wait(&mut cluster, asks.get::<Counter>(key).ask(AT_ONCE));
    assert_eq!(asked.expect("it is served now"), Ok(1));
}

#[test]
fn callers_of_a_dead_owner_are_told_within_a_lease_and_questions_reach_the_next_owner() {
    let mut cluster = Cluster::new(8, 3, false);
    cluster.run(3 * LEASE);
    let served = Served::all(&cluster);
    let mut keys = keys_of(&cluster, 0);
    let [key, other] = [keys.next().expect("many"), keys.next().expect("many")];
    let asks = served.at(&cluster, 2).clone();
    for value in 1..=2 {
        let asked = asks.get::<Counter>(key).ask(AT_ONCE);
        assert_eq!(wait(&mut cluster, asked).expect("it is answered"), Ok(value));
    }
    let begun = cluster.base.now();
    let limit = Duration::from_secs(30);
    cluster.kill(0);
    let mut adds = asks.get::<Counter>(key).ask_within(AT_ONCE, limit);
    let question = asks.get::<Counter>(key).ask_within(Get, limit);
    let late = asks.get::<Counter>(other).ask_within(AT_ONCE, 2 * TICK);
    assert_eq!(wait(&mut cluster, question).expect("the next owner answers"), 2);
    let took = cluster.base.now() - begun;
    assert!(took < LEASE + LEASE / 2, "{took:?}");
    let mut cx = Context::from_waker(Waker::noop());
    let told = Pin::new(&mut adds).poll(&mut cx);
    let Poll::Ready(Err(AskError::Remote(error))) = told else { panic!("{told:?}") };
    assert!(error.may_have_been_done(), "{error}");
    let late = wait(&mut cluster, late).expect_err("its owner was dead");
    assert!(
        matches!(&late, AskError::TimedOut(spent) if spent.running.is_some())
            || matches!(&late, AskError::Remote(error) if error.may_have_been_done()),
        "{late}"
    );
    // The caller has looked, and sends it again.
    let asked = asks.get::<Counter>(key).ask(AT_ONCE);
    assert_eq!(wait(&mut cluster, asked).expect("it is answered"), Ok(3));
    assert_eq!(stored(&cluster, key), 3);
    assert_eq!(cluster.wrong(), [""; 0]);
}

#[test]
fn a_question_that_a_dead_owner_may_have_taken_is_unknown_if_the_next_one_refuses_it() {
    let mut cluster = Cluster::new(8, 3, false);
    cluster.run(3 * LEASE);
    let _served = [serve(&cluster.nodes[0]), serve(&cluster.nodes[1])];
    let (asks, own) = (serve_new(&cluster.nodes[2]), cluster.nodes[2].world.id());
    let keys: Vec<u64> = keys_of(&cluster, 0).take(20).collect();
    cluster.kill(0);
    let limit = Duration::from_secs(30);
    let ask = |key: &u64| (*key, asks.get::<Counter>(*key).ask_within(New, limit));
    let asked: Vec<_> = keys.iter().map(ask).collect();
    let mut refused = 0;
    for (key, asked) in asked {
        let told = wait(&mut cluster, asked);
        let owner = cluster.base.worlds().owner(slot_of_entity("counter", &key.to_string()));
        match told {
            Ok(()) => assert_eq!(owner, own, "{key}: the other node does not know it"),
            Err(AskError::Remote(error)) => {
                assert!(error.may_have_been_done(), "{key}: {error}");
                assert!(error.to_string().contains("takes no message «new»"), "{key}: {error}");
                refused += 1;
            }
            Err(other) => panic!("{key}: {other}"),
        }
    }
    assert!(refused > 0, "the other node has got none of the keys");
}

#[test]
fn a_call_without_any_owner_waits_for_one_until_its_deadline_and_was_not_done() {
    let mut cluster = Cluster::new(8, 1, false);
    cluster.run(LEASE);
    let world = cluster.nodes[0].world.clone();
    let asks = serve(&cluster.nodes[0]);
    wait(&mut cluster, world.invalidate(world.id())).expect("the store works");
    assert_eq!(cluster.base.worlds().free().len(), 1_024);
    let lost = wait(&mut cluster, asks.get::<Counter>(1_u64).ask_within(AT_ONCE, TICK / 2));
    let Err(AskError::Remote(error)) = &lost else { panic!("{lost:?}") };
    assert!(!error.may_have_been_done(), "{error}");
    // It registers again with its next heartbeat, and what waits is done.
    let waits = asks.get::<Counter>(2_u64).ask_within(AT_ONCE, Duration::from_secs(30));
    assert_eq!(wait(&mut cluster, waits).expect("it has an owner again"), Ok(1));
}

#[test]
fn calls_under_way_are_bounded_and_those_beyond_were_not_done() {
    let mut cluster = Cluster::new(8, 1, false);
    cluster.run(LEASE);
    let world = cluster.nodes[0].world.clone();
    let asks = serve(&cluster.nodes[0]);
    wait(&mut cluster, world.invalidate(world.id())).expect("the store works");
    let limit = Duration::from_secs(30);
    let ask = |_| Box::pin(asks.get::<Counter>(1_u64).ask_within(AT_ONCE, limit));
    let mut asked: Vec<_> = (0..ENTITY_CALLS_MAX + 100).map(ask).collect();
    let mut cx = Context::from_waker(Waker::noop());
    let mut full = 0;
    asked.retain_mut(|asked| match asked.as_mut().poll(&mut cx) {
        Poll::Pending => true,
        Poll::Ready(Err(AskError::Remote(error))) => {
            assert!(!error.may_have_been_done(), "{error}");
            full += 1;
            false
        }
        Poll::Ready(other) => panic!("{other:?}"),
    });
    assert_eq!((full, asked.len()), (100, ENTITY_CALLS_MAX));
    // The others are done when there is an owner, and leave room for further ones.
    for asked in asked {
        wait(&mut cluster, asked).expect("it has an owner again").expect("it is written");
    }
    let asked = asks.get::<Counter>(1_u64).ask(AT_ONCE);
    let value = i64::try_from(ENTITY_CALLS_MAX).expect("few") + 1;
    assert_eq!(wait(&mut cluster, asked).expect("there is room"), Ok(value));
    assert_eq!(stored(&cluster, 1), value);
}

#[test]
fn an_activation_of_a_node_that_was_frozen_past_its_lease_writes_nothing_and_ends() {
    let mut cluster = Cluster::new(8, 2, false);
    cluster.run(2 * LEASE);
    let served = Served::all(&cluster);
    let key = key_of(&cluster, 0);
    let [old, next] = [served.at(&cluster, 0).clone(), served.at(&cluster, 1).clone()];
    let asked = old.get::<Counter>(key).ask(AT_ONCE);
    assert_eq!(wait(&mut cluster, asked).expect("it is answered"), Ok(1));
    // It is about to write when its process stops.
    let limit = Duration::from_secs(60);
    let mut writes = old.get::<Counter>(key).ask_within(Add { after_ms: 300 }, limit);
    cluster.run(TICK);
    let until = cluster.base.now() + 3 * LEASE;
    cluster.nodes[0].freeze(until);
    cluster.run(2 * LEASE);
    let asked = next.get::<Counter>(key).ask(AT_ONCE);
    assert_eq!(
        wait(&mut cluster, asked).expect("the next owner has it"),
        Ok(2),
        "what was written"
    );
    assert_eq!(old.active::<Counter>(), 1, "it is there still");
    let before = cluster.base.log.lock().expect("no panic here").fenced;
    cluster.run(2 * LEASE);
    let mut cx = Context::from_waker(Waker::noop());
    let told = Pin::new(&mut writes).poll(&mut cx);
    assert!(matches!(&told, Poll::Ready(Ok(Err(_)))), "{told:?}");
    let fenced = cluster.base.log.lock().expect("no panic here").fenced - before;
    assert!(fenced <= 1, "{fenced}");
    assert_eq!(stored(&cluster, key), 2);
    // One activation is left, wherever the slot is by now, and both nodes reach it.
    for (entities, value) in [(&old, 3), (&next, 4)] {
        let asked = entities.get::<Counter>(key).ask(AT_ONCE);
        assert_eq!(wait(&mut cluster, asked).expect("it is answered"), Ok(value));
    }
    let active = |entities: &Entities| {
        entities.look("counter", &key.to_string()).is_ok_and(|look| look.activation.is_some())
    };
    assert!(active(&old) != active(&next));
    assert_eq!(cluster.wrong(), [""; 0]);
}

#[test]
fn entities_of_a_node_that_is_drained_go_on_elsewhere_and_no_caller_notices() {
    let mut cluster = Cluster::new(8, 3, false);
    cluster.run(3 * LEASE);
    let served = Served::all(&cluster);
    let keys: Vec<u64> = keys_of(&cluster, 0).take(40).collect();
    let mut load = Load::default();
    let drained = cluster.nodes[0].world.clone();
    let mut drain = Box::pin(std::future::IntoFuture::into_future(
        cluster.nodes[1].world.drain_node(drained.id()),
    ));
    let mut cx = Context::from_waker(Waker::noop());
    let mut is_marked = false;
    for round in 0..60 {
        for (number, key) in keys.iter().enumerate() {
            // From all nodes, to entities that are busy for a while.
            if (number + round) % 4 == 0 && round < 40 {
                let entities = served.at(&cluster, (number + round / 4) % 3);
                let add = Add { after_ms: 20 * (number as u64 % 8) };
                load.ask(entities, *key, add, Duration::from_secs(30));
            }
        }
        if round >= 5 && !is_marked {
            is_marked = drain.as_mut().poll(&mut cx).is_ready();
        }
        cluster.tick();
        load.look();
    }
    load.finish(&mut cluster);
    let slots = cluster.base.worlds().find(drained.id()).map(|row| row.slots.len());
    assert_eq!(slots, Some(0), "it is drained");
    assert_eq!((load.troubles, load.doubled), (vec![], vec![]));
    assert_eq!(served.at(&cluster, 0).active::<Counter>(), 0);
    for key in keys {
        assert_eq!((stored(&cluster, key), load.counts[&key].unknown), (load.counts[&key].done, 0));
    }
    let fenced = cluster.base.log.lock().expect("no panic here").fenced;
    assert_eq!(fenced, 0, "each activation has ended before its slot was given");
    assert_eq!(cluster.wrong(), [""; 0]);
}

#[test]
fn a_caller_of_a_slot_that_is_long_in_motion_asks_seldom() {
    let mut cluster = Cluster::new(8, 2, false);
    cluster.run(3 * LEASE);
    let served = Served::all(&cluster);
    let key = key_of(&cluster, 0);
    let [owner, asks] = [served.at(&cluster, 0).clone(), served.at(&cluster, 1).clone()];
    // The slot cannot go before this handler has ended.
    let limit = Duration::from_secs(30);
    let long = owner.get::<Counter>(key).ask_within(Add { after_ms: 10_000 }, limit);
    cluster.run(TICK);
    let world = cluster.nodes[0].world.id();
    let drain = cluster.nodes[1].world.drain_node(world);
    wait(&mut cluster, drain).expect("the store works");
    cluster.run(LEASE);
    let mail = |cluster: &Cluster| cluster.base.log.lock().expect("no panic here").mail;
    let before = mail(&cluster);
    // Another key of the slot, which is not active: it is the next owner's.
    let slot = |key: &u64| slot_of_entity("counter", &key.to_string());
    let other = (key + 1..).find(|other| slot(other) == slot(&key)).expect("there are many");
    let waits = asks.get::<Counter>(other).ask_within(AT_ONCE, limit);
    cluster.run(Duration::from_secs(6));
    let sent = mail(&cluster) - before;
    assert!((2..=24).contains(&sent), "{sent} requests and answers in six seconds");
    assert_eq!(wait(&mut cluster, long).expect("it is answered"), Ok(1));
    assert_eq!(wait(&mut cluster, waits).expect("the next owner answers"), Ok(1));
}

#[test]
fn the_end_of_the_only_node_does_not_wait_for_a_call_that_waits_for_the_end() {
    let mut cluster = Cluster::new(8, 1, false);
    cluster.run(LEASE);
    let entities = serve(&cluster.nodes[0]);
    // Active when the end begins; the entity that it asks then is not.
    let to = AddTo { key: 2, after_ms: 500 };
    let asks = entities.get::<Counter>(1_u64).ask_within(to, CALL_LIMIT);
    cluster.run(TICK);
    let (world, begun) = (cluster.nodes[0].world.clone(), cluster.base.now());
    let ended = wait(&mut cluster, async move { world.terminate(Duration::from_secs(20)).await });
    assert!(ended.expect("the store works"), "all handlers have ended");
    let took = cluster.base.now() - begun;
    assert!(took < Duration::from_secs(1), "{took:?}");
    let told = wait(&mut cluster, asks).expect("it is answered").expect_err("nobody has the key");
    assert!(
        told.contains("no executor is available") && told.contains("nothing was done"),
        "{told}"
    );
}

#[test]
fn the_value_after_a_write_of_unknown_outcome_is_that_of_the_store() {
    for is_made in [true, false] {
        let mut cluster = Cluster::new(8, 2, false);
        cluster.run(3 * LEASE);
        let served = Served::all(&cluster);
        let key = key_of(&cluster, 0);
        let asks = served.at(&cluster, 1).clone();
        let asked = asks.get::<Counter>(key).ask(AT_ONCE);
        assert_eq!(wait(&mut cluster, asked).expect("it is answered"), Ok(1));
        let fault = &cluster.nodes[0].fault;
        match is_made {
            true => fault.lose_answer_at(fault.commits() + 1),
            false => fault.fail_at(fault.commits() + 1, Failed("this once".to_owned())),
        }
        let asked = asks.get::<Counter>(key).ask(AT_ONCE);
        let told = wait(&mut cluster, asked).expect("it is answered");
        assert!(matches!(&told, Err(NotAdded::Unknown(_))), "{told:?}");
        let asked = asks.get::<Counter>(key).ask(Get);
        let value = wait(&mut cluster, asked).expect("it is answered");
        assert_eq!((value, stored(&cluster, key)), (1 + i64::from(is_made), value));
        let asked = asks.get::<Counter>(key).ask(AT_ONCE);
        assert_eq!(wait(&mut cluster, asked).expect("it is answered"), Ok(value + 1));
    }
}

/// An entity with a name of the engine's.
struct Job(Option<Stored<i64>>);

impl Actor for Job {
    type Error = StoreError;
}

impl Entity for Job {
    type Key = u64;
    const NAME: &'static str = "turnwheel.job";

    fn create(_: &u64) -> Self {
        Self(None)
    }

    async fn activate(&mut self, cx: EntityContext<Self>) -> Result<(), StoreError> {
        self.0 = Some(Stored::load(&cx).await?);
        Ok(())
    }
}

impl Handler<Get> for Job {
    type Reply = i64;

    fn handle(&mut self, _: Get, _: &mut turnwheel_actors::Context<'_, Self>) -> i64 {
        **self.0.as_ref().expect("it was activated")
    }
}

#[test]
fn an_entity_has_no_state_under_a_name_of_the_engine() {
    let mut cluster = Cluster::new(8, 1, false);
    cluster.run(LEASE);
    let entities = serve(&cluster.nodes[0]);
    let told = wait(&mut cluster, entities.get::<Job>(1_u64).ask(Get));
    let error = told.expect_err("it does not begin").to_string();
    assert!(error.contains("names that begin with «turnwheel.» are the engine's"), "{error}");
}

#[test]
fn a_node_says_that_it_has_entities_when_the_store_is_there_again() {
    let mut cluster = Cluster::new(8, 1, false);
    cluster.run(LEASE);
    let is_said = |cluster: &Cluster| {
        let worlds = cluster.base.worlds();
        let row = worlds.find(cluster.nodes[0].world.id()).expect("it is registered");
        row.meta.contains("entities")
    };
    cluster.nodes[0].fault.fail(Failed("cut off".to_owned()));
    let _entities = serve(&cluster.nodes[0]);
    cluster.run(3 * TICK);
    assert!(!is_said(&cluster));
    cluster.nodes[0].fault.heal();
    cluster.run(Duration::from_secs(2));
    assert!(is_said(&cluster));
}

#[test]
fn a_node_that_joins_gets_its_share_of_the_keys_and_no_caller_notices() {
    let mut cluster = Cluster::new(8, 1, false);
    cluster.run(LEASE);
    let (mut served, mut load) = (Served::all(&cluster), Load::default());
    cluster.run(TICK);
    for round in 0..120 {
        if round == 20 || round == 50 {
            cluster.start();
            served.look(&cluster);
        }
        for key in (0..60).filter(|key| round < 100 && (key + round) % 4 == 0) {
            let at = (key + round) as usize % cluster.nodes.len();
            let add = Add { after_ms: 20 * (key % 8) };
            load.ask(served.at(&cluster, at), key, add, Duration::from_secs(30));
        }
        cluster.tick();
        load.look();
    }
    load.finish(&mut cluster);
    let shares: Vec<usize> = cluster.base.worlds().rows.iter().map(|row| row.slots.len()).collect();
    assert!(shares.len() == 3 && shares.iter().all(|slots| *slots > 300), "{shares:?}");
    assert_eq!((load.troubles, load.doubled), (vec![], vec![]));
    for (key, count) in &load.counts {
        assert_eq!(stored(&cluster, *key), count.done);
    }
    assert_eq!(cluster.base.log.lock().expect("no panic here").fenced, 0);
    let active = |at| served.at(&cluster, at).active::<Counter>();
    assert!((0..3).all(|at| active(at) > 8), "{:?}", [active(0), active(1), active(2)]);
    assert_eq!(cluster.wrong(), [""; 0]);
}

//! Starts over a store that is full: due timers and events that have reached a part of their listeners.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{json, Value};
use turnwheel_engine::store::Filter;
use turnwheel_engine::{PlanId, StoreError, TriggerError, World};
use turnwheel_flow::{result, CloudEvent, FakeIo, FlowError, Flows, WithFlows};
use turnwheel_runtime::sim::Sim;
use turnwheel_sqlite::{SqliteStore, SqliteSync};
use turnwheel_testkit::FaultStore;

/// Plans of each of the two flows.
const PLANS: usize = 6;

/// Writes that fail, more than the tests make.
const WRITES: u64 = 20_000;

/// Commits of a second in which no plan gets on: each plan tries again, and rows are.
const TRIES: u64 = 4 * PLANS as u64;

struct Place {
    sim: Sim,
    world: World,
    flows: Flows,
}

impl Place {
    /// A world that is opened in this simulation.
    fn open(sim: Sim, store: &FaultStore) -> Self {
        let builder = World::builder().flows(FakeIo::new()).seed(1);
        let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
        let world = sim.block_on(builder.open(store.clone())).expect("it ends");
        let world = world.expect("a full store keeps no world from its start");
        let flows = Flows::new(&world).expect("it has flows");
        Self { sim, world, flows }
    }

    fn publish(&self) -> Result<usize, FlowError> {
        let event = CloudEvent::new("1", "/test", "go").data(json!({ "n": 1 }));
        let told = self.sim.block_on(self.flows.publish(event)).expect("it ends");
        told.map(|told| told.delivered)
    }

    /// All plans that the store has.
    fn listed(&self) -> BTreeSet<PlanId> {
        let all = Filter { limit: 1_000, ..Filter::default() };
        let rows = self.sim.block_on(self.world.list(all)).expect("it ends").expect("listed");
        rows.iter().map(|row| row.id).collect()
    }
}

/// A store with plans whose timers are due a minute later, and with plans that wait for an event
/// that a part of them has taken. Its process was killed.
fn killed(store: &FaultStore) -> (Place, Vec<(PlanId, Value)>) {
    let place = Place::open(Sim::new(5), store);
    let sleeps = "do: [ { w: { wait: PT30S } }, { s: { set: { n: 2 } } } ]";
    let hears = "do: [ { w: { listen: { to: { one: { with: { type: go } } } } } } ]";
    let names = ["sleeps", "hears"];
    let mut plans = Vec::new();
    for (name, rest) in names.into_iter().zip([sleeps, hears]) {
        let head = format!(
            "document: {{ dsl: '1.0.3', namespace: test, name: {name}, version: '1.0.0' }}"
        );
        let flow = turnwheel_flow::load(&format!("{head}\n{rest}\n"), "it.yaml").expect("right");
        place.sim.block_on(place.flows.add(&flow)).expect("it ends").expect("it is added");
        let done = if name == "hears" { json!([{ "n": 1 }]) } else { json!({ "n": 2 }) };
        for _ in 0..PLANS {
            let plan = place.sim.block_on(place.flows.start(&flow, json!({})));
            plans.push((plan.expect("it ends").expect("it starts").id(), done.clone()));
        }
    }
    place.sim.advance(Duration::from_secs(1));
    // Room for one more commit, which takes the event to some plans.
    let next = store.commits() + 2;
    (next..next + WRITES).for_each(|commit| store.fail_at(commit, full()));
    let _told = place.publish();
    (place, plans)
}

fn full() -> StoreError {
    StoreError::Full("no room".to_owned())
}

#[test]
fn start_over_a_full_store_works_and_plans_go_on_once_when_there_is_room() {
    // The first write registers the world: that of a full disk has the room of the ballast.
    for write in 2.. {
        let folder = tempfile::tempdir().expect("a folder");
        let file = SqliteStore::new(folder.path().join("plans.db")).sync(SqliteSync::Off);
        let store = FaultStore::new(file);
        let (before, plans) = killed(&store);
        let wall = before.sim.wall() + Duration::from_secs(60);
        drop(before);
        store.heal();
        let (case, begun) = (format!("full from write {write} of the start on"), store.commits());
        let first = begun + write;
        (first..first + WRITES).for_each(|commit| store.fail_at(commit, full()));

        let place = Place::open(Sim::builder().seed(6).wall(wall).build(), &store);
        place.sim.advance(Duration::from_secs(1));
        let is_full = store.commits() >= first;
        let tries = store.commits();
        place.sim.advance(Duration::from_secs(20));
        assert!(store.commits() - tries < 20 * TRIES, "{case}: {} tries", store.commits() - tries);
        let all: BTreeSet<PlanId> = plans.iter().map(|(plan, _)| *plan).collect();
        assert_eq!(place.listed(), all, "{case}");
        for plan in &all {
            let view = place.sim.block_on(place.world.plan(*plan).view()).expect("it ends");
            view.unwrap_or_else(|error| panic!("{case}: {error}"));
        }
        if is_full {
            let flow = place.flows.find("test", "sleeps", "latest").expect("it is known");
            let begun = place.sim.block_on(place.flows.start(&flow, json!({})));
            let refused = begun.expect("it ends").expect_err("there is no room");
            assert!(matches!(refused, TriggerError::Store(StoreError::Full(_))), "{refused:?}");
            assert!(place.publish().is_err() || place.flows.listeners() == 0, "{case}");
        }

        store.heal();
        place.sim.advance(Duration::from_secs(5));
        place.publish().expect("there is room");
        place.sim.advance(Duration::from_secs(5));
        for (plan, done) in &plans {
            let view = place.sim.block_on(place.world.plan(*plan).view()).expect("it ends");
            let view = view.expect("the plan is there");
            assert_eq!(result(&view).ok().as_ref(), Some(done), "{case}: {view:?}");
        }
        assert_eq!(place.listed(), all, "{case}");
        if !is_full {
            assert!(write > 3, "a start makes {write} writes");
            return;
        }
    }
}

#[test]
fn event_that_a_full_store_has_refused_halfway_reaches_the_others_once_there_is_room() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = SqliteStore::new(folder.path().join("plans.db")).sync(SqliteSync::Off);
    let store = FaultStore::new(file);
    // The process goes on, and the sender does not repeat the event.
    let (place, plans) = killed(&store);
    assert!(place.publish().is_err(), "some have it, and some do not");
    store.heal();
    place.sim.advance(Duration::from_secs(120));
    for (plan, done) in plans {
        let view = place.sim.block_on(place.world.plan(plan).view()).expect("it ends");
        assert_eq!(result(&view.expect("it is there")).expect("it ends well"), done);
    }
    assert_eq!(place.publish().expect("there is room"), 0, "nobody waits");
}

//! A damaged plan among those that hold a lock or wait for it: the others go on.

use std::path::Path;
use std::time::Duration;

use turnwheel_engine::{
    Action, ActionError, Next, PlanError, PlanId, PlanState, RunAsync, RunsAsync, Singleton,
    StepContext, Store, StoreError, World,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_sqlite::{SqliteStore, SqliteSync};
use turnwheel_testkit::FaultStore;

use crate::damaged_ends::damage;

/// Waits for an event; the plans after it wait for its lock.
struct InTurn;

impl Action for InTurn {
    const NAME: &'static str = "in-turn";
    type Input = ();
    type Output = ();
    type Phases = RunsAsync;

    fn singleton(&self) -> Option<Singleton<()>> {
        Some(Singleton::new().wait())
    }
}

impl RunAsync for InTurn {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        Ok(if step.has_event() { Next::Done } else { step.wait_for_event("an event") })
    }
}

struct Place {
    sim: Sim,
    world: World,
    plans: Vec<PlanId>,
}

impl Place {
    /// Three plans: the first has the lock, the others wait and have left memory.
    fn new(store: impl Store) -> Self {
        let mut place = Self::open(store, 1);
        for _ in 0..3 {
            let plan = place.sim.block_on(place.world.trigger::<InTurn>(())).expect("it ends");
            place.plans.push(plan.expect("it is taken").id());
        }
        place.sim.advance(Duration::from_secs(60));
        place
    }

    fn open(store: impl Store, seed: u64) -> Self {
        let sim = Sim::new(seed);
        let builder = World::builder().action(InTurn).seed(seed);
        let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
        let world = sim.block_on(builder.open(store)).expect("it ends").expect("it begins");
        Self { sim, world, plans: Vec::new() }
    }

    fn halt(&self, plan: usize) -> Result<(), PlanError> {
        let halted = self.sim.block_on(self.world.plan(self.plans[plan]).halt("ann"));
        halted.expect("it ends").expect("the world is there")
    }

    fn state(&self, plan: usize) -> PlanState {
        self.sim.advance(Duration::from_secs(10));
        let view = self.sim.block_on(self.world.plan(self.plans[plan]).view()).expect("it ends");
        view.expect("it can be read").state
    }
}

fn sqlite(file: &Path) -> SqliteStore {
    SqliteStore::new(file).sync(SqliteSync::Off)
}

#[test]
fn damaged_plan_that_waits_for_a_lock_does_not_hold_up_the_plans_behind_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("plans.db");
    let place = Place::new(sqlite(&file));
    damage(&file, place.plans[1]);
    place.halt(0).expect("it is ended");
    assert_eq!(place.state(2), PlanState::Running, "the lock is free");
}

#[test]
fn damaged_plan_that_is_looked_at_leaves_its_turn() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("plans.db");
    let place = Place::new(sqlite(&file));
    damage(&file, place.plans[1]);
    let seen = place.sim.block_on(place.world.plan(place.plans[1]).view()).expect("it ends");
    seen.expect_err("it is damaged");
    place.halt(0).expect("it is ended");
    assert_eq!(place.state(2), PlanState::Running, "the lock is free");
    place.halt(1).expect("it is ended");
    assert_eq!(place.state(1), PlanState::Stopped);
}

#[test]
fn lock_of_a_damaged_plan_is_freed_whatever_the_store_does_meanwhile() {
    for trouble in 0..6 {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("plans.db");
        let store = FaultStore::new(sqlite(&file));
        let place = Place::new(store.clone());
        damage(&file, place.plans[0]);
        let this_once = StoreError::Failed("this once".to_owned());
        match trouble {
            0 => store.fail_at(store.commits() + 1, this_once),
            1 => store.lose_answer_at(store.commits() + 1),
            2 => store.fail(this_once),
            3 => store.fail_reads(this_once),
            4 => store.fail(StoreError::Full("full".to_owned())),
            _ => {}
        }
        let halt = place.world.plan(place.plans[0]).halt("ann");
        let again = place.world.plan(place.plans[0]).halt("bob");
        place.sim.advance(Duration::from_secs(30));
        store.heal();
        place.sim.advance(Duration::from_secs(30));
        for halted in [halt, again] {
            let told = place.sim.block_on(halted).expect("it ends").expect("the world is there");
            let is_told =
                matches!(told, Ok(()) | Err(PlanError::State { .. } | PlanError::Store(_)));
            assert!(is_told, "trouble {trouble}: {told:?}");
        }
        match place.halt(0) {
            Ok(()) => assert_eq!(trouble, 3, "nothing was known of it while reads failed"),
            Err(error) => assert!(error.to_string().contains("is over"), "{trouble}: {error}"),
        }
        assert_eq!(place.state(0), PlanState::Stopped, "trouble {trouble}");
        assert_eq!(place.state(1), PlanState::Running, "trouble {trouble}");
        assert_eq!(place.state(2), PlanState::Planned, "trouble {trouble}");
        place.halt(1).expect("it is ended");
        assert_eq!(place.state(2), PlanState::Running, "trouble {trouble}");
        place.halt(2).expect("it is ended");
        place.sim.advance(Duration::from_secs(10));
        assert!(place.world.locks().is_empty(), "trouble {trouble}");
    }
}

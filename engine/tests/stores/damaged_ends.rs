//! A damaged plan can be ended: its parent is told, its lock is free, and it can be removed.

use std::path::Path;
use std::time::Duration;

use turnwheel_engine::store::{Filter, PlanRow};
use turnwheel_engine::{
    Action, ActionError, Cause, Delay, Next, PlanHandle, PlanId, PlanResult, PlanState, Retention,
    RunAsync, RunsAsync, Singleton, StepContext, Store, StoreError, TriggerOptions, World,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_sqlite::{SqliteStore, SqliteSync};
use turnwheel_testkit::FaultStore;

/// A parent of one plan, which waits for an event and is the only one of its kind.
struct Parent;

impl Action for Parent {
    const NAME: &'static str = "parent";
    type Input = ();
    type Output = (u32, u32);
    type Phases = RunsAsync;
}

impl RunAsync for Parent {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.cause() == Cause::SubPlans {
            step.output = (step.sub_plans().success, step.sub_plans().failed);
            return Ok(Next::Done);
        }
        step.trigger::<Only>(&())?;
        Ok(step.wait_for_sub_plans())
    }
}

struct Only;

impl Action for Only {
    const NAME: &'static str = "only";
    type Input = ();
    type Output = ();
    type Phases = RunsAsync;

    fn singleton(&self) -> Option<Singleton<()>> {
        Some(Singleton::new())
    }
}

impl RunAsync for Only {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        Ok(if step.has_event() { Next::Done } else { step.wait_for_event("an event") })
    }
}

struct Life {
    sim: Sim,
    world: World,
}

impl Life {
    fn begin(file: &Path, seed: u64) -> Self {
        Self::over(SqliteStore::new(file).sync(SqliteSync::Off), seed)
    }

    fn over(store: impl Store, seed: u64) -> Self {
        let sim = Sim::new(seed);
        let builder = World::builder().action(Parent).action(Only).seed(seed);
        let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
        let world = sim.block_on(builder.open(store)).expect("it ends").expect("it begins");
        Self { sim, world }
    }

    fn trigger<A: Action<Input = ()>>(&self) -> PlanHandle {
        let plan = self.sim.block_on(self.world.trigger::<A>(())).expect("it ends");
        self.sim.advance(Duration::from_secs(10));
        plan.expect("it is taken")
    }

    fn state(&self, plan: PlanId) -> (PlanState, PlanResult) {
        self.sim.advance(Duration::from_secs(10));
        let view = self.sim.block_on(self.world.plan(plan).view()).expect("it ends");
        let view = view.expect("it can be read");
        (view.state, view.result())
    }
}

/// Changes one bit in all that the store has of a plan.
pub(crate) fn damage(file: &Path, plan: PlanId) {
    let file = rusqlite::Connection::open(file).expect("it opens");
    let read = "SELECT seq, records FROM journal WHERE plan = ?1";
    let mut read = file.prepare(read).expect("it reads");
    let rows = read.query_map([plan.to_bytes()], |row| Ok((row.get(0)?, row.get(1)?)));
    let entries: Vec<(i64, Vec<u8>)> =
        rows.expect("it reads").collect::<Result<_, _>>().expect("they are read");
    assert!(!entries.is_empty());
    for (seq, mut records) in entries {
        let middle = records.len() / 2;
        records[middle] ^= 4;
        let write = "UPDATE journal SET records = ?2 WHERE seq = ?1";
        file.execute(write, rusqlite::params![seq, records]).expect("it is written");
    }
}

/// Removes the row of a plan, as if it had never been written. The next start looks through the
/// journal.
fn lose_row(file: &Path, plan: PlanId) {
    let file = rusqlite::Connection::open(file).expect("it opens");
    let lost = file.execute("DELETE FROM plans WHERE id = ?1", [plan.to_bytes()]);
    assert_eq!(lost.expect("it is written"), 1);
    let behind = "UPDATE turnwheel_marks SET projected = 0";
    file.execute(behind, []).expect("it is written");
}

/// A parent and its child, which is damaged; and a plan that comes after the child.
fn damaged_child(end: impl Fn(&Life, PlanId, PlanId)) {
    damaged_child_with(false, &end);
    damaged_child_with(true, &end);
}

fn damaged_child_with(row_is_lost: bool, end: &impl Fn(&Life, PlanId, PlanId)) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("plans.db");
    let life = Life::begin(&file, 1);
    let parent = life.trigger::<Parent>().id();
    let view = life.sim.block_on(life.world.plan(parent).view()).expect("it ends");
    let child = view.expect("it is there").sub_plans().next().expect("it has one").0;
    let after = life.world.delay::<Parent>(Delay::after([child]), ());
    let after = life.sim.block_on(after).expect("it ends").expect("it is taken").id();
    life.sim.advance(Duration::from_secs(10));
    drop(life);
    damage(&file, child);
    if row_is_lost {
        lose_row(&file, child);
    }
    let life = Life::begin(&file, 2);
    life.sim.advance(Duration::from_secs(10));
    let refused = life.sim.block_on(life.world.trigger::<Only>(())).expect("it ends");
    assert!(refused.is_err(), "its lock is held");
    end(&life, parent, child);
    assert_eq!(life.state(child), (PlanState::Stopped, PlanResult::Error));
    assert_eq!(life.state(after).0, PlanState::Stopped, "it is told, too");
    let again = life.trigger::<Only>();
    assert_eq!(life.state(again.id()).0, PlanState::Running, "the lock is free");
    drop((again, life));
    // The next world reads what was written, and may remove it.
    let life = Life::begin(&file, 3);
    assert_eq!(life.state(child), (PlanState::Stopped, PlanResult::Error));
    life.sim.advance(Duration::from_secs(100));
    let retention = Retention::older_than(Duration::from_secs(50));
    let cleaned = life.sim.block_on(life.world.clean(retention)).expect("it ends");
    cleaned.expect("it is removed");
    let gone = life.sim.block_on(life.world.plan(child).view()).expect("it ends");
    assert!(gone.is_err());
}

#[test]
fn a_damaged_sub_plan_is_halted_and_its_parent_goes_on() {
    damaged_child(|life, parent, child| {
        let halted = life.sim.block_on(life.world.plan(child).halt("ann")).expect("it ends");
        halted.expect("the world is there").expect("it is ended");
        assert_eq!(life.state(parent), (PlanState::Stopped, PlanResult::Success));
        let view = life.sim.block_on(life.world.plan(parent).view()).expect("it ends");
        assert_eq!(view.expect("it is there").output::<Parent>().expect("it reads"), (0, 1));
    });
}

#[test]
fn a_parent_of_a_damaged_plan_can_be_cancelled() {
    damaged_child(|life, parent, _| {
        let cancelled = life.sim.block_on(life.world.plan(parent).cancel("ann")).expect("it ends");
        cancelled.expect("the world is there").expect("it is asked to end");
        assert_eq!(life.state(parent), (PlanState::Stopped, PlanResult::Cancelled));
    });
}

#[test]
fn a_sub_plan_of_which_nothing_is_left_begins_again_and_its_parent_can_be_cancelled() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("plans.db");
    let life = Life::begin(&file, 1);
    let parent = life.trigger::<Parent>().id();
    let view = life.sim.block_on(life.world.plan(parent).view()).expect("it ends");
    let child = view.expect("it is there").sub_plans().next().expect("it has one").0;
    drop(life);
    lose_row(&file, child);
    let lost = rusqlite::Connection::open(&file).expect("it opens");
    lost.execute("DELETE FROM journal WHERE plan = ?1", [child.to_bytes()]).expect("it is written");
    drop(lost);
    let life = Life::begin(&file, 2);
    assert_eq!(life.state(child).0, PlanState::Running, "its parent has asked for it again");
    let cancelled = life.sim.block_on(life.world.plan(parent).cancel("ann")).expect("it ends");
    cancelled.expect("the world is there").expect("it is asked to end");
    assert_eq!(life.state(parent), (PlanState::Stopped, PlanResult::Cancelled));
    assert_eq!(life.state(child), (PlanState::Stopped, PlanResult::Cancelled));
}

/// A damaged plan with a label, and a world over a store that may fail.
fn damaged_alone() -> (tempfile::TempDir, FaultStore, Life, PlanId) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("plans.db");
    let life = Life::begin(&file, 1);
    let labelled = TriggerOptions::new().label("city", "Rome");
    let plan = life.sim.block_on(life.world.trigger_with::<Only>(labelled, ()));
    let plan = plan.expect("it ends").expect("it is taken").id();
    life.sim.advance(Duration::from_secs(60));
    drop(life);
    damage(&file, plan);
    let store = FaultStore::new(SqliteStore::new(&file).sync(SqliteSync::Off));
    let life = Life::over(store.clone(), 2);
    life.sim.advance(Duration::from_secs(60));
    (folder, store, life, plan)
}

#[test]
fn a_damaged_plan_that_is_halted_while_a_read_fails_keeps_what_is_known_of_it() {
    let mut refused = 0;
    for offset in 1..6 {
        let (_folder, store, life, plan) = damaged_alone();
        let this_once = StoreError::Failed("this once".to_owned());
        store.fail_read_at(store.reads() + offset, this_once);
        let halt = || {
            let halted = life.sim.block_on(life.world.plan(plan).halt("ann"));
            halted.expect("it ends").expect("the world is there")
        };
        let halted = halt();
        store.heal();
        if let Err(error) = halted {
            assert!(error.to_string().contains("this once"), "read {offset}: {error}");
            assert_ne!(row(&life, plan).state, PlanState::Stopped, "read {offset}");
            refused += 1;
            halt().expect("the store is well");
        }
        let row = row(&life, plan);
        assert_eq!((row.state, &*row.action), (PlanState::Stopped, "only"), "read {offset}");
        assert_eq!(row.labels["city"], "Rome", "read {offset}");
    }
    assert_eq!(refused, 2, "the plan is read, and its row");
}

fn row(life: &Life, plan: PlanId) -> PlanRow {
    life.sim.advance(Duration::from_secs(60));
    let rows = life.sim.block_on(life.world.list(Filter::default())).expect("it ends");
    let row = rows.expect("it reads").into_iter().find(|row| row.id == plan);
    row.expect("it is there")
}

//! The disk is full: new plans are refused, plans that are under way hold on, and all goes on afterwards.

use std::time::Duration;

use turnwheel_engine::{
    Action, ActionError, MemoryStore, Next, PlanError, PlanHandle, PlanResult, PlanState, Run,
    Runs, StepContext, Store, StoreError, TriggerError, Waiting, World,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_sqlite::{SqliteStore, SqliteSync};
use turnwheel_testkit::FaultStore;

/// Waits for an event, or for its timer.
struct Wait;

impl Action for Wait {
    const NAME: &'static str = "wait";
    type Input = (u64, String);
    type Output = Option<String>;
    type Phases = Runs;
}

impl Run for Wait {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let Some(text) = step.event::<String>()? else {
            step.event_after(Duration::from_secs(step.input.0), &"its timer")?;
            return Ok(Next::suspend("an event"));
        };
        step.output = Some(text);
        Ok(Next::Done)
    }
}

struct Place {
    sim: Sim,
    world: World,
}

impl Place {
    fn new(store: impl Store) -> Self {
        let sim = Sim::new(5);
        let builder = World::builder().action(Wait).seed(5);
        let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
        let world = sim.block_on(builder.open(store)).expect("it ends").expect("the world begins");
        Self { sim, world }
    }

    fn trigger(&self, seconds: u64, text: &str) -> Result<PlanHandle, TriggerError> {
        let plan = self.world.trigger::<Wait>((seconds, text.to_owned()));
        let plan = self.sim.block_on(plan).expect("it ends");
        self.sim.run_until_idle();
        plan
    }

    fn event(&self, plan: &PlanHandle, id: &str, text: &str) -> Result<(), PlanError> {
        let view = self.sim.block_on(plan.view()).expect("it ends").expect("the plan is there");
        let step = view.run_step::<Wait>().expect("it has one").id;
        self.sim.wait(self.world.event(plan.id(), step, Some(id), &text)).expect("it answers")
    }

    /// Its state, its result, and what it has got.
    fn end(&self, plan: &PlanHandle) -> (PlanState, PlanResult, Option<String>) {
        let view = self.sim.block_on(plan.view()).expect("it ends").expect("the plan is there");
        (view.state, view.result(), view.output::<Wait>().expect("it can be read"))
    }

    /// Takes plans until there is no room.
    fn fill(&self) -> usize {
        let text = "x".repeat(30_000);
        for count in 0..1_000 {
            match self.trigger(1_000_000, &text) {
                Ok(_) => {}
                Err(TriggerError::Store(StoreError::Full(_))) => return count,
                Err(error) => panic!("{error:?}"),
            }
        }
        panic!("it is never full");
    }
}

fn done(text: &str) -> (PlanState, PlanResult, Option<String>) {
    (PlanState::Stopped, PlanResult::Success, Some(text.to_owned()))
}

#[test]
fn plans_hold_on_while_the_file_is_full_and_go_on_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(folder.path().join("plans.db")).sync(SqliteSync::Off);
    store.set_reserve(0);
    store.set_bytes_max(2 * 1_024 * 1_024);
    let place = Place::new(store.clone());
    let waits: Vec<_> = (0..40).map(|_| place.trigger(1_000_000, "").unwrap()).collect();
    let sleeps = place.trigger(5, &"x".repeat(9_000)).unwrap();
    let taken = place.fill();
    assert!(taken > 10, "{taken}");
    // What is left are pages that are half empty.
    let text = "an event ".repeat(1_000);
    let refused = waits.iter().position(|plan| place.event(plan, "one", &text).is_err());
    let refused = refused.expect("nothing is left after some");
    let error = place.event(&waits[refused], "one", &text).expect_err("nothing is left");
    assert!(matches!(error, PlanError::Store(StoreError::Full(_))), "{error:?}");
    place.sim.advance(Duration::from_secs(60));
    for plan in &waits[refused..] {
        assert_eq!(place.end(plan), (PlanState::Running, PlanResult::Pending, None));
    }
    store.set_bytes_max(u64::MAX);
    place.sim.advance(Duration::from_secs(5));
    assert_eq!(place.end(&sleeps), done("its timer"));
    for plan in &waits {
        // The plan that has got it before is not disturbed by a second one.
        let _taken_before = place.event(plan, "one", &text);
        place.sim.run_until_idle();
        assert_eq!(place.end(plan), done(&text));
    }
    assert!(place.trigger(5, "again").is_ok());
    let all = turnwheel_engine::store::Filter { limit: 2_000, ..Default::default() };
    let rows = place.sim.block_on(place.world.list(all)).unwrap().unwrap();
    assert_eq!(rows.len(), taken + 42, "nothing is lost, and nothing of what was refused is there");
}

#[test]
fn what_is_under_way_has_room_when_new_plans_have_none() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(folder.path().join("plans.db")).sync(SqliteSync::Off);
    store.set_reserve(500_000);
    store.set_bytes_max(2 * 1_024 * 1_024);
    let place = Place::new(store);
    let waits = place.trigger(1_000_000, "").unwrap();
    let sleeps = place.trigger(5, "").unwrap();
    place.fill();
    place.event(&waits, "1", "an event").unwrap();
    place.sim.advance(Duration::from_secs(10));
    assert_eq!(place.end(&waits), done("an event"));
    assert_eq!(place.end(&sleeps), done("its timer"));
    assert!(matches!(place.trigger(5, ""), Err(TriggerError::Store(StoreError::Full(_)))));
}

#[test]
fn an_event_that_cannot_be_written_is_told_and_is_taken_once_when_there_is_room() {
    let store = FaultStore::new(MemoryStore::new());
    let place = Place::new(store.clone());
    let plan = place.trigger(1_000_000, "").unwrap();
    place.sim.advance(Duration::from_secs(1));
    store.fail(StoreError::Full("no room".to_owned()));
    for _ in 0..3 {
        let error = place.event(&plan, "one", "an event").expect_err("it cannot be written");
        assert!(matches!(error, PlanError::Store(StoreError::Full(_))), "{error:?}");
        place.sim.advance(Duration::from_secs(10));
        let view = place.sim.block_on(plan.view()).unwrap().unwrap();
        assert_eq!((view.waiting(), view.output::<Wait>().unwrap()), (Waiting::Store, None));
    }
    store.heal();
    place.event(&plan, "one", "an event").unwrap();
    place.sim.run_until_idle();
    assert_eq!(place.end(&plan), done("an event"));
    let view = place.sim.block_on(plan.view()).unwrap().unwrap();
    assert_eq!(view.run_step::<Wait>().unwrap().calls, 2, "it was handled once");
}

#[test]
fn a_minute_without_room_is_survived_by_plans_in_every_state() {
    let store = FaultStore::new(MemoryStore::new());
    let place = Place::new(store.clone());
    let plans: Vec<PlanHandle> =
        (1..=50).map(|number| place.trigger(number, "").unwrap()).collect();
    place.sim.advance(Duration::from_millis(10_500));
    store.fail(StoreError::Full("no room".to_owned()));
    let tries = store.commits();
    place.sim.advance(Duration::from_secs(60));
    assert!(
        store.commits() - tries < 60 * 50 * 3,
        "they do not storm: {}",
        store.commits() - tries
    );
    store.heal();
    place.sim.advance(Duration::from_secs(3));
    for plan in &plans {
        assert_eq!(place.end(plan), done("its timer"));
    }
}

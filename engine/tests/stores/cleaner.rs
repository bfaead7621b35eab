//! Plans that are long over are exported and removed; all others stay.

use std::time::Duration;

use turnwheel_engine::store::Filter;
use turnwheel_engine::{
    Action, ActionError, CleanError, Cleaned, MemoryStore, Next, PlanError, PlanId, PlanResult,
    Rescue, Retention, Run, Runs, StepContext, Store, World, WorldBuilder,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_sqlite::{SqliteStore, SqliteSync};

/// Ends, fails, or waits, as it is told.
struct Work;

impl Action for Work {
    const NAME: &'static str = "work";
    type Input = String;
    type Output = ();
    type Phases = Runs;

    fn rescue(&self, _: &ActionError) -> Rescue {
        Rescue::Fail
    }
}

impl Run for Work {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        match step.input.as_str() {
            "fail" => Err(ActionError::new("told", "to fail")),
            "wait" => Ok(Next::suspend("nothing")),
            _ => Ok(Next::Done),
        }
    }
}

struct Place {
    sim: Sim,
    world: World,
}

impl Place {
    fn new(store: impl Store) -> Self {
        Self::with(store, World::builder())
    }

    fn with(store: impl Store, builder: WorldBuilder) -> Self {
        let sim = Sim::new(3);
        let builder = builder.action(Work).seed(3);
        let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
        let world = sim.block_on(builder.open(store)).expect("it ends").expect("the world begins");
        Self { sim, world }
    }

    fn trigger(&self, key: &str, what: &str) -> PlanId {
        let plan = self.world.trigger_once::<Work>(key, what.to_owned());
        let plan = self.sim.block_on(plan).expect("it ends").expect("it is taken").id();
        self.sim.run_until_idle();
        plan
    }

    fn clean(&self, retention: Retention) -> Result<Cleaned, CleanError> {
        self.sim.block_on(self.world.clean(retention)).expect("it ends")
    }

    fn count(&self) -> usize {
        let all = Filter { limit: usize::MAX, ..Filter::default() };
        self.sim.block_on(self.world.list(all)).expect("it ends").expect("it lists").len()
    }
}

const HOUR: Duration = Duration::from_secs(3_600);

fn old_plans_go_and_others_stay(store: impl Store) {
    let place = Place::new(store);
    for number in 0..200 {
        place.trigger(&number.to_string(), "end");
    }
    let waits = place.trigger("waits", "wait");
    let failed = place.trigger("fails", "fail");
    place.sim.advance(HOUR * 2);
    let fresh = place.trigger("fresh", "end");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("plans.jsonl");
    assert_eq!(place.clean(Retention::older_than(HOUR * 3)).expect("it ends").plans, 0);
    let good = Retention::older_than(HOUR).results([PlanResult::Success]).export(&file);
    assert_eq!(place.clean(good.clone()).expect("it ends").plans, 200);
    assert_eq!(place.count(), 3);
    let text = std::fs::read_to_string(&file).expect("it was written");
    assert_eq!(text.lines().count(), 200);
    let first: serde_json::Value =
        serde_json::from_str(text.lines().next().expect("a line")).expect("each line is JSON");
    assert_eq!((&first["label"], &first["result"]), (&"work".into(), &"success".into()));
    assert!(first["records"].as_array().expect("a list").len() > 3, "{first}");
    // Again, and with other wishes.
    assert_eq!(place.clean(good).expect("it ends").plans, 0);
    let label = Retention::older_than(Duration::ZERO).label("other");
    assert_eq!(place.clean(label).expect("it ends").plans, 0);
    assert_eq!(place.clean(Retention::older_than(HOUR).label("work")).expect("it ends").plans, 1);
    let gone = place.sim.block_on(place.world.plan(failed).view()).expect("it ends");
    assert!(matches!(gone, Err(PlanError::Unknown(plan)) if plan == failed), "{gone:?}");
    for plan in [waits, fresh] {
        place.sim.block_on(place.world.plan(plan).view()).expect("it ends").expect("it is there");
    }
    // The keys of those that are gone are free.
    assert_ne!(place.trigger("fails", "end"), failed);
    assert_eq!(place.trigger("fresh", "end"), fresh);
}

// D-245, D-246
#[test]
fn old_plans_go_from_memory_and_others_stay() {
    old_plans_go_and_others_stay(MemoryStore::new());
}

#[test]
fn old_plans_go_from_a_file_and_others_stay() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::new(folder.path().join("plans.db")).sync(SqliteSync::Off);
    old_plans_go_and_others_stay(store);
}

#[test]
fn nothing_is_removed_that_could_not_be_exported() {
    let place = Place::new(MemoryStore::new());
    place.trigger("one", "end");
    place.sim.advance(HOUR);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("no such folder").join("plans.jsonl");
    let error = place.clean(Retention::older_than(Duration::ZERO).export(&file)).unwrap_err();
    assert!(matches!(error, CleanError::Export { .. }), "{error}");
    assert!(error.to_string().contains("no such folder"), "{error}");
    assert_eq!(place.count(), 1);
}

#[test]
fn a_world_removes_old_plans_by_the_clock_a_little_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let exports = folder.path().join("old").join("plans");
    let retention = Retention::older_than(HOUR * 24).export_to(&exports);
    let place = Place::with(MemoryStore::new(), World::builder().keep(retention));
    let keeping = || place.world.keeping().expect("it cleans by itself");
    assert_eq!((keeping().age, keeping().export), (HOUR * 24, Some(exports.clone())));
    for number in 0..300 {
        place.trigger(&number.to_string(), "end");
    }
    let waits = place.trigger("waits", "wait");
    for _ in 0..23 {
        place.sim.advance(HOUR);
    }
    assert_eq!((place.count(), keeping().removed), (301, 0), "a day has not passed");
    assert!(keeping().last.is_some(), "it has looked");
    for _ in 0..2 {
        place.sim.advance(HOUR);
    }
    assert_eq!((place.count(), keeping().removed, keeping().problem), (1, 300, None));
    let view = place.sim.block_on(place.world.plan(waits).view()).expect("it ends");
    assert!(view.is_ok(), "what is not over stays, however old");
    let written = || {
        let files = std::fs::read_dir(&exports).expect("the folder was made");
        let texts = files.map(|file| std::fs::read_to_string(file.expect("a file").path()));
        texts.map(|text| text.expect("text").lines().count()).sum::<usize>()
    };
    assert_eq!(written(), 300);
    // What cannot be written down stays, and goes when it can.
    std::fs::remove_dir_all(&exports).expect("it is there");
    std::fs::write(&exports, "in the way").expect("it can be written");
    place.trigger("late", "end");
    for _ in 0..25 {
        place.sim.advance(HOUR);
    }
    assert_eq!((place.count(), keeping().removed), (2, 300));
    assert!(keeping().problem.is_some_and(|problem| problem.contains("export")));
    std::fs::remove_file(&exports).expect("it is there");
    place.sim.advance(HOUR);
    assert_eq!((place.count(), keeping().removed, keeping().problem), (1, 301, None));
    assert_eq!(written(), 1);
}

//! Files that earlier versions have written are opened, and their plans go on.
//!
//! `tests/fixtures/` keeps a file of each format that was released, `store-<format>.db`: the test opens them
//! all, and one that this version writes. At a release, its file is added by
//! `TURNWHEEL_WRITE_FIXTURE=1 cargo test -p turnwheel-engine --test fixture`; from then on it never changes.
//! As long as there was no release, formats change and no file is kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use turnwheel_actors::entity::{ReminderId, ReminderRow};
use turnwheel_engine::store::Filter;
use turnwheel_engine::{
    Action, ActionError, Next, PlanHandle, PlanId, PlanResult, PlanState, Rescue, RetryPolicy, Run,
    Runs, StepContext, World,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::Backoff;
use turnwheel_sqlite::SqliteStore;

const WRITE: &str = "TURNWHEEL_WRITE_FIXTURE";

/// The file of the format of this version.
const NEWEST: &str = "store-2.db";

/// Does as it is told by its input.
struct Work;

impl Action for Work {
    const NAME: &'static str = "work";
    type Input = String;
    type Output = Vec<String>;
    type Phases = Runs;

    fn retry(&self) -> RetryPolicy {
        RetryPolicy::attempts(2).pauses(Backoff::constant(Duration::from_secs(10)))
    }

    fn rescue(&self, _: &ActionError) -> Rescue {
        Rescue::Pause
    }
}

impl Run for Work {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let event = step.event::<String>()?;
        step.output.extend(event);
        match step.input.as_str() {
            "fail" => Err(ActionError::new("told", "to fail")),
            "wait" if step.output.is_empty() => {
                step.event_after(Duration::from_secs(1 << 30), &"much too late")?;
                Ok(Next::suspend("the first event"))
            }
            "wait" if step.output.len() < 3 => Ok(Next::suspend("more events")),
            _ => Ok(Next::Done),
        }
    }
}

struct Place {
    sim: Sim,
    world: World,
}

impl Place {
    fn new(file: &Path, wall: u64) -> Self {
        let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(wall);
        let sim = Sim::builder().seed(11).wall(wall).build();
        let builder = World::builder().action(Work).seed(wall_seed(wall));
        let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
        let opened = sim.block_on(builder.open(SqliteStore::new(file))).expect("it ends");
        let world = opened.unwrap_or_else(|error| panic!("{error}."));
        Self { sim, world }
    }

    fn trigger(&self, what: &str) -> PlanHandle {
        let plan = self.world.trigger_once::<Work>(what, what.to_owned());
        self.sim.block_on(plan).expect("it ends").expect("it is taken")
    }

    fn event(&self, plan: PlanId, id: &str) {
        let view = self.sim.block_on(self.world.plan(plan).view()).expect("it ends");
        let step = view.expect("it is there").run_step::<Work>().expect("it has one").id;
        let taken = self.sim.wait(self.world.event(plan, step, Some(id), &id));
        taken.expect("it answers").expect("it is taken");
        self.sim.run_until_idle();
    }

    fn plans(&self) -> Vec<(PlanId, PlanState, PlanResult)> {
        let rows = self.sim.block_on(self.world.list(Filter::default())).expect("it ends");
        let rows = rows.expect("it lists");
        rows.iter().rev().map(|row| (row.id, row.state, row.result)).collect()
    }
}

fn wall_seed(wall: SystemTime) -> u64 {
    wall.duration_since(SystemTime::UNIX_EPOCH).expect("it is later").as_secs()
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// Writes the newest fixture.
fn write(file: &Path) {
    let folder = tempfile::tempdir().expect("a folder");
    let written = folder.path().join("plans.db");
    let place = Place::new(&written, 1_700_000_000);
    for what in ["end", "fail", "wait"] {
        place.trigger(what);
        place.sim.advance(Duration::from_secs(60));
    }
    let waits = place.plans()[2].0;
    place.event(waits, "one");
    let (states, reminders) = (place.world.states(), place.world.reminders());
    let saved = place.sim.block_on(states.save("account", "42", b"77".to_vec(), 0, 1));
    saved.expect("it ends").expect("it is saved");
    let mut row = ReminderRow::new(ReminderId::new("account", "42", "interest"));
    row.due_ms = 1_700_000_000_000;
    place.sim.block_on(reminders.upsert(&row, 1)).expect("it ends").expect("it is written");
    assert_eq!(place.plans().len(), 3, "rows are written with that");
    drop((states, reminders));
    let store = SqliteStore::new(&written);
    store.backup(file).expect("it can be copied");
}

/// The files that are kept.
fn kept() -> Vec<PathBuf> {
    let entries = fs::read_dir(fixture("")).into_iter().flatten();
    let files = entries.map(|entry| entry.expect("the folder can be read").path());
    files.filter(|file| file.extension().is_some_and(|end| end == "db")).collect()
}

#[test]
fn a_file_of_each_format_is_opened_and_its_plans_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let fresh = folder.path().join("fresh.db");
    write(&fresh);
    opens(&fresh);
    if std::env::var_os(WRITE).is_some() {
        fs::create_dir_all(fixture("")).unwrap();
        fs::copy(&fresh, fixture(NEWEST)).unwrap();
    }
    kept().iter().for_each(|file| opens(file));
}

/// Goes on with a copy of a fixture.
fn opens(kept: &Path) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("plans.db");
    fs::copy(kept, &file).expect("it can be copied");
    let place = Place::new(&file, 1_800_000_000);
    let plans = place.plans();
    let found: Vec<_> = plans.iter().map(|(_, state, result)| (*state, *result)).collect();
    let expected = [
        (PlanState::Stopped, PlanResult::Success),
        (PlanState::Paused, PlanResult::Error),
        (PlanState::Running, PlanResult::Pending),
    ];
    assert_eq!(found, expected);
    let [ended, failed, waits] = [plans[0].0, plans[1].0, plans[2].0];
    assert_eq!(place.trigger("end").id(), ended, "its key is known");
    let view =
        place.sim.block_on(place.world.plan(failed).view()).expect("it ends").expect("it reads");
    assert_eq!(view.errors()[0].kind, "told");
    place.event(waits, "one");
    place.event(waits, "two");
    place.event(waits, "three");
    let view =
        place.sim.block_on(place.world.plan(waits).finished()).expect("it ends").expect("it reads");
    assert_eq!(
        view.output::<Work>().expect("it can be read"),
        ["one", "two", "three"],
        "the first came before"
    );
    let states = place.world.states();
    let record =
        place.sim.block_on(states.load("account", "42")).expect("it ends").expect("it reads");
    assert_eq!((record.bytes, record.version), (Some(b"77".to_vec()), 1));
    let id = ReminderId::new("account", "42", "interest");
    let reminders = place.world.reminders();
    let reminder = place
        .sim
        .block_on(reminders.get(&id))
        .expect("it ends")
        .expect("it reads")
        .expect("it is there");
    assert_eq!(reminder.due_ms, 1_700_000_000_000);
}

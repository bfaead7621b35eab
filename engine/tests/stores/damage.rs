//! A plan whose entries are damaged is refused with a reason, and no other plan is hit by that.

use std::path::Path;

use turnwheel_engine::store::Filter;
use turnwheel_engine::{
    Action, ActionError, Next, PlanId, PlanResult, Run, Runs, StepContext, Store, Waiting, World,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_sqlite::{SqliteStore, SqliteSync};

/// Waits for an event.
struct Wait;

impl Action for Wait {
    const NAME: &'static str = "wait";
    type Input = u64;
    type Output = Option<bool>;
    type Phases = Runs;
}

impl Run for Wait {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output = step.event::<bool>()?;
        Ok(if step.output.is_some() { Next::Done } else { Next::suspend("an event") })
    }
}

fn open(file: &Path, seed: u64) -> (Sim, World) {
    let sim = Sim::new(seed);
    let builder = World::builder().action(Wait).seed(seed);
    let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
    let store = SqliteStore::new(file).sync(SqliteSync::Off);
    let world = sim.block_on(builder.open(store)).expect("it ends").expect("the world begins");
    (sim, world)
}

/// Changes one bit in the first entry of a plan.
fn damage(file: &Path, plan: PlanId) {
    let file = rusqlite::Connection::open(file).expect("it opens");
    let read = "SELECT seq, records FROM journal WHERE plan = ?1 ORDER BY seq LIMIT 1";
    let (seq, mut records): (i64, Vec<u8>) = file
        .query_row(read, [plan.to_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
        .expect("it has one");
    let middle = records.len() / 2;
    records[middle] ^= 4;
    let write = "UPDATE journal SET records = ?2 WHERE seq = ?1";
    file.execute(write, rusqlite::params![seq, records]).expect("it is written");
}

#[test]
fn a_plan_that_can_be_read_again_goes_on_and_its_row_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("plans.db");
    let (sim, world) = open(&file, 1);
    let plan = sim.block_on(world.trigger::<Wait>(1)).expect("it ends").expect("it is taken").id();
    sim.run_until_idle();
    drop((world, sim));
    damage(&file, plan);
    let (sim, world) = open(&file, 2);
    sim.advance(std::time::Duration::from_secs(60));
    drop((world, sim));
    // The run undoes its changes.
    damage(&file, plan);
    let (sim, world) = open(&file, 3);
    let view = sim.block_on(world.plan(plan).view()).expect("it ends").expect("it can be read");
    assert_eq!(view.result(), PlanResult::Pending);
    let rows = sim.block_on(world.list(Filter::default())).expect("it ends").expect("rows");
    assert_eq!((rows[0].waits, rows[0].waits_for.as_str()), (Waiting::Event, "an event"));
}

/// Three plans wait; the second one is damaged. Whether their rows are behind when the world ends.
fn one_of_three(rows_are_behind: bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("plans.db");
    let (sim, world) = open(&file, 1);
    let plans: Vec<PlanId> = (0..3)
        .map(|number| {
            let plan = sim.block_on(world.trigger::<Wait>(number)).expect("it ends");
            plan.expect("it is taken").id()
        })
        .collect();
    sim.run_until_idle();
    if !rows_are_behind {
        sim.advance(std::time::Duration::from_secs(60));
    }
    drop((world, sim));
    damage(&file, plans[1]);
    for life in 2..5 {
        let (sim, world) = open(&file, life);
        let error =
            sim.block_on(world.plan(plans[1]).view()).expect("it ends").expect_err("damage");
        let text = error.to_string();
        assert!(text.contains("is not what was written"), "{text}");
        assert!(text.contains(&plans[1].to_string()), "{text}");
        if !rows_are_behind {
            // D-131: what search knows of it can still be read.
            let rows = sim.block_on(world.list(Filter::default())).expect("it ends");
            let rows = rows.expect("rows are not hit");
            let row = rows.iter().find(|row| row.id == plans[1]).expect("it is listed");
            assert_eq!((&*row.label, row.state.name()), ("wait", "running"));
            assert!(row.started_at.is_some());
        }
        for plan in [plans[0], plans[2]] {
            let view = sim.block_on(world.plan(plan).view()).expect("it ends");
            let view = view.expect("it is not hit");
            if life < 4 {
                assert_eq!(view.result(), PlanResult::Pending);
                continue;
            }
            let step = view.run_step::<Wait>().expect("it has one").id;
            let taken = sim.wait(world.event(plan, step, Some("one"), &true));
            taken.expect("it answers").expect("it is taken");
            let view = sim.block_on(world.plan(plan).finished()).expect("it ends");
            assert_eq!(
                view.expect("it is not hit").output::<Wait>().expect("it reads"),
                Some(true)
            );
        }
        let new = sim.block_on(world.trigger::<Wait>(9)).expect("it ends");
        assert!(new.is_ok(), "new ones are taken");
        let rows = sim.block_on(world.list(Filter::default())).expect("it ends").expect("rows");
        let row = rows.iter().find(|row| row.id == plans[1]).expect("it is listed");
        assert_eq!(row.waits, Waiting::Unreadable);
        assert!(row.waits_for.contains("is not what was written"), "{}", row.waits_for);
        sim.advance(std::time::Duration::from_secs(60));
        let mut reader = SqliteStore::new(&file).reader().expect("a reader");
        let behind = reader.behind().expect("it can be asked");
        assert_eq!(behind, [], "the next start looks through nothing for it");
    }
}

#[test]
fn a_damaged_plan_is_refused_and_others_go_on() {
    one_of_three(false);
}

#[test]
fn a_damaged_plan_whose_row_is_behind_is_refused_and_others_go_on() {
    one_of_three(true);
}

#[test]
fn messages_of_a_file_that_is_no_store_or_was_changed_name_it_and_say_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    let other = turnwheel_sqlite::rusqlite::Connection::open(&path).unwrap();
    other.execute("CREATE TABLE theirs (number INTEGER)", []).unwrap();
    let mut reader = SqliteStore::new(&path).reader().unwrap();
    let error = reader.journal(0, 1).unwrap_err().to_string();
    assert!(error.contains("other.db") && error.contains("no such table"), "{error}");
    assert!(error.contains("no store of Turnwheel"), "{error}");
    let path = folder.path().join("plans.db");
    let store = SqliteStore::new(&path);
    let mut writer = store.writer().unwrap();
    crate::place::append(&mut *writer, &[crate::place::entry(1, 0, "a")]);
    crate::place::write_rows(&mut *writer, &[crate::place::row(1, 1)], 1);
    drop(writer);
    let changed = turnwheel_sqlite::rusqlite::Connection::open(&path).unwrap();
    changed.execute("UPDATE plans SET created_at = -5", []).unwrap();
    let error = store.reader().unwrap().list(&Filter::default()).unwrap_err().to_string();
    assert!(error.contains("plans.db") && error.contains("-5"), "{error}");
    assert!(error.contains("Restore it from a backup"), "{error}");
}

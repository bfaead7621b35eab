//! Values that are too large are refused with their names; those that are large are kept apart.

use std::time::Duration;

use serde_json::{json, Value};
use turnwheel_engine::limits::{CHUNK_BYTES_MAX, PAYLOAD_BYTES_MAX};
use turnwheel_engine::{
    ActionError, ChunkCursor, Next, PlanId, PlanResult, PlanState, Retention, World,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_sqlite::rusqlite::{types::FromSql, Connection};
use turnwheel_sqlite::SqliteStore;

use crate::common::{part, states, Play, Script, Theatre};

fn text(bytes: usize) -> Value {
    json!("x".repeat(bytes))
}

#[test]
fn what_is_too_large_is_refused_with_the_action_the_value_its_size_and_the_limit() {
    let theatre = Theatre::new();
    let too_large = text(PAYLOAD_BYTES_MAX);
    let names_all = |error: &str, value: &str| {
        let size = (PAYLOAD_BYTES_MAX + 2).to_string();
        for part in [value, &size, &PAYLOAD_BYTES_MAX.to_string()] {
            assert!(error.contains(part), "{part} is missing: {error}");
        }
    };

    let part = crate::common::Part { who: "x".repeat(PAYLOAD_BYTES_MAX), needs: Vec::new() };
    let refused = theatre.sim.block_on(theatre.world.trigger::<Play>(part)).unwrap().unwrap_err();
    for part in ["«play»", "input", "4194304"] {
        assert!(refused.to_string().contains(part), "{part} is missing: {refused}");
    }

    let errors = [
        ("an event of «play»", 0),
        ("a sign of life of «play»", 1),
        ("a chunk of «play»", 2),
        ("the output of «play»", 3),
    ];
    for (value, place) in errors {
        let (large, who) = (too_large.clone(), format!("a{place}"));
        theatre.script.on(&who, move |step| {
            let said: Result<(), ActionError> = match place {
                0 => step.event_after(Duration::ZERO, &large),
                1 => step.heartbeat(&large),
                2 => step.chunk("line", &large),
                _ => {
                    step.output = large.clone();
                    Ok(())
                }
            };
            said.map(|()| Next::Done)
        });
        let plan = theatre.perform(&who);
        let view = theatre.finished(&plan);
        assert_eq!((view.state, states(&view).as_str()), (PlanState::Paused, "error"));
        let error = view.run_step::<Play>().unwrap().error.clone().expect("it has failed");
        names_all(&error.message, value);
    }

    theatre.script.on("b", |step| {
        step.chunk("line", &text(CHUNK_BYTES_MAX))?;
        Ok(Next::Done)
    });
    let view = theatre.finished(&theatre.perform("b"));
    let error = view.run_step::<Play>().unwrap().error.clone().expect("it has failed");
    for part in ["chunk", "«play»", "1048582", "1048576"] {
        assert!(error.message.contains(part), "{part} is missing: {error}");
    }

    theatre.script.on("c", |_| Ok(Next::suspend("a word")));
    let plan = theatre.perform("c");
    let step = theatre.settle(&plan).run_step::<Play>().unwrap().id;
    let refused = theatre.done(theatre.world.event(plan.id(), step, None, &too_large)).unwrap_err();
    names_all(&refused.to_string(), &format!("the event for step {step}"));
    assert!(refused.to_string().contains(&plan.id().to_string()), "{refused}");
}

/// A world over a file, with a step that answers each event with its number and keeps a large
/// output.
struct Place {
    sim: Sim,
    world: World,
}

const LARGE: usize = 200_000;

impl Place {
    fn new(path: &std::path::Path) -> Self {
        let script = Script::default();
        script.on("wait", |step| match step.event::<u32>()? {
            Some(0) => Ok(Next::Done),
            Some(_) => Ok(Next::suspend("more")),
            None => {
                step.output = json!({ "answer": text(LARGE) });
                step.chunk("line", &text(LARGE))?;
                Ok(Next::suspend("a word"))
            }
        });
        let sim = Sim::new(3);
        let builder = World::builder().action(Play::new(&script)).seed(3);
        let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
        let opening = builder.open(SqliteStore::new(path));
        let world = sim.block_on(opening).expect("it ends").expect("the world begins");
        Self { sim, world }
    }

    fn say(&self, plan: PlanId, word: u32) {
        let view = self.sim.block_on(self.world.plan(plan).view());
        let step =
            view.expect("it ends").expect("it is there").run_step::<Play>().expect("it has one").id;
        let said = self.sim.block_on(self.world.event(plan, step, None, &word));
        said.expect("it ends").expect("the world is there").expect("it is taken");
        self.sim.run_until_idle();
    }
}

fn look<T: FromSql>(path: &std::path::Path, sql: &str) -> T {
    let connection = Connection::open(path).expect("it can be read");
    connection.query_row(sql, [], |row| row.get(0)).expect("it has a row")
}

#[test]
fn large_values_are_kept_once_apart_from_entries_and_snapshots_and_go_with_their_plan() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plans.db");
    let place = Place::new(&path);
    let mut input = part("wait");
    // The same text as other parts of the plan have: it is one value, whatever it is a part of.
    input.needs.push(text(LARGE).into());
    let plan = place.sim.block_on(place.world.trigger::<Play>(input)).unwrap().unwrap().id();
    place.sim.run_until_idle();
    for word in 1..40 {
        place.say(plan, word);
    }
    place.sim.advance(Duration::from_secs(60));
    drop(place);

    assert!(look::<usize>(&path, "SELECT max(length(records)) FROM journal") < 4_096);
    let snapshot: Option<usize> = look(&path, "SELECT length(bytes) FROM turnwheel_snapshots");
    assert!(snapshot.is_some_and(|bytes| bytes < 8_192), "{snapshot:?}");
    // One for the input, the output and the chunk, and for each entry or snapshot that has them.
    assert_eq!(look::<u32>(&path, "SELECT count(*) FROM turnwheel_values"), 1);
    let bytes: usize = look(&path, "SELECT sum(length(bytes)) FROM turnwheel_values");
    assert_eq!(bytes, LARGE + 2);

    // Another world has it all.
    let place = Place::new(&path);
    place.say(plan, 0);
    let handle = place.world.plan(plan);
    let view = place.sim.block_on(handle.finished()).unwrap().unwrap();
    assert_eq!(view.result(), PlanResult::Success);
    assert_eq!(view.output::<Play>().unwrap(), json!({ "answer": text(LARGE) }));
    assert!(view.actions[0].input.as_str().len() > LARGE);
    let chunks = place.sim.block_on(handle.chunks(ChunkCursor::default(), 10)).unwrap().unwrap();
    assert_eq!(chunks[0].data.read::<Value>().unwrap(), text(LARGE));

    // An export holds them, and removal removes them.
    place.sim.advance(Duration::from_secs(60));
    let file = folder.path().join("export.jsonl");
    let old = Retention::older_than(Duration::from_secs(1)).export(&file);
    assert_eq!(place.sim.block_on(place.world.clean(old)).unwrap().unwrap().plans, 1);
    assert!(std::fs::metadata(&file).unwrap().len() > 3 * LARGE as u64);
    drop(place);
    assert_eq!(look::<u32>(&path, "SELECT count(*) FROM turnwheel_values"), 0);
}

#[test]
fn a_damaged_large_value_is_named_and_hits_its_plan_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plans.db");
    let place = Place::new(&path);
    let start = |place: &Place| {
        let plan = place.sim.block_on(place.world.trigger::<Play>(part("wait")));
        let plan = plan.unwrap().unwrap().id();
        place.sim.run_until_idle();
        plan
    };
    let (hit, other) = (start(&place), start(&place));
    place.sim.advance(Duration::from_secs(60));
    drop(place);
    let damage = "UPDATE turnwheel_values SET bytes = CAST(replace(bytes, 'xxxx', 'xxxy') AS BLOB)
         WHERE plan = ?1";
    Connection::open(&path).unwrap().execute(damage, [hit.to_bytes()]).unwrap();

    let place = Place::new(&path);
    let error = place.sim.block_on(place.world.plan(hit).view()).unwrap().unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
    place.say(other, 0);
    let view = place.sim.block_on(place.world.plan(other).finished()).unwrap().unwrap();
    assert_eq!(view.result(), PlanResult::Success);
}

#[test]
fn a_plan_with_large_values_goes_on_after_a_crash() {
    let theatre = Theatre::new();
    let code = |step: &mut turnwheel_engine::StepContext<Play>| match step.event::<u32>()? {
        None => {
            step.output = text(LARGE);
            Ok(Next::suspend("a word"))
        }
        Some(_) => Ok(Next::Done),
    };
    theatre.script.on("a", code);
    let plan = theatre.perform("a").id();
    theatre.sim.run_until_idle();
    let theatre = theatre.crash();
    theatre.script.on("a", code);
    let handle = theatre.world.plan(plan);
    let step = theatre.settle(&handle).run_step::<Play>().unwrap().id;
    theatre.done(theatre.world.event(plan, step, None, &1)).unwrap();
    let view = theatre.finished(&handle);
    assert_eq!(view.result(), PlanResult::Success);
    let output = &view.actions.last().expect("it has some").output;
    assert_eq!(output.read::<Value>().unwrap(), text(LARGE));
}

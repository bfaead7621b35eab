//! The output stream of a plan: what steps add while they run is read in order, and outlives crashes.

use std::time::Duration;

use turnwheel_engine::limits::{CHUNKS_WAITING_BYTES_MAX, CHUNK_BYTES_MAX};
use turnwheel_engine::{
    Action, ActionError, Cause, Chunk, ChunkCursor, MemoryStore, Next, PlanError, PlanHandle,
    PlanId, PlanResult, PlanState, Retention, RunAsync, RunsAsync, StepContext, World,
};
use turnwheel_runtime::completion::{completion, Completion};
use turnwheel_runtime::sim::Sim;

use crate::common::*;

fn read(theatre: &Theatre, plan: &PlanHandle, after: ChunkCursor, limit: usize) -> Vec<Chunk> {
    let chunks = plan.chunks(after, limit);
    theatre.sim.block_on(chunks).expect("it ends").expect("the plan is there")
}

/// Kinds and texts of all chunks.
fn told(theatre: &Theatre, plan: &PlanHandle) -> Vec<String> {
    let all = read(theatre, plan, ChunkCursor::default(), usize::MAX);
    all.iter().map(|chunk| format!("{} {}", chunk.kind, chunk.data)).collect()
}

#[test]
fn each_call_adds_its_chunks_and_finalize_may_drop_them() {
    // D-064
    let theatre = Theatre::new();
    theatre.script.on("a", |step| {
        if let Cause::Event = step.cause() {
            return match step.event::<String>()?.as_deref() {
                Some("quiet") => Ok(Next::suspend("another word")),
                _ => Ok(Next::Done),
            };
        }
        step.chunk("log", "begun")?;
        Ok(Next::suspend("a word"))
    });
    theatre.script.on("finalize a", |step| {
        step.chunk("log", "pending")?;
        step.drop_chunks();
        step.chunk("log", "the last word")?;
        Ok(Next::Done)
    });
    let plan = theatre.perform("a");
    let view = theatre.settle(&plan);
    assert_eq!((told(&theatre, &plan), view.chunks), (vec!["log \"begun\"".to_owned()], 1));
    let step = step_of(&view, "a");
    theatre.done(theatre.world.event(plan.id(), step, None, &"quiet")).unwrap();
    assert_eq!(theatre.settle(&plan).chunks, 1, "an event without a chunk adds none");
    theatre.done(theatre.world.event(plan.id(), step, None, &"end")).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!((view.result(), view.chunks), (PlanResult::Success, 1));
    assert_eq!(told(&theatre, &plan), ["log \"the last word\""]);
}

#[test]
fn planning_adds_none_and_each_attempt_adds_its_own() {
    // D-064
    let theatre = Theatre::with(|play| play.attempts = 3, |builder| builder);
    theatre.script.on("a", |step| {
        step.chunk("try", &step.attempt())?;
        if step.attempt() < 3 {
            return Err(error("again"));
        }
        panic!("with a chunk");
    });
    let plan = theatre.perform("a");
    assert_eq!(theatre.settle(&plan).chunks, 1);
    theatre.sim.advance(Duration::from_secs(10));
    theatre.sim.advance(Duration::from_secs(10));
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.chunks), (PlanState::Paused, 3));
    let chunks = read(&theatre, &plan, ChunkCursor::default(), 10);
    assert_eq!(chunks.iter().map(|chunk| chunk.attempt).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(chunks[0].at < chunks[1].at);
}

#[test]
fn pages_go_on_where_the_last_one_ended_and_outlive_the_process_and_snapshots() {
    // D-259
    let theatre = Theatre::new();
    theatre.script.on("a", |step| {
        for number in 0..100 {
            step.chunk("number", &number)?;
        }
        Ok(Next::suspend("a word"))
    });
    let plan = theatre.perform("a").id();
    theatre.sim.run_until_idle();
    theatre.sim.advance(Duration::from_secs(60));
    let theatre = theatre.crash();
    let plan = theatre.world.plan(plan);
    let mut cursor = ChunkCursor::default();
    let mut seen = Vec::new();
    loop {
        let page = read(&theatre, &plan, cursor, 7);
        let Some(last) = page.last() else { break };
        let text = serde_json::to_string(&last.cursor).unwrap();
        cursor = serde_json::from_str(&text).unwrap();
        seen.extend(page.iter().map(|chunk| chunk.data.read::<u32>().unwrap()));
    }
    assert_eq!(seen, (0..100).collect::<Vec<u32>>());
    assert_eq!(theatre.settle(&plan).chunks, 100);
    let unknown = theatre.world.plan(PlanId::from_bytes([9; 16])).chunks(cursor, 1);
    let error = theatre.sim.block_on(unknown).unwrap().unwrap_err();
    assert!(matches!(error, PlanError::Unknown(_)), "{error}");
}

#[test]
fn chunks_beyond_the_limits_are_refused_and_the_others_stay() {
    let theatre = Theatre::new();
    theatre.script.on("a", |step| {
        step.chunk("good", "one")?;
        let long = step.chunk("long", &"x".repeat(CHUNK_BYTES_MAX)).unwrap_err();
        assert!(long.message.contains("of «play»") && long.message.contains("1048576"), "{long}");
        let part = "x".repeat(CHUNK_BYTES_MAX / 2);
        let mut written = 0;
        let error = loop {
            match step.chunk("part", &part) {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(written, CHUNKS_WAITING_BYTES_MAX / (CHUNK_BYTES_MAX / 2) - 1);
        assert!(error.message.contains("wait for the disk"), "{error}");
        Ok(Next::Done)
    });
    let plan = theatre.perform("a");
    let view = theatre.finished(&plan);
    assert_eq!((view.result(), view.chunks), (PlanResult::Success, 16), "{:?}", view.errors());
    assert_eq!(read(&theatre, &plan, ChunkCursor::default(), 1)[0].kind, "good");
}

#[test]
fn the_cleaner_exports_chunks_and_takes_them_with_the_plan() {
    // D-259
    let folder = tempfile::tempdir().unwrap();
    let theatre = Theatre::new();
    theatre.script.on("a", |step| {
        step.chunk("log", "for posterity")?;
        Ok(Next::Done)
    });
    let plan = theatre.perform("a");
    theatre.finished(&plan);
    theatre.sim.advance(Duration::from_secs(10));
    let file = folder.path().join("old.jsonl");
    let retention = Retention::older_than(Duration::from_secs(5)).export(&file);
    let cleaned = theatre.sim.block_on(theatre.world.clean(retention)).unwrap().unwrap();
    assert_eq!(cleaned.plans, 1);
    assert!(std::fs::read_to_string(file).unwrap().contains("for posterity"));
    let gone = theatre.sim.block_on(plan.chunks(ChunkCursor::default(), 1)).unwrap();
    assert!(matches!(gone, Err(PlanError::Unknown(_))), "{gone:?}");
}

/// Adds a chunk, waits to be let on, adds another one.
struct Live(std::sync::Mutex<Option<Completion<()>>>);

impl Action for Live {
    const NAME: &'static str = "live";
    type Input = ();
    type Output = ();
    type Phases = RunsAsync;
}

impl RunAsync for Live {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.chunk("log", "first")?;
        let gate = self.0.lock().expect("nobody panics with it").take();
        if let Some(gate) = gate {
            gate.await?;
        }
        step.chunk("log", "second")?;
        Ok(Next::Done)
    }
}

#[test]
fn chunks_are_read_while_the_code_that_adds_them_runs() {
    let sim = Sim::new(3);
    let store = MemoryStore::new();
    let (gate, waits) = completion();
    let builder = World::builder().action(Live(std::sync::Mutex::new(Some(waits))));
    let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal")).seed(1);
    let world = sim.block_on(builder.open(store.clone())).unwrap().unwrap();
    let plan = sim.block_on(world.trigger::<Live>(())).unwrap().unwrap();
    sim.run_until_idle();
    let chunks = sim.block_on(plan.chunks(ChunkCursor::default(), 10)).unwrap().unwrap();
    assert_eq!(chunks.len(), 1);
    assert_eq!(sim.block_on(plan.view()).unwrap().unwrap().state, PlanState::Running);
    // It is durable already: a world over what a crash leaves now shows it.
    let left = store.copied();
    gate.complete(()).ok();
    let finished = sim.block_on(plan.finished()).unwrap().unwrap();
    assert_eq!((finished.result(), finished.chunks), (PlanResult::Success, 2));
    let more = sim.block_on(plan.chunks(chunks[0].cursor, 10)).unwrap().unwrap();
    assert_eq!(more[0].data.read::<String>().unwrap(), "second");
    let sim = Sim::new(4);
    let builder = World::builder().group(&sim.group("plans")).io_group(&sim.group("journal"));
    let world = sim.block_on(builder.open(left)).unwrap().unwrap();
    let kept = world.plan(plan.id()).chunks(ChunkCursor::default(), 10);
    assert_eq!(sim.block_on(kept).unwrap().unwrap(), chunks);
}

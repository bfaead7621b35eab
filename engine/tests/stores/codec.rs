//! What is stored is encoded: keys are rotated, and what cannot be decoded is left as it is.

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use turnwheel_engine::store::{Append, Batch, Filter, Store, Verdict};
use turnwheel_engine::watch::{Cursor, Happening, WatchFilter, Watched};
use turnwheel_engine::{
    ChunkCursor, Codec, CodedStore, MemoryStore, Next, PlanError, PlanId, PlanResult, PlanState,
    Schedule, StoreError, World, WorldBuilder,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_sqlite::SqliteStore;

use crate::common::*;

const SECRET: &str = "attack at dawn";

/// A toy: each byte is changed by one of the key. It shows that a codec is used, and protects
/// nothing.
struct Toy {
    known: Vec<&'static str>,
}

impl Toy {
    fn new(known: &[&'static str]) -> Self {
        Self { known: known.to_vec() }
    }
}

fn mix(key: &str, bytes: &[u8]) -> Vec<u8> {
    let key = key.bytes().fold(7_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte)) | 1;
    bytes.iter().map(|byte| byte ^ key).collect()
}

impl Codec for Toy {
    fn encode(&self, plain: &[u8]) -> Result<(String, Vec<u8>), String> {
        let key = *self.known.last().ok_or("there is no key")?;
        Ok((key.to_owned(), mix(key, plain)))
    }

    fn decode(&self, key: &str, coded: &[u8]) -> Result<Vec<u8>, String> {
        if self.known.contains(&key) {
            Ok(mix(key, coded))
        } else {
            Err("the key is not known".to_owned())
        }
    }
}

fn with(known: &'static [&'static str]) -> impl FnOnce(WorldBuilder) -> WorldBuilder {
    move |builder| builder.codec(Toy::new(known))
}

fn script(theatre: &Theatre) {
    theatre.script.on("wait", |step| match step.event::<String>()? {
        None => {
            step.chunk("log", &format!("chunk: {SECRET}"))?;
            step.output = format!("output: {SECRET}").into();
            Ok(Next::suspend("a word"))
        }
        Some(word) => {
            step.output = word.into();
            Ok(Next::Done)
        }
    });
}

#[test]
fn keys_are_rotated_and_a_plan_without_its_key_waits_for_it() {
    let theatre = Theatre::with(|_| {}, with(&["old"]));
    script(&theatre);
    let plan = theatre.perform("wait").id();
    // Later worlds make other ids.
    theatre.sim.advance(Duration::from_secs(1));

    // The key is gone: the plan is left as it is, others are not hit.
    let theatre = theatre.crash_with(|_| {}, with(&["new"]));
    script(&theatre);
    let lost = theatre.sim.block_on(theatre.world.plan(plan).view()).unwrap().unwrap_err();
    let is_named = |error: &PlanError| {
        let PlanError::Store(StoreError::Undecodable { key, .. }) = error else { return false };
        key == "old"
    };
    assert!(is_named(&lost), "{lost}");
    let lost = theatre.done(theatre.world.plan(plan).cancel("ann")).unwrap_err();
    assert!(is_named(&lost), "{lost}");
    let other = theatre.perform("good");
    assert_eq!(theatre.finished(&other).result(), PlanResult::Success);
    theatre.sim.advance(Duration::from_secs(100));

    // Without a codec it is named as well.
    let theatre = theatre.crash();
    let lost = theatre.sim.block_on(theatre.world.plan(plan).view()).unwrap().unwrap_err();
    assert!(is_named(&lost) && lost.to_string().contains("no codec"), "{lost}");

    // Both keys are known: it goes on where it was.
    let theatre = theatre.crash_with(|_| {}, with(&["old", "new"]));
    script(&theatre);
    let plan = theatre.world.plan(plan);
    let chunks = plan.chunks(ChunkCursor::default(), 10);
    assert_eq!(theatre.sim.block_on(chunks).unwrap().unwrap().len(), 1);
    let step = step_of(&theatre.settle(&plan), "wait");
    theatre.done(theatre.world.event(plan.id(), step, None, &SECRET)).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!(
        (view.result(), view.actions[1].output.as_str()),
        (PlanResult::Success, "\"attack at dawn\"")
    );
}

#[test]
fn listener_is_told_of_plans_whose_key_is_known_beside_those_whose_key_is_gone() {
    let theatre = Theatre::with(|_| {}, with(&["old"]));
    script(&theatre);
    let lost = theatre.perform("wait").id();
    theatre.sim.run_until_idle();
    theatre.sim.advance(Duration::from_secs(1));
    let theatre = theatre.crash_with(|_| {}, with(&["new"]));
    let known = theatre.perform("good");
    theatre.finished(&known);
    theatre.sim.run_until_idle();
    let mut watch = theatre.world.watch(WatchFilter::new().after(Cursor::START));
    let (mut told, mut errors) = (Vec::new(), 0);
    for _ in 0..100 {
        match pin!(watch.next()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(Ok(Watched::Happened(happening)))) => told.push(*happening),
            Poll::Ready(Some(Err(StoreError::Undecodable { key, .. }))) => {
                assert_eq!(key, "old");
                errors += 1;
            }
            Poll::Ready(other) => panic!("{other:?}"),
            Poll::Pending => drop(theatre.sim.run_until_idle()),
        }
    }
    assert!(errors > 0, "something is left out");
    assert!(told.iter().all(|happening| happening.plan != lost));
    assert_eq!(told.first().and_then(Happening::plan_state), Some(PlanState::Pending));
    assert_eq!(told.last().and_then(Happening::plan_state), Some(PlanState::Stopped));
}

#[test]
fn a_codec_can_begin_with_a_store_that_was_written_without_one() {
    let theatre = Theatre::new();
    script(&theatre);
    let plan = theatre.perform("wait").id();
    theatre.sim.run_until_idle();
    let theatre = theatre.crash_with(|_| {}, with(&["first"]));
    script(&theatre);
    let plan = theatre.world.plan(plan);
    let step = step_of(&theatre.settle(&plan), "wait");
    theatre.done(theatre.world.event(plan.id(), step, None, &"go on")).unwrap();
    assert_eq!(theatre.finished(&plan).result(), PlanResult::Success);
}

#[test]
fn a_world_that_joins_a_store_has_the_codec_of_that_store() {
    use turnwheel_engine::{BuildError, SharedStore};
    let memory = CodedStore::new(MemoryStore::new(), Arc::new(Toy::new(&["k"])));
    let store = SharedStore::open(memory).unwrap();
    let refused = World::builder().codec(Toy::new(&["x"])).join(&store);
    assert!(matches!(refused, Err(BuildError::Codec)), "{refused:?}");
    store.close().unwrap();
}

#[test]
fn what_cannot_be_encoded_is_not_stored_as_plain_text() {
    let theatre = Theatre::with(|_| {}, with(&[]));
    let triggering = theatre.world.trigger::<Piece>("a".to_owned());
    let error = theatre.sim.block_on(triggering).unwrap().unwrap_err();
    assert!(error.to_string().contains("there is no key"), "{error}");
    assert!(theatre.script.said().is_empty(), "nothing of it runs");
}

fn bytes_of(folder: &Path) -> Vec<u8> {
    let files = std::fs::read_dir(folder).expect("the folder is there");
    let read = |entry: std::io::Result<std::fs::DirEntry>| std::fs::read(entry?.path());
    files.flat_map(|entry| read(entry).expect("a file can be read")).collect()
}

#[test]
fn the_file_does_not_hold_the_plain_text() {
    let has = |bytes: &[u8]| bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
    for is_coded in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let sim = Sim::new(5);
        let theatre = Theatre::new();
        script(&theatre);
        let play = Play {
            script: theatre.script.clone(),
            attempts: 1,
            limit: None,
            is_cancellable: false,
            cleans_up: false,
            later_attempts: 1,
            reverts_failed: true,
        };
        let mut builder = World::builder().action(play).seed(1);
        if is_coded {
            builder = builder.codec(Toy::new(&["k"]));
        }
        let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
        let store = SqliteStore::new(folder.path().join("plans.db"));
        let world = sim.block_on(builder.open(store)).unwrap().unwrap();
        let mut input = part("wait");
        input.needs.push(turnwheel_engine::Input::from(serde_json::json!(SECRET)));
        // A large value, which is kept apart.
        let large = SECRET.repeat(10_000);
        input.needs.push(turnwheel_engine::Input::from(serde_json::json!(large)));
        let plan = sim.block_on(world.trigger::<Play>(input)).unwrap().unwrap();
        sim.run_until_idle();
        let step = sim.block_on(plan.view()).unwrap().unwrap().run_step::<Play>().unwrap().id;
        sim.block_on(world.event(plan.id(), step, None, &SECRET)).unwrap().unwrap().unwrap();
        // A dead letter says it, too.
        let gone = turnwheel_engine::PlanId::from_bytes([7; 16]);
        sim.block_on(world.event(gone, step, None, &SECRET)).unwrap().unwrap().unwrap_err();
        let view = sim.block_on(plan.finished()).unwrap().unwrap();
        assert!(view.actions[0].output.as_str().contains(SECRET));
        assert!(view.actions[0].input.as_str().contains(&large));
        sim.advance(Duration::from_secs(60));
        assert_eq!(has(&bytes_of(folder.path())), !is_coded);
    }
}

/// The first entry of a plan.
fn append(plan: u8, records: &str) -> Append {
    Append {
        plan: PlanId::from_bytes([plan; 16]),
        prev: 0,
        epoch: 0,
        records: records.into(),
        key: None,
        take: vec![],
        release: vec![],
        follow: vec![],
        unfollow: vec![],
    }
}

#[test]
fn a_store_in_memory_is_encoded_as_well() {
    let memory = MemoryStore::new();
    let coded = CodedStore::new(memory.clone(), Arc::new(Toy::new(&["k"])));
    let mut writer = coded.writer().unwrap();
    let batch = Batch { appends: &[append(1, SECRET)], changes: &[], rows: &[], projected: 0 };
    writer.commit(&batch).unwrap();
    let read =
        |store: &dyn Store| store.reader().unwrap().journal(0, 1).unwrap()[0].records.clone();
    assert_eq!(read(&coded), SECRET.as_bytes());
    assert_eq!(read(&memory)[..3], [0xc0, 1, b'k']);
}

/// Cannot encode what has both words.
pub(crate) struct Picky(pub(crate) &'static [&'static str]);

impl Codec for Picky {
    fn encode(&self, plain: &[u8]) -> Result<(String, Vec<u8>), String> {
        let has = |word: &&str| plain.windows(word.len()).any(|part| part == word.as_bytes());
        match self.0.iter().all(has) {
            true => Err("these words cannot be encoded".to_owned()),
            false => Ok(("k".to_owned(), plain.to_vec())),
        }
    }

    fn decode(&self, _: &str, coded: &[u8]) -> Result<Vec<u8>, String> {
        Ok(coded.to_vec())
    }
}

/// A theatre whose part «wait» takes events for ever.
fn listening(words: &'static [&'static str]) -> (Theatre, turnwheel_engine::PlanHandle) {
    let theatre = Theatre::with(|_| {}, |world| world.codec(Picky(words)));
    theatre.script.on("wait", |step| {
        step.output = step.event::<String>()?.unwrap_or_default().into();
        Ok(Next::suspend("a word"))
    });
    let plan = theatre.perform("wait");
    theatre.settle(&plan);
    (theatre, plan)
}

#[test]
fn entry_that_cannot_be_encoded_is_refused_and_those_beside_it_are_written() {
    let coded = CodedStore::new(MemoryStore::new(), Arc::new(Picky(&["bomb"])));
    let mut writer = coded.writer().unwrap();
    let appends = [append(1, "one"), append(2, "a bomb"), append(3, "three")];
    let batch = Batch { appends: &appends, changes: &[], rows: &[], projected: 0 };
    let verdicts = writer.commit(&batch).expect("it is made");
    let written = |verdict: &Verdict| matches!(verdict, Verdict::Written(_));
    assert_eq!(verdicts.iter().map(written).collect::<Vec<_>>(), [true, false, true]);
    let written = coded.reader().unwrap().journal(0, 9).unwrap();
    let texts: Vec<_> = written.iter().map(|entry| &entry.records[..]).collect();
    assert_eq!(texts, [&b"one"[..], b"three"]);
}

#[test]
fn order_that_cannot_be_encoded_is_refused_and_other_plans_go_on() {
    let (theatre, plan) = listening(&["bomb"]);
    let step = step_of(&theatre.settle(&plan), "wait");
    let bad = theatre.world.event(plan.id(), step, None, &"bomb");
    let refused = theatre.sim.wait(bad).expect("it answers").expect_err("it cannot be stored");
    assert!(refused.to_string().contains("these words cannot be encoded"), "{refused}");
    let other = theatre.perform("b");
    assert_eq!(theatre.finished(&other).result(), PlanResult::Success);
}

#[test]
fn snapshot_that_cannot_be_encoded_is_left_out() {
    let (theatre, plan) = listening(&["left", "right"]);
    let step = step_of(&theatre.settle(&plan), "wait");
    theatre.done(plan.label("side", "left", "ann")).unwrap();
    for word in std::iter::repeat_n("right", 100) {
        let sent = theatre.world.event(plan.id(), step, None, &word);
        theatre.sim.wait(sent).expect("it answers").expect("it is stored");
    }
    theatre.sim.advance(Duration::from_secs(60));
    let other = theatre.perform("b");
    theatre.finished(&other);
    theatre.sim.advance(Duration::from_secs(60));
    let rows = theatre.store.reader().unwrap().list(&Filter::default()).expect("it lists");
    assert_eq!(rows.len(), 2, "rows for searches are written");
    assert_eq!(theatre.settle(&plan).labels["side"], "left");
}

#[test]
fn schedule_without_its_key_says_so_and_keeps_its_bytes_and_others_are_listed() {
    let theatre = Theatre::with(|_| {}, with(&["old"]));
    let put = |theatre: &Theatre, name: &str| {
        let schedule = Schedule::manual(name).action::<Piece>(&"good".to_owned()).unwrap();
        theatre.done(theatre.world.schedules().put(schedule)).unwrap();
    };
    put(&theatre, "a");
    let theatre = theatre.crash_with(|_| {}, with(&["new"]));
    put(&theatre, "b");
    let problems = |theatre: &Theatre| -> Vec<String> {
        let views = theatre.done(theatre.world.schedules().list("", 9)).unwrap();
        views.into_iter().map(|view| view.problem.unwrap_or_default()).collect()
    };
    let said = problems(&theatre);
    assert!(said[0].contains("the key «old» cannot be decoded"), "{said:?}");
    assert_eq!(said[1..], [""]);
    let theatre = theatre.crash_with(|_| {}, with(&["old", "new"]));
    assert_eq!(problems(&theatre), ["", ""], "nothing is lost");
}

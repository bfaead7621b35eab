//! Dead letters while the store fails: what was acknowledged is not lost.

use std::time::Duration;

use turnwheel_engine::{BuildError, DeadLetters, MemoryStore, Next, StoreError, World};
use turnwheel_runtime::sim::Sim;
use turnwheel_testkit::FaultStore;

use crate::common::{part, step_of, Piece, Play, Script};

/// Longer than any pause after a failure.
const A_WHILE: Duration = Duration::from_secs(60);

fn away() -> StoreError {
    StoreError::Failed("the disk is away".to_owned())
}

fn begin(sim: &Sim, store: &FaultStore, seed: u64) -> (World, Script) {
    let script = Script::default();
    let builder = World::builder().action(Play::new(&script)).action(Piece).seed(seed);
    let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
    let world = sim.block_on(builder.open(store.clone()));
    (world.expect("it ends").expect("it begins"), script)
}

/// A step gets two events and takes one: the other is a dead letter. Returns whether both were
/// acknowledged.
fn leave_one_behind(sim: &Sim, world: &World, script: &Script, fails: impl FnOnce()) -> bool {
    let done = |has_event| if has_event { Next::Done } else { Next::suspend("a call") };
    script.on("ann", move |step| Ok(done(step.has_event())));
    let plan = sim.block_on(world.trigger::<Play>(part("ann")));
    let plan = plan.expect("it ends").expect("it is taken");
    sim.run_until_idle();
    let view = sim.block_on(plan.view()).expect("it ends").expect("it is there");
    let ann = step_of(&view, "ann");
    fails();
    let sent = ["one", "two"].map(|id| world.event(plan.id(), ann, Some(id), &1));
    sent.into_iter().all(|sent| matches!(sim.block_on(sent), Ok(Ok(Ok(())))))
}

/// The letters of the next world over the store.
fn letters_after(sim: Sim, store: &FaultStore) -> DeadLetters {
    let next = Sim::builder().seed(9).wall(sim.wall()).build();
    drop(sim);
    store.heal();
    begin(&next, store, 4).0.dead_letters()
}

#[test]
fn a_letter_survives_a_commit_that_fails_once_and_a_clean_end() {
    for number in 1..12 {
        let store = FaultStore::new(MemoryStore::new());
        let sim = Sim::new(3);
        let (world, script) = begin(&sim, &store, 3);
        let fails = || store.fail_at(store.commits() + number, away());
        assert!(leave_one_behind(&sim, &world, &script, fails), "commit {number}");
        sim.advance(A_WHILE);
        let before = world.dead_letters();
        let _ended = sim.block_on(Box::pin(world.terminate(Duration::from_secs(5))));
        sim.run_until_idle();
        drop(world);
        let after = letters_after(sim, &store);
        assert_eq!((before.letters.len(), after), (1, before), "commit {number}");
    }
}

#[test]
fn a_letter_is_written_by_a_clean_end_right_after_it() {
    let store = FaultStore::new(MemoryStore::new());
    let sim = Sim::new(3);
    let (world, script) = begin(&sim, &store, 3);
    assert!(leave_one_behind(&sim, &world, &script, || {}));
    let ended = sim.block_on(Box::pin(world.terminate(Duration::from_secs(5))));
    ended.expect("it ends").expect("its record is removed");
    let before = world.dead_letters();
    drop(world);
    let after = letters_after(sim, &store);
    assert_eq!((before.letters.len(), after), (1, before));
}

#[test]
fn a_letter_is_written_when_a_store_is_well_that_failed_for_a_while() {
    let store = FaultStore::new(MemoryStore::new());
    let sim = Sim::new(3);
    let (world, script) = begin(&sim, &store, 3);
    store.fail_at(store.commits() + 5, away());
    assert!(leave_one_behind(&sim, &world, &script, || {}));
    store.fail(away());
    let unknown = turnwheel_engine::PlanId::from_bytes([7; 16]);
    let refused = world.event(unknown, turnwheel_engine::StepId(1), Some("lost"), &1);
    assert!(sim.block_on(refused).expect("it ends").expect("it answers").is_err());
    sim.advance(A_WHILE);
    store.heal();
    sim.advance(A_WHILE);
    let before = world.dead_letters();
    // Without a word, so that the end writes nothing.
    drop(world);
    let after = letters_after(sim, &store);
    assert_eq!((before.letters.len(), after), (2, before));
}

#[test]
fn a_shutdown_says_that_letters_are_lost() {
    let store = FaultStore::new(MemoryStore::new());
    let script = Script::default();
    let world = World::builder().action(Play::new(&script)).action(Piece).build(store.clone());
    let world = world.expect("it begins");
    store.fail(away());
    let unknown = turnwheel_engine::PlanId::from_bytes([7; 16]);
    let refused = world.event(unknown, turnwheel_engine::StepId(1), Some("lost"), &1);
    assert!(refused.wait().expect("it answers").is_err(), "there is no such plan");
    let ended = world.shutdown_within(Duration::from_millis(500)).expect_err("it says so");
    assert!(matches!(ended, BuildError::LettersLost { letters: 1 }), "{ended}");
}

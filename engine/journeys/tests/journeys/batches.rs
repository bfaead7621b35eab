//! Batches of messages in trouble: with a channel that refuses each message once, commits that
//! fail, and processes that end. Each message is taken once or, after the end of a process, with
//! the same key again; no batch is left.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use turnwheel_engine::limits::TOGETHER_MAX;
use turnwheel_engine::store::StateScan;
use turnwheel_engine::{MemoryStore, Store, StoreError, World};
use turnwheel_journeys::{Channels, Event, JourneysOptions, Message, Unsent};
use turnwheel_runtime::sim::Sim;
use turnwheel_testkit::FaultStore;

use super::common::{open_with, Stage, DAY, P, SECOND};

/// Two passes of each user, with two messages each.
const TEXTS: [&str; 2] = [
    "
journey: one
platform: P
elements:
  go: { start: { on: go }, then: first }
  first: { send: { channel: chat }, then: second }
  second: { send: { channel: chat }, then: wait }
  wait: { wait: { on: x }, then: end }
",
    "
journey: two
platform: P
elements:
  go: { start: { on: go }, then: first }
  first: { send: { channel: chat }, then: second }
  second: { send: { channel: chat }, then: wait }
  wait: { wait: { on: x }, then: end }
",
];

const USERS: [&str; 3] = ["a", "b", "c"];

/// Commits that get into trouble, one after the other: more than there are.
const COMMITS: u64 = 24;

/// Keys of messages, with how often each was refused and taken, and all that were taken in their
/// order.
#[derive(Default)]
struct Heard {
    counts: BTreeMap<String, (usize, usize)>,
    taken: Vec<String>,
}

type Ears = Arc<Mutex<Heard>>;

/// A stage over a store, whose channel refuses each message the first time.
fn stage(store: impl Store, seed: u64, ears: &Ears) -> Stage {
    let mut stage = Stage::over(store, seed);
    stage.journeys.end();
    let heard = Arc::clone(ears);
    let chat = move |message: &Message| {
        let mut heard = heard.lock().expect("no panic before");
        let (refused, taken) = heard.counts.entry(message.key.clone()).or_default();
        if *refused == 0 {
            *refused += 1;
            return Err(Unsent::Again("busy".to_owned()));
        }
        *taken += 1;
        heard.taken.push(message.key.clone());
        Ok(())
    };
    let options = JourneysOptions::new(Channels::new().with("chat", chat));
    stage.journeys = open_with(&stage.sim, &stage.world, options);
    stage
}

/// Batches in the store.
pub(crate) fn batches(sim: &Sim, world: &World) -> usize {
    let states = world.timed_states();
    let rows = sim.block_on(states.list("tw.batch", StateScan::After(String::new()), 9_999));
    rows.expect("it ends").expect("they are read").len()
}

fn goes(user: &str) -> Event {
    Event::new(P, user, "e1", "go")
}

/// Asks until it is answered: while the store is in trouble that takes seconds.
fn insist(stage: &Stage, user: &str, case: &str) {
    for _ in 0..20 {
        let asked = stage.journeys.event(goes(user));
        stage.sim.advance(2 * SECOND);
        if let Ok(Ok(Ok(_))) = stage.sim.block_on(asked) {
            return;
        }
    }
    panic!("{case}: the event is never taken");
}

/// All messages were taken, those of each pass in their order, and nothing is left to be sent.
fn check(stage: &Stage, ears: &Ears, case: &str) {
    for user in USERS {
        let view = stage.user(user);
        assert_eq!((view.passes.len(), view.lost.len()), (2, 0), "{case}: {view:?}");
        assert!(view.outbox.is_empty(), "{case}: {view:?}");
    }
    assert_eq!(batches(&stage.sim, &stage.world), 0, "{case}: no batch is left");
    let heard = ears.lock().expect("no panic before");
    assert_eq!(heard.counts.len(), 4 * USERS.len(), "{case}: {:?}", heard.counts);
    assert!(heard.counts.values().all(|(_, taken)| *taken > 0), "{case}: {:?}", heard.counts);
    for (key, pass) in heard.counts.keys().filter_map(|key| Some((key, key.strip_suffix("/2")?))) {
        let first = |of: &str| heard.taken.iter().position(|taken| taken == of);
        assert!(first(&format!("{pass}/1")) < first(key), "{case}: {:?}", heard.taken);
    }
}

#[test]
fn message_is_taken_once_whichever_commit_fails_or_has_no_answer() {
    for commit in 1..COMMITS {
        for is_made in [false, true] {
            let case = format!("commit {commit}, made: {is_made}");
            let (store, ears) = (FaultStore::new(MemoryStore::new()), Ears::default());
            let stage = stage(store.clone(), commit, &ears);
            TEXTS.iter().for_each(|text| stage.put(text));
            let at = store.commits() + commit;
            match is_made {
                true => store.lose_answer_at(at),
                false => store.fail_at(at, StoreError::Failed("for a test".to_owned())),
            }
            let _asked = USERS.map(|user| stage.journeys.event(goes(user)));
            stage.sim.run_until_idle();
            for user in USERS {
                insist(&stage, user, &case);
            }
            stage.sim.advance(60 * SECOND);
            stage.sim.run_until_idle();
            check(&stage, &ears, &case);
            let heard = ears.lock().expect("no panic before");
            let is_once = heard.counts.values().all(|counts| *counts == (1, 1));
            assert!(is_once, "{case}: the process did not end: {:?}", heard.counts);
        }
    }
}

#[test]
fn message_is_taken_with_its_key_whichever_commit_is_the_last_one() {
    let mut left = 0;
    for last in 1..COMMITS {
        let case = format!("killed at commit {last}");
        let (memory, ears) = (MemoryStore::new(), Ears::default());
        let store = FaultStore::new(memory.clone());
        let one = stage(store.clone(), last, &ears);
        TEXTS.iter().for_each(|text| one.put(text));
        let commit = store.commits() + last;
        (0..500).for_each(|later| {
            store.fail_at(commit + later, StoreError::Failed("the process is gone".to_owned()));
        });
        let _asked = USERS.map(|user| one.journeys.event(goes(user)));
        one.sim.advance(9 * SECOND);
        let two = stage(memory.copied(), last + 99, &ears);
        left += batches(&two.sim, &two.world);
        for user in USERS {
            insist(&two, user, &case);
        }
        two.sim.advance(60 * SECOND);
        two.sim.run_until_idle();
        check(&two, &ears, &case);
    }
    assert!(left > 0, "processes have left batches behind");
}

#[test]
fn message_of_a_user_who_leaves_while_it_is_being_sent_is_not_tried_again() {
    for is_forgotten in [false, true] {
        let (memory, ears) = (MemoryStore::new(), Ears::default());
        let store = FaultStore::new(memory.clone());
        let one = stage(store.clone(), 3, &ears);
        TEXTS.iter().for_each(|text| one.put(text));
        // The step is durable, and nothing that comes after it.
        let commit = store.commits() + 2;
        (0..99).for_each(|later| store.fail_at(commit + later, StoreError::Failed("no".into())));
        one.wait(one.journeys.event(goes("a"))).expect("it is taken");
        let two = stage(memory.copied(), 4, &ears);
        let before = ears.lock().expect("no panic before").counts.clone();
        assert_eq!(batches(&two.sim, &two.world), 1);
        match is_forgotten {
            true => two.wait(two.journeys.forget(P, "a")).expect("it is forgotten"),
            false => drop(two.wait(two.journeys.opt_out(P, "a", true)).expect("it is noted")),
        }
        two.sim.advance(DAY);
        two.sim.run_until_idle();
        assert_eq!(ears.lock().expect("no panic before").counts, before, "{is_forgotten}");
        assert_eq!(batches(&two.sim, &two.world), 0, "{is_forgotten}: no batch is left");
        assert!(two.user("a").outbox.is_empty());
    }
}

/// The store of a node that had sent no message when it ended: one to each of so many users,
/// each in a batch of its own.
fn left_behind(users: usize) -> MemoryStore {
    let memory = MemoryStore::new();
    let stage = stage(memory.clone(), 3, &Ears::default());
    stage.put(TEXTS[0]);
    // Each step is in a commit of its own, and no message has left when the process ends.
    stage.sim.block_for(DAY);
    for number in 0..users {
        stage.wait(stage.journeys.event(goes(&format!("u{number}")))).expect("it is taken");
    }
    memory.copied()
}

/// Users whose first message was taken.
fn reached(ears: &Ears) -> usize {
    let heard = ears.lock().expect("no panic before");
    heard.counts.keys().filter(|key| key.ends_with("/1")).count()
}

#[test]
fn many_batches_that_were_left_behind_are_taken_over_within_seconds() {
    const MANY: usize = 300;
    let ears = Ears::default();
    let stage = stage(left_behind(MANY), 4, &ears);
    let left = batches(&stage.sim, &stage.world);
    assert!(left > MANY / 2, "{left} are left");
    stage.sim.advance(6 * SECOND);
    stage.sim.run_until_idle();
    assert_eq!(reached(&ears), MANY, "each first message of a pass");
    assert!(batches(&stage.sim, &stage.world) < left / 10, "they are gone");
}

#[test]
fn more_batches_than_one_commit_removes_are_taken_over_once_the_store_has_room_again() {
    const MANY: usize = TOGETHER_MAX + 400;
    let ears = Ears::default();
    let store = FaultStore::new(left_behind(MANY));
    let stage = stage(store.clone(), 4, &ears);
    store.fail(StoreError::Full("no room".to_owned()));
    stage.sim.advance(60 * SECOND);
    let left = batches(&stage.sim, &stage.world);
    assert!(left > TOGETHER_MAX, "{left} are left");
    store.heal();
    stage.sim.advance(60 * SECOND);
    stage.sim.run_until_idle();
    assert_eq!(reached(&ears), MANY, "each first message of a pass");
    assert_eq!(batches(&stage.sim, &stage.world), 0, "they are gone");
}

/// The time of a message comes while the first look at due users is under way, which has read the
/// store before: each time that is written later is seen all the same.
#[test]
fn time_that_comes_while_due_users_are_read_is_not_missed() {
    let memory = MemoryStore::new();
    let before = stage(memory.clone(), 1, &Ears::default());
    TEXTS.iter().for_each(|text| before.put(text));
    for seed in 0..64 {
        let ears = Ears::default();
        let stage = stage(memory.copied(), seed, &ears);
        let _asked = USERS.map(|user| stage.journeys.event(goes(user)));
        stage.sim.advance(60 * SECOND);
        stage.sim.run_until_idle();
        check(&stage, &ears, &format!("seed {seed}"));
    }
}

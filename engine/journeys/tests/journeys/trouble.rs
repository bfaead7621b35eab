//! Stores that fail or whose answers are lost, and crashes: each user's path is one of the
//! definition, and each message has its key once.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::{json, Value};
use turnwheel_engine::internal::pause;
use turnwheel_engine::store::StateScan;
use turnwheel_engine::{MemoryStore, Store, StoreError, Time, World};
use turnwheel_journeys::{
    Channels, Definition, Event, JourneyError, Journeys, JourneysOptions, Message, Taken, UserView,
};
use turnwheel_runtime::completion::block_on;
use turnwheel_runtime::Group;
use turnwheel_testkit::FaultStore;

use super::common::{ancestor, Sent, Stage, DAY, HOUR, KEYWORD, P, PATIENCE, SECOND};

/// Trouble with one commit, or with all of them for some time.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    Fails,
    FailsForAMinute,
    LosesItsAnswer,
}

const ALL: [Trouble; 3] = [Trouble::Fails, Trouble::FailsForAMinute, Trouble::LosesItsAnswer];

/// Commits of the walk-through that get into trouble, one after the other.
const COMMITS: u64 = 12;

fn begin(store: &FaultStore, trouble: Trouble, write: u64) {
    let error = || StoreError::Failed("for a test".to_owned());
    let commit = store.commits() + write;
    match trouble {
        Trouble::Fails => store.fail_at(commit, error()),
        Trouble::FailsForAMinute => {
            (0..60).for_each(|later| store.fail_at(commit + later, error()));
        }
        Trouble::LosesItsAnswer => store.lose_answer_at(commit),
    }
}

/// Whether a path follows the lines of the definition.
fn check_path(definition: &Definition, path: &[String]) {
    let element = |id: &String| {
        let found = definition.elements.iter().find(|element| element.id.to_string() == *id);
        found.unwrap_or_else(|| panic!("{id} is no element"))
    };
    for pair in path.windows(2) {
        let next: Vec<String> =
            element(&pair[0]).outgoings.iter().map(ToString::to_string).collect();
        assert!(next.contains(&pair[1]), "{} does not lead to {}: {path:?}", pair[0], pair[1]);
    }
}

/// Whether all that is known of a user can have happened.
pub(crate) fn check_user(definition: &Definition, user: &UserView, case: &str) {
    for pass in user.passes.iter().chain(&user.ended) {
        let mut waits = BTreeSet::new();
        for (number, moved) in pass.moves.iter().enumerate() {
            check_path(definition, &moved.path);
            if moved.cause != "unmatched" {
                assert_eq!(moved.wait.is_none(), number == 0, "{case}: {moved:?}");
                assert!(waits.insert(moved.wait), "{case}: a wait ends once: {:?}", pass.moves);
            }
        }
    }
}

/// Asks until it is answered: the id makes it count once.
pub(crate) fn insist(stage: &Stage, event: &Event, case: &str) -> Taken {
    for _ in 0..200 {
        match stage.wait(stage.journeys.event(event.clone())) {
            Ok(taken) => return taken,
            Err(JourneyError::Failed(_)) => {
                stage.sim.advance(SECOND);
            }
            Err(other) => panic!("{case}: {other}"),
        }
    }
    panic!("{case}: the event is never taken");
}

pub(crate) fn says(user: &str, id: &str, text: &str) -> Event {
    Event::new(P, user, id, KEYWORD).data(json!({ "text": text }))
}

#[test]
fn each_step_happens_once_after_a_commit_in_trouble() {
    let text = ancestor().to_string();
    let definition = Definition::read(&text, "wf").expect("it is read");
    for (trouble, write) in ALL.into_iter().flat_map(|it| (1..COMMITS).map(move |at| (it, at))) {
        let case = format!("{trouble:?} at {write}");
        let store = FaultStore::new(MemoryStore::new());
        let stage = Stage::over(store.clone(), 5);
        stage.put(&text);
        stage.scanned("u");
        begin(&store, trouble, write);
        insist(&stage, &says("u", "e1", "开始"), &case);
        insist(&stage, &says("v", "e2", "开始"), &case);
        stage.sim.advance(HOUR);
        insist(&stage, &says("u", "e3", "1"), &case);
        stage.sim.advance(2 * DAY);
        store.heal();
        stage.sim.advance(HOUR);
        stage.sim.run_until_idle();
        let (u, v) = (stage.user("u"), stage.user("v"));
        for (user, last) in [(&u, "18"), (&v, "6")] {
            check_user(&definition, user, &case);
            let pass = &user.ended[0];
            assert_eq!(
                (user.passes.len(), user.ended.len(), pass.moves.len()),
                (0, 1, 2),
                "{case}"
            );
            assert_eq!(pass.moves[1].path.last().map(String::as_str), Some(last), "{case}");
            assert!(user.outbox.is_empty() && user.lost.is_empty(), "{case}: {user:?}");
        }
        let sent = stage.sent.lock().expect("no panic before").clone();
        let keys: BTreeSet<&String> = sent.iter().map(|(key, _)| key).collect();
        assert_eq!(keys.len(), 3, "{case}: a key for each message: {sent:?}");
        assert_eq!(sent.len(), 3, "{case}: the process did not end, so none is sent again");
    }
}

#[test]
fn each_step_happens_once_whichever_commit_is_the_last_one() {
    walked_over_kills(|| {
        let memory = MemoryStore::new();
        (memory.clone(), move || memory.copied())
    });
}

/// The process ends after each commit in turn; the next one goes on with a copy of what the store
/// has then. Both are made anew by `open`.
pub(crate) fn walked_over_kills<S, L, C>(open: impl Fn() -> (S, C))
where
    S: Store + 'static,
    L: Store + 'static,
    C: Fn() -> L,
{
    let text = ancestor().to_string();
    let definition = Definition::read(&text, "wf").expect("it is read");
    for last in 1..COMMITS {
        let case = format!("killed at commit {last}");
        let (store, copied) = open();
        let store = FaultStore::new(store);
        let sent = Sent::default();
        let stage = Stage::with(store.clone(), 5, Sent::clone(&sent));
        stage.put(&text);
        stage.scanned("u");
        let commit = store.commits() + last;
        // From here on nothing is written any more: as if the process had ended.
        (0..500).for_each(|later| {
            store.fail_at(commit + later, StoreError::Failed("the process is gone".to_owned()));
        });
        let script = [says("u", "e1", "开始"), says("v", "e2", "开始"), says("u", "e3", "1")];
        let mut answered = 0;
        for event in &script {
            match stage.wait(stage.journeys.event(event.clone())) {
                Ok(_) => answered += 1,
                Err(_) => break,
            }
            stage.sim.run_until_idle();
        }
        let again = Stage::with(copied(), 6, Sent::clone(&sent));
        for (number, event) in script.iter().enumerate() {
            let taken = insist(&again, event, &case);
            let is_durable = taken.is_repeated || number >= answered;
            assert!(is_durable, "{case}: what was answered is durable");
        }
        again.sim.advance(2 * DAY);
        again.sim.run_until_idle();
        check_walk(&again, &definition, &case);
        check_sent(&sent, &case);
    }
}

/// Users u and v have walked to the ends that they have in the walk-through.
pub(crate) fn check_walk(stage: &Stage, definition: &Definition, case: &str) {
    for (name, last) in [("u", "18"), ("v", "6")] {
        let user = stage.user(name);
        check_user(definition, &user, case);
        assert_eq!((user.passes.len(), user.ended.len()), (0, 1), "{case}: {user:?}");
        let path = &user.ended[0].moves[1].path;
        assert_eq!(path.last().map(String::as_str), Some(last), "{case}");
        assert!(user.outbox.is_empty() && user.lost.is_empty(), "{case}: {user:?}");
    }
}

/// The three messages have left.
pub(crate) fn check_sent(sent: &Sent, case: &str) {
    let sent = sent.lock().expect("no panic before");
    let keys: BTreeSet<&(String, String)> = sent.iter().collect();
    assert_eq!(keys.len(), 3, "{case}: each message has one key, however often it left: {sent:?}");
}

#[test]
fn message_that_was_left_behind_is_sent_with_its_key() {
    let memory = MemoryStore::new();
    let store = FaultStore::new(memory.clone());
    let stage = Stage::over(store.clone(), 5);
    stage.put(&ancestor().to_string());
    // The commit of the step is made, and that of the message's end is not.
    let commit = store.commits() + 2;
    (0..50).for_each(|later| store.fail_at(commit + later, StoreError::Failed("gone".to_owned())));
    stage.say("u", "开始");
    let first = stage.sent.lock().expect("no panic before").clone();
    let again = Stage::over(memory.copied(), 6);
    assert!(again.messages().is_empty());
    again.sim.advance(15 * SECOND);
    again.sim.run_until_idle();
    assert_eq!(*again.sent.lock().expect("no panic before"), first);
    assert!(again.user("u").outbox.is_empty());
}

/// The states of one name: keys and versions.
fn states(stage: &Stage, name: &str) -> Vec<(String, u64)> {
    let rows = stage.world.timed_states();
    let rows = stage.sim.block_on(rows.list(name, StateScan::After(String::new()), 99));
    let rows = rows.expect("it ends").expect("they are read").into_iter();
    rows.map(|row| (row.key, row.record.version)).collect()
}

#[test]
fn row_of_a_user_is_not_written_again_when_a_message_has_left() {
    let stage = Stage::new();
    stage.put(&ancestor().to_string());
    stage.say("v", "开始");
    assert_eq!(stage.messages(), ["2"]);
    assert!(stage.user("v").outbox.is_empty(), "it was sent");
    assert_eq!(states(&stage, "tw.user"), [(format!("{P}/v"), 1)], "it is written once");
    assert_eq!(states(&stage, "tw.batch"), [], "the batch went when the message was sent");
    stage.sim.advance(2 * DAY);
    stage.sim.run_until_idle();
    assert_eq!((stage.messages().len(), states(&stage, "tw.user")[0].1), (1, 2));
}

/// Writes a state as no program of ours does.
fn spoil(stage: &Stage, (name, key): (&str, &str), bytes: &[u8], due: Time) {
    let states = stage.world.timed_states();
    let version = stage.sim.block_on(states.load(name, key)).expect("it ends").expect("read");
    let content = (Some(bytes.to_vec()), Some(due));
    let saved = stage.sim.block_on(states.save(name, key, content, version.version));
    saved.expect("it ends").expect("it is written");
}

#[test]
fn damaged_batch_is_in_the_way_of_its_own_users_only() {
    let memory = MemoryStore::new();
    let store = FaultStore::new(memory.clone());
    let stage = Stage::over(store.clone(), 5);
    stage.put(&ancestor().to_string());
    stage.say("w", "开始");
    let commit = store.commits() + 2;
    (0..50).for_each(|later| store.fail_at(commit + later, StoreError::Failed("gone".to_owned())));
    stage.say("u", "开始");
    let again = Stage::over(memory.copied(), 6);
    let batches = states(&again, "tw.batch");
    assert_eq!(batches.len(), 1, "that of u was left behind");
    spoil(&again, ("tw.batch", &batches[0].0), b"?", Time(1));
    // Two reads are under way at once: those of u and w are in one behind them.
    let users = ["x", "y", "u", "w"];
    let asked = users.map(|user| again.journeys.event(says(user, "e9", "1")));
    let outcomes = asked.map(|asked| again.wait(asked));
    let is_taken = outcomes.map(|outcome| outcome.is_ok());
    assert_eq!(is_taken, [true, true, false, true]);
}

#[test]
fn batches_that_stay_do_not_keep_others_from_being_taken_over() {
    let memory = MemoryStore::new();
    let store = FaultStore::new(memory.clone());
    let stage = Stage::over(store.clone(), 5);
    stage.put(&ancestor().to_string());
    let commit = store.commits() + 2;
    (0..50).for_each(|later| store.fail_at(commit + later, StoreError::Failed("gone".to_owned())));
    stage.say("u", "开始");
    let again = Stage::over(memory.copied(), 6);
    for number in 0..40 {
        spoil(&again, ("tw.batch", &format!("99999/0/{number}")), b"?", Time(1));
    }
    again.sim.advance(15 * SECOND);
    assert_eq!(again.messages(), ["2"], "it is behind 40 that cannot be read");
}

#[test]
fn time_that_a_row_does_not_say_any_more_is_written_anew() {
    let mut stage = Stage::new();
    stage.put(&ancestor().to_string());
    stage.say("v", "开始");
    let key = format!("{P}/v");
    let states_of = stage.world.timed_states();
    let load = states_of.load("tw.user", &key);
    let row = stage.sim.block_on(load).expect("it ends").expect("it is read");
    spoil(&stage, ("tw.user", &key), &row.bytes.expect("there is one"), Time(1));
    stage.outage(SECOND);
    let scan = StateScan::Due(Time::from(stage.sim.wall()));
    let due = stage.sim.block_on(states_of.list("tw.user", scan, 9));
    assert_eq!(due.expect("it ends").expect("they are read").len(), 0, "it is not found again");
    assert_eq!(states(&stage, "tw.user"), [(key, 3)]);
    assert_eq!(stage.waits("v").len(), 1, "it waits as before");
}

#[test]
fn batch_whose_removal_fails_is_removed_later_and_sends_nothing_again() {
    let store = FaultStore::new(MemoryStore::new());
    let stage = Stage::over(store.clone(), 5);
    stage.put(&ancestor().to_string());
    let commit = store.commits() + 2;
    (0..3).for_each(|later| store.fail_at(commit + later, StoreError::Failed("no".to_owned())));
    stage.say("v", "开始");
    assert_eq!((stage.messages().len(), states(&stage, "tw.batch").len()), (1, 1));
    stage.sim.advance(15 * SECOND);
    assert_eq!((stage.messages().len(), states(&stage, "tw.batch").len()), (1, 0));
}

/// Both nodes see the batch of a message; the second one leaves it alone as long as the first one
/// says that it is sending.
#[test]
fn message_that_takes_long_is_not_sent_by_another_sender() {
    let store = FaultStore::new(MemoryStore::new());
    let world = World::builder().build(store.clone()).expect("the world begins");
    let group = Group::builder("journeys").workers(2).build().expect("it begins");
    let (leave, left) = std::sync::mpsc::channel::<()>();
    let (sent, left) = (Arc::new(AtomicUsize::new(0)), Mutex::new(left));
    let count = Arc::clone(&sent);
    let slow = move |_: &Message| {
        count.fetch_add(1, Ordering::SeqCst);
        let _ended = left.lock().expect("no panic before").recv();
        Ok(())
    };
    let options = JourneysOptions::new(Channels::new().with("chat", slow));
    let open = || {
        let opened = block_on(Journeys::open(&world, &group, options.clone()));
        opened.expect("it ends").expect("they are read")
    };
    let (first, second) = (open(), open());
    block_on(first.put(&ancestor().to_string(), "test")).expect("it ends").expect("it is taken");
    let event = says("v", "e1", "开始");
    first.event(event).wait().expect("it ends").expect("it is taken");
    let states = world.timed_states();
    let batch = || async {
        let rows = states.list("tw.batch", StateScan::After(String::new()), 9).await;
        rows.expect("they are read").first().map(|row| row.record.version)
    };
    let wait_until = |is_so: &dyn Fn(Option<u64>) -> bool, what: &str| {
        let begin = Instant::now();
        while !is_so(block_on(batch()).expect("it ends")) {
            assert!(begin.elapsed() < PATIENCE, "{what} for a long time");
            block_on(pause(&world, SECOND / 50)).expect("it ends");
        }
    };
    let wait_until_written = |version| {
        wait_until(&|written| written >= Some(version), "the batch is not written again");
    };
    wait_until_written(2);
    // The store does not say that it has written the next one, which is found out.
    store.lose_answer_at(store.commits() + 1);
    wait_until_written(4);
    // Its first time is over by now.
    assert_eq!(second.user(P, "v").wait().expect("it ends").expect("it is read").outbox.len(), 1);
    assert_eq!(sent.load(Ordering::SeqCst), 1);
    drop(leave);
    wait_until(&|written| written.is_none(), "the batch is there");
    assert!(second.user(P, "v").wait().expect("it ends").expect("it is read").outbox.is_empty());
    assert_eq!(sent.load(Ordering::SeqCst), 1);
    first.end();
    second.end();
    world.shutdown().expect("it ends");
    group.shutdown().expect("it ends");
}

#[test]
fn user_who_waits_costs_few_bytes() {
    let stage = Stage::walk_through();
    let id = "01922b7c-8a1e-7c3d-9a60-0123456789ab";
    stage.say(id, "开始");
    stage.sim.run_until_idle();
    let rows = turnwheel_journeys::row_bytes(&stage.world, 10);
    let rows = stage.sim.block_on(rows).expect("it ends").expect("they are read");
    let (_, bytes) = rows.iter().find(|(key, _)| key.ends_with(id)).expect("there is a row");
    // It names the batch of the message until it is written next. Key and name of the state are in
    // the row and in the index, with about 30 bytes of overhead.
    let file = bytes + 2 * (P.len() + 1 + id.len() + "tw.user".len() + 8) + 30;
    assert!(*bytes <= 75 && file <= 220, "{bytes} bytes, about {file} in a file");
    assert_eq!(stage.happen("u", "nothing", Value::Null).moved.len(), 0);
}

#[test]
fn journeys_that_have_ended_do_not_announce_their_definitions() {
    let store = FaultStore::new(MemoryStore::new());
    let mut stage = Stage::over(store.clone(), 5);
    stage.put(&ancestor().to_string());
    store.fail(StoreError::Full("no room".to_owned()));
    stage.outage(SECOND);
    let tries = store.commits();
    stage.sim.advance(9 * SECOND);
    assert!(store.commits() >= tries + 8, "they are announced again each second");
    stage.journeys.end();
    stage.sim.run_until_idle();
    let tries = store.commits();
    stage.sim.advance(60 * SECOND);
    assert_eq!(store.commits(), tries);
}

#[test]
fn journeys_begin_over_a_full_store_and_go_on_when_there_is_room() {
    for write in 1..4 {
        let case = format!("full from write {write} of the start on");
        let store = FaultStore::new(MemoryStore::new());
        let mut stage = Stage::over(store.clone(), 5);
        stage.put(&ancestor().to_string());
        stage.scanned("u");
        insist(&stage, &says("u", "first", "开始"), &case);
        stage.sim.run_until_idle();
        let first = store.commits() + write;
        let full = || StoreError::Full("no room".to_owned());
        (first..first + 10_000).for_each(|commit| store.fail_at(commit, full()));
        stage.outage(2 * DAY);
        let known = stage.sim.block_on(stage.journeys.list()).expect("it ends").expect("read");
        assert_eq!(known.len(), 1, "{case}");
        let tries = store.commits();
        stage.sim.advance(60 * SECOND);
        assert!(store.commits() - tries < 60 * 4, "{case}: {} tries", store.commits() - tries);
        let refused = stage.wait(stage.journeys.event(says("v", "full", "开始")));
        assert!(refused.is_err(), "{case}: {refused:?}");
        store.heal();
        stage.sim.advance(60 * SECOND);
        insist(&stage, &says("v", "full", "开始"), &case);
        let definition = Definition::read(&ancestor().to_string(), "wf").expect("it is read");
        let user = stage.user("u");
        check_user(&definition, &user, &case);
        assert_eq!(user.ended.len(), 1, "{case}: the wait of a day has ended: {user:?}");
        let sent = stage.sent.lock().expect("no panic before").clone();
        let keys: BTreeSet<_> = sent.iter().map(|(key, _)| key).collect();
        assert_eq!(keys.len(), sent.len(), "{case}: {sent:?}");
    }
}

//! Rows that an older program has stored.

use std::time::Duration;

use turnwheel_engine::{MemoryStore, Time};

use super::common::{Stage, HOUR, KEYWORD, SECOND};

/// Rows of encoding 2, as the program before batches of messages has written them: the journey of
/// the walk-through, one user who waits, and one whose message is being sent by a process that is
/// gone. Of each row name, key, due time in microseconds and bytes.
const ROWS: &str = include_str!("stored_2.txt");

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    digits.map(|pair| u8::from_str_radix(pair, 16).expect("two digits")).collect()
}

#[test]
fn users_of_a_store_of_the_version_before_go_on_and_their_messages_leave_with_their_keys() {
    let mut stage = Stage::over(MemoryStore::new(), 7);
    stage.journeys.end();
    stage.sim.run_until_idle();
    let states = stage.world.timed_states();
    for row in ROWS.lines() {
        let fields: Vec<&str> = row.split('\t').collect();
        let &[name, key, due, hex] = &fields[..] else { panic!("{row} has four fields") };
        let due = due.parse().ok().map(Time);
        // The journeys of this stage have made an index.
        let version = stage.sim.block_on(states.load(name, key)).expect("it ends").expect("read");
        let content = (Some(bytes(hex)), due);
        let saved = stage.sim.block_on(states.save(name, key, content, version.version));
        saved.expect("it ends").expect("it is written");
    }
    stage.outage(Duration::ZERO);
    let claimed = stage.user("claimed");
    assert_eq!(claimed.outbox.len(), 1, "it is not known to be sent: {claimed:?}");
    assert_eq!(claimed.outbox[0].key, "P/claimed/1/1/1");
    assert!(stage.messages().is_empty(), "its sender may be there");
    stage.sim.advance(5 * SECOND);
    let sent = || stage.sent.lock().expect("no panic before").clone();
    let message = |key: &str, element: &str| (key.to_owned(), element.to_owned());
    stage.sim.run_until_idle();
    assert_eq!(sent(), [message("P/claimed/1/1/1", "2")]);
    // Both go on from where they were, and an event that was seen counts once.
    let repeated = stage.happen("waits", KEYWORD, serde_json::json!({ "text": "1" }));
    assert!(repeated.is_repeated, "e1 of this user was taken by the program before");
    stage.happen("nobody", "nothing", serde_json::Value::Null);
    stage.happen("nobody", "nothing", serde_json::Value::Null);
    let moved = stage.happen("claimed", KEYWORD, serde_json::json!({ "text": "1" })).moved;
    assert_eq!(moved[0].path.last().map(String::as_str), Some("18"));
    stage.sim.advance(30 * HOUR);
    stage.sim.run_until_idle();
    let waits = stage.user("waits");
    assert_eq!((waits.passes.len(), waits.ended.len()), (0, 1), "its default line was taken");
    assert_eq!(sent(), [message("P/claimed/1/1/1", "2"), message("P/claimed/1/1/2", "16")]);
}

#[test]
fn row_of_a_newer_program_is_refused_by_its_number_and_stays_as_it_is() {
    let stage = Stage::new();
    stage.put(&super::common::ancestor().to_string());
    let states = stage.world.timed_states();
    let now: Time = "2026-01-05T12:00:00Z".parse().expect("a time");
    let content = (Some(vec![9, 1, 2, 3]), Some(now));
    let saved = stage.sim.block_on(states.save("tw.user", "P/newer", content, 0));
    saved.expect("it ends").expect("it is written");
    for kind in [KEYWORD, "other"] {
        let event = stage.event("newer", kind, serde_json::json!({ "text": "开始" }));
        let answer = stage.wait(stage.journeys.event(event));
        assert_eq!(kind == "other", answer.is_ok(), "only what nobody listens to reads no row");
        let said = answer.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(kind == "other" || said.contains("version 9, which is unknown"), "{said}");
    }
    assert!(stage.wait(stage.journeys.user("P", "newer")).is_err());
    // Its time has come, again and again.
    stage.sim.advance(30 * SECOND);
    let row =
        stage.sim.block_on(states.load("tw.user", "P/newer")).expect("it ends").expect("read");
    assert_eq!((row.bytes, row.version), (Some(vec![9, 1, 2, 3]), 1));
}

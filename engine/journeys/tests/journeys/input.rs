//! Input that is wrong, strange or too large.

use serde_json::{json, Value};
use turnwheel_journeys::{Channels, Event, JourneysOptions, Message};

use super::common::{attributes, open_with, Stage, DAY, P};

const ASK: &str = "journey: ask
platform: P
elements:
  go: { start: { on: go }, then: wait }
  wait: { wait: { on: answer, for: P2D }, then: end, otherwise: end }
";

fn rows(stage: &Stage) -> usize {
    let rows = turnwheel_journeys::row_bytes(&stage.world, 100);
    stage.sim.block_on(rows).expect("it ends").expect("they are read").len()
}

#[test]
fn events_of_unknown_users_kinds_and_platforms_leave_no_row() {
    let stage = Stage::new();
    stage.put(ASK);
    for (platform, kind) in [(P, "answer"), (P, "page.viewed"), ("nowhere", "go")] {
        let taken = stage.wait(stage.journeys.event(Event::new(platform, "x", "1", kind)));
        assert!(taken.expect("it is taken").moved.is_empty(), "{platform} {kind}");
    }
    assert_eq!(rows(&stage), 0);
    stage.happen("u", "go", Value::Null);
    assert_eq!(rows(&stage), 1);
}

#[test]
fn kind_that_a_new_definition_listens_to_is_heard_from_then_on() {
    let stage = Stage::new();
    stage.put(ASK);
    let other = stage.second(true);
    assert!(stage.happen("u", "later", Value::Null).moved.is_empty());
    let later = ASK.replace("journey: ask", "journey: late").replace("on: go", "on: later");
    stage.sim.block_on(other.put(&later, "test")).expect("it ends").expect("it is taken");
    assert_eq!(stage.happen("u", "later", Value::Null).moved.len(), 1);
    let any = ASK.replace("journey: ask", "journey: any").replace("on: answer, ", "");
    stage.sim.block_on(other.put(&any, "test")).expect("it ends").expect("it is taken");
    stage.happen("w", "go", Value::Null);
    let taken = stage.happen("w", "whatever", Value::Null);
    assert_eq!(taken.moved.len(), 1, "a wait that names no kind takes all of them");
}

#[test]
fn gigantic_attributes_are_refused_and_change_nothing() {
    let stage = Stage::new();
    let set = |value| stage.wait(stage.journeys.set_user(P, "u", attributes(value), None));
    set(json!({ "a": 1 })).expect("it is small");
    let mut deep = json!(1);
    for _ in 0..500 {
        deep = json!([deep]);
    }
    let wide: Vec<u32> = (0..100_000).collect();
    for huge in [json!({ "a": "x".repeat(1 << 20) }), json!({ "a": deep }), json!({ "a": wide })] {
        let said = set(huge).expect_err("it is refused").to_string();
        assert_eq!(said, "attributes: they have at most 16384 bytes and 64 levels");
    }
    assert_eq!((stage.user("u").revision, &stage.user("u").attributes["a"]), (1, &json!(1)));
}

#[test]
fn events_of_two_sources_with_one_id_are_two() {
    let stage = Stage::new();
    stage.put(&ASK.replace("on: answer,", "on: answer, if: '.event.source == \"/b\"',"));
    stage.happen("u", "go", Value::Null);
    let event = |source: &str, id: &str| Event::new(P, "u", id, "answer").source(source);
    let taken = |event| stage.wait(stage.journeys.event(event)).expect("it is taken");
    assert!(taken(event("/a", "1")).moved.is_empty(), "a condition sees the source");
    assert_eq!(taken(event("/b", "1")).moved.len(), 1);
    assert!(taken(event("/b", "1")).is_repeated);
    assert!(!taken(event("/a", "1")).is_repeated, "that one changed nothing");
    stage.happen("u", "go", Value::Null);
    let any = |source: &str, id: &str| Event::new(P, "v", id, "go").source(source);
    assert_eq!(taken(any("a", "b c")).moved.len(), 1);
    assert!(!taken(any("a b", "c")).is_repeated, "a blank in a source is no end of it");
}

#[test]
fn clocks_of_senders_do_not_move_waits() {
    let stage = Stage::new();
    stage.put(ASK);
    let times = ["1970-01-01T00:00:00Z", "2999-12-31T23:59:59Z", "yesterday", ""];
    for (number, time) in times.into_iter().enumerate() {
        let user = format!("u{number}");
        let event = stage.event(&user, "go", Value::Null).time(time);
        stage.wait(stage.journeys.event(event)).expect("it is taken");
        let due = stage.waits(&user)[0].2.clone();
        assert_eq!(due.as_deref(), Some("2026-01-07T12:00:00Z"), "{time}");
    }
    stage.sim.advance(2 * DAY);
    stage.sim.run_until_idle();
    assert!((0..times.len()).all(|number| stage.waits(&format!("u{number}")).is_empty()));
}

#[test]
fn condition_that_never_ends_fails_soon_and_leaves_the_wait() {
    let stage = Stage::new();
    for (name, endless) in
        [("a", "last(repeat(1))"), ("b", "def f: f; f"), ("c", "[range(0; 1e12)] | length > 0")]
    {
        stage.put(&format!(
            "journey: {name}\nplatform: P\nelements:\n  go: {{ start: {{ on: go }}, then: wait }}\n  \
             wait:\n    wait: {{ on: answer, for: P1D }}\n    lines:\n      - {{ if: '{endless}', then: end }}\n      \
             - {{ if: .event.data == 7, then: end }}\n    otherwise: end\n"
        ));
    }
    stage.happen("u", "go", Value::Null);
    let taken = stage.happen("u", "answer", json!(1));
    for moved in &taken.moved {
        assert_eq!(moved.cause, "unmatched");
        assert!(moved.problem.as_deref().is_some_and(|it| it.contains("steps")), "{moved:?}");
    }
    assert_eq!((taken.moved.len(), stage.waits("u").len()), (3, 3));
    assert_eq!(stage.happen("u", "answer", json!(7)).moved.len(), 3, "the next line is looked at");
    assert_eq!(stage.waits("u").len(), 0);
}

#[test]
fn definition_that_is_edited_again_and_again_loses_no_user_who_waits() {
    const USERS: usize = 200;
    let stage = Stage::new();
    let version = |number: usize, move_on: bool| {
        let settings = if move_on { "under_way: move\nmoves: { wait: pause }\n" } else { "" };
        let name = if move_on { "pause" } else { "wait" };
        format!(
            "journey: ask\nplatform: P\n{settings}elements:\n  go: {{ start: {{ on: go }}, then: note }}\n  \
             note: {{ set: '{{v: {number}}}', then: {name} }}\n  \
             {name}: {{ wait: {{ on: answer, for: P2D }}, then: end, otherwise: end }}\n"
        )
    };
    for number in 0..USERS {
        if number % 10 == 0 {
            stage.put(&version(number, number > USERS / 2));
        }
        stage.happen(&format!("u{number}"), "go", Value::Null);
    }
    for number in 0..USERS {
        let user = format!("u{number}");
        if number % 2 == 0 {
            assert_eq!(stage.happen(&user, "answer", Value::Null).moved.len(), 1, "{user}");
        }
    }
    stage.sim.advance(3 * DAY);
    stage.sim.run_until_idle();
    for number in 0..USERS {
        let view = stage.user(&format!("u{number}"));
        let began = number / 10 * 10;
        assert_eq!((view.passes.len(), view.ended.len()), (0, 1), "u{number}");
        assert_eq!((view.ended[0].why, &view.ended[0].data["v"]), (Some("end"), &json!(began)));
        let last = view.ended[0].moves.last().expect("it moved");
        assert_eq!(last.path[0], "pause", "all move to the newest version when they are touched");
    }
}

#[test]
fn channel_that_is_called_directly_may_fail_or_panic() {
    let mut stage = Stage::new();
    let text = ASK.replace(
        "then: wait }\n  wait",
        "then: send }\n  send: { send: { channel: direct }, then: wait }\n  wait",
    );
    stage.journeys.end();
    let (calls, noted) = (std::sync::Arc::new(std::sync::Mutex::new(Vec::new())), ());
    let seen = std::sync::Arc::clone(&calls);
    let direct = move |message: &Message| {
        let number = {
            let mut seen = seen.lock().expect("no panic while it is held");
            seen.push(message.key.clone());
            seen.len()
        };
        assert!(number != 1, "for a test");
        Ok(noted)
    };
    let options = JourneysOptions::new(Channels::new().with_direct("direct", direct));
    stage.journeys = open_with(&stage.sim, &stage.world, options);
    stage.put(&text);
    stage.happen("u", "go", Value::Null);
    assert_eq!(stage.user("u").outbox[0].attempts, 1);
    stage.sim.advance(DAY / 24);
    stage.sim.run_until_idle();
    let calls = calls.lock().expect("no panic while it is held");
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0], calls[1], "the key stays the same");
    assert!(stage.user("u").outbox.is_empty());
}

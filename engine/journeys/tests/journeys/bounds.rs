//! Work under way at once is bounded, definitions reach other nodes, and clocks may be wrong.

use serde_json::{json, Value};
use turnwheel_engine::limits::COMMIT_SPARE_MAX;
use turnwheel_engine::MemoryStore;
use turnwheel_journeys::{Definition, JourneyError, Recording};
use turnwheel_testkit::FaultStore;

use super::batches::batches;
use super::common::{
    ancestor, both, open_with, options, paths, Stage, DAY, HOUR, KEYWORD, P, SECOND,
};

/// A journey of this name that sends a message on «go» and waits.
fn journey(name: &str, settings: &str) -> String {
    format!(
        "journey: {name}\nplatform: P\n{settings}elements:\n  go: {{ start: {{ on: go }}, then: \
         {name} }}\n  {name}: {{ send: {{ channel: chat }}, then: wait }}\n  wait: {{ wait: {{ \
         on: x, for: P1D }}, then: end, otherwise: end }}\n"
    )
}

#[test]
fn journeys_that_are_added_at_once_are_told_apart() {
    let stage = Stage::new();
    let other = stage.second(true);
    let (one, two) = (journey("one", ""), journey("two", ""));
    let both = both(stage.journeys.put(&one, "a"), other.put(&two, "b"));
    let (one, two) = stage.sim.block_on(both).expect("it ends");
    assert_eq!((one.expect("added").version, two.expect("added").version), (1, 1));
    for node in [&stage.journeys, &other] {
        let all = stage.sim.block_on(node.list()).expect("it ends").expect("they are read");
        assert_eq!(all.len(), 2, "each node knows both");
    }
    let moved = stage.happen("u", "go", Value::Null).moved;
    let mut moved: Vec<&str> = moved.iter().map(|moved| moved.path[2].as_str()).collect();
    moved.sort_unstable();
    assert_eq!(moved, ["one", "two"], "each is walked by its own definition");
}

#[test]
fn event_after_a_definition_was_stored_at_another_node_begins_it() {
    let stage = Stage::new();
    let other = stage.second(true);
    stage.put(&ancestor().to_string());
    let event = stage.event("u", KEYWORD, serde_json::json!({ "text": "开始" }));
    let taken = stage.wait(other.event(event)).expect("it is taken");
    assert_eq!(paths(&taken), ["0 1 2 3 4"]);
    let removed = stage.sim.block_on(other.remove("wf 1")).expect("it ends");
    removed.expect("it is known at each node");
    assert!(stage.say("w", "开始").moved.is_empty(), "its removal is known as well");
}

#[test]
fn requests_beyond_the_limit_are_refused() {
    let mut stage = Stage::new();
    stage.journeys.end();
    let few = options(&stage.sent).requests_max(2);
    stage.journeys = open_with(&stage.sim, &stage.world, few);
    let ask = |user| stage.journeys.event(stage.event(&format!("u{user}"), "x", Value::Null));
    let asked: Vec<_> = (0..100).map(ask).collect();
    let outcomes: Vec<_> = asked.into_iter().map(|asked| stage.wait(asked)).collect();
    let refused = outcomes.iter().filter(|it| matches!(it, Err(JourneyError::Busy))).count();
    let taken = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert!(refused > 0 && taken >= 2 && refused + taken == 100, "{refused} are refused");
    assert!(stage.happen("u", "nothing", Value::Null).moved.is_empty(), "later ones are taken");
}

#[test]
fn events_of_one_user_that_come_together_are_taken_or_refused_together() {
    let mut stage = Stage::new();
    stage.journeys.end();
    stage.journeys = open_with(&stage.sim, &stage.world, options(&stage.sent).requests_max(1));
    let users = ["u", "v", "u", "v", "w", "u", "v", "w", "u"];
    let events = users.map(|user| stage.event(user, "x", Value::Null)).to_vec();
    let asked = stage.journeys.events(events).into_iter();
    let outcomes: Vec<_> = asked.map(|asked| stage.wait(asked)).collect();
    let mut taken = 0;
    for user in ["u", "v", "w"] {
        let own = users.iter().zip(&outcomes).filter(|(of, _)| **of == user);
        let is_taken: Vec<bool> = own.map(|(_, outcome)| outcome.is_ok()).collect();
        assert!(is_taken.iter().all(|it| *it == is_taken[0]), "{user}: {is_taken:?}");
        taken += is_taken.iter().filter(|it| **it).count();
    }
    assert!((2..9).contains(&taken), "some are refused, and none alone: {outcomes:?}");
    let busy = |outcome: &Result<_, _>| !matches!(outcome, Ok(_) | Err(JourneyError::Busy));
    assert!(!outcomes.iter().any(busy), "{outcomes:?}");
}

#[test]
fn messages_beyond_those_that_are_sent_at_once_wait_in_the_store() {
    const USERS: [&str; 3] = ["u", "v", "w"];
    let mut stage = Stage::new();
    stage.put(&journey("one", ""));
    stage.journeys.end();
    let few = options(&stage.sent).sending_max(1);
    stage.journeys = open_with(&stage.sim, &stage.world, few);
    // Nothing else is in the way of three calls of the channel at once.
    stage.sim.block_for(30 * SECOND);
    USERS.iter().for_each(|user| drop(stage.happen(user, "go", Value::Null)));
    let waiting = || USERS.iter().filter(|user| !stage.user(user).outbox.is_empty()).count();
    // The next message leaves at most three seconds after the last one.
    let mut now = 0;
    for (second, sent) in [(29, 0), (31, 1), (59, 1), (64, 2), (89, 2)] {
        stage.sim.advance((second - now) * SECOND);
        now = second;
        assert_eq!(stage.messages().len(), sent, "after {second} seconds");
        assert_eq!(waiting(), 3 - sent, "after {second} seconds");
        assert!(batches(&stage.sim, &stage.world) <= 1, "one is being sent");
    }
    stage.sim.advance(10 * SECOND);
    assert_eq!((stage.messages().len(), waiting()), (3, 0));
}

#[test]
fn message_from_before_quiet_hours_does_not_leave_within_them() {
    let mut stage = Stage::new();
    stage.put(&journey("one", "quiet: { from: '20:00', to: '08:00' }\n"));
    stage.journeys.end();
    // It is 12:00, and nobody sends messages here.
    let resting = stage.second(false);
    let taken = stage.wait(resting.event(stage.event("u", "go", Value::Null)));
    assert_eq!(taken.expect("it is taken").moved.len(), 1);
    resting.end();
    stage.outage(9 * HOUR);
    assert!(stage.messages().is_empty(), "21:00");
    stage.sim.advance(11 * HOUR + SECOND);
    assert_eq!(stage.messages(), ["one"], "08:00");
}

#[test]
fn clock_that_is_wrong_for_a_moment_ends_no_wait() {
    let stage = Stage::walk_through();
    stage.say("u", "开始");
    let right = stage.sim.wall();
    stage.sim.set_wall(right + 365 * DAY);
    stage.sim.advance(10 * SECOND);
    stage.say("v", "开始");
    stage.sim.set_wall(right + 10 * SECOND);
    stage.sim.run_until_idle();
    assert_eq!(stage.waits("u").len(), 1);
    assert_eq!(stage.waits("v")[0].2.as_deref(), Some("2026-01-06T12:00:10Z"));
    stage.sim.advance(DAY);
    stage.sim.run_until_idle();
    assert!(stage.waits("u").is_empty());
    assert_eq!(stage.wait(stage.journeys.user(P, "u")).expect("it is read").ended.len(), 1);
}

#[test]
fn event_is_taken_soon_while_many_users_are_due() {
    const USERS: u64 = 32 * COMMIT_SPARE_MAX as u64;
    let store = FaultStore::new(MemoryStore::new());
    let mut stage = Stage::in_order(store.clone());
    stage.put(
        "journey: many\nplatform: P\nelements:\n  go: { start: { on: go }, then: wait }\n  wait: { \
         wait: { on: x, for: P1D }, then: end, otherwise: end }\n",
    );
    let asked: Vec<_> = (0..USERS)
        .map(|user| stage.journeys.event(stage.event(&format!("u{user}"), "go", Value::Null)))
        .collect();
    for asked in asked {
        stage.wait(asked).expect("it is taken");
    }
    stage.journeys.end();
    stage.sim.run_until_idle();
    stage.sim.advance(DAY);
    let before = store.commits();
    stage.journeys = open_with(&stage.sim, &stage.world, options(&stage.sent));
    while store.commits() < before + 2 {
        assert!(stage.sim.run_one(), "users are due");
    }
    // The event comes while users of the first page are written.
    let asked = store.commits();
    stage.wait(stage.journeys.event(stage.event("new", "go", Value::Null))).expect("it is taken");
    let (waited, all) = (store.commits() - asked, store.commits() - before);
    assert!(waited <= 4, "the event waited for {waited} commits");
    assert!(all < USERS / COMMIT_SPARE_MAX as u64, "it came before the last due user: {all}");
    stage.sim.run_until_idle();
    let all = store.commits() - before;
    assert!(all >= USERS / COMMIT_SPARE_MAX as u64, "commits of due users are short: {all}");
    let over = (0..USERS).filter(|user| stage.user(&format!("u{user}")).passes.is_empty());
    assert_eq!(over.count() as u64, USERS, "all have taken their default lines");
}

const DOUBLING: &str = "journey: twice
platform: P
elements:
  a: { start: { on: go }, then: w }
  w: { wait: { on: more }, then: c }
  c:
    choose: all
    lines: [ { if: 'true', then: w }, { if: 'true', then: w } ]
    otherwise: end
";

#[test]
fn waits_of_a_pass_that_double_with_each_event_are_bounded_and_the_path_says_so() {
    let stage = Stage::new();
    stage.put(DOUBLING);
    stage.happen("u", "go", Value::Null);
    let mut last = Vec::new();
    for _ in 0..12 {
        last = stage.happen("u", "more", Value::Null).moved;
    }
    assert_eq!(stage.waits("u").len(), 64);
    let problem = last.iter().find_map(|moved| moved.problem.as_deref());
    assert!(problem.is_some_and(|it| it.contains("64 waits are there")), "{problem:?}");
}

#[test]
fn dry_run_of_which_too_much_comes_ends_with_the_time_that_it_reached() {
    let text = "journey: fast\nplatform: P\nelements:\n  a: { start: { on: go }, then: w }\n  \
                w: { wait: { on: x, for: PT0.001S }, then: end, otherwise: w }\n";
    let definition = Definition::read(text, "fast.yaml").expect("it is taken");
    let event = json!({ "id": "1", "source": "t", "type": "go", "subject": "u",
        "time": "2026-01-01T00:00:00Z" });
    let mut recording = Recording::new(vec![event]);
    recording.until = Some("2026-02-01T00:00:00Z".to_owned());
    let said = recording.on(&definition).expect_err("it has no end").to_string();
    assert!(
        said.starts_with("until: so much comes of the events") || said.contains("so long"),
        "{said}"
    );
    assert!(said.contains("let it go on to an earlier time"), "{said}");
}

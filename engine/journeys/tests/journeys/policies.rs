//! Re-entry, caps, quiet hours, opting out, priorities, attributes, data, parallel lines.

use serde_json::{json, Value};
use turnwheel_journeys::limits::{OUTBOX_MAX, PASSES_MAX};
use turnwheel_journeys::{Definition, Event, JourneyError, Recording};

use super::common::{attributes, paths, Stage, DAY, HOUR, P, SECOND};

/// A journey that sends a message and waits for «answer».
fn ask(settings: &str) -> String {
    format!(
        "journey: ask\nplatform: P\n{settings}elements:\n  go: {{ start: {{ on: go }}, then: send }}\n  \
         send: {{ send: {{ channel: chat }}, then: wait }}\n  \
         wait: {{ wait: {{ on: answer, for: P2D }}, then: end, otherwise: end }}\n"
    )
}

fn stage(settings: &str) -> Stage {
    let stage = Stage::new();
    stage.put(&ask(settings));
    stage
}

fn go(stage: &Stage) -> bool {
    stage.happen("u", "go", Value::Null).moved.iter().any(|moved| moved.path[0] == "go")
}

fn answer(stage: &Stage) -> usize {
    stage.happen("u", "answer", Value::Null).moved.len()
}

#[test]
fn entry_says_whether_a_user_may_begin_again() {
    let again = stage("");
    assert_eq!((go(&again), go(&again), answer(&again), go(&again)), (true, false, 1, true));
    let once = stage("entry: once\n");
    assert_eq!((go(&once), answer(&once), go(&once)), (true, 1, false));
    let replace = stage("entry: replace\n");
    assert_eq!((go(&replace), go(&replace)), (true, true));
    let user = replace.user("u");
    assert_eq!((user.passes.len(), user.ended[0].why), (1, Some("replaced")));
    let parallel = stage("entry: parallel\n");
    assert_eq!((go(&parallel), go(&parallel), parallel.waits("u").len()), (true, true, 2));
    assert_eq!(answer(&parallel), 2, "each pass has its own wait");
}

#[test]
fn pass_beyond_the_most_that_a_user_has_is_not_begun_and_the_answer_says_so() {
    let parallel = stage("entry: parallel\n");
    (0..PASSES_MAX).for_each(|_| assert!(go(&parallel)));
    let taken = parallel.happen("u", "go", Value::Null);
    assert!(taken.moved.is_empty());
    let said = "journey ask, version 1, «go»: the user has 64 passes under way";
    assert_eq!(taken.problem.as_deref(), Some(said));
    // A pass that takes the place of another one has one.
    parallel.put(&ask("entry: replace\n"));
    assert!(go(&parallel));
    assert_eq!(parallel.user("u").passes.len(), 1);
}

#[test]
fn pause_between_two_begins_is_kept() {
    let stage = stage("every: P7D\n");
    assert_eq!((go(&stage), answer(&stage), go(&stage)), (true, 1, false));
    stage.sim.advance(7 * DAY);
    assert!(go(&stage));
}

#[test]
fn cap_leaves_messages_out_until_its_time_is_over() {
    let stage = stage("entry: parallel\ncap: { messages: 2, per: P1D }\n");
    (0..4).for_each(|_| assert!(go(&stage)));
    assert_eq!(stage.messages().len(), 2);
    let moved = stage.happen("u", "go", Value::Null).moved.remove(0);
    assert_eq!(
        moved.problem.as_deref(),
        Some("«send» was not sent: the cap of the journey is reached")
    );
    stage.sim.advance(DAY);
    assert!(go(&stage));
    assert_eq!(stage.messages().len(), 3);
}

#[test]
fn messages_wait_for_the_end_of_quiet_hours_in_the_zone_of_the_user() {
    let stage = stage("quiet: { from: '20:00', to: '08:00' }\n");
    // It is 21:00 in Tokyo and 12:00 in UTC.
    stage.set("u", json!({ "timezone": "Asia/Tokyo" }));
    assert!(go(&stage));
    assert!(stage.messages().is_empty());
    let waiting = stage.user("u").outbox.remove(0);
    assert_eq!(waiting.at.to_string(), "2026-01-05T23:00:00Z");
    stage.sim.advance(11 * HOUR - SECOND);
    assert!(stage.messages().is_empty());
    stage.sim.advance(2 * SECOND);
    assert_eq!(stage.messages(), ["send"]);
    stage.happen("v", "go", Value::Null);
    assert_eq!(stage.messages(), ["send"], "23:00 in UTC is quiet");
}

#[test]
fn message_within_quiet_hours_that_end_in_a_repeated_hour_waits_for_the_second_end() {
    let text = ask("quiet: { from: '22:00', to: '02:30', zone: Europe/Berlin }\n");
    let definition = Definition::read(&text, "ask.yaml").expect("it is read");
    let event = json!({
        "id": "1", "source": "shop", "type": "go", "subject": "u", "time": "2026-10-25T01:15:00Z",
    });
    let mut recording = Recording::new(vec![event]);
    recording.until = Some("2026-10-25T04:00:00Z".to_owned());
    let tried = recording.on(&definition).expect("they are tried");
    let at: Vec<String> = tried.messages.iter().map(|message| message.at.to_string()).collect();
    assert_eq!(at, ["2026-10-25T01:30:00Z"], "it is the second 02:15, and 02:30 comes again");
}

#[test]
fn message_that_finds_the_outbox_full_is_lost_with_a_reason() {
    let stage = stage("entry: parallel\nquiet: { from: '10:00', to: '14:00' }\n");
    for _ in 0..OUTBOX_MAX {
        assert!(go(&stage));
        assert_eq!(answer(&stage), 1);
    }
    let problem = stage.happen("u", "go", Value::Null).moved.remove(0).problem;
    assert_eq!(problem.as_deref(), Some("«send» was not sent: too many messages wait"));
    let user = stage.user("u");
    assert_eq!((user.outbox.len(), user.lost.len()), (OUTBOX_MAX, 1));
    let lost = &user.lost[0];
    assert_eq!((lost.element.as_str(), lost.attempts), ("send", 0));
    assert_eq!(lost.reason.as_deref(), Some("too many messages wait"));
    assert!(!user.outbox.iter().any(|message| message.key == lost.key), "its key is its own");
    stage.sim.advance(2 * HOUR);
    assert_eq!(stage.messages().len(), OUTBOX_MAX);
}

#[test]
fn unknown_timezone_is_refused_with_and_without_quiet_hours() {
    let stage = stage("");
    let set = |user: &str, zone: Value| {
        let fields = attributes(json!({ "timezone": zone }));
        stage.wait(stage.journeys.set_user(P, user, fields, None)).map_err(|it| it.to_string())
    };
    let refused = || {
        for wrong in [json!("Mars"), json!(1), json!("")] {
            let said = set("u", wrong.clone()).expect_err("it is refused");
            let expected = format!(
                "attributes: «timezone» is a time zone such as Europe/Berlin, and not {wrong}"
            );
            assert_eq!(said, expected);
        }
    };
    refused();
    stage.put(&ask("quiet: { from: '20:00', to: '08:00' }\n"));
    refused();
    set("u", json!("Asia/Tokyo")).expect("it is known");
    set("u", Value::Null).expect("it is removed");
    let wrong = ask("attributes: { timezone: integer }\n");
    let put = stage.sim.block_on(stage.journeys.put(&wrong, "test")).expect("it ends");
    assert_eq!(
        put.expect_err("no value would be right").to_string(),
        "attributes: «timezone» is the name of a time zone: declare it as string, and not as an \
         integer"
    );
}

#[test]
fn user_who_opts_out_leaves_what_is_not_essential() {
    let stage = stage("");
    let bill = ask("essential: true\n").replace("journey: ask", "journey: bill");
    stage.put(&bill);
    assert!(go(&stage));
    let user = stage.wait(stage.journeys.opt_out(P, "u", true)).expect("it is taken");
    let left: Vec<&str> = user.passes.iter().map(|pass| pass.journey.as_str()).collect();
    assert_eq!((left, user.ended[0].why), (vec!["bill"], Some("opted out")));
    assert_eq!(answer(&stage), 1);
    assert_eq!(paths(&stage.happen("u", "go", Value::Null)).len(), 1, "only the bill begins");
    stage.wait(stage.journeys.opt_out(P, "u", false)).expect("it is taken");
    assert_eq!(stage.happen("u", "go", Value::Null).moved.len(), 1);
}

#[test]
fn opting_out_heeds_what_the_version_of_each_pass_and_message_says() {
    let hours = "quiet: { from: '10:00', to: '14:00' }\n";
    for (before, after, is_kept) in
        [("essential: true\n", "", true), ("", "essential: true\n", false)]
    {
        let stage = stage(&format!("{hours}{before}"));
        assert!(go(&stage));
        stage.put(&ask(&format!("{hours}{after}")));
        assert_eq!(stage.user("u").outbox.len(), 1);
        let user = stage.wait(stage.journeys.opt_out(P, "u", true)).expect("it is taken");
        let left = usize::from(is_kept);
        assert_eq!((user.passes.len(), user.outbox.len()), (left, left), "{before} {after}");
        stage.sim.advance(3 * HOUR);
        assert_eq!(stage.messages().len(), left, "{before} {after}");
    }
}

#[test]
fn journeys_of_one_platform_are_independent_and_ordered_by_priority() {
    let stage = stage("");
    stage.put(&ask("priority: 5\n").replace("journey: ask", "journey: first"));
    stage.put(
        &ask("").replace("journey: ask", "journey: far").replace("platform: P", "platform: Q"),
    );
    let order = |kind| {
        let moved = stage.happen("u", kind, Value::Null).moved;
        moved.into_iter().map(|moved| moved.journey).collect::<Vec<_>>()
    };
    assert_eq!(order("go"), ["first", "ask"]);
    assert_eq!(order("answer"), ["first", "ask"]);
}

#[test]
fn attributes_have_a_revision_and_are_seen_by_conditions() {
    let stage = Stage::new();
    let set = |fields: Value, revision| {
        stage.wait(stage.journeys.set_user(P, "u", attributes(fields), revision))
    };
    assert_eq!(set(json!({ "age": 7, "gone": null }), Some(0)).expect("it is taken").revision, 1);
    let refused = set(json!({}), Some(0)).expect_err("it was changed");
    assert!(matches!(refused, JourneyError::Changed { expected: 0, found: 1, .. }), "{refused}");
    assert_eq!(set(json!({ "age": 7 }), Some(1)).expect("it is taken").revision, 1, "the same");
    stage.put(
        "journey: age\nplatform: P\nelements:\n  go: { start: { on: go, if: .user.age < 18 }, \
         then: end }\n",
    );
    assert_eq!(stage.happen("u", "go", Value::Null).moved.len(), 1);
    stage.set("u", json!({ "age": 40 }));
    assert!(stage.happen("u", "go", Value::Null).moved.is_empty());
}

#[test]
fn data_of_a_pass_and_parallel_lines() {
    let stage = Stage::new();
    stage.put(
        r#"
journey: both
platform: P
elements:
  go: { start: { on: go }, then: note }
  note: { set: "{ n: (.event.data.n + 1) }", then: fork }
  fork:
    choose: all
    lines: [ { if: '.data.n > 1', then: left }, { if: '.data.n > 0', then: right } ]
    otherwise: end
  left: { wait: { on: left }, then: end }
  right: { wait: { on: right }, then: end }
"#,
    );
    let taken = stage.happen("u", "go", json!({ "n": 4 }));
    let path = "go go.1 note note.1 fork fork.1 left fork.2 right";
    assert_eq!(paths(&taken), [path]);
    assert_eq!(stage.user("u").passes[0].data["n"], 5);
    stage.happen("u", "right", Value::Null);
    assert_eq!(stage.waits("u")[0].0, "left");
    stage.happen("u", "left", Value::Null);
    assert_eq!(stage.user("u").ended.len(), 1);
}

#[test]
fn bad_input_is_refused_or_does_nothing() {
    let stage = stage("");
    let refused = |event: Event| {
        stage.wait(stage.journeys.event(event)).expect_err("it is refused").to_string()
    };
    assert!(refused(Event::new("a/b", "u", "1", "go")).starts_with("platform: "));
    assert!(refused(Event::new(P, "", "1", "go")).starts_with("user: "));
    assert!(refused(Event::new(P, "u", "", "go")).starts_with("id: "));
    let large = json!("x".repeat(70_000));
    assert!(refused(Event::new(P, "u", "1", "go").data(large)).starts_with("data: "));
    let huge = attributes(json!({ "a": "x".repeat(20_000) }));
    assert!(stage.wait(stage.journeys.set_user(P, "u", huge, None)).is_err());
    // A sender whose clock is off by years.
    let event = stage.event("u", "go", Value::Null).time("1971-01-01T00:00:00Z");
    stage.wait(stage.journeys.event(event)).expect("it is taken");
    assert_eq!(stage.waits("u")[0].2.as_deref(), Some("2026-01-07T12:00:00Z"));
    assert!(stage.happen("stranger", "answer", Value::Null).moved.is_empty());
    assert!(stage.happen("u", "unheard of", Value::Null).moved.is_empty());
    // A condition that never ends.
    stage.put(
        "journey: endless\nplatform: P\nelements:\n  go: { start: { on: slow, if: 'last(repeat(1))' \
         }, then: end }\n",
    );
    assert!(stage.happen("u", "slow", Value::Null).moved.is_empty());
}

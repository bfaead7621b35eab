//! Numbers of users at each element, and recorded events that are tried.

use serde_json::{json, Value};
use turnwheel_journeys::{Definition, JourneyCounts, Recording};

use super::common::{ancestor, Stage, DAY, P};

fn counts(stage: &Stage) -> JourneyCounts {
    counts_of(stage, "wf 1")
}

fn counts_of(stage: &Stage, journey: &str) -> JourneyCounts {
    let counted = stage.sim.block_on(stage.journeys.counts(journey)).expect("it ends");
    counted.expect("it is there")
}

fn conversion(counts: &JourneyCounts, line: &str) -> f64 {
    let found = counts.elements.iter().find(|it| it.element == line).expect("it is there");
    found.conversion.unwrap_or_default()
}

/// Users here, visits and drop-offs of an element.
fn of(counts: &JourneyCounts, element: &str) -> (u64, u64, u64) {
    let found = counts.elements.iter().find(|it| it.element == element).expect("it is there");
    (found.here, found.visits, found.dropped)
}

#[test]
fn users_are_counted_at_each_element_with_conversions_and_drop_offs() {
    let stage = Stage::walk_through();
    for user in ["u", "v", "w", "x", "y"] {
        stage.say(user, "开始");
    }
    stage.say("u", "1");
    stage.say("v", "2");
    stage.say("w", "9");
    stage.wait(stage.journeys.opt_out(P, "y", true)).expect("it is taken");
    let counted = counts(&stage);
    assert_eq!((counted.users, counted.under_way, counted.ended), (5, 2, 3));
    assert!(counted.is_complete);
    assert_eq!(of(&counted, "4"), (2, 5, 1), "two wait, and one has left there");
    assert_eq!(
        (of(&counted, "7"), of(&counted, "19"), of(&counted, "5")),
        ((0, 1, 0), (0, 1, 0), (0, 0, 0))
    );
    let line = counted.elements.iter().find(|it| it.element == "7").expect("it is there");
    assert_eq!((line.conversion, line.kind), (Some(0.2), "Line"));
    stage.sim.advance(2 * DAY);
    stage.sim.run_until_idle();
    let counted = counts(&stage);
    assert_eq!((of(&counted, "4"), of(&counted, "5")), ((0, 5, 1), (0, 2, 0)));
    assert_eq!((counted.under_way, counted.ended), (0, 5));
}

/// A journey whose wait has this name.
fn waiting(name: &str, settings: &str) -> String {
    format!(
        "journey: v\nplatform: P\n{settings}elements:\n  a: {{ start: {{ on: go }}, then: {name} }}\n  \
         {name}: {{ wait: {{ on: answer }}, then: end }}\n"
    )
}

#[test]
fn move_to_another_version_is_in_the_path_and_counts_as_a_visit() {
    let stage = Stage::new();
    stage.put(&waiting("first", ""));
    let users: Vec<String> = (0..10).map(|number| format!("u{number}")).collect();
    users.iter().for_each(|user| drop(stage.happen(user, "go", Value::Null)));
    // Two programs move users at once.
    let other = stage.second(true);
    stage.put(&waiting("second", "under_way: move\nmoves: { first: second }\n"));
    stage.sim.run_until_idle();
    // The element keeps its name: that is no step of a path.
    let settings = "under_way: move\npriority: 1\n";
    stage.put(&waiting("second", settings));
    stage.sim.advance(DAY);
    stage.sim.run_until_idle();
    stage.happen("late", "go", Value::Null);
    assert_eq!(of(&counts_of(&stage, "v"), "second"), (11, 11, 0));
    let pass = stage.user("u0").passes.remove(0);
    let shown: Vec<_> =
        pass.moves.iter().map(|it| (it.version, it.cause, it.path.join(" "))).collect();
    let begun = (1, "event", "a a.1 first".to_owned());
    assert_eq!(shown, [begun, (2, "moved", "first second".to_owned())]);
    assert_eq!((pass.version, pass.moves[1].wait), (3, Some(pass.waits[0].wait)));
    for user in ["late"].into_iter().chain(users.iter().map(String::as_str)) {
        let taken = stage.happen(user, "answer", Value::Null);
        assert_eq!(super::common::paths(&taken), ["second second.1 end"]);
    }
    other.end();
    let counted = counts_of(&stage, "v");
    assert_eq!((of(&counted, "second"), conversion(&counted, "second.1")), ((0, 11, 0), 1.0));
}

#[test]
fn lines_of_a_wait_add_up_to_one_after_more_moves_than_are_kept() {
    let stage = Stage::new();
    stage.put(
        "journey: loop\nplatform: P\nelements:\n  a: { start: { on: go }, then: w }\n  \
         w: { wait: { on: answer }, lines: [ { if: .event.data.over, then: end }, { if: 'true', then: w } ] }\n",
    );
    stage.happen("u", "go", Value::Null);
    let sum = |counted: &JourneyCounts| conversion(counted, "w.1") + conversion(counted, "w.2");
    for answers in 1..=40 {
        stage.happen("u", "answer", Value::Null);
        let counted = counts_of(&stage, "loop");
        let (here, visits, _) = of(&counted, "w");
        assert!(sum(&counted) <= 1.0 && (here, visits) == (1, answers.min(32) + 1), "{answers}");
    }
    stage.happen("u", "answer", json!({ "over": true }));
    let counted = counts_of(&stage, "loop");
    assert_eq!((of(&counted, "w"), sum(&counted)), ((0, 32, 0), 1.0));
}

#[test]
fn waits_of_parallel_lines_are_counted_once_whichever_is_answered_first() {
    let stage = Stage::new();
    stage.put(
        "journey: both\nplatform: P\nelements:\n  a: { start: { on: go }, then: c }\n  \
         c: { choose: all, lines: [ { if: 'true', then: x }, { if: 'true', then: y } ] }\n  \
         x: { wait: { on: x, if: .event.data.ok }, then: end }\n  \
         y: { wait: { on: y }, lines: [ { if: .event.data.ok, then: end } ] }\n",
    );
    for (user, order) in [("u", ["x", "y"]), ("v", ["y", "x"])] {
        stage.happen(user, "go", Value::Null);
        // An event that no line takes leaves the wait where it is.
        assert_eq!(stage.happen(user, "y", Value::Null).moved[0].cause, "unmatched");
        order.iter().for_each(|kind| drop(stage.happen(user, kind, json!({ "ok": true }))));
    }
    let counted = counts_of(&stage, "both");
    assert_eq!((of(&counted, "x"), of(&counted, "y")), ((0, 2, 0), (0, 2, 0)));
    assert_eq!([conversion(&counted, "x.1"), conversion(&counted, "y.1")], [1.0, 1.0]);
}

#[test]
fn recorded_events_are_tried_with_their_messages() {
    let text = ancestor().to_string();
    let definition = Definition::read(&text, "wf").expect("it is read");
    let event = |id: &str, time: &str, text: &str| {
        json!({
            "id": id, "source": "chat", "type": "keyword reply", "subject": "u", "time": time,
            "data": { "text": text },
        })
    };
    let events = vec![
        event("2", "2026-01-05T13:00:00Z", "1"),
        event("1", "2026-01-05T12:00:00Z", "开始"),
        event("3", "2026-01-05T14:00:00Z", "开始"),
    ];
    let mut short = Recording::new(events.clone());
    short.until = Some("2026-01-05T12:30:00Z".to_owned());
    let tried = short.on(&definition).expect("they are read");
    assert_eq!((tried.moved.len(), tried.messages.len()), (1, 1), "later events are left out");
    short = Recording::new(events.clone());
    short.until = Some("2026-01-05T11:00:00Z".to_owned());
    assert!(short.on(&definition).expect("they are read").moved.is_empty());
    let mut recording = Recording::new(events);
    recording
        .users
        .insert("u".to_owned(), super::common::attributes(json!({ "followed_by": "scan" })));
    recording.until = Some("2026-02-01T00:00:00Z".to_owned());
    let tried = json!(recording.on(&definition).expect("they are read"));
    let all = |list: &str, field: &str| -> Vec<Value> {
        tried[list].as_array().expect("a list").iter().map(|it| it[field].clone()).collect()
    };
    assert_eq!(all("moved", "cause"), ["event", "event", "event", "timer"]);
    assert_eq!(all("messages", "element"), ["2", "16", "2"]);
    assert_eq!(tried["messages"][1]["at"], "2026-01-05T13:00:00Z");
    assert_eq!(tried["users"][0]["ended"].as_array().map(Vec::len), Some(2));
    let lacking =
        Recording::new(vec![json!({ "id": "1", "source": "s", "type": "t", "subject": "u" })]);
    let refused = lacking.on(&definition).expect_err("it has no time").to_string();
    assert!(refused.contains("has no «time»"), "{refused}");
}

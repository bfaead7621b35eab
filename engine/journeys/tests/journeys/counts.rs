//! Numbers of users at each element, and recorded events that are tried.

use serde_json::{json, Value};
use turnwheel_journeys::{Definition, JourneyCounts, Recording};

use super::common::{ancestor, Stage, DAY};

fn counts(stage: &Stage) -> JourneyCounts {
    let counted = stage.sim.block_on(stage.journeys.counts("wf 1")).expect("it ends");
    counted.expect("it is there")
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
    stage.wait(stage.journeys.opt_out(super::common::P, "y", true)).expect("it is taken");
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

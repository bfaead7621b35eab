//! Conditions that fail, and messages that cannot be made: each is told, and the user goes on.

use serde_json::{json, Value};
use turnwheel_journeys::{Definition, Recording};

use super::common::{Stage, P};

/// A condition that takes more steps than are allowed.
const ENDLESS: &str = "last(repeat(1))";

/// Version of the row of a user in the store: it counts writes.
fn writes(stage: &Stage, user: &str) -> u64 {
    stage.sim.run_until_idle();
    let states = stage.world.timed_states();
    let key = format!("{P}/{user}");
    let row = states.load("tw.user", &key);
    stage.sim.block_on(row).expect("it ends").expect("it is read").version
}

#[test]
fn all_problems_of_a_move_are_told() {
    let stage = Stage::new();
    stage.put(&format!(
        "journey: j\nplatform: P\ncap: {{ messages: 1, per: P1D }}\nelements:\n  \
         a: {{ start: {{ on: go }}, then: w }}\n  \
         w: {{ wait: {{ on: answer }}, lines: [ {{ if: '{ENDLESS}', then: end }}, {{ if: 'true', then: m }} ] }}\n  \
         m: {{ send: {{ channel: chat, with: {{ x: '${{ .data.no.such | tonumber }}' }} }}, then: s }}\n  \
         s: {{ set: '[1]', then: n }}\n  \
         n: {{ send: {{ channel: chat, with: {{ x: '${{ {ENDLESS} }}' }} }}, then: v }}\n  \
         v: {{ wait: {{ on: never }}, then: end }}\n"
    ));
    stage.happen("u", "go", Value::Null);
    let moved = stage.happen("u", "answer", Value::Null).moved.remove(0);
    assert_eq!(moved.path, ["w", "w.2", "m", "m.1", "s", "s.1", "n", "n.1", "v"]);
    let problem = moved.problem.expect("some failed");
    for part in [
        "«w.1»: last(repeat(1)): ",
        "«m» was not sent: ",
        "«s» sets no object",
        "«n» was not sent: ",
    ] {
        assert!(problem.contains(part), "{part} in {problem}");
    }
    let shown = stage.user("u").passes.remove(0).moves.remove(1);
    assert_eq!(shown.problem, Some(problem), "the path says so too");
}

#[test]
fn problems_of_a_long_walk_have_a_bounded_size() {
    let stage = Stage::new();
    let mut elements = String::new();
    for number in 0..200 {
        let next = number + 1;
        elements.push_str(&format!("  s{number}: {{ set: '[1]', then: s{next} }}\n"));
    }
    stage.put(&format!(
        "journey: j\nplatform: P\nelements:\n  a: {{ start: {{ on: go }}, then: s0 }}\n{elements}  \
         s200: {{ wait: {{ on: never }}, then: end }}\n"
    ));
    let problem = stage.happen("u", "go", Value::Null).moved.remove(0).problem.expect("all failed");
    assert!(problem.starts_with("«s0» sets no object; «s1» sets no object; "), "{problem}");
    assert!(problem.ends_with(" more") && problem.len() < 1_500, "{problem}");
}

#[test]
fn condition_of_a_wait_that_fails_is_recorded_once_and_told_each_time() {
    let stage = Stage::new();
    let text = |settings: &str, condition: &str| {
        format!(
            "journey: j\nplatform: P\n{settings}elements:\n  a: {{ start: {{ on: go }}, then: w }}\n  \
             w: {{ wait: {{ on: answer, if: '{condition}' }}, then: end }}\n"
        )
    };
    // Its text differs with each event.
    stage.put(&text("", ".event.data.n | tonumber > 1"));
    stage.happen("u", "go", Value::Null);
    let first = stage.happen("u", "answer", json!({ "n": "x0" }));
    assert_eq!((first.moved[0].cause, &first.problem), ("unmatched", &None));
    let problem = first.moved[0].problem.clone().expect("it failed");
    assert!(problem.starts_with("«w»: .event.data.n | tonumber > 1: "), "{problem}");
    let before = writes(&stage, "u");
    for number in 1..100 {
        let taken = stage.happen("u", "answer", json!({ "n": format!("x{number}") }));
        assert!(taken.moved.is_empty(), "{taken:?}");
        let problem = taken.problem.expect("it failed again");
        assert!(problem.starts_with("journey j, version 1, «w»: "), "{problem}");
    }
    assert_eq!(writes(&stage, "u"), before, "a condition that fails at each event writes once");
    let pass = stage.user("u").passes.remove(0);
    assert_eq!((pass.moves.len(), &pass.moves[1].problem), (2, &Some(problem)));
    // A condition that does not hold is no failure.
    let taken = stage.happen("u", "answer", json!({ "n": "1" }));
    assert_eq!((taken.moved.len(), taken.problem), (0, None));
    // The condition of another version has not been told.
    stage.put(&text("under_way: move\n", ENDLESS));
    stage.sim.run_until_idle();
    assert_eq!(stage.happen("u", "answer", Value::Null).moved.len(), 1);
    assert!(stage
        .happen("u", "answer", Value::Null)
        .problem
        .is_some_and(|it| it.contains("version 2")));
}

#[test]
fn condition_of_a_start_that_fails_is_in_the_answer_and_makes_no_write() {
    let stage = Stage::new();
    let text = |name: &str| {
        format!(
            "journey: {name}\nplatform: P\nelements:\n  a: {{ start: {{ on: go, if: '{ENDLESS}' }}, then: end }}\n"
        )
    };
    stage.put(&text("one"));
    stage.put(&text("two"));
    let taken = stage.happen("u", "go", Value::Null);
    assert!(taken.moved.is_empty(), "it counts as not holding");
    let problem = taken.problem.expect("both failed");
    for journey in ["one", "two"] {
        let part = format!("journey {journey}, version 1, «a»: {ENDLESS}: ");
        assert!(problem.contains(&part), "{part} in {problem}");
    }
    assert_eq!(writes(&stage, "u"), 0);
    assert_eq!(stage.happen("u", "other", Value::Null).problem, None);
}

#[test]
fn start_that_fails_beside_one_that_holds_is_told_in_the_path() {
    let stage = Stage::new();
    stage.put(&format!(
        "journey: j\nplatform: P\nelements:\n  a: {{ start: {{ on: go, if: '{ENDLESS}' }}, then: w }}\n  \
         b: {{ start: {{ on: go }}, then: w }}\n  w: {{ wait: {{ on: answer }}, then: end }}\n"
    ));
    let taken = stage.happen("u", "go", Value::Null);
    assert_eq!((taken.moved[0].path[0].as_str(), taken.problem), ("b", None));
    assert!(taken.moved[0].problem.as_ref().is_some_and(|it| it.starts_with("«a»: ")));
}

#[test]
fn dry_run_tells_conditions_of_starts_that_fail() {
    let text = format!(
        "journey: j\nplatform: P\nelements:\n  a: {{ start: {{ on: go, if: '{ENDLESS}' }}, then: end }}\n"
    );
    let definition = Definition::read(&text, "j.yaml").expect("it is read");
    let time = "2026-01-05T12:00:00Z";
    let event = json!({ "id": "1", "source": "s", "type": "go", "subject": "ann", "time": time });
    let tried = Recording::new(vec![event]).on(&definition).expect("it is tried");
    let [problem] = &tried.problems[..] else { panic!("one is told: {tried:?}") };
    assert_eq!((problem.user.as_str(), problem.at.to_string().as_str()), ("ann", time));
    assert!(problem.problem.contains("«a»: last(repeat(1)): "), "{problem:?}");
}

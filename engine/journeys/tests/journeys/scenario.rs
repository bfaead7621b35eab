//! The walk-through of the reference, step by step, and what follows from it.

use super::common::{last_path, paths, Stage, DAY, HOUR, KEYWORD, P, SECOND};

const FIRST: &str = "0 1 2 3 4";
const SECOND_PATH: &str = "4 7 8 9 10 13 14 15 16 17 18";

#[test]
fn walk_through_visits_the_elements_of_the_reference() {
    let stage = Stage::walk_through();
    let due = Some("2026-01-06T12:00:00Z".to_owned());
    // S1.
    assert_eq!(paths(&stage.say("u", "请开始吧")), [FIRST]);
    assert_eq!(stage.messages(), ["2"]);
    assert_eq!(stage.waits("u"), [("4".to_owned(), 1, due)]);
    assert_eq!(stage.waits("v"), []);
    stage.sim.advance(HOUR);
    // S2.
    assert_eq!(paths(&stage.say("u", "1")), [SECOND_PATH]);
    assert_eq!(stage.messages(), ["2", "16"]);
    assert_eq!(stage.waits("u"), []);
    // S3.
    stage.sim.advance(2 * DAY);
    assert_eq!(stage.messages(), ["2", "16"]);
    let user = stage.user("u");
    assert_eq!(
        (user.passes.len(), user.ended.len(), last_path(&user).as_str()),
        (0, 1, SECOND_PATH)
    );
    let nobody = stage.user("v");
    assert!(nobody.passes.is_empty() && nobody.ended.is_empty() && nobody.revision == 0);
}

#[test]
fn only_line_of_a_start_is_followed_without_a_look_at_its_condition() {
    let stage = Stage::new();
    let mut elements = super::common::ancestor();
    elements[1]["properties"] = serde_json::json!([{ "equals": "something else" }]);
    stage.put(&elements.to_string());
    assert_eq!(paths(&stage.say("u", "开始")), [FIRST]);
}

#[test]
fn steps_of_one_user_are_served_by_different_nodes() {
    let stage = Stage::walk_through();
    let other = stage.second(true);
    assert_eq!(paths(&stage.say("u", "开始")), [FIRST]);
    let event = stage.event("u", KEYWORD, serde_json::json!({ "text": "1" }));
    let taken = stage.wait(other.event(event)).expect("it is taken");
    assert_eq!(paths(&taken), [SECOND_PATH]);
    assert_eq!(stage.messages(), ["2", "16"]);
}

#[test]
fn node_reads_a_definition_that_another_node_has_stored() {
    let stage = Stage::new();
    let other = stage.second(true);
    stage.put(&super::common::ancestor().to_string());
    stage.say("u", "开始");
    let event = stage.event("u", KEYWORD, serde_json::json!({ "text": "2" }));
    let taken = stage.wait(other.event(event)).expect("it is taken");
    assert_eq!(paths(&taken), ["4 19 20 21 22"]);
}

#[test]
fn default_line_is_taken_without_an_answer() {
    let stage = Stage::walk_through();
    stage.say("u", "开始");
    stage.sim.advance(DAY - SECOND);
    assert_eq!(stage.waits("u").len(), 1, "not before its time");
    stage.sim.advance(SECOND);
    stage.sim.run_until_idle();
    assert_eq!(stage.waits("u"), []);
    assert_eq!(last_path(&stage.user("u")), "4 5 6");
    assert_eq!(stage.user("u").ended[0].moves[1].cause, "timer");
    assert!(stage.say("u", "1").moved.is_empty(), "nobody accepts a late answer");
    assert_eq!(stage.messages(), ["2"]);
}

#[test]
fn answer_that_fits_the_other_line_follows_it() {
    let stage = Stage::walk_through();
    stage.say("u", "开始");
    assert_eq!(paths(&stage.say("u", "2")), ["4 19 20 21 22"]);
    assert_eq!(stage.messages(), ["2"]);
}

#[test]
fn user_without_the_attribute_takes_the_default_of_the_rule() {
    let stage = Stage::walk_through();
    stage.say("w", "开始");
    assert_eq!(paths(&stage.say("w", "1")), ["4 7 8 9 10 11 12"]);
    assert_eq!(stage.messages(), ["2"]);
}

#[test]
fn interleaved_users_are_independent() {
    let stage = Stage::walk_through();
    stage.scanned("v");
    stage.say("u", "开始");
    stage.sim.advance(HOUR);
    stage.say("v", "开始");
    assert_eq!(paths(&stage.say("u", "1")), [SECOND_PATH]);
    assert_eq!(stage.waits("v")[0].2.as_deref(), Some("2026-01-06T13:00:00Z"));
    assert_eq!(paths(&stage.say("v", "2")), ["4 19 20 21 22"]);
    assert_eq!(stage.messages(), ["2", "2", "16"]);
}

#[test]
fn answer_without_a_start_changes_nothing() {
    let stage = Stage::walk_through();
    assert!(stage.say("u", "1").moved.is_empty());
    assert!(stage.messages().is_empty());
    assert!(stage.user("u").passes.is_empty());
}

#[test]
fn repeated_event_has_one_effect() {
    let mut stage = Stage::walk_through();
    let event = stage.event("u", KEYWORD, serde_json::json!({ "text": "开始" }));
    let (first, second) =
        (stage.journeys.event(event.clone()), stage.journeys.event(event.clone()));
    assert!(!stage.wait(first).expect("it is taken").is_repeated);
    assert!(stage.wait(second).expect("it is taken").is_repeated);
    stage.sim.run_until_idle();
    stage.outage(SECOND);
    assert!(stage.wait(stage.journeys.event(event)).expect("it is taken").is_repeated);
    assert_eq!(stage.messages(), ["2"]);
}

#[test]
fn one_of_two_equal_answers_on_two_nodes_passes_the_trigger() {
    let stage = Stage::walk_through();
    let other = stage.second(true);
    stage.say("u", "开始");
    let text = serde_json::json!({ "text": "1" });
    let first = stage.journeys.event(stage.event("u", KEYWORD, text.clone()));
    let second = other.event(stage.event("u", KEYWORD, text));
    let taken = [stage.wait(first), stage.wait(second)].map(|it| it.expect("it is taken"));
    let moved: usize = taken.iter().map(|taken| taken.moved.len()).sum();
    assert_eq!(moved, 1, "{taken:?}");
    assert_eq!(stage.messages(), ["2", "16"]);
}

#[test]
fn timer_of_the_first_pass_does_not_cut_the_second_short() {
    let stage = Stage::walk_through();
    stage.say("u", "开始");
    stage.sim.advance(23 * HOUR);
    stage.say("u", "2");
    assert_eq!(paths(&stage.say("u", "开始")), [FIRST]);
    stage.sim.advance(2 * HOUR);
    stage.sim.run_until_idle();
    let waits = stage.waits("u");
    assert_eq!(waits, [("4".to_owned(), 2, Some("2026-01-07T11:00:00Z".to_owned()))]);
    stage.sim.advance(DAY);
    stage.sim.run_until_idle();
    assert_eq!(last_path(&stage.user("u")), "4 5 6");
}

#[test]
fn start_while_the_user_waits_is_an_unmatched_answer() {
    let stage = Stage::walk_through();
    stage.say("u", "开始");
    let taken = stage.say("u", "开始");
    assert_eq!(paths(&taken), ["4"]);
    assert_eq!(taken.moved[0].cause, "unmatched");
    assert_eq!(stage.waits("u").len(), 1);
    assert_eq!(stage.messages(), ["2"]);
}

#[test]
fn answer_that_no_line_takes_leaves_the_wait() {
    let stage = Stage::walk_through();
    stage.say("u", "开始");
    let taken = stage.say("u", "9");
    assert_eq!((taken.moved[0].cause, taken.moved[0].wait), ("unmatched", Some(1)));
    assert_eq!(stage.waits("u")[0].1, 1, "the same wait");
    assert_eq!(stage.user("u").passes[0].moves.len(), 2, "the history has it");
    assert_eq!(paths(&stage.say("u", "1")), [SECOND_PATH]);
}

#[test]
fn server_that_was_away_goes_on_where_users_were() {
    let mut stage = Stage::walk_through();
    stage.scanned("v");
    stage.say("u", "开始");
    stage.sim.advance(HOUR);
    stage.say("v", "开始");
    stage.outage(23 * HOUR + SECOND);
    assert_eq!(last_path(&stage.user("u")), "4 5 6", "what was due meanwhile is done at once");
    assert_eq!(paths(&stage.say("v", "1")), [SECOND_PATH]);
    assert_eq!(stage.messages(), ["2", "2", "16"]);
}

#[test]
fn users_under_way_finish_on_their_version_or_move_by_a_map() {
    let text = |version: &str, wait: &str, settings: &str| {
        format!(
            "journey: news\nplatform: P\n{settings}elements:\n  go: {{ start: {{ on: go }}, then: \
             {wait} }}\n  {wait}: {{ wait: {{ on: answer, for: P1D }}, then: {version}, otherwise: \
             end }}\n  {version}: {{ send: {{ channel: chat }}, then: end }}\n"
        )
    };
    let stage = Stage::new();
    stage.put(&text("one", "asked", ""));
    stage.happen("a", "go", serde_json::Value::Null);
    stage.happen("b", "go", serde_json::Value::Null);
    stage.put(&text("two", "waiting", ""));
    stage.happen("a", "answer", serde_json::Value::Null);
    assert_eq!(stage.messages(), ["one"], "version 1 is finished");
    stage.put(&text("three", "waits", "under_way: move\nmoves: { asked: waits }\n"));
    let due = stage.waits("b")[0].2.clone();
    let taken = stage.happen("b", "answer", serde_json::Value::Null);
    assert_eq!((taken.moved[0].version, taken.moved[0].path[0].as_str()), (3, "waits"));
    assert_eq!(due.as_deref(), Some("2026-01-06T12:00:00Z"), "it keeps its due time");
    assert_eq!(stage.messages(), ["one", "three"]);
    assert_eq!(stage.user("b").ended[0].moves[0].version, 1, "history names its own version");
    let removed = stage.sim.block_on(stage.journeys.remove("news")).expect("it ends");
    assert_eq!(removed.expect("it was there").platform, P);
    assert!(stage.happen("c", "go", serde_json::Value::Null).moved.is_empty());
}

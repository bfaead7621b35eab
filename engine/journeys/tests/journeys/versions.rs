//! Users under way when a journey has a new version, or is removed and added again.

use serde_json::Value;

use super::common::{both, last_path, Stage, DAY, HOUR, SECOND};

/// A journey with these settings that waits for «answer», for a time if one is given.
fn ask(settings: &str, time: Option<&str>) -> String {
    let (wait, after) = match time {
        Some(time) => (format!("{{ on: answer, for: {time} }}"), "then: end, otherwise: late"),
        None => ("{ on: answer }".to_owned(), "then: late"),
    };
    format!(
        "journey: ask\nplatform: P\n{settings}elements:\n  go: {{ start: {{ on: go }}, then: wait }}\n  \
         wait: {{ wait: {wait}, {after} }}\n  late: {{ send: {{ channel: chat }}, then: end }}\n"
    )
}

fn remove(stage: &Stage) {
    let removed = stage.sim.block_on(stage.journeys.remove("ask")).expect("it ends");
    removed.expect("it is there");
}

#[test]
fn user_who_moves_waits_as_long_as_the_new_version_says() {
    let (third, forth) = (Some("2026-01-07T12:00:00Z"), Some("2026-01-08T12:00:00Z"));
    for (before, after, due) in [
        (Some("P1D"), None, None),
        (None, Some("P2D"), third),
        (Some("P3D"), Some("P2D"), third),
        (Some("P1D"), Some("P3D"), forth),
    ] {
        for is_touched in [true, false] {
            let stage = Stage::new();
            stage.put(&ask("", before));
            stage.happen("u", "go", Value::Null);
            stage.sim.advance(HOUR);
            stage.put(&ask("under_way: move\n", after));
            if is_touched {
                // An event that neither the wait nor the start takes.
                stage.happen("u", "go", Value::Null);
                let waits = stage.waits("u");
                assert_eq!((waits.len(), waits[0].2.as_deref()), (1, due), "{before:?} {after:?}");
            }
            stage.sim.advance(10 * DAY);
            stage.sim.run_until_idle();
            let user = stage.user("u");
            if due.is_none() {
                assert_eq!((user.passes.len(), user.ended.len()), (1, 0), "{before:?} {after:?}");
                assert_eq!(user.passes[0].version, 2);
                continue;
            }
            assert_eq!(last_path(&user), "wait wait.otherwise late late.1 end");
            assert_eq!(stage.messages(), ["late"], "{before:?} {after:?}");
        }
    }
}

#[test]
fn map_that_names_no_element_of_an_older_version_is_refused() {
    let stage = Stage::new();
    let text = |name: &str| ask(&format!("under_way: move\nmoves: {{ {name}: wait }}\n"), None);
    stage.put(&text("none"));
    stage.sim.advance(HOUR);
    let put =
        |text: String| stage.sim.block_on(stage.journeys.put(&text, "test")).expect("it ends");
    let said = put(text("wiat")).expect_err("it is a slip of the pen").to_string();
    assert_eq!(said, "moves: no older version has «wiat»: did you mean «wait»?");
    put(text("wait")).expect("that is there");
    // A store that never had an older version takes the newest one, and takes it again.
    let other = Stage::new();
    let put =
        |text: String| other.sim.block_on(other.journeys.put(&text, "test")).expect("it ends");
    for _ in 0..2 {
        put(text("wiat")).expect("there is nobody to move");
    }
}

#[test]
fn users_move_at_once_also_after_a_crash_while_they_do() {
    let mut stage = Stage::new();
    stage.put(&ask("", None));
    for number in 0..500 {
        stage.happen(&format!("u{number}"), "go", Value::Null);
    }
    // It is stored, and the node ends before it has moved anybody.
    let resting = stage.second(false);
    stage.journeys.end();
    let text = ask("under_way: move\n", Some("PT1H"));
    stage.sim.block_on(resting.put(&text, "test")).expect("it ends").expect("it is taken");
    resting.end();
    stage.outage(HOUR / 2);
    stage.sim.run_until_idle();
    for number in [0, 250, 499] {
        let waits = stage.waits(&format!("u{number}"));
        assert_eq!(waits[0].2.as_deref(), Some("2026-01-05T13:00:00Z"), "of u{number}");
    }
    // Nobody was touched, and all times have come.
    stage.sim.advance(HOUR);
    assert_eq!(stage.messages().len(), 500);
}

/// Versions whose wait has these names and settings, stored before anybody could move.
fn stored_in_succession(versions: &[(&str, &str)]) -> Stage {
    let stage = Stage::new();
    for (number, (wait, settings)) in versions.iter().enumerate() {
        let text = ask(settings, None).replace("then: wait ", &format!("then: {wait} "));
        stage.put(&text.replace("\n  wait: ", &format!("\n  {wait}: ")));
        if number == 0 {
            for user in 0..300 {
                stage.happen(&format!("u{user}"), "go", Value::Null);
            }
        }
    }
    stage
}

#[test]
fn users_move_through_versions_that_are_stored_in_succession() {
    let second = ("second", "under_way: move\nmoves: { first: second }\n");
    let third = ("third", "under_way: move\nmoves: { second: third }\n");
    for (versions, expected) in [
        (vec![second, third], (3, "third")),
        // The last version leaves users where they are, and the first one has no place for them.
        (vec![second, ("third", "")], (2, "second")),
        (
            vec![
                ("second", "under_way: move\n"),
                ("third", "under_way: move\nmoves: { first: third }\n"),
            ],
            (3, "third"),
        ),
        (vec![("second", ""), third], (1, "first")),
        (vec![second, ("third", "under_way: move\n")], (2, "second")),
    ] {
        let versions: Vec<_> = [("first", "")].into_iter().chain(versions).collect();
        let stage = stored_in_succession(&versions);
        // One is touched at once, the others move in the background.
        stage.happen("u7", "go", Value::Null);
        stage.sim.advance(30 * SECOND);
        stage.sim.run_until_idle();
        let states = stage.world.timed_states();
        for user in [0, 7, 299] {
            let user = format!("u{user}");
            let pass = stage.user(&user).passes.remove(0);
            let place = (pass.version, pass.waits[0].element.as_str());
            assert_eq!(place, expected, "{user} after {versions:?}");
            let key = format!("P/{user}");
            let row = states.load("tw.user", &key);
            let row = stage.sim.block_on(row).expect("it ends").expect("it is read");
            let is_moved = row.version > 1;
            assert!(user == "u7" || is_moved == (expected.0 > 1), "{user} in the store: {row:?}");
        }
    }
}

#[test]
fn user_does_not_move_to_a_version_of_another_platform() {
    let stage = Stage::new();
    stage.put(&ask("", Some("P1D")));
    stage.happen("u", "go", Value::Null);
    let moved = ask("under_way: move\n", Some("P2D")).replace("platform: P", "platform: Q");
    stage.put(&moved.replace("on: answer", "on: reply"));
    let taken = stage.happen("u", "answer", Value::Null);
    assert_eq!((taken.moved.len(), taken.moved[0].version), (1, 1), "events of P have old kinds");
}

#[test]
fn pass_of_a_removed_journey_stays_over_when_its_name_is_added_again() {
    let stage = Stage::new();
    stage.put(&ask("", Some("P1D")));
    stage.happen("u", "go", Value::Null);
    stage.happen("v", "go", Value::Null);
    stage.sim.advance(HOUR);
    remove(&stage);
    stage.sim.advance(HOUR);
    let is_over = |user: &str| {
        let user = stage.user(user);
        assert_eq!((user.passes.len(), user.ended.len()), (0, 1));
        let over = &user.ended[0];
        let at = over.ended.expect("it has ended").to_string();
        assert_eq!((over.why, at.as_str()), (Some("removed"), "2026-01-05T13:00:00Z"));
        assert!(over.waits.is_empty());
    };
    is_over("u");
    for settings in ["", "under_way: move\n"] {
        stage.put(&ask(settings, Some("P2D")));
        is_over("u");
        assert!(stage.happen("u", "answer", Value::Null).moved.is_empty(), "{settings}");
        is_over("u");
        let counts = stage.sim.block_on(stage.journeys.counts("ask")).expect("it ends");
        let counts = counts.expect("it is there");
        assert_eq!((counts.under_way, counts.ended), (0, 2), "{settings}");
        remove(&stage);
    }
    stage.put(&ask("", Some("P2D")));
    stage.sim.advance(2 * DAY);
    stage.sim.run_until_idle();
    is_over("v");
    assert!(stage.messages().is_empty());
    // A new pass is one of the version that was added.
    stage.happen("u", "go", Value::Null);
    assert_eq!(stage.user("u").passes[0].version, 4);
    assert_eq!(stage.happen("u", "answer", Value::Null).moved.len(), 1);
}

#[test]
fn user_whose_step_on_the_old_version_is_written_while_others_move_moves_too() {
    let stage = Stage::new();
    stage.put(&ask("", None));
    stage.happen("u", "go", Value::Null);
    let states = stage.world.timed_states();
    let old = stage.sim.block_on(states.load("tw.user", "P/u")).expect("it ends").expect("a row");
    stage.put(&ask("under_way: move\n", Some("PT1H")));
    stage.sim.run_until_idle();
    assert_eq!(stage.user("u").passes[0].version, 2, "all who were there have moved");
    // Another node, which learns of the version by its next look, writes a step that it had decided on.
    stage.sim.advance(3 * SECOND);
    let late = states.save("tw.user", "P/late", (old.bytes, None), 0);
    stage.sim.block_on(late).expect("it ends").expect("it is written");
    stage.sim.advance(10 * SECOND);
    let states = stage.world.timed_states();
    let row = stage.sim.block_on(states.load("tw.user", "P/late")).expect("it ends").expect("read");
    assert_eq!(row.version, 2, "it was moved without being touched");
    assert_eq!(stage.user("late").passes[0].version, 2);
    stage.sim.advance(HOUR);
    assert_eq!(stage.messages().len(), 2, "both have waited as long as the newer version says");
}

#[test]
fn user_whom_an_older_program_has_left_behind_moves_without_being_touched() {
    let mut stage = stored_in_succession(&[
        ("first", ""),
        ("second", "under_way: move\nmoves: { first: second }\n"),
        ("third", "under_way: move\nmoves: { second: third }\n"),
    ]);
    let states = stage.world.timed_states();
    let load = |name: &str, key: &str| {
        let record = stage.sim.block_on(states.load(name, key));
        record.expect("it ends").expect("it is read")
    };
    // As the older program did: the user is at the first version, and all count as moved to the third.
    let other = Stage::new();
    other.put(
        &ask("", None).replace("then: wait ", "then: first ").replace("\n  wait: ", "\n  first: "),
    );
    other.happen("u", "go", Value::Null);
    let old = other.sim.block_on(other.world.timed_states().load("tw.user", "P/u"));
    let old = old.expect("it ends").expect("it is read");
    stage.sim.advance(30 * SECOND);
    stage.sim.run_until_idle();
    for (name, key, bytes) in
        [("tw.user", "P/left", old.bytes), ("turnwheel.journey.moved", "ask", Some(b"3".to_vec()))]
    {
        let version = load(name, key).version;
        let saved = stage.sim.block_on(states.save(name, key, (bytes, None), version));
        saved.expect("it ends").expect("it is written");
    }
    let before = load("tw.user", "P/left").version;
    stage.outage(SECOND);
    stage.sim.advance(30 * SECOND);
    stage.sim.run_until_idle();
    let states = stage.world.timed_states();
    let moved = stage.sim.block_on(states.load("tw.user", "P/left"));
    assert_eq!(
        moved.expect("it ends").expect("it is read").version,
        before + 1,
        "it was moved, and nobody has touched it"
    );
    assert_eq!(stage.waits("left")[0].0, "third");
    let mark = stage.sim.block_on(states.load("turnwheel.journey.moved", "ask"));
    assert_eq!(mark.expect("it ends").expect("read").bytes.as_deref(), Some(&b"through 3"[..]));
}

#[test]
fn two_callers_who_store_a_journey_at_once_are_told_their_own_versions() {
    let stage = Stage::new();
    let (one, two) = (ask("", Some("P1D")), ask("", Some("P2D")));
    let second = stage.second(false);
    let (first, other) = stage
        .sim
        .block_on(both(stage.journeys.put(&one, "ann"), second.put(&two, "bob")))
        .expect("it ends");
    let (first, other) = (first.expect("it is taken"), other.expect("it is taken"));
    assert_eq!((first.text, first.by.as_str()), (one, "ann"));
    assert_eq!((other.text, other.by.as_str()), (two, "bob"));
    let mut versions = [first.version, other.version];
    versions.sort_unstable();
    assert_eq!(versions, [1, 2]);
}

//! Dependants: once for each group, over any acyclic graph.

use serde_json::json;
use turnwheel_jobs::{After, Cause, JobSpec, LaunchState, On};

use super::common::{job, set, Stage, MINUTE, SECOND};

fn after(name: &str, parents: &[(&str, On)]) -> JobSpec {
    job(name, "", |spec| {
        let after = |(job, on): &(&str, On)| After::new(*job, *on);
        spec.after = parents.iter().map(after).collect();
    })
}

#[test]
fn a_dependant_runs_once_after_a_success() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("parent", "@manually", |_| ()));
    stage.put(after("child", &[("parent", On::Success)]));
    assert_eq!(stage.get("parent").dependants, ["child"]);
    stage.wait(stage.jobs.run("parent", "ann", false)).unwrap();
    stage.sim.run_until_idle();
    let history = stage.history("child");
    assert_eq!(history.len(), 1);
    assert_eq!(history[0].cause, Cause::After { job: "parent".to_owned(), launch: 1 });
    assert_eq!(history[0].state, LaunchState::Succeeded);
}

#[test]
fn dependants_follow_success_failure_or_both() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("parent", "@manually", |spec| set(spec, "fails", "1")));
    stage.put(after("good", &[("parent", On::Success)]));
    stage.put(after("bad", &[("parent", On::Failure)]));
    stage.put(after("both", &[("parent", On::Always)]));
    stage.wait(stage.jobs.run("parent", "ann", false)).unwrap();
    stage.sim.run_until_idle();
    let good = stage.history("good");
    assert_eq!(good[0].state, LaunchState::Skipped);
    assert!(good[0].reason.contains("launch 1 of parent ended with a failure"));
    assert_eq!(stage.history("bad")[0].state, LaunchState::Succeeded);
    assert_eq!(stage.history("both")[0].state, LaunchState::Succeeded);
}

#[test]
fn the_last_job_of_a_diamond_runs_once_when_both_sides_ended() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("top", "@manually", |_| ()));
    stage.put(after("left", &[("top", On::Success)]));
    let mut right = after("right", &[("top", On::Success)]);
    set(&mut right, "takes", "60s");
    stage.put(right);
    stage.put(after("bottom", &[("left", On::Success), ("right", On::Success)]));
    stage.wait(stage.jobs.run("top", "ann", false)).unwrap();
    stage.sim.advance(30 * SECOND);
    assert!(stage.history("bottom").is_empty(), "one side is under way");
    stage.sim.advance(MINUTE);
    assert_eq!(stage.history("bottom").len(), 1);
    stage.wait(stage.jobs.run("right", "ann", false)).unwrap();
    stage.sim.advance(2 * MINUTE);
    assert_eq!(
        stage.history("bottom").len(),
        2,
        "a chain that begins at one side waits for it only"
    );
}

#[test]
fn a_side_that_did_not_run_does_not_hold_the_diamond_up() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("top", "@manually", |_| ()));
    stage.put(after("left", &[("top", On::Success)]));
    stage.put(after("right", &[("top", On::Failure)]));
    stage.put(after("bottom", &[("left", On::Success), ("right", On::Success)]));
    stage.put(after("last", &[("left", On::Always), ("right", On::Always)]));
    stage.wait(stage.jobs.run("top", "ann", false)).unwrap();
    stage.sim.run_until_idle();
    assert_eq!(stage.history("last")[0].state, LaunchState::Succeeded, "always is always");
    let bottom = stage.history("bottom");
    assert_eq!(bottom[0].state, LaunchState::Skipped);
    assert!(bottom[0].reason.contains("of right ended with no run"), "{}", bottom[0].reason);
}

#[test]
fn cycles_are_refused_and_named() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("a", "@manually", |_| ()));
    stage.put(after("b", &[("a", On::Success)]));
    stage.put(after("c", &[("b", On::Success)]));
    let error = stage.refused(after("a", &[("c", On::Success)]));
    assert!(error.contains("a → b → c → a"), "{error}");
    let error = stage.refused(after("self", &[("self", On::Success)]));
    assert!(error.contains("cannot run after itself"), "{error}");
}

#[test]
fn parents_come_first_and_go_last() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let error = stage.refused(after("child", &[("nobody", On::Success)]));
    assert!(error.contains("«nobody», and there is no such job: add it first"), "{error}");
    assert!(stage.wait(stage.jobs.get("child")).is_err(), "it is not made");
    stage.put(job("parent", "@manually", |_| ()));
    stage.put(job("other", "@manually", |_| ()));
    stage.put(after("child", &[("parent", On::Success)]));
    let error = stage.wait(stage.jobs.remove("parent")).unwrap_err().to_string();
    assert!(error.contains("has dependants: remove child first"), "{error}");
    stage.put(after("child", &[("other", On::Success)]));
    assert!(stage.get("parent").dependants.is_empty(), "the child has moved");
    assert_eq!(stage.get("other").dependants, ["child"]);
    stage.wait(stage.jobs.remove("parent")).unwrap();
    stage.put(job("child", "@manually", |_| ()));
    assert!(stage.get("other").dependants.is_empty(), "it is independent again");
}

#[test]
fn reports_outlive_a_restart() {
    let mut stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("parent", "@manually", |spec| set(spec, "takes", "60s")));
    stage.put(after("child", &[("parent", On::Success)]));
    stage.wait(stage.jobs.run("parent", "ann", false)).unwrap();
    stage.sim.advance(SECOND);
    stage.outage(2 * MINUTE);
    assert_eq!(stage.history("child").len(), 1, "the end came while nobody watched");
    stage.outage(SECOND);
    assert_eq!(stage.history("child").len(), 1);
}

#[test]
fn an_ephemeral_parent_goes_after_its_dependants_know() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("parent", "@manually", |spec| spec.ephemeral = true));
    stage.put(after("child", &[("parent", On::Success)]));
    stage.wait(stage.jobs.run("parent", "ann", false)).unwrap();
    stage.sim.run_until_idle();
    assert!(stage.wait(stage.jobs.get("parent")).is_err());
    assert_eq!(stage.history("child").len(), 1);
}

#[test]
fn a_dependant_that_is_gone_holds_no_other_one_up() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("parent", "@manually", |spec| set(spec, "takes", "60s")));
    stage.put(after("first", &[("parent", On::Success)]));
    stage.put(after("second", &[("parent", On::Success)]));
    stage.wait(stage.jobs.run("parent", "ann", false)).unwrap();
    stage.sim.advance(SECOND);
    stage.wait(stage.jobs.remove("first")).unwrap();
    stage.sim.advance(2 * MINUTE);
    assert_eq!(stage.history("second").len(), 1);
    assert!(stage.wait(stage.jobs.get("first")).is_err());
}

#[test]
fn a_backup_of_nested_jobs_comes_with_parents_first() {
    let entry = |name: &str, parent: &str| json!({"name": name, "schedule": "@manually", "parent_job": parent, "executor": "shell"});
    let backup = json!([
        entry("a11", "a1"),
        entry("a1", "a"),
        entry("b1", "b"),
        entry("c", ""),
        entry("a2", "a"),
        entry("a", ""),
        entry("b", ""),
        entry("a12", "a1"),
    ]);
    let read = turnwheel_jobs::dkron::read_backup(&backup).unwrap().jobs;
    let names: Vec<&str> = read.iter().map(|(spec, _)| spec.name.as_str()).collect();
    let place = |name: &str| names.iter().position(|other| *other == name).unwrap();
    assert_eq!(names.len(), 8);
    for (child, parent) in [("a1", "a"), ("a2", "a"), ("a11", "a1"), ("a12", "a1"), ("b1", "b")] {
        assert!(place(parent) < place(child), "{names:?}");
    }
    let roots = read.iter().filter(|(spec, _)| spec.after.is_empty());
    assert_eq!(roots.count(), 3);
    let lone = json!([entry("c", ""), entry("leaf", "gone")]);
    let read = turnwheel_jobs::dkron::read_backup(&lone).unwrap();
    assert_eq!((read.jobs.len(), read.refused[0].0.as_str()), (1, "leaf"));
    let error = read.refused[0].1.to_string();
    assert!(error.contains("«leaf»") && error.contains("«gone»"), "{error}");
}

#[test]
fn a_job_of_a_backup_that_cannot_be_read_leaves_the_others_alone() {
    let job = |name: &str, field: &str, value: serde_json::Value| {
        let mut job = json!({"name": name, "schedule": "@daily", "executor": "shell"});
        job[field] = value;
        job
    };
    let backup = json!([
        job("a", "retries", json!(-1)),
        job("b", "starts_at", json!("0001-01-01T00:00:00Z")),
        job("c", "parent_job", json!("a")),
        job("d", "timezone", json!("Europe/Madrid")),
        job("b", "owner", json!("second")),
        job("e", "executor_config", json!({"command": "true", "success_codes": "0,1"})),
        job("f", "tags", json!({"role": "web:1"})),
        job("g", "parent_job", json!("g")),
        7,
    ]);
    let read = turnwheel_jobs::dkron::read_backup(&backup).unwrap();
    let names: Vec<&str> = read.jobs.iter().map(|(spec, _)| spec.name.as_str()).collect();
    assert_eq!(names, ["b", "d", "e", "f"]);
    let refused: Vec<&str> = read.refused.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(refused, ["a", "b", "", "g", "c"], "{:?}", read.refused);
    let notes = |at: usize| read.jobs[at].1.join("; ");
    assert!(read.jobs[0].0.starts_at.is_none() && read.jobs[0].0.owner.is_empty());
    assert!(notes(1).contains("@daily is of the zone Europe/Madrid"), "{}", notes(1));
    assert!(notes(2).contains("success_codes"), "{}", notes(2));
    assert!(!read.jobs[2].0.config.contains_key("success_codes"));
    assert!(notes(3).contains("labels role=web ("), "{}", notes(3));
}

#[test]
fn a_child_of_dkron_has_no_schedule_of_its_own() {
    let backup = json!([
        {"name": "child", "schedule": "@every 1s", "parent_job": "parent", "executor": "play"},
        {"name": "parent", "schedule": "@manually", "executor": "play"},
    ]);
    let read = turnwheel_jobs::dkron::read_backup(&backup).unwrap().jobs;
    assert!(read[1].1.iter().any(|note| note.contains("@every 1s is left out")), "{:?}", read[1].1);
    let stage = Stage::at("2026-01-01T00:00:00Z");
    read.into_iter().for_each(|(spec, _)| drop(stage.put(spec)));
    stage.sim.advance(MINUTE);
    assert!(stage.history("child").is_empty(), "its parent has not run");
    stage.wait(stage.jobs.run("parent", "ann", false)).unwrap();
    stage.sim.advance(MINUTE);
    assert_eq!(stage.history("child").len(), 1);
}

#[test]
fn a_backup_with_a_cycle_is_refused_with_its_names() {
    let entry = |name: &str, parent: &str| json!({"name": name, "parent_job": parent});
    let backup = json!([entry("x", "b"), entry("a", "c"), entry("b", "a"), entry("c", "b")]);
    let read = turnwheel_jobs::dkron::read_backup(&backup).unwrap();
    assert_eq!(
        (read.jobs.len(), read.refused.len()),
        (0, 4),
        "one of the cycle, and all behind it"
    );
    let error = read.refused[0].1.to_string();
    assert!(error.contains("would wait for each other"), "{error}");
    assert!(["a", "b", "c"].iter().all(|name| error.contains(&format!("{name} → "))), "{error}");
}

#[test]
fn a_child_of_a_removed_ephemeral_parent_can_be_edited() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let parent = || job("parent", "@manually", |spec| spec.ephemeral = true);
    stage.put(parent());
    stage.put(after("child", &[("parent", On::Success)]));
    stage.wait(stage.jobs.run("parent", "ann", false)).unwrap();
    stage.sim.run_until_idle();
    let problem = stage.get("child").problem.expect("its parent is gone");
    assert!(problem.contains("no job «parent»"), "{problem}");
    let mut child = after("child", &[("parent", On::Success)]);
    child.owner = "ann".to_owned();
    assert_eq!(stage.put(child).revision, 2);
    // A parent of the same name has its child again.
    stage.put(parent());
    assert_eq!(stage.get("child").problem, None);
    stage.wait(stage.jobs.run("parent", "ann", false)).unwrap();
    stage.sim.run_until_idle();
    assert_eq!(stage.history("child").len(), 2);
}

#[test]
fn a_parent_is_named_once() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("parent", "@manually", |_| ()));
    let error = stage.refused(after("child", &[("parent", On::Success), ("parent", On::Failure)]));
    assert!(error.contains("names «parent» twice"), "{error}");
}

#[test]
fn each_job_behind_a_skipped_one_has_a_row_and_those_with_always_run() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("a", "@manually", |spec| set(spec, "fails", "9")));
    stage.put(after("b", &[("a", On::Success)]));
    stage.put(after("c", &[("b", On::Success)]));
    stage.put(after("d", &[("c", On::Failure)]));
    stage.put(after("e", &[("d", On::Always)]));
    for launch in 1..=2 {
        stage.wait(stage.jobs.run("a", "ann", false)).unwrap();
        stage.sim.run_until_idle();
        for (name, state) in [
            ("b", LaunchState::Skipped),
            ("c", LaunchState::Skipped),
            ("d", LaunchState::Skipped),
            ("e", LaunchState::Succeeded),
        ] {
            let history = stage.history(name);
            let ids: Vec<u64> = history.iter().map(|row| row.id).collect();
            assert_eq!(ids, (1..=launch).collect::<Vec<_>>(), "{name}: a number without a row");
            assert_eq!(history.last().map(|row| row.state), Some(state), "{name}");
        }
    }
    let reason = stage.history("c").remove(0).reason;
    assert_eq!(reason, "launch 1 of b ended with no run");
}

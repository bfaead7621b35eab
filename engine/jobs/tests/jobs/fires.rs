//! Fires: dates, switches, targets, and the overlap policies.

use turnwheel_jobs::{After, Cause, LaunchState, On, Overlap, RunState, Span};

use super::common::{job, set, time, Stage, HOUR, MINUTE, SECOND};

fn slow(name: &str, overlap: Overlap) -> turnwheel_jobs::JobSpec {
    job(name, "@every 1m", |spec| {
        spec.overlap = overlap;
        set(spec, "takes", "150s");
    })
}

#[test]
fn a_job_fires_at_its_time_and_its_row_says_so() {
    let stage = Stage::at("2026-01-01T00:00:30Z");
    let view = stage.put(job("minutely", "@minutely", |spec| set(spec, "says", "done")));
    assert_eq!(view.next, Some(time("2026-01-01T00:01:00Z")));
    stage.sim.advance(29 * SECOND);
    assert!(stage.rows("minutely").is_empty());
    stage.sim.advance(SECOND);
    let history = stage.history("minutely");
    assert_eq!(history.len(), 1);
    assert_eq!(history[0].cause, Cause::Schedule);
    assert_eq!(history[0].planned, time("2026-01-01T00:01:00Z"));
    assert_eq!(history[0].state, LaunchState::Succeeded);
    let output = stage.block(stage.jobs.output(&history[0].runs[0])).unwrap();
    assert_eq!(output, "done");
    let view = stage.get("minutely");
    assert_eq!(view.counts.success, 1);
    assert_eq!(view.last_success, Some(time("2026-01-01T00:01:00Z")));
    assert_eq!(view.next, Some(time("2026-01-01T00:02:00Z")));
    stage.sim.assert_no_failures();
}

#[test]
fn disabled_jobs_do_not_fire_but_run_by_hand() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("off", "@minutely", |spec| spec.disabled = true));
    stage.sim.advance(5 * MINUTE);
    assert!(stage.rows("off").is_empty());
    assert_eq!(stage.wait(stage.jobs.run("off", "ann", false)), Ok(1));
    stage.sim.run_until_idle();
    let history = stage.history("off");
    assert_eq!(history[0].cause, Cause::Manual { by: "ann".to_owned() });
    let view = stage.wait(stage.jobs.toggle("off", None, "ann")).unwrap();
    assert!(!view.spec.disabled);
    stage.sim.advance(MINUTE);
    assert_eq!(stage.rows("off").len(), 2, "times while it was off are not made up for");
}

#[test]
fn dates_are_heeded_at_the_fire() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("dated", "@hourly", |spec| {
        spec.starts_at = Some(time("2026-01-01T03:00:00Z"));
        spec.expires_at = Some(time("2026-01-01T04:30:00Z"));
    }));
    stage.sim.advance(9 * HOUR);
    assert_eq!(stage.rows("dated"), ["03:00:00 succeeded", "04:00:00 succeeded"]);
}

#[test]
fn overlap_allow_runs_both() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(slow("both", Overlap::Allow));
    stage.sim.advance(130 * SECOND);
    assert_eq!(stage.get("both").active.len(), 2);
}

#[test]
fn overlap_forbid_skips_with_a_row() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(slow("one", Overlap::Forbid));
    stage.sim.advance(250 * SECOND);
    let rows = stage.rows("one");
    let expected =
        ["00:01:00 succeeded", "00:02:00 skipped", "00:03:00 skipped", "00:04:00 running"];
    assert_eq!(rows, expected);
    let reason = &stage.history("one")[1].reason;
    assert!(reason.contains("launch 1 of 2026-01-01T00:01:00Z is under way"), "{reason}");
    assert_eq!(stage.get("one").counts.skipped, 2);
}

#[test]
fn overlap_forbid_outlives_a_restart() {
    let mut stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(slow("one", Overlap::Forbid));
    stage.sim.advance(61 * SECOND);
    stage.outage(5 * SECOND);
    stage.sim.advance(60 * SECOND);
    assert_eq!(stage.rows("one"), ["00:01:00 running", "00:02:00 skipped"]);
}

#[test]
fn queues_keep_one_or_all() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(slow("one", Overlap::QueueOne));
    stage.put(slow("all", Overlap::QueueAll));
    stage.sim.advance(200 * SECOND);
    assert_eq!(stage.rows("one"), ["00:01:00 running", "00:02:00 queued", "00:03:00 skipped"]);
    assert_eq!(stage.rows("all"), ["00:01:00 running", "00:02:00 queued", "00:03:00 queued"]);
    stage.sim.advance(15 * SECOND);
    assert_eq!(stage.rows("all")[..2], ["00:01:00 succeeded", "00:02:00 running"]);
}

#[test]
fn overlap_replace_cancels_the_old_one() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(slow("newest", Overlap::Replace));
    stage.sim.advance(125 * SECOND);
    let history = stage.history("newest");
    assert_eq!(history[0].state, LaunchState::Cancelled);
    assert!(history[0].reason.contains("replaces it"), "{}", history[0].reason);
    assert_eq!(history[1].state, LaunchState::Running);
}

#[test]
fn launches_by_hand_heed_the_overlap_policy_unless_forced() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(slow("one", Overlap::Forbid));
    assert_eq!(stage.wait(stage.jobs.run("one", "ann", false)), Ok(1));
    let error = stage.wait(stage.jobs.run("one", "bob", false)).unwrap_err().to_string();
    assert!(error.contains("is under way") && error.contains("force"), "{error}");
    assert_eq!(stage.wait(stage.jobs.run("one", "bob", true)), Ok(3));
    assert_eq!(stage.get("one").active.len(), 2);
}

#[test]
fn racing_launches_under_forbid_begin_one_run() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(slow("one", Overlap::Forbid));
    let asked: Vec<_> = (0..100).map(|_| stage.jobs.run("one", "ann", false)).collect();
    let begun = asked.into_iter().map(|asked| stage.wait(asked).is_ok());
    assert_eq!(begun.filter(|is_begun| *is_begun).count(), 1);
    stage.sim.run_until_idle();
    assert_eq!(stage.play.begun.lock().unwrap().len(), 1);
}

#[test]
fn without_a_matching_node_the_launch_has_failed_with_the_reason() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let targeted = |name: &str, label: &str, value: &str| {
        job(name, "@minutely", |spec| {
            spec.targets.insert(label.to_owned(), value.to_owned());
        })
    };
    stage.put(targeted("far", "region", "us:1"));
    stage.put(targeted("near", "region", "eu:2"));
    stage.sim.advance(MINUTE);
    let far = stage.history("far");
    assert_eq!(far[0].state, LaunchState::Failed);
    assert!(far[0].reason.contains("no node has region=us: here has «eu»"), "{}", far[0].reason);
    assert_eq!(stage.get("far").counts.error, 1);
    assert_eq!(stage.rows("near"), ["00:01:00 succeeded"], "as many as there are");
    for count in ["0", "-1", "many"] {
        let error = stage.refused(targeted("bad", "region", &format!("eu:{count}")));
        assert!(error.contains("no number of nodes"), "{error}");
    }
}

#[test]
fn a_launch_that_takes_too_long_for_its_deadline_has_failed_and_is_not_tried_again() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let mut spec = slow("late", Overlap::Forbid);
    (spec.schedule, spec.deadline) = ("@manually".to_owned(), Some(Span::seconds(30)));
    spec.retries = 3;
    stage.put(spec);
    for (name, on) in [("failed", On::Failure), ("fine", On::Success)] {
        stage.put(job(name, "", |spec| spec.after.push(After::new("late", on))));
    }
    stage.wait(stage.jobs.run("late", "ann", false)).unwrap();
    stage.sim.advance(31 * SECOND);
    let late = stage.history("late").remove(0);
    assert_eq!((late.state, late.cancelled_by), (LaunchState::Failed, None));
    assert_eq!((late.runs.len(), late.runs[0].state), (1, RunState::Failed));
    for reason in [&late.reason, &late.runs[0].reason] {
        assert!(reason.contains("its deadline of 30s has passed"), "{reason}");
    }
    let view = stage.get("late");
    assert_eq!((view.status, view.counts.error), (Some(LaunchState::Failed), 1));
    assert_eq!(stage.rows("failed"), ["00:00:30 succeeded"]);
    assert_eq!(stage.rows("fine"), ["00:00:30 skipped"]);
    // A cancel stays one.
    stage.wait(stage.jobs.run("late", "ann", false)).unwrap();
    stage.sim.advance(SECOND);
    stage.wait(stage.jobs.cancel("late", 2, "bob")).unwrap();
    stage.sim.run_until_idle();
    let ended = stage.history("late").remove(1);
    assert_eq!((ended.state, ended.runs[0].state), (LaunchState::Cancelled, RunState::Cancelled));
    assert_eq!(ended.cancelled_by.as_deref(), Some("bob"));
}

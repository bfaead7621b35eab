//! Outcomes that nobody knows, jobs that are gone, and stored jobs that make no sense any more.

use turnwheel_jobs::{
    After, Answer, JobError, JobSpec, LaunchState, On, Overlap, RunState, Span, Unknown,
};

use super::common::{job, set, Stage, HOUR, MINUTE, SECOND};

/// A job whose run lost its plan: somebody has paused it.
fn lost(stage: &Stage, policy: Unknown) -> JobSpec {
    let spec = job("payroll", "@manually", |spec| {
        (spec.unknown, spec.retries) = (policy, 1);
        set(spec, "takes", "60s");
    });
    stage.put(spec.clone());
    stage.wait(stage.jobs.run("payroll", "ann", false)).expect("it is launched");
    stage.sim.advance(SECOND);
    let plan = stage.history("payroll")[0].runs[0].plan.expect("it has begun");
    stage
        .block(stage.world.plan(plan).pause("an operator"))
        .expect("it ends")
        .expect("it is paused");
    stage.sim.advance(HOUR);
    spec
}

#[test]
fn an_unknown_outcome_is_retried_failed_or_left_to_a_person() {
    let outcome = |policy: Unknown| {
        let stage = Stage::at("2026-01-01T00:00:00Z");
        lost(&stage, policy);
        let launch = stage.history("payroll").remove(0);
        let runs: Vec<RunState> = launch.runs.iter().map(|run| run.state).collect();
        assert!(launch.runs[0].reason.contains("was paused"), "{}", launch.runs[0].reason);
        (launch.state, runs)
    };
    let retried = vec![RunState::Lost, RunState::Succeeded];
    assert_eq!(outcome(Unknown::Retry), (LaunchState::Succeeded, retried));
    assert_eq!(outcome(Unknown::Fail), (LaunchState::Failed, vec![RunState::Lost]));
    assert_eq!(outcome(Unknown::Ask), (LaunchState::Unknown, vec![RunState::Unknown]));
}

/// Jobs that follow on a success and on a failure, and one whose outcome is asked for.
fn asked() -> Stage {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    lost(&stage, Unknown::Ask);
    for (name, on) in [("paid", On::Success), ("alarm", On::Failure)] {
        let after = vec![After::new("payroll", on)];
        stage.put(job(name, "", |spec| spec.after = after));
    }
    stage
}

#[test]
fn a_person_is_asked_for_an_unknown_outcome_and_dependants_wait_for_the_answer() {
    for (answer, state, paid, alarm) in [
        (Answer::Succeeded, LaunchState::Succeeded, 1, 0),
        (Answer::Failed, LaunchState::Failed, 0, 1),
    ] {
        let mut stage = asked();
        let before = stage.get("payroll");
        assert_eq!((before.active.len(), before.counts.lost), (1, 1), "{before:?}");
        assert!(before.active[0].reason.contains("turnwheel job answer"), "{before:?}");
        let begun = |stage: &Stage, name| {
            let rows = stage.history(name);
            rows.iter().filter(|row| row.state == LaunchState::Succeeded).count()
        };
        assert_eq!((begun(&stage, "paid"), begun(&stage, "alarm")), (0, 0), "nobody knows yet");
        // The question outlives a restart.
        stage.outage(SECOND);
        stage.wait(stage.jobs.answer("payroll", 1, answer, "ann")).expect("it is taken");
        stage.sim.advance(SECOND);
        let launch = stage.history("payroll").remove(0);
        assert_eq!((launch.state, launch.answered_by.as_deref()), (state, Some("ann")));
        assert!(launch.runs[0].reason.starts_with("ann says that it"), "{launch:?}");
        assert_eq!((begun(&stage, "paid"), begun(&stage, "alarm")), (paid, alarm));
        let counts = stage.get("payroll").counts;
        let expected = if paid == 1 { (1, 0, 0) } else { (0, 1, 1) };
        assert_eq!((counts.success, counts.error, counts.lost), expected);
        // Once is enough.
        let again = stage.wait(stage.jobs.answer("payroll", 1, answer, "bob"));
        assert!(matches!(again, Err(JobError::NotAsked { .. })), "{again:?}");
        let unknown = stage.wait(stage.jobs.answer("payroll", 9, answer, "bob"));
        assert!(matches!(unknown, Err(JobError::UnknownLaunch { .. })), "{unknown:?}");
    }
}

#[test]
fn an_answer_that_comes_late_is_kept_from_its_own_time_on() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let mut spec = lost(&stage, Unknown::Ask);
    spec.keep_for = Some(Span::seconds(3_600));
    stage.put(spec);
    stage.sim.advance(5 * HOUR);
    stage.wait(stage.jobs.answer("payroll", 1, Answer::Succeeded, "ann")).expect("it is taken");
    stage.sim.advance(SECOND);
    let launch = stage.history("payroll").remove(0);
    assert!(launch.ended_at >= launch.runs[0].ended_at.map(|end| end.after(5 * HOUR)));
}

#[test]
fn a_launch_that_is_asked_for_is_tried_again_by_an_answer_but_not_beside_another_one() {
    let stage = asked();
    let spec = stage.get("payroll").spec;
    stage.put(JobSpec { overlap: Overlap::Forbid, ..spec });
    // It holds no other launch up.
    let second = stage.wait(stage.jobs.run("payroll", "ann", false)).expect("it is launched");
    let refused = stage.wait(stage.jobs.answer("payroll", 1, Answer::Retry, "ann"));
    assert!(matches!(refused, Err(JobError::Overlaps { .. })), "{refused:?}");
    stage.sim.advance(2 * MINUTE);
    stage.wait(stage.jobs.answer("payroll", 1, Answer::Retry, "ann")).expect("it is taken");
    let refused = stage.wait(stage.jobs.run("payroll", "ann", false));
    assert!(matches!(refused, Err(JobError::Overlaps { .. })), "{refused:?}");
    stage.sim.advance(2 * MINUTE);
    let launches = stage.history("payroll");
    let states: Vec<_> = launches.iter().map(|launch| (launch.id, launch.state)).collect();
    assert!(states.contains(&(1, LaunchState::Succeeded)), "{states:?}");
    assert!(states.contains(&(second, LaunchState::Succeeded)), "{states:?}");
    let first = launches.iter().find(|launch| launch.id == 1).expect("it is kept");
    let runs: Vec<_> = first.runs.iter().map(|run| (run.attempt, run.state)).collect();
    assert_eq!(runs, [(1, RunState::Lost), (2, RunState::Succeeded)]);
}

#[test]
fn a_question_can_be_cancelled_and_too_many_of_them_end_unanswered() {
    let stage = asked();
    stage.wait(stage.jobs.cancel("payroll", 1, "ann")).expect("it is cancelled");
    assert_eq!(stage.history("payroll")[0].state, LaunchState::Cancelled);
    for number in 2..=23 {
        stage.wait(stage.jobs.run("payroll", "ann", false)).expect("it is launched");
        stage.sim.advance(SECOND);
        let row = stage.wait(stage.jobs.get("payroll")).expect("it is there");
        let launch = row.active.iter().find(|launch| launch.id == number).expect("under way");
        let plan = launch.runs[0].plan.expect("it has begun");
        let paused = stage.block(stage.world.plan(plan).pause("an operator"));
        paused.expect("it ends").expect("it is paused");
        stage.sim.advance(MINUTE);
    }
    let view = stage.get("payroll");
    assert_eq!(view.active.len(), turnwheel_jobs::limits::ASKED_MAX);
    let oldest = stage.history("payroll").into_iter().find(|launch| launch.id == 2);
    let oldest = oldest.expect("it is kept");
    assert!(oldest.state == LaunchState::Unknown && oldest.ended_at.is_some(), "{oldest:?}");
}

#[test]
fn the_end_of_a_run_of_a_removed_job_stores_nothing() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let slow = |takes: &str| job("again", "@manually", |spec| set(spec, "takes", takes));
    stage.put(slow("60s"));
    stage.wait(stage.jobs.run("again", "ann", false)).unwrap();
    stage.sim.advance(10 * SECOND);
    stage.wait(stage.jobs.remove("again")).unwrap();
    stage.sim.run_until_idle();
    // Another one of the same name, with a launch of the same number.
    stage.put(slow("1h"));
    stage.wait(stage.jobs.run("again", "ann", false)).unwrap();
    stage.sim.advance(2 * MINUTE);
    assert_eq!(stage.rows("again"), ["00:00:10 running"], "the other run has ended, not this one");
    assert_eq!(stage.get("again").counts.success, 0);
    stage.sim.advance(HOUR);
    assert_eq!(stage.rows("again"), ["00:00:10 succeeded"]);
    stage.wait(stage.jobs.remove("again")).unwrap();
    stage.sim.run_until_idle();
    assert!(stage.wait(stage.jobs.get("again")).is_err());
}

#[test]
fn a_job_whose_zone_has_vanished_is_flagged_and_stops_no_other_one() {
    let mut stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("broken", "@minutely", |spec| spec.timezone = "Europe/Madrid".to_owned()));
    stage.put(job("fine", "@minutely", |_| ()));
    stage.sim.advance(MINUTE);
    stage.jobs.end();
    stage.sim.run_until_idle();
    let states = stage.world.states();
    let kept = stage.block(states.load("turnwheel.job", "broken")).expect("it is stored");
    let text = String::from_utf8(kept.bytes.expect("a record")).expect("JSON");
    let text = text.replace("Europe/Madrid", "Europe/Atlantis");
    let saved = states.save("turnwheel.job", "broken", text.into_bytes(), kept.version, 1);
    stage.block(saved).expect("it is stored");
    stage.outage(SECOND);
    stage.sim.advance(MINUTE);
    let problem = stage.get("broken").problem.expect("it has no times");
    assert!(problem.contains("Europe/Atlantis"), "{problem}");
    assert_eq!(stage.rows("fine").len(), 2);
    assert_eq!(stage.rows("broken").len(), 1);
    // Put again it goes on.
    stage.put(job("broken", "@minutely", |_| ()));
    stage.sim.advance(MINUTE);
    assert_eq!((stage.rows("broken").len(), stage.get("broken").problem), (2, None));
}

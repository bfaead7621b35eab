//! Outcomes that nobody knows, jobs that are gone, and stored jobs that make no sense any more.

use turnwheel_jobs::{JobSpec, LaunchState, RunState, Unknown};

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

#[test]
fn the_end_of_a_run_of_a_removed_job_stores_nothing() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let slow = |takes: &str| job("again", "@manually", |spec| set(spec, "takes", takes));
    stage.put(slow("60s"));
    stage.wait(stage.jobs.run("again", "ann", false)).unwrap();
    stage.sim.advance(10 * SECOND);
    stage.wait(stage.jobs.remove("again")).unwrap();
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

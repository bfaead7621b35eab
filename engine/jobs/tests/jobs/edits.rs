//! Edits: what is refused and why, revisions, pauses, and jobs that cannot be read.

use turnwheel_engine::PlanState;
use turnwheel_jobs::{JobError, JobSpec, Overlap, Span};

use super::common::{job, set, time, Stage, MINUTE, SECOND};

#[test]
fn names_are_lower_case_letters_of_any_script() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    for name in ["backup_2-x", "żółć", "отчёт", "報告", "ßñé"] {
        stage.put(job(name, "@daily", |_| ()));
    }
    for name in ["Backup", "a b", "a.b", "a/b", "", "x!", "ÉTÉ"] {
        let error = stage.refused(job(name, "@daily", |_| ()));
        assert!(error.contains("name"), "{name}: {error}");
    }
    assert!(stage.refused(job(&"x".repeat(200), "@daily", |_| ())).contains("longer than 128"));
}

#[test]
fn wrong_settings_are_named_with_advice() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    type Change = fn(&mut JobSpec);
    let cases: [(&str, Change); 9] = [
        ("executor: there is no executor «shell» here; there are: play", |spec| {
            spec.executor = "shell".to_owned();
        }),
        ("config: takes: «x» is no length of time", |spec| set(spec, "takes", "x")),
        ("timezone", |spec| spec.timezone = "Nowhere/Else".to_owned()),
        ("retries: 1000 are the limit", |spec| spec.retries = 5_000),
        ("keep: give a number from 1", |spec| spec.keep = 0),
        ("timeout: 0 ends each attempt", |spec| spec.timeout = Some(Span::default())),
        ("expires_at", |spec| {
            spec.starts_at = Some(time("2026-02-01T00:00:00Z"));
            spec.expires_at = Some(time("2026-01-01T00:00:00Z"));
        }),
        ("output_max", |spec| spec.output_max = u64::MAX),
        ("config: the job has", |spec| set(spec, "says", &"x".repeat(300_000))),
    ];
    for (expected, change) in cases {
        let error = stage.refused(job("wrong", "@daily", change));
        let is_zone =
            expected == "timezone" && error.contains("the zone «Nowhere/Else» is unknown");
        assert!(error.contains(expected) || is_zone, "{expected}: {error}");
        assert!(error.starts_with("job «wrong», "), "{error}");
    }
    let json = r#"{"name": "x", "schedule": "@daily", "shedule": "@daily"}"#;
    let error = serde_json::from_str::<JobSpec>(json).unwrap_err().to_string();
    assert!(error.contains("unknown field `shedule`"), "{error}");
}

#[test]
fn checked_jobs_are_told_why_they_would_be_refused_and_not_stored() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("there", "@daily", |_| ()));
    stage.put(job("away", "@daily", |_| ()));
    let lacking = job("child", "", |spec| {
        spec.after.push(turnwheel_jobs::After::new("nobody", Default::default()));
    });
    let edits = vec![
        (job("new", "@daily", |_| ()), Some(0)),
        (lacking, None),
        (job("there", "@hourly", |_| ()), Some(7)),
        (job("away", "@hourly", |spec| set(spec, "takes", "x")), Some(1)),
        (job("odd", "@daily", |spec| spec.executor = "shell".to_owned()), None),
    ];
    let problems = stage.wait(stage.jobs.check(edits)).expect("they are checked");
    let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let parts = ["«there» was changed meanwhile", "«away», config: takes", "«odd», executor"];
    assert_eq!(told.len(), parts.len(), "{told:?}");
    assert!(told.iter().zip(parts).all(|(told, part)| told.contains(part)), "{told:?}");
    assert!(stage.wait(stage.jobs.get("new")).is_err(), "nothing is stored");
    assert_eq!(stage.get("away").revision, 1);
    stage.wait(stage.jobs.pause_changes(Some("ann"))).expect("they are paused");
    let edits = vec![(job("new", "@daily", |_| ()), None)];
    let problems = stage.wait(stage.jobs.check(edits)).expect("they are checked");
    assert!(matches!(problems[..], [JobError::Paused { .. }]), "{problems:?}");
}

#[test]
fn moments_are_rfc_3339_or_local_minutes_or_null() {
    let read = |text: &str| {
        let json = format!(r#"{{"name": "x", "starts_at": {text}}}"#);
        serde_json::from_str::<JobSpec>(&json).map(|spec| spec.starts_at)
    };
    let expected = Some(time("2026-01-01T10:00:00Z"));
    assert_eq!(read(r#""2026-01-01T10:00:00Z""#).unwrap(), expected);
    assert_eq!(read(r#""2026-01-01T11:00:00+01:00""#).unwrap(), expected);
    assert_eq!(read(r#""2026-01-01T10:00""#).unwrap(), expected);
    assert_eq!(read("null").unwrap(), None);
    for wrong in [r#""""#, r#""soon""#, r#""2026-01-01""#, "17", r#""2026-01-01T10:00:00""#] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
    let text = serde_json::to_value(job("x", "@daily", |_| ())).unwrap();
    assert!(text["starts_at"].is_null());
}

#[test]
fn an_edit_of_an_older_revision_is_refused() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let first = stage.put(job("shared", "@minutely", |_| ()));
    let owned = |owner: &str| job("shared", "@minutely", |spec| spec.owner = owner.to_owned());
    stage.wait(stage.jobs.put(owned("ann"), Some(first.revision), "ann")).unwrap();
    let error = stage.wait(stage.jobs.put(owned("bob"), Some(first.revision), "bob")).unwrap_err();
    assert!(error.to_string().contains("its revision is 2, not 1; read it again"), "{error}");
    let error = stage.wait(stage.jobs.put(owned("bob"), Some(0), "bob")).unwrap_err();
    assert!(error.to_string().contains("was changed meanwhile"), "{error}");
    // Fires do not count as edits, and do not undo them.
    stage.sim.advance(3 * MINUTE);
    let view = stage.get("shared");
    assert_eq!((view.revision, view.spec.owner.as_str(), view.counts.success), (2, "ann", 3));
    assert_eq!(view.changed_by, "ann");
}

#[test]
fn an_edit_while_a_run_is_under_way_is_kept() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("slow", "@minutely", |spec| set(spec, "takes", "30s")));
    stage.sim.advance(70 * super::common::SECOND);
    stage.put(job("slow", "@minutely", |spec| {
        set(spec, "takes", "30s");
        spec.owner = "ann".to_owned();
    }));
    stage.sim.advance(MINUTE);
    let view = stage.get("slow");
    assert_eq!((view.spec.owner.as_str(), view.counts.success), ("ann", 1));
}

#[test]
fn jobs_are_removed_once() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("brief", "@minutely", |_| ()));
    assert_eq!(stage.wait(stage.jobs.remove("brief")).unwrap().spec.name, "brief");
    let again = stage.wait(stage.jobs.remove("brief")).unwrap_err().to_string();
    assert_eq!(again, "there is no job «brief»");
    stage.sim.advance(5 * MINUTE);
    assert!(stage.wait(stage.jobs.get("brief")).is_err());
    let view = stage.put(job("brief", "@minutely", |_| ()));
    assert_eq!((view.revision, view.counts.success), (1, 0), "a new one");
    stage.sim.advance(MINUTE);
    assert_eq!(stage.rows("brief").len(), 1);
}

#[test]
fn paused_changes_are_refused_also_after_a_restart() {
    let mut stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("runs", "@minutely", |_| ()));
    stage.wait(stage.jobs.pause_changes(Some("ann"))).unwrap();
    stage.outage(super::common::SECOND);
    let error = stage.refused(job("new", "@minutely", |_| ()));
    assert!(error.contains("changes of jobs are paused by ann"), "{error}");
    stage.sim.advance(MINUTE);
    assert_eq!(stage.rows("runs").len(), 1, "launches go on");
    stage.wait(stage.jobs.pause_changes(None)).unwrap();
    stage.put(job("new", "@minutely", |_| ()));
}

#[test]
fn lists_are_by_name() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    for name in ["c", "a", "b"] {
        stage.put(job(name, "@daily", |_| ()));
    }
    let names: Vec<_> = stage.wait(stage.jobs.list()).unwrap();
    let names: Vec<_> = names.iter().map(|view| view.spec.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
}

#[test]
fn jobs_at_rest_are_edited_and_not_launched() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.jobs.end();
    stage.sim.run_until_idle();
    let executors = turnwheel_jobs::Executors::new().with("play", stage.play.clone());
    let options = turnwheel_jobs::JobsOptions::new(&executors).at_rest();
    let group = stage.sim.group("rest");
    let open = turnwheel_jobs::Jobs::open(&stage.world, &group, options);
    let jobs = stage.block(open).unwrap();
    stage.wait(jobs.put(job("later", "@minutely", |_| ()), None, "ann")).unwrap();
    stage.sim.advance(5 * MINUTE);
    assert!(stage.wait(jobs.get("later")).unwrap().last.is_none());
    let error = stage.wait(jobs.run("later", "ann", false)).unwrap_err().to_string();
    assert!(error.contains("start turnwheel serve"), "{error}");
}

#[test]
fn a_job_of_a_backup_whose_time_has_passed_comes_back_disabled() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let mut spent = job("once", "@at 2025-12-31T00:00:00Z", |_| ());
    assert!(stage.refused(spent.clone()).contains("has passed"));
    let now = time("2026-01-01T00:00:00Z");
    let note = turnwheel_jobs::disable_spent(&mut spent, now).expect("its time has passed");
    assert!(note.contains("2025-12-31T00:00:00Z has passed"), "{note}");
    assert_eq!(stage.put(spent.clone()).revision, 1);
    assert_eq!(turnwheel_jobs::disable_spent(&mut spent, now), None);
    assert_eq!(stage.put(spent).revision, 1, "a second import changes nothing");
    stage.wait(stage.jobs.toggle("once", Some(false), "ann")).unwrap();
    stage.sim.advance(MINUTE);
    assert!(stage.history("once").is_empty(), "its time has passed");
    let mut next = job("next", "@at 2026-01-02T00:00:00Z", |_| ());
    assert_eq!(turnwheel_jobs::disable_spent(&mut next, now), None);
}

#[test]
fn a_removal_cancels_what_runs_and_is_over_when_that_has_ended() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let slow = || {
        job("slow", "@manually", |spec| {
            spec.overlap = Overlap::QueueAll;
            set(spec, "takes", "1h");
        })
    };
    let run = |stage: &Stage| stage.wait(stage.jobs.run("slow", "ann", false)).unwrap();
    stage.put(slow());
    run(&stage);
    run(&stage);
    stage.sim.advance(SECOND);
    let plan = stage.history("slow")[0].runs[0].plan.expect("it has begun");
    // All of these come before the run has ended.
    let removed = stage.jobs.remove("slow");
    let shown = stage.jobs.get("slow");
    let put = stage.jobs.put(slow(), None, "ann");
    let launched = stage.jobs.run("slow", "ann", true);
    let removed_again = stage.jobs.remove("slow");
    let view = stage.wait(removed).unwrap();
    assert_eq!((view.active.len(), view.problem), (2, None), "the answer is the job as it was");
    let view = stage.wait(shown).unwrap();
    assert!(view.problem.is_some_and(|problem| problem.contains("is being removed")));
    assert_eq!(view.active.len(), 1, "the run has not ended, and what was queued never begins");
    let refused = JobError::Leaving("slow".to_owned());
    assert_eq!(stage.wait(put).unwrap_err(), refused);
    assert_eq!(stage.wait(launched).unwrap_err(), refused);
    assert!(stage.wait(removed_again).is_ok());
    stage.sim.run_until_idle();
    assert!(stage.wait(stage.jobs.get("slow")).is_err(), "it is gone");
    let view = stage.block(stage.world.plan(plan).view()).expect("it is kept");
    assert_eq!(view.state, PlanState::Stopped, "nothing of it runs on");
    assert_eq!(stage.play.begun.lock().unwrap().len(), 1);
    assert_eq!(stage.put(slow()).revision, 1, "a new one");
}

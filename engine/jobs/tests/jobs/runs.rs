//! Runs: attempts, outcomes, outputs, history.

use turnwheel_engine::Time;
use turnwheel_jobs::{Backoff, LaunchState, NoNode, Overlap, RunState, Span};

use super::common::{job, set, time, Stage, HOUR, MINUTE, SECOND};

#[test]
fn failures_are_retried_with_growing_pauses() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("flaky", "@manually", |spec| {
        spec.retries = 3;
        spec.backoff = Backoff { first: Span::seconds(10), max: Span::seconds(15) };
        set(spec, "fails", "2");
    }));
    stage.wait(stage.jobs.run("flaky", "ann", false)).unwrap();
    stage.sim.advance(60 * SECOND);
    let launch = &stage.history("flaky")[0];
    assert_eq!(launch.state, LaunchState::Succeeded);
    let runs: Vec<_> = launch.runs.iter().map(|run| (run.attempt, run.state)).collect();
    let expected = [(1, RunState::Failed), (2, RunState::Failed), (3, RunState::Succeeded)];
    assert_eq!(runs, expected);
    let ended = |run: usize| launch.runs[run].ended_at.expect("it is over");
    assert_eq!(ended(1).since(ended(0)), 10 * SECOND);
    assert_eq!(ended(2).since(ended(1)), 15 * SECOND, "the longest pause");
    let view = stage.get("flaky");
    assert_eq!((view.counts.success, view.counts.error), (1, 2), "each attempt counts");
}

#[test]
fn attempts_are_the_retries_and_one() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("broken", "@manually", |spec| {
        spec.retries = 2;
        set(spec, "fails", "99");
    }));
    stage.wait(stage.jobs.run("broken", "ann", false)).unwrap();
    stage.sim.advance(MINUTE);
    let launch = &stage.history("broken")[0];
    assert_eq!((launch.state, launch.runs.len()), (LaunchState::Failed, 3));
    assert_eq!(launch.reason, "as told");
    assert_eq!(stage.get("broken").status, Some(LaunchState::Failed));
}

#[test]
fn a_pause_before_a_retry_outlives_a_restart() {
    let mut stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("flaky", "@manually", |spec| {
        spec.retries = 1;
        spec.backoff = Backoff { first: Span::seconds(60), max: Span::seconds(60) };
        set(spec, "fails", "1");
    }));
    stage.wait(stage.jobs.run("flaky", "ann", false)).unwrap();
    stage.sim.advance(SECOND);
    stage.outage(10 * SECOND);
    assert_eq!(stage.get("flaky").active[0].runs.len(), 2, "the second attempt waits");
    stage.sim.advance(50 * SECOND);
    assert_eq!(stage.history("flaky")[0].state, LaunchState::Succeeded);
}

#[test]
fn outputs_are_cut_to_their_end_with_a_flag() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let says = "x".repeat(1_500) + &"y".repeat(205);
    stage.put(job("wordy", "@manually", |spec| {
        spec.output_max = 200;
        set(spec, "says", &says);
    }));
    stage.wait(stage.jobs.run("wordy", "ann", false)).unwrap();
    stage.sim.run_until_idle();
    let run = stage.history("wordy")[0].runs[0].clone();
    assert_eq!((run.output_bytes, run.is_cut), (1_705, true));
    assert_eq!(stage.block(stage.jobs.output(&run)).unwrap(), "y".repeat(200));
}

#[test]
fn a_running_launch_can_be_cancelled_and_the_row_says_who() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("long", "@manually", |spec| set(spec, "takes", "1h")));
    stage.wait(stage.jobs.run("long", "ann", false)).unwrap();
    stage.sim.advance(MINUTE);
    stage.wait(stage.jobs.cancel("long", 1, "bob")).unwrap();
    stage.sim.run_until_idle();
    let launch = &stage.history("long")[0];
    assert_eq!(launch.state, LaunchState::Cancelled);
    assert_eq!(launch.cancelled_by.as_deref(), Some("bob"));
    assert!(launch.ended_at.is_some() && launch.reason.contains("bob"));
    let error = stage.wait(stage.jobs.cancel("long", 7, "bob")).unwrap_err().to_string();
    assert!(error.contains("has no launch 7"), "{error}");
    let error = stage.wait(stage.jobs.cancel("long", 1, "bob")).unwrap_err().to_string();
    assert_eq!(error, "launch 1 of «long» is over: it is cancelled");
}

#[test]
fn ephemeral_jobs_go_with_their_first_success() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("brief", "@minutely", |spec| {
        spec.ephemeral = true;
        set(spec, "fails", "0");
    }));
    stage.put(job("stays", "@minutely", |spec| {
        spec.ephemeral = true;
        set(spec, "fails", "9");
    }));
    stage.sim.advance(MINUTE);
    assert!(stage.wait(stage.jobs.get("brief")).is_err());
    assert_eq!(stage.rows("stays"), ["00:01:00 failed"]);
}

#[test]
fn history_is_kept_by_count_over_pages() {
    let mut stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("often", "@every 10s", |spec| spec.keep = 100));
    stage.put(job("often2", "@every 10s", |spec| spec.keep = 100));
    stage.sim.advance(30 * MINUTE);
    let history = stage.history("often");
    assert_eq!(history.len(), 100);
    let ids: Vec<u64> = history.iter().map(|launch| launch.id).collect();
    assert_eq!(ids, (81..=180).collect::<Vec<_>>());
    let before = stage.block(stage.jobs.history("often", Some(150), 3)).unwrap();
    assert_eq!(before.iter().map(|l| l.id).collect::<Vec<_>>(), [149, 148, 147]);
    assert_eq!(stage.block(stage.jobs.launch("often", 101)).unwrap().id, 101);
    stage.outage(SECOND);
    assert_eq!(stage.history("often").len(), 100, "it is stored");
    stage.wait(stage.jobs.remove("often")).unwrap();
    assert!(stage.history("often2").len() == 100, "the other job keeps its history");
}

#[test]
fn pages_of_history_go_with_their_job_and_when_they_are_forgotten() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let pages = |stage: &Stage, name: &str, made: Time| {
        let states = stage.world.states();
        let key = |page: u64| format!("{name}/{}/{page}", made.0);
        let is_there = |page: &u64| {
            let state = stage.block(states.load("turnwheel.job.page", &key(*page)));
            state.expect("the store answers").bytes.is_some()
        };
        (0..20).filter(is_there).count()
    };
    for name in ["forgets", "goes"] {
        stage.put(job(name, "@every 10s", |spec| spec.keep = 100));
    }
    let made = stage.get("goes").created_at;
    stage.sim.advance(30 * MINUTE);
    assert!(pages(&stage, "goes", made) > 2 && pages(&stage, "forgets", made) > 2);
    stage.wait(stage.jobs.forget("forgets")).unwrap();
    stage.wait(stage.jobs.remove("goes")).unwrap();
    assert_eq!((pages(&stage, "forgets", made), pages(&stage, "goes", made)), (0, 0));
}

#[test]
fn forgetting_a_history_resets_counts_in_one_step() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("often", "@every 10s", |_| ()));
    stage.sim.advance(10 * MINUTE);
    let view = stage.wait(stage.jobs.forget("often")).unwrap();
    assert_eq!((view.counts.success, view.last_success, view.status), (0, None, None));
    assert!(stage.history("often").is_empty());
    let error = stage.wait(stage.jobs.forget("nothing")).unwrap_err().to_string();
    assert_eq!(error, "there is no job «nothing»");
}

#[test]
fn history_is_kept_by_age_over_pages() {
    let stage = Stage::at("2026-01-01T00:00:30Z");
    stage.put(job("minutely", "@minutely", |spec| {
        (spec.keep, spec.keep_for) = (10_000, Some(Span::seconds(3_600)));
    }));
    stage.sim.advance(5 * HOUR);
    let rows = stage.rows("minutely");
    assert_eq!(rows.len(), 60, "{rows:?}");
    assert_eq!(rows[0], "04:01:00 succeeded");
    // Older pages are not in the store.
    let made = stage.get("minutely").created_at.0;
    let states = stage.world.states();
    let key = format!("minutely/{made}/0");
    let page = stage.block(states.load("turnwheel.job.page", &key)).expect("it is read");
    assert_eq!(page.bytes, None);
    // The newest one stays, however old it is.
    stage.wait(stage.jobs.toggle("minutely", Some(true), "ann")).expect("it is there");
    stage.sim.advance(10 * HOUR);
    assert!(stage.get("minutely").last.is_some());
    // A clock that is set back finds times that were decided.
    stage.wait(stage.jobs.toggle("minutely", Some(false), "ann")).expect("it is there");
    let begun = stage.play.begun.lock().expect("no panic before").len();
    stage.sim.set_wall(time("2026-01-01T02:00:30Z").into());
    stage.sim.advance(10 * SECOND);
    stage.sim.advance(HOUR);
    assert_eq!(stage.play.begun.lock().expect("no panic before").len(), begun);
}

#[test]
fn history_is_kept_by_size_over_pages() {
    let mut stage = Stage::at("2026-01-01T00:00:30Z");
    stage.put(job("wordy", "@minutely", |spec| {
        (spec.keep, spec.keep_bytes) = (10_000, Some(50_000));
        set(spec, "says", &"x".repeat(1_000));
    }));
    stage.sim.advance(10 * HOUR);
    let kept = |stage: &Stage| stage.history("wordy");
    let bytes: u64 = kept(&stage).iter().map(|launch| launch.runs[0].output_bytes).sum();
    assert!((30_000..=50_000).contains(&bytes), "{bytes} bytes in {} launches", kept(&stage).len());
    assert_eq!(stage.get("wordy").counts.success, 600, "the counts stay");
    let made = stage.get("wordy").created_at.0;
    let page =
        stage.block(stage.world.states().load("turnwheel.job.page", &format!("wordy/{made}/0")));
    assert_eq!(page.expect("it is read").bytes, None, "older pages are not in the store");
    stage.outage(SECOND);
    assert!(!kept(&stage).is_empty());
    // One launch that is larger than the limit is kept as the newest.
    stage.put(job("wordy", "@minutely", |spec| {
        (spec.keep, spec.keep_bytes) = (10_000, Some(500));
        set(spec, "says", &"x".repeat(1_000));
    }));
    stage.sim.advance(10 * MINUTE);
    assert_eq!(kept(&stage).len(), 1);
    // A clock that is set back finds times that were decided.
    let begun = stage.play.begun.lock().expect("no panic before").len();
    stage.sim.set_wall(time("2026-01-01T08:00:30Z").into());
    stage.sim.advance(HOUR);
    assert_eq!(stage.play.begun.lock().expect("no panic before").len(), begun);
    let refused = job("none", "@daily", |spec| spec.keep_bytes = Some(0));
    assert!(stage.refused(refused).contains("keep_bytes"));
}

#[test]
fn a_retry_without_a_node_waits_for_one() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let spec = |region: &str| {
        job("moving", "@manually", |spec| {
            (spec.retries, spec.no_node) = (1, NoNode::Wait(Span::seconds(30)));
            spec.targets.insert("region".to_owned(), region.to_owned());
            set(spec, "takes", "10s");
            set(spec, "fails", "1");
        })
    };
    for (id, (region, state)) in
        (1..).zip([("eu", LaunchState::Succeeded), ("mars", LaunchState::Failed)])
    {
        stage.put(spec("eu"));
        stage.wait(stage.jobs.run("moving", "ann", false)).unwrap();
        stage.sim.advance(SECOND);
        stage.put(spec("mars"));
        stage.sim.advance(20 * SECOND);
        let waiting = stage.get("moving").active[0].runs[1].clone();
        assert_eq!((waiting.attempt, waiting.state.name()), (2, "waiting"));
        stage.put(spec(region));
        stage.sim.advance(MINUTE);
        let launch = stage.block(stage.jobs.launch("moving", id)).unwrap();
        assert_eq!((launch.state, launch.runs.len()), (state, 2));
        let is_told = launch.reason.contains("region=mars");
        assert_eq!(is_told, state == LaunchState::Failed, "{}", launch.reason);
    }
}

#[test]
fn nothing_of_an_ephemeral_job_begins_after_its_first_success() {
    for overlap in [Overlap::QueueAll, Overlap::Allow, Overlap::QueueOne] {
        let stage = Stage::at("2026-01-01T00:00:00Z");
        stage.put(job("brief", "@every 5s", |spec| {
            (spec.ephemeral, spec.overlap) = (true, overlap);
            set(spec, "takes", "12s");
        }));
        let _queued = stage.wait(stage.jobs.run("brief", "ann", false));
        stage.sim.advance(2 * MINUTE);
        let begun = stage.play.begun.lock().expect("no panic").clone();
        assert_eq!(begun, [("brief".to_owned(), 1, 1)], "{overlap:?}");
        assert!(stage.wait(stage.jobs.get("brief")).is_err(), "{overlap:?}: it is gone");
    }
}

#[test]
fn an_edit_after_a_success_does_not_remove_an_ephemeral_job() {
    let mut stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("kept", "@manually", |_| ()));
    stage.wait(stage.jobs.run("kept", "ann", false)).unwrap();
    stage.sim.advance(SECOND);
    stage.put(job("kept", "@manually", |spec| spec.ephemeral = true));
    stage.outage(SECOND);
    assert_eq!(stage.get("kept").counts.success, 1, "it waits for a success as an ephemeral one");
    stage.wait(stage.jobs.run("kept", "ann", false)).unwrap();
    stage.sim.advance(SECOND);
    assert!(stage.wait(stage.jobs.get("kept")).is_err());
}

#[test]
fn a_run_that_ended_while_nobody_watched_has_the_time_of_its_end() {
    let mut stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("slow", "@manually", |spec| set(spec, "takes", "30s")));
    stage.wait(stage.jobs.run("slow", "ann", false)).unwrap();
    stage.sim.advance(SECOND);
    stage.outage(HOUR);
    let launch = stage.history("slow").remove(0);
    let end = Some(time("2026-01-01T00:00:30Z"));
    assert_eq!((launch.runs[0].ended_at, launch.ended_at), (end, end));
    assert_eq!(stage.get("slow").last_success, end);
}

#[test]
fn a_run_that_waits_for_its_key_has_not_begun_and_is_skipped_by_its_deadline() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let keyed = |name: &str, deadline: Option<Span>| {
        job(name, "@manually", |spec| {
            (spec.concurrency_key, spec.deadline) = ("disk".to_owned(), deadline);
            set(spec, "takes", "60s");
        })
    };
    stage.put(keyed("first", None));
    stage.put(keyed("second", None));
    stage.put(keyed("third", Some(Span::seconds(20))));
    for name in ["first", "second", "third"] {
        stage.wait(stage.jobs.run(name, "ann", false)).unwrap();
        stage.sim.advance(SECOND);
    }
    stage.sim.advance(10 * SECOND);
    let of = |name: &str| {
        let launch = stage.history(name).remove(0);
        (launch.state, launch.runs[0].state.name(), launch.runs[0].started_at)
    };
    let begin = |text: &str| Some(time(text));
    assert_eq!(of("first"), (LaunchState::Running, "running", begin("2026-01-01T00:00:00Z")));
    assert_eq!(of("second"), (LaunchState::Queued, "waiting", None));
    assert_eq!(stage.get("first").begun(), 1);
    assert_eq!(stage.get("second").begun(), 0, "it waits");
    stage.sim.advance(20 * SECOND);
    let third = stage.history("third").remove(0);
    assert_eq!((third.state, third.runs[0].started_at), (LaunchState::Skipped, None));
    assert!(third.reason.contains("deadline of 20s passed before"), "{}", third.reason);
    let counts = stage.get("third").counts;
    assert_eq!((counts.skipped, counts.error), (1, 0));
    stage.sim.advance(3 * MINUTE);
    let second = (LaunchState::Succeeded, "succeeded", begin("2026-01-01T00:01:00Z"));
    assert_eq!(of("second"), second, "it began when the first one had ended");
}

#[test]
fn a_run_at_work_is_shown_as_running_by_those_who_serve_later() {
    let mut stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("slow", "@manually", |spec| set(spec, "takes", "1h")));
    stage.wait(stage.jobs.run("slow", "ann", false)).unwrap();
    stage.sim.advance(SECOND);
    assert_eq!(stage.get("slow").begun(), 1);
    stage.outage(MINUTE);
    let shown = stage.get("slow");
    assert_eq!(shown.begun(), 1);
    assert_eq!(shown.active[0].state, LaunchState::Running);
    assert_eq!(shown.active[0].runs[0].started_at, Some(time("2026-01-01T00:00:00Z")));
}

#[test]
fn launches_at_work_are_known_without_their_plans_and_those_that_wait_are_none() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    for name in ["at-rest", "first", "second"] {
        stage.put(job(name, "@manually", |spec| {
            spec.concurrency_key = "disk".to_owned();
            set(spec, "takes", "60s");
        }));
    }
    let busy = || {
        let busy = stage.wait(stage.jobs.busy()).expect("it is known");
        let shown =
            |(name, launch): (String, turnwheel_jobs::Launch)| (name, launch.runs[0].started_at);
        busy.into_iter().map(shown).collect::<Vec<_>>()
    };
    assert_eq!(busy(), []);
    for name in ["first", "second"] {
        stage.wait(stage.jobs.run(name, "ann", false)).unwrap();
        stage.sim.advance(SECOND);
    }
    assert_eq!(busy(), [("first".to_owned(), Some(time("2026-01-01T00:00:00Z")))]);
    stage.sim.advance(MINUTE);
    assert_eq!(busy(), [("second".to_owned(), Some(time("2026-01-01T00:01:00Z")))]);
    stage.sim.advance(MINUTE);
    assert_eq!(busy(), []);
}

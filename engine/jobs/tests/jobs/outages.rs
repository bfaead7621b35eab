//! Missed times, lateness, and clocks that jump.

use std::time::Duration;

use turnwheel_jobs::{Cause, JobSpec, LaunchState, Missed, Overlap, Span};

use super::common::{job, set, time, Stage, HOUR, MINUTE, SECOND};

#[test]
fn missed_times_without_a_make_up_are_rows() {
    let mut stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("none", "@hourly", |spec| spec.missed = Missed::None));
    stage.outage(3 * HOUR + 30 * MINUTE);
    assert_eq!(stage.rows("none"), ["01:00:00 missed", "02:00:00 missed", "03:00:00 missed"]);
    assert_eq!(stage.get("none").counts.missed, 3);
    stage.sim.advance(30 * MINUTE);
    assert_eq!(stage.rows("none")[3], "04:00:00 succeeded");
}

#[test]
fn the_latest_missed_time_is_made_up_for() {
    let mut stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("latest", "@hourly", |spec| spec.missed = Missed::Latest));
    stage.outage(3 * HOUR + 30 * MINUTE);
    assert_eq!(stage.rows("latest"), ["01:00:00 missed", "02:00:00 missed", "03:00:00 succeeded"]);
    let history = stage.history("latest");
    assert_eq!(history[2].cause, Cause::CatchUp);
    assert!(history[0].reason.contains("the launch of 2026-01-01T03:00:00Z"), "the row says why");
}

#[test]
fn all_missed_times_of_a_window_are_made_up_for_one_by_one() {
    let mut stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("all", "@hourly", |spec| {
        spec.missed = Missed::All(Span::seconds(2 * 3_600));
        spec.overlap = Overlap::Forbid;
        set(spec, "takes", "60s");
    }));
    stage.outage(4 * HOUR + 30 * MINUTE);
    let expected = ["01:00:00 missed", "02:00:00 missed", "03:00:00 running", "04:00:00 queued"];
    assert_eq!(stage.rows("all"), expected);
    stage.sim.advance(2 * MINUTE);
    assert_eq!(stage.rows("all")[2..], ["03:00:00 succeeded", "04:00:00 succeeded"]);
}

#[test]
fn long_outages_share_a_row() {
    let mut stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("often", "@every 10s", |spec| spec.missed = Missed::None));
    stage.outage(HOUR + 5 * SECOND);
    let history = stage.history("often");
    let times: u64 = history.iter().map(|launch| launch.times).sum();
    assert_eq!((history[0].state, times), (LaunchState::Missed, 360));
    assert!(history[0].times > 300 && history.len() < 40, "{} rows", history.len());
    assert_eq!(history[0].planned, time("2026-01-01T00:00:10Z"));
}

#[test]
fn a_launch_may_be_too_late_to_begin() {
    let mut stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("prompt", "@hourly", |spec| spec.start_within = Some(Span::seconds(600))));
    stage.outage(HOUR + 20 * MINUTE);
    let history = stage.history("prompt");
    assert_eq!(history[0].state, LaunchState::Missed);
    assert!(history[0].reason.contains("start_within is 10m"), "{}", history[0].reason);
    stage.outage(45 * MINUTE);
    assert_eq!(stage.rows("prompt")[1], "02:00:00 succeeded", "five minutes late");
}

#[test]
fn a_clock_that_is_set_back_launches_no_time_twice() {
    let stage = Stage::at("2026-01-01T00:00:30Z");
    stage.put(job("minutely", "@minutely", |_| ()));
    stage.sim.advance(5 * MINUTE);
    assert_eq!(stage.rows("minutely").len(), 5);
    stage.sim.set_wall(time("2026-01-01T00:02:30Z").into());
    stage.sim.advance(10 * SECOND);
    stage.sim.advance(4 * MINUTE);
    let rows = stage.rows("minutely");
    assert_eq!(rows.len(), 6, "{rows:?}");
    assert_eq!(rows[5], "00:06:00 succeeded");
}

#[test]
fn times_of_a_forgotten_history_do_not_come_again_when_the_clock_is_set_back() {
    let stage = Stage::at("2026-01-01T00:00:30Z");
    stage.put(job("minutely", "@minutely", |_| ()));
    stage.sim.advance(5 * MINUTE);
    stage.wait(stage.jobs.forget("minutely")).expect("it is there");
    stage.sim.set_wall(time("2026-01-01T00:02:30Z").into());
    stage.sim.advance(10 * SECOND);
    stage.sim.advance(4 * MINUTE);
    assert_eq!(stage.rows("minutely"), ["00:06:00 succeeded"]);
    assert_eq!(stage.get("minutely").counts.success, 1);
}

#[test]
fn a_jump_ahead_misses_times_and_a_jump_back_makes_up_for_them() {
    let stage = Stage::at("2026-01-01T00:30:00Z");
    stage.put(job("hourly", "@hourly", |spec| spec.missed = Missed::None));
    stage.sim.set_wall(time("2026-01-01T04:30:00Z").into());
    stage.sim.advance(10 * SECOND);
    assert_eq!(stage.rows("hourly").len(), 4, "missed: {:?}", stage.rows("hourly"));
    stage.sim.set_wall(time("2026-01-01T00:31:00Z").into());
    stage.sim.advance(10 * SECOND);
    stage.sim.advance(HOUR);
    let mut rows = stage.rows("hourly");
    rows.sort();
    let expected = ["01:00:00 succeeded", "02:00:00 missed", "03:00:00 missed", "04:00:00 missed"];
    assert_eq!(rows, expected);
}

/// The launches of a job with a time each second that was away for eight: state and cause.
fn short_outage(edit: impl FnOnce(&mut JobSpec)) -> Vec<(LaunchState, Cause)> {
    let mut stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("often", "* * * * * *", edit));
    stage.sim.advance(Duration::from_millis(500));
    stage.outage(8 * SECOND);
    stage.sim.run_until_idle();
    stage.history("often").into_iter().map(|launch| (launch.state, launch.cause)).collect()
}

#[test]
fn the_times_of_a_short_outage_are_missed_too() {
    let (done, missed) = (LaunchState::Succeeded, LaunchState::Missed);
    let mut none = vec![(missed, Cause::Schedule); 7];
    none.push((done, Cause::Schedule));
    assert_eq!(short_outage(|spec| spec.missed = Missed::None), none, "the newest one is late");
    let mut latest = vec![(missed, Cause::Schedule); 7];
    latest.push((done, Cause::CatchUp));
    assert_eq!(short_outage(|_| ()), latest);
    let all = short_outage(|spec| {
        (spec.missed, spec.overlap) = (Missed::All(Span::seconds(3_600)), Overlap::Forbid);
    });
    assert_eq!(all, vec![(done, Cause::CatchUp); 8]);
    let mut window = vec![(missed, Cause::Schedule); 5];
    window.extend(vec![(done, Cause::CatchUp); 3]);
    assert_eq!(short_outage(|spec| spec.missed = Missed::All(Span::seconds(3))), window);
}

#[test]
fn one_time_of_a_short_outage_is_late() {
    let mut stage = Stage::at("2026-01-01T00:59:58Z");
    stage.put(job("nightly", "@hourly", |spec| spec.missed = Missed::None));
    stage.outage(8 * SECOND);
    stage.sim.run_until_idle();
    assert_eq!(stage.rows("nightly"), ["01:00:00 succeeded"]);
}

#[test]
fn deadlines_and_lateness_count_from_when_a_launch_is_due() {
    let mut stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("caught", "@hourly", |spec| {
        spec.deadline = Some(Span::seconds(5));
        set(spec, "takes", "2s");
    }));
    stage.outage(HOUR + 10 * MINUTE);
    stage.sim.advance(10 * SECOND);
    assert_eq!(stage.rows("caught"), ["01:00:00 succeeded"], "it was made up for");
    stage.put(job("spread", "@hourly", |spec| {
        (spec.jitter, spec.start_within) = (Span::seconds(600), Some(Span::seconds(1)));
        spec.deadline = Some(Span::seconds(5));
        set(spec, "takes", "2s");
    }));
    stage.sim.advance(HOUR);
    assert_eq!(stage.rows("spread"), ["02:00:00 succeeded"], "a jitter makes nothing late");
}

#[test]
fn a_queued_launch_does_not_begin_after_its_deadline() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(job("slow", "@manually", |spec| {
        (spec.deadline, spec.overlap) = (Some(Span::seconds(20)), Overlap::QueueAll);
        set(spec, "takes", "15s");
    }));
    for _ in 0..3 {
        stage.wait(stage.jobs.run("slow", "ann", false)).unwrap();
    }
    stage.sim.advance(MINUTE);
    let history = stage.history("slow");
    let states: Vec<LaunchState> = history.iter().map(|launch| launch.state).collect();
    let (done, ended, left) = (LaunchState::Succeeded, LaunchState::Failed, LaunchState::Skipped);
    assert_eq!(states, [done, ended, left]);
    assert!(history[2].runs.is_empty() && history[2].reason.contains("deadline of 20s passed"));
}

#[test]
fn all_missed_times_are_made_up_for_one_after_the_other_with_replace() {
    let mut stage = Stage::at("2026-01-01T00:00:30Z");
    stage.put(job("often", "@minutely", |spec| {
        (spec.missed, spec.overlap) = (Missed::All(Span::seconds(3_600)), Overlap::Replace);
        set(spec, "takes", "20s");
    }));
    stage.outage(5 * MINUTE + 15 * SECOND);
    stage.sim.advance(3 * MINUTE);
    let history = stage.history("often");
    let made_up: Vec<_> = history.iter().filter(|it| it.cause == Cause::CatchUp).collect();
    assert_eq!(made_up.len(), 5, "{:?}", stage.rows("often"));
    for launch in &made_up {
        assert_eq!(launch.state, LaunchState::Succeeded, "{}", launch.reason);
    }
    for pair in made_up.windows(2) {
        let (ended, began) = (pair[0].ended_at, pair[1].runs[0].started_at);
        assert!(pair[0].planned < pair[1].planned && ended <= began, "{pair:?}");
    }
    // Later times wait behind them, and replace one another as always.
    assert_eq!(history.last().map(|last| last.state), Some(LaunchState::Succeeded));
}

#[test]
fn the_latest_missed_time_replaces_what_runs() {
    let mut stage = Stage::at("2026-01-01T00:00:30Z");
    stage.put(job("often", "@minutely", |spec| {
        spec.overlap = Overlap::Replace;
        set(spec, "takes", "5m");
    }));
    stage.sim.advance(MINUTE);
    stage.outage(2 * MINUTE + 45 * SECOND);
    stage.sim.advance(SECOND);
    let states: Vec<LaunchState> = stage.history("often").iter().map(|it| it.state).collect();
    let (ended, missed, runs) = (LaunchState::Cancelled, LaunchState::Missed, LaunchState::Running);
    assert_eq!(states.first(), Some(&ended), "{states:?}");
    assert_eq!(states.last(), Some(&runs), "{states:?}");
    assert!(states.contains(&missed), "{states:?}");
}

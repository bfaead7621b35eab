//! Schedules: K-T001 to K-T024, as previews.

use turnwheel_engine::Time;
use turnwheel_jobs::{Dialect, Gap, Hash, JobSpec, Missed, Span};

use super::common::{job, time, Stage, SECOND};

/// The next times of a schedule at a moment, as text.
fn times(spec: &JobSpec, now: &str, count: usize) -> Vec<String> {
    let stage = Stage::at(now);
    let found = stage.jobs.preview(spec, count).expect("a schedule");
    found.iter().map(|next| next.planned.to_string()).collect()
}

fn plain(schedule: &str) -> JobSpec {
    job("test_job", schedule, |_| ())
}

fn zoned(schedule: &str, zone: &str, gap: Gap) -> JobSpec {
    job("test_job", schedule, |spec| {
        spec.timezone = zone.to_owned();
        spec.daylight_saving = gap;
    })
}

#[track_caller]
fn check(schedule: &str, now: &str, expected: &[&str]) {
    assert_eq!(times(&plain(schedule), now, expected.len()), expected, "{schedule}");
}

#[test]
fn at_is_that_instant() {
    check("@at 2026-01-01T10:00:00Z", "2025-12-01T00:00:00Z", &["2026-01-01T10:00:00Z"]);
    check("@at 2026-01-01T10:00:00+02:00", "2025-12-01T00:00:00Z", &["2026-01-01T08:00:00Z"]);
    assert!(times(&plain("@at 2018-01-01T00:00:00Z"), "2026-01-01T00:00:00Z", 1).is_empty());
}

#[test]
fn at_in_the_past_is_refused_unless_it_may_be_late() {
    let stage = Stage::at("2026-01-01T10:00:00Z");
    let late = |limit: Option<Span>| {
        job("once", "@at 2026-01-01T09:55:00Z", |spec| spec.start_within = limit)
    };
    let error = stage.refused(late(None));
    assert!(error.contains("has passed") && error.contains("start_within"), "{error}");
    assert!(stage.refused(late(Some(Span::seconds(60)))).contains("has passed"));
    stage.put(late(Some(Span::seconds(600))));
    stage.sim.run_until_idle();
    assert_eq!(stage.rows("once"), ["09:55:00 succeeded"]);
}

#[test]
fn manual_schedules_never_fire() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let view = stage.put(plain("@manually"));
    assert_eq!((view.next, view.problem), (None, None));
    stage.sim.advance(400 * 24 * 3_600 * SECOND);
    assert!(stage.rows("test_job").is_empty());
}

#[test]
fn short_names_are_patterns() {
    let now = "2026-03-04T05:06:07.5Z";
    check("@minutely", now, &["2026-03-04T05:07:00Z", "2026-03-04T05:08:00Z"]);
    check("@hourly", now, &["2026-03-04T06:00:00Z", "2026-03-04T07:00:00Z"]);
    check("@daily", now, &["2026-03-05T00:00:00Z", "2026-03-06T00:00:00Z"]);
    check("@midnight", now, &["2026-03-05T00:00:00Z"]);
    check("@weekly", now, &["2026-03-08T00:00:00Z", "2026-03-15T00:00:00Z"]);
    check("@monthly", now, &["2026-04-01T00:00:00Z", "2026-05-01T00:00:00Z"]);
    check("@yearly", now, &["2027-01-01T00:00:00Z"]);
    check("@annually", now, &["2027-01-01T00:00:00Z"]);
}

#[test]
fn five_fields_need_the_classic_dialect() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let error = stage.refused(plain("*/5 * * * *"));
    assert!(error.contains("has 5 fields and needs 6") && error.contains("classic"), "{error}");
    let classic = |schedule: &str| job("c", schedule, |spec| spec.dialect = Dialect::Classic);
    let now = "2026-01-01T00:00:00Z";
    let expected = ["2026-01-01T00:05:00Z", "2026-01-01T00:10:00Z"];
    assert_eq!(times(&classic("*/5 * * * *"), now, 2), expected);
    assert_eq!(times(&classic("30 */5 * * * *"), now, 1), ["2026-01-01T00:00:30Z"]);
    assert_eq!(times(&classic("0 0 * * 7"), now, 1), ["2026-01-04T00:00:00Z"], "a Sunday");
}

#[test]
fn fields_take_lists_ranges_steps_names_and_question_marks() {
    let now = "2026-01-01T00:00:00Z";
    check("0 0 9-17/4 * * *", now, &["2026-01-01T09:00:00Z", "2026-01-01T13:00:00Z"]);
    check("0 0 0 ? * MON,Wed", now, &["2026-01-05T00:00:00Z", "2026-01-07T00:00:00Z"]);
    check("0 0 0 1 feb-APR/2 ?", now, &["2026-02-01T00:00:00Z", "2026-04-01T00:00:00Z"]);
    check("50/5 * * * * *", now, &["2026-01-01T00:00:50Z", "2026-01-01T00:00:55Z"]);
    check("0 0 0 29 2 *", now, &["2028-02-29T00:00:00Z"]);
}

#[test]
fn wrong_fields_are_named() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    for (schedule, place) in [
        ("60 * * * * *", "field 1, the second, «60»"),
        ("* 60 * * * *", "field 2, the minute, «60»"),
        ("* * 24 * * *", "field 3, the hour, «24»"),
        ("* * * 0 * *", "field 4, the day of the month, «0»"),
        ("* * * * 13 *", "field 5, the month, «13»"),
        ("* * * * * 7", "field 6, the weekday, «7»: «7» is not from 0 to 6; Sunday is 0"),
        ("* * 5-3 * * *", "the range «5-3» ends before it begins"),
        ("*/0 * * * * *", "a step of 0"),
        ("*/x * * * * *", "«x» is no step"),
        ("* * * * * someday", "«someday»"),
        ("", "it is empty"),
        ("@often", "«@often» is unknown; known are @yearly"),
        ("@every soon", "write it as 90s, 15m or 1h30m"),
        ("@every -5s", "is no length of time"),
        ("@at tomorrow", "is no time"),
        ("TZ=Mars/Base * * * * * *", "the zone «Mars/Base» is unknown"),
        ("TZ=UTC", "after TZ= comes a zone and then the schedule"),
    ] {
        let error = stage.refused(plain(schedule));
        assert!(error.contains(place), "{schedule}: {error}");
        assert!(error.starts_with("job «test_job», schedule"), "{error}");
    }
}

#[test]
fn restricted_day_fields_fit_either_and_free_ones_do_not_count() {
    let now = "2026-01-01T00:00:00Z";
    // Fridays, and every 13th.
    let both = ["2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z", "2026-01-13T00:00:00Z"];
    check("0 0 0 13 * 5", now, &both);
    check("0 0 0 13 * *", now, &["2026-01-13T00:00:00Z", "2026-02-13T00:00:00Z"]);
    check("0 0 0 * * 5", now, &["2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z"]);
}

#[test]
fn patterns_without_a_time_say_so() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let view = stage.put(plain("0 0 0 30 2 *"));
    assert_eq!(view.next, None);
    assert!(view.problem.expect("it says so").contains("never fires"));
}

#[test]
fn periods_are_whole_seconds_from_a_stored_start() {
    let now = "2026-01-01T00:00:00.7Z";
    check("@every 500ms", now, &["2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"]);
    check("@every 1500ms", now, &["2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"]);
    check("@every 2s", now, &["2026-01-01T00:00:02Z", "2026-01-01T00:00:04Z"]);
    check("@every 1h30m", now, &["2026-01-01T01:30:00Z", "2026-01-01T03:00:00Z"]);
    let mut stage = Stage::at("2026-01-01T00:00:07Z");
    stage.put(job("often", "@every 1m", |spec| spec.missed = Missed::None));
    stage.outage(95 * SECOND);
    assert_eq!(stage.get("often").next, Some(time("2026-01-01T00:02:07Z")), "the phase is kept");
}

#[test]
fn editing_other_settings_keeps_the_phase() {
    let stage = Stage::at("2026-01-01T00:00:07Z");
    stage.put(plain("@every 1m"));
    stage.sim.advance(90 * SECOND);
    let view = stage.put(job("test_job", "@every 1m", |spec| spec.owner = "ann".to_owned()));
    assert_eq!(view.next, Some(time("2026-01-01T00:02:07Z")));
}

#[test]
fn the_legacy_hash_gives_the_values_of_dkron() {
    let legacy = |schedule: &str| job("test_job", schedule, |spec| spec.hash = Hash::Legacy);
    let now = "2026-01-01T00:00:00Z";
    assert_eq!(times(&legacy("0 0 ~ * * *"), now, 1), ["2026-01-01T18:00:00Z"]);
    let madrid = legacy("TZ=Europe/Madrid 0 0 1 * ~ *");
    assert_eq!(times(&madrid, now, 1), ["2026-06-30T23:00:00Z"], "the first of July, 1 o'clock");
}

#[test]
fn tildes_spread_with_a_real_hash() {
    let now = "2026-01-01T00:00:00Z";
    let quarter = times(&plain("0 ~/15 * * * *"), now, 5);
    let minutes: Vec<u32> = quarter.iter().map(|at| at[14..16].parse().unwrap()).collect();
    assert_eq!(minutes[1], minutes[0] + 15, "{quarter:?}");
    assert_eq!((minutes[0] + 60) % 60, minutes[4], "the offset is stable");
    let hour = |name: &str| {
        let spec = job(name, "0 0 ~ * * *", |_| ());
        times(&spec, now, 1)[0][11..13].parse::<usize>().unwrap()
    };
    assert_ne!((hour("abc"), hour("abd")), (hour("cba"), hour("dba")), "anagrams differ");
    let stage = Stage::at(now);
    let mut hours = [0; 24];
    for number in 0..480 {
        let spec = job(&format!("job-{number}"), "0 0 ~ * * *", |_| ());
        let at = stage.jobs.preview(&spec, 1).unwrap()[0].planned.to_string();
        hours[at[11..13].parse::<usize>().unwrap()] += 1;
    }
    assert!(hours.iter().all(|count| (5..50).contains(count)), "{hours:?}");
}

#[test]
fn a_zone_counts_for_all_forms() {
    let now = "2026-07-01T12:00:00Z";
    for schedule in ["@daily", "0 0 0 * * *"] {
        let spec = zoned(schedule, "Europe/Madrid", Gap::First);
        assert_eq!(times(&spec, now, 1), ["2026-07-01T22:00:00Z"], "{schedule}");
    }
    for prefix in ["TZ=Europe/Madrid @daily", "CRON_TZ=Europe/Madrid 0 0 0 * * *"] {
        check(prefix, now, &["2026-07-01T22:00:00Z"]);
    }
    let stage = Stage::at(now);
    let view = stage.put(zoned("@every 2s", "Europe/Amsterdam", Gap::First));
    assert_eq!(view.next, Some(time("2026-07-01T12:00:02Z")));
    stage.sim.advance(2 * SECOND);
    assert_eq!(stage.rows("test_job"), ["12:00:02 succeeded"], "once");
    let both = zoned("TZ=Europe/Paris @daily", "Europe/Madrid", Gap::First);
    assert!(stage.refused(both).contains("give one"));
}

#[test]
fn times_in_the_spring_gap_follow_the_policy() {
    // 2 to 3 o'clock does not exist on the 29th.
    let now = "2026-03-28T12:00:00Z";
    let at = |gap| times(&zoned("0 30 2 * * *", "Europe/Berlin", gap), now, 2);
    assert_eq!(at(Gap::First), ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]);
    assert_eq!(at(Gap::Shift), ["2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"]);
    assert_eq!(at(Gap::Skip), ["2026-03-30T00:30:00Z", "2026-03-31T00:30:00Z"]);
    let often = |gap| times(&zoned("0 */20 2 * * *", "Europe/Berlin", gap), now, 3);
    let once = ["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z", "2026-03-30T00:20:00Z"];
    assert_eq!(often(Gap::First), once, "once for all of them");
    let each = ["2026-03-29T01:00:00Z", "2026-03-29T01:20:00Z", "2026-03-29T01:40:00Z"];
    assert_eq!(often(Gap::Shift), each);
    let hourly = zoned("0 15 * * * *", "Europe/Berlin", Gap::First);
    let expected = ["2026-03-29T00:15:00Z", "2026-03-29T01:15:00Z"];
    assert_eq!(times(&hourly, "2026-03-29T00:00:00Z", 2), expected, "intervals leave it out");
}

#[test]
fn times_in_the_repeated_hour_fire_once_and_intervals_twice() {
    // 2 to 3 o'clock comes twice on the 25th.
    let fixed = zoned("0 30 2 * * *", "Europe/Berlin", Gap::First);
    let expected = ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"];
    assert_eq!(times(&fixed, "2026-10-24T12:00:00Z", 2), expected);
    let between = ["2026-10-26T01:30:00Z"];
    assert_eq!(times(&fixed, "2026-10-25T00:45:00Z", 1), between, "not the second one");
    let interval = zoned("0 0/30 * * * *", "Europe/Berlin", Gap::First);
    let interval = JobSpec { schedule: "0 */30 * * * *".to_owned(), ..interval };
    let expected = [
        "2026-10-25T00:00:00Z",
        "2026-10-25T00:30:00Z",
        "2026-10-25T01:00:00Z",
        "2026-10-25T01:30:00Z",
    ];
    assert_eq!(times(&interval, "2026-10-24T23:30:00Z", 4), expected);
}

#[test]
fn dates_bound_the_times() {
    let bounded = job("b", "0 0 0 * * *", |spec| {
        spec.starts_at = Some(time("2026-02-10T00:00:00Z"));
        spec.expires_at = Some(time("2026-02-12T00:00:00Z"));
    });
    let found = times(&bounded, "2026-01-01T00:00:00Z", 9);
    let days = ["2026-02-10T00:00:00Z", "2026-02-11T00:00:00Z", "2026-02-12T00:00:00Z"];
    assert_eq!(found, days, "the begin itself is a time");
}

#[test]
fn jitter_is_stable_and_within_its_limit() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let spec = job("j", "@hourly", |spec| spec.jitter = Span::seconds(600));
    let next = stage.put(spec).next.expect("it fires");
    assert!((time("2026-01-01T01:00:00Z")..time("2026-01-01T01:10:00Z")).contains(&next));
    stage.sim.advance(2 * 3_600 * SECOND);
    let first = stage.history("j")[0].clone();
    assert_eq!((first.planned, first.decided), (time("2026-01-01T01:00:00Z"), next));
}

#[test]
fn the_next_launches_are_told_with_their_jitter_and_with_one_that_waits_for_it() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let spec = job("j", "@every 1m", |spec| spec.jitter = Span::seconds(50));
    let preview = stage.jobs.preview(&spec, 5).expect("a schedule");
    stage.put(spec.clone());
    let next = |count| stage.wait(stage.jobs.next("j", count)).expect("it is there");
    let told = next(5);
    assert_eq!(told, preview, "the settings alone say the same");
    assert!(told.iter().any(|next| next.begins > next.planned));
    assert_eq!(stage.get("j").next, Some(told[0].begins));
    // After its time, and before its jitter is over.
    let waits = told.iter().find(|next| next.begins.since(next.planned) > SECOND).expect("one");
    stage.sim.advance(waits.begins.since(stage.sim.wall().into()) - SECOND);
    assert_eq!(next(1), [*waits]);
    stage.sim.advance(5 * 60 * SECOND);
    let rows = stage.history("j");
    let rows: Vec<_> = rows.iter().map(|it| (it.planned, it.runs[0].started_at)).collect();
    let told: Vec<_> = told.iter().map(|next| (next.planned, Some(next.begins))).collect();
    assert_eq!(rows[..5], told);
    // Of a job that is off those that it would have are told.
    stage.put(JobSpec { disabled: true, ..spec });
    let (now, off) = (Time::from(stage.sim.wall()), next(1)[0]);
    assert!(off.planned > now && off.begins >= off.planned, "{off:?}");
}

#[test]
fn no_launch_is_missed_because_it_waits_behind_the_jitter_of_another_one() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let long = |spec: &mut JobSpec| {
        (spec.jitter, spec.missed) = (Span::seconds(300), Missed::None);
    };
    stage.put(job("j", "@every 20s", long));
    stage.sim.advance(1_800 * SECOND);
    let rows = stage.history("j");
    let mut planned: Vec<Time> = rows.iter().map(|launch| launch.planned).collect();
    planned.sort_unstable();
    assert!(planned.len() > 70, "{} launches", planned.len());
    let gaps = planned.windows(2).filter(|two| two[1].since(two[0]) != 20 * SECOND).count();
    let left_out = rows.iter().filter(|launch| launch.runs.is_empty()).count();
    assert_eq!((gaps, left_out), (0, 0));
}

#[test]
fn odd_patterns_have_the_times_that_their_text_says() {
    let now = "2026-02-27T23:59:59Z";
    check("59 59 23 31 * *", now, &["2026-03-31T23:59:59Z", "2026-05-31T23:59:59Z"]);
    check("0 0 0 */10 * *", now, &["2026-03-01T00:00:00Z", "2026-03-11T00:00:00Z"]);
    check("0 0 12 1 1 SUN", now, &["2027-01-01T12:00:00Z", "2027-01-03T12:00:00Z"]);
    check("0 0 0 * * 1-5", now, &["2026-03-02T00:00:00Z", "2026-03-03T00:00:00Z"]);
    check("0,30 0 0 1,15 * ?", now, &["2026-03-01T00:00:00Z", "2026-03-01T00:00:30Z"]);
    check("0 0 0 29 feb *", now, &["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]);
    check("CRON_TZ=Asia/Kolkata 0 30 5 * * *", now, &["2026-02-28T00:00:00Z"]);
    check("TZ=America/New_York @monthly", now, &["2026-03-01T05:00:00Z", "2026-04-01T04:00:00Z"]);
    check("  TZ=UTC   0  0  0  *  *  * ", now, &["2026-02-28T00:00:00Z"]);
    // The last second of a year, and the first of the next one.
    check(
        "* * * * * *",
        "2026-12-31T23:59:58.9Z",
        &["2026-12-31T23:59:59Z", "2027-01-01T00:00:00Z"],
    );
}

#[test]
fn tildes_with_steps_lists_and_zones_keep_their_places() {
    let now = "2026-01-01T00:00:00Z";
    for name in ["a", "report", "job-17", "бэкап"] {
        let spec = |schedule: &str| job(name, schedule, |_| ());
        let hour = times(&spec("~ ~/20 * * * *"), now, 6);
        let minutes: Vec<u32> = hour.iter().map(|at| at[14..16].parse().unwrap()).collect();
        assert!(minutes[0] < 20, "{name}: {minutes:?}");
        assert_eq!(minutes[1], minutes[0] + 20, "{name}: {minutes:?}");
        assert_eq!(minutes[..3], minutes[3..], "{name}: the same in each hour");
        let second = &hour[0][17..19];
        assert!(hour.iter().all(|at| &at[17..19] == second), "{name}: {hour:?}");
        // The value is one of the field whatever else stands in it, and the zone changes no value.
        let alone = times(&spec("0 ~ 3 * * *"), now, 1).remove(0);
        let zoned = times(&spec("TZ=Europe/Madrid 0 ~ 3 * * *"), now, 1).remove(0);
        assert_eq!(alone[14..16], zoned[14..16], "{name}");
        let day = times(&spec("0 0 0 ~ * *"), now, 12);
        let days: Vec<&str> = day.iter().map(|at| &at[8..10]).collect();
        assert!(days.iter().all(|day| *day == days[0]), "{name}: each month has it: {days:?}");
        assert!(times(&spec("0 0 0 ~ ~ *"), now, 2).len() == 2, "{name}");
    }
}

#[test]
fn zones_that_move_their_clocks_at_odd_places_lose_and_double_no_day() {
    // Lord Howe moves by half an hour, Cairo at midnight, Apia has left out a whole day.
    let lord = zoned("0 15 2 * * *", "Australia/Lord_Howe", Gap::First);
    assert_eq!(
        times(&lord, "2026-10-02T15:00:00Z", 2),
        ["2026-10-02T15:45:00Z", "2026-10-03T15:30:00Z"],
        "the gap is from 2:00 to 2:30"
    );
    let cairo = zoned("@daily", "Africa/Cairo", Gap::First);
    assert_eq!(
        times(&cairo, "2026-04-22T22:00:00Z", 2),
        ["2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z"],
        "midnight of the 24th is left out, its first moment is 1:00"
    );
    let apia = zoned("0 0 12 30 12 *", "Pacific/Apia", Gap::Skip);
    assert_eq!(times(&apia, "2011-12-01T00:00:00Z", 1), ["2012-12-29T22:00:00Z"]);
    let repeated = zoned("0 30 1 * * *", "America/New_York", Gap::First);
    assert_eq!(
        times(&repeated, "2026-10-31T06:00:00Z", 2),
        ["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"],
        "once in the repeated hour"
    );
}

#[test]
fn the_begin_and_the_end_of_a_job_are_times_of_it() {
    let bounded = |schedule: &str| {
        job("test_job", schedule, |spec| {
            spec.starts_at = Some(time("2026-01-10T00:00:00Z"));
            spec.expires_at = Some(time("2026-01-12T00:00:00Z"));
        })
    };
    let days = ["2026-01-10T00:00:00Z", "2026-01-11T00:00:00Z", "2026-01-12T00:00:00Z"];
    assert_eq!(times(&bounded("@daily"), "2026-01-01T00:00:00Z", 9), days);
    assert!(times(&bounded("@daily"), "2026-01-12T00:00:00Z", 9).is_empty());
    assert!(times(&bounded("@at 2026-01-09T00:00:00Z"), "2026-01-01T00:00:00Z", 9).is_empty());
    let every = times(&bounded("@every 24h"), "2026-01-01T06:00:00Z", 9);
    assert_eq!(every, ["2026-01-10T06:00:00Z", "2026-01-11T06:00:00Z"], "counted from its start");
}

//! The times of schedules: periods, patterns, zones, daylight saving, and what is wrong with them.

use std::time::Duration;

use croner::parser::CronParser;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, Zoned};
use turnwheel_engine::schedule::Schedule;
use turnwheel_engine::{ScheduleError, Time};

fn time(text: &str) -> Time {
    let zoned: Timestamp = text.parse().expect("a time");
    Time(u64::try_from(zoned.as_microsecond()).expect("after 1970"))
}

fn text(time: Time) -> String {
    let us = i64::try_from(time.0).expect("before the year 9999");
    Timestamp::from_microsecond(us).expect("before the year 9999").to_string()
}

/// The first times of a pattern in a zone.
fn times(pattern: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let schedule = Schedule::cron("times", pattern).expect("a pattern").zone(zone);
    let times = schedule.times(time(after), count).expect("a zone");
    times.into_iter().map(text).collect()
}

#[test]
fn periods_are_counted_from_the_begin_of_1970() {
    let every = Schedule::every("often", Duration::from_secs(900));
    let found = every.times(time("2026-03-01T10:07:00Z"), 2).unwrap();
    assert_eq!(found, [time("2026-03-01T10:15:00Z"), time("2026-03-01T10:30:00Z")]);
    let later = every.offset(Duration::from_secs(60));
    let found = later.times(time("2026-03-01T10:16:00Z"), 1).unwrap();
    assert_eq!(found, [time("2026-03-01T10:31:00Z")], "the time itself is not after it");
    let first = Schedule::every("late", Duration::from_secs(10)).offset(Duration::from_secs(3));
    assert_eq!(first.times(Time(0), 2).unwrap(), [Time(3_000_000), Time(13_000_000)]);
}

#[test]
fn seconds_are_optional() {
    let expected = ["2026-03-01T00:01:00Z", "2026-03-01T00:02:00Z"];
    assert_eq!(times("* * * * *", "UTC", "2026-03-01T00:00:00Z", 2), expected);
    assert_eq!(times("0 * * * * *", "UTC", "2026-03-01T00:00:00Z", 2), expected);
    let expected = ["2026-03-01T00:00:20Z", "2026-03-01T00:00:40Z", "2026-03-01T00:01:00Z"];
    assert_eq!(times("*/20 * * * * *", "UTC", "2026-03-01T00:00:00.5Z", 3), expected);
    assert_eq!(times("@daily", "UTC", "2026-03-01T00:00:00Z", 1), ["2026-03-02T00:00:00Z"]);
    assert_eq!(
        times("0 9 * * MON-FRI", "UTC", "2026-02-27T09:00:00Z", 1),
        ["2026-03-02T09:00:00Z"]
    );
    assert_eq!(times("0 0 L * *", "UTC", "2028-02-01T00:00:00Z", 1), ["2028-02-29T00:00:00Z"]);
}

#[test]
fn a_time_of_day_that_is_left_out_comes_after_the_gap() {
    // From 2 to 3 o'clock.
    let berlin = ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"];
    assert_eq!(times("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z", 3), berlin);
    let new_york = ["2026-03-07T07:30:00Z", "2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"];
    assert_eq!(times("30 2 * * *", "America/New_York", "2026-03-07T00:00:00Z", 3), new_york);
    // From 2:00 to 2:30, in the half hour that this island moves by.
    let lord_howe = ["2026-10-02T15:45:00Z", "2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"];
    assert_eq!(times("15 2 * * *", "Australia/Lord_Howe", "2026-10-02T00:00:00Z", 3), lord_howe);
    // From midnight to 1 o'clock: the day begins at 1.
    let santiago = ["2026-09-05T04:00:00Z", "2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z"];
    assert_eq!(times("0 0 * * *", "America/Santiago", "2026-09-05T00:00:00Z", 3), santiago);
}

#[test]
fn a_time_of_day_that_comes_twice_is_taken_once() {
    let berlin = ["2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"];
    assert_eq!(times("30 2 * * *", "Europe/Berlin", "2026-10-24T00:00:00Z", 3), berlin);
    let new_york = ["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"];
    assert_eq!(times("30 1 * * *", "America/New_York", "2026-11-01T00:00:00Z", 2), new_york);
    let lord_howe = ["2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"];
    assert_eq!(times("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T14:00:00Z", 2), lord_howe);
}

#[test]
fn intervals_leave_out_what_is_left_out_and_come_twice() {
    let spring = ["2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"];
    assert_eq!(times("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 3), spring);
    let autumn = ["2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z"];
    assert_eq!(times("*/30 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", 3), autumn);
    // Every minute of the hour that comes twice, and none of the one that is left out.
    let count = |pattern: &str, zone: &str, from: &str, until: &str| {
        let schedule = Schedule::cron("count", pattern).unwrap().zone(zone);
        let all = schedule.times(time(from), 10_000).unwrap();
        all.into_iter().filter(|at| *at <= time(until)).count()
    };
    let day = ("2026-11-01T03:59:59Z", "2026-11-02T04:59:59Z");
    assert_eq!(count("* 1 * * *", "America/New_York", day.0, day.1), 120);
    let day = ("2026-03-08T04:59:59Z", "2026-03-09T03:59:59Z");
    assert_eq!(count("* 2 * * *", "America/New_York", day.0, day.1), 0);
    let day = ("2026-04-04T12:59:59Z", "2026-04-05T13:29:59Z");
    assert_eq!(count("* * * * *", "Australia/Lord_Howe", day.0, day.1), 24 * 60 + 30);
}

#[test]
fn a_day_that_a_zone_leaves_out_has_no_launches() {
    // Samoa went from the 29th to the 31st.
    let found = times("0 12 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z", 3);
    assert_eq!(found, ["2011-12-29T22:00:00Z", "2011-12-30T22:00:00Z", "2011-12-31T22:00:00Z"]);
    assert_eq!(
        times("0 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", 1),
        ["2012-12-29T22:00:00Z"]
    );
}

#[test]
fn times_come_to_an_end() {
    assert!(times("0 0 30 2 *", "UTC", "2026-01-01T00:00:00Z", 1).is_empty());
    assert!(times("0 0 0 1 1 * 2020", "UTC", "2026-01-01T00:00:00Z", 1).is_empty());
    let once = Schedule::at("once", time("2026-03-01T00:00:00Z"));
    assert_eq!(once.times(time("2026-02-01T00:00:00Z"), 5).unwrap().len(), 1);
    assert!(once.times(time("2026-03-01T00:00:00Z"), 5).unwrap().is_empty());
    assert!(Schedule::manual("never").times(Time(0), 5).unwrap().is_empty());
    let often = Schedule::every("often", Duration::from_secs(1));
    assert!(often.times(Time(u64::MAX), 5).unwrap().is_empty(), "time is over");
    assert!(times_of("* * * * *", Time(u64::MAX)).is_empty(), "time is over");
}

#[test]
fn a_preview_has_an_end() {
    let often = Schedule::every("often", Duration::from_secs(1));
    assert_eq!(often.times(Time(0), usize::MAX).unwrap().len(), 100_000);
}

fn times_of(pattern: &str, after: Time) -> Vec<Time> {
    Schedule::cron("times", pattern).expect("a pattern").times(after, 5).expect("a zone")
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let refused = |pattern: &str| Schedule::cron("wrong", pattern).unwrap_err().to_string();
    for (pattern, place) in [
        ("0 25 * * *", "field 2, the hour, «25»"),
        ("61 * * * * *", "field 1, the second, «61»"),
        ("* * 32 * *", "field 3, the day of the month, «32»"),
        ("* * * FOO *", "field 4, the month, «FOO»"),
        ("* * * * 9", "field 5, the day of the week, «9»"),
        ("*/0 * * * *", "field 1, the minute, «*/0»"),
        ("5-1 * * * *", "field 1, the minute, «5-1»"),
        ("0 0 0 1 1 * 99999", "field 7, the year, «99999»"),
        ("* * *", "the text has 3 fields and needs 5"),
        ("", "the text has 0 fields"),
        ("@fortnightly", "the name is unknown; known are @yearly"),
        ("1 2 3 4 5 6 7 8", "the text has 8 fields"),
    ] {
        let message = refused(pattern);
        assert!(message.contains(place), "{pattern}: {message}");
    }
    assert!(refused(&"1,".repeat(200)).contains("longer than 256 bytes"));
    let nowhere = Schedule::cron("x", "* * * * *").unwrap().zone("Europe/Nowhere");
    let error = nowhere.times(Time(0), 1).unwrap_err();
    assert!(matches!(&error, ScheduleError::UnknownZone { zone } if zone == "Europe/Nowhere"));
    assert!(error.to_string().contains("IANA"), "{error}");
    let needless = Schedule::every("x", Duration::from_secs(60)).zone("UTC");
    assert!(matches!(needless.times(Time(0), 1), Err(ScheduleError::NeedlessZone { .. })));
    for period in [Duration::ZERO, Duration::from_millis(999), Duration::MAX] {
        let never = Schedule::every("x", period).times(Time(0), 1);
        assert!(matches!(never, Err(ScheduleError::NoPeriod)), "{period:?}");
    }
}

/// Numbers that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn field(&mut self, from: u64, to: u64) -> String {
        let (a, b) = (from + self.below(to - from + 1), from + self.below(to - from + 1));
        match self.below(5) {
            0 => "*".to_owned(),
            1 => format!("*/{}", 1 + self.below(to / 2)),
            2 => format!("{}-{}", a.min(b), a.max(b)),
            3 => format!("{a},{b}"),
            _ => a.to_string(),
        }
    }
}

/// The naive way: is this minute one of the pattern? For a time of day, the first one of those that
/// come twice, and the first moment after a gap that has left the time out.
fn is_due(cron: &croner::Cron, is_time_of_day: bool, minute: &Zoned) -> bool {
    let zone = minute.time_zone();
    let is_second = || {
        let both = zone.to_ambiguous_zoned(minute.datetime());
        matches!(both.offset(), AmbiguousOffset::Fold { .. })
            && both.earlier().expect("a time") != *minute
    };
    if cron.is_time_matching(minute).expect("a time") {
        return !is_time_of_day || !is_second();
    }
    if !is_time_of_day {
        return false;
    }
    let mut before = minute.datetime();
    loop {
        before = before.checked_sub(jiff::Span::new().minutes(1)).expect("a time");
        let local = zone.to_ambiguous_zoned(before);
        if !matches!(local.offset(), AmbiguousOffset::Gap { .. }) {
            return false;
        }
        if cron.is_time_matching(&before).expect("a time") && before.date() == minute.date() {
            return true;
        }
    }
}

#[test]
fn the_next_time_is_what_a_naive_scan_finds() {
    let zones = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago"];
    // Days around each change of the clocks of these zones in 2026.
    let days = ["2026-03-07", "2026-03-28", "2026-04-04", "2026-09-05", "2026-10-03", "2026-10-24"];
    let mut numbers = Numbers(42);
    let mut found = 0;
    for round in 0..72 {
        let hour = if round % 2 == 0 { numbers.below(4).to_string() } else { numbers.field(0, 5) };
        let minute =
            if round % 2 == 0 { numbers.below(60).to_string() } else { numbers.field(0, 59) };
        let day_of_week = if round % 5 == 0 { numbers.field(0, 6) } else { "*".to_owned() };
        let pattern = format!("{minute} {hour} * * {day_of_week}");
        let zone = zones[round % zones.len()];
        let day = days[(round / 4) % days.len()];
        let cron = CronParser::new().parse(&pattern).unwrap();
        let is_time_of_day = [&minute, &hour].iter().all(|field| field.parse::<u64>().is_ok());
        let begin: Timestamp = format!("{day}T00:00:00Z").parse().unwrap();
        let tz = TimeZone::get(zone).unwrap();
        let mut naive = Vec::new();
        for minute in 1..=(2 * 24 * 60) {
            let at = begin + jiff::Span::new().minutes(minute);
            if is_due(&cron, is_time_of_day, &at.to_zoned(tz.clone())) {
                naive.push(at.to_string());
            }
        }
        let end = begin + jiff::Span::new().minutes(2 * 24 * 60);
        let ours = times(&pattern, zone, &begin.to_string(), 3_000);
        let ours: Vec<String> =
            ours.into_iter().filter(|at| at.parse::<Timestamp>().unwrap() <= end).collect();
        assert_eq!(ours, naive, "{pattern} in {zone} from {day}");
        found += ours.len();
    }
    assert!(found > 500, "the patterns have times: {found}");
}

//! Schedules in a simulation: what they launch, and when.

use std::time::Duration;

use turnwheel_engine::schedule::{CatchUp, Occasion, Overlap, Schedule};
use turnwheel_engine::{Next, PlanResult, ScheduleError, Time};

use crate::common::calendar::{
    ask, every, get, launches, plans, put, set_clock, theatre_at, time, HOUR, MINUTE,
};
use crate::common::Piece;

#[test]
fn launches_come_at_their_times_and_are_remembered() {
    let theatre = theatre_at("2026-03-01T00:20:00Z");
    let view = put(&theatre, every("hourly", HOUR, "a"));
    assert_eq!(view.next, Some(time("2026-03-01T01:00:00Z")));
    assert_eq!((view.last.clone(), view.counts.launched), (None, 0));
    theatre.sim.advance(39 * MINUTE);
    assert!(theatre.script.said().is_empty(), "it is too early");
    theatre.sim.advance(MINUTE);
    assert_eq!(theatre.script.said(), ["a", "finalize a"]);
    theatre.sim.advance(2 * HOUR);
    let view = get(&theatre, "hourly");
    assert_eq!(launches(&view), ["01:00 launched", "02:00 launched", "03:00 launched"]);
    assert_eq!(view.counts.launched, 3);
    assert_eq!(view.next, Some(time("2026-03-01T04:00:00Z")));
    assert_eq!(view.running, []);
    let last = view.last.expect("it was launched");
    assert_eq!((last.planned, last.occasion), (time("2026-03-01T03:00:00Z"), Occasion::OnTime));
    // The plan says where it comes from, and is found by its key.
    let key = format!("schedule/hourly/{}", last.planned);
    let found = theatre.sim.block_on(theatre.world.find(&key)).unwrap().unwrap();
    let plan = theatre.finished(&found.expect("the key is taken"));
    assert_eq!(Some(plan.id), last.plan());
    assert_eq!(plan.result(), PlanResult::Success);
    assert_eq!(plan.created.by, "schedule hourly");
    assert_eq!(plan.created.labels[0], ("schedule".to_owned(), "hourly".to_owned()));
    let next = ask(&theatre, |all| all.next("hourly", 2)).unwrap();
    assert_eq!(next, [time("2026-03-01T04:00:00Z"), time("2026-03-01T05:00:00Z")]);
}

#[test]
fn a_year_of_nights() {
    let theatre = theatre_at("2026-01-01T00:00:00Z");
    let nightly = Schedule::cron("nightly", "30 2 * * *").unwrap().zone("Europe/Berlin");
    put(&theatre, nightly.action::<Piece>(&"a".to_owned()).unwrap());
    theatre.sim.advance(365 * 24 * HOUR);
    let view = get(&theatre, "nightly");
    assert_eq!((view.counts.launched, view.counts.missed, view.counts.skipped), (365, 0, 0));
    assert_eq!(plans(&theatre).len(), 365);
    assert!(plans(&theatre).iter().all(|plan| plan.result == PlanResult::Success));
    theatre.sim.assert_no_failures();
}

#[test]
fn a_schedule_goes_on_with_the_next_world() {
    let theatre = theatre_at("2026-03-01T00:20:00Z");
    let before = put(&theatre, every("hourly", HOUR, "a"));
    theatre.sim.advance(2 * HOUR);
    let theatre = theatre.crash();
    let view = get(&theatre, "hourly");
    assert_eq!(view.counts.launched, 2);
    assert_eq!(view.created_at, before.created_at);
    theatre.sim.advance(HOUR);
    assert_eq!(launches(&get(&theatre, "hourly")).len(), 3);
    // Putting what is known already changes nothing.
    let again = put(&theatre, every("hourly", HOUR, "a"));
    assert_eq!(again, get(&theatre, "hourly"));
    let changed = put(&theatre, every("hourly", 2 * HOUR, "b"));
    assert_eq!(changed.counts.launched, 3);
    theatre.script.said();
    theatre.sim.advance(2 * HOUR);
    assert_eq!(theatre.script.said(), ["b", "finalize b"]);
    // Removed, it stays so.
    ask(&theatre, |all| all.remove("hourly")).unwrap();
    theatre.sim.advance(5 * HOUR);
    assert!(theatre.script.said().is_empty());
    let theatre = theatre.crash();
    let unknown = ask(&theatre, |all| all.get("hourly")).unwrap_err();
    assert!(matches!(unknown, ScheduleError::Unknown(name) if name == "hourly"));
    assert!(ask(&theatre, |all| all.list("", 10)).unwrap().is_empty());
}

/// What an hourly schedule whose plans take 90 minutes does in five hours.
fn overlapping(overlap: Overlap) -> (Vec<String>, Vec<PlanResult>) {
    let theatre = theatre_at("2026-03-01T00:00:00Z");
    theatre.script.on("a", |step| {
        if step.has_event() {
            return Ok(Next::Done);
        }
        step.event_after(90 * MINUTE, &())?;
        Ok(Next::suspend("an hour and a half"))
    });
    put(&theatre, every("often", HOUR, "a").overlap(overlap));
    theatre.sim.advance(5 * HOUR + 10 * MINUTE);
    let results = plans(&theatre).iter().map(|plan| plan.result).collect();
    (launches(&get(&theatre, "often")), results)
}

#[test]
fn overlaps_are_dealt_with_as_the_policy_says() {
    use PlanResult::{Cancelled, Pending, Success};
    let (launches, results) = overlapping(Overlap::Allow);
    let at = |time: &str, what: &str| format!("{time} {what}");
    let launched = |time: &str| at(time, "launched");
    assert_eq!(launches, ["01:00", "02:00", "03:00", "04:00", "05:00"].map(launched));
    assert_eq!(results, [Success, Success, Success, Pending, Pending]);

    let (launches, results) = overlapping(Overlap::Forbid);
    let skipped = |time: &str| at(time, "skipped");
    let expected = [launched("01:00"), skipped("02:00"), launched("03:00"), skipped("04:00")];
    assert_eq!(launches[..4], expected);
    assert_eq!(results, [Success, Success, Pending]);

    // At 1:00, 2:30 and 4:00; what was planned for 4:00 and 5:00 waits.
    let (launches, results) = overlapping(Overlap::Queue);
    assert_eq!(launches, ["01:00", "02:00", "03:00"].map(launched));
    assert_eq!(results, [Success, Success, Pending]);

    let (launches, results) = overlapping(Overlap::Replace);
    assert_eq!(launches, ["01:00", "02:00", "03:00", "04:00", "05:00"].map(launched));
    assert_eq!(results, [Cancelled, Cancelled, Cancelled, Cancelled, Pending]);
}

/// What an hourly schedule does that was away from 1:30 to 6:10.
fn missing(catch_up: CatchUp) -> (Vec<String>, u64) {
    let theatre = theatre_at("2026-03-01T00:30:00Z");
    put(&theatre, every("hourly", HOUR, "a").catch_up(catch_up));
    theatre.sim.advance(HOUR);
    set_clock(&theatre.sim, "2026-03-01T06:10:00Z");
    let theatre = theatre.crash();
    theatre.sim.advance(HOUR);
    let view = get(&theatre, "hourly");
    assert_eq!(plans(&theatre).len() as u64, view.counts.launched);
    (launches(&view), view.counts.missed)
}

#[test]
fn missed_times_are_made_up_for_as_the_policy_says() {
    let (launches, missed) = missing(CatchUp::None);
    assert_eq!(launches, ["01:00 launched", "07:00 launched"]);
    assert_eq!(missed, 5);

    let (launches, missed) = missing(CatchUp::Latest);
    assert_eq!(launches, ["01:00 launched", "06:00 launched late", "07:00 launched"]);
    assert_eq!(missed, 4);

    let (launches, missed) = missing(CatchUp::all_within(3 * HOUR));
    let late = ["04:00 launched late", "05:00 launched late", "06:00 launched late"];
    assert_eq!(launches[1..4], late);
    assert_eq!((launches.len(), missed), (5, 2));

    let (launches, missed) = missing(CatchUp::all_within(Duration::MAX));
    assert_eq!((launches.len(), missed), (7, 0));
}

#[test]
fn a_launch_that_is_only_late_is_not_missed() {
    for catch_up in [CatchUp::None, CatchUp::Latest, CatchUp::all_within(HOUR)] {
        let theatre = theatre_at("2026-03-01T00:30:00Z");
        put(&theatre, every("hourly", HOUR, "a").catch_up(catch_up));
        set_clock(&theatre.sim, "2026-03-01T01:01:30Z");
        let theatre = theatre.crash();
        theatre.sim.run_until_idle();
        assert_eq!(launches(&get(&theatre, "hourly")), ["01:00 launched"], "{catch_up:?}");
    }
}

#[test]
fn of_several_times_that_are_only_late_the_newest_is_launched() {
    for (catch_up, expected) in
        [(CatchUp::None, (3, 5)), (CatchUp::Latest, (3, 5)), (CatchUp::all_within(HOUR), (8, 0))]
    {
        let theatre = theatre_at("2026-03-01T00:30:00Z");
        let often = every("often", Duration::from_secs(10), "a").overlap(Overlap::Allow);
        put(&theatre, often.catch_up(catch_up));
        theatre.sim.advance(Duration::from_secs(25));
        assert_eq!(get(&theatre, "often").counts.launched, 2);
        // Away for a minute: five times are missed, and the one of 31:20 is late.
        set_clock(&theatre.sim, "2026-03-01T00:31:25Z");
        let theatre = theatre.crash();
        theatre.sim.run_until_idle();
        let counts = get(&theatre, "often").counts;
        assert_eq!((counts.launched, counts.missed), expected, "{catch_up:?}");
    }
}

#[test]
fn a_jitter_is_the_same_each_time_and_stays_below_its_limit() {
    let day = |name: &str| {
        let theatre = theatre_at("2026-03-01T00:00:00Z");
        put(&theatre, every(name, HOUR, "a").jitter(30 * MINUTE));
        theatre.sim.advance(24 * HOUR + 30 * MINUTE);
        let view = get(&theatre, name);
        assert_eq!(view.counts.launched, 24);
        view.history.iter().map(|launch| launch.at.since(launch.planned)).collect::<Vec<_>>()
    };
    let late = day("one");
    assert_eq!(late, day("one"));
    assert_ne!(late, day("another"));
    assert!(late.iter().all(|late| *late < 31 * MINUTE), "{late:?}");
    assert!(late.iter().any(|late| *late > 5 * MINUTE), "{late:?}");
}

#[test]
fn a_pause_launches_nothing_but_what_is_asked_for() {
    let theatre = theatre_at("2026-03-01T00:30:00Z");
    put(&theatre, every("hourly", HOUR, "a"));
    let view = ask(&theatre, |all| all.pause("hourly", "eva", "the disk is full")).unwrap();
    let paused = view.paused.expect("it is paused");
    assert_eq!((paused.by.as_str(), paused.why.as_str()), ("eva", "the disk is full"));
    assert_eq!(view.next, None);
    theatre.sim.advance(3 * HOUR);
    let theatre = theatre.crash();
    theatre.sim.advance(HOUR);
    assert!(plans(&theatre).is_empty());
    let plan = ask(&theatre, |all| all.trigger_now("hourly", "eva")).unwrap();
    assert_eq!(theatre.finished(&theatre.world.plan(plan)).result(), PlanResult::Success);
    let view = theatre.finished(&theatre.world.plan(plan));
    assert_eq!(view.created.by, "eva, by the schedule hourly");
    let other = ask(&theatre, |all| all.trigger_now("hourly", "eva")).unwrap();
    assert_ne!(plan, other, "each one is a launch of its own");
    let once = |key: &str| ask(&theatre, |all| all.trigger_once("hourly", "eva", key)).unwrap();
    let first = once("k-1");
    theatre.finished(&theatre.world.plan(first));
    assert_eq!(once("k-1"), first, "the same key is the same plan");
    assert_ne!(once("k-2"), first);
    let launched = get(&theatre, "hourly").counts.launched;
    assert_eq!(launched, 4, "a repeated request launches nothing");
    let view = ask(&theatre, |all| all.unpause("hourly")).unwrap();
    assert_eq!(view.next, Some(time("2026-03-01T05:00:00Z")));
    theatre.sim.advance(HOUR);
    let view = get(&theatre, "hourly");
    let by_hand = "04:30 launched by hand";
    assert_eq!(launches(&view), [by_hand, by_hand, by_hand, by_hand, "05:00 launched"]);
    assert_eq!(view.counts.missed, 0, "what passes during a pause is not missed");
}

#[test]
fn a_backfill_launches_what_was_not_launched() {
    for overlap in [Overlap::Forbid, Overlap::Allow] {
        let theatre = theatre_at("2026-03-01T05:30:00Z");
        put(&theatre, every("hourly", HOUR, "a").overlap(overlap));
        theatre.sim.advance(2 * HOUR);
        let (from, until) = (time("2026-03-01T03:00:00Z"), time("2026-03-01T07:00:00Z"));
        let count = ask(&theatre, |all| all.backfill("hourly", from, until)).unwrap();
        assert_eq!(count, 4, "the end is not part of it");
        let theatre = theatre.crash();
        theatre.sim.run_until_idle();
        let view = get(&theatre, "hourly");
        let again = ["03:00 launched again", "04:00 launched again", "05:00 launched again"];
        let mut launches = launches(&view);
        assert_eq!(launches[..2], ["06:00 launched", "07:00 launched"]);
        launches[2..].sort_unstable(); // Those that overlap begin at once.
        assert_eq!(launches[2..], again);
        assert_eq!((view.counts.launched, plans(&theatre).len()), (5, 5));
        let refused = |from: Time, until: Time| {
            let refused = ask(&theatre, |all| all.backfill("hourly", from, until)).unwrap_err();
            assert!(matches!(refused, ScheduleError::Backfill { .. }));
            refused.to_string()
        };
        assert!(refused(until, from).contains("has no times"));
        assert!(refused(from, Time(u64::MAX)).contains("ends after now"));
    }
    let theatre = theatre_at("2026-03-01T05:30:00Z");
    put(&theatre, every("often", Duration::from_secs(1), "a"));
    let all = ask(&theatre, |all| all.backfill("often", Time(0), time("2026-03-01T05:00:00Z")));
    assert!(all.unwrap_err().to_string().contains("more than 100000 times"));
}

#[test]
fn a_single_time_is_launched_once() {
    let theatre = theatre_at("2026-03-01T00:30:00Z");
    let once = || {
        let once = Schedule::at("once", time("2026-03-01T01:00:00Z"));
        once.action::<Piece>(&"a".to_owned()).unwrap()
    };
    put(&theatre, once());
    theatre.sim.advance(2 * HOUR);
    // A program that starts again puts it again.
    let view = put(&theatre, once());
    assert_eq!((launches(&view), view.next), (vec!["01:00 launched".to_owned()], None));
    let theatre = theatre.crash();
    theatre.sim.advance(HOUR);
    assert_eq!(plans(&theatre).len(), 1);
}

#[test]
fn a_plan_that_is_paused_is_not_in_the_way() {
    let theatre = theatre_at("2026-03-01T00:30:00Z");
    theatre.script.on("a", |_| Err(crate::common::error("pause")));
    put(&theatre, every("hourly", HOUR, "a").overlap(Overlap::Forbid));
    theatre.sim.advance(HOUR);
    let theatre = theatre.crash();
    theatre.sim.advance(HOUR);
    assert_eq!(launches(&get(&theatre, "hourly")), ["01:00 launched", "02:00 launched"]);
    assert!(get(&theatre, "hourly").running.is_empty());
}

#[test]
fn what_waits_for_its_turn_waits_over_a_crash() {
    let theatre = theatre_at("2026-03-01T00:30:00Z");
    theatre.script.on("a", |step| {
        if step.has_event() {
            return Ok(Next::Done);
        }
        step.event_after(90 * MINUTE, &())?;
        Ok(Next::suspend("an hour and a half"))
    });
    put(&theatre, every("hourly", HOUR, "a").overlap(Overlap::Queue));
    theatre.sim.advance(HOUR + 45 * MINUTE);
    let theatre = theatre.crash();
    theatre.sim.run_until_idle();
    let view = get(&theatre, "hourly");
    assert_eq!((launches(&view), view.waiting), (vec!["01:00 launched".to_owned()], 1));
    theatre.sim.advance(20 * MINUTE);
    assert_eq!(launches(&get(&theatre, "hourly")), ["01:00 launched", "02:00 launched"]);
}

//! Schedules in a simulation: what they launch, when, and once.

mod common;

use std::time::{Duration, SystemTime};

use common::{Piece, Theatre};
use jiff::Timestamp;
use turnwheel_engine::schedule::{
    CatchUp, Occasion, Outcome, Overlap, Schedule, ScheduleView, Schedules,
};
use turnwheel_engine::store::{Filter, PlanRow, Store};
use turnwheel_engine::testkit::FaultStore;
use turnwheel_engine::{MemoryStore, Next, PlanResult, ScheduleError, StoreError, Time, World};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::Completion;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

fn time(text: &str) -> Time {
    let at: Timestamp = text.parse().expect("a time");
    Time(u64::try_from(at.as_microsecond()).expect("after 1970"))
}

fn text(time: Time) -> String {
    let us = i64::try_from(time.0).expect("before the year 9999");
    Timestamp::from_microsecond(us).expect("before the year 9999").to_string()
}

/// A theatre whose clock shows this time.
fn theatre_at(at: &str) -> Theatre {
    let theatre = Theatre::new();
    set_clock(&theatre.sim, at);
    theatre
}

fn set_clock(sim: &Sim, at: &str) {
    sim.set_wall(SystemTime::from(time(at)));
}

fn every(name: &str, period: Duration, piece: &str) -> Schedule {
    Schedule::every(name, period).action::<Piece>(&piece.to_owned()).expect("it is short")
}

/// Asks, and waits for the answer.
fn ask<T>(
    theatre: &Theatre,
    request: impl FnOnce(&Schedules<'_>) -> Completion<Result<T, ScheduleError>>,
) -> Result<T, ScheduleError> {
    let asked = request(&theatre.world.schedules());
    theatre.sim.block_on(asked).expect("it ends").expect("the world is there")
}

fn put(theatre: &Theatre, schedule: Schedule) -> ScheduleView {
    ask(theatre, |schedules| schedules.put(schedule)).expect("the schedule is taken")
}

fn get(theatre: &Theatre, name: &str) -> ScheduleView {
    ask(theatre, |schedules| schedules.get(name)).expect("the schedule is there")
}

fn plans(theatre: &Theatre) -> Vec<PlanRow> {
    let listed = theatre.world.list(Filter { limit: 100_000, ..Filter::default() });
    let mut plans = theatre.sim.block_on(listed).expect("it ends").expect("the store is there");
    plans.reverse();
    plans
}

/// The launches of a schedule: planned time, `!` if it was not launched in time, and outcome.
fn launches(view: &ScheduleView) -> Vec<String> {
    let line = |launch: &turnwheel_engine::schedule::Launch| {
        let outcome = match &launch.outcome {
            Outcome::Launched(_) => "launched",
            Outcome::Skipped(_) => "skipped",
            Outcome::Failed(_) => "failed",
        };
        let planned = text(launch.planned);
        let occasion = match launch.occasion {
            Occasion::OnTime => "",
            Occasion::CaughtUp => " late",
            Occasion::Backfill => " again",
            Occasion::ByHand(_) => " by hand",
        };
        format!("{} {outcome}{occasion}", &planned[11..16])
    };
    view.history.iter().map(line).collect()
}

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

/// A world over a store that may fail.
fn world_over(store: impl Store, script: &common::Script, wall: SystemTime) -> (Sim, World) {
    let sim = Sim::builder().seed(9).wall(wall).build();
    let play = common::Play {
        script: script.clone(),
        attempts: 1,
        limit: None,
        is_cancellable: false,
        cleans_up: false,
    };
    let builder = World::builder().action(play).action(Piece).seed(1);
    let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
    let world = sim.block_on(builder.open(store)).expect("it ends").expect("the world begins");
    (sim, world)
}

#[test]
fn a_crash_at_any_write_neither_loses_nor_doubles_a_launch() {
    let mut most = 0;
    for crash in 1.. {
        let memory = MemoryStore::new();
        let store = FaultStore::new(memory.clone());
        let script = common::Script::default();
        let wall = SystemTime::from(time("2026-03-01T00:30:00Z"));
        let (sim, world) = world_over(store.clone(), &script, wall);
        let asked = world.schedules().put(every("hourly", HOUR, "a").catch_up(CatchUp::None));
        sim.block_on(asked).unwrap().unwrap().unwrap();
        let before = store.commits();
        for write in 0..1_000 {
            store.fail_at(before + crash + write, StoreError::Failed("crash".to_owned()));
        }
        sim.advance(30 * MINUTE + Duration::from_millis(500));
        let tried = store.commits() - before;
        let wall = sim.wall();
        drop(world);
        drop(sim);
        let (sim, world) = world_over(memory, &script, wall);
        sim.advance(MINUTE);
        let view = sim.block_on(world.schedules().get("hourly")).unwrap().unwrap().unwrap();
        assert_eq!(launches(&view), ["01:00 launched"], "a crash at write {crash}");
        assert_eq!(view.counts.launched, 1, "a crash at write {crash}");
        let plans = sim.block_on(world.list(Filter::default())).unwrap().unwrap();
        assert_eq!(plans.len(), 1, "a crash at write {crash}");
        most = most.max(tried);
        if crash > tried {
            break;
        }
    }
    assert!(most >= 4, "a launch has more writes than {most}");
}

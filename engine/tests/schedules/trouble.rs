//! Schedules in trouble: crashes, clocks, stores that fail, requests that cannot be.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use turnwheel_engine::limits::REASON_BYTES_MAX;
use turnwheel_engine::schedule::{CatchUp, Outcome, Overlap, Schedule};
use turnwheel_engine::store::{Filter, ScheduleWrite, StoreReader, StoreWriter};
use turnwheel_engine::{
    MemoryStore, Next, Payload, PlanResult, ScheduleError, StepState, StoreError, Time, World,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_sqlite::{SqliteStore, SqliteSync};
use turnwheel_testkit::FaultStore;

use crate::common::calendar::{
    ask, every, get, launches, plans, put, set_clock, theatre_at, time, world_over, HOUR, MINUTE,
};
use crate::common::wrapped::{Beside, Wrapped};
use crate::common::{Piece, Script};

#[test]
fn a_crash_at_any_write_neither_loses_nor_doubles_a_launch() {
    let mut most = 0;
    for crash in 1.. {
        let memory = MemoryStore::new();
        let store = FaultStore::new(memory.clone());
        let script = Script::default();
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

#[test]
fn a_clock_that_is_set_back_launches_nothing_twice() {
    let theatre = theatre_at("2026-03-01T00:30:00Z");
    put(&theatre, every("hourly", HOUR, "a"));
    theatre.sim.advance(2 * HOUR);
    set_clock(&theatre.sim, "2026-03-01T00:50:00Z");
    theatre.sim.advance(3 * HOUR);
    let view = get(&theatre, "hourly");
    assert_eq!(launches(&view), ["01:00 launched", "02:00 launched", "03:00 launched"]);
    assert_eq!((view.counts.launched, plans(&theatre).len()), (3, 3));
}

#[test]
fn a_clock_that_is_set_ahead_misses_times_and_back_again_none() {
    let theatre = theatre_at("2026-03-01T00:30:00Z");
    put(&theatre, every("hourly", HOUR, "a").catch_up(CatchUp::None));
    theatre.sim.advance(HOUR);
    set_clock(&theatre.sim, "2099-03-01T00:30:00Z");
    theatre.sim.advance(5 * MINUTE);
    let view = get(&theatre, "hourly");
    assert_eq!(view.counts.launched, 1);
    assert_eq!(view.counts.missed, 10_000, "they are not counted without end");
    assert_eq!(view.next, Some(time("2099-03-01T01:00:00Z")));
    set_clock(&theatre.sim, "2026-03-01T01:35:00Z");
    theatre.sim.advance(2 * HOUR);
    assert_eq!(
        launches(&get(&theatre, "hourly")),
        ["01:00 launched", "02:00 launched", "03:00 launched"]
    );
    // The jump itself is noticed within the time in which a launch is only late.
    set_clock(&theatre.sim, "2026-03-01T05:00:10Z");
    theatre.sim.advance(MINUTE);
    assert_eq!(launches(&get(&theatre, "hourly"))[3..], ["05:00 launched"]);
}

#[test]
fn a_write_that_fails_after_the_end_of_a_plan_does_not_bring_it_back() {
    for overlap in [Overlap::Forbid, Overlap::Queue] {
        for write in 1..14 {
            let store = FaultStore::new(MemoryStore::new());
            let script = Script::default();
            script.on("a", |step| {
                if step.has_event() {
                    return Ok(Next::Done);
                }
                step.event_after(Duration::from_secs(90), &1)?;
                Ok(step.wait_for_event("its time"))
            });
            let wall = SystemTime::from(time("2026-03-01T00:00:00Z"));
            let (sim, world) = world_over(store.clone(), &script, wall);
            let asked = world.schedules().put(every("m", MINUTE, "a").overlap(overlap));
            sim.block_on(asked).unwrap().unwrap().unwrap();
            sim.advance(MINUTE + Duration::from_secs(1));
            store.fail_at(store.commits() + write, StoreError::Failed("once".to_owned()));
            sim.advance(12 * MINUTE);
            let view = sim.block_on(world.schedules().get("m")).unwrap().unwrap().unwrap();
            let said = launches(&view);
            assert!(view.counts.launched >= 5, "{overlap:?}, write {write}: {said:?}");
        }
    }
}

#[test]
fn schedules_that_cannot_be_are_refused() {
    let theatre = theatre_at("2026-03-01T00:30:00Z");
    let refused = |schedule: Schedule| {
        ask(&theatre, |all| all.put(schedule)).expect_err("it cannot be").to_string()
    };
    let with = |schedule: Schedule| schedule.action::<Piece>(&"a".to_owned()).unwrap();
    let never = with(Schedule::cron("never", "0 0 30 2 *").unwrap());
    assert!(refused(never).contains("«never» never launches: 0 0 30 2 * (UTC) has no time"));
    let past = with(Schedule::at("past", time("2026-03-01T00:29:59Z")));
    assert!(refused(past).contains("«past» never launches"));
    let nowhere = with(Schedule::cron("x", "0 0 * * *").unwrap().zone("Mars/Phobos"));
    assert!(refused(nowhere).contains("no time zone «Mars/Phobos»"));
    assert!(refused(Schedule::manual("empty")).contains("has no action"));
    let unknown = Schedule::manual("x").action_named("forgotten", Payload::null());
    assert!(refused(unknown).contains("no action «forgotten» is registered"));
    assert!(refused(with(Schedule::manual(""))).contains("1 to 200 bytes"));
    assert!(refused(with(Schedule::manual("a\nb"))).contains("no control characters"));
    assert!(refused(with(Schedule::manual("a".repeat(201)))).contains("1 to 200 bytes"));
    assert!(refused(every("x", Duration::ZERO, "a")).contains("at least a second"));
    for gone in [
        ask(&theatre, |all| all.pause("gone", "eva", "")).map(|_| ()),
        ask(&theatre, |all| all.unpause("gone")).map(|_| ()),
        ask(&theatre, |all| all.remove("gone")),
        ask(&theatre, |all| all.trigger_now("gone", "eva")).map(|_| ()),
        ask(&theatre, |all| all.backfill("gone", Time(0), Time(1))).map(|_| ()),
        ask(&theatre, |all| all.next("gone", 1)).map(|_| ()),
    ] {
        assert!(matches!(gone, Err(ScheduleError::Unknown(name)) if name == "gone"));
    }
    assert!(ask(&theatre, |all| all.list("", 10)).unwrap().is_empty(), "nothing was taken");
}

#[test]
fn long_texts_of_people_are_cut_before_they_are_stored() {
    let theatre = theatre_at("2026-03-01T00:30:00Z");
    put(&theatre, every("hourly", HOUR, "a"));
    let long = "x".repeat(10 * 1_024 * 1_024);
    ask(&theatre, |all| all.pause("hourly", &long, &long)).unwrap();
    let paused = get(&theatre, "hourly").paused.expect("it is paused");
    assert!(paused.by.len() <= REASON_BYTES_MAX && paused.why.len() <= REASON_BYTES_MAX);
    assert!(paused.why.contains("10485760 bytes in all"), "{}", paused.why);
    let plan = ask(&theatre, |all| all.trigger_now("hourly", &long)).unwrap();
    let view = theatre.finished(&theatre.world.plan(plan));
    assert!(view.created.by.len() < 2 * REASON_BYTES_MAX, "{} bytes", view.created.by.len());
}

#[test]
fn what_cannot_be_launched_is_remembered_and_the_next_one_is_tried() {
    let theatre = theatre_at("2026-03-01T00:30:00Z");
    // An input that the action does not understand: the plan is there, with the error.
    let misfit = Schedule::every("misfit", HOUR);
    put(&theatre, misfit.action_named("piece", Payload::of(&7).unwrap()));
    theatre.sim.advance(2 * HOUR);
    let view = get(&theatre, "misfit");
    assert_eq!(launches(&view), ["01:00 launched", "02:00 launched"]);
    assert!(plans(&theatre).iter().all(|plan| plan.result == PlanResult::Error));
    // An action that an upgrade has lost.
    let wall = theatre.sim.wall();
    let store = theatre.store.clone();
    drop(theatre);
    let sim = Sim::builder().seed(9).wall(wall).build();
    let builder = World::builder().group(&sim.group("plans")).io_group(&sim.group("journal"));
    let world = sim.block_on(builder.seed(5).open(store)).unwrap().unwrap();
    sim.advance(HOUR);
    let view = sim.block_on(world.schedules().get("misfit")).unwrap().unwrap().unwrap();
    assert_eq!(launches(&view)[2..], ["03:00 failed"]);
    assert_eq!(view.counts.failed, 1);
    let Outcome::Failed(why) = &view.history[2].outcome else { panic!("it has failed") };
    assert!(why.contains("no action «piece» is registered"), "{why}");
    let asked = sim.block_on(world.schedules().trigger_now("misfit", "eva")).unwrap().unwrap();
    assert!(matches!(asked, Err(ScheduleError::Launch { .. })), "{asked:?}");
}

#[test]
fn a_store_that_fails_for_a_while_loses_nothing() {
    let store = FaultStore::new(MemoryStore::new());
    let script = Script::default();
    let wall = SystemTime::from(time("2026-03-01T00:30:00Z"));
    let (sim, world) = world_over(store.clone(), &script, wall);
    let asked = world.schedules().put(every("hourly", HOUR, "a"));
    sim.block_on(asked).unwrap().unwrap().unwrap();
    store.fail(StoreError::Full("no room".to_owned()));
    sim.advance(31 * MINUTE);
    let asked = world.schedules().pause("hourly", "eva", "a try");
    let refused = sim.block_on(asked).unwrap().unwrap();
    assert!(matches!(refused, Err(ScheduleError::Store(StoreError::Full(_)))), "{refused:?}");
    store.heal();
    sim.advance(MINUTE);
    let view = sim.block_on(world.schedules().get("hourly")).unwrap().unwrap().unwrap();
    assert_eq!(launches(&view), ["01:00 launched"]);
    assert_eq!(view.paused, None, "what was refused was not done");
    assert_eq!(script.said(), ["a", "finalize a"]);
}

#[test]
fn a_plan_that_cannot_be_read_for_a_while_is_not_over() {
    let store = FaultStore::new(MemoryStore::new());
    let script = Script::default();
    script.on("a", |step| match step.event::<bool>()? {
        Some(_) => Ok(Next::Done),
        None => Ok(Next::Suspend("a word".to_owned())),
    });
    let wall = SystemTime::from(time("2026-03-01T00:30:00Z"));
    let (sim, world) = world_over(store.clone(), &script, wall);
    let hourly = every("hourly", HOUR, "a").overlap(Overlap::Forbid);
    sim.block_on(world.schedules().put(hourly)).unwrap().unwrap().unwrap();
    sim.advance(35 * MINUTE);
    let first = sim.block_on(world.list(Filter::default())).unwrap().unwrap();
    assert_eq!(first.len(), 1);
    store.fail_reads(StoreError::Failed("no answer".to_owned()));
    let unseen = sim.block_on(world.plan(first[0].id).view()).unwrap();
    assert!(unseen.is_err(), "it has left memory");
    sim.advance(MINUTE);
    store.heal();
    sim.advance(HOUR);
    let view = sim.block_on(world.schedules().get("hourly")).unwrap().unwrap().unwrap();
    assert_eq!(launches(&view), ["01:00 launched", "02:00 skipped"]);
    // When it is over the schedule goes on.
    let plan = world.plan(first[0].id);
    let view = sim.block_on(plan.view()).unwrap().unwrap();
    let mut steps = view.steps.iter();
    let step = steps.find(|step| step.state == StepState::Suspended).expect("it waits").id;
    sim.block_on(world.event(first[0].id, step, None, &true)).unwrap().unwrap().unwrap();
    sim.advance(HOUR);
    let view = sim.block_on(world.schedules().get("hourly")).unwrap().unwrap().unwrap();
    assert_eq!(launches(&view), ["01:00 launched", "02:00 skipped", "03:00 launched"]);
}

#[test]
fn a_world_whose_store_was_taken_launches_nothing_more() {
    let first = theatre_at("2026-03-01T00:30:00Z");
    put(&first, every("hourly", HOUR, "a"));
    let (sim, world) = world_over(first.store.clone(), &first.script, first.sim.wall());
    first.sim.advance(3 * HOUR);
    assert!(first.script.said().is_empty(), "the first one has lost the store");
    let refused = ask(&first, |all| all.pause("hourly", "eva", "a try")).unwrap_err();
    assert!(matches!(refused, ScheduleError::Store(StoreError::Fenced { .. })), "{refused}");
    sim.advance(3 * HOUR);
    let view = sim.block_on(world.schedules().get("hourly")).unwrap().unwrap().unwrap();
    assert_eq!(view.counts.launched, 3);
    assert_eq!(first.script.said().len(), 6);
}

#[test]
fn a_queue_of_launches_has_an_end() {
    let theatre = theatre_at("2026-03-01T00:00:00Z");
    theatre.script.on("a", |_| Ok(Next::suspend("the end of time")));
    let often = every("often", Duration::from_secs(1), "a").overlap(Overlap::Queue);
    put(&theatre, often);
    theatre.sim.advance(Duration::from_secs(1_101));
    let view = get(&theatre, "often");
    assert_eq!((view.counts.launched, view.waiting, view.counts.skipped), (1, 1_000, 100));
}

/// Another world changes schedules right before they are written, as often as said.
#[derive(Clone, Debug, Default)]
struct Meddles(Arc<Mutex<u32>>);

impl Beside for Meddles {
    fn schedules(
        &self,
        inner: &mut dyn StoreWriter,
        writes: &[ScheduleWrite],
        reader: &mut dyn StoreReader,
    ) -> Result<(), StoreError> {
        let mut times = self.0.lock().expect("nobody panics with it");
        if *times > 0 {
            *times -= 1;
            for write in writes {
                let row = reader.schedule(&write.name)?;
                let row = row.expect("only schedules that are there are meddled with");
                let (name, from, data) = (row.name, row.version, Some(row.data));
                let epoch = write.epoch;
                inner.write_schedules(&[ScheduleWrite { name, from, data, epoch }])?;
            }
        }
        Ok(())
    }
}

#[test]
fn what_another_world_changes_at_the_same_time_counts() {
    let store = Wrapped::<Meddles>::default();
    let script = Script::default();
    let wall = SystemTime::from(time("2026-03-01T00:30:00Z"));
    let (sim, world) = world_over(store.clone(), &script, wall);
    let put = || world.schedules().put(every("hourly", HOUR, "a"));
    sim.block_on(put()).unwrap().unwrap().unwrap();
    // Whoever asks is told, and may ask again.
    *store.beside.0.lock().unwrap() = 1;
    let pause = || world.schedules().pause("hourly", "eva", "a try");
    let refused = sim.block_on(pause()).unwrap().unwrap();
    assert!(matches!(refused, Err(ScheduleError::Changed(name)) if name == "hourly"));
    sim.block_on(pause()).unwrap().unwrap().unwrap();
    sim.block_on(world.schedules().unpause("hourly")).unwrap().unwrap().unwrap();
    // Launches are decided again, in each of their writes.
    for meddled in 1..=3_u64 {
        *store.beside.0.lock().unwrap() = u32::try_from(meddled).unwrap();
        sim.advance(HOUR);
        let view = sim.block_on(world.schedules().get("hourly")).unwrap().unwrap().unwrap();
        assert_eq!(view.counts.launched, meddled, "{view:?}");
        assert_eq!(script.said(), ["a", "finalize a"], "once for each time");
    }
    let plans = sim.block_on(world.list(Filter::default())).unwrap().unwrap();
    assert_eq!(plans.len(), 3);
}

#[test]
fn schedules_survive_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = || SqliteStore::new(folder.path().join("plans.db")).sync(SqliteSync::Off);
    let script = Script::default();
    let wall = SystemTime::from(time("2026-03-01T00:30:00Z"));
    let (sim, world) = world_over(store(), &script, wall);
    let asked = world.schedules().put(every("hourly", HOUR, "a"));
    sim.block_on(asked).unwrap().unwrap().unwrap();
    sim.advance(2 * HOUR);
    let wall = sim.wall();
    drop(world);
    drop(sim);
    let (sim, world) = world_over(store(), &script, wall);
    sim.advance(HOUR);
    let view = sim.block_on(world.schedules().get("hourly")).unwrap().unwrap().unwrap();
    assert_eq!(launches(&view), ["01:00 launched", "02:00 launched", "03:00 launched"]);
    sim.block_on(world.schedules().remove("hourly")).unwrap().unwrap().unwrap();
    let left = sim.block_on(world.schedules().list("", 10)).unwrap().unwrap().unwrap();
    assert!(left.is_empty());
}

#[test]
fn a_schedule_whose_answers_are_lost_is_stored_launches_and_is_removed() {
    let store = FaultStore::new(MemoryStore::new());
    let script = Script::default();
    let wall = SystemTime::from(time("2026-03-01T00:30:00Z"));
    let (sim, world) = world_over(store.clone(), &script, wall);
    let schedules = world.schedules();
    store.lose_answer_at(store.commits() + 1);
    let put = schedules.put(every("hourly", HOUR, "a"));
    sim.block_on(put).unwrap().unwrap().expect("it is stored");
    sim.advance(HOUR);
    let view = sim.block_on(schedules.get("hourly")).unwrap().unwrap().expect("it is there");
    assert_eq!(launches(&view), ["01:00 launched"]);
    store.lose_answer_at(store.commits() + 1);
    let removed = schedules.remove("hourly");
    sim.block_on(removed).unwrap().unwrap().expect("it is removed");
    sim.advance(2 * HOUR);
    let gone = sim.block_on(schedules.get("hourly")).unwrap().unwrap();
    assert!(matches!(gone, Err(ScheduleError::Unknown(_))), "{gone:?}");
    let plans = sim.block_on(world.list(Filter::default())).unwrap().unwrap();
    assert_eq!(plans.len(), 1);
}

#[test]
fn a_plan_is_replaced_after_reads_and_commits_in_trouble() {
    for (trouble, at) in (0..4).flat_map(|trouble| (1..8).map(move |at| (trouble, at))) {
        let case = format!("trouble {trouble} at {at}");
        let store = FaultStore::new(MemoryStore::new());
        let script = Script::default();
        script.on("a", |_| Ok(Next::suspend("for good")));
        let wall = SystemTime::from(time("2026-03-01T00:30:00Z"));
        let (sim, world) = world_over(store.clone(), &script, wall);
        let asked = world.schedules().put(every("often", HOUR, "a").overlap(Overlap::Replace));
        sim.block_on(asked).unwrap().unwrap().unwrap();
        sim.advance(HOUR);
        let error = || StoreError::Failed("for a while".to_owned());
        let commit = store.commits() + at;
        match trouble {
            0 => store.fail_at(commit, error()),
            1 => (0..60).for_each(|later| store.fail_at(commit + later, error())),
            2 => store.lose_answer_at(commit),
            _ => (0..60).for_each(|later| store.fail_read_at(store.reads() + at + later, error())),
        }
        sim.advance(30 * MINUTE + Duration::from_secs(30));
        store.heal();
        sim.advance(2 * HOUR);
        let view = sim.block_on(world.schedules().get("often")).unwrap().unwrap().unwrap();
        let launched = ["01:00 launched", "02:00 launched", "03:00 launched", "04:00 launched"];
        assert_eq!(launches(&view), launched, "{case}");
        let plans = sim.block_on(world.list(Filter::default())).unwrap().unwrap();
        let open = plans.iter().filter(|plan| plan.result == PlanResult::Pending).count();
        assert_eq!((plans.len(), open), (4, 1), "{case}");
    }
}

//! Reminders: registered, delivered in time, changed and removed, over restarts.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use parking_lot::Mutex;
use turnwheel_actors::entity::{
    MissedTicks, Ownership, Placement, ReminderError, ReminderId, ReminderStore, ReminderTick,
    RemindersBuilder, RemindersError, Schedule,
};
use turnwheel_actors_testkit::{self as testkit, Stage};

use crate::alarms::{
    begin, begin_placed, described, end, get, life, register, ticks, Alarm, TestStore, Touch, HOUR,
    MINUTE, SECOND,
};

type Outcome = Result<(), Box<dyn Error>>;

/// The shortest time.
const TICK: Duration = Duration::from_nanos(1);

// O-T131
#[test]
fn reminders_are_registered_listed_read_and_removed_each_for_itself() -> Outcome {
    let stage = Stage::new(131);
    let (store, key) = (TestStore::new(), 1_u64);
    let entities = begin(&stage, &store);
    let alarm = entities.get::<Alarm>(key);
    let first = register(&stage, &alarm, "first", Schedule::every(MINUTE));
    register(&stage, &alarm, "second", Schedule::every(2 * MINUTE).first(MINUTE / 2));
    register(&stage, &entities.get::<Alarm>(11_u64), "first", Schedule::every(HOUR));
    let listed = stage.wait(alarm.reminders().list())??;
    let names: Vec<_> = listed.iter().map(|reminder| reminder.name()).collect();
    assert_eq!(names, ["first", "second"]);
    assert_eq!(get(&stage, &alarm, "first"), Some(first.clone()));
    assert_eq!(get(&stage, &alarm, "third"), None);
    assert_eq!((first.period(), first.missed()), (Some(MINUTE), MissedTicks::Skip));
    assert_eq!(first.first_due(), stage.sim().wall() + MINUTE);
    stage.advance(2 * MINUTE);
    assert_eq!(ticks(key), 3);
    // A handle identifies the registration, however often it has ticked.
    stage.wait(alarm.reminders().unregister(&first))??;
    let again = stage.wait(alarm.reminders().unregister(&first))?;
    assert!(matches!(again, Err(ReminderError::Stale { .. })), "{again:?}");
    let foreign = stage.wait(entities.get::<Alarm>(11_u64).reminders().unregister(&listed[1]))?;
    assert!(matches!(foreign, Err(ReminderError::Stale { .. })), "{foreign:?}");
    stage.advance(2 * MINUTE);
    let names: Vec<_> =
        life(key, |life| life.ticks[3..].iter().map(|tick| tick.name.to_string()).collect());
    assert_eq!(names, ["second"]);
    assert_eq!(ticks(11), 0);
    Ok(())
}

#[test]
fn a_due_reminder_activates_its_entity_and_tells_its_times() {
    let stage = Stage::new(1);
    let (store, key) = (TestStore::new(), 2_u64);
    let entities = begin(&stage, &store);
    let alarm = entities.get::<Alarm>(key);
    let start = stage.sim().wall();
    register(&stage, &alarm, "hourly", Schedule::every(HOUR).first(HOUR / 2));
    stage.advance(HOUR / 2 - TICK);
    assert!(!alarm.is_active() && ticks(key) == 0, "never early");
    stage.advance(TICK);
    assert!(alarm.is_active());
    stage.advance(HOUR / 2);
    assert!(!alarm.is_active(), "it was idle");
    stage.advance(HOUR / 2);
    life(key, |life| {
        assert_eq!((life.ticks.len(), life.created), (2, 2));
        let tick = &life.ticks[1];
        assert_eq!((tick.first_due, tick.period), (start + HOUR / 2, Some(HOUR)));
        assert_eq!((tick.planned, tick.current), (start + 3 * HOUR / 2, start + 3 * HOUR / 2));
        assert_eq!((&*tick.name, tick.skipped, tick.failures), ("hourly", 0, 0));
    });
    let stats = entities.reminder_stats().expect("there are reminders");
    assert_eq!((stats.ticks, stats.failed, stats.under_way), (2, 0, 0));
}

// O-T132
#[test]
fn an_update_restarts_nothing_that_it_does_not_change() -> Outcome {
    let stage = Stage::new(132);
    let (store, key) = (TestStore::new(), 3_u64);
    let entities = begin(&stage, &store);
    let alarm = entities.get::<Alarm>(key);
    let first = register(&stage, &alarm, "one", Schedule::every(MINUTE));
    for _ in 0..5 {
        stage.advance(10 * SECOND);
        assert_eq!(register(&stage, &alarm, "one", Schedule::every(MINUTE)), first);
    }
    stage.advance(10 * SECOND);
    assert_eq!(ticks(key), 1, "it goes on");
    stage.advance(30 * SECOND);
    let other = Schedule::every(MINUTE).missed(MissedTicks::Once);
    let policy = register(&stage, &alarm, "one", other);
    assert_eq!(policy.missed(), MissedTicks::Once);
    stage.advance(30 * SECOND);
    assert_eq!(ticks(key), 2, "its times are the same");
    let slower = register(&stage, &alarm, "one", Schedule::every(3 * MINUTE));
    stage.advance(3 * MINUTE - SECOND);
    assert_eq!(ticks(key), 2);
    stage.advance(SECOND);
    assert_eq!(ticks(key), 3, "another period begins anew");
    let stale = stage.wait(alarm.reminders().unregister(&policy))?;
    assert!(matches!(stale, Err(ReminderError::Stale { .. })), "{stale:?}");
    stage.wait(alarm.reminders().unregister(&slower))??;
    Ok(())
}

// O-T133
#[test]
fn one_that_was_removed_can_be_registered_again_at_once() -> Outcome {
    let stage = Stage::new(133);
    let (store, key) = (TestStore::new(), 4_u64);
    let entities = begin(&stage, &store);
    let alarm = entities.get::<Alarm>(key);
    let mut old = register(&stage, &alarm, "one", Schedule::every(MINUTE));
    for _ in 0..3 {
        stage.advance(MINUTE / 2);
        stage.wait(alarm.reminders().unregister(&old))??;
        let new = register(&stage, &alarm, "one", Schedule::every(MINUTE));
        let stale = stage.wait(alarm.reminders().unregister(&old))?;
        assert!(matches!(stale, Err(ReminderError::Stale { .. })), "{stale:?}");
        old = new;
    }
    stage.advance(MINUTE - SECOND);
    assert_eq!(ticks(key), 0, "it began anew");
    stage.advance(SECOND);
    assert_eq!(ticks(key), 1);
    // Also while its tick is under way.
    life(key, |life| life.takes = 10 * SECOND);
    stage.advance(MINUTE + SECOND);
    stage.wait_within(alarm.reminders().unregister(&old), Duration::ZERO)??;
    register(&stage, &alarm, "one", Schedule::every(MINUTE).first(Duration::ZERO));
    stage.advance(8 * SECOND);
    assert_eq!(ticks(key), 2, "one tick at a time");
    stage.advance(SECOND);
    assert_eq!(ticks(key), 3);
    stage.advance(10 * MINUTE);
    assert_eq!(ticks(key), 13);
    Ok(())
}

// O-T134
#[test]
fn a_far_one_is_loaded_within_the_window_and_leaves_the_memory_again() -> Outcome {
    let stage = Stage::new(134);
    let store = TestStore::new();
    let entities = begin(&stage, &store);
    let loaded = || entities.reminder_stats().map_or(0, |stats| stats.loaded);
    register(&stage, &entities.get::<Alarm>(5_u64), "far", Schedule::every(HOUR));
    register(
        &stage,
        &entities.get::<Alarm>(6_u64),
        "farther",
        Schedule::every(HOUR + SECOND / 1_000),
    );
    assert_eq!(loaded(), 0);
    // Looks are every five minutes, the window is ten.
    stage.advance(50 * MINUTE - TICK);
    assert_eq!(loaded(), 0);
    stage.advance(TICK);
    assert_eq!(loaded(), 1, "the end of the window belongs to it");
    stage.advance(5 * MINUTE);
    assert_eq!(loaded(), 2);
    stage.advance(5 * MINUTE);
    assert_eq!((ticks(5), ticks(6), loaded()), (1, 0, 1));
    stage.advance(SECOND);
    assert_eq!((ticks(6), loaded()), (1, 0));
    register(&stage, &entities.get::<Alarm>(5_u64), "near", Schedule::once(MINUTE));
    assert_eq!(loaded(), 1, "what is registered within the window is there at once");
    stage.advance(MINUTE);
    assert_eq!((ticks(5), loaded()), (2, 0));
    Ok(())
}

// O-T135
#[test]
fn a_look_at_the_moment_of_firing_does_not_tell_twice() {
    testkit::check(0..40, |stage| {
        let store = TestStore::new();
        let key = 135_000 + stage.sim().seed().unwrap_or_default();
        let entities = begin(stage, &store);
        register(stage, &entities.get::<Alarm>(key), "often", Schedule::every(5 * MINUTE));
        stage.advance(HOUR);
        assert_eq!(ticks(key), 12);
        // A look that read the row before its delivery, and arrives after it.
        let open = store.hold_list();
        stage.advance(5 * MINUTE);
        assert_eq!(ticks(key), 13);
        assert!(open.complete(()).is_ok(), "it was opened");
        stage.run();
        assert_eq!(ticks(key), 13);
        stage.advance(5 * MINUTE);
        assert_eq!(ticks(key), 14);
    });
}

// O-T136
#[test]
fn a_look_that_has_read_old_rows_revives_and_undoes_nothing() -> Outcome {
    let stage = Stage::new(136);
    let store = TestStore::new();
    let entities = begin(&stage, &store);
    let alarms: Vec<_> = (21..=24_u64).map(|key| entities.get::<Alarm>(key)).collect();
    let handles: Vec<_> = alarms
        .iter()
        .map(|alarm| register(&stage, alarm, "one", Schedule::once(6 * MINUTE)))
        .collect();
    let open = store.hold_list();
    stage.advance(5 * MINUTE);
    // The look has read all four. Removed, removed and registered anew, moved out of the window, moved.
    stage.wait_within(alarms[0].reminders().unregister(&handles[0]), Duration::ZERO)??;
    stage.wait_within(alarms[1].reminders().unregister(&handles[1]), Duration::ZERO)??;
    register(&stage, &alarms[1], "one", Schedule::once(3 * MINUTE));
    register(&stage, &alarms[2], "one", Schedule::once(HOUR));
    register(&stage, &alarms[3], "one", Schedule::once(2 * MINUTE));
    open.complete(()).map_err(|_| "opened twice")?;
    let told = || [21, 22, 23, 24].map(ticks);
    stage.advance(MINUTE + SECOND);
    assert_eq!(told(), [0, 0, 0, 0], "none at its old time");
    assert_eq!(store.rows.len(), 3);
    stage.advance(MINUTE);
    assert_eq!(told(), [0, 0, 0, 1]);
    stage.advance(MINUTE);
    assert_eq!(told(), [0, 1, 0, 1]);
    stage.advance(HOUR);
    assert_eq!(told(), [0, 1, 1, 1]);
    assert!(store.rows.is_empty());
    Ok(())
}

// O-T137
#[test]
fn times_and_periods_of_many_years_work() -> Outcome {
    let stage = Stage::new(137);
    let store = TestStore::new();
    let year = 365 * 24 * HOUR;
    {
        let entities = begin(&stage, &store);
        let alarm = entities.get::<Alarm>(31_u64);
        register(&stage, &alarm, "later", Schedule::every(100 * year).first(60 * 24 * HOUR));
        register(&stage, &alarm, "never", Schedule::once(1_000_000 * year));
        let far = stage.wait(alarm.reminders().register("far", Schedule::once(Duration::MAX)))?;
        assert!(matches!(far, Err(ReminderError::OutOfRange { .. })), "{far:?}");
        stage.advance(60 * 24 * HOUR - TICK);
        assert_eq!(ticks(31), 0);
        stage.advance(TICK);
        assert_eq!(ticks(31), 1);
        let never = get(&stage, &alarm, "never").ok_or("it is there")?;
        assert_eq!(never.first_due(), UNIX_EPOCH + 946_684_800 * SECOND + 1_000_000 * year);
    }
    // No look happens for most of the hundred years.
    stage.run();
    stage.advance(100 * year - HOUR);
    let entities = begin(&stage, &store);
    assert_eq!(ticks(31), 1);
    stage.advance(HOUR);
    assert_eq!(ticks(31), 2);
    end(&stage, entities);
    Ok(())
}

// O-T139
#[test]
fn missed_occurrences_are_skipped_without_drift_or_made_up_for_as_wanted() {
    let stage = Stage::new(139);
    let store = TestStore::new();
    let entities = begin(&stage, &store);
    let start = stage.sim().wall();
    let policies = [(41_u64, MissedTicks::Skip), (42, MissedTicks::Once), (43, MissedTicks::Every)];
    for (key, missed) in policies {
        let schedule = Schedule::every(10 * MINUTE).missed(missed);
        register(&stage, &entities.get::<Alarm>(key), "one", schedule);
    }
    register(&stage, &entities.get::<Alarm>(44_u64), "once", Schedule::once(20 * MINUTE));
    stage.advance(10 * MINUTE);
    assert_eq!([41, 42, 43].map(ticks), [1, 1, 1]);
    end(&stage, entities);
    // Down from the first occurrence to half a period after the fourth.
    stage.advance(35 * MINUTE);
    assert_eq!([41, 42, 43, 44].map(ticks), [1, 1, 1, 0]);
    let entities = begin(&stage, &store);
    assert_eq!([41, 42, 43, 44].map(ticks), [1, 2, 4, 1], "one that ticks once is not missed");
    stage.advance(5 * MINUTE - TICK);
    assert_eq!([41, 42, 43].map(ticks), [1, 2, 4]);
    stage.advance(TICK);
    assert_eq!([41, 42, 43].map(ticks), [2, 3, 5], "the cadence is kept");
    let told = |key| {
        life(key, |life| {
            let told = |tick: &ReminderTick| {
                let since = tick.planned.duration_since(start).unwrap_or_default();
                (since.as_secs() / 60, tick.skipped)
            };
            life.ticks.iter().map(told).collect::<Vec<_>>()
        })
    };
    assert_eq!(told(41), [(10, 0), (50, 3)]);
    assert_eq!(told(42), [(10, 0), (40, 2), (50, 0)]);
    assert_eq!(told(43), [(10, 0), (20, 0), (30, 0), (40, 0), (50, 0)]);
    assert_eq!(entities.reminder_stats().map(|stats| stats.skipped), Some(3 + 2));
    // A tick that takes longer than its period neither overlaps itself nor shifts the next one.
    life(41, |life| life.takes = 2 * MINUTE + SECOND);
    let minutely = entities.get::<Alarm>(41_u64);
    register(&stage, &minutely, "slow", Schedule::every(MINUTE));
    stage.advance(10 * MINUTE - SECOND);
    let slow = life(41, |life| {
        let slow = life.ticks[2..].iter().filter(|tick| &*tick.name == "slow");
        slow.map(|tick| {
            (tick.planned.duration_since(start).map(|since| since.as_secs()), tick.skipped)
        })
        .map(|(since, skipped)| (since.unwrap_or_default() / 60, skipped))
        .collect::<Vec<_>>()
    });
    assert_eq!(slow, [(51, 0), (54, 2), (57, 2)]);
}

/// Ownership of the keys: a node by its number, in epochs.
#[derive(Debug)]
struct Owned {
    node: u64,
    by: Arc<Mutex<(u64, u64)>>,
}

impl Placement for Owned {
    fn place(&self, _: &str, key: &str) -> Ownership {
        let (nodes, epoch) = *self.by.lock();
        let owner = key.parse::<u64>().unwrap_or_default() % nodes;
        Ownership { is_local: owner == self.node, epoch }
    }
}

// O-T140
#[test]
fn all_reminders_go_on_while_nodes_join_and_leave() {
    let stage = Stage::new(140);
    let store = TestStore::new();
    let by = Arc::new(Mutex::new((1, 1)));
    let node = |node| begin_placed(&stage, &store, Arc::new(Owned { node, by: Arc::clone(&by) }));
    let zero = node(0);
    let keys = 51..=60_u64;
    for key in keys.clone() {
        register(&stage, &zero.get::<Alarm>(key), "one", Schedule::every(MINUTE));
    }
    stage.advance(10 * MINUTE + SECOND);
    // Another joins and takes half of the keys; its looks find them.
    *by.lock() = (2, 2);
    let one = node(1);
    stage.advance(10 * MINUTE);
    assert!(one.reminder_stats().is_some_and(|stats| stats.ticks >= 45), "it tells its half");
    let elsewhere = one.get::<Alarm>(52_u64).reminders();
    let elsewhere = stage.wait(elsewhere.register("two", Schedule::every(MINUTE)));
    assert!(matches!(elsewhere, Ok(Err(ReminderError::Elsewhere { .. }))), "{elsewhere:?}");
    // It leaves.
    *by.lock() = (1, 3);
    end(&stage, one);
    stage.advance(10 * MINUTE);
    for key in keys {
        let planned: Vec<_> =
            life(key, |life| life.ticks.iter().map(|tick| tick.planned).collect());
        assert!(planned.windows(2).all(|pair| pair[0] < pair[1]), "key {key}: none is told twice");
        // A look is at most five minutes away, and reminders late by then are delivered once.
        assert!((25..=30).contains(&planned.len()), "key {key}: {} ticks", planned.len());
    }
}

// O-T141
#[test]
fn a_window_that_is_zero_or_shorter_than_the_time_between_two_looks_is_refused() -> Outcome {
    let store = TestStore::new();
    let error = |builder: RemindersBuilder| builder.build().err();
    let zero = |what| Some(RemindersError::Zero { what });
    assert_eq!(error(described(&store).window(Duration::ZERO)), zero("the window"));
    let refresh = error(described(&store).refresh(Duration::ZERO));
    assert_eq!(refresh, zero("the time between two looks at the store"));
    assert_eq!(error(described(&store).period_min(Duration::ZERO)), zero("the shortest period"));
    let short = error(described(&store).window(MINUTE).refresh(MINUTE + TICK));
    let (window, refresh) = (MINUTE, MINUTE + TICK);
    assert_eq!(short, Some(RemindersError::WindowTooShort { window, refresh }));
    described(&store).window(MINUTE).refresh(MINUTE).build()?;
    Ok(())
}

// O-T142
#[test]
fn stored_times_are_milliseconds_of_universal_time() -> Outcome {
    let stage = Stage::new(142);
    let store = TestStore::new();
    let entities = begin(&stage, &store);
    // The simulation begins with the year 2000, universal time.
    let schedule = Schedule::every(MINUTE).first(Duration::from_nanos(1_500_000_001));
    register(&stage, &entities.get::<Alarm>(61_u64), "one", schedule);
    let row = stage.wait(store.rows.get(&ReminderId::new("alarm", "61", "one")))??;
    let row = row.ok_or("it is there")?;
    assert_eq!((row.first_due_ms, row.planned_ms), (946_684_801_501, 946_684_801_501));
    assert_eq!((row.due_ms, row.period_ms), (946_684_801_501, Some(60_000)));
    let exact = UNIX_EPOCH + Duration::from_millis(946_684_900_000);
    register(&stage, &entities.get::<Alarm>(61_u64), "two", Schedule::once_at(exact));
    stage.advance(100 * SECOND - TICK);
    assert_eq!(life(61, |life| life.ticks.iter().filter(|tick| &*tick.name == "two").count()), 0);
    stage.advance(TICK);
    let planned = life(61, |life| life.ticks.last().map(|tick| tick.planned));
    assert_eq!(planned, Some(exact));
    stage.answer(entities.get::<Alarm>(61_u64).ask(Touch));
    Ok(())
}

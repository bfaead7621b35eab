//! Reminders in trouble: failing ticks and stores, clocks that jump, bad input, many at once, and all of it
//! at random.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_actors::entity::reminder::{NAME_BYTES_MAX, PER_ENTITY_MAX, UNDER_WAY_MAX};
use turnwheel_actors::entity::{
    EntityKey, MemoryReminders, Reminder, ReminderError, ReminderTick, Reminders, RemindersError,
    Schedule,
};
use turnwheel_actors::{Actor, Context, Entities, Entity, Handler, System};
use turnwheel_actors_testkit::{self as testkit, Stage};
use turnwheel_runtime::{Backoff, Group, Pinning};

use crate::alarms::{
    begin, described, end, get, life, register, ticks, Alarm, TestStore, Touch, HOUR, MINUTE,
    SECOND,
};

type Outcome = Result<(), Box<dyn Error>>;

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn the_stores_of_these_tests_are_sound() {
    testkit::check_reminder_store(&MemoryReminders::new());
    testkit::check_reminder_store(&*TestStore::new());
}

fn failures(key: u64) -> Vec<u32> {
    life(key, |life| life.ticks.iter().map(|tick| tick.failures).collect())
}

#[test]
fn a_failing_tick_is_counted_and_repeated_also_after_a_restart() {
    let stage = Stage::new(1);
    let (store, key) = (TestStore::new(), 201_u64);
    let entities = begin(&stage, &store);
    let alarm = entities.get::<Alarm>(key);
    register(&stage, &alarm, "hourly", Schedule::every(HOUR));
    life(key, |life| life.fails = 3);
    stage.advance(HOUR + 10 * SECOND);
    assert_eq!(failures(key), [0, 1, 2, 3], "pauses of one, two and four seconds at most");
    let stats = entities.reminder_stats().expect("there are reminders");
    assert_eq!((stats.failed, stats.ticks), (3, 1));
    stage.advance(HOUR - 10 * SECOND);
    assert_eq!(failures(key), [0, 1, 2, 3, 0], "the cadence is kept");
    // An occurrence that has failed is not missed: the next process tries it again.
    life(key, |life| life.fails = 12);
    stage.advance(HOUR + MINUTE);
    let (failed, planned) = life(key, |life| {
        (life.ticks.len(), life.ticks.last().map(|tick| tick.planned).expect("a tick"))
    });
    assert!((10..=14).contains(&failed), "{failed}");
    assert_eq!(get(&stage, &alarm, "hourly").map(|reminder| reminder.failures() > 4), Some(true));
    end(&stage, entities);
    stage.advance(10 * MINUTE);
    assert_eq!(ticks(key), failed, "nobody tells it");
    let _entities = begin(&stage, &store);
    stage.advance(20 * MINUTE);
    life(key, |life| {
        let last = life.ticks.last().expect("a tick");
        assert_eq!((life.fails, last.planned, last.failures), (0, planned, 12));
    });
}

#[test]
fn a_panic_and_a_failing_activation_lose_no_tick() {
    let stage = Stage::new(2);
    let (store, key) = (TestStore::new(), 202_u64);
    let entities = begin(&stage, &store);
    let alarm = entities.get::<Alarm>(key);
    register(&stage, &alarm, "minutely", Schedule::every(MINUTE));
    life(key, |life| (life.panics, life.dead) = (1, 2));
    stage.advance(MINUTE + 20 * SECOND);
    assert_eq!(failures(key), [2, 3], "two activations failed, then a tick panicked");
    stage.advance(MINUTE);
    assert_eq!(failures(key), [2, 3, 0]);
    assert!(alarm.is_active());
}

#[test]
fn a_tick_that_takes_too_long_counts_as_failed_and_does_not_overlap() -> Outcome {
    let stage = Stage::new(3);
    let (store, key) = (TestStore::new(), 203_u64);
    let settings = described(&store).entity::<Alarm, _>().tick_limit(10 * SECOND).build()?;
    let entities = Entities::builder(stage.system()).reminders(&settings).build();
    register(&stage, &entities.get::<Alarm>(key), "hourly", Schedule::every(HOUR));
    life(key, |life| life.takes = 15 * SECOND);
    stage.advance(HOUR + 14 * SECOND);
    assert_eq!(failures(key), [0]);
    assert_eq!(entities.reminder_stats().map(|stats| stats.failed), Some(1));
    life(key, |life| life.takes = Duration::ZERO);
    stage.advance(30 * SECOND);
    assert_eq!(failures(key), [0, 1], "the alarm itself checks that they do not overlap");
    Ok(())
}

#[test]
fn a_reminder_of_an_unknown_type_is_counted_and_kept_until_somebody_knows_it() -> Outcome {
    let stage = Stage::new(4);
    let (store, key) = (TestStore::new(), 204_u64);
    let entities = begin(&stage, &store);
    register(&stage, &entities.get::<Alarm>(key), "minutely", Schedule::every(MINUTE));
    end(&stage, entities);
    let nobody = Entities::builder(stage.system()).reminders(&described(&store).build()?).build();
    let reminders = nobody.get::<Alarm>(key).reminders();
    let refused = stage.wait(reminders.register("other", Schedule::every(MINUTE)))?;
    assert!(matches!(refused, Err(ReminderError::NotTaken { .. })), "{refused:?}");
    stage.advance(10 * MINUTE);
    let stats = nobody.reminder_stats().expect("there are reminders");
    assert!(stats.unknown >= 8 && stats.unknown == stats.failed, "{stats:?}");
    assert_eq!((ticks(key), store.rows.len()), (0, 1));
    end(&stage, nobody);
    let _entities = begin(&stage, &store);
    stage.advance(6 * MINUTE);
    assert!(failures(key)[0] >= 8 && ticks(key) > 1, "{:?}", failures(key));
    Ok(())
}

#[test]
fn a_store_that_fails_delays_ticks_and_repeats_none() {
    let stage = Stage::new(5);
    let (store, key) = (TestStore::new(), 205_u64);
    let entities = begin(&stage, &store);
    let alarm = entities.get::<Alarm>(key);
    register(&stage, &alarm, "minutely", Schedule::every(MINUTE));
    register(&stage, &alarm, "once", Schedule::once(MINUTE));
    store.fails.store(6, Ordering::Relaxed);
    stage.advance(90 * SECOND);
    assert_eq!(ticks(key), 2, "told once, though it was not written at once");
    assert_eq!((store.fails.load(Ordering::Relaxed), store.rows.len()), (0, 1));
    stage.advance(30 * SECOND);
    assert_eq!(ticks(key), 3);
    // The store cannot be read: reminders in memory are delivered, the rest after the next read.
    store.is_deaf.store(true, Ordering::Relaxed);
    register(&stage, &alarm, "far", Schedule::once(30 * MINUTE));
    stage.advance(40 * MINUTE);
    assert_eq!(ticks(key), 3 + 40);
    let stats = entities.reminder_stats().expect("there are reminders");
    assert!((6 + 8..100).contains(&stats.store_failures), "after pauses: {stats:?}");
    store.is_deaf.store(false, Ordering::Relaxed);
    stage.advance(5 * MINUTE);
    let far = life(key, |life| life.ticks.iter().filter(|tick| &*tick.name == "far").count());
    assert_eq!(far, 1);
    let failed = stage.wait({
        store.fails.store(1, Ordering::Relaxed);
        alarm.reminders().register("other", Schedule::every(MINUTE))
    });
    assert!(matches!(failed, Ok(Err(ReminderError::Store(_)))), "{failed:?}");
}

#[test]
fn bad_input_is_refused_with_what_is_wrong() -> Outcome {
    let stage = Stage::new(6);
    let (store, key) = (TestStore::new(), 206_u64);
    let entities = begin(&stage, &store);
    let alarm = entities.get::<Alarm>(key).reminders();
    let refused = |name: &str, schedule: Schedule| {
        stage.wait(alarm.register(name, schedule)).ok().and_then(Result::err)
    };
    let short = refused("short", Schedule::every(MINUTE - Duration::from_nanos(1)));
    assert!(matches!(short, Some(ReminderError::PeriodTooShort { .. })), "{short:?}");
    assert!(short.is_some_and(|error| error.to_string().contains("«short»")));
    for name in ["", &"n".repeat(NAME_BYTES_MAX + 1)] {
        let bad = refused(name, Schedule::every(MINUTE));
        assert!(matches!(bad, Some(ReminderError::BadName { .. })), "{bad:?}");
    }
    for number in 0..PER_ENTITY_MAX {
        assert!(refused(&number.to_string(), Schedule::every(HOUR)).is_none());
    }
    let many = refused("many", Schedule::every(HOUR));
    assert!(matches!(many, Some(ReminderError::TooMany { .. })), "{many:?}");
    assert!(refused("7", Schedule::every(2 * HOUR)).is_none(), "an update needs no room");
    assert_eq!(stage.wait(alarm.list())??.len(), PER_ENTITY_MAX);
    let plain = Entities::new(stage.system());
    let none = stage.wait(plain.get::<Alarm>(key).reminders().get("7"))?;
    assert!(matches!(none, Err(ReminderError::NotSetUp)), "{none:?}");
    assert_eq!(plain.reminder_stats(), None);
    Ok(())
}

/// A key that no text is read back to, and a type without a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Opaque(u8);

impl EntityKey for Opaque {
    fn text(&self) -> std::borrow::Cow<'_, str> {
        self.0.to_string().into()
    }
}

struct Hidden<const NAMED: bool>;

impl<const NAMED: bool> Actor for Hidden<NAMED> {
    type Error = std::convert::Infallible;
}

impl<const NAMED: bool> Entity for Hidden<NAMED> {
    type Key = Opaque;
    const NAME: &'static str = if NAMED { "alarm" } else { "" };

    fn create(_: &Opaque) -> Self {
        Hidden
    }
}

impl<const NAMED: bool> Handler<ReminderTick> for Hidden<NAMED> {
    type Reply = ();

    fn handle(&mut self, _: ReminderTick, _: &mut Context<'_, Self>) {}
}

#[test]
fn a_type_without_a_name_or_with_anothers_and_a_key_that_is_not_read_back_are_refused() -> Outcome {
    let stage = Stage::new(7);
    let store = TestStore::new();
    let unnamed = described(&store).entity::<Hidden<false>, _>().build();
    assert!(matches!(unnamed, Err(RemindersError::Unnamed { .. })), "{unnamed:?}");
    let same = described(&store).entity::<Alarm, _>().entity::<Hidden<true>, _>().build();
    assert!(matches!(same, Err(RemindersError::SameName { name: "alarm" })), "{same:?}");
    described(&store).entity::<Alarm, _>().entity::<Alarm, _>().build()?;
    let settings = described(&store).entity::<Hidden<true>, _>().build()?;
    let entities = Entities::builder(stage.system()).reminders(&settings).build();
    let hidden = entities.get::<Hidden<true>>(Opaque(7)).reminders();
    let refused = stage.wait(hidden.register("one", Schedule::every(MINUTE)))?;
    assert!(matches!(refused, Err(ReminderError::UnreadableKey { .. })), "{refused:?}");
    Ok(())
}

#[test]
fn a_wall_clock_that_jumps_makes_no_tick_early_and_none_twice() {
    let stage = Stage::new(8);
    let (store, key) = (TestStore::new(), 208_u64);
    let entities = begin(&stage, &store);
    register(&stage, &entities.get::<Alarm>(key), "hourly", Schedule::every(HOUR));
    stage.advance(59 * MINUTE);
    stage.sim().set_wall(stage.sim().wall() - 30 * MINUTE);
    stage.advance(30 * MINUTE);
    assert_eq!(ticks(key), 0, "it is not an hour later on the wall");
    stage.advance(MINUTE);
    assert_eq!(ticks(key), 1);
    stage.sim().set_wall(stage.sim().wall() + 150 * MINUTE);
    stage.advance(5 * MINUTE);
    assert_eq!(ticks(key), 2, "found by the next look; two occurrences are one tick");
    stage.advance(25 * MINUTE);
    assert_eq!(ticks(key), 3, "and the cadence is kept");
    assert_eq!(life(key, |life| life.ticks[2].skipped), 1);
}

#[test]
fn an_entity_may_register_and_remove_its_reminders_while_it_is_told() {
    let stage = Stage::new(9);
    let (store, key) = (TestStore::new(), 209_u64);
    let entities = begin(&stage, &store);
    register(&stage, &entities.get::<Alarm>(key), "again", Schedule::once(MINUTE));
    stage.advance(10 * MINUTE);
    assert_eq!(ticks(key), 3, "each registered the next");
    register(&stage, &entities.get::<Alarm>(210_u64), "bye", Schedule::every(MINUTE));
    stage.advance(10 * MINUTE);
    assert_eq!((ticks(210), store.rows.len()), (1, 0));
}

#[test]
fn thousands_that_are_due_at_once_are_all_told() {
    let stage = Stage::new(10);
    let store = TestStore::new();
    let entities = begin(&stage, &store);
    let count = 3 * UNDER_WAY_MAX as u64;
    let keys = 10_000..10_000 + count;
    let at = stage.sim().wall() + MINUTE;
    for key in keys.clone() {
        register(&stage, &entities.get::<Alarm>(key), "all", Schedule::once_at(at));
    }
    life(10_000, |life| life.takes = 2 * MINUTE);
    stage.advance(MINUTE);
    let stats = entities.reminder_stats().expect("there are reminders");
    assert_eq!((stats.ticks, stats.under_way), (count - 1, 1), "a slow one holds up none");
    stage.advance(2 * MINUTE);
    assert!(keys.into_iter().all(|key| ticks(key) == 1));
    assert!(store.rows.is_empty());
}

/// Reports its ticks on a channel.
struct Bell;

static BELLS: Mutex<Option<mpsc::Sender<u64>>> = Mutex::new(None);

impl Actor for Bell {
    type Error = std::convert::Infallible;
}

impl Entity for Bell {
    type Key = u64;
    const NAME: &'static str = "bell";
    const IDLE: Duration = Duration::from_millis(20);

    fn create(_: &u64) -> Self {
        Bell
    }
}

impl Handler<ReminderTick> for Bell {
    type Reply = ();

    fn handle(&mut self, tick: ReminderTick, _: &mut Context<'_, Self>) {
        assert!(tick.current >= tick.planned, "early");
        let name = tick.name.parse().expect("names are numbers here");
        let bells = BELLS.lock();
        bells.as_ref().expect("the test listens").send(name).expect("the test listens");
    }
}

#[test]
fn reminders_are_told_by_threads_in_real_time_until_the_end() -> Outcome {
    let (bell, heard) = mpsc::channel();
    *BELLS.lock() = Some(bell);
    let group = Group::builder("bells").workers(2).pinning(Pinning::None).build()?;
    let store = Arc::new(MemoryReminders::new());
    let builder = Reminders::builder(store).entity::<Bell, _>();
    let times = builder.period_min(Duration::from_millis(1)).refresh(Duration::from_millis(7));
    let settings = times.window(Duration::from_millis(9)).retry(Backoff::default()).build()?;
    let entities = Entities::builder(&System::new(&group)).reminders(&settings).build();
    for number in 0..20_u64 {
        let bell = entities.get::<Bell>(number).reminders();
        let schedule = Schedule::every(Duration::from_millis(5 + number));
        let registered = turnwheel_runtime::completion::block_on(async move {
            bell.register(&number.to_string(), schedule).await
        });
        registered??;
    }
    let mut counts = [0_u32; 20];
    while counts.iter().any(|count| *count < 5) {
        counts[usize::try_from(heard.recv_timeout(PATIENCE)?)?] += 1;
    }
    assert!(group.shutdown()?.is_clean());
    *BELLS.lock() = None;
    Ok(())
}

/// Times, in milliseconds, at which one reminder was registered and delivered.
struct Expected {
    handle: Reminder,
    from_ms: u64,
    period_ms: u64,
}

/// A small generator for the choices of a test.
struct Choice(u64);

impl Choice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Registers, changes, removes, restarts and looks late at random, and returns the ticks that are
/// due.
fn at_random(stage: &Stage<'_>, base: u64) {
    let store = TestStore::new();
    let mut choice = Choice(base);
    let mut entities = begin(stage, &store);
    let mut there: BTreeMap<u64, Expected> = BTreeMap::new();
    let mut told: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut held = None;
    for _ in 0..80 {
        let key = base + choice.below(4);
        let now_ms = u64::try_from(stage.now().as_millis()).unwrap_or_default();
        match choice.below(8) {
            0..=2 => {
                let period_ms = [60_000, 90_000, 301_000][choice.below(3) as usize];
                let schedule = Schedule::every(Duration::from_millis(period_ms));
                let handle = register(stage, &entities.get::<Alarm>(key), "one", schedule);
                let is_same = there.get(&key).is_some_and(|known| known.period_ms == period_ms);
                if !is_same {
                    there.insert(key, Expected { handle, from_ms: now_ms, period_ms });
                }
            }
            3 => {
                if let Some(known) = there.remove(&key) {
                    let removed = entities.get::<Alarm>(key).reminders();
                    let removed =
                        stage.wait_within(removed.unregister(&known.handle), Duration::ZERO);
                    removed.expect("it comes at once").expect("it is there");
                }
            }
            4 => held = Some(store.hold_list()),
            5 => drop(held.take()),
            6 => {
                drop(held.take());
                end(stage, entities);
                stage.advance(Duration::from_millis(1 + 2 * choice.below(200_000)));
                entities = begin(stage, &store);
                continue;
            }
            _ => stage.answer(entities.get::<Alarm>(key).ask(Touch)),
        }
        let step_ms = 1 + 2 * choice.below(100_000);
        let from_ms = u64::try_from(stage.now().as_millis()).unwrap_or_default();
        stage.advance(Duration::from_millis(step_ms));
        for (key, known) in &there {
            let occurrences = (1..).map(|number| known.from_ms + number * known.period_ms);
            let passed = occurrences.take_while(|at_ms| *at_ms <= from_ms + step_ms);
            told.entry(*key).or_default().extend(passed.filter(|at_ms| *at_ms > from_ms));
        }
    }
    let start = stage.sim().wall() - stage.now();
    for (key, expected) in told {
        let planned = life(key, |life| {
            let since =
                |tick: &ReminderTick| tick.planned.duration_since(start).unwrap_or_default();
            let since = life.ticks.iter().map(|tick| since(tick).as_millis() as u64);
            since.collect::<Vec<_>>()
        });
        assert_eq!(planned, expected, "key {key}");
    }
}

#[test]
fn every_occurrence_is_told_once_whatever_happens_between() {
    testkit::check(0..30, |stage| {
        at_random(stage, 1_000_000 + 100 * stage.sim().seed().unwrap_or_default());
        stage.assert_no_failures();
    });
}

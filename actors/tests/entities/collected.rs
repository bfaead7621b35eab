//! Collection by order and by age, the list of active keys, ownership of keys, and entities that
//! find others in `create`.

use std::convert::Infallible;
use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use turnwheel_actors::entity::{Collect, CreateContext, LookError, NotOwner, Ownership, Placement};
use turnwheel_actors::{
    Actor, AskError, Context, Directive, Entities, EntitiesBuilder, Entity, EntityRef, Handler,
    System,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Failure, SubmitErrorKind};

type Outcome = Result<(), Box<dyn Error>>;

const SECOND: Duration = Duration::from_secs(1);

struct Cache;

impl Actor for Cache {
    type Error = Infallible;
}

impl Entity for Cache {
    type Key = u64;
    const NAME: &'static str = "cache";

    fn create(_: &u64) -> Self {
        Cache
    }
}

#[derive(Debug, PartialEq)]
struct Get(u32);

impl Handler<Get> for Cache {
    type Reply = u32;

    fn handle(&mut self, Get(value): Get, _: &mut Context<'_, Self>) -> u32 {
        value
    }
}

struct Hold;

impl Handler<Hold> for Cache {
    type Reply = ();

    fn handle(&mut self, _: Hold, cx: &mut Context<'_, Self>) {
        cx.hold();
    }
}

fn entities(settings: impl FnOnce(EntitiesBuilder) -> EntitiesBuilder) -> (Sim, Entities) {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("sim"));
    let entities = settings(Entities::builder(&system)).build();
    (sim, entities)
}

fn get(sim: &Sim, entities: &Entities, key: u64) -> Outcome {
    entities.get::<Cache>(key).tell(Get(0))?;
    sim.run_until_idle();
    Ok(())
}

fn active(entities: &Entities) -> Vec<u64> {
    let mut keys = entities.active_keys::<Cache>();
    keys.sort_unstable();
    keys
}

#[test]
fn active_keys_are_listed_by_type_and_by_name() -> Outcome {
    let (sim, entities) = entities(|settings| settings);
    assert_eq!(entities.active_keys_of("cache"), Err(LookError::UnknownType("cache".to_owned())));
    for key in [7, 3, 5] {
        get(&sim, &entities, key)?;
    }
    drop(entities.get::<Cache>(5_u64).passivate());
    sim.run_until_idle();
    assert_eq!(active(&entities), [3, 7]);
    let mut texts = entities.active_keys_of("cache")?;
    texts.sort();
    assert_eq!(texts, ["3", "7"]);
    Ok(())
}

#[test]
fn those_that_are_idle_for_so_long_are_collected_by_order() -> Outcome {
    let (sim, entities) = entities(|settings| settings);
    for key in 0..4 {
        get(&sim, &entities, key)?;
        sim.advance(SECOND);
    }
    entities.get::<Cache>(0_u64).tell(Hold)?;
    sim.run_until_idle();
    assert_eq!(entities.collect::<Cache>(Collect::IdleFor(SECOND * 2)), 2, "keys 1 and 2");
    sim.run_until_idle();
    assert_eq!(active(&entities), [0, 3]);
    sim.advance(SECOND * 10);
    entities.collect::<Cache>(Collect::IdleFor(Duration::ZERO));
    sim.run_until_idle();
    assert_eq!(active(&entities), [0], "it is held");
    Ok(())
}

#[test]
fn old_ones_are_collected_though_they_are_in_use() -> Outcome {
    let (sim, entities) = entities(|settings| settings);
    get(&sim, &entities, 1)?;
    entities.get::<Cache>(2_u64).tell(Hold)?;
    sim.run_until_idle();
    sim.advance(SECOND * 10);
    get(&sim, &entities, 1)?;
    get(&sim, &entities, 3)?;
    // Messages sent before are handled first.
    let asked = entities.get::<Cache>(1_u64).ask(Get(5));
    assert_eq!(entities.collect::<Cache>(Collect::OlderThan(SECOND * 9)), 2);
    sim.run_until_idle();
    assert_eq!(asked.wait().map_err(|error| error.to_string())?, 5);
    assert_eq!(active(&entities), [2, 3], "one is held, one is young");
    Ok(())
}

#[test]
fn an_activation_beyond_the_greatest_age_is_passivated_though_it_is_in_use() -> Outcome {
    let (sim, entities) = entities(|settings| settings.age_max(SECOND * 60));
    let mut ages = Vec::new();
    get(&sim, &entities, 1)?;
    let mut activation = entities.look("cache", "1")?.activation;
    let mut age = 0;
    for _ in 0..300 {
        sim.advance(SECOND);
        get(&sim, &entities, 1)?;
        age += 1;
        let now = entities.look("cache", "1")?.activation;
        if now != activation {
            ages.push(age);
            (activation, age) = (now, 0);
        }
    }
    assert!(ages.len() >= 3, "{ages:?}");
    assert!(ages.iter().all(|age| (60..=77).contains(age)), "{ages:?}");
    Ok(())
}

/// Another node owns odd keys, in an epoch that rises.
#[derive(Debug)]
struct Odd(AtomicU64);

impl Placement for Odd {
    fn place(&self, _: &str, key: &str) -> Ownership {
        let is_odd = key.parse::<u64>().is_ok_and(|key| key % 2 == 1);
        Ownership { is_local: !is_odd, epoch: self.0.load(Ordering::Relaxed) }
    }

    fn owner(&self, _: &str, _: &str) -> Option<String> {
        Some("node-b:7000".to_owned())
    }
}

fn owner(refused: NotOwner) -> (Option<String>, u64, String) {
    (refused.owner, refused.epoch, refused.key)
}

#[test]
fn a_message_for_a_key_of_another_node_comes_back_with_owner_and_epoch() -> Outcome {
    let placement = Arc::new(Odd(AtomicU64::new(4)));
    let (sim, entities) = entities(|settings| settings.placement(placement.clone()));
    let (mine, other) = (entities.get::<Cache>(2_u64), entities.get::<Cache>(3_u64));
    let expected = |epoch| (Some("node-b:7000".to_owned()), epoch, "3".to_owned());
    match other.ask(Get(1)).wait() {
        Err(AskError::NotOwner { owner: refused, message }) => {
            assert_eq!(message, Get(1));
            let text = refused.to_string();
            assert!(text.contains("«3» is owned by node-b:7000 since epoch 4"), "{text}");
            assert_eq!(owner(*refused), expected(4));
        }
        other => panic!("{other:?}"),
    }
    placement.0.store(5, Ordering::Relaxed);
    let refused = other.tell(Get(2)).expect_err("another node owns it");
    assert_eq!((refused.kind, refused.message), (SubmitErrorKind::Refused, Get(2)));
    assert_eq!(other.not_owner().map(owner), Some(expected(5)));
    assert_eq!(mine.not_owner(), None);
    let asked = mine.ask(Get(3));
    sim.run_until_idle();
    assert_eq!(asked.wait().map_err(|error| error.to_string())?, 3);
    Ok(())
}

/// All keys but the first move to another node.
#[derive(Debug, Default)]
struct Moves(AtomicBool);

impl Placement for Moves {
    fn place(&self, _: &str, key: &str) -> Ownership {
        let has_moved = self.0.load(Ordering::Relaxed);
        Ownership { is_local: !has_moved || key == "1", epoch: 1 + u64::from(has_moved) }
    }

    fn owner(&self, _: &str, _: &str) -> Option<String> {
        Some("node-b:7000".to_owned())
    }
}

#[test]
fn messages_that_wait_for_room_are_refused_when_their_key_has_moved() -> Outcome {
    let placement = Arc::new(Moves::default());
    let (sim, entities) = entities(|settings| settings.placement(placement.clone()).active_max(1));
    entities.get::<Cache>(1_u64).tell(Hold)?;
    sim.run_until_idle();
    let waiting = entities.get::<Cache>(3_u64).ask(Get(5));
    sim.run_until_idle();
    assert_eq!(active(&entities), [1], "there is room for one");
    placement.0.store(true, Ordering::Relaxed);
    drop(entities.get::<Cache>(1_u64).passivate());
    sim.run_until_idle();
    let Err(AskError::Unanswered(failure)) = waiting.wait() else { panic!("not refused") };
    let refused = failure.downcast_ref::<NotOwner>().ok_or("another failure")?;
    let expected = (Some("node-b:7000".to_owned()), 2, "3".to_owned());
    assert_eq!(owner(refused.clone()), expected);
    assert!(active(&entities).is_empty(), "nothing begins for a key of another node");
    get(&sim, &entities, 1)?;
    assert_eq!(active(&entities), [1], "its room was given back");
    Ok(())
}

#[test]
fn collection_during_a_shutdown_loses_no_accepted_message() -> Outcome {
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let group = sim.group("sim");
        let entities = Entities::builder(&System::new(&group)).build();
        let asked: Vec<_> =
            (0..8_u64).map(|key| entities.get::<Cache>(key).ask(Get(key as u32))).collect();
        // Some have begun when the shutdown does, and the collector is in between.
        for _ in 0..seed {
            sim.run_one();
        }
        let report = group.shutdown_later(SECOND * 60);
        for collect in [Collect::IdleFor(Duration::ZERO), Collect::OlderThan(Duration::ZERO)] {
            entities.collect::<Cache>(collect);
            sim.run_one();
        }
        assert!(sim.wait_for(report, SECOND * 60)?.is_clean(), "seed {seed}");
        for (key, asked) in (0..).zip(asked) {
            match asked.wait() {
                Ok(value) => assert_eq!(value, key, "seed {seed}"),
                Err(AskError::Unanswered(failure)) => assert!(failure.is_closed(), "{failure}"),
                Err(AskError::Refused(refused)) => {
                    assert_eq!(refused.kind, SubmitErrorKind::Closed);
                }
                Err(other) => panic!("{other:?}, seed {seed}"),
            }
        }
        assert!(active(&entities).is_empty(), "seed {seed}");
    }
    Ok(())
}

/// Has the reference of the cache from its creation on.
struct Reader(EntityRef<Cache>);

impl Actor for Reader {
    type Error = Infallible;

    fn on_failure(&mut self, _: &Failure, _: &mut Context<'_, Self>) -> Directive {
        Directive::Restart
    }
}

impl Entity for Reader {
    type Key = u64;

    fn create(_: &u64) -> Self {
        unreachable!("it is made with its entities")
    }

    fn create_in(cx: &CreateContext<'_, Self>) -> Self {
        Reader(cx.entities().get::<Cache>(*cx.key()))
    }
}

impl Handler<Get> for Reader {
    type Reply = u64;

    fn handle(&mut self, Get(value): Get, _: &mut Context<'_, Self>) -> u64 {
        assert_ne!(value, 0, "on purpose");
        let _ = self.0.tell(Get(value));
        *self.0.key()
    }
}

#[test]
fn an_entity_finds_others_as_it_is_made_also_after_a_failure() -> Outcome {
    let (sim, entities) = entities(|settings| settings);
    let reader = entities.get::<Reader>(8_u64);
    for value in [1, 0, 1] {
        let asked = reader.ask(Get(value));
        sim.run_until_idle();
        match value {
            0 => assert!(asked.wait().is_err()),
            _ => assert_eq!(asked.wait().map_err(|error| error.to_string())?, 8),
        }
    }
    assert_eq!(active(&entities), [8]);
    Ok(())
}

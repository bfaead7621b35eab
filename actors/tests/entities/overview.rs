//! Overview of entities: types with their counters, and one entity by type and key.

use turnwheel_actors::entity::EntityContext;
use turnwheel_actors::entity::{EntityState, LookError};
use turnwheel_actors::{Actor, Context, Entities, Entity, Handler, System};
use turnwheel_runtime::Group;

#[derive(Debug, thiserror::Error)]
#[error("the lamp is broken")]
struct Broken;

struct Lamp(u64);

impl Actor for Lamp {
    type Error = Broken;
}

impl Entity for Lamp {
    type Key = u64;
    const NAME: &'static str = "lamp";

    fn create(key: &u64) -> Self {
        Self(*key)
    }

    async fn activate(&mut self, _: EntityContext<Self>) -> Result<(), Broken> {
        if self.0 == 13 {
            return Err(Broken);
        }
        Ok(())
    }
}

struct On;

impl Handler<On> for Lamp {
    type Reply = u64;

    fn handle(&mut self, _: On, _: &mut Context<'_, Self>) -> u64 {
        self.0
    }
}

struct Nameless;

impl Actor for Nameless {
    type Error = std::convert::Infallible;
}

impl Entity for Nameless {
    type Key = String;

    fn create(_: &String) -> Self {
        Self
    }
}

impl Handler<On> for Nameless {
    type Reply = ();

    fn handle(&mut self, _: On, _: &mut Context<'_, Self>) {}
}

#[test]
fn types_are_listed_with_their_numbers_from_their_first_use_on() {
    let group = Group::builder("types").workers(1).build().unwrap();
    let entities = Entities::new(&System::new(&group));
    assert!(entities.types().is_empty());
    for key in 0..10_u64 {
        entities.get::<Lamp>(key).ask(On).wait().unwrap();
    }
    entities.get::<Nameless>("a").ask(On).wait().unwrap();
    let types = entities.types();
    assert_eq!(types.len(), 2);
    assert_eq!((types[0].name, types[0].is_named), ("lamp", true));
    assert_eq!((types[0].stats.active, types[0].activations), (10, 10));
    assert!(types[0].oldest_idle.is_some());
    assert_eq!(types[0].idle_limit, Lamp::IDLE);
    assert!(types[1].name.ends_with("Nameless") && !types[1].is_named, "{:?}", types[1]);
    group.shutdown().unwrap();
}

#[test]
fn one_entity_is_looked_at_without_being_activated() {
    let group = Group::builder("looks").workers(1).build().unwrap();
    let entities = Entities::new(&System::new(&group));
    let unknown = entities.look("lamp", "1").unwrap_err();
    assert_eq!(unknown, LookError::UnknownType("lamp".to_owned()));
    assert_eq!(unknown.to_string(), "there is no type of entities «lamp»");
    entities.get::<Lamp>(1_u64).ask(On).wait().unwrap();
    // The answer comes before the message is finished.
    let one = loop {
        match entities.look("lamp", "1").unwrap() {
            busy if busy.queued > 0 => std::thread::yield_now(),
            one => break one,
        }
    };
    assert_eq!(one.state, EntityState::Active);
    assert!(one.activation.is_some() && one.idle.is_some() && one.failure.is_none());
    let two = entities.look("lamp", "2").unwrap();
    assert_eq!((two.state, two.activation), (EntityState::None, None));
    assert_eq!(entities.active::<Lamp>(), 1, "to look is not to touch");
    let word = entities.look("lamp", "two").unwrap_err();
    assert_eq!(word.to_string(), "«two» is no key of «lamp»");
    group.shutdown().unwrap();
}

#[test]
fn a_key_whose_activation_failed_says_why_and_for_how_long() {
    let group = Group::builder("held").workers(1).build().unwrap();
    let entities = Entities::new(&System::new(&group));
    let refused = entities.get::<Lamp>(13_u64).ask(On).wait();
    assert!(refused.is_err());
    // The failure is reported before the key is held.
    let held = loop {
        let look = entities.look("lamp", "13").unwrap();
        match look.state {
            EntityState::Held => break look,
            EntityState::None => panic!("it is held: {look:?}"),
            _ => std::thread::yield_now(),
        }
    };
    assert!(held.failure.is_some_and(|failure| failure.contains("the lamp is broken")));
    assert!(held.held_for.is_some());
    group.shutdown().unwrap();
}

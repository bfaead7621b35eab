//! When an entity was last in use: a look of the collector does not change it.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::time::Duration;

use turnwheel_actors::entity::EntityState;
use turnwheel_actors::{
    Actor, Address, Context, Entities, Entity, Handler, InterleavedHandler, System,
};
use turnwheel_runtime::sim::Sim;

type Outcome = Result<(), Box<dyn Error>>;

const SECOND: Duration = Duration::from_secs(1);

/// Idle after a minute, so the collector looks every 15 seconds.
struct Lamp;

impl Actor for Lamp {
    type Error = Infallible;
}

impl Entity for Lamp {
    type Key = u64;
    const NAME: &'static str = "lamp";
    const IDLE: Duration = Duration::from_secs(60);

    fn create(_: &u64) -> Self {
        Lamp
    }
}

/// Answers its address, by which it is used without the directory.
struct On;

impl Handler<On> for Lamp {
    type Reply = Address<Lamp>;

    fn handle(&mut self, _: On, cx: &mut Context<'_, Self>) -> Address<Lamp> {
        cx.myself()
    }
}

/// Uses it for so long.
struct Glow(Duration);

impl InterleavedHandler<Glow> for Lamp {
    type Reply = ();

    fn handle(
        &mut self,
        Glow(time): Glow,
        cx: &mut Context<'_, Self>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let glows = cx.group().sleep(time);
        async move {
            let _ = glows.await;
        }
    }
}

/// Held: only a message or lack of room ends it.
struct Hold;

impl Handler<Hold> for Lamp {
    type Reply = ();

    fn handle(&mut self, _: Hold, cx: &mut Context<'_, Self>) {
        cx.hold();
    }
}

fn sim() -> (Sim, System) {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("sim"));
    (sim, system)
}

/// Steps until the entity is passivated; returns the time taken.
fn passivated_after(sim: &Sim, entities: &Entities, key: u64) -> Duration {
    let step = SECOND / 4;
    let steps = (0..1_000).find(|_| {
        let is_active = entities.get::<Lamp>(key).is_active();
        sim.advance(if is_active { step } else { Duration::ZERO });
        !is_active
    });
    step * steps.expect("it is passivated at some time")
}

fn idle(entities: &Entities, key: &str) -> Duration {
    let look = entities.look("lamp", key).expect("its type is known");
    assert_eq!(look.state, EntityState::Active);
    look.idle.expect("it is active")
}

#[test]
fn an_idle_limit_of_a_minute_is_kept_whenever_the_last_message_came() -> Outcome {
    for after in [0, 1, 7, 14, 16, 29] {
        let (sim, system) = sim();
        let entities = Entities::new(&system);
        entities.get::<Lamp>(1_u64).tell(On)?;
        sim.run_until_idle();
        sim.advance(SECOND * after);
        entities.get::<Lamp>(1_u64).tell(On)?;
        sim.run_until_idle();
        let taken = passivated_after(&sim, &entities, 1);
        // The collector looks four times in a minute.
        let limit = SECOND * 60..=SECOND * 76;
        assert!(limit.contains(&taken), "{taken:?} with a message at {after} s");
    }
    Ok(())
}

#[test]
fn the_idle_time_of_an_entity_counts_from_its_last_message() -> Outcome {
    let (sim, system) = sim();
    let entities = Entities::new(&system);
    for key in 0..3_u64 {
        entities.get::<Lamp>(key).tell(On)?;
        sim.run_until_idle();
        sim.advance(SECOND);
    }
    // The collector has looked at all of them since.
    sim.advance(SECOND * 37);
    let idle = ["0", "1", "2"].map(|key| idle(&entities, key));
    assert_eq!(idle, [SECOND * 40, SECOND * 39, SECOND * 38]);
    assert_eq!(entities.types()[0].oldest_idle, Some(SECOND * 40));
    Ok(())
}

#[test]
fn the_least_recently_used_makes_room_after_looks_of_the_collector() -> Outcome {
    let (sim, system) = sim();
    let entities = Entities::builder(&system).active_max(16).build();
    // Not in the order of the shards.
    let order: Vec<u64> = (0..16).map(|at| at * 7 % 16).collect();
    for key in &order {
        entities.get::<Lamp>(*key).tell(On)?;
        sim.run_until_idle();
        sim.advance(SECOND / 10);
    }
    sim.advance(SECOND * 40);
    for (further, first) in (100_u64..).zip(&order) {
        assert!(entities.get::<Lamp>(*first).is_active(), "{first} is not the next");
        entities.get::<Lamp>(further).tell(On)?;
        sim.run_until_idle();
        sim.advance(SECOND / 50);
        assert!(!entities.get::<Lamp>(*first).is_active(), "{first} is the next to go");
        assert!(entities.get::<Lamp>(further).is_active());
    }
    Ok(())
}

#[test]
fn a_use_by_address_counts_for_the_limit_and_for_the_order() -> Outcome {
    let (sim, system) = sim();
    let entities = Entities::builder(&system).active_max(2).build();
    let asked = entities.get::<Lamp>(1_u64).ask(On);
    sim.run_until_idle();
    let lamp = asked.wait()?;
    sim.advance(SECOND * 2);
    entities.get::<Lamp>(2_u64).tell(On)?;
    sim.run_until_idle();
    sim.advance(SECOND * 2);
    lamp.tell(On)?;
    sim.run_until_idle();
    sim.advance(SECOND);
    entities.get::<Lamp>(3_u64).tell(On)?;
    sim.run_until_idle();
    sim.advance(SECOND);
    assert!(!entities.get::<Lamp>(2_u64).is_active(), "it was used before the other one");
    sim.advance(SECOND * 50);
    lamp.tell(On)?;
    sim.run_until_idle();
    drop(lamp);
    let taken = passivated_after(&sim, &entities, 1);
    assert!((SECOND * 60..=SECOND * 76).contains(&taken), "{taken:?}");
    Ok(())
}

#[test]
fn the_idle_time_counts_from_the_end_of_a_request_that_lasts() -> Outcome {
    let (sim, system) = sim();
    let entities = Entities::new(&system);
    entities.get::<Lamp>(1_u64).tell(Glow(SECOND * 200))?;
    sim.run_until_idle();
    sim.advance(SECOND * 200);
    sim.run_until_idle();
    let taken = passivated_after(&sim, &entities, 1);
    assert!((SECOND * 60..=SECOND * 76).contains(&taken), "{taken:?}");
    Ok(())
}

#[test]
fn one_that_refuses_to_make_room_is_asked_last_and_no_less_idle() -> Outcome {
    let (sim, system) = sim();
    let entities = Entities::builder(&system).active_max(3).build();
    entities.get::<Lamp>(1_u64).tell(Hold)?;
    entities.get::<Lamp>(2_u64).tell(Hold)?;
    sim.run_until_idle();
    sim.advance(SECOND);
    for key in 3..6_u64 {
        entities.get::<Lamp>(key).tell(On)?;
        sim.run_until_idle();
        sim.advance(SECOND);
        assert!(entities.get::<Lamp>(key).is_active(), "{key} has room");
    }
    assert_eq!([idle(&entities, "1"), idle(&entities, "2")], [SECOND * 4; 2]);
    sim.advance(SECOND * 200);
    assert_eq!(idle(&entities, "1"), SECOND * 204, "it is held, and has had no message");
    Ok(())
}

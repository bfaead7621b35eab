//! Passivation: its time, the ways to request it, and messages that arrive meanwhile.

use std::collections::HashMap;
use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_actors::entity::EntityContext;
use turnwheel_actors::{
    Actor, Admits, Ask, AskError, Context, Entities, Entity, Handler, InterleavedHandler, System,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Group, Pinning};

type Outcome = Result<(), Box<dyn Error>>;

const SECOND: Duration = Duration::from_secs(1);

fn ready<M, R>(ask: &mut Ask<M, R>) -> Result<R, AskError<M>> {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match Pin::new(ask).poll(&mut cx) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("no answer yet"),
    }
}

struct Touch;

/// Declares a type of entities that say how long they may be idle.
macro_rules! entities {
    ($($name:ident: $idle:expr;)*) => {$(
        struct $name;
        impl Actor for $name {
            type Error = Infallible;
        }
        impl Entity for $name {
            type Key = u64;
            const IDLE: Duration = $idle;
            fn create(_: &u64) -> Self {
                $name
            }
        }
        impl Handler<Touch> for $name {
            type Reply = ();
            fn handle(&mut self, _: Touch, _: &mut Context<'_, Self>) {}
        }
        impl Handler<Keep> for $name {
            type Reply = ();
            fn handle(&mut self, Keep(time): Keep, cx: &mut Context<'_, Self>) {
                cx.keep_for(time);
            }
        }
    )*};
}

/// Something is under way in its entity.
struct Hold;

impl Handler<Hold> for Short {
    type Reply = ();
    fn handle(&mut self, Hold: Hold, cx: &mut Context<'_, Self>) {
        cx.hold();
    }
}

/// Keeps its entity for so long.
struct Keep(Duration);

entities! {
    Short: Duration::from_secs(10);
    Long: Duration::from_secs(1_000);
    Silent: turnwheel_actors::entity::IDLE_DEFAULT;
    Forever: Duration::MAX;
}

fn activate<E: Entity<Key = u64> + Handler<Touch>>(entities: &Entities) -> Outcome {
    entities.get::<E>(1_u64).tell(Touch)?;
    Ok(())
}

// O-T089
#[test]
fn the_idle_time_of_a_type_goes_before_that_of_the_system_both_ways() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("sim"));
    let entities = Entities::builder(&system).idle(SECOND * 100).build();
    let active = || {
        let of = [entities.active::<Short>(), entities.active::<Silent>()];
        (of, [entities.active::<Long>(), entities.active::<Forever>()])
    };
    activate::<Short>(&entities)?;
    activate::<Long>(&entities)?;
    activate::<Silent>(&entities)?;
    activate::<Forever>(&entities)?;
    sim.run_until_idle();
    assert_eq!(active(), ([1, 1], [1, 1]));
    sim.advance(SECOND * 20);
    assert_eq!(active(), ([0, 1], [1, 1]), "the shorter time of its type");
    sim.advance(SECOND * 180);
    assert_eq!(active(), ([0, 0], [1, 1]), "the system's, for one that says nothing");
    sim.advance(SECOND * 2_000);
    assert_eq!(active(), ([0, 0], [0, 1]), "the longer time of its type, and none at all");
    let own = Entities::builder(&system).idle_of::<Long>(SECOND * 10).build();
    activate::<Long>(&own)?;
    sim.run_until_idle();
    sim.advance(SECOND * 20);
    assert_eq!(own.active::<Long>(), 0, "who sets it for one type has the last word");
    Ok(())
}

// O-T091
#[test]
fn a_delay_keeps_an_entity_as_its_table_says() -> Outcome {
    let sim = Sim::fifo();
    let entities = Entities::new(&System::new(&sim.group("sim")));
    let entity = entities.get::<Short>(1_u64);
    let kept = |time| {
        entity.tell(Keep(time))?;
        sim.run_until_idle();
        Ok::<_, Box<dyn Error>>(())
    };
    // A span: not before that moment.
    kept(SECOND * 100)?;
    sim.advance(SECOND * 90);
    assert!(entity.is_active());
    sim.advance(SECOND * 30);
    assert!(!entity.is_active(), "and not long after it");
    // Each call replaces the last one; it does not slide with messages.
    kept(SECOND * 1_000)?;
    kept(SECOND * 50)?;
    sim.advance(SECOND * 45);
    entity.tell(Touch)?;
    sim.run_until_idle();
    sim.advance(SECOND * 25);
    assert!(!entity.is_active(), "the usual time has passed since the last message");
    // Zero ends it, counted from then.
    kept(SECOND * 1_000)?;
    sim.advance(SECOND * 100);
    kept(Duration::ZERO)?;
    sim.advance(SECOND * 5);
    assert!(entity.is_active());
    sim.advance(SECOND * 20);
    assert!(!entity.is_active());
    // It does not shorten the usual time.
    kept(SECOND)?;
    sim.advance(SECOND * 8);
    assert!(entity.is_active());
    // For ever.
    kept(Duration::MAX)?;
    sim.advance(SECOND * 10_000);
    assert!(entity.is_active());
    // An explicit passivation comes first.
    drop(entity.passivate());
    sim.run_until_idle();
    assert!(!entity.is_active());
    Ok(())
}

// O-T091
#[test]
fn want_of_room_goes_before_a_delay() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("sim"));
    let entities = Entities::builder(&system).active_max(1).build();
    let kept = entities.get::<Short>(1_u64);
    kept.tell(Keep(Duration::MAX))?;
    sim.run_until_idle();
    let mut other = entities.get::<Short>(2_u64).ask(Touch);
    sim.advance(SECOND);
    ready(&mut other)?;
    assert!(!kept.is_active());
    Ok(())
}

#[test]
fn one_that_is_held_makes_no_room_until_it_is_released() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("sim"));
    let entities = Entities::builder(&system).active_max(1).build();
    let held = entities.get::<Short>(1_u64);
    held.tell(Hold)?;
    sim.run_until_idle();
    let mut other = entities.get::<Short>(2_u64).ask(Touch);
    sim.advance(SECOND * 3);
    assert!(held.is_active());
    held.tell(Keep(Duration::ZERO))?;
    sim.advance(SECOND * 3);
    ready(&mut other)?;
    assert!(!held.is_active());
    Ok(())
}

// O-T091
#[test]
fn the_end_of_the_group_goes_before_a_delay() -> Outcome {
    let group = Group::builder("kept").workers(1).pinning(Pinning::None).build()?;
    let entities = Entities::new(&System::new(&group));
    entities.get::<Short>(1_u64).ask(Keep(Duration::MAX)).wait()?;
    assert!(group.shutdown()?.is_clean());
    assert_eq!(entities.active::<Short>(), 0);
    Ok(())
}

// O-T099
#[test]
fn whether_one_is_active_is_true_for_that_key_of_that_type_only() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("sim"));
    let (entities, elsewhere) = (Entities::new(&system), Entities::new(&system));
    let entity = entities.get::<Short>(1_u64);
    assert!(!entity.is_active() && entities.active::<Short>() == 0, "a look activates nothing");
    entity.tell(Touch)?;
    sim.run_until_idle();
    assert!(entity.is_active());
    assert!(!entities.get::<Short>(2_u64).is_active());
    assert!(!entities.get::<Long>(1_u64).is_active());
    assert!(!elsewhere.get::<Short>(1_u64).is_active(), "a place of its own");
    drop(entity.passivate());
    sim.run_until_idle();
    assert!(!entity.is_active());
    Ok(())
}

/// Log of all activations, by test.
static DONE: Mutex<Option<HashMap<u64, Vec<u64>>>> = Mutex::new(None);

fn done(test: u64) -> Vec<u64> {
    DONE.lock().get_or_insert_default().entry(test).or_default().clone()
}

/// Requests its passivation during its activation.
struct Hasty(u64);

impl Actor for Hasty {
    type Error = Infallible;

    fn starting(&mut self, cx: &mut Context<'_, Self>) -> Result<(), Infallible> {
        cx.passivate();
        Ok(())
    }
}

impl Entity for Hasty {
    type Key = u64;

    fn create(key: &u64) -> Self {
        Hasty(*key)
    }
}

struct Do(u64);

impl Handler<Do> for Hasty {
    type Reply = ();

    fn handle(&mut self, Do(number): Do, _: &mut Context<'_, Self>) {
        DONE.lock().get_or_insert_default().entry(self.0).or_default().push(number);
    }
}

// O-T079
#[test]
fn one_that_is_passivated_in_its_activation_serves_what_waits_and_loops_nowhere() -> Outcome {
    for workers in [1, 2] {
        let group = Group::builder("hasty").workers(workers).pinning(Pinning::None).build()?;
        let system = System::new(&group);
        let entities = Entities::builder(&system).build();
        let (key, count) = (100 + workers as u64, 5_000);
        let asked: Vec<_> =
            (0..count).map(|number| entities.get::<Hasty>(key).ask(Do(number))).collect();
        for ask in asked {
            ask.wait()?;
        }
        assert_eq!(done(key), (0..count).collect::<Vec<_>>(), "each once, in order");
        assert_eq!(system.dead_letters(), 0);
        assert!(group.shutdown()?.is_clean());
    }
    Ok(())
}

/// Takes other messages while it waits.
struct Reentrant {
    entities: Option<Entities>,
    key: u64,
}

impl Actor for Reentrant {
    type Error = Infallible;
}

impl Entity for Reentrant {
    type Key = u64;

    fn create(key: &u64) -> Self {
        Reentrant { entities: None, key: *key }
    }

    async fn activate(&mut self, cx: EntityContext<Self>) -> Result<(), Infallible> {
        self.entities = Some(cx.entities().clone());
        Ok(())
    }
}

impl InterleavedHandler<Do> for Reentrant {
    type Reply = ();
    const ADMITS: Admits = Admits::All;

    fn handle(
        &mut self,
        Do(number): Do,
        cx: &mut Context<'_, Self>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (key, nap) = (self.key, cx.group().sleep(Duration::from_micros(number % 7)));
        if number % 10 == 3 {
            cx.passivate();
        }
        async move {
            let _ = nap.await;
            DONE.lock().get_or_insert_default().entry(key).or_default().push(number);
        }
    }
}

// O-T082
#[test]
fn calls_to_a_reentrant_entity_that_passivates_itself_all_succeed() -> Outcome {
    for workers in [1, 2] {
        let group = Group::builder("reentrant").workers(workers).pinning(Pinning::None).build()?;
        let system = System::new(&group);
        let entities = Entities::new(&system);
        let key = 200 + workers as u64;
        let asked: Vec<_> =
            (0..100).map(|number| entities.get::<Reentrant>(key).ask(Do(number))).collect();
        for ask in asked {
            ask.wait()?;
        }
        let mut done = done(key);
        done.sort_unstable();
        assert_eq!(done, (0..100).collect::<Vec<_>>(), "each once");
        assert_eq!(system.dead_letters(), 0);
        assert!(group.shutdown()?.is_clean());
    }
    Ok(())
}

struct Panic;

impl Handler<Panic> for Reentrant {
    type Reply = ();

    fn handle(&mut self, _: Panic, _: &mut Context<'_, Self>) {
        panic!("nobody is told");
    }
}

/// Sends to another entity; returns the work done when the message was sent.
struct TellOther(u64);

impl Handler<TellOther> for Reentrant {
    type Reply = (usize, bool);

    fn handle(&mut self, TellOther(other): TellOther, _: &mut Context<'_, Self>) -> (usize, bool) {
        let other = self.entities.as_ref().expect("activated").get::<Reentrant>(other);
        let taken = other.tell(Do(1)).is_ok() && other.tell(Panic).is_ok();
        (done(*other.key()).len(), taken)
    }
}

// O-T062
#[test]
fn a_word_is_sent_before_it_is_handled_and_its_failure_is_not_the_senders() -> Outcome {
    let sim = Sim::fifo();
    let entities = Entities::new(&System::new(&sim.group("sim")));
    let entity = entities.get::<Reentrant>(300_u64);
    entity.tell(Do(0))?;
    entity.tell(Panic)?;
    assert_eq!(done(300), [0; 0], "from outside");
    sim.advance(SECOND);
    assert_eq!(done(300), [0; 0], "the panic has ended what was under way");
    entity.tell(Do(0))?;
    sim.advance(SECOND);
    assert_eq!(done(300), [0], "the effect comes later");
    let mut asked = entities.get::<Reentrant>(301_u64).ask(TellOther(302));
    sim.run_until_idle();
    assert_eq!(ready(&mut asked)?, (0, true), "from an entity");
    sim.advance(SECOND);
    entities.get::<Reentrant>(302_u64).tell(Do(7))?;
    sim.advance(SECOND);
    assert_eq!(done(302).last(), Some(&7), "it lives on");
    Ok(())
}

//! Passivation by memory budget: order of eviction, waiting, refusal for lack of room.

use std::collections::HashMap;
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_actors::entity::{EntityContext, NoRoom};
use turnwheel_actors::{
    Actor, Ask, AskError, AsyncContext, AsyncHandler, Context, Entities, Entity, Exit, Handler,
    InterleavedHandler, ReplyHandler, ReplyTo, System,
};
use turnwheel_runtime::completion::{completion, Completer, Completion};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Group, Mailbox, Pinning};

type Outcome = Result<(), Box<dyn Error>>;

const SECOND: Duration = Duration::from_secs(1);

/// State and log of the vaults of one test, by the upper half of a key.
#[derive(Default)]
struct World {
    /// Handled messages of each key, over all activations.
    handled: Mutex<HashMap<u64, u64>>,
    alive: Mutex<HashMap<u64, u32>>,
    ended: Mutex<Vec<u64>>,
}

static WORLDS: Mutex<Option<HashMap<u64, Arc<World>>>> = Mutex::new(None);

fn world(test: u64) -> Arc<World> {
    Arc::clone(WORLDS.lock().get_or_insert_default().entry(test).or_default())
}

fn key(test: u64, number: u64) -> u64 {
    test << 32 | number
}

/// Holds so many bytes.
struct Vault {
    key: u64,
    bytes: usize,
    cx: Option<EntityContext<Self>>,
    world: Arc<World>,
}

const KIB: usize = 1_024;

impl Actor for Vault {
    type Error = std::convert::Infallible;

    fn ended(&mut self, _: &Exit) {
        self.world.ended.lock().push(self.key & u64::from(u32::MAX));
    }
}

impl Drop for Vault {
    fn drop(&mut self) {
        *self.world.alive.lock().entry(self.key).or_default() -= 1;
    }
}

impl Entity for Vault {
    type Key = u64;

    fn size(&self) -> usize {
        self.bytes
    }

    fn create(key: &u64) -> Self {
        let world = world(key >> 32);
        let mut alive = world.alive.lock();
        let now = alive.entry(*key).or_default();
        *now += 1;
        assert_eq!(*now, 1, "one activation at a time");
        drop(alive);
        Self { key: *key, bytes: KIB, cx: None, world }
    }

    async fn activate(&mut self, cx: EntityContext<Self>) -> Result<(), Self::Error> {
        self.cx = Some(cx);
        Ok(())
    }
}

struct Touch;

impl Handler<Touch> for Vault {
    type Reply = u64;

    fn handle(&mut self, _: Touch, _: &mut Context<'_, Self>) -> u64 {
        let mut handled = self.world.handled.lock();
        let count = handled.entry(self.key).or_default();
        *count += 1;
        *count
    }
}

struct Grow(usize);

impl Handler<Grow> for Vault {
    type Reply = ();

    fn handle(&mut self, Grow(bytes): Grow, _: &mut Context<'_, Self>) {
        self.bytes = bytes;
        self.cx.as_ref().expect("it was activated").resized(bytes);
    }
}

/// Keeps its entity busy until the gate opens.
struct Hold(Completion<()>);

impl AsyncHandler<Hold> for Vault {
    type Reply = ();

    async fn handle(&mut self, Hold(gate): Hold, _: AsyncContext<Self>) {
        let _ = gate.await;
    }
}

/// Another type, of the default size.
struct Plain;

impl Actor for Plain {
    type Error = std::convert::Infallible;
}

impl Entity for Plain {
    type Key = u64;

    fn create(_: &u64) -> Self {
        Plain
    }
}

impl Handler<Touch> for Plain {
    type Reply = ();

    fn handle(&mut self, _: Touch, _: &mut Context<'_, Self>) {}
}

fn polled<M, R>(ask: &mut Ask<M, R>) -> Poll<Result<R, AskError<M>>> {
    Pin::new(ask).poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
}

fn ready<M, R>(ask: &mut Ask<M, R>) -> Result<R, AskError<M>> {
    match polled(ask) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("no answer yet"),
    }
}

fn touch(sim: &Sim, entities: &Entities, key: u64) -> Result<u64, AskError<Touch>> {
    let mut asked = entities.get::<Vault>(key).ask(Touch);
    sim.run_until_idle();
    sim.advance(Duration::from_millis(20));
    ready(&mut asked)
}

fn hold(entities: &Entities, key: u64) -> Completer<()> {
    let (open, gate) = completion();
    entities.get::<Vault>(key).tell(Hold(gate)).expect("there is room");
    open
}

#[test]
fn the_sums_follow_what_the_entities_say() -> Outcome {
    let sim = Sim::fifo();
    let entities = Entities::new(&System::new(&sim.group("sim")));
    for number in 0..10 {
        touch(&sim, &entities, key(1, number))?;
        entities.get::<Plain>(number).tell(Touch)?;
    }
    sim.run_until_idle();
    let plain = std::mem::size_of::<Plain>() as u64 * 10;
    assert_eq!(entities.stats::<Vault>().bytes, 10 * KIB as u64);
    assert_eq!(entities.bytes(), 10 * KIB as u64 + plain);
    entities.get::<Vault>(key(1, 0)).tell(Grow(5 * KIB))?;
    sim.run_until_idle();
    assert_eq!(entities.bytes(), 14 * KIB as u64 + plain);
    for number in 0..10 {
        drop(entities.get::<Vault>(key(1, number)).passivate());
    }
    sim.run_until_idle();
    assert_eq!((entities.stats::<Vault>().bytes, entities.bytes()), (0, plain));
    Ok(())
}

#[test]
fn above_the_budget_the_least_recently_used_go_first() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("sim"));
    let entities = Entities::builder(&system).memory_budget(100 * KIB as u64).build();
    for number in 0..100 {
        touch(&sim, &entities, key(2, number))?;
    }
    assert_eq!(entities.active::<Vault>(), 100, "they fit");
    // The first ten are used again, and so are not the oldest.
    for number in 0..10 {
        touch(&sim, &entities, key(2, number))?;
    }
    for number in 100..120 {
        assert_eq!(touch(&sim, &entities, key(2, number))?, 1, "it waits for a look at most");
    }
    let mut ended = world(2).ended.lock().clone();
    ended.sort_unstable();
    assert_eq!(ended, (10..30).collect::<Vec<_>>());
    assert_eq!(entities.stats::<Vault>().shed, 20);
    assert!(entities.bytes() <= 100 * KIB as u64);
    Ok(())
}

#[test]
fn one_that_grows_makes_others_go() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("sim"));
    let entities = Entities::builder(&system).memory_budget(50 * KIB as u64).build();
    for number in 0..50 {
        touch(&sim, &entities, key(3, number))?;
    }
    entities.get::<Vault>(key(3, 49)).tell(Grow(31 * KIB))?;
    sim.run_until_idle();
    sim.advance(Duration::from_millis(20));
    assert_eq!(entities.active::<Vault>(), 20);
    assert!(entities.bytes() <= 50 * KIB as u64);
    assert!(entities.get::<Vault>(key(3, 49)).is_active());
    Ok(())
}

#[test]
fn another_type_makes_room_too() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("sim"));
    let entities = Entities::builder(&system).memory_budget(10 * KIB as u64).build();
    for number in 0..10 {
        touch(&sim, &entities, key(4, number))?;
    }
    struct Large;
    impl Actor for Large {
        type Error = std::convert::Infallible;
    }
    impl Entity for Large {
        type Key = u64;
        fn size(&self) -> usize {
            4 * KIB
        }
        fn create(_: &u64) -> Self {
            Large
        }
    }
    impl Handler<Touch> for Large {
        type Reply = ();
        fn handle(&mut self, _: Touch, _: &mut Context<'_, Self>) {}
    }
    let mut asked = entities.get::<Large>(1_u64).ask(Touch);
    sim.run_until_idle();
    sim.advance(Duration::from_millis(50));
    ready(&mut asked)?;
    assert!(entities.bytes() <= 10 * KIB as u64, "{} bytes", entities.bytes());
    assert_eq!(entities.active::<Large>(), 1);
    Ok(())
}

#[test]
fn with_nobody_idle_a_key_waits_and_is_refused_after_the_limit() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("sim"));
    let entities = Entities::builder(&system)
        .memory_budget(4 * KIB as u64)
        .room_limit(10 * SECOND)
        .waiting_max(2)
        .build();
    for number in 0..4 {
        touch(&sim, &entities, key(5, number))?;
    }
    let mut gates: Vec<_> = (0..4).map(|number| hold(&entities, key(5, number))).collect();
    sim.run_until_idle();
    let waiting: Vec<_> = (4..6).map(|number| entities.get::<Vault>(key(5, number))).collect();
    let mut first = waiting[0].ask_within(Touch, 100 * SECOND);
    sim.advance(5 * SECOND);
    let mut second = waiting[1].ask_within(Touch, 100 * SECOND);
    assert!(entities.get::<Vault>(key(5, 6)).ask(Touch).wait_refused(), "two wait already");
    sim.advance(6 * SECOND);
    let AskError::Unanswered(failure) = ready(&mut first).expect_err("no room") else {
        panic!("another error");
    };
    let no_room = failure.downcast_ref::<NoRoom>().ok_or("another failure")?;
    assert_eq!((no_room.active, no_room.bytes), (4, 4 * KIB as u64));
    assert!(no_room.waited >= 10 * SECOND);
    assert!(polled(&mut second).is_pending(), "it has waited for a shorter time");
    assert_eq!(entities.stats::<Vault>().refused, 1);
    gates.pop().ok_or("four were made")?.complete(()).map_err(|_| "completed twice")?;
    sim.run_until_idle();
    sim.advance(SECOND);
    assert_eq!(ready(&mut second)?, 1, "one has become idle and made room");
    assert_eq!(entities.stats::<Vault>().waiting, 0);
    Ok(())
}

trait Refused {
    fn wait_refused(self) -> bool;
}

impl<M, R> Refused for Ask<M, R> {
    fn wait_refused(mut self) -> bool {
        matches!(polled(&mut self), Poll::Ready(Err(error)) if error.is_full())
    }
}

#[test]
fn one_larger_than_the_budget_runs_alone() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("sim"));
    let entities = Entities::builder(&system).memory_budget(100).build();
    for number in 0..5 {
        assert_eq!(touch(&sim, &entities, key(6, number))?, 1);
        assert!(entities.active::<Vault>() <= 1);
    }
    Ok(())
}

#[test]
fn ten_thousand_activations_at_once_over_the_budget_are_all_handled_once() -> Outcome {
    for (test, workers) in [(7, 1), (8, 2), (9, 4)] {
        let group = Group::builder("memory").workers(workers).pinning(Pinning::None).build()?;
        let system = System::new(&group);
        let budget = 500 * KIB as u64;
        let entities = Entities::builder(&system).memory_budget(budget).build();
        let asked: Vec<_> =
            (0..10_000).map(|number| entities.get::<Vault>(key(test, number)).ask(Touch)).collect();
        for ask in asked {
            assert_eq!(ask.wait()?, 1);
            assert!(entities.bytes() <= budget);
        }
        assert_eq!(world(test).handled.lock().len(), 10_000);
        assert!(world(test).handled.lock().values().all(|count| *count == 1), "nothing twice");
        assert_eq!(system.dead_letters(), 0, "nothing lost");
        assert_eq!(entities.stats::<Vault>().refused, 0);
        assert!(group.shutdown()?.is_clean());
    }
    Ok(())
}

/// An entity whose requests take long.
struct Slow(u64);

impl Actor for Slow {
    type Error = std::convert::Infallible;
}

impl Entity for Slow {
    type Key = u64;
    const MAILBOX: Option<Mailbox> = Some(Mailbox::bounded(8));

    fn create(_: &u64) -> Self {
        Self(0)
    }

    async fn activate(&mut self, cx: EntityContext<Self>) -> Result<(), Self::Error> {
        self.0 = cx.activation();
        Ok(())
    }
}

/// Number of the activation; answered at once, or after 20 seconds in one of three ways.
struct Which;
struct Beside;
struct Alone;
struct ByHand;
struct Later(ReplyTo<u64>);
struct KeepIt;

impl Handler<Which> for Slow {
    type Reply = u64;
    fn handle(&mut self, _: Which, _: &mut Context<'_, Self>) -> u64 {
        self.0
    }
}

impl Handler<KeepIt> for Slow {
    type Reply = ();
    fn handle(&mut self, _: KeepIt, cx: &mut Context<'_, Self>) {
        cx.hold();
    }
}

impl InterleavedHandler<Beside> for Slow {
    type Reply = u64;
    fn handle(
        &mut self,
        _: Beside,
        cx: &mut Context<'_, Self>,
    ) -> impl Future<Output = u64> + Send + 'static {
        let (activation, slept) = (self.0, cx.group().sleep(20 * SECOND));
        async move { slept.await.map_or(0, |()| activation) }
    }
}

impl AsyncHandler<Alone> for Slow {
    type Reply = u64;
    async fn handle(&mut self, _: Alone, cx: AsyncContext<Self>) -> u64 {
        cx.sleep(20 * SECOND).await.map_or(0, |()| self.0)
    }
}

impl ReplyHandler<ByHand> for Slow {
    type Reply = u64;
    fn handle(&mut self, _: ByHand, reply: ReplyTo<u64>, cx: &mut Context<'_, Self>) {
        let slept = cx.group().sleep(20 * SECOND);
        cx.pipe(slept, |_| Later(reply));
    }
}

impl Handler<Later> for Slow {
    type Reply = ();
    fn handle(&mut self, Later(reply): Later, _: &mut Context<'_, Self>) {
        reply.send(self.0);
    }
}

// O-T087
#[test]
fn one_with_a_request_under_way_is_not_idle_and_takes_messages_beside_it() -> Outcome {
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let system = System::new(&sim.group("sim"));
        let entities = Entities::builder(&system).idle(SECOND).build();
        let (one, two) = (entities.get::<Slow>(1_u64), entities.get::<Slow>(2_u64));
        let (mut beside, mut by_hand) = (one.ask(Beside), two.ask(ByHand));
        sim.advance(10 * SECOND);
        let (mut first, mut second) = (one.ask(Which), two.ask(Which));
        sim.run_until_idle();
        let (first, second) = (ready(&mut first)?, ready(&mut second)?);
        sim.advance(10 * SECOND);
        assert_eq!((ready(&mut beside)?, ready(&mut by_hand)?), (first, second), "seed {seed}");
        assert_eq!(entities.active::<Slow>(), 2, "their time counts from the end of the request");
        sim.advance(3 * SECOND);
        assert_eq!(entities.active::<Slow>(), 0);
    }
    Ok(())
}

#[test]
fn looks_at_one_whose_request_keeps_others_out_do_not_fill_its_mailbox() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("sim"));
    let entities = Entities::builder(&system).idle(SECOND).build();
    let slow = entities.get::<Slow>(1_u64);
    let mut alone = slow.ask(Alone);
    sim.advance(15 * SECOND);
    // One place may be taken by a look.
    for _ in 0..7 {
        slow.tell(Which)?;
    }
    sim.advance(6 * SECOND);
    ready(&mut alone)?;
    assert_eq!(system.dead_letters(), 0);
    Ok(())
}

#[test]
fn room_is_made_by_one_that_is_idle_although_others_were_used_longer_ago() -> Outcome {
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let system = System::new(&sim.group("sim"));
        let entities = Entities::builder(&system).active_max(3).build();
        let slow = |key: u64| entities.get::<Slow>(key);
        slow(1).tell(KeepIt)?;
        sim.advance(SECOND);
        let mut beside = slow(2).ask(Beside);
        sim.advance(SECOND);
        slow(3).tell(Which)?;
        sim.advance(SECOND);
        let mut fourth = slow(4).ask(Which);
        sim.advance(SECOND);
        ready(&mut fourth)?;
        let is_active = [1, 2, 3, 4].map(|key| slow(key).is_active());
        assert_eq!(is_active, [true, true, false, true], "seed {seed}");
        let mut second = slow(2).ask(Which);
        sim.advance(20 * SECOND);
        assert_eq!(ready(&mut second)?, ready(&mut beside)?);
    }
    Ok(())
}

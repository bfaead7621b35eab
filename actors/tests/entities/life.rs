//! Entities: activation, passivation, failures, limits.

use std::collections::HashMap;
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_actors::entity::{EntityContext, Ownership, Placement};
use turnwheel_actors::{Actor, Ask, AskError, Context, Entities, Entity, Exit, Handler, System};
use turnwheel_runtime::completion::{completion, Completer, Completion};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Failure, Group, Pinning};

type Outcome = Result<(), Box<dyn Error>>;

const PATIENCE: Duration = Duration::from_secs(60);

/// State shared by the entities of one test, by test.
#[derive(Default)]
struct World {
    created: AtomicUsize,
    activated: AtomicUsize,
    ended: AtomicUsize,
    alive: Mutex<HashMap<u64, u32>>,
    fails: AtomicUsize,
    gate: Mutex<Option<Completion<()>>>,
}

static WORLDS: Mutex<Option<HashMap<u64, Arc<World>>>> = Mutex::new(None);

/// The upper half of a key is the number of its test.
fn world(test: u64) -> Arc<World> {
    let mut worlds = WORLDS.lock();
    Arc::clone(worlds.get_or_insert_default().entry(test).or_default())
}

fn key(test: u64, number: u64) -> u64 {
    test << 32 | number
}

#[derive(Debug, thiserror::Error)]
#[error("not today")]
struct NotToday;

/// Counts; checks that two of it never exist.
struct Counter {
    key: u64,
    count: u64,
    world: Arc<World>,
}

impl Actor for Counter {
    type Error = NotToday;

    fn ended(&mut self, _: &Exit) {
        self.world.ended.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        *self.world.alive.lock().entry(self.key).or_default() -= 1;
    }
}

impl Entity for Counter {
    type Key = u64;
    const IDLE: Duration = Duration::from_secs(100);

    fn create(key: &u64) -> Self {
        let world = world(key >> 32);
        world.created.fetch_add(1, Ordering::Relaxed);
        let mut alive = world.alive.lock();
        let alive_now = alive.entry(*key).or_default();
        *alive_now += 1;
        assert_eq!(*alive_now, 1, "one activation at a time");
        drop(alive);
        Counter { key: *key, count: 0, world }
    }

    async fn activate(&mut self, _: EntityContext<Self>) -> Result<(), NotToday> {
        let gate = self.world.gate.lock().take();
        if let Some(gate) = gate {
            gate.await.map_err(|_| NotToday)?;
        }
        let take = |left: usize| left.checked_sub(1);
        if self.world.fails.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
            return Err(NotToday);
        }
        self.world.activated.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

struct Add(u64);

impl Handler<Add> for Counter {
    type Reply = u64;

    fn handle(&mut self, Add(by): Add, _: &mut Context<'_, Self>) -> u64 {
        self.count += by;
        self.count
    }
}

struct Leave;

impl Handler<Leave> for Counter {
    type Reply = ();

    fn handle(&mut self, _: Leave, cx: &mut Context<'_, Self>) {
        cx.passivate();
    }
}

struct Panic;

impl Handler<Panic> for Counter {
    type Reply = ();

    fn handle(&mut self, _: Panic, _: &mut Context<'_, Self>) {
        panic!("as the test wants it");
    }
}

struct KeepFor(Duration);

impl Handler<KeepFor> for Counter {
    type Reply = ();

    fn handle(&mut self, KeepFor(time): KeepFor, cx: &mut Context<'_, Self>) {
        cx.keep_for(time);
    }
}

fn group(workers: usize) -> Result<Group, Box<dyn Error>> {
    Ok(Group::builder("entities").workers(workers).pinning(Pinning::None).build()?)
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

fn answer<M, R>(sim: &Sim, mut ask: Ask<M, R>) -> Result<R, AskError<M>> {
    sim.run_until_idle();
    ready(&mut ask)
}

fn gate(world: &World) -> Completer<()> {
    let (open, gate) = completion();
    *world.gate.lock() = Some(gate);
    open
}

// O-T074
#[test]
fn a_hundred_callers_of_ten_cold_entities_make_ten_activations() -> Outcome {
    for workers in [1, 2, 4] {
        let test = 100 + workers as u64;
        let group = group(workers)?;
        let entities = Entities::new(&System::new(&group));
        let start = Arc::new(Barrier::new(10));
        let threads: Vec<_> = (0..10)
            .map(|_| {
                let (entities, start) = (entities.clone(), Arc::clone(&start));
                std::thread::spawn(move || {
                    start.wait();
                    for number in 0..10 {
                        let entity = entities.get::<Counter>(key(test, number));
                        entity.ask(Add(1)).wait().expect("the group lives");
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        for number in 0..10 {
            assert_eq!(entities.get::<Counter>(key(test, number)).ask(Add(0)).wait()?, 10);
        }
        assert_eq!(world(test).created.load(Ordering::Relaxed), 10);
        assert_eq!(entities.active::<Counter>(), 10);
        assert!(group.shutdown()?.is_clean());
    }
    Ok(())
}

// O-T075, O-T076, O-T080
#[test]
fn explicit_passivation_runs_the_hook_once_and_the_next_call_makes_a_new_one() -> Outcome {
    let sim = Sim::fifo();
    let entities = Entities::new(&System::new(&sim.group("sim")));
    let counter = entities.get::<Counter>(key(2, 1));
    assert_eq!(answer(&sim, counter.ask(Add(5)))?, 5);
    let over = counter.passivate();
    sim.run_until_idle();
    assert!(over.is_done() && !counter.is_active());
    assert_eq!(entities.active::<Counter>(), 0);
    assert_eq!(world(2).ended.load(Ordering::Relaxed), 1);
    assert_eq!(answer(&sim, counter.ask(Add(1)))?, 1, "a new one");
    assert_eq!(world(2).activated.load(Ordering::Relaxed), 2);
    Ok(())
}

// O-T077
#[test]
fn a_failing_activation_is_told_to_all_who_wait_and_tried_again_after_a_pause() -> Outcome {
    let sim = Sim::fifo();
    let entities = Entities::new(&System::new(&sim.group("sim")));
    let world = world(3);
    world.fails.store(2, Ordering::Relaxed);
    let open = gate(&world);
    let counter = entities.get::<Counter>(key(3, 1));
    let mut asked: Vec<_> = (0..5).map(|_| counter.ask(Add(1))).collect();
    sim.run_until_idle();
    assert!(asked.iter_mut().all(|ask| polled(ask).is_pending()), "it is being activated");
    open.complete(()).map_err(|_| "completed twice")?;
    sim.run_until_idle();
    for ask in &mut asked {
        let AskError::Unanswered(failure) = ready(ask).expect_err("it fails") else {
            panic!("another error");
        };
        assert!(failure.downcast_ref::<NotToday>().is_some(), "{failure}");
    }
    // Held: refused at once, without another attempt.
    let told = ready(&mut counter.ask(Add(1))).expect_err("held");
    assert!(told.to_string().contains("not today"), "{told}");
    assert!(counter.tell(Add(1)).is_err());
    assert_eq!(world.created.load(Ordering::Relaxed), 1);
    sim.advance(Duration::from_millis(150));
    assert!(answer(&sim, counter.ask(Add(1))).is_err(), "the second attempt fails too");
    sim.advance(Duration::from_millis(150));
    assert!(ready(&mut counter.ask(Add(1))).is_err(), "the second pause is longer");
    sim.advance(Duration::from_millis(150));
    assert_eq!(answer(&sim, counter.ask(Add(1)))?, 1, "the third attempt works");
    Ok(())
}

// O-T081, O-T084
#[test]
fn calls_to_an_entity_that_passivates_itself_all_succeed() -> Outcome {
    for workers in [1, 2, 4] {
        let test = 400 + workers as u64;
        let group = group(workers)?;
        let system = System::new(&group);
        let entities = Entities::new(&system);
        let counter = entities.get::<Counter>(key(test, 1));
        let mut asked = Vec::new();
        for round in 0..200 {
            if round % 7 == 3 {
                counter.tell(Leave)?;
            }
            asked.push(counter.ask(Add(1)));
        }
        for ask in asked {
            ask.wait()?;
        }
        assert!(counter.ask(Add(1)).wait()? < 201, "another one than at the beginning");
        assert!(world(test).created.load(Ordering::Relaxed) > 1);
        assert_eq!(system.dead_letters(), 0);
        assert!(group.shutdown()?.is_clean());
    }
    Ok(())
}

#[test]
fn the_order_of_one_sender_holds_across_passivations() -> Outcome {
    struct Order(u64);
    impl Actor for Order {
        type Error = std::convert::Infallible;
    }
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    impl Entity for Order {
        type Key = u64;
        fn create(_: &u64) -> Self {
            Order(NEXT.load(Ordering::Acquire) as u64)
        }
    }
    struct Step(u64, bool);
    impl Handler<Step> for Order {
        type Reply = ();
        fn handle(&mut self, Step(number, leaves): Step, cx: &mut Context<'_, Self>) {
            assert_eq!(self.0, number, "lost, doubled or out of order");
            self.0 += 1;
            NEXT.store(self.0 as usize, Ordering::Release);
            if leaves {
                cx.passivate();
            }
        }
    }
    let group = group(2)?;
    let entities = Entities::new(&System::new(&group));
    let order = entities.get::<Order>(1_u64);
    let rounds = 20_000;
    for number in 0..rounds {
        while order.tell(Step(number, number % 13 == 0)).is_err() {
            std::thread::yield_now();
        }
    }
    order.ask(Step(rounds, false)).wait()?;
    assert_eq!(NEXT.load(Ordering::Acquire) as u64, rounds + 1);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

// O-T086, O-T087, O-T090, O-T091
#[test]
fn the_idle_are_collected_and_the_busy_and_the_kept_stay() -> Outcome {
    let sim = Sim::fifo();
    let entities = Entities::new(&System::new(&sim.group("sim")));
    for number in 0..1_000 {
        entities.get::<Counter>(key(5, number)).tell(Add(1))?;
    }
    sim.run_until_idle();
    let kept = entities.get::<Counter>(key(5, 7));
    kept.tell(KeepFor(Duration::from_secs(1_000)))?;
    let busy = entities.get::<Counter>(key(5, 8));
    for _ in 0..20 {
        sim.advance(Duration::from_secs(10));
        busy.tell(Add(1))?;
        sim.run_until_idle();
    }
    assert_eq!(entities.active::<Counter>(), 2, "the busy one and the kept one");
    assert_eq!(answer(&sim, busy.ask(Add(0)))?, 21, "it was never passivated");
    kept.tell(KeepFor(Duration::ZERO))?;
    sim.run_until_idle();
    sim.advance(Duration::from_secs(250));
    assert_eq!(entities.active::<Counter>(), 0);
    assert_eq!(world(5).ended.load(Ordering::Relaxed), 1_000);
    sim.advance(Duration::from_secs(1_000));
    assert!(!sim.advance_to_next_timer(), "with nobody active nobody looks");
    Ok(())
}

#[test]
fn a_panic_makes_a_fresh_one_and_loses_no_other_message() -> Outcome {
    let sim = Sim::fifo();
    let entities = Entities::new(&System::new(&sim.group("sim")));
    let counter = entities.get::<Counter>(key(6, 1));
    counter.tell(Add(5))?;
    let mut panics = counter.ask(Panic);
    let mut after = counter.ask(Add(1));
    sim.run_until_idle();
    assert!(ready(&mut panics).is_err());
    assert_eq!(ready(&mut after)?, 1, "a fresh state");
    assert_eq!(world(6).activated.load(Ordering::Relaxed), 2);
    Ok(())
}

#[test]
fn more_than_the_limit_wait_for_room_and_all_are_answered() -> Outcome {
    let group = group(2)?;
    let system = System::new(&group);
    let entities = Entities::builder(&system).active_max(100).build();
    let asked: Vec<_> =
        (0..10_000).map(|number| entities.get::<Counter>(key(7, number)).ask(Add(1))).collect();
    for ask in asked {
        assert_eq!(ask.wait()?, 1);
        assert!(entities.active::<Counter>() <= 100);
    }
    assert_eq!(system.dead_letters(), 0);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

// O-T096
#[test]
fn an_activation_that_never_ends_is_ended_and_a_later_call_works() -> Outcome {
    let sim = Sim::fifo();
    let entities = Entities::new(&System::new(&sim.group("sim")));
    let _open = gate(&world(8));
    let counter = entities.get::<Counter>(key(8, 1));
    let mut asked = counter.ask_within(Add(1), Duration::from_secs(300));
    sim.run_until_idle();
    sim.advance(Duration::from_secs(31));
    let AskError::Unanswered(Failure::TimedOut(limit)) = ready(&mut asked).expect_err("limit")
    else {
        panic!("another error");
    };
    assert_eq!(limit, Duration::from_secs(30));
    sim.advance(Duration::from_secs(1));
    assert_eq!(answer(&sim, counter.ask(Add(1)))?, 1);
    Ok(())
}

#[test]
fn a_shutdown_during_activation_tells_who_waits() -> Outcome {
    let group = group(2)?;
    let entities = Entities::new(&System::new(&group));
    let _open = gate(&world(9));
    let counter = entities.get::<Counter>(key(9, 1));
    let asked = counter.ask(Add(1));
    group.shutdown_within(Duration::from_millis(50))?;
    assert!(asked.wait().is_err());
    assert!(counter.tell(Add(1)).is_err());
    Ok(())
}

#[test]
fn a_key_that_is_too_long_is_refused() -> Outcome {
    struct Named;
    impl Actor for Named {
        type Error = std::convert::Infallible;
    }
    impl Entity for Named {
        type Key = String;
        fn create(_: &String) -> Self {
            Named
        }
    }
    impl Handler<()> for Named {
        type Reply = ();
        fn handle(&mut self, (): (), _: &mut Context<'_, Self>) {}
    }
    let group = group(1)?;
    let entities = Entities::new(&System::new(&group));
    assert!(entities.get::<Named>("k".repeat(1_024)).ask(()).wait().is_ok());
    let refused = entities.get::<Named>("k".repeat(1_025)).ask(()).wait().expect_err("too long");
    assert!(refused.to_string().contains("1,024 bytes"), "{refused}");
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn the_end_of_the_group_leaves_no_waiting_caller() -> Outcome {
    let group = group(2)?;
    let entities = Entities::new(&System::new(&group));
    for number in 0..100 {
        entities.get::<Counter>(key(10, number)).tell(Add(1))?;
    }
    assert!(group.shutdown()?.is_clean());
    assert_eq!(entities.active::<Counter>(), 0);
    let late = entities.get::<Counter>(key(10, 1)).ask_within(Add(1), PATIENCE).wait();
    assert!(late.is_err());
    Ok(())
}

/// Owns the even keys.
#[derive(Debug)]
struct Even;

impl Placement for Even {
    fn place(&self, _: &str, key: &str) -> Ownership {
        let is_local = key.parse::<u64>().is_ok_and(|key| key % 2 == 0);
        Ownership { is_local, epoch: 1 }
    }
}

#[test]
fn a_key_that_another_process_owns_is_refused_and_not_activated() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("sim"));
    let entities = Entities::builder(&system).placement(Arc::new(Even)).build();
    assert_eq!(answer(&sim, entities.get::<Counter>(key(11, 2)).ask(Add(1)))?, 1);
    let refused = answer(&sim, entities.get::<Counter>(key(11, 3)).ask(Add(1))).expect_err("odd");
    assert!(refused.to_string().contains("another process"), "{refused}");
    assert!(entities.get::<Counter>(key(11, 3)).tell(Add(1)).is_err());
    assert_eq!(world(11).created.load(Ordering::Relaxed), 1);
    Ok(())
}

//! Activations that are stuck in a request or in their end, and their replacement.

use std::collections::HashMap;
use std::error::Error;
use std::future::{pending, Future};
use std::pin::{pin, Pin};
use std::sync::{mpsc, Arc};
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_actors::entity::{EntityContext, StoreError, Stored};
use turnwheel_actors::{
    Actor, Admits, Ask, AskError, AsyncContext, AsyncHandler, Context, Entities, Entity, Exit,
    Handler, InterleavedHandler, System,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Failure, Group, Pinning};

type Outcome = Result<(), Box<dyn Error>>;

const LIMIT: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(60);

/// Log of the entities of one test, by test: the upper half of a key.
#[derive(Default)]
struct World {
    exits: Mutex<Vec<Exit>>,
    late: Mutex<Vec<Result<(), StoreError>>>,
    gate: Mutex<Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>>,
}

static WORLDS: Mutex<Option<HashMap<u64, Arc<World>>>> = Mutex::new(None);

fn world(test: u64) -> Arc<World> {
    Arc::clone(WORLDS.lock().get_or_insert_default().entry(test).or_default())
}

struct Worker {
    world: Arc<World>,
    stored: Option<Stored<u64>>,
    activation: u64,
    hangs_at_end: bool,
    handled: Vec<u64>,
}

impl Actor for Worker {
    type Error = StoreError;

    fn closing(&mut self, cx: &mut Context<'_, Self>) -> Result<(), StoreError> {
        if self.hangs_at_end {
            cx.pipe(pending::<()>(), |()| Note(0));
        }
        Ok(())
    }

    fn ended(&mut self, exit: &Exit) {
        self.world.exits.lock().push(exit.clone());
    }
}

impl Entity for Worker {
    type Key = u64;
    const NAME: &'static str = "worker";
    const STUCK_LIMIT: Duration = LIMIT;

    fn create(key: &u64) -> Self {
        let (world, handled) = (world(key >> 32), Vec::new());
        Self { world, stored: None, activation: 0, hangs_at_end: false, handled }
    }

    async fn activate(&mut self, cx: EntityContext<Self>) -> Result<(), StoreError> {
        self.stored = Some(Stored::load(&cx).await?);
        self.activation = cx.activation();
        Ok(())
    }
}

/// Returns the number of the activation and its handled messages.
struct Note(u64);

impl Handler<Note> for Worker {
    type Reply = (u64, Vec<u64>);

    fn handle(&mut self, Note(number): Note, _: &mut Context<'_, Self>) -> (u64, Vec<u64>) {
        self.handled.push(number);
        (self.activation, self.handled.clone())
    }
}

/// Never ends.
struct Hang;

impl AsyncHandler<Hang> for Worker {
    type Reply = ();

    async fn handle(&mut self, _: Hang, _: AsyncContext<Self>) {
        pending::<()>().await;
    }
}

/// Never ends, and admits only its own calls.
struct HangInChain;

impl InterleavedHandler<HangInChain> for Worker {
    type Reply = ();
    const ADMITS: Admits = Admits::Chain;

    fn handle(
        &mut self,
        _: HangInChain,
        _: &mut Context<'_, Self>,
    ) -> impl Future<Output = ()> + Send + 'static {
        pending()
    }
}

/// Never ends, and lets everybody in.
struct HangBeside;

impl InterleavedHandler<HangBeside> for Worker {
    type Reply = ();

    fn handle(
        &mut self,
        _: HangBeside,
        _: &mut Context<'_, Self>,
    ) -> impl Future<Output = ()> + Send + 'static {
        pending()
    }
}

struct HangAtEnd;

impl Handler<HangAtEnd> for Worker {
    type Reply = ();

    fn handle(&mut self, _: HangAtEnd, _: &mut Context<'_, Self>) {
        self.hangs_at_end = true;
    }
}

/// Holds its thread until the gate opens, and writes then.
struct Block;

impl Worker {
    fn block(&mut self) {
        let gate = self.world.gate.lock().take();
        if let Some((begun, open)) = gate {
            begun.send(()).expect("the test waits");
            open.recv_timeout(PATIENCE).expect("the test opens it");
        }
        let mut write = pin!(self.stored.as_mut().expect("activated").update(|value| *value += 1));
        let Poll::Ready(written) = write.as_mut().poll(&mut task_context()) else {
            panic!("the store is in memory");
        };
        self.world.late.lock().push(written);
    }
}

fn task_context() -> std::task::Context<'static> {
    std::task::Context::from_waker(std::task::Waker::noop())
}

fn polled<M, R>(ask: &mut Ask<M, R>) -> Poll<Result<R, AskError<M>>> {
    Pin::new(ask).poll(&mut task_context())
}

fn ready<M, R>(ask: &mut Ask<M, R>) -> Result<R, AskError<M>> {
    match polled(ask) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("no answer yet"),
    }
}

struct Scene {
    sim: Sim,
    entities: Entities,
}

impl Scene {
    fn new(seed: u64) -> Self {
        let sim = Sim::new(seed);
        let entities = Entities::new(&System::new(&sim.group("sim")));
        Self { sim, entities }
    }
}

fn key(test: u64, number: u64) -> u64 {
    test << 32 | number
}

/// Asks `hang`, then ten notes, and sees all of them answered by one new activation.
fn replaced_after(test: u64, hang: impl Fn(&Scene, u64)) -> Outcome {
    for seed in 0..20 {
        let scene = Scene::new(seed);
        world(test).exits.lock().clear();
        let key = key(test, seed);
        let worker = scene.entities.get::<Worker>(key);
        let mut first = worker.ask(Note(0));
        scene.sim.run_until_idle();
        let (activation, _) = ready(&mut first)?;
        hang(&scene, key);
        let mut asked: Vec<_> =
            (1..=10).map(|number| worker.ask_within(Note(number), 10 * LIMIT)).collect();
        scene.sim.advance(LIMIT / 2);
        assert!(asked.iter_mut().all(|ask| polled(ask).is_pending()), "it has its time");
        asked.extend((11..=20).map(|number| worker.ask_within(Note(number), 10 * LIMIT)));
        scene.sim.advance(LIMIT * 2);
        for (at, ask) in asked.iter_mut().enumerate() {
            let (next, handled) = ready(ask)?;
            assert_ne!(next, activation, "seed {seed}");
            assert_eq!(handled, (1..=at as u64 + 1).collect::<Vec<_>>(), "seed {seed}");
        }
        assert_eq!(scene.entities.stats::<Worker>().replaced, 1);
        assert_eq!(scene.entities.active::<Worker>(), 1);
        let exits = std::mem::take(&mut *world(test).exits.lock());
        assert!(
            matches!(exits[..], [Exit::Failed(Failure::TimedOut(LIMIT))]),
            "seed {seed}: {exits:?}"
        );
    }
    Ok(())
}

// O-T094
#[test]
fn a_request_that_is_stuck_is_left_and_what_waits_goes_to_a_new_activation() -> Outcome {
    replaced_after(1, |scene, key| {
        scene.entities.get::<Worker>(key).tell(Hang).expect("it takes it");
    })
}

// O-T094
#[test]
fn a_request_that_keeps_others_at_the_gate_is_left_too() -> Outcome {
    replaced_after(2, |scene, key| {
        scene.entities.get::<Worker>(key).tell(HangInChain).expect("it takes it");
    })
}

// O-T095
#[test]
fn an_end_that_is_stuck_gives_its_key_free_and_all_held_calls_arrive() -> Outcome {
    replaced_after(3, |scene, key| {
        let worker = scene.entities.get::<Worker>(key);
        worker.tell(HangAtEnd).expect("it takes it");
        drop(worker.passivate());
        scene.sim.run_until_idle();
    })
}

// O-T095
#[test]
fn an_end_that_waits_for_a_request_that_never_ends_is_stuck() -> Outcome {
    replaced_after(4, |scene, key| {
        let worker = scene.entities.get::<Worker>(key);
        worker.tell(HangBeside).expect("it takes it");
        drop(worker.passivate());
        scene.sim.run_until_idle();
    })
}

#[test]
fn the_caller_of_what_is_stuck_is_told_and_it_is_not_done_again() -> Outcome {
    let scene = Scene::new(1);
    let worker = scene.entities.get::<Worker>(key(5, 1));
    let mut hung = worker.ask_within(Hang, 100 * LIMIT);
    let mut after = worker.ask_within(Note(1), 100 * LIMIT);
    scene.sim.advance(LIMIT * 3);
    assert!(matches!(ready(&mut hung), Err(AskError::Unanswered(_))));
    assert_eq!(ready(&mut after)?.1, [1]);
    scene.sim.advance(LIMIT * 3);
    assert_eq!(scene.entities.stats::<Worker>().replaced, 1);
    Ok(())
}

#[test]
fn one_that_makes_progress_is_not_stuck() -> Outcome {
    let scene = Scene::new(1);
    let worker = scene.entities.get::<Worker>(key(6, 1));
    let mut first = worker.ask(Note(0));
    scene.sim.run_until_idle();
    let (activation, _) = ready(&mut first)?;
    worker.tell(HangBeside)?;
    for number in 1..50 {
        scene.sim.advance(LIMIT / 5);
        let mut asked = worker.ask(Note(number));
        scene.sim.run_until_idle();
        assert_eq!(ready(&mut asked)?.0, activation);
    }
    assert_eq!(scene.entities.stats::<Worker>().replaced, 0);
    Ok(())
}

#[test]
fn a_type_may_be_left_alone() -> Outcome {
    struct Patient;
    impl Actor for Patient {
        type Error = std::convert::Infallible;
    }
    impl Entity for Patient {
        type Key = u64;
        const STUCK_LIMIT: Duration = Duration::MAX;
        fn create(_: &u64) -> Self {
            Patient
        }
    }
    impl AsyncHandler<Hang> for Patient {
        type Reply = ();
        async fn handle(&mut self, _: Hang, _: AsyncContext<Self>) {
            pending::<()>().await;
        }
    }
    let sim = Sim::fifo();
    let system = System::new(&sim.group("sim"));
    let entities = Entities::builder(&system).stuck_limit(LIMIT).build();
    let patient = entities.get::<Patient>(1_u64);
    patient.tell(Hang)?;
    let mut asked = patient.ask_within(Hang, 100 * LIMIT);
    sim.advance(50 * LIMIT);
    assert!(polled(&mut asked).is_pending());
    assert_eq!(entities.stats::<Patient>().replaced, 0);
    Ok(())
}

/// As a worker, with the limit of its system.
struct Quick(Worker);

impl Actor for Quick {
    type Error = StoreError;
}

impl Entity for Quick {
    type Key = u64;
    const NAME: &'static str = "quick";

    fn create(key: &u64) -> Self {
        Quick(Worker::create(key))
    }

    async fn activate(&mut self, cx: EntityContext<Self>) -> Result<(), StoreError> {
        self.0.stored = Some(Stored::load(&cx).await?);
        self.0.activation = cx.activation();
        Ok(())
    }
}

impl Handler<Block> for Quick {
    type Reply = ();

    fn handle(&mut self, _: Block, _: &mut Context<'_, Self>) {
        self.0.block();
    }
}

impl Handler<Note> for Quick {
    type Reply = (u64, Vec<u64>);

    fn handle(&mut self, Note(number): Note, _: &mut Context<'_, Self>) -> (u64, Vec<u64>) {
        self.0.handled.push(number);
        (self.0.activation, self.0.handled.clone())
    }
}

// O-T094
#[test]
fn one_whose_thread_does_not_return_loses_its_key_and_its_late_write_is_refused() -> Outcome {
    let group = Group::builder("stuck").workers(2).pinning(Pinning::None).build()?;
    let system = System::new(&group);
    let entities = Entities::builder(&system).stuck_limit(Duration::from_millis(40)).build();
    let world = world(7);
    let ((begun, has_begun), (open, is_open)) = (mpsc::channel(), mpsc::channel());
    *world.gate.lock() = Some((begun, is_open));
    let quick = entities.get::<Quick>(key(7, 1));
    let blocked = quick.ask(Block);
    has_begun.recv_timeout(PATIENCE)?;
    let behind: Vec<_> = (1..=5).map(|number| quick.ask(Note(number))).collect();
    // Calls that wait behind it keep the group looking; new calls are served as soon as it is left.
    let served = loop {
        if entities.stats::<Quick>().replaced == 1 {
            break quick.ask(Note(6)).wait()?;
        }
        std::thread::yield_now();
    };
    assert_eq!(served.1, [6], "another activation");
    quick.ask(Block).wait()?;
    open.send(())?;
    for ask in behind {
        assert_eq!(ask.wait()?.0, served.0, "what waited behind it goes to the new one");
    }
    // It has ended the message that it had begun: its caller has an answer.
    blocked.wait()?;
    let late = world.late.lock();
    assert!(matches!(late[..], [Ok(()), Err(StoreError::Replaced { .. })]), "{late:?}");
    drop(late);
    assert_eq!((entities.active::<Quick>(), entities.stats::<Quick>().replaced), (1, 1));
    assert_eq!(system.dead_letters(), 0);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

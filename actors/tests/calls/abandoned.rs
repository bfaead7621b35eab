//! A handler of any kind sees that its caller has given up, also through other handlers.

use std::convert::Infallible;
use std::error::Error;
use std::future::{poll_fn, Future};
use std::pin::{pin, Pin};
use std::sync::{mpsc, Arc, Mutex};
use std::task::{Context as PollContext, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use turnwheel_actors::{
    Abandoned, Access, Actor, Address, Admits, AskError, AsyncContext, AsyncHandler, Context,
    Directive, Entities, Entity, Handler, InterleavedHandler, ReplyHandler, ReplyTo, System,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::time::ManualClock;
use turnwheel_runtime::{Failure, Group, Pinning};

type Outcome = Result<(), Box<dyn Error>>;
type Notes = Arc<Mutex<Vec<String>>>;

/// Works until its work is done or its caller has given up, and notes the reason.
struct Worker(Notes);

impl Worker {
    fn note(&self, what: &str) {
        self.0.lock().expect("nobody panics with it").push(what.to_owned());
    }
}

impl Actor for Worker {
    type Error = Infallible;

    fn on_failure(&mut self, _: &Failure, _: &mut Context<'_, Self>) -> Directive {
        Directive::Resume
    }
}

impl Entity for Worker {
    type Key = String;

    fn create(_: &String) -> Self {
        Self(Notes::default())
    }
}

/// Notes there from now on.
struct NoteThere(Notes);

impl Handler<NoteThere> for Worker {
    type Reply = ();

    fn handle(&mut self, NoteThere(notes): NoteThere, _: &mut Context<'_, Self>) {
        self.0 = notes;
    }
}

/// Whether the work was given up before it was done.
async fn is_given_up(work: impl Future, abandoned: Abandoned) -> bool {
    let (mut work, mut abandoned) = (pin!(work), pin!(abandoned));
    poll_fn(|cx| {
        if abandoned.as_mut().poll(cx).is_ready() {
            return Poll::Ready(true);
        }
        work.as_mut().poll(cx).map(|_| false)
    })
    .await
}

const WORK: Duration = Duration::from_secs(10);

/// The outcome of a look-up: done, or given up.
fn outcome_of(name: &str, is_given_up: bool) -> String {
    format!("{name} {}", if is_given_up { "given up" } else { "done" })
}

/// Works with others kept out.
struct Alone(&'static str);

impl AsyncHandler<Alone> for Worker {
    type Reply = bool;

    async fn handle(&mut self, Alone(name): Alone, cx: AsyncContext<Self>) -> bool {
        let given_up = is_given_up(cx.sleep(WORK), cx.abandoned()).await;
        assert_eq!(given_up, cx.is_abandoned());
        self.note(&outcome_of(name, given_up));
        given_up
    }
}

/// Works beside other messages.
struct Beside(&'static str);

impl InterleavedHandler<Beside> for Worker {
    type Reply = bool;

    const ACCESS: Access = Access::Always;

    fn handle(
        &mut self,
        Beside(name): Beside,
        cx: &mut Context<'_, Self>,
    ) -> impl Future<Output = bool> + Send + 'static {
        let notes = Arc::clone(&self.0);
        let (work, abandoned) = (cx.group().sleep(WORK), cx.abandoned());
        async move {
            let given_up = is_given_up(work, abandoned).await;
            notes.lock().expect("nobody panics with it").push(outcome_of(name, given_up));
            given_up
        }
    }
}

/// Works exclusively, except for messages with access `Always`.
struct Normal(&'static str);

impl InterleavedHandler<Normal> for Worker {
    type Reply = bool;

    const ADMITS: Admits = Admits::Chain;

    fn handle(
        &mut self,
        Normal(name): Normal,
        cx: &mut Context<'_, Self>,
    ) -> impl Future<Output = bool> + Send + 'static {
        InterleavedHandler::handle(self, Beside(name), cx)
    }
}

/// Answers after its work.
struct Later(&'static str);
struct Worked(&'static str, bool, ReplyTo<bool>);

impl ReplyHandler<Later> for Worker {
    type Reply = bool;

    fn handle(&mut self, Later(name): Later, reply: ReplyTo<bool>, cx: &mut Context<'_, Self>) {
        assert!(!cx.is_abandoned());
        let work = is_given_up(cx.group().sleep(WORK), reply.abandoned(cx.system()));
        cx.pipe(work, move |given_up| Worked(name, given_up, reply));
    }
}

impl Handler<Worked> for Worker {
    type Reply = ();

    fn handle(&mut self, Worked(name, given_up, reply): Worked, _: &mut Context<'_, Self>) {
        self.note(&outcome_of(name, given_up));
        assert_eq!(reply.is_abandoned(), given_up);
        reply.send(given_up);
    }
}

/// Lets its caller give up while a plain handler runs.
struct While<F>(F);

impl<F: FnOnce() + Send + 'static> Handler<While<F>> for Worker {
    type Reply = ();

    fn handle(&mut self, While(give_up): While<F>, cx: &mut Context<'_, Self>) {
        let before = cx.is_abandoned();
        give_up();
        self.note(&format!("{before} {}", cx.is_abandoned()));
    }
}

/// Asks another actor, and continues when it is answered, with or without its caller.
struct Through(Address<Worker>, &'static str);

impl AsyncHandler<Through> for Worker {
    type Reply = bool;

    async fn handle(&mut self, Through(next, name): Through, _: AsyncContext<Self>) -> bool {
        let answer = next.ask(Alone(name)).await.expect("the next one answers");
        self.note(&outcome_of("between", answer));
        answer
    }
}

/// As [`Through`], in a handler that answers by hand.
struct ThroughLater(Address<Worker>, &'static str);

impl ReplyHandler<ThroughLater> for Worker {
    type Reply = bool;

    fn handle(
        &mut self,
        ThroughLater(next, name): ThroughLater,
        reply: ReplyTo<bool>,
        cx: &mut Context<'_, Self>,
    ) {
        let asked = next.ask(Beside(name));
        cx.pipe(asked, move |answer| Worked("between", answer.is_ok_and(|up| up), reply));
    }
}

fn notes_of(notes: &Notes) -> Vec<String> {
    std::mem::take(&mut notes.lock().expect("nobody panics with it"))
}

fn worker(system: &System) -> Result<(Address<Worker>, Notes), Box<dyn Error>> {
    let notes = Notes::default();
    Ok((system.spawn(Worker(Arc::clone(&notes)))?, notes))
}

// O-T064
#[test]
fn whoever_drops_its_ask_is_seen_by_handlers_with_futures() -> Outcome {
    for seed in 0..20 {
        for delay_ms in [0, 10, 300] {
            let sim = Sim::new(seed);
            let system = System::new(&sim.group("cpu"));
            let (worker, notes) = worker(&system)?;
            let (beside, later, alone) =
                (worker.ask(Beside("a")), worker.ask(Later("b")), worker.ask(Alone("c")));
            sim.run_until_idle();
            sim.advance(Duration::from_millis(delay_ms));
            assert_eq!(notes_of(&notes), Vec::<String>::new());
            drop((beside, later));
            drop(alone);
            sim.run_until_idle();
            let mut seen = notes_of(&notes);
            seen.sort();
            assert_eq!(seen, ["a given up", "b given up", "c given up"]);
        }
    }
    Ok(())
}

#[test]
fn a_deadline_is_seen_as_well_and_the_caller_is_told() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("cpu"));
    let (worker, notes) = worker(&system)?;
    let asked = worker.ask_within(Alone("a"), Duration::from_secs(3));
    sim.run_until_idle();
    sim.advance(Duration::from_secs(2));
    assert_eq!(notes_of(&notes), Vec::<String>::new());
    sim.advance(Duration::from_secs(1));
    assert!(matches!(sim.block_on(asked)?, Err(AskError::TimedOut(_))));
    sim.run_until_idle();
    assert_eq!(notes_of(&notes), ["a given up"]);
    Ok(())
}

/// Looks back when so much time has passed in its turn.
struct After(ManualClock, Duration);

impl Handler<After> for Worker {
    type Reply = bool;

    fn handle(&mut self, After(clock, time): After, cx: &mut Context<'_, Self>) -> bool {
        clock.advance(time);
        cx.is_abandoned()
    }
}

#[test]
fn what_a_handler_says_that_has_seen_its_deadline_is_no_answer() -> Outcome {
    let clock = ManualClock::new();
    let builder = Group::builder("late").workers(1).pinning(Pinning::None);
    let group = builder.clock(Arc::new(clock.clone())).build()?;
    let (worker, _) = worker(&System::new(&group))?;
    for (limit, is_late) in [(WORK, true), (2 * WORK, false), (WORK, true)] {
        // Its only worker is in the handler's turn: no timer can end the call before the answer.
        let answer = worker.ask_within(After(clock.clone(), WORK), limit).wait();
        match answer {
            Ok(seen) => assert!(!is_late && !seen, "it has seen {seen}"),
            Err(AskError::TimedOut(_)) => assert!(is_late, "there was time"),
            Err(other) => return Err(other.into()),
        }
    }
    group.shutdown()?;
    Ok(())
}

#[test]
fn a_plain_handler_sees_it_while_it_runs() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("cpu"));
    let (worker, notes) = worker(&system)?;
    let ask = Arc::new(Mutex::new(None));
    let held = Arc::clone(&ask);
    let asked = worker.ask(While(move || drop(held.lock().expect("not poisoned").take())));
    *ask.lock().expect("not poisoned") = Some(Box::new(asked) as Box<dyn std::any::Any + Send>);
    sim.run_until_idle();
    assert_eq!(notes_of(&notes), ["false true"]);
    worker.tell(While(|| {}))?;
    sim.run_until_idle();
    assert_eq!(notes_of(&notes), ["false false"], "nobody asked, so nobody gave up");
    sim.block_on(worker.ask(While(|| {})))??;
    assert_eq!(notes_of(&notes), ["false false"]);
    Ok(())
}

// O-T064
#[test]
fn it_is_seen_over_those_between() -> Outcome {
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let system = System::new(&sim.group("cpu"));
        let (first, between) = worker(&system)?;
        let (last, notes) = worker(&system)?;
        let asked = first.ask(Through(last.clone(), "a"));
        let by_hand = first.ask(ThroughLater(last.clone(), "b"));
        sim.run_until_idle();
        drop(asked);
        sim.run_until_idle();
        sim.run_until_idle();
        assert_eq!(notes_of(&notes), ["a given up"]);
        drop(by_hand);
        sim.run_until_idle();
        assert_eq!(notes_of(&notes), ["b given up"]);
        let seen = notes_of(&between);
        assert_eq!(seen, ["between given up", "between given up"], "they went on");
    }
    Ok(())
}

#[test]
fn a_caller_that_waits_gets_its_answer() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("cpu"));
    let (first, _) = worker(&system)?;
    let (last, notes) = worker(&system)?;
    let asked = first.ask(Through(last, "a"));
    sim.run_until_idle();
    sim.advance(WORK);
    assert!(!sim.block_on(asked)??);
    assert_eq!(notes_of(&notes), ["a done"]);
    Ok(())
}

/// Panics when its caller is gone.
struct Burst;

impl AsyncHandler<Burst> for Worker {
    type Reply = ();

    async fn handle(&mut self, _: Burst, cx: AsyncContext<Self>) {
        cx.abandoned().await;
        panic!("since nobody waits");
    }
}

/// Asks five entities and gives up on request.
struct Several(Entities);

impl Handler<Several> for Worker {
    type Reply = ();

    fn handle(&mut self, Several(entities): Several, cx: &mut Context<'_, Self>) {
        let group = cx.group();
        let asks: Vec<_> =
            (0..5).map(|n| entities.get::<Worker>(n.to_string()).ask(Alone("one"))).collect();
        let limit = async move {
            // The limit passes, or there is no group any more: in both cases the waiting ends.
            drop(group.sleep(Duration::from_secs(1)).await);
            drop(asks);
        };
        cx.pipe(limit, |()| While(|| {}));
    }
}

// O-T066
#[test]
fn one_caller_gives_up_five_entities_and_a_failure_of_one_stays_there() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("cpu"));
    let notes = Notes::default();
    let entities = Entities::builder(&system).build();
    for n in 0..5 {
        entities.get::<Worker>(n.to_string()).tell(NoteThere(Arc::clone(&notes)))?;
    }
    let (caller, own) = worker(&system)?;
    caller.tell(Several(entities.clone()))?;
    sim.run_until_idle();
    assert_eq!(notes_of(&notes), Vec::<String>::new());
    sim.advance(Duration::from_secs(1));
    sim.run_until_idle();
    assert_eq!(notes_of(&notes), ["one given up"; 5]);
    assert_eq!(notes_of(&own), ["false false"], "the caller goes on");
    let failing = caller.ask(Burst);
    sim.run_until_idle();
    drop(failing);
    sim.run_until_idle();
    assert_eq!(sim.failures().len(), 1, "it is known to the failing one's own policy");
    Ok(())
}

// O-T067
#[test]
fn of_five_calls_side_by_side_each_is_given_up_alone() -> Outcome {
    const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let system = System::new(&sim.group("cpu"));
        let (worker, notes) = worker(&system)?;
        let normal = (seed % 2 == 0).then(|| worker.ask(Normal("normal")));
        let mut asks: Vec<_> = NAMES.map(|name| (name, worker.ask(Beside(name)))).into();
        sim.run_until_idle();
        let at = usize::try_from(seed % 5).expect("it fits");
        while !asks.is_empty() {
            let (name, ask) = asks.remove(at % asks.len());
            drop(ask);
            sim.run_until_idle();
            assert_eq!(notes_of(&notes), [format!("{name} given up")]);
        }
        drop(normal);
        sim.run_until_idle();
        let seen = notes_of(&notes);
        assert!(seen.is_empty() || seen == ["normal given up"], "{seen:?}");
    }
    Ok(())
}

#[test]
fn what_stands_still_for_an_exclusive_handler_sees_it_when_it_goes_on() -> Outcome {
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let system = System::new(&sim.group("cpu"));
        let (worker, notes) = worker(&system)?;
        let beside = worker.ask(Beside("beside"));
        sim.run_until_idle();
        let alone = worker.ask(Alone("alone"));
        sim.run_until_idle();
        drop(beside);
        sim.run_until_idle();
        assert_eq!(notes_of(&notes), Vec::<String>::new());
        drop(alone);
        sim.run_until_idle();
        assert_eq!(notes_of(&notes), ["alone given up", "beside given up"]);
    }
    Ok(())
}

/// Passes its `Abandoned` to the test, and never answers.
struct LendAbandoned(mpsc::Sender<Abandoned>);

impl AsyncHandler<LendAbandoned> for Worker {
    type Reply = ();

    async fn handle(&mut self, LendAbandoned(lent): LendAbandoned, cx: AsyncContext<Self>) {
        for _ in 0..2 {
            let _ = lent.send(cx.abandoned());
        }
        std::future::pending().await
    }
}

/// A waker that ends another wait when it is dropped.
struct EndsOther {
    _other: Pin<Box<Abandoned>>,
}

impl Wake for EndsOther {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_waker_that_ends_another_wait_for_the_same_call_is_dropped_without_a_lock() -> Outcome {
    let sim = Sim::new(1);
    let system = System::new(&sim.group("cpu"));
    let (worker, _notes) = worker(&system)?;
    let (lend, lent) = mpsc::channel();
    let _ask = worker.ask(LendAbandoned(lend));
    sim.run_until_idle();
    let (mut one, mut other) = (Box::pin(lent.recv()?), Box::pin(lent.recv()?));
    let (told, done) = mpsc::channel();
    thread::spawn(move || {
        let mut noop = PollContext::from_waker(Waker::noop());
        assert!(other.as_mut().poll(&mut noop).is_pending());
        let ends = Waker::from(Arc::new(EndsOther { _other: other }));
        assert!(one.as_mut().poll(&mut PollContext::from_waker(&ends)).is_pending());
        drop(ends);
        assert!(one.as_mut().poll(&mut noop).is_pending());
        let _ = told.send(());
    });
    done.recv_timeout(Duration::from_secs(60))?;
    Ok(())
}

/// Takes a call and gives its reply to a test.
struct Hands(mpsc::Sender<ReplyTo<()>>);

impl Actor for Hands {
    type Error = Infallible;
}

struct Hand;

impl ReplyHandler<Hand> for Hands {
    type Reply = ();

    fn handle(&mut self, _: Hand, reply: ReplyTo<()>, _: &mut Context<'_, Self>) {
        self.0.send(reply).expect("the test listens");
    }
}

/// Panics when it wakes.
struct BadWaker;

impl Wake for BadWaker {
    fn wake(self: Arc<Self>) {
        panic!("on purpose");
    }
}

/// Counts how often it wakes.
struct Counts(std::sync::atomic::AtomicUsize);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
    }
}

#[test]
fn waker_that_panics_keeps_no_other_from_hearing_that_the_caller_has_given_up() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("cpu"));
    let (give, replies) = mpsc::channel();
    let hands = system.spawn(Hands(give))?;
    let asked = hands.ask(Hand);
    sim.run_until_idle();
    let reply = replies.try_recv()?;
    let counts = Arc::new(Counts(std::sync::atomic::AtomicUsize::new(0)));
    let (bad, good) = (Waker::from(Arc::new(BadWaker)), Waker::from(Arc::clone(&counts)));
    let (mut first, mut second) = (pin!(reply.abandoned(&system)), pin!(reply.abandoned(&system)));
    assert!(first.as_mut().poll(&mut PollContext::from_waker(&bad)).is_pending());
    assert!(second.as_mut().poll(&mut PollContext::from_waker(&good)).is_pending());
    drop(asked);
    assert_eq!(counts.0.load(std::sync::atomic::Ordering::Acquire), 1);
    assert!(second.as_mut().poll(&mut PollContext::from_waker(&good)).is_ready());
    Ok(())
}

//! Trouble with entities: each has a defined outcome, nothing is lost and nothing done twice.

use std::collections::HashMap;
use std::error::Error;
use std::future::{pending, Future};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_actors::entity::{
    EntityContext, KeyTooLong, MemoryStore, Record, StateStore, StoreError, StoreFuture, Stored,
    KEY_BYTES_MAX,
};
use turnwheel_actors::{
    Actor, Admits, Ask, AskError, AsyncContext, AsyncHandler, Context, Entities, Entity, Handler,
    InterleavedHandler, System,
};
use turnwheel_runtime::completion::{completion, Completion};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Failure, Group, Mailbox, Overflow, Pinning, SubmitErrorKind};

type Outcome = Result<(), Box<dyn Error>>;

fn polled<M, R>(ask: &mut Ask<M, R>) -> Poll<Result<R, AskError<M>>> {
    Pin::new(ask).poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
}

fn ready<M, R>(ask: &mut Ask<M, R>) -> Result<R, AskError<M>> {
    match polled(ask) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("no answer yet"),
    }
}

/// The failure that a call got.
fn failure<M, R>(ask: &mut Ask<M, R>) -> Failure {
    match ready(ask) {
        Err(AskError::Unanswered(failure)) => failure,
        Err(error) => panic!("another error: {error}"),
        Ok(_) => panic!("an answer"),
    }
}

/// Behaviour of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mood {
    #[default]
    Well,
    Fails,
    /// A write is made, and said to have failed.
    LosesAnswers,
    Panics,
    Hangs,
}

/// A store in memory that fails on request.
#[derive(Debug, Default)]
struct Moody {
    inner: MemoryStore,
    load: Mutex<Mood>,
    save: Mutex<Mood>,
}

impl Moody {
    fn broken<'a, T: Send + 'a>(mood: Mood) -> Option<StoreFuture<'a, T>> {
        match mood {
            Mood::Well | Mood::LosesAnswers => None,
            Mood::Fails => {
                let error = StoreError::Failed("the disk is gone".to_owned());
                Some(Box::pin(std::future::ready(Err(error))))
            }
            Mood::Panics => panic!("the store panics"),
            Mood::Hangs => Some(Box::pin(pending())),
        }
    }
}

impl StateStore for Moody {
    fn load<'a>(&'a self, entity: &'a str, key: &'a str) -> StoreFuture<'a, Record> {
        let mood = *self.load.lock();
        Self::broken(mood).unwrap_or_else(|| self.inner.load(entity, key))
    }

    fn save<'a>(
        &'a self,
        entity: &'a str,
        key: &'a str,
        bytes: Vec<u8>,
        expected: u64,
        epoch: u64,
    ) -> StoreFuture<'a, u64> {
        let mood = *self.save.lock();
        let save = || -> StoreFuture<'a, u64> {
            let saved = self.inner.save(entity, key, bytes, expected, epoch);
            if mood != Mood::LosesAnswers {
                return saved;
            }
            Box::pin(async move {
                saved.await?;
                Err(StoreError::Failed("no answer".to_owned()))
            })
        };
        Self::broken(mood).unwrap_or_else(save)
    }

    fn clear<'a>(
        &'a self,
        entity: &'a str,
        key: &'a str,
        expected: u64,
        epoch: u64,
    ) -> StoreFuture<'a, u64> {
        self.inner.clear(entity, key, expected, epoch)
    }
}

/// An account with a stored balance.
struct Account {
    balance: Option<Stored<i64>>,
}

impl Actor for Account {
    type Error = StoreError;
}

impl Entity for Account {
    type Key = String;
    const NAME: &'static str = "account";
    const STUCK_LIMIT: Duration = Duration::from_secs(120);

    fn create(key: &String) -> Self {
        assert!(key != "panics", "no such account");
        Account { balance: None }
    }

    async fn activate(&mut self, cx: EntityContext<Self>) -> Result<(), StoreError> {
        assert!(cx.key() != "panics later", "no account either");
        self.balance = Some(Stored::load(&cx).await?);
        Ok(())
    }
}

struct Deposit(i64);

impl AsyncHandler<Deposit> for Account {
    type Reply = Result<i64, StoreError>;

    async fn handle(&mut self, Deposit(amount): Deposit, _: AsyncContext<Self>) -> Self::Reply {
        let balance = self.balance.as_mut().expect("it was activated");
        balance.update(|balance| *balance += amount).await?;
        Ok(**balance)
    }
}

struct Bank {
    sim: Sim,
    store: Arc<Moody>,
    entities: Entities,
}

impl Bank {
    fn new() -> Self {
        let sim = Sim::fifo();
        let store = Arc::new(Moody::default());
        let system = System::new(&sim.group("sim"));
        let entities =
            Entities::builder(&system).store(Arc::clone(&store) as Arc<dyn StateStore>).build();
        Self { sim, store, entities }
    }

    fn deposit(&self, key: &str, amount: i64) -> Ask<Deposit, Result<i64, StoreError>> {
        let limit = Duration::from_secs(10_000);
        let asked = self.entities.get::<Account>(key).ask_within(Deposit(amount), limit);
        self.sim.run_until_idle();
        asked
    }
}

#[test]
fn a_key_that_is_too_long_is_told_with_its_length_and_activates_nothing() {
    let bank = Bank::new();
    let long = "ü".repeat(KEY_BYTES_MAX / 2) + "x";
    let told = failure(&mut bank.deposit(&long, 1));
    let error = told.downcast_ref::<KeyTooLong>().expect("typed");
    assert_eq!(error.bytes, KEY_BYTES_MAX + 1);
    assert!(error.entity.contains("Account"), "{error}");
    let refused = bank.entities.get::<Account>(long.as_str()).tell(Deposit(7));
    assert_eq!(refused.expect_err("too long").message.0, 7, "it comes back");
    assert_eq!(bank.entities.active::<Account>(), 0);
    assert!(ready(&mut bank.deposit(&"x".repeat(KEY_BYTES_MAX), 1)).is_ok());
}

#[test]
fn an_activation_that_panics_is_told_to_all_who_wait_and_hurts_no_other() -> Outcome {
    for (key, text) in [("panics", "no such account"), ("panics later", "no account either")] {
        let bank = Bank::new();
        let account = bank.entities.get::<Account>(key);
        let mut asked: Vec<_> = (0..5).map(|_| account.ask(Deposit(1))).collect();
        bank.sim.run_until_idle();
        for ask in &mut asked {
            assert!(failure(ask).to_string().contains(text));
        }
        assert_eq!(ready(&mut bank.deposit("other", 1))??, 1);
        assert_eq!(bank.entities.active::<Account>(), 1);
        assert!(!account.is_active());
    }
    Ok(())
}

#[test]
fn a_store_that_fails_or_panics_at_the_begin_is_told_and_asked_again_later() -> Outcome {
    for (mood, text) in [(Mood::Fails, "the disk is gone"), (Mood::Panics, "the store panics")] {
        let bank = Bank::new();
        *bank.store.load.lock() = mood;
        assert!(failure(&mut bank.deposit("a", 1)).to_string().contains(text));
        *bank.store.load.lock() = Mood::Well;
        bank.sim.advance(Duration::from_secs(1));
        assert_eq!(ready(&mut bank.deposit("a", 1))??, 1);
    }
    Ok(())
}

#[test]
fn a_store_that_never_answers_ends_the_activation_at_its_limit() -> Outcome {
    let bank = Bank::new();
    *bank.store.load.lock() = Mood::Hangs;
    let mut asked = bank.deposit("a", 1);
    bank.sim.advance(Account::ACTIVATION_LIMIT / 2);
    assert!(polled(&mut asked).is_pending());
    bank.sim.advance(Account::ACTIVATION_LIMIT);
    assert!(matches!(failure(&mut asked), Failure::TimedOut(Account::ACTIVATION_LIMIT)));
    *bank.store.load.lock() = Mood::Well;
    bank.sim.advance(Duration::from_secs(1));
    assert_eq!(ready(&mut bank.deposit("a", 1))??, 1);
    Ok(())
}

#[test]
fn a_write_that_fails_leaves_the_state_as_it_was() -> Outcome {
    let bank = Bank::new();
    assert_eq!(ready(&mut bank.deposit("a", 5))??, 5);
    *bank.store.save.lock() = Mood::Fails;
    assert!(matches!(ready(&mut bank.deposit("a", 1))?, Err(StoreError::Failed(_))));
    *bank.store.save.lock() = Mood::Panics;
    assert!(ready(&mut bank.deposit("a", 1)).is_err());
    *bank.store.save.lock() = Mood::Well;
    assert_eq!(ready(&mut bank.deposit("a", 1))??, 6, "after a panic it was read again");
    Ok(())
}

#[test]
fn after_a_write_that_was_made_and_has_failed_the_next_request_finds_the_stored_state() -> Outcome {
    let bank = Bank::new();
    assert_eq!(ready(&mut bank.deposit("a", 5))??, 5);
    *bank.store.save.lock() = Mood::LosesAnswers;
    assert!(matches!(ready(&mut bank.deposit("a", 1))?, Err(StoreError::Failed(_))));
    *bank.store.save.lock() = Mood::Well;
    assert_eq!(ready(&mut bank.deposit("a", 1))??, 7);
    Ok(())
}

#[test]
fn a_write_that_never_ends_is_left_after_the_limit_and_counts_once_or_not_at_all() -> Outcome {
    let bank = Bank::new();
    assert_eq!(ready(&mut bank.deposit("a", 5))??, 5);
    *bank.store.save.lock() = Mood::Hangs;
    let mut hung = bank.deposit("a", 1);
    *bank.store.save.lock() = Mood::Well;
    let mut waiting: Vec<_> = (0..5).map(|_| bank.deposit("a", 1)).collect();
    bank.sim.advance(Account::STUCK_LIMIT * 3);
    assert!(ready(&mut hung).is_err());
    for (at, ask) in waiting.iter_mut().enumerate() {
        assert_eq!(ready(ask)??, 6 + at as i64);
    }
    assert_eq!(bank.entities.stats::<Account>().replaced, 1);
    Ok(())
}

/// Messages that boxes have handled, by key.
static HANDLED: Mutex<Option<HashMap<u64, Vec<u64>>>> = Mutex::new(None);

macro_rules! boxes {
    ($name:ident, $mailbox:expr) => {
        struct $name(u64);
        impl Actor for $name {
            type Error = std::convert::Infallible;
        }
        impl Entity for $name {
            type Key = u64;
            const MAILBOX: Option<Mailbox> = Some($mailbox);
            fn create(key: &u64) -> Self {
                $name(*key)
            }
        }
        impl Handler<Put> for $name {
            type Reply = u64;
            fn handle(&mut self, Put(number): Put, _: &mut Context<'_, Self>) -> u64 {
                HANDLED.lock().get_or_insert_default().entry(self.0).or_default().push(number);
                number
            }
        }
    };
}

struct Put(u64);

boxes!(Rejects, Mailbox::bounded(3));
boxes!(DropsOldest, Mailbox::bounded(3).overflow(Overflow::DropOldest));
boxes!(Coalesces, Mailbox::bounded(3).overflow(Overflow::CoalesceByKey));

/// Holds its entity until the gate opens.
struct Hold(Completion<()>);

impl AsyncHandler<Hold> for Rejects {
    type Reply = ();

    async fn handle(&mut self, Hold(gate): Hold, _: AsyncContext<Self>) {
        let _ = gate.await;
    }
}

#[test]
fn no_more_wait_for_an_activation_than_its_mailbox_takes_and_all_of_them_get_there() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("sim"));
    let entities = Entities::new(&system);
    let entity = entities.get::<Rejects>(4_u64);
    let (open, gate) = completion();
    entity.tell(Hold(gate))?;
    sim.run_until_idle();
    entity.tell(Put(0))?;
    let over = entity.passivate();
    let told: Vec<_> = (1..=5).map(|number| entity.tell(Put(number)).is_ok()).collect();
    assert_eq!(told, [true, true, true, false, false], "they wait for the next activation");
    open.complete(()).map_err(|_| "completed twice")?;
    sim.run_until_idle();
    assert!(over.is_done());
    let handled = HANDLED.lock().get_or_insert_default().remove(&4).unwrap_or_default();
    assert_eq!(handled, [0, 1, 2, 3], "all that were taken, in order");
    Ok(())
}

/// The answers to five messages, also the refused ones, and the handled messages.
type Flooded = (Vec<Result<u64, Option<u64>>>, Vec<u64>);

fn flood<E>(key: u64) -> Flooded
where
    E: Entity<Key = u64> + Handler<Put, Reply = u64>,
{
    let sim = Sim::fifo();
    let system = System::new(&sim.group("sim"));
    let entities = Entities::new(&system);
    let entity = entities.get::<E>(key);
    let mut asked: Vec<_> = (0..5).map(|number| entity.ask(Put(number))).collect();
    sim.run_until_idle();
    let answers = asked
        .iter_mut()
        .map(|ask| ready(ask).map_err(|error| error.into_message().map(|Put(number)| number)));
    let answers = answers.collect();
    let handled = HANDLED.lock().get_or_insert_default().remove(&key).unwrap_or_default();
    (answers, handled)
}

#[test]
fn a_full_mailbox_does_what_its_policy_says() {
    let (answers, handled) = flood::<Rejects>(1);
    assert_eq!(answers, [Ok(0), Ok(1), Ok(2), Err(Some(3)), Err(Some(4))], "they come back");
    assert_eq!(handled, [0, 1, 2]);
    let (answers, handled) = flood::<DropsOldest>(2);
    assert_eq!(answers, [Err(None), Err(None), Ok(2), Ok(3), Ok(4)], "the oldest are told");
    assert_eq!(handled, [2, 3, 4]);
    let (answers, handled) = flood::<Coalesces>(3);
    assert_eq!(answers, [Ok(0), Ok(1), Ok(2), Err(Some(3)), Err(Some(4))], "no keys: as reject");
    assert_eq!(handled, [0, 1, 2]);
}

#[test]
fn a_stop_of_the_group_during_many_activations_leaves_nobody_waiting() -> Outcome {
    for workers in [1, 2] {
        let group = Group::builder("stop").workers(workers).pinning(Pinning::None).build()?;
        let store = Arc::new(Moody::default());
        *store.load.lock() = Mood::Hangs;
        let entities = Entities::builder(&System::new(&group)).store(store).build();
        let asked: Vec<_> = (0..100)
            .map(|number| entities.get::<Account>(format!("{}", number % 10)).ask(Deposit(1)))
            .collect();
        group.shutdown_within(Duration::from_millis(20))?;
        for ask in asked {
            assert!(ask.wait().is_err());
        }
        assert_eq!(entities.active::<Account>(), 0, "each has ended");
        let late = entities.get::<Account>("late").tell(Deposit(1)).expect_err("it is over");
        assert_eq!(late.kind, SubmitErrorKind::Closed);
    }
    Ok(())
}

#[test]
fn a_passivation_during_the_activation_loses_nothing() -> Outcome {
    let bank = Bank::new();
    *bank.store.load.lock() = Mood::Hangs;
    let mut before = bank.deposit("a", 1);
    let over = bank.entities.get::<Account>("a").passivate();
    *bank.store.load.lock() = Mood::Well;
    let mut after = bank.deposit("a", 1);
    bank.sim.advance(Account::ACTIVATION_LIMIT + Duration::from_secs(1));
    assert!(over.is_done());
    assert!(failure(&mut before).to_string().contains("30s"), "its activation has failed");
    assert!(ready(&mut after).is_err(), "it has waited for the same key and is told the same");
    bank.sim.advance(Duration::from_secs(1));
    assert_eq!(ready(&mut bank.deposit("a", 1))??, 1, "nothing was done twice");
    Ok(())
}

/// Fails on request, and so restarts.
struct Fail(Completion<()>);

/// Says in which life it was handled.
struct Say(u32);

/// An entity that knows the number of its creation among all of its type.
struct Fresh(u32);

static LIVES: AtomicU32 = AtomicU32::new(0);

impl Actor for Fresh {
    type Error = std::convert::Infallible;
}

impl Entity for Fresh {
    type Key = u64;

    fn create(_: &u64) -> Self {
        Self(LIVES.fetch_add(1, Ordering::Relaxed) + 1)
    }

    async fn activate(&mut self, cx: EntityContext<Self>) -> Result<(), std::convert::Infallible> {
        let _ = cx.sleep(Duration::from_secs(1)).await;
        Ok(())
    }
}

impl InterleavedHandler<Fail> for Fresh {
    type Reply = ();
    const ADMITS: Admits = Admits::Chain;

    fn handle(
        &mut self,
        Fail(gate): Fail,
        _: &mut Context<'_, Self>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let life = self.0;
        async move {
            let _ = gate.await;
            panic!("life {life} ends on purpose");
        }
    }
}

impl Handler<Say> for Fresh {
    type Reply = u32;

    fn handle(&mut self, Say(number): Say, _: &mut Context<'_, Self>) -> u32 {
        number * 10 + self.0
    }
}

// O-T016
#[test]
fn what_waits_at_an_entity_is_kept_when_it_begins_anew() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("cpu"));
    let entities = Entities::new(&system);
    let fresh = entities.get::<Fresh>(1_u64);
    let (failing, until_failed) = completion();
    let failed = fresh.ask(Fail(until_failed));
    let (one, two) = (fresh.ask(Say(1)), fresh.ask(Say(2)));
    sim.advance(Duration::from_secs(2));
    failing.complete(()).map_err(|_| "completed twice")?;
    sim.run_until_idle();
    let three = fresh.ask(Say(3));
    sim.advance(Duration::from_secs(2));
    assert!(sim.block_on(failed)?.is_err());
    let lives = [sim.block_on(one)??, sim.block_on(two)??, sim.block_on(three)??];
    assert_eq!(lives, [12, 22, 32]);
    assert_eq!(system.dead_letters(), 0);
    Ok(())
}

//! Conflicts of stored state: passivation, and where the waiting messages go.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use turnwheel_actors::entity::{
    EntityContext, MemoryStore, NotOwner, OnConflict, Ownership, Placement, StateStore, StoreError,
    Stored,
};
use turnwheel_actors::intercept::{self, Interceptor};
use turnwheel_actors::{messages, Actor, AskError, Entities, Entity, EntityRef, System};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::Failure;

type Outcome = Result<(), Box<dyn Error>>;

/// An account whose balance is stored; counts its activations.
struct Account {
    balance: Option<Stored<i64>>,
    activation: u64,
}

impl Actor for Account {
    type Error = StoreError;
}

impl Entity for Account {
    type Key = u64;
    const NAME: &'static str = "account";

    fn create(_: &u64) -> Self {
        Self { balance: None, activation: 0 }
    }

    async fn activate(&mut self, cx: EntityContext<Self>) -> Result<(), StoreError> {
        self.balance = Some(Stored::load(&cx).await?);
        self.activation = cx.activation();
        Ok(())
    }
}

#[messages(entity)]
impl Account {
    #[message]
    async fn deposit(&mut self, amount: i64) -> Result<i64, StoreError> {
        let balance = self.balance.as_mut().expect("it was activated");
        balance.update(|balance| *balance += amount).await?;
        Ok(**balance)
    }

    /// Reads again after a conflict.
    #[message]
    async fn deposit_patiently(&mut self, amount: i64) -> Result<i64, StoreError> {
        let balance = self.balance.as_mut().expect("it was activated");
        while let Err(error) = balance.update(|balance| *balance += amount).await {
            assert!(matches!(error, StoreError::Conflict { .. }), "{error}");
            balance.reload().await?;
        }
        Ok(**balance)
    }

    #[message]
    fn activation(&mut self) -> u64 {
        self.activation
    }

    #[message]
    async fn forget(&mut self) -> Result<(), StoreError> {
        self.balance.as_mut().expect("it was activated").clear().await
    }
}

/// As an account, but sees to conflicts itself.
struct Keeper(Option<Stored<i64>>);

impl Actor for Keeper {
    type Error = StoreError;
}

impl Entity for Keeper {
    type Key = u64;
    const NAME: &'static str = "account";
    const ON_CONFLICT: OnConflict = OnConflict::Keep;

    fn create(_: &u64) -> Self {
        Self(None)
    }

    async fn activate(&mut self, cx: EntityContext<Self>) -> Result<(), StoreError> {
        self.0 = Some(Stored::load(&cx).await?);
        Ok(())
    }
}

#[messages(entity)]
impl Keeper {
    #[message]
    async fn keep(&mut self, amount: i64) -> Result<i64, StoreError> {
        let balance = self.0.as_mut().expect("it was activated");
        balance.update(|balance| *balance += amount).await?;
        Ok(**balance)
    }
}

/// An entity that calls an account and hands its error on.
struct Caller {
    account: Option<EntityRef<Account>>,
    calls: u32,
}

impl Actor for Caller {
    type Error = StoreError;
}

impl Entity for Caller {
    type Key = u64;

    fn create(_: &u64) -> Self {
        Self { account: None, calls: 0 }
    }

    async fn activate(&mut self, cx: EntityContext<Self>) -> Result<(), StoreError> {
        self.account = Some(cx.entities().get::<Account>(*cx.key()));
        Ok(())
    }
}

#[messages(entity)]
impl Caller {
    #[message]
    async fn call(&mut self, amount: i64) -> (u32, Result<i64, StoreError>) {
        self.calls += 1;
        let account = self.account.as_ref().expect("it was activated");
        (self.calls, account.deposit(amount).await.expect("it answers"))
    }
}

struct Scene {
    sim: Sim,
    store: Arc<dyn StateStore>,
    entities: Entities,
}

impl Scene {
    fn new() -> Self {
        Self::of(Sim::fifo())
    }

    fn of(sim: Sim) -> Self {
        let system = System::new(&sim.group("sim"));
        let store: Arc<dyn StateStore> = Arc::new(MemoryStore::new());
        let entities = Entities::builder(&system).store(Arc::clone(&store)).build();
        Self { sim, store, entities }
    }

    /// Another writer writes the state of an account.
    fn write(&self, key: u64, balance: i64) -> Outcome {
        let store = Arc::clone(&self.store);
        let written = async move {
            let key = &key.to_string();
            let version = store.load("account", key).await?.version;
            store.save("account", key, balance.to_string().into_bytes(), version, 1).await
        };
        self.sim.block_on(written)??;
        Ok(())
    }
}

fn is_conflict<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Conflict { .. }))
}

// O-T164
#[test]
fn a_conflict_passivates_the_activation_it_came_from_and_not_its_caller() -> Outcome {
    let scene = Scene::new();
    let (caller, account) = (scene.entities.get::<Caller>(1_u64), scene.entities.get(1_u64));
    assert!(matches!(scene.sim.block_on(caller.call(5))??, (1, Ok(5))));
    let first = scene.sim.block_on(account.activation())??;
    scene.write(1, 100)?;
    let (calls, told) = scene.sim.block_on(caller.call(1))??;
    assert!(calls == 2 && is_conflict(&told), "the caller gets the error, and stays: {told:?}");
    scene.sim.run_until_idle();
    assert!(!account.is_active() && caller.is_active());
    assert!(matches!(scene.sim.block_on(caller.call(1))??, (3, Ok(101))), "it was read again");
    assert_ne!(scene.sim.block_on(account.activation())??, first);
    Ok(())
}

// O-T164
#[test]
fn what_waits_behind_a_conflict_goes_to_the_next_activation_in_order() -> Outcome {
    for seed in 0..50 {
        let scene = Scene::of(Sim::new(seed));
        let account = scene.entities.get::<Account>(2_u64);
        assert_eq!(scene.sim.block_on(account.deposit(1))???, 1);
        scene.write(2, 1_000)?;
        let asked: Vec<_> = (0..20).map(|_| account.deposit(1)).collect();
        let mut answers = Vec::new();
        for ask in asked {
            answers.push(scene.sim.block_on(ask)??);
        }
        assert!(is_conflict(&answers[0]), "seed {seed}: {:?}", answers[0]);
        let rest: Vec<_> = answers.into_iter().skip(1).collect::<Result<_, _>>()?;
        assert_eq!(rest, (1_001..=1_019).collect::<Vec<_>>(), "seed {seed}");
        assert_eq!(scene.entities.system().dead_letters(), 0);
        assert_eq!(scene.entities.active::<Account>(), 1);
    }
    Ok(())
}

#[test]
fn a_request_that_reads_again_keeps_its_activation() -> Outcome {
    let scene = Scene::new();
    let account = scene.entities.get::<Account>(3_u64);
    let first = scene.sim.block_on(account.activation())??;
    scene.write(3, 10)?;
    assert_eq!(scene.sim.block_on(account.deposit_patiently(1))???, 11);
    scene.sim.run_until_idle();
    assert_eq!(scene.sim.block_on(account.activation())??, first);
    Ok(())
}

#[test]
fn a_conflict_of_a_removal_counts_too() -> Outcome {
    let scene = Scene::new();
    let account = scene.entities.get::<Account>(4_u64);
    assert_eq!(scene.sim.block_on(account.deposit(1))???, 1);
    scene.write(4, 10)?;
    assert!(is_conflict(&scene.sim.block_on(account.forget())??));
    scene.sim.run_until_idle();
    assert!(!account.is_active());
    scene.sim.block_on(account.forget())???;
    assert_eq!(scene.sim.block_on(account.deposit(1))???, 1);
    Ok(())
}

#[test]
fn a_type_may_see_to_conflicts_itself() -> Outcome {
    let scene = Scene::new();
    let keeper = scene.entities.get::<Keeper>(5_u64);
    assert_eq!(scene.sim.block_on(keeper.keep(1))???, 1);
    scene.write(5, 10)?;
    for _ in 0..3 {
        assert!(is_conflict(&scene.sim.block_on(keeper.keep(1))??), "it knows the old version");
        scene.sim.run_until_idle();
        assert!(keeper.is_active());
    }
    Ok(())
}

#[test]
fn a_conflict_while_it_is_passivated_anyway_ends_in_order() -> Outcome {
    let scene = Scene::new();
    let account = scene.entities.get::<Account>(6_u64);
    assert_eq!(scene.sim.block_on(account.deposit(1))???, 1);
    scene.write(6, 10)?;
    let conflict = account.deposit(1);
    let over = account.passivate();
    let after = account.deposit(1);
    assert!(is_conflict(&scene.sim.block_on(conflict)??));
    scene.sim.wait(over)?;
    assert_eq!(scene.sim.block_on(after)???, 11);
    Ok(())
}

#[test]
fn messages_behind_a_conflict_are_not_handled_while_the_group_ends() -> Outcome {
    let scene = Scene::new();
    let account = scene.entities.get::<Account>(7_u64);
    assert_eq!(scene.sim.block_on(account.deposit(1))???, 1);
    scene.write(7, 10)?;
    let conflict = account.deposit(1);
    let behind: Vec<_> = (0..3).map(|_| account.activation()).collect();
    assert!(scene.entities.system().group().shutdown()?.is_clean());
    assert!(is_conflict(&conflict.wait()?), "it was accepted, and is handled");
    for ask in behind {
        let answer = ask.wait();
        assert!(answer.is_err(), "handled with a state that another has written: {answer:?}");
    }
    Ok(())
}

/// Looks at outgoing messages, and lets them pass.
struct Look;

impl Interceptor for Look {
    type State = ();

    fn begin(&self, _: &mut intercept::Call<'_>) -> Result<(), Failure> {
        Ok(())
    }
}

// O-T164
#[test]
fn interceptors_around_sending_change_nothing_about_writes_and_conflicts() -> Outcome {
    let sim = Sim::fifo();
    let store = Arc::new(MemoryStore::new());
    let system = System::builder(&sim.group("sim")).intercept_outgoing(Look).build();
    let entities = Entities::builder(&system).store(Arc::clone(&store) as _).build();
    let account = entities.get::<Account>(1_u64);
    assert_eq!(sim.block_on(account.deposit(5))???, 5);
    let before = sim.block_on(account.activation())??;
    assert_eq!(sim.block_on(store.save("account", "1", b"100".to_vec(), 1, 1))??, 2);
    let refused = sim.block_on(account.deposit(5))??.expect_err("somebody else has written");
    assert!(matches!(refused, StoreError::Conflict { expected: 1, found: 2, .. }), "{refused}");
    assert_ne!(sim.block_on(account.activation())??, before);
    assert_eq!(sim.block_on(account.deposit(5))???, 105);
    Ok(())
}

/// Odd epochs are of this node, even ones of another.
#[derive(Debug)]
struct Epoch(AtomicU64);

impl Placement for Epoch {
    fn place(&self, _: &str, _: &str) -> Ownership {
        let epoch = self.0.load(Ordering::Relaxed);
        Ownership { is_local: epoch % 2 == 1, epoch }
    }
}

#[test]
fn activation_whose_key_has_moved_away_does_not_write_in_the_epoch_of_the_new_owner() -> Outcome {
    let (sim, placement) = (Sim::new(1), Arc::new(Epoch(AtomicU64::new(1))));
    let store = Arc::new(MemoryStore::new());
    let entities = Entities::builder(&System::new(&sim.group("sim")))
        .store(store.clone())
        .placement(placement.clone())
        .build();
    let account = entities.get::<Account>(1_u64);
    let waiting = account.deposit(5);
    // It was accepted here. The key moves before its activation begins.
    placement.0.store(2, Ordering::Relaxed);
    let outcome = sim.block_on(waiting)?;
    let Err(AskError::Unanswered(failure)) = outcome else { panic!("not refused") };
    let moved: &NotOwner = failure.downcast_ref().ok_or_else(|| failure.to_string())?;
    assert_eq!((&*moved.key, moved.epoch), ("1", 2), "its message was for the next owner");
    assert_eq!(sim.block_on(store.load("account", "1"))??.version, 0, "nothing was written");
    let refused = account.deposit(5).wait();
    assert!(matches!(refused, Err(AskError::NotOwner { .. })), "{refused:?}");
    // The key comes back: the next activation writes in the new epoch.
    placement.0.store(3, Ordering::Relaxed);
    sim.advance(Duration::from_secs(60));
    let deposit = account.deposit(5);
    sim.run_until_idle();
    assert_eq!(deposit.wait()??, 5);
    Ok(())
}

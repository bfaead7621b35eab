//! State of entities that outlives their activations.

use std::error::Error;
use std::sync::Arc;

use turnwheel_actors::entity::{EntityContext, MemoryStore, StateStore, StoreError, Stored};
use turnwheel_actors::{
    Actor, AsyncContext, AsyncHandler, Context, Entities, Entity, Handler, System,
};
use turnwheel_runtime::sim::Sim;

type Outcome = Result<(), Box<dyn Error>>;

/// An entity whose state survives its activation.
struct Account {
    balance: Option<Stored<i64>>,
}

impl Actor for Account {
    type Error = StoreError;
}

impl Entity for Account {
    type Key = String;
    const NAME: &'static str = "account";

    fn create(_: &String) -> Self {
        Account { balance: None }
    }

    async fn activate(&mut self, cx: EntityContext<Self>) -> Result<(), StoreError> {
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

// O-T080, O-T160
#[test]
fn stored_state_outlives_the_activation_and_a_conflict_leaves_the_memory_as_it_was() -> Outcome {
    let sim = Sim::fifo();
    let store: Arc<dyn StateStore> = Arc::new(MemoryStore::new());
    let system = System::new(&sim.group("sim"));
    let entities = Entities::builder(&system).store(Arc::clone(&store)).build();
    let account = entities.get::<Account>("42");
    assert_eq!(sim.block_on(account.ask(Deposit(5)))???, 5);
    drop(account.passivate());
    sim.run_until_idle();
    assert_eq!(sim.block_on(account.ask(Deposit(2)))???, 7, "it was loaded");
    // Another writer writes.
    let other = Arc::clone(&store);
    let written = async move { other.save("account", "42", b"100".to_vec(), 2, 1).await };
    assert_eq!(sim.block_on(written)??, 3);
    let error = sim.block_on(account.ask(Deposit(1)))??.expect_err("a conflict");
    assert!(matches!(error, StoreError::Conflict { expected: 2, found: 3, .. }), "{error}");
    drop(account.passivate());
    sim.run_until_idle();
    assert_eq!(sim.block_on(account.ask(Deposit(1)))???, 101);
    Ok(())
}

/// An entity that stores, and does not say under which name.
struct Nameless;

impl Actor for Nameless {
    type Error = StoreError;
}

impl Entity for Nameless {
    type Key = String;

    fn create(_: &String) -> Self {
        Self
    }

    async fn activate(&mut self, cx: EntityContext<Self>) -> Result<(), StoreError> {
        Stored::<i64>::load(&cx).await.map(drop)
    }
}

struct Hello;

impl Handler<Hello> for Nameless {
    type Reply = ();

    fn handle(&mut self, _: Hello, _: &mut Context<'_, Self>) {}
}

#[test]
fn types_without_a_name_do_not_share_their_state() -> Outcome {
    let sim = Sim::fifo();
    let entities = Entities::new(&System::new(&sim.group("sim")));
    let answer = sim.block_on(entities.get::<Nameless>("42").ask(Hello))?;
    let text = answer.expect_err("it has no name").to_string();
    assert!(text.contains("Nameless` has no `NAME`"), "{text}");
    Ok(())
}

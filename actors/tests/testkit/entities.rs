//! Entities on a stage: histories by key while activations come and go, and leftovers at the end.

use std::error::Error;
use std::time::Duration;

use turnwheel_actors::entity::{EntityContext, StoreError, Stored};
use turnwheel_actors::{messages, Actor, Entities, Entity, EntityRef};
use turnwheel_actors_testkit::{self as testkit, History, Stage};

type Outcome = Result<(), Box<dyn Error>>;

/// An account whose balance is stored; or only kept in memory, which is the planted bug.
struct Account {
    stored: Option<Stored<i64>>,
    remembered: i64,
}

impl Actor for Account {
    type Error = StoreError;
}

impl Entity for Account {
    type Key = u64;
    const NAME: &'static str = "account";
    const IDLE: Duration = Duration::from_secs(60);

    fn create(_: &u64) -> Self {
        Self { stored: None, remembered: 0 }
    }

    async fn activate(&mut self, cx: EntityContext<Self>) -> Result<(), StoreError> {
        self.stored = Some(Stored::load(&cx).await?);
        Ok(())
    }
}

#[messages(entity)]
impl Account {
    #[message]
    async fn deposit(&mut self, amount: i64) -> i64 {
        let stored = self.stored.as_mut().expect("it was activated");
        stored.update(|balance| *balance += amount).await.expect("nobody else writes");
        **stored
    }

    #[message]
    fn deposit_badly(&mut self, amount: i64) -> i64 {
        self.remembered += amount;
        self.remembered
    }
}

type Way = fn(&EntityRef<Account>, &History<u64, i64, i64>, u64) -> Recorded;
type Recorded = std::pin::Pin<Box<dyn std::future::Future<Output = ()> + Send>>;

fn well(account: &EntityRef<Account>, history: &History<u64, i64, i64>, key: u64) -> Recorded {
    let call = history.ask(key, 5, || account.deposit(5));
    Box::pin(async { drop(call.await) })
}

fn badly(account: &EntityRef<Account>, history: &History<u64, i64, i64>, key: u64) -> Recorded {
    let call = history.ask(key, 5, || account.deposit_badly(5));
    Box::pin(async { drop(call.await) })
}

/// Deposits into some accounts, each of them passivated now and then.
#[derive(Actor)]
struct Teller {
    entities: Entities,
    history: History<u64, i64, i64>,
    deposit: Way,
}

#[messages]
impl Teller {
    #[message]
    async fn work(&mut self, rounds: u64) {
        for round in 0..rounds {
            let key = round % 2;
            let account = self.entities.get::<Account>(key);
            if round % 3 == 0 {
                account.passivate().detach();
            }
            (self.deposit)(&account, &self.history, key).await;
        }
    }
}

fn bank(stage: &Stage<'_>, deposit: Way) -> History<u64, i64, i64> {
    let entities = Entities::new(stage.system());
    let history = History::new();
    let tellers: Vec<_> = (0..3)
        .map(|_| {
            let (entities, history) = (entities.clone(), history.clone());
            stage.spawn(Teller { entities, history, deposit })
        })
        .collect();
    let work: Vec<_> = tellers.iter().map(|teller| teller.work(8)).collect();
    work.into_iter().for_each(|work| stage.answer(work));
    drop(tellers);
    for key in 0..2_u64 {
        let ended = stage.wait(entities.get::<Account>(key).passivate());
        ended.expect("it ends").expect("in order");
    }
    assert_eq!(entities.active::<Account>(), 0);
    drop(entities);
    // The collector of idle entities ends with its next look.
    stage.advance(Account::IDLE);
    stage.assert_empty();
    stage.assert_no_failures();
    history
}

fn depositing(balance: &i64, amount: &i64) -> (i64, i64) {
    (balance + amount, balance + amount)
}

#[test]
fn stored_accounts_are_linearizable_while_they_are_passivated() {
    testkit::check(0..50, |stage| {
        let history = bank(stage, well);
        assert_eq!(history.len(), 24);
        history.assert_linearizable(&0, depositing);
    });
}

#[test]
fn a_balance_that_is_lost_with_its_activation_is_caught() {
    let found = testkit::find(0..50, |stage| {
        bank(stage, badly).assert_linearizable(&0, depositing);
    });
    let found = found.expect("no seed finds the bug").to_string();
    assert!(found.contains("explains their answers"), "{found}");
}

#[test]
fn an_idle_entity_is_left_until_its_time_is_over() -> Outcome {
    let stage = Stage::new(1);
    let entities = Entities::new(stage.system());
    assert_eq!(stage.answer(entities.get::<Account>(7_u64).deposit(1)), 1);
    assert!(stage.left().iter().any(|left| left.task.contains("Account")), "{:?}", stage.left());
    stage.advance(Account::IDLE * 3);
    assert_eq!(entities.active::<Account>(), 0);
    drop(entities);
    stage.assert_empty();
    Ok(())
}

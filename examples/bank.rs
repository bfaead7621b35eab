//! Transfers between 100,000 bank accounts that fail at random; not a cent is lost or made.
//!
//! ```sh
//! cargo run --release --example bank                    # 100,000 accounts, 200,000 transfers
//! cargo run --release --example bank -- 1000 50000      # fewer accounts, each busier
//! ```
//!
//! What it shows: each account is an *entity*, found by its number, activated by its first message
//! and passivated now and then in between. Its state lies in a store; the memory of an activation is
//! a copy of it. Accounts panic at random, before and after they have written: then nobody knows
//! whether the message has counted. So each step of a transfer has a number, is repeated until it is
//! answered, and an account knows the numbers that it has had: it counts once.
//!
//! In the end every account is read again from a fresh activation, and the sum must be what it was.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use turnwheel::actors::entity::{EntityContext, StoreError, Stored};
use turnwheel::actors::{
    Actor, AskError, AsyncContext, AsyncHandler, Context, Entities, Entity, Handler, System,
};
use turnwheel::runtime::{Failure, Group};

const ACCOUNTS_DEFAULT: u64 = 100_000;
const TRANSFERS_DEFAULT: u64 = 200_000;
/// What each account has in the beginning.
const BALANCE: i64 = 1_000;
/// Tellers that make transfers at the same time.
const TELLERS: u64 = 64;
/// Of so many steps one panics before it has written, and one after.
const STEPS_PER_PANIC: u64 = 200;
/// Of so many steps one passivates its account.
const STEPS_PER_PASSIVATION: u64 = 100;
/// Numbers of steps that an account remembers: more than tellers can have under way.
const REMEMBERED: usize = 128;
/// All takes seconds; beyond this something is broken.
const PATIENCE: Duration = Duration::from_secs(240);

/// What is stored of an account.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Ledger {
    balance: i64,
    /// The numbers of the last steps, the newest last.
    steps: Vec<u64>,
}

impl Default for Ledger {
    fn default() -> Self {
        Self { balance: BALANCE, steps: Vec::new() }
    }
}

/// An account: a copy of its ledger in memory while it is active.
struct Account {
    ledger: Option<Stored<Ledger>>,
}

impl Actor for Account {
    type Error = StoreError;
}

impl Entity for Account {
    type Key = u64;
    const NAME: &'static str = "account";

    fn create(_: &u64) -> Self {
        Account { ledger: None }
    }

    async fn activate(&mut self, cx: EntityContext<Self>) -> Result<(), StoreError> {
        self.ledger = Some(Stored::load(&cx).await?);
        Ok(())
    }
}

/// One step of a transfer: adds to the balance, or takes from it if there is enough.
#[derive(Clone, Copy)]
struct Book {
    step: u64,
    amount: i64,
    /// Chosen by the teller, so that a run is repeatable as far as the threads allow.
    trouble: Trouble,
}

#[derive(Clone, Copy, PartialEq)]
enum Trouble {
    None,
    Before,
    After,
}

impl AsyncHandler<Book> for Account {
    /// Whether it was booked: false if the balance does not suffice.
    type Reply = Result<bool, StoreError>;

    async fn handle(&mut self, book: Book, _: AsyncContext<Self>) -> Self::Reply {
        assert!(book.trouble != Trouble::Before, "the account fails before it has written");
        let ledger = self.ledger.as_mut().expect("it was activated");
        if ledger.steps.contains(&book.step) {
            return Ok(true);
        }
        if ledger.balance + book.amount < 0 {
            return Ok(false);
        }
        ledger
            .update(|ledger| {
                ledger.balance += book.amount;
                if ledger.steps.len() >= REMEMBERED {
                    ledger.steps.remove(0);
                }
                ledger.steps.push(book.step);
            })
            .await?;
        assert!(book.trouble != Trouble::After, "the account fails after it has written");
        Ok(true)
    }
}

struct Balance;

impl Handler<Balance> for Account {
    type Reply = i64;

    fn handle(&mut self, _: Balance, _: &mut Context<'_, Self>) -> i64 {
        self.ledger.as_ref().expect("it was activated").balance
    }
}

/// What has happened so far.
#[derive(Default)]
struct Tally {
    booked: AtomicU64,
    refused: AtomicU64,
    repeated: AtomicU64,
    passivated: AtomicU64,
}

/// Makes transfers, one after the other.
struct Teller {
    number: u64,
    accounts: u64,
    entities: Entities,
    tally: Arc<Tally>,
    random: u64,
    progress: ProgressBar,
}

impl Actor for Teller {
    type Error = std::convert::Infallible;
}

struct Transfer(u64);

impl AsyncHandler<Transfer> for Teller {
    type Reply = Result<(), Failure>;

    async fn handle(&mut self, Transfer(count): Transfer, _: AsyncContext<Self>) -> Self::Reply {
        for transfer in 0..count {
            let (from, to) = (self.next() % self.accounts, self.next() % self.accounts);
            let amount = (self.next() % 100) as i64;
            let step = (transfer * TELLERS + self.number) * 2;
            if self.book(from, step, -amount).await? {
                // What was taken must arrive, however often it takes.
                if !self.book(to, step + 1, amount).await? {
                    return Err(Failure::message("a deposit was refused"));
                }
                self.tally.booked.fetch_add(1, Ordering::Relaxed);
            } else {
                self.tally.refused.fetch_add(1, Ordering::Relaxed);
            }
            self.progress.inc(1);
        }
        Ok(())
    }
}

impl Teller {
    /// A random number: xorshift, Marsaglia 2003.
    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 8
    }

    /// Repeats a step until it is answered.
    async fn book(&mut self, account: u64, step: u64, amount: i64) -> Result<bool, Failure> {
        loop {
            let entity = self.entities.get::<Account>(account);
            if self.next() % STEPS_PER_PASSIVATION == 0 {
                self.tally.passivated.fetch_add(1, Ordering::Relaxed);
                entity.passivate().detach();
            }
            let trouble = match self.next() % STEPS_PER_PANIC {
                0 => Trouble::Before,
                1 => Trouble::After,
                _ => Trouble::None,
            };
            match entity.ask(Book { step, amount, trouble }).await {
                Ok(booked) => return booked.map_err(Failure::error),
                Err(AskError::Unanswered(Failure::Panicked(_))) => {
                    self.tally.repeated.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn number(argument: Option<&String>, default: u64, what: &str) -> Result<u64, String> {
    let Some(text) = argument else { return Ok(default) };
    let number = text.replace(['_', ','], "").parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("{what}: «{text}» is no whole number above zero"))
}

/// The panics of accounts are meant; their traces would hide what matters.
fn hide_meant_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload().downcast_ref::<&str>();
        if !text.is_some_and(|text| text.starts_with("the account fails")) {
            usual(panic);
        }
    }));
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.len() > 2 || arguments.iter().any(|argument| argument.starts_with('-')) {
        return Err("usage: bank [ACCOUNTS] [TRANSFERS]".into());
    }
    let accounts = number(arguments.first(), ACCOUNTS_DEFAULT, "accounts")?;
    let transfers = number(arguments.get(1), TRANSFERS_DEFAULT, "transfers")?;
    hide_meant_panics();
    let group = Group::builder("bank").build()?;
    let system = System::new(&group);
    let entities = Entities::new(&system);
    let style = ProgressStyle::with_template("{bar:40} {human_pos}/{human_len} transfers, {eta}")?;
    let progress = ProgressBar::new(transfers).with_style(style);
    let tally = Arc::new(Tally::default());
    let begun = Instant::now();
    let mut asked = Vec::new();
    let mut tellers = Vec::new();
    for number in 0..TELLERS {
        let teller = system.spawn(Teller {
            number,
            accounts,
            entities: entities.clone(),
            tally: Arc::clone(&tally),
            random: 0x9e37_79b9_7f4a_7c15 ^ (number + 1) << 32,
            progress: progress.clone(),
        })?;
        let share = transfers / TELLERS + u64::from(number < transfers % TELLERS);
        asked.push(teller.ask_within(Transfer(share), PATIENCE));
        tellers.push(teller);
    }
    for ask in asked {
        ask.wait().map_err(|error| error.to_string())??;
    }
    let took = begun.elapsed();
    progress.finish_and_clear();
    let sum = audit(&entities, accounts)?;
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    println!(
        "{} transfers in {:.2} s: {} booked, {} refused for lack of money",
        count(&tally.booked) + count(&tally.refused),
        took.as_secs_f64(),
        count(&tally.booked),
        count(&tally.refused),
    );
    println!(
        "{} steps were repeated after a panic, {} accounts passivated under way",
        count(&tally.repeated),
        count(&tally.passivated),
    );
    let expected = i64::try_from(accounts)? * BALANCE;
    println!("{accounts} accounts hold {sum}, expected {expected}");
    drop(tellers);
    let report = group.shutdown()?;
    if sum != expected {
        return Err("money was lost or made".into());
    }
    if !report.is_clean() {
        return Err("the group did not end in order".into());
    }
    Ok(())
}

/// Ends every activation and reads every account from a fresh one.
fn audit(entities: &Entities, accounts: u64) -> Result<i64, Box<dyn Error>> {
    let ended: Vec<_> =
        (0..accounts).map(|account| entities.get::<Account>(account).passivate()).collect();
    for end in ended {
        end.wait()?;
    }
    let asked: Vec<_> =
        (0..accounts).map(|account| entities.get::<Account>(account).ask(Balance)).collect();
    let mut sum = 0;
    for ask in asked {
        sum += ask.wait().map_err(|error| error.to_string())?;
    }
    Ok(sum)
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bank: {error}");
            ExitCode::FAILURE
        }
    }
}

//! Transfers between accounts; a source stashes what comes while its transfer is under way. Known:
//! the sum of all money, and that every stash is empty at the end.

use std::collections::VecDeque;
use std::sync::Arc;

use turnwheel_runtime::{Context, Group, Task};

use super::{done, Done, Outcome, Size};
use crate::compare::trial::Random;
use crate::error::{check, BenchError};
use crate::load::{fetch, sent, spawn, submit};

const OPENING_BALANCE: i64 = 1_000_000;
/// Transfers that the teller starts before it lets others run.
const CHUNK: u64 = 1_000;

/// A transfer out of an account.
#[derive(Clone)]
struct Transfer {
    amount: i64,
    to: Task<Account>,
    teller: Task<Teller>,
}

struct Account {
    me: Option<Task<Account>>,
    balance: i64,
    /// The teller of the transfer under way.
    waiting: Option<Task<Teller>>,
    stash: VecDeque<Transfer>,
    stashed: u64,
}

impl Account {
    fn transfer(&mut self, transfer: Transfer) {
        if self.waiting.is_some() {
            self.stashed += 1;
            self.stash.push_back(transfer);
            return;
        }
        let Some(me) = self.me.clone() else { return };
        self.balance -= transfer.amount;
        self.waiting = Some(transfer.teller);
        let amount = transfer.amount;
        sent(transfer.to.submit(move |account, _| account.receive(amount, &me)));
    }

    fn receive(&mut self, amount: i64, from: &Task<Self>) {
        self.balance += amount;
        sent(from.submit(|account, _| account.received()));
    }

    fn received(&mut self) {
        if let Some(teller) = self.waiting.take() {
            sent(teller.submit(|teller, _| teller.transferred()));
        }
        if let Some(next) = self.stash.pop_front() {
            self.transfer(next);
        }
    }
}

struct Teller {
    accounts: Arc<[Task<Account>]>,
    random: Random,
    to_start: u64,
    under_way: u64,
    done: Done<()>,
}

impl Teller {
    fn go_on(&mut self, cx: &mut Context<'_, Self>) {
        let accounts = self.accounts.len() as u64;
        for _ in 0..CHUNK.min(self.to_start) {
            let from = self.random.below(accounts);
            // Anybody else.
            let to = (from + 1 + self.random.below(accounts - 1)) % accounts;
            let transfer = Transfer {
                amount: self.random.below(1_000) as i64,
                to: self.accounts[to as usize].clone(),
                teller: cx.task(),
            };
            sent(self.accounts[from as usize].submit(move |from, _| from.transfer(transfer)));
            self.under_way += 1;
        }
        self.to_start = self.to_start.saturating_sub(CHUNK);
        if self.to_start > 0 {
            sent(cx.submit(Self::go_on));
        }
    }

    fn transferred(&mut self) {
        self.under_way -= 1;
        if self.under_way == 0 && self.to_start == 0 {
            self.done.tell(());
        }
    }
}

pub(super) fn run(group: &Group, size: Size) -> Result<Outcome, BenchError> {
    let (accounts, transfers) = size.pick((10, 500), (1_000, 100_000));
    let (done, waiting) = done();
    let account = || Account {
        me: None,
        balance: OPENING_BALANCE,
        waiting: None,
        stash: VecDeque::new(),
        stashed: 0,
    };
    let all = (0..accounts).map(|_| spawn(group, account())).collect::<Result<Arc<[_]>, _>>()?;
    for one in all.iter() {
        let me = one.clone();
        submit(one, move |one, _| one.me = Some(me))?;
    }
    let teller = spawn(
        group,
        Teller {
            accounts: Arc::clone(&all),
            random: Random::new(accounts),
            to_start: transfers,
            under_way: 0,
            done,
        },
    )?;
    submit(&teller, Teller::go_on)?;
    waiting.get("banking")?;
    let (mut sum, mut stashed, mut left) = (0, 0, 0);
    for one in all.iter() {
        let told = fetch(one, |one| (one.balance, one.stashed, one.stash.len()))?;
        sum += told.0;
        stashed += told.1;
        left += told.2;
    }
    check("banking: sum of all money", sum, OPENING_BALANCE * accounts as i64)?;
    check("banking: transfers left in a stash", left, 0)?;
    Ok(Outcome { messages: 4 * transfers, note: format!("{stashed} stashed") })
}

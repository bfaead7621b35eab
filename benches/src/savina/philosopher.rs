//! Philosophers ask one arbiter for forks and ask again at once when denied. Known: the rounds of
//! each, and that neighbours never eat together. Reported: the denials, since a faster scheduler
//! may well do more of them.

use turnwheel_runtime::{Group, Task};

use super::{done, Done, Outcome, Size};
use crate::error::{check, BenchError};
use crate::load::{sent, spawn, submit};

struct Arbiter {
    is_fork_taken: Vec<bool>,
    is_eating: Vec<bool>,
    /// Grants while a neighbour was eating: never.
    violations: u64,
    denials: u64,
}

impl Arbiter {
    fn ask(&mut self, who: usize, philosopher: &Task<Philosopher>) {
        let seats = self.is_fork_taken.len();
        let (left, right) = (who, (who + 1) % seats);
        if self.is_fork_taken[left] || self.is_fork_taken[right] {
            self.denials += 1;
            sent(philosopher.submit(|philosopher, _| philosopher.ask()));
            return;
        }
        self.is_fork_taken[left] = true;
        self.is_fork_taken[right] = true;
        let neighbours = [(who + 1) % seats, (who + seats - 1) % seats];
        self.violations += u64::from(neighbours.iter().any(|one| self.is_eating[*one]));
        self.is_eating[who] = true;
        sent(philosopher.submit(|philosopher, _| philosopher.eat()));
    }

    fn give_back(&mut self, who: usize) {
        let seats = self.is_fork_taken.len();
        self.is_eating[who] = false;
        self.is_fork_taken[who] = false;
        self.is_fork_taken[(who + 1) % seats] = false;
    }
}

struct Philosopher {
    seat: usize,
    arbiter: Task<Arbiter>,
    me: Option<Task<Philosopher>>,
    rounds: u64,
    rounds_max: u64,
    done: Done<u64>,
}

impl Philosopher {
    fn ask(&mut self) {
        let Some(me) = self.me.clone() else { return };
        let seat = self.seat;
        sent(self.arbiter.submit(move |arbiter, _| arbiter.ask(seat, &me)));
    }

    fn eat(&mut self) {
        self.rounds += 1;
        let seat = self.seat;
        sent(self.arbiter.submit(move |arbiter, _| arbiter.give_back(seat)));
        if self.rounds == self.rounds_max {
            self.me = None;
            self.done.tell(self.rounds);
        } else {
            self.ask();
        }
    }
}

pub(super) fn run(group: &Group, size: Size) -> Result<Outcome, BenchError> {
    let (seats, rounds) = size.pick((5, 100), (20, 10_000));
    let (done, waiting) = done();
    let arbiter = spawn(
        group,
        Arbiter {
            is_fork_taken: vec![false; seats],
            is_eating: vec![false; seats],
            violations: 0,
            denials: 0,
        },
    )?;
    for seat in 0..seats {
        let philosopher = spawn(
            group,
            Philosopher {
                seat,
                arbiter: arbiter.clone(),
                me: None,
                rounds: 0,
                rounds_max: rounds,
                done: done.clone(),
            },
        )?;
        let me = philosopher.clone();
        submit(&philosopher, move |philosopher, _| {
            philosopher.me = Some(me);
            philosopher.ask();
        })?;
    }
    for eaten in waiting.get_all("philosopher", seats as u64)? {
        check("philosopher: rounds", eaten, rounds)?;
    }
    let fetch = |arbiter: &mut Arbiter| {
        let taken = arbiter.is_fork_taken.iter().filter(|taken| **taken).count();
        (arbiter.violations, arbiter.denials, taken)
    };
    let (violations, denials, taken) = crate::load::fetch(&arbiter, fetch)?;
    check("philosopher: neighbours that ate together", violations, 0)?;
    check("philosopher: forks not given back", taken, 0)?;
    let messages = 3 * seats as u64 * rounds + 2 * denials;
    Ok(Outcome { messages, note: format!("{denials} denials") })
}

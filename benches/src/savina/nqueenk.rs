//! A master hands out positions of queens, workers extend or solve them. Known: the solutions. Run
//! twice: deepest first (a priority), and in order of arrival.

use std::collections::{BinaryHeap, VecDeque};

use turnwheel_runtime::{Group, Task};

use super::{done, Done, Outcome, Size};
use crate::error::{check, BenchError};
use crate::load::{sent, spawn, submit};

const WORKERS: usize = 20;
/// Rows below which a position is extended by the master's workers instead of solved at once.
const THRESHOLD: u32 = 4;

/// Queens in the first rows, as the columns and diagonals they attack. Ordered by rows first: the
/// priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    rows: u32,
    columns: u32,
    rising: u32,
    falling: u32,
}

impl Position {
    const EMPTY: Self = Self { rows: 0, columns: 0, rising: 0, falling: 0 };

    fn extended(self, size: u32) -> impl Iterator<Item = Self> {
        let free = !(self.columns | self.rising | self.falling) & ((1 << size) - 1);
        (0..size).map(|column| 1 << column).filter(move |bit| free & bit != 0).map(move |bit| {
            Self {
                rows: self.rows + 1,
                columns: self.columns | bit,
                rising: (self.rising | bit) << 1,
                falling: (self.falling | bit) >> 1,
            }
        })
    }

    fn solutions(self, size: u32) -> u64 {
        if self.rows == size {
            return 1;
        }
        self.extended(size).map(|next| next.solutions(size)).sum()
    }
}

/// Positions that wait for a worker.
enum Pending {
    DeepestFirst(BinaryHeap<Position>),
    InOrder(VecDeque<Position>),
}

impl Pending {
    fn push(&mut self, position: Position) {
        match self {
            Self::DeepestFirst(heap) => heap.push(position),
            Self::InOrder(queue) => queue.push_back(position),
        }
    }

    fn pop(&mut self) -> Option<Position> {
        match self {
            Self::DeepestFirst(heap) => heap.pop(),
            Self::InOrder(queue) => queue.pop_front(),
        }
    }
}

struct Master {
    pending: Pending,
    idle: Vec<Task<Worker>>,
    /// Positions with a worker.
    under_way: u64,
    handed_out: u64,
    solutions: u64,
    done: Done<(u64, u64)>,
}

impl Master {
    fn hand_out(&mut self) {
        while !self.idle.is_empty() {
            let Some(position) = self.pending.pop() else { break };
            let Some(worker) = self.idle.pop() else { break };
            self.under_way += 1;
            self.handed_out += 1;
            sent(worker.submit(move |worker, _| worker.work(position)));
        }
        if self.under_way == 0 {
            self.done.tell((self.solutions, self.handed_out));
        }
    }

    fn answered(&mut self, worker: Task<Worker>, found: u64, further: Vec<Position>) {
        self.under_way -= 1;
        self.solutions += found;
        further.into_iter().for_each(|position| self.pending.push(position));
        self.idle.push(worker);
        self.hand_out();
    }
}

struct Worker {
    master: Task<Master>,
    me: Option<Task<Worker>>,
    size: u32,
}

impl Worker {
    fn work(&mut self, position: Position) {
        let Some(me) = self.me.clone() else { return };
        let (found, further) = if position.rows < THRESHOLD {
            (0, position.extended(self.size).collect())
        } else {
            (position.solutions(self.size), Vec::new())
        };
        sent(self.master.submit(move |master, _| master.answered(me, found, further)));
    }
}

fn solve(group: &Group, size: u32, pending: Pending) -> Result<(u64, u64), BenchError> {
    let (done, waiting) = done();
    let master = spawn(
        group,
        Master { pending, idle: Vec::new(), under_way: 0, handed_out: 0, solutions: 0, done },
    )?;
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        let worker = spawn(group, Worker { master: master.clone(), me: None, size })?;
        let me = worker.clone();
        submit(&worker, move |worker, _| worker.me = Some(me))?;
        workers.push(worker);
    }
    submit(&master, move |master, _| {
        master.idle = workers;
        master.pending.push(Position::EMPTY);
        master.hand_out();
    })?;
    waiting.get("nqueenk")
}

pub(super) fn run(group: &Group, size: Size) -> Result<Outcome, BenchError> {
    let (queens, expected) = size.pick((8, 92), (12, 14_200));
    let (first, handed_out) = solve(group, queens, Pending::DeepestFirst(BinaryHeap::new()))?;
    check("nqueenk: solutions, deepest first", first, expected)?;
    let (second, again) = solve(group, queens, Pending::InOrder(VecDeque::new()))?;
    check("nqueenk: solutions, in order", second, expected)?;
    check("nqueenk: positions, either way", again, handed_out)?;
    Ok(Outcome { messages: 4 * handed_out, note: format!("{handed_out} positions, twice") })
}

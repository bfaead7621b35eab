//! Fibonacci numbers by a tree of actors that wait for their children. Known: the number, and how
//! many actors it takes.

use turnwheel_runtime::{Context, Group, Task};

use super::{done, Done, Outcome, Size};
use crate::error::{check, BenchError};
use crate::load::{sent, spawn, submit};

/// Who waits for the result.
enum Parent {
    Actor(Task<Fib>),
    Program(Done<(u64, u64)>),
}

struct Fib {
    parent: Parent,
    /// Results of children that are missing.
    missing: u32,
    value: u64,
    actors: u64,
}

impl Fib {
    fn new(parent: Parent) -> Self {
        Self { parent, missing: 0, value: 0, actors: 1 }
    }

    fn compute(&mut self, n: u64, group: &Group, cx: &Context<'_, Self>) {
        if n <= 2 {
            self.value = 1;
            self.tell();
            return;
        }
        self.missing = 2;
        for n in [n - 1, n - 2] {
            // A child that cannot be made ends the program with a time-out.
            let Ok(child) = group.spawn(Self::new(Parent::Actor(cx.task()))) else { return };
            let group = group.clone();
            sent(child.submit(move |child, cx| child.compute(n, &group, cx)));
        }
    }

    fn result(&mut self, value: u64, actors: u64) {
        self.value += value;
        self.actors += actors;
        self.missing -= 1;
        if self.missing == 0 {
            self.tell();
        }
    }

    fn tell(&self) {
        let (value, actors) = (self.value, self.actors);
        match &self.parent {
            Parent::Actor(parent) => sent(parent.submit(move |p, _| p.result(value, actors))),
            Parent::Program(done) => done.tell((value, actors)),
        }
    }
}

pub(super) fn run(group: &Group, size: Size) -> Result<Outcome, BenchError> {
    let (n, expected) = size.pick((12, 144), (25, 75_025));
    let (done, waiting) = done();
    let root = spawn(group, Fib::new(Parent::Program(done)))?;
    let for_children = group.clone();
    submit(&root, move |root, cx| root.compute(n, &for_children, cx))?;
    let (value, actors) = waiting.get("fib")?;
    check("fib: value", value, expected)?;
    check("fib: actors", actors, 2 * expected - 1)?;
    Ok(Outcome { messages: 2 * actors - 1, note: format!("{actors} actors") })
}

//! One producer floods many actors in turn. Known: what each has counted.

use turnwheel_runtime::{Context, Group, Task};

use super::{done, Done, Outcome, Size};
use crate::error::{check, BenchError};
use crate::load::{sent, spawn, submit};

struct Receiver {
    count: u64,
    expected: u64,
    done: Done<u64>,
}

impl Receiver {
    fn message(&mut self) {
        self.count += 1;
        if self.count == self.expected {
            self.done.tell(self.count);
        }
    }
}

struct Producer {
    receivers: Vec<Task<Receiver>>,
    rounds: u64,
}

impl Producer {
    /// Rounds before it lets others run: about a thousand messages.
    fn go_on(&mut self, cx: &mut Context<'_, Self>) {
        let rounds = self.rounds.min(1_000_u64.div_ceil(self.receivers.len() as u64));
        for _ in 0..rounds {
            for receiver in &self.receivers {
                sent(receiver.submit(|receiver, _| receiver.message()));
            }
        }
        self.rounds -= rounds;
        if self.rounds > 0 {
            sent(cx.submit(Self::go_on));
        }
    }
}

fn fork_join(group: &Group, actors: u64, each: u64) -> Result<u64, BenchError> {
    let (done, waiting) = done();
    let receiver = || spawn(group, Receiver { count: 0, expected: each, done: done.clone() });
    let receivers = (0..actors).map(|_| receiver()).collect::<Result<Vec<_>, _>>()?;
    let kept = receivers.clone();
    let producer = spawn(group, Producer { receivers, rounds: each })?;
    submit(&producer, Producer::go_on)?;
    waiting.get_all("fjthrput", actors)?;
    // Asked once more: nobody has had more than it should.
    for receiver in &kept {
        let count = crate::load::fetch(receiver, |receiver| receiver.count)?;
        check("fjthrput: count of an actor", count, each)?;
    }
    Ok(actors * each)
}

pub(super) fn run(group: &Group, size: Size) -> Result<Outcome, BenchError> {
    let messages = match size {
        Size::Smoke => fork_join(group, 60, 100)?,
        Size::Standard => fork_join(group, 60, 10_000)? + fork_join(group, 600, 10_000)?,
    };
    Ok(Outcome { messages, note: size.pick("60 actors", "60, then 600 actors").to_owned() })
}

//! One producer floods one counter, then asks for its value. Known: the value. Reported: how long
//! the queue grew, with and without a bound.

use turnwheel_runtime::{Context, Group, Mailbox, SubmitErrorKind, Task};

use super::{done, Done, Outcome, Size};
use crate::error::{check, BenchError};
use crate::load::{sent, spawn, submit};

/// Messages before the producer lets others run.
const CHUNK: u64 = 1_000;
const BOUND: u64 = 4_096;

struct Producer {
    counter: Task<u64>,
    left: u64,
    queue_max: u64,
    done: Done<(u64, u64)>,
}

impl Producer {
    fn go_on(&mut self, cx: &mut Context<'_, Self>) {
        for _ in 0..CHUNK.min(self.left) {
            match self.counter.submit(|count, _| *count += 1) {
                Ok(()) => self.left -= 1,
                Err(error) if error.kind == SubmitErrorKind::Full => break,
                Err(error) => sent(Err(error)),
            }
        }
        self.queue_max = self.queue_max.max(self.counter.queue_len());
        if self.left > 0 {
            sent(cx.submit(Self::go_on));
            return;
        }
        let value = self.counter.call(|count, _| *count);
        let _ = cx.on_completion(value, |producer, _, value| {
            producer.done.tell((value.unwrap_or(0), producer.queue_max));
        });
    }
}

fn flood(group: &Group, messages: u64, mailbox: Mailbox) -> Result<u64, BenchError> {
    let (done, waiting) = done();
    let counter = group.task(0_u64).mailbox(mailbox).spawn();
    let counter = counter
        .map_err(|error| BenchError::Start { what: "a task".into(), why: error.to_string() })?;
    let producer = spawn(group, Producer { counter, left: messages, queue_max: 0, done })?;
    submit(&producer, Producer::go_on)?;
    let (value, queue_max) = waiting.get("count")?;
    check("count: value", value, messages)?;
    Ok(queue_max)
}

pub(super) fn run(group: &Group, size: Size) -> Result<Outcome, BenchError> {
    let messages = size.pick(10_000, 5_000_000);
    let free = flood(group, messages, Mailbox::unbounded())?;
    let bounded = flood(group, messages, Mailbox::bounded(BOUND))?;
    check("count: queue within its bound", bounded <= BOUND, true)?;
    let note = format!("longest queue {free}, bounded {bounded}");
    Ok(Outcome { messages: 2 * messages, note })
}

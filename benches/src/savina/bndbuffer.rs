//! Producers and consumers around a bounded buffer. Known: each item arrives once, and the buffer
//! never holds more than it may.

use std::collections::VecDeque;

use turnwheel_runtime::{Group, Task};

use super::{done, Done, Outcome, Size};
use crate::error::{check, BenchError};
use crate::load::{sent, spawn, submit};

const BUFFER: usize = 50;

struct Manager {
    items: VecDeque<u64>,
    /// Beyond this fill no more items are asked for: each producer may have one under way.
    ask_below: usize,
    idle_producers: Vec<Task<Producer>>,
    idle_consumers: Vec<Task<Consumer>>,
    items_left: u64,
    fill_max: usize,
    done: Done<usize>,
}

struct Producer {
    manager: Task<Manager>,
    me: Option<Task<Producer>>,
    next: u64,
    end: u64,
}

struct Consumer {
    manager: Task<Manager>,
    me: Option<Task<Consumer>>,
    seen: Vec<u64>,
}

impl Manager {
    fn produced(&mut self, item: u64, producer: Task<Producer>) {
        self.items.push_back(item);
        self.fill_max = self.fill_max.max(self.items.len());
        self.serve();
        if self.items.len() >= self.ask_below {
            self.idle_producers.push(producer);
        } else {
            sent(producer.submit(|producer, _| producer.produce()));
        }
    }

    fn ready(&mut self, consumer: Task<Consumer>) {
        self.idle_consumers.push(consumer);
        self.serve();
        if self.items.len() < self.ask_below {
            if let Some(producer) = self.idle_producers.pop() {
                sent(producer.submit(|producer, _| producer.produce()));
            }
        }
    }

    /// Hands items to consumers that wait.
    fn serve(&mut self) {
        while !self.idle_consumers.is_empty() {
            let Some(item) = self.items.pop_front() else { return };
            let Some(consumer) = self.idle_consumers.pop() else { return };
            sent(consumer.submit(move |consumer, _| consumer.consume(item)));
        }
    }

    fn consumed(&mut self) {
        self.items_left -= 1;
        if self.items_left == 0 {
            self.done.tell(self.fill_max);
        }
    }
}

impl Producer {
    fn produce(&mut self) {
        let Some(me) = self.me.clone() else { return };
        if self.next == self.end {
            self.me = None;
            return;
        }
        let item = self.next;
        self.next += 1;
        sent(self.manager.submit(move |manager, _| manager.produced(item, me)));
    }
}

impl Consumer {
    fn consume(&mut self, item: u64) {
        self.seen.push(item);
        let Some(me) = self.me.clone() else { return };
        sent(self.manager.submit(move |manager, _| {
            manager.consumed();
            manager.ready(me);
        }));
    }
}

pub(super) fn run(group: &Group, size: Size) -> Result<Outcome, BenchError> {
    let (producers, consumers, each) = size.pick((4, 4, 100), (40, 40, 2_500));
    let items = producers * each;
    let (done, waiting) = done();
    let manager = spawn(
        group,
        Manager {
            items: VecDeque::new(),
            ask_below: BUFFER - producers as usize,
            idle_producers: Vec::new(),
            idle_consumers: Vec::new(),
            items_left: items,
            fill_max: 0,
            done,
        },
    )?;
    let mut takers = Vec::new();
    for _ in 0..consumers {
        let consumer = Consumer { manager: manager.clone(), me: None, seen: Vec::new() };
        let consumer = spawn(group, consumer)?;
        let me = consumer.clone();
        submit(&consumer, move |consumer, _| consumer.me = Some(me))?;
        let ready = consumer.clone();
        submit(&manager, move |manager, _| manager.ready(ready))?;
        takers.push(consumer);
    }
    for index in 0..producers {
        let (next, end) = (index * each, (index + 1) * each);
        let producer = spawn(group, Producer { manager: manager.clone(), me: None, next, end })?;
        let me = producer.clone();
        submit(&producer, move |producer, _| {
            producer.me = Some(me);
            producer.produce();
        })?;
    }
    let fill_max = waiting.get("bndbuffer")?;
    check("bndbuffer: fill within the buffer", fill_max <= BUFFER, true)?;
    let mut seen = Vec::new();
    for consumer in &takers {
        seen.extend(crate::load::fetch(consumer, |consumer| std::mem::take(&mut consumer.seen))?);
    }
    seen.sort_unstable();
    check("bndbuffer: each item once", seen == (0..items).collect::<Vec<_>>(), true)?;
    Ok(Outcome { messages: 3 * items, note: format!("fill at most {fill_max}") })
}

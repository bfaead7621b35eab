//! Tasks in crowds: made, and sent to at random.

use std::sync::Arc;

use turnwheel_runtime::{Context, Group, Task};

use super::{Counter, Turnwheel};
use crate::compare::patterns::{Load, Nothing, Targets};
use crate::compare::plan::{Run, CHUNK};
use crate::compare::trial::{work, Collector, Measured};
use crate::error::BenchError;
use crate::load::sent;

/// Handles one message and ends, since nobody holds it; it keeps what it is given of its creator.
struct Child<T> {
    count: u64,
    work: u32,
    collector: Collector,
    _creator: T,
}

impl<T> Child<T> {
    #[inline]
    fn handle(&mut self) {
        work(self.work);
        self.count += 1;
        self.collector.report(self.count);
    }
}

/// Makes children, in chunks.
struct Creator {
    left: u64,
    work: u32,
    collector: Collector,
    group: Group,
}

impl Creator {
    fn go_on<K: Load>(&mut self, cx: &mut Context<'_, Self>) {
        for _ in 0..CHUNK.min(self.left) {
            let (collector, creator) = (self.collector.clone(), K::of(0, || cx.task()));
            let child = Child { count: 0, work: self.work, collector, _creator: creator };
            let child = self.group.spawn(child).expect("the group runs");
            sent(child.submit(|child, _| child.handle()));
        }
        self.left = self.left.saturating_sub(CHUNK);
        if self.left > 0 {
            sent(cx.submit(Self::go_on::<K>));
        }
    }
}

/// Sends to actors in a given order, in chunks.
struct Scatterer {
    actors: Arc<[Task<Counter>]>,
    sequence: Vec<u32>,
    at: usize,
}

impl Scatterer {
    fn go_on(&mut self, cx: &mut Context<'_, Self>) {
        let end = self.sequence.len().min(self.at + CHUNK as usize);
        for target in &self.sequence[self.at..end] {
            sent(
                self.actors[*target as usize]
                    .submit(|counter, _| counter.increment::<Nothing>(&())),
            );
        }
        self.at = end;
        if end < self.sequence.len() {
            sent(cx.submit(Self::go_on));
        }
    }
}

impl Turnwheel {
    pub(super) fn create<K: Load>(&self, run: &Run) -> Result<Measured, BenchError> {
        let collector = Collector::new(run.messages);
        let creator = self.spawn(Creator {
            left: run.messages,
            work: run.work,
            collector: collector.clone(),
            group: self.group.clone(),
        });
        let start = |creator: &Task<Creator>| sent(creator.submit(Creator::go_on::<K>));
        self.time(run, collector, creator, start, |_| {})
    }

    pub(super) fn entities(&self, run: &Run, producers: u64) -> Result<Measured, BenchError> {
        let targets = Targets::draw(run.messages, producers);
        let collector = Collector::new(targets.receivers);
        let counter = |expected: &u64| self.spawn(Counter::new(*expected, run, &collector));
        let actors: Arc<[_]> = targets.expected.iter().map(counter).collect();
        let scatterer =
            |sequence| self.spawn(Scatterer { actors: Arc::clone(&actors), sequence, at: 0 });
        let producers: Vec<_> = targets.sequences.into_iter().map(scatterer).collect();
        let start = |(producers, _): &(Vec<Task<Scatterer>>, Arc<[Task<Counter>]>)| {
            producers.iter().for_each(|producer| sent(producer.submit(Scatterer::go_on)));
        };
        self.time(run, collector, (producers, actors), start, |_| {})
    }
}

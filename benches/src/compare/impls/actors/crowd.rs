//! Typed actors in crowds: made, and sent to at random.

use std::convert::Infallible;
use std::sync::Arc;

use turnwheel::actors::{Actor, Address, Context, Handler, System};

use super::{sent, takes, Actors, Counter, GoOn, Increment};
use crate::compare::patterns::{Held, Load, Nothing, Targets};
use crate::compare::plan::{Run, CHUNK};
use crate::compare::trial::{work, Collector, Measured};
use crate::error::BenchError;

/// Handles one message and ends, since nobody holds it; it keeps what it is given of its creator.
struct Child<T> {
    count: u64,
    work: u32,
    collector: Collector,
    _creator: T,
}

struct Once();

impl<T: Held> Actor for Child<T> {
    type Error = Infallible;
}

impl<T: Held> Handler<Once> for Child<T> {
    type Reply = ();

    #[inline]
    fn handle(&mut self, Once(): Once, _: &mut Context<'_, Self>) {
        self.handle();
    }
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
    system: System,
}

takes! { Creator:
    GoOn<K>(_load: PhantomData<K>) => |me, cx| me.go_on::<K>(cx);
}

impl Creator {
    fn go_on<K: Load>(&mut self, cx: &mut Context<'_, Self>) {
        for _ in 0..CHUNK.min(self.left) {
            let (collector, creator) = (self.collector.clone(), K::of(0, || cx.myself()));
            let child = Child { count: 0, work: self.work, collector, _creator: creator };
            let child = self.system.spawn(child).expect("the group runs");
            sent(child.tell(Once()));
        }
        self.left = self.left.saturating_sub(CHUNK);
        if self.left > 0 {
            sent(cx.tell_self(GoOn::<K>::new()));
        }
    }
}

/// Sends to actors in a given order, in chunks.
struct Scatterer {
    actors: Arc<[Address<Counter>]>,
    sequence: Vec<u32>,
    at: usize,
}

takes! { Scatterer:
    GoOn(_load: PhantomData<Nothing>) => |me, cx| me.go_on(cx);
}

impl Scatterer {
    fn go_on(&mut self, cx: &mut Context<'_, Self>) {
        let end = self.sequence.len().min(self.at + CHUNK as usize);
        for target in &self.sequence[self.at..end] {
            sent(self.actors[*target as usize].tell(Increment::<Nothing>::new()));
        }
        self.at = end;
        if end < self.sequence.len() {
            sent(cx.tell_self(GoOn::<Nothing>::new()));
        }
    }
}

impl Actors {
    pub(super) fn create<K: Load>(&self, run: &Run) -> Result<Measured, BenchError> {
        let collector = Collector::new(run.messages);
        let creator = self.spawn(Creator {
            left: run.messages,
            work: run.work,
            collector: collector.clone(),
            system: self.system.clone(),
        });
        let start = |creator: &Address<Creator>| sent(creator.tell(GoOn::<K>::new()));
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
        let start = |(producers, _): &(Vec<Address<Scatterer>>, Arc<[Address<Counter>]>)| {
            producers.iter().for_each(|producer| sent(producer.tell(GoOn::<Nothing>::new())));
        };
        self.time(run, collector, (producers, actors), start, |_| {})
    }
}

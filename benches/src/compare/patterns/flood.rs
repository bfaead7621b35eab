//! One producer floods one actor or sixty: `count`, `count_mid`, `count_bounded`, `fjthru`.

use std::marker::PhantomData;

use super::load::{Load, Nothing};
use crate::compare::peer::{Here, Link, Next, Offered, Peer, Role};
use crate::compare::plan::{Run, BOUND, CHUNK};
use crate::compare::trial::{work, Collector, Measured, Trial};
use crate::error::BenchError;

/// The number of the producer in what its messages carry.
pub(crate) const PRODUCER: u32 = 7;

/// Counts what it is sent and reports when it has all it expects.
pub(crate) struct Counter<K: Load = Nothing> {
    count: u64,
    expected: u64,
    work: u32,
    collector: Collector,
    load: PhantomData<K>,
}

/// What a counter is sent.
pub(crate) enum Count<K: Load = Nothing> {
    Increment(K::Of<()>),
    Finish,
}

impl<K: Load> Count<K> {
    #[inline]
    pub(crate) fn increment() -> Self {
        Self::Increment(K::of(PRODUCER, || ()))
    }
}

impl<P: Peer, K: Load> Role<P> for Counter<K> {
    type Message = Count<K>;

    #[inline]
    fn handle(&mut self, message: Count<K>, _: &mut impl Here<P, Self>) -> Next {
        let Count::Increment(load) = message else {
            return Next::Stop;
        };
        work(self.work);
        // A damaged message is not counted, so that the sum is wrong.
        self.count += u64::from(K::is_from::<()>(&load, PRODUCER));
        if self.count == self.expected {
            self.collector.report(self.count);
        }
        Next::Go
    }
}

impl<K: Load> Counter<K> {
    pub(crate) fn new(expected: u64, run: &Run, collector: &Collector) -> Self {
        let collector = collector.clone();
        Self { count: 0, expected, work: run.work, collector, load: PhantomData }
    }
}

/// What a producer is sent.
pub(crate) enum Produce {
    GoOn,
    Finish,
}

/// Floods its targets in turn, in chunks.
struct Producer<P: Peer, K: Load> {
    targets: Vec<P::Link<Counter<K>>>,
    at: usize,
    left: u64,
}

impl<P: Peer, K: Load> Role<P> for Producer<P, K> {
    type Message = Produce;

    fn handle(&mut self, message: Produce, here: &mut impl Here<P, Self>) -> Next {
        let Produce::GoOn = message else {
            return Next::Stop;
        };
        for _ in 0..CHUNK.min(self.left) {
            self.targets[self.at].tell(Count::increment());
            self.at = if self.at + 1 == self.targets.len() { 0 } else { self.at + 1 };
        }
        self.left = self.left.saturating_sub(CHUNK);
        if self.left > 0 {
            here.tell_self(Produce::GoOn);
        }
        Next::Go
    }
}

/// `count` with one actor, `fjthru` with sixty.
pub(super) fn count<P: Peer, K: Load>(
    peer: &P,
    run: &Run,
    actors: u64,
    what: &str,
) -> Result<Measured, BenchError> {
    let collector = Collector::new(actors);
    let expected = run.messages / actors;
    let counter = || Counter::<K>::new(expected, run, &collector);
    let targets: Vec<_> = (0..actors).map(|_| peer.spawn(counter())).collect();
    let producer =
        peer.spawn(Producer::<P, K> { targets: targets.clone(), at: 0, left: run.messages });
    let trial = Trial::begin(peer.wakes());
    producer.tell(Produce::GoOn);
    let measured = trial.end(what, run, &collector, || peer.wakes())?;
    producer.tell(Produce::Finish);
    targets.iter().for_each(|target| target.tell(Count::Finish));
    drop((producer, targets));
    collector.settle(what, run)?;
    Ok(measured)
}

/// Floods one bounded target in chunks; when it is full, goes on later.
struct Offerer<P: Peer> {
    target: P::Link<Counter>,
    left: u64,
}

impl<P: Peer> Role<P> for Offerer<P> {
    type Message = Produce;

    fn handle(&mut self, message: Produce, here: &mut impl Here<P, Self>) -> Next {
        let Produce::GoOn = message else {
            return Next::Stop;
        };
        for _ in 0..CHUNK.min(self.left) {
            if self.target.offer(Count::increment()) == Offered::Full {
                break;
            }
            self.left -= 1;
        }
        if self.left > 0 {
            here.tell_self(Produce::GoOn);
        }
        Next::Go
    }
}

/// `count_bounded`, for peers whose bounded send answers «full».
pub(super) fn count_bounded<P: Peer>(
    peer: &P,
    run: &Run,
    what: &str,
) -> Result<Option<Measured>, BenchError> {
    let collector = Collector::new(1);
    let counter = Counter::new(run.messages, run, &collector);
    let Some(target) = peer.spawn_bounded(counter, BOUND) else {
        return Ok(None);
    };
    let producer = peer.spawn(Offerer::<P> { target: target.clone(), left: run.messages });
    let trial = Trial::begin(peer.wakes());
    producer.tell(Produce::GoOn);
    let measured = trial.end(what, run, &collector, || peer.wakes())?;
    producer.tell(Produce::Finish);
    // There is room: it has handled all that it was sent.
    let _ = target.offer(Count::Finish);
    drop((producer, target));
    collector.settle(what, run)?;
    Ok(Some(measured))
}

//! 100,000 actors: made (`fjcreate`, `fjcreate_ref`), sent to at random (`entities`), weighed (`memory`).

use std::fs;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::flood::{Count, Counter, Produce};
use super::load::{Held, Load};
use crate::alloc;
use crate::compare::peer::{Here, Link, Next, Peer, Role};
use crate::compare::plan::{Run, CHUNK, MANY_ACTORS};
use crate::compare::trial::{work, Collector, Measured, Random, Trial};
use crate::error::BenchError;

/// Handles one message and ends; it keeps what it is given of its creator.
struct Child<T> {
    count: u64,
    work: u32,
    collector: Collector,
    _creator: T,
}

/// Its message.
struct Once;

impl<P: Peer, T: Held> Role<P> for Child<T> {
    type Message = Once;

    #[inline]
    fn handle(&mut self, Once: Once, _: &mut impl Here<P, Self>) -> Next {
        work(self.work);
        self.count += 1;
        self.collector.report(self.count);
        Next::Stop
    }
}

/// Makes children, in chunks.
struct Creator<K: Load> {
    left: u64,
    work: u32,
    collector: Collector,
    load: PhantomData<K>,
}

impl<P: Peer, K: Load> Role<P> for Creator<K> {
    type Message = Produce;

    fn handle(&mut self, message: Produce, here: &mut impl Here<P, Self>) -> Next {
        let Produce::GoOn = message else {
            return Next::Stop;
        };
        let me = here.me();
        for _ in 0..CHUNK.min(self.left) {
            let collector = self.collector.clone();
            let creator = K::of(0, || me.clone());
            let child = Child { count: 0, work: self.work, collector, _creator: creator };
            here.peer().spawn(child).tell(Once);
        }
        self.left = self.left.saturating_sub(CHUNK);
        if self.left > 0 {
            here.tell_self(Produce::GoOn);
        }
        Next::Go
    }
}

pub(super) fn create<P: Peer, K: Load>(
    peer: &P,
    run: &Run,
    what: &str,
) -> Result<Measured, BenchError> {
    let collector = Collector::new(run.messages);
    let creator = peer.spawn(Creator::<K> {
        left: run.messages,
        work: run.work,
        collector: collector.clone(),
        load: PhantomData,
    });
    let trial = Trial::begin(peer.wakes());
    creator.tell(Produce::GoOn);
    let measured = trial.end(what, run, &collector, || peer.wakes())?;
    creator.tell(Produce::Finish);
    drop(creator);
    collector.settle(what, run)?;
    Ok(measured)
}

/// Who gets the messages of one run, drawn before the clock starts.
pub(crate) struct Targets {
    /// What each producer sends, in order.
    pub(crate) sequences: Vec<Vec<u32>>,
    /// What each actor gets.
    pub(crate) expected: Vec<u64>,
    /// Actors that get anything.
    pub(crate) receivers: u64,
}

impl Targets {
    pub(crate) fn draw(messages: u64, producers: u64) -> Self {
        let mut random = Random::new(messages);
        let mut expected = vec![0; MANY_ACTORS as usize];
        let sequences = (0..producers)
            .map(|_| {
                let draw = |_| {
                    let at = random.below(MANY_ACTORS);
                    expected[at as usize] += 1;
                    at as u32
                };
                (0..messages / producers).map(draw).collect()
            })
            .collect();
        let receivers = expected.iter().filter(|count| **count > 0).count() as u64;
        Self { sequences, expected, receivers }
    }
}

/// Sends to actors in a given order, in chunks.
struct Scatterer<P: Peer> {
    actors: Arc<[P::Link<Counter>]>,
    sequence: Vec<u32>,
    at: usize,
}

impl<P: Peer> Role<P> for Scatterer<P> {
    type Message = Produce;

    fn handle(&mut self, message: Produce, here: &mut impl Here<P, Self>) -> Next {
        let Produce::GoOn = message else {
            return Next::Stop;
        };
        let end = self.sequence.len().min(self.at + CHUNK as usize);
        for target in &self.sequence[self.at..end] {
            self.actors[*target as usize].tell(Count::increment());
        }
        self.at = end;
        if end < self.sequence.len() {
            here.tell_self(Produce::GoOn);
        }
        Next::Go
    }
}

pub(super) fn entities<P: Peer>(
    peer: &P,
    run: &Run,
    producers: u64,
    what: &str,
) -> Result<Measured, BenchError> {
    let targets = Targets::draw(run.messages, producers);
    let collector = Collector::new(targets.receivers);
    let actors: Arc<[_]> = targets
        .expected
        .iter()
        .map(|expected| peer.spawn(Counter::new(*expected, run, &collector)))
        .collect();
    let producers: Vec<_> = targets
        .sequences
        .into_iter()
        .map(|sequence| peer.spawn(Scatterer::<P> { actors: Arc::clone(&actors), sequence, at: 0 }))
        .collect();
    let trial = Trial::begin(peer.wakes());
    producers.iter().for_each(|producer| producer.tell(Produce::GoOn));
    let measured = trial.end(what, run, &collector, || peer.wakes())?;
    producers.iter().for_each(|producer| producer.tell(Produce::Finish));
    actors.iter().for_each(|actor| actor.tell(Count::Finish));
    drop((producers, actors));
    collector.settle(what, run)?;
    Ok(measured)
}

/// Actors that have handled their message in `memory`. Not a count in their state: an actor is to
/// weigh what an actor weighs.
static WEIGHED: AtomicU64 = AtomicU64::new(0);

/// A state of one counter.
struct Idle {
    count: u64,
}

impl<P: Peer> Role<P> for Idle {
    type Message = Count;

    fn handle(&mut self, message: Count, _: &mut impl Here<P, Self>) -> Next {
        let Count::Increment(()) = message else {
            return Next::Stop;
        };
        self.count += 1;
        WEIGHED.fetch_add(self.count, Ordering::Release);
        Next::Go
    }
}

pub(super) fn memory<P: Peer>(peer: &P, actors: u64) -> Result<f64, BenchError> {
    let what = format!("memory on {}", peer.id());
    let mut addresses = Vec::with_capacity(actors as usize);
    let weigher = Weigher::begin();
    for made in 1..=actors {
        let address = peer.spawn(Idle { count: 0 });
        address.tell(Count::increment());
        addresses.push(address);
        weigher.pace(&what, made)?;
    }
    let bytes = weigher.end(&what, actors, std::mem::size_of::<P::Link<Idle>>())?;
    addresses.iter().for_each(|address| address.tell(Count::Finish));
    Ok(bytes)
}

/// Weighs what has been made since it began.
#[derive(Debug)]
pub(crate) struct Weigher {
    before: f64,
}

impl Weigher {
    /// Takes the weight before.
    pub(crate) fn begin() -> Self {
        WEIGHED.store(0, Ordering::Release);
        Self { before: anonymous_bytes() }
    }

    /// An actor has handled its message.
    pub(crate) fn handled(count: u64) {
        WEIGHED.fetch_add(count, Ordering::Release);
    }

    /// After each thousand actors, waits until they have handled their messages: what is weighed
    /// are actors, and not messages that were under way all at once.
    pub(crate) fn pace(&self, what: &str, made: u64) -> Result<(), BenchError> {
        if made.is_multiple_of(CHUNK) {
            Self::wait(what, made)?;
        }
        Ok(())
    }

    fn wait(what: &str, actors: u64) -> Result<(), BenchError> {
        const LIMIT: Duration = Duration::from_secs(120);
        let begin = Instant::now();
        while WEIGHED.load(Ordering::Acquire) < actors {
            if begin.elapsed() > LIMIT {
                return Err(BenchError::Unfinished {
                    what: what.to_owned(),
                    seconds: LIMIT.as_secs(),
                    left: actors - WEIGHED.load(Ordering::Acquire),
                });
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }

    /// Waits until all actors have handled theirs, lets them settle, and takes the weight of one,
    /// without the address of it that the caller holds.
    pub(crate) fn end(self, what: &str, actors: u64, address: usize) -> Result<f64, BenchError> {
        Self::wait(what, actors)?;
        // The last turns end after their messages were handled.
        std::thread::sleep(Duration::from_millis(100));
        Ok((anonymous_bytes() - self.before) / actors as f64 - address as f64)
    }
}

/// Anonymous memory of the process as the system sees it, allocator's share included; where the
/// system does not say, the bytes that live.
pub(crate) fn anonymous_bytes() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kibibytes = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<f64>().ok());
    kibibytes.map_or_else(|| alloc::live_bytes() as f64, |kibibytes| kibibytes * 1024.0)
}

//! Turnwheel: a task for each actor, a closure for each message, through the public API and with
//! metrics on, as they always are.

mod big;
mod crowd;
mod ring;

use turnwheel_runtime::{Context, Group, Mailbox, SubmitErrorKind, Task};

use crate::compare::patterns::{Load, Nothing, Number, Sender, Weigher, Words, PRODUCER};
use crate::compare::peer::Contender;
use crate::compare::plan::{
    Impl, Run, Shape, ASKERS, BOUND, CALL_DEPTH, CHUNK, FJTHRU_ACTORS, RING_ACTORS,
};
use crate::compare::trial::{work, Collector, Measured, Trial};
use crate::error::BenchError;
use crate::load::sent;

/// A running group.
pub(crate) struct Turnwheel {
    pub(super) group: Group,
}

impl Turnwheel {
    /// Starts the group.
    pub(crate) fn start(workers: usize) -> Result<Self, BenchError> {
        let group = Group::builder("compare").workers(workers).build();
        let group = group.map_err(|error| BenchError::Start {
            what: Impl::Turnwheel.to_string(),
            why: error.to_string(),
        })?;
        Ok(Self { group })
    }

    pub(super) fn wakes(&self) -> Option<u64> {
        Some(self.group.metrics().workers.iter().map(|worker| worker.wakes).sum())
    }

    pub(super) fn spawn<S: Send + 'static>(&self, state: S) -> Task<S> {
        spawn(&self.group, state, Mailbox::unbounded())
    }

    /// Times from `start` to the last report, then lets everybody `finish` and go.
    pub(super) fn time<T>(
        &self,
        run: &Run,
        collector: Collector,
        actors: T,
        start: impl FnOnce(&T),
        finish: impl FnOnce(&T),
    ) -> Result<Measured, BenchError> {
        let what = run.what(Impl::Turnwheel);
        let trial = Trial::begin(self.wakes());
        start(&actors);
        let measured = trial.end(&what, run, &collector, || self.wakes())?;
        finish(&actors);
        drop(actors);
        collector.settle(&what, run)?;
        Ok(measured)
    }
}

impl Drop for Turnwheel {
    fn drop(&mut self) {
        // The process ends soon; what is left over has been counted as missing before.
        let _ = self.group.shutdown();
    }
}

impl Contender for Turnwheel {
    fn id(&self) -> Impl {
        Impl::Turnwheel
    }

    fn run(&mut self, run: &Run) -> Result<Option<Measured>, BenchError> {
        match run.shape {
            Shape::Count => self.flood::<Nothing>(run, 1),
            Shape::CountMid => self.flood::<Words>(run, 1),
            Shape::CountBounded => self.count_bounded(run),
            Shape::PingPong => self.ring::<Nothing>(run, 2),
            Shape::PingPongRef => self.ring::<Sender>(run, 2),
            Shape::Ring => self.ring::<Nothing>(run, RING_ACTORS),
            Shape::RingRef => self.ring::<Sender>(run, RING_ACTORS),
            Shape::FjCreate => self.create::<Nothing>(run),
            Shape::FjCreateRef => self.create::<Sender>(run),
            Shape::FjThru => self.flood::<Nothing>(run, FJTHRU_ACTORS),
            Shape::Big => self.big::<Number>(run),
            Shape::BigRef => self.big::<Sender>(run),
            Shape::BigMid => self.big::<Words>(run),
            Shape::Entities => self.entities(run, 1),
            Shape::EntitiesTwo => self.entities(run, 2),
            Shape::AskLone => self.ask(run, 1, 1),
            Shape::AskCrowd => self.ask(run, ASKERS, 1),
            Shape::AskChain => self.ask(run, 1, CALL_DEPTH),
            Shape::Pipe => self.pipe(run),
            Shape::Service => self.service(run),
            Shape::Memory => return Ok(None),
        }
        .map(Some)
    }

    fn memory(&mut self, actors: u64) -> Result<f64, BenchError> {
        const WHAT: &str = "memory on turnwheel";
        let mut tasks = Vec::with_capacity(actors as usize);
        let weigher = Weigher::begin();
        for made in 1..=actors {
            let task = self.spawn(0_u64);
            sent(task.submit(|count, _| {
                *count += 1;
                Weigher::handled(*count);
            }));
            tasks.push(task);
            weigher.pace(WHAT, made)?;
        }
        weigher.end(WHAT, actors, std::mem::size_of::<Task<u64>>())
    }
}

fn spawn<S: Send + 'static>(group: &Group, state: S, mailbox: Mailbox) -> Task<S> {
    group.task(state).mailbox(mailbox).spawn().expect("the group runs until the contender is gone")
}

/// Counts what it is sent and reports when it has all it expects.
struct Counter {
    count: u64,
    expected: u64,
    work: u32,
    collector: Collector,
}

impl Counter {
    fn new(expected: u64, run: &Run, collector: &Collector) -> Self {
        Self { count: 0, expected, work: run.work, collector: collector.clone() }
    }

    #[inline]
    fn increment<K: Load>(&mut self, load: &K::Of<()>) {
        work(self.work);
        // A damaged message is not counted, so that the sum is wrong.
        self.count += u64::from(K::is_from::<()>(load, PRODUCER));
        if self.count == self.expected {
            self.collector.report(self.count);
        }
    }
}

/// Floods its targets in turn, in chunks.
struct Producer {
    targets: Vec<Task<Counter>>,
    at: usize,
    left: u64,
}

impl Producer {
    fn go_on<K: Load>(&mut self, cx: &mut Context<'_, Self>) {
        for _ in 0..CHUNK.min(self.left) {
            let load = K::of(PRODUCER, || ());
            let increment = move |counter: &mut Counter, _: &mut Context<'_, Counter>| {
                counter.increment::<K>(&load);
            };
            sent(self.targets[self.at].submit(increment));
            self.at = if self.at + 1 == self.targets.len() { 0 } else { self.at + 1 };
        }
        self.left = self.left.saturating_sub(CHUNK);
        if self.left > 0 {
            sent(cx.submit(Self::go_on::<K>));
        }
    }
}

/// Floods one bounded target in chunks; when it is full, goes on later.
struct Offerer {
    target: Task<Counter>,
    left: u64,
}

impl Offerer {
    fn go_on(&mut self, cx: &mut Context<'_, Self>) {
        for _ in 0..CHUNK.min(self.left) {
            match self.target.submit(|counter, _| counter.increment::<Nothing>(&())) {
                Ok(()) => self.left -= 1,
                Err(error) if error.kind == SubmitErrorKind::Full => break,
                Err(error) => sent(Err(error)),
            }
        }
        if self.left > 0 {
            sent(cx.submit(Self::go_on));
        }
    }
}

impl Turnwheel {
    fn flood<K: Load>(&self, run: &Run, actors: u64) -> Result<Measured, BenchError> {
        let collector = Collector::new(actors);
        let expected = run.messages / actors;
        let counter = || self.spawn(Counter::new(expected, run, &collector));
        let targets = (0..actors).map(|_| counter()).collect();
        let producer = self.spawn(Producer { targets, at: 0, left: run.messages });
        let start = |producer: &Task<Producer>| sent(producer.submit(Producer::go_on::<K>));
        self.time(run, collector, producer, start, |_| {})
    }

    fn count_bounded(&self, run: &Run) -> Result<Measured, BenchError> {
        let collector = Collector::new(1);
        let counter = Counter::new(run.messages, run, &collector);
        let target = spawn(&self.group, counter, Mailbox::bounded(BOUND as u64));
        let producer = self.spawn(Offerer { target, left: run.messages });
        let start = |producer: &Task<Offerer>| sent(producer.submit(Offerer::go_on));
        self.time(run, collector, producer, start, |_| {})
    }
}

//! Typed actors of Turnwheel: a type and a `Handler` for each message, through `Address::tell`, with
//! metrics on, as they always are.

mod big;
mod crowd;
mod ring;

use std::marker::PhantomData;

use turnwheel::actors::{Actor, Address, Context, Handler, System, TellError};
use turnwheel_runtime::{Group, Mailbox, SubmitErrorKind};

use crate::compare::patterns::{Load, Nothing, Number, Sender, Weigher, Words, PRODUCER};
use crate::compare::peer::Contender;
use crate::compare::plan::{
    Impl, Run, Shape, ASKERS, BOUND, CALL_DEPTH, CHUNK, FJTHRU_ACTORS, RING_ACTORS,
};
use crate::compare::trial::{work, Collector, Measured, Trial};
use crate::error::BenchError;
use crate::load::refused;

/// A group with a system of actors.
pub(crate) struct Actors {
    pub(super) group: Group,
    pub(super) system: System,
}

impl Actors {
    /// Starts the group.
    pub(crate) fn start(workers: usize) -> Result<Self, BenchError> {
        let group = Group::builder("compare").workers(workers).build();
        let group = group.map_err(|error| BenchError::Start {
            what: Impl::TurnwheelActors.to_string(),
            why: error.to_string(),
        })?;
        let system = System::new(&group);
        Ok(Self { group, system })
    }

    pub(super) fn wakes(&self) -> Option<u64> {
        Some(self.group.metrics().workers.iter().map(|worker| worker.wakes).sum())
    }

    pub(super) fn spawn<A: Actor>(&self, actor: A) -> Address<A> {
        spawn(&self.system, actor, Mailbox::unbounded())
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
        let what = run.what(Impl::TurnwheelActors);
        let trial = Trial::begin(self.wakes());
        start(&actors);
        let measured = trial.end(&what, run, &collector, || self.wakes())?;
        finish(&actors);
        drop(actors);
        collector.settle(&what, run)?;
        Ok(measured)
    }
}

impl Drop for Actors {
    fn drop(&mut self) {
        // The process ends soon; what is left over has been counted as missing before.
        let _ = self.group.shutdown();
    }
}

impl Contender for Actors {
    fn id(&self) -> Impl {
        Impl::TurnwheelActors
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
        const WHAT: &str = "memory on turnwheel-actors";
        let mut held = Vec::with_capacity(actors as usize);
        let weigher = Weigher::begin();
        for made in 1..=actors {
            held.push(self.spawn(Weighed(0)));
            sent(held[made as usize - 1].tell(Weigh()));
            weigher.pace(WHAT, made)?;
        }
        weigher.end(WHAT, actors, std::mem::size_of::<Address<Weighed>>())
    }
}

fn spawn<A: Actor>(system: &System, actor: A, mailbox: Mailbox) -> Address<A> {
    system.actor(actor).mailbox(mailbox).spawn().expect("the group runs while the contender does")
}

/// A message that is refused would make the run wait for ever.
#[inline]
pub(super) fn sent<M>(told: Result<(), TellError<M>>) {
    if let Err(error) = told {
        refused(&error);
    }
}

/// Actors without hooks, and their messages: a type, what it carries if it has several forms, its
/// fields, what it does.
macro_rules! takes {
    ($actor:ident: $($message:ident$(<$load:ident>)?($($field:ident: $type:ty),*) => |$me:ident, $cx:ident| $body:expr;)*) => {
        impl Actor for $actor {
            type Error = std::convert::Infallible;
        }
        $(
            impl$(<$load: Load>)? Handler<$message$(<$load>)?> for $actor {
                type Reply = ();

                #[inline]
                fn handle(&mut self, message: $message$(<$load>)?, $cx: &mut Context<'_, Self>) {
                    let $message($($field),*) = message;
                    let $me = self;
                    $body
                }
            }
        )*
    };
}

use takes;

/// Work on, in chunks, with messages that carry this.
struct GoOn<K = Nothing>(PhantomData<K>);

impl<K> GoOn<K> {
    fn new() -> Self {
        Self(PhantomData)
    }
}

/// Tell the share and let go of the others.
struct Finish();

struct Weighed(u64);
struct Weigh();

takes! { Weighed:
    Weigh() => |me, _cx| {
        me.0 += 1;
        Weigher::handled(me.0);
    };
}

struct Increment<K: Load>(K::Of<()>);

impl<K: Load> Increment<K> {
    #[inline]
    fn new() -> Self {
        Self(K::of(PRODUCER, || ()))
    }
}

takes! { Counter:
    Increment<K>(load: K::Of<()>) => |me, _cx| me.increment::<K>(&load);
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
    targets: Vec<Address<Counter>>,
    at: usize,
    left: u64,
}

takes! { Producer:
    GoOn<K>(_load: PhantomData<K>) => |me, cx| me.go_on::<K>(cx);
}

impl Producer {
    fn go_on<K: Load>(&mut self, cx: &mut Context<'_, Self>) {
        for _ in 0..CHUNK.min(self.left) {
            sent(self.targets[self.at].tell(Increment::<K>::new()));
            self.at = if self.at + 1 == self.targets.len() { 0 } else { self.at + 1 };
        }
        self.left = self.left.saturating_sub(CHUNK);
        if self.left > 0 {
            sent(cx.tell_self(GoOn::<K>::new()));
        }
    }
}

/// Floods one bounded target in chunks; when it is full, goes on later.
struct Offerer {
    target: Address<Counter>,
    left: u64,
}

takes! { Offerer:
    GoOn(_load: PhantomData<Nothing>) => |me, cx| me.go_on(cx);
}

impl Offerer {
    fn go_on(&mut self, cx: &mut Context<'_, Self>) {
        for _ in 0..CHUNK.min(self.left) {
            match self.target.tell(Increment::<Nothing>::new()) {
                Ok(()) => self.left -= 1,
                Err(error) if error.kind == SubmitErrorKind::Full => break,
                Err(error) => sent(Err(error)),
            }
        }
        if self.left > 0 {
            sent(cx.tell_self(GoOn::<Nothing>::new()));
        }
    }
}

impl Actors {
    fn flood<K: Load>(&self, run: &Run, actors: u64) -> Result<Measured, BenchError> {
        let collector = Collector::new(actors);
        let expected = run.messages / actors;
        let counter = || self.spawn(Counter::new(expected, run, &collector));
        let targets = (0..actors).map(|_| counter()).collect();
        let producer = self.spawn(Producer { targets, at: 0, left: run.messages });
        let start = |producer: &Address<Producer>| sent(producer.tell(GoOn::<K>::new()));
        self.time(run, collector, producer, start, |_| {})
    }

    fn count_bounded(&self, run: &Run) -> Result<Measured, BenchError> {
        let collector = Collector::new(1);
        let counter = Counter::new(run.messages, run, &collector);
        let target = spawn(&self.system, counter, Mailbox::bounded(BOUND as u64));
        let producer = self.spawn(Offerer { target, left: run.messages });
        let start = |producer: &Address<Offerer>| sent(producer.tell(GoOn::<Nothing>::new()));
        self.time(run, collector, producer, start, |_| {})
    }
}

//! Typed actors of Turnwheel: a type and a `Handler` for each message, through `Address::tell`, with
//! metrics on, as they always are.

use std::sync::Arc;

use turnwheel::actors::{Actor, Address, Context, Handler, System, TellError};
use turnwheel_runtime::{Group, Mailbox, SubmitErrorKind};

use crate::compare::patterns::{Targets, Weigher};
use crate::compare::peer::Contender;
use crate::compare::plan::{
    Impl, Run, Shape, ASKERS, BIG_ACTORS, BOUND, CALL_DEPTH, CHUNK, FJTHRU_ACTORS, RING_ACTORS,
};
use crate::compare::trial::{work, Collector, Measured, Random, Trial};
use crate::error::BenchError;
use crate::load::refused;

/// A group with a system of actors.
pub(crate) struct Actors {
    group: Group,
    system: System,
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

    fn wakes(&self) -> Option<u64> {
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
            Shape::Count => self.flood(run, 1),
            Shape::CountBounded => self.count_bounded(run),
            Shape::PingPong => self.ring(run, 2),
            Shape::Ring => self.ring(run, RING_ACTORS),
            Shape::FjCreate => self.create(run),
            Shape::FjThru => self.flood(run, FJTHRU_ACTORS),
            Shape::Big => self.big(run),
            Shape::Entities => self.entities(run, 1),
            Shape::EntitiesTwo => self.entities(run, 2),
            Shape::AskLone => self.ask(run, 1, 1),
            Shape::AskCrowd => self.ask(run, ASKERS, 1),
            Shape::AskChain => self.ask(run, 1, CALL_DEPTH),
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

/// Actors without hooks, and their messages: a type, its fields, what it does.
macro_rules! takes {
    ($actor:ident: $($message:ident($($field:ident: $type:ty),*) => |$me:ident, $cx:ident| $body:expr;)*) => {
        impl Actor for $actor {
            type Error = std::convert::Infallible;
        }
        $(
            impl Handler<$message> for $actor {
                type Reply = ();

                #[inline]
                fn handle(&mut self, message: $message, $cx: &mut Context<'_, Self>) {
                    let $message($($field),*) = message;
                    let $me = self;
                    $body
                }
            }
        )*
    };
}

/// Work on, in chunks.
struct GoOn();
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

struct Increment();

takes! { Counter:
    Increment() => |me, _cx| me.increment();
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
    fn increment(&mut self) {
        work(self.work);
        self.count += 1;
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
    GoOn() => |me, cx| me.go_on(cx);
}

impl Producer {
    fn go_on(&mut self, cx: &mut Context<'_, Self>) {
        for _ in 0..CHUNK.min(self.left) {
            sent(self.targets[self.at].tell(Increment()));
            self.at = if self.at + 1 == self.targets.len() { 0 } else { self.at + 1 };
        }
        self.left = self.left.saturating_sub(CHUNK);
        if self.left > 0 {
            sent(cx.tell_self(GoOn()));
        }
    }
}

/// Floods one bounded target in chunks; when it is full, goes on later.
struct Offerer {
    target: Address<Counter>,
    left: u64,
}

takes! { Offerer:
    GoOn() => |me, cx| me.go_on(cx);
}

impl Offerer {
    fn go_on(&mut self, cx: &mut Context<'_, Self>) {
        for _ in 0..CHUNK.min(self.left) {
            match self.target.tell(Increment()) {
                Ok(()) => self.left -= 1,
                Err(error) if error.kind == SubmitErrorKind::Full => break,
                Err(error) => sent(Err(error)),
            }
        }
        if self.left > 0 {
            sent(cx.tell_self(GoOn()));
        }
    }
}

impl Actors {
    fn flood(&self, run: &Run, actors: u64) -> Result<Measured, BenchError> {
        let collector = Collector::new(actors);
        let expected = run.messages / actors;
        let counter = || self.spawn(Counter::new(expected, run, &collector));
        let targets = (0..actors).map(|_| counter()).collect();
        let producer = self.spawn(Producer { targets, at: 0, left: run.messages });
        let start = |producer: &Address<Producer>| sent(producer.tell(GoOn()));
        self.time(run, collector, producer, start, |_| {})
    }

    fn count_bounded(&self, run: &Run) -> Result<Measured, BenchError> {
        let collector = Collector::new(1);
        let counter = Counter::new(run.messages, run, &collector);
        let target = spawn(&self.system, counter, Mailbox::bounded(BOUND as u64));
        let producer = self.spawn(Offerer { target, left: run.messages });
        let start = |producer: &Address<Offerer>| sent(producer.tell(GoOn()));
        self.time(run, collector, producer, start, |_| {})
    }
}

/// One station of a ring; two of them play ping-pong.
struct Station {
    next: Option<Address<Station>>,
    count: u64,
    work: u32,
    collector: Collector,
}

struct Join(Address<Station>);
struct Token(u64);

takes! { Station:
    Join(next: Address<Station>) => |me, _cx| me.next = Some(next);
    Token(left: u64) => |me, _cx| me.token(left);
    Finish() => |me, _cx| me.finish();
}

impl Station {
    #[inline]
    fn token(&mut self, left: u64) {
        work(self.work);
        self.count += 1;
        match &self.next {
            Some(next) if left > 0 => sent(next.tell(Token(left - 1))),
            _ => self.collector.report(0),
        }
    }

    /// Tells its share and lets go of its neighbour: a ring of handles would keep itself alive.
    fn finish(&mut self) {
        self.collector.add(self.count);
        self.next = None;
    }
}

impl Actors {
    fn ring(&self, run: &Run, actors: u64) -> Result<Measured, BenchError> {
        let collector = Collector::new(1);
        let station =
            || Station { next: None, count: 0, work: run.work, collector: collector.clone() };
        let stations: Vec<_> = (0..actors).map(|_| self.spawn(station())).collect();
        for (at, station) in stations.iter().enumerate() {
            let next = stations[(at + 1) % stations.len()].clone();
            sent(station.tell(Join(next)));
        }
        let last = run.messages - 1;
        let start = |all: &Vec<Address<Station>>| sent(all[0].tell(Token(last)));
        let finish = |all: &Vec<Address<Station>>| {
            all.iter().for_each(|one| sent(one.tell(Finish())));
        };
        self.time(run, collector, stations, start, finish)
    }
}

/// One of a crowd that pings at random.
struct Pinger {
    me: u32,
    peers: Option<Arc<[Address<Pinger>]>>,
    random: Random,
    pinged: u32,
    pings_left: u64,
    handled: u64,
    work: u32,
    collector: Collector,
}

struct Meet(Arc<[Address<Pinger>]>);
struct Start();
struct Ping(u32);
struct Pong(u32);

takes! { Pinger:
    Meet(peers: Arc<[Address<Pinger>]>) => |me, _cx| me.peers = Some(peers);
    Start() => |me, _cx| me.ping();
    Ping(from: u32) => |me, _cx| me.answer(from);
    Pong(from: u32) => |me, _cx| me.answered(from);
    Finish() => |me, _cx| me.finish();
}

impl Pinger {
    #[inline]
    fn peer(&self, at: u32) -> Option<&Address<Self>> {
        self.peers.as_ref().map(|peers| &peers[at as usize])
    }

    fn ping(&mut self) {
        if self.pings_left == 0 {
            self.collector.report(0);
            return;
        }
        self.pings_left -= 1;
        // Anybody but itself.
        let to = self.random.below(BIG_ACTORS - 1) as u32;
        self.pinged = if to >= self.me { to + 1 } else { to };
        let me = self.me;
        if let Some(peer) = self.peer(self.pinged) {
            sent(peer.tell(Ping(me)));
        }
    }

    fn answer(&mut self, from: u32) {
        work(self.work);
        self.handled += 1;
        let me = self.me;
        if let Some(peer) = self.peer(from) {
            sent(peer.tell(Pong(me)));
        }
    }

    fn answered(&mut self, from: u32) {
        work(self.work);
        // An answer from somebody else is not counted, so that the sum is wrong.
        self.handled += u64::from(from == self.pinged);
        self.ping();
    }

    fn finish(&mut self) {
        self.collector.add(self.handled);
        self.peers = None;
    }
}

impl Actors {
    fn big(&self, run: &Run) -> Result<Measured, BenchError> {
        let collector = Collector::new(BIG_ACTORS);
        let pinger = |me: u64| Pinger {
            me: me as u32,
            peers: None,
            random: Random::new(me + 1),
            pinged: 0,
            pings_left: run.messages / 2 / BIG_ACTORS,
            handled: 0,
            work: run.work,
            collector: collector.clone(),
        };
        let all: Arc<[_]> = (0..BIG_ACTORS).map(|me| self.spawn(pinger(me))).collect();
        all.iter().for_each(|one| sent(one.tell(Meet(Arc::clone(&all)))));
        let start = |all: &Arc<[Address<Pinger>]>| {
            all.iter().for_each(|one| sent(one.tell(Start())));
        };
        let finish = |all: &Arc<[Address<Pinger>]>| {
            all.iter().for_each(|one| sent(one.tell(Finish())));
        };
        self.time(run, collector, all, start, finish)
    }
}

/// Handles one message and ends, since nobody holds it.
struct Child {
    count: u64,
    work: u32,
    collector: Collector,
}

struct Once();

takes! { Child:
    Once() => |me, _cx| me.handle();
}

impl Child {
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
    GoOn() => |me, cx| me.go_on(cx);
}

impl Creator {
    fn go_on(&mut self, cx: &mut Context<'_, Self>) {
        for _ in 0..CHUNK.min(self.left) {
            let child = Child { count: 0, work: self.work, collector: self.collector.clone() };
            let child = self.system.spawn(child).expect("the group runs");
            sent(child.tell(Once()));
        }
        self.left = self.left.saturating_sub(CHUNK);
        if self.left > 0 {
            sent(cx.tell_self(GoOn()));
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
    GoOn() => |me, cx| me.go_on(cx);
}

impl Scatterer {
    fn go_on(&mut self, cx: &mut Context<'_, Self>) {
        let end = self.sequence.len().min(self.at + CHUNK as usize);
        for target in &self.sequence[self.at..end] {
            sent(self.actors[*target as usize].tell(Increment()));
        }
        self.at = end;
        if end < self.sequence.len() {
            sent(cx.tell_self(GoOn()));
        }
    }
}

impl Actors {
    fn create(&self, run: &Run) -> Result<Measured, BenchError> {
        let collector = Collector::new(run.messages);
        let creator = self.spawn(Creator {
            left: run.messages,
            work: run.work,
            collector: collector.clone(),
            system: self.system.clone(),
        });
        let start = |creator: &Address<Creator>| sent(creator.tell(GoOn()));
        self.time(run, collector, creator, start, |_| {})
    }

    fn entities(&self, run: &Run, producers: u64) -> Result<Measured, BenchError> {
        let targets = Targets::draw(run.messages, producers);
        let collector = Collector::new(targets.receivers);
        let counter = |expected: &u64| self.spawn(Counter::new(*expected, run, &collector));
        let actors: Arc<[_]> = targets.expected.iter().map(counter).collect();
        let scatterer =
            |sequence| self.spawn(Scatterer { actors: Arc::clone(&actors), sequence, at: 0 });
        let producers: Vec<_> = targets.sequences.into_iter().map(scatterer).collect();
        let start = |(producers, _): &(Vec<Address<Scatterer>>, Arc<[Address<Counter>]>)| {
            producers.iter().for_each(|producer| sent(producer.tell(GoOn())));
        };
        self.time(run, collector, (producers, actors), start, |_| {})
    }
}

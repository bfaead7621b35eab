//! Typed actors that ping each other at random and wait for the answer.

use std::marker::PhantomData;
use std::sync::Arc;

use turnwheel::actors::{Actor, Address, Context, Handler};

use super::{sent, takes, Actors, Finish};
use crate::compare::patterns::Load;
use crate::compare::plan::{Run, BIG_ACTORS};
use crate::compare::trial::{work, Collector, Measured, Random};
use crate::error::BenchError;

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
struct Start<K>(PhantomData<K>);
struct Ping<K: Load>(K::Of<Address<Pinger>>);
struct Pong<K: Load>(K::Of<Address<Pinger>>);

takes! { Pinger:
    Meet(peers: Arc<[Address<Pinger>]>) => |me, _cx| me.peers = Some(peers);
    Start<K>(_load: PhantomData<K>) => |me, cx| me.ping::<K>(cx);
    Ping<K>(from: K::Of<Address<Pinger>>) => |me, cx| me.answer::<K>(&from, cx);
    Pong<K>(from: K::Of<Address<Pinger>>) => |me, cx| me.answered::<K>(&from, cx);
    Finish() => |me, _cx| me.finish();
}

impl Pinger {
    #[inline]
    fn peer(&self, at: u32) -> Option<&Address<Self>> {
        self.peers.as_ref().map(|peers| &peers[at as usize])
    }

    fn ping<K: Load>(&mut self, cx: &mut Context<'_, Self>) {
        if self.pings_left == 0 {
            self.collector.report(0);
            return;
        }
        self.pings_left -= 1;
        // Anybody but itself.
        let to = self.random.below(BIG_ACTORS - 1) as u32;
        self.pinged = if to >= self.me { to + 1 } else { to };
        if let Some(peer) = self.peer(self.pinged) {
            sent(peer.tell(Ping::<K>(K::of(self.me, || cx.myself()))));
        }
    }

    /// Answers to the address in the message, or to the actor with the number in it.
    fn answer<K: Load>(&mut self, from: &K::Of<Address<Self>>, cx: &mut Context<'_, Self>) {
        work(self.work);
        self.handled += 1;
        let number = K::number::<Address<Self>>(from);
        let sender = K::sender(from).or_else(|| self.peer(number?));
        if let Some(sender) = sender {
            sent(sender.tell(Pong::<K>(K::of(self.me, || cx.myself()))));
        }
    }

    fn answered<K: Load>(&mut self, from: &K::Of<Address<Self>>, cx: &mut Context<'_, Self>) {
        work(self.work);
        // An answer from somebody else is not counted, so that the sum is wrong.
        self.handled += u64::from(K::is_from::<Address<Self>>(from, self.pinged));
        self.ping::<K>(cx);
    }

    fn finish(&mut self) {
        self.collector.add(self.handled);
        self.peers = None;
    }
}

impl Actors {
    pub(super) fn big<K: Load>(&self, run: &Run) -> Result<Measured, BenchError> {
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
            all.iter().for_each(|one| sent(one.tell(Start::<K>(PhantomData))));
        };
        let finish = |all: &Arc<[Address<Pinger>]>| {
            all.iter().for_each(|one| sent(one.tell(Finish())));
        };
        self.time(run, collector, all, start, finish)
    }
}

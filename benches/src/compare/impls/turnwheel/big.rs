//! Tasks that ping each other at random and wait for the answer.

use std::sync::Arc;

use turnwheel_runtime::{Context, Task};

use super::Turnwheel;
use crate::compare::patterns::Load;
use crate::compare::plan::{Run, BIG_ACTORS};
use crate::compare::trial::{work, Collector, Measured, Random};
use crate::error::BenchError;
use crate::load::sent;

/// One of a crowd that pings at random.
struct Pinger {
    me: u32,
    peers: Option<Arc<[Task<Pinger>]>>,
    random: Random,
    pinged: u32,
    pings_left: u64,
    handled: u64,
    work: u32,
    collector: Collector,
}

impl Pinger {
    #[inline]
    fn peer(&self, at: u32) -> Option<&Task<Self>> {
        self.peers.as_ref().map(|peers| &peers[at as usize])
    }

    fn ping<K: Load>(&mut self, cx: &Context<'_, Self>) {
        if self.pings_left == 0 {
            self.collector.report(0);
            return;
        }
        self.pings_left -= 1;
        // Anybody but itself.
        let to = self.random.below(BIG_ACTORS - 1) as u32;
        self.pinged = if to >= self.me { to + 1 } else { to };
        let load = K::of(self.me, || cx.task());
        if let Some(peer) = self.peer(self.pinged) {
            sent(peer.submit(move |peer, cx| peer.answer::<K>(&load, cx)));
        }
    }

    /// Answers to the task in the message, or to the one with the number in it.
    fn answer<K: Load>(&mut self, from: &K::Of<Task<Self>>, cx: &Context<'_, Self>) {
        work(self.work);
        self.handled += 1;
        let number = K::number::<Task<Self>>(from);
        let sender = K::sender(from).or_else(|| self.peer(number?));
        let load = K::of(self.me, || cx.task());
        if let Some(sender) = sender {
            sent(sender.submit(move |sender, cx| sender.answered::<K>(&load, cx)));
        }
    }

    fn answered<K: Load>(&mut self, from: &K::Of<Task<Self>>, cx: &Context<'_, Self>) {
        work(self.work);
        // An answer from somebody else is not counted, so that the sum is wrong.
        self.handled += u64::from(K::is_from::<Task<Self>>(from, self.pinged));
        self.ping::<K>(cx);
    }

    fn finish(&mut self) {
        self.collector.add(self.handled);
        self.peers = None;
    }
}

impl Turnwheel {
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
        for one in all.iter() {
            let peers = Arc::clone(&all);
            sent(one.submit(move |one, _| one.peers = Some(peers)));
        }
        let start = |all: &Arc<[Task<Pinger>]>| {
            all.iter().for_each(|one| sent(one.submit(|one, cx| one.ping::<K>(cx))));
        };
        let finish = |all: &Arc<[Task<Pinger>]>| {
            all.iter().for_each(|one| sent(one.submit(|one, _| one.finish())));
        };
        self.time(run, collector, all, start, finish)
    }
}

//! 120 actors ping each other at random and wait for the answer: `big`.

use std::sync::Arc;

use crate::compare::peer::{Here, Link, Next, Peer, Role};
use crate::compare::plan::{Run, BIG_ACTORS};
use crate::compare::trial::{work, Collector, Measured, Random, Trial};
use crate::error::BenchError;

/// The addresses of all.
type Peers<P> = Arc<[<P as Peer>::Link<Pinger<P>>]>;

/// One of the crowd.
struct Pinger<P: Peer> {
    me: u32,
    peers: Option<Peers<P>>,
    random: Random,
    /// Whom it waits for.
    pinged: u32,
    pings_left: u64,
    handled: u64,
    work: u32,
    collector: Collector,
}

/// What it is sent.
enum Big<L> {
    Meet(Arc<[L]>),
    Start,
    Ping(u32),
    Pong(u32),
    Finish,
}

impl<P: Peer> Pinger<P> {
    fn tell(&self, to: u32, message: Big<P::Link<Self>>) {
        if let Some(peers) = &self.peers {
            peers[to as usize].tell(message);
        }
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
        self.tell(self.pinged, Big::Ping(self.me));
    }
}

impl<P: Peer> Role<P> for Pinger<P> {
    type Message = Big<P::Link<Self>>;

    #[inline]
    fn handle(&mut self, message: Self::Message, _: &mut impl Here<P, Self>) -> Next {
        match message {
            Big::Ping(from) => {
                work(self.work);
                self.handled += 1;
                self.tell(from, Big::Pong(self.me));
            }
            Big::Pong(from) => {
                work(self.work);
                // An answer from somebody else is not counted, so that the sum is wrong.
                self.handled += u64::from(from == self.pinged);
                self.ping();
            }
            Big::Start => self.ping(),
            Big::Meet(peers) => self.peers = Some(peers),
            Big::Finish => {
                self.collector.add(self.handled);
                return Next::Stop;
            }
        }
        Next::Go
    }
}

pub(super) fn big<P: Peer>(peer: &P, run: &Run, what: &str) -> Result<Measured, BenchError> {
    let collector = Collector::new(BIG_ACTORS);
    let pinger = |me: u64| Pinger::<P> {
        me: me as u32,
        peers: None,
        random: Random::new(me + 1),
        pinged: 0,
        pings_left: run.messages / 2 / BIG_ACTORS,
        handled: 0,
        work: run.work,
        collector: collector.clone(),
    };
    let all: Arc<[_]> = (0..BIG_ACTORS).map(|me| peer.spawn(pinger(me))).collect();
    all.iter().for_each(|one| one.tell(Big::Meet(Arc::clone(&all))));
    let trial = Trial::begin(peer.wakes());
    all.iter().for_each(|one| one.tell(Big::Start));
    let measured = trial.end(what, run, &collector, || peer.wakes())?;
    all.iter().for_each(|one| one.tell(Big::Finish));
    drop(all);
    collector.settle(what, run)?;
    Ok(measured)
}

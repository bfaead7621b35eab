//! 120 actors ping each other at random and wait for the answer: `big`; with the
//! sender's address in each message: `big_ref`; with 40 bytes: `big_mid`.

use std::sync::Arc;

use super::load::{Held, Load};
use crate::compare::peer::{Here, Link, Next, Peer, Role};
use crate::compare::plan::{Run, BIG_ACTORS};
use crate::compare::trial::{work, Collector, Measured, Random, Trial};
use crate::error::BenchError;

/// The addresses of all.
type Peers<P, K> = Arc<[<P as Peer>::Link<Pinger<P, K>>]>;

/// One of the crowd.
struct Pinger<P: Peer, K: Load> {
    me: u32,
    peers: Option<Peers<P, K>>,
    /// Its own address, once it has given that away.
    my_address: Option<P::Link<Self>>,
    random: Random,
    /// Whom it waits for.
    pinged: u32,
    pings_left: u64,
    handled: u64,
    work: u32,
    collector: Collector,
}

/// What it is sent.
enum Big<L: Held, K: Load> {
    Meet(Arc<[L]>),
    Start,
    Ping(K::Of<L>),
    Pong(K::Of<L>),
    Finish,
}

impl<P: Peer, K: Load> Pinger<P, K> {
    fn peer(&self, at: u32) -> Option<&P::Link<Self>> {
        self.peers.as_ref().map(|peers| &peers[at as usize])
    }

    fn load(&mut self, here: &impl Here<P, Self>) -> K::Of<P::Link<Self>> {
        K::of(self.me, || self.my_address.get_or_insert_with(|| here.me()).clone())
    }

    fn ping(&mut self, here: &impl Here<P, Self>) {
        if self.pings_left == 0 {
            self.collector.report(0);
            return;
        }
        self.pings_left -= 1;
        // Anybody but itself.
        let to = self.random.below(BIG_ACTORS - 1) as u32;
        self.pinged = if to >= self.me { to + 1 } else { to };
        let load = self.load(here);
        if let Some(peer) = self.peer(self.pinged) {
            peer.tell(Big::Ping(load));
        }
    }

    /// Answers to the address in the message, or to the actor with the number in it.
    fn pong(&mut self, from: &K::Of<P::Link<Self>>, here: &impl Here<P, Self>) {
        let load = self.load(here);
        let number = K::number::<P::Link<Self>>(from);
        let sender = K::sender(from).or_else(|| self.peer(number?));
        if let Some(sender) = sender {
            sender.tell(Big::Pong(load));
        }
    }
}

impl<P: Peer, K: Load> Role<P> for Pinger<P, K> {
    type Message = Big<P::Link<Self>, K>;

    #[inline]
    fn handle(&mut self, message: Self::Message, here: &mut impl Here<P, Self>) -> Next {
        match message {
            Big::Ping(from) => {
                work(self.work);
                self.handled += 1;
                self.pong(&from, here);
            }
            Big::Pong(from) => {
                work(self.work);
                // An answer from somebody else is not counted, so that the sum is wrong.
                let is_right = K::is_from::<P::Link<Self>>(&from, self.pinged);
                self.handled += u64::from(is_right);
                self.ping(here);
            }
            Big::Start => self.ping(here),
            Big::Meet(peers) => self.peers = Some(peers),
            Big::Finish => {
                self.collector.add(self.handled);
                return Next::Stop;
            }
        }
        Next::Go
    }
}

pub(super) fn big<P: Peer, K: Load>(
    peer: &P,
    run: &Run,
    what: &str,
) -> Result<Measured, BenchError> {
    let collector = Collector::new(BIG_ACTORS);
    let pinger = |me: u64| Pinger::<P, K> {
        me: me as u32,
        peers: None,
        my_address: None,
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

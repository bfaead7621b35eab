//! One message round a ring of 100, or to and fro between two: `ring`, `pingpong`; with the
//! sender's address in the message: `ring_ref`, `pingpong_ref`.

use super::load::{Held, Load};
use crate::compare::peer::{Here, Link, Next, Peer, Role};
use crate::compare::plan::Run;
use crate::compare::trial::{work, Collector, Measured, Trial};
use crate::error::BenchError;

/// One station of the ring.
struct Station<P: Peer, K: Load> {
    next: Option<P::Link<Station<P, K>>>,
    /// Its own address, once it has given that away.
    me: Option<P::Link<Station<P, K>>>,
    /// Of two: it answers to the address in the message, if there is one.
    is_pair: bool,
    count: u64,
    work: u32,
    collector: Collector,
}

/// What a station is sent.
enum Ring<L: Held, K: Load> {
    /// The station that follows.
    Join(L),
    /// The token, with the hops that are left after this one.
    Token(u64, K::Of<L>),
    /// Tell the share and end.
    Finish,
}

impl<P: Peer, K: Load> Role<P> for Station<P, K> {
    type Message = Ring<P::Link<Self>, K>;

    #[inline]
    fn handle(&mut self, message: Self::Message, here: &mut impl Here<P, Self>) -> Next {
        match message {
            Ring::Token(left, load) => {
                work(self.work);
                self.count += 1;
                let sender = K::sender(&load).filter(|_| self.is_pair);
                match sender.or(self.next.as_ref()) {
                    Some(next) if left > 0 => {
                        let me = || self.me.get_or_insert_with(|| here.me()).clone();
                        next.tell(Ring::Token(left - 1, K::of(0, me)));
                    }
                    _ => self.collector.report(0),
                }
                Next::Go
            }
            Ring::Join(next) => {
                self.next = Some(next);
                Next::Go
            }
            Ring::Finish => {
                self.collector.add(self.count);
                Next::Stop
            }
        }
    }
}

pub(super) fn ring<P: Peer, K: Load>(
    peer: &P,
    run: &Run,
    actors: u64,
    what: &str,
) -> Result<Measured, BenchError> {
    let collector = Collector::new(1);
    let station = || Station::<P, K> {
        next: None,
        me: None,
        is_pair: actors == 2,
        count: 0,
        work: run.work,
        collector: collector.clone(),
    };
    let stations: Vec<_> = (0..actors).map(|_| peer.spawn(station())).collect();
    for (at, station) in stations.iter().enumerate() {
        station.tell(Ring::Join(stations[(at + 1) % stations.len()].clone()));
    }
    let trial = Trial::begin(peer.wakes());
    // As from the last: the token comes round to it.
    let last = &stations[stations.len() - 1];
    stations[0].tell(Ring::Token(run.messages - 1, K::of(0, || last.clone())));
    let measured = trial.end(what, run, &collector, || peer.wakes())?;
    stations.iter().for_each(|station| station.tell(Ring::Finish));
    drop(stations);
    collector.settle(what, run)?;
    Ok(measured)
}

//! One message round a ring of 100, or to and fro between two: `ring`, `pingpong`.

use crate::compare::peer::{Here, Link, Next, Peer, Role};
use crate::compare::plan::Run;
use crate::compare::trial::{work, Collector, Measured, Trial};
use crate::error::BenchError;

/// One station of the ring.
struct Station<P: Peer> {
    next: Option<P::Link<Station<P>>>,
    count: u64,
    work: u32,
    collector: Collector,
}

/// What a station is sent.
enum Ring<L> {
    /// The station that follows.
    Join(L),
    /// The token, with the hops that are left after this one.
    Token(u64),
    /// Tell the share and end.
    Finish,
}

impl<P: Peer> Role<P> for Station<P> {
    type Message = Ring<P::Link<Station<P>>>;

    #[inline]
    fn handle(&mut self, message: Self::Message, _: &mut impl Here<P, Self>) -> Next {
        match message {
            Ring::Token(left) => {
                work(self.work);
                self.count += 1;
                match &self.next {
                    Some(next) if left > 0 => next.tell(Ring::Token(left - 1)),
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

pub(super) fn ring<P: Peer>(
    peer: &P,
    run: &Run,
    actors: u64,
    what: &str,
) -> Result<Measured, BenchError> {
    let collector = Collector::new(1);
    let station =
        || Station::<P> { next: None, count: 0, work: run.work, collector: collector.clone() };
    let stations: Vec<_> = (0..actors).map(|_| peer.spawn(station())).collect();
    for (at, station) in stations.iter().enumerate() {
        station.tell(Ring::Join(stations[(at + 1) % stations.len()].clone()));
    }
    let trial = Trial::begin(peer.wakes());
    stations[0].tell(Ring::Token(run.messages - 1));
    let measured = trial.end(what, run, &collector, || peer.wakes())?;
    stations.iter().for_each(|station| station.tell(Ring::Finish));
    drop(stations);
    collector.settle(what, run)?;
    Ok(measured)
}

//! The patterns, written once for all peers.

mod ask;
mod big;
mod crowd;
mod flood;
mod load;
mod ring;

pub(crate) use self::{
    ask::{service_keys, Answers, Asking, Piper, Servers, Told},
    crowd::{anonymous_bytes, Targets, Weigher},
    flood::{Count, Counter, PRODUCER},
    load::{Held, Load, Nothing, Number, Sender, Words},
};

use super::plan::{Run, Shape, ASKERS, CALL_DEPTH, FJTHRU_ACTORS, RING_ACTORS};
use super::trial::Measured;
use crate::error::BenchError;

/// Runs a pattern on a peer; nothing if the peer has no such thing.
pub(crate) fn run<P: Asking>(peer: &P, run: &Run) -> Result<Option<Measured>, BenchError> {
    let what = run.what(peer.id());
    match run.shape {
        Shape::Count => flood::count::<_, Nothing>(peer, run, 1, &what),
        Shape::CountMid => flood::count::<_, Words>(peer, run, 1, &what),
        Shape::CountBounded => return flood::count_bounded(peer, run, &what),
        Shape::PingPong => ring::ring::<_, Nothing>(peer, run, 2, &what),
        Shape::PingPongRef => ring::ring::<_, Sender>(peer, run, 2, &what),
        Shape::Ring => ring::ring::<_, Nothing>(peer, run, RING_ACTORS, &what),
        Shape::RingRef => ring::ring::<_, Sender>(peer, run, RING_ACTORS, &what),
        Shape::FjCreate => crowd::create::<_, Nothing>(peer, run, &what),
        Shape::FjCreateRef => crowd::create::<_, Sender>(peer, run, &what),
        Shape::FjThru => flood::count::<_, Nothing>(peer, run, FJTHRU_ACTORS, &what),
        Shape::Big => big::big::<_, Number>(peer, run, &what),
        Shape::BigRef => big::big::<_, Sender>(peer, run, &what),
        Shape::BigMid => big::big::<_, Words>(peer, run, &what),
        Shape::Entities => crowd::entities(peer, run, 1, &what),
        Shape::EntitiesTwo => crowd::entities(peer, run, 2, &what),
        Shape::AskLone => ask::ask(peer, run, (1, 1), &what),
        Shape::AskCrowd => ask::ask(peer, run, (ASKERS, 1), &what),
        Shape::AskChain => ask::ask(peer, run, (1, CALL_DEPTH), &what),
        Shape::Pipe => ask::pipe(peer, run, &what),
        Shape::Service => ask::service(peer, run, &what),
        Shape::Memory => return Ok(None),
    }
    .map(Some)
}

/// Bytes of an idle actor of a peer that has handled one message.
pub(crate) fn memory<P: Asking>(peer: &P, actors: u64) -> Result<f64, BenchError> {
    crowd::memory(peer, actors)
}

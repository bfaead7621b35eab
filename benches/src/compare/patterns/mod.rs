//! The patterns, written once for all peers.

mod ask;
mod big;
mod crowd;
mod flood;
mod ring;

pub(crate) use self::{
    ask::{Answers, Asking, Told},
    crowd::{anonymous_bytes, Targets, Weigher},
    flood::{Count, Counter},
};

use super::plan::{Run, Shape, ASKERS, CALL_DEPTH, FJTHRU_ACTORS, RING_ACTORS};
use super::trial::Measured;
use crate::error::BenchError;

/// Runs a pattern on a peer; nothing if the peer has no such thing.
pub(crate) fn run<P: Asking>(peer: &P, run: &Run) -> Result<Option<Measured>, BenchError> {
    let what = run.what(peer.id());
    match run.shape {
        Shape::Count => flood::count(peer, run, 1, &what).map(Some),
        Shape::CountBounded => flood::count_bounded(peer, run, &what),
        Shape::PingPong => ring::ring(peer, run, 2, &what).map(Some),
        Shape::Ring => ring::ring(peer, run, RING_ACTORS, &what).map(Some),
        Shape::FjCreate => crowd::create(peer, run, &what).map(Some),
        Shape::FjThru => flood::count(peer, run, FJTHRU_ACTORS, &what).map(Some),
        Shape::Big => big::big(peer, run, &what).map(Some),
        Shape::Entities => crowd::entities(peer, run, 1, &what).map(Some),
        Shape::EntitiesTwo => crowd::entities(peer, run, 2, &what).map(Some),
        Shape::AskLone => ask::ask(peer, run, (1, 1), &what).map(Some),
        Shape::AskCrowd => ask::ask(peer, run, (ASKERS, 1), &what).map(Some),
        Shape::AskChain => ask::ask(peer, run, (1, CALL_DEPTH), &what).map(Some),
        Shape::Memory => Ok(None),
    }
}

/// Bytes of an idle actor of a peer that has handled one message.
pub(crate) fn memory<P: Asking>(peer: &P, actors: u64) -> Result<f64, BenchError> {
    crowd::memory(peer, actors)
}

//! The contenders, each in its fastest idiomatic form.

mod actix;
mod actors;
mod asking;
mod kameo;
mod ractor;
mod tokio;
mod turnwheel;

use super::peer::Contender;
use super::plan::Impl;
use crate::error::BenchError;

/// Starts a contender; it keeps its threads until it is dropped.
pub(crate) fn start(which: Impl, workers: usize) -> Result<Box<dyn Contender>, BenchError> {
    Ok(match which {
        Impl::Turnwheel => Box::new(turnwheel::Turnwheel::start(workers)?),
        Impl::TurnwheelActors => Box::new(actors::Actors::start(workers)?),
        Impl::TurnwheelHosted => Box::new(asking::Hosted::start(which, workers)?),
        Impl::TurnwheelActorsHosted => Box::new(asking::Hosted::start(which, workers)?),
        Impl::Tokio => Box::new(tokio::Tokio::start(workers)?),
        Impl::Ractor => Box::new(ractor::Ractor::start(workers)?),
        Impl::Kameo => Box::new(kameo::Kameo::start(workers)?),
        Impl::Actix => Box::new(actix::Actix::start(workers)?),
    })
}

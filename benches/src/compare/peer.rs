//! What a peer's actors have in common, so that each pattern is written once for all peers.
//!
//! Everything is resolved at compile time: a peer runs the code that its user would write by hand,
//! with one message type per actor.

use super::plan::{Impl, Run};
use super::trial::Measured;
use crate::error::BenchError;

/// Something that runs patterns.
pub(crate) trait Contender {
    /// Which one it is.
    fn id(&self) -> Impl;
    /// Runs one pattern; nothing if the contender has no such thing.
    fn run(&mut self, run: &Run) -> Result<Option<Measured>, BenchError>;
    /// Bytes of an idle actor that has handled one message.
    fn memory(&mut self, actors: u64) -> Result<f64, BenchError>;
}

/// A peer's way to make actors.
pub(crate) trait Peer: Clone + Send + Sync + Sized + 'static {
    /// The address of an actor.
    type Link<R: Role<Self>>: Link<R::Message>;

    /// Which one it is.
    fn id(&self) -> Impl;
    /// Makes an actor with an unbounded mailbox, from anywhere.
    fn spawn<R: Role<Self>>(&self, role: R) -> Self::Link<R>;
    /// Makes an actor with a mailbox of this bound, for those who have them.
    fn spawn_bounded<R: Role<Self>>(&self, role: R, bound: usize) -> Option<Self::Link<R>>;
    /// How often a worker of it was woken, if it knows.
    fn wakes(&self) -> Option<u64>;
}

/// An address for one type of message.
pub(crate) trait Link<M>: Clone + Send + Sync + Unpin + 'static {
    /// Sends; the actor is alive and its mailbox has no bound.
    fn tell(&self, message: M);
    /// Sends if there is room.
    fn offer(&self, message: M) -> Offered;
}

/// What became of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    Taken,
    Full,
}

/// Whether the actor goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Go,
    Stop,
}

/// The behaviour of an actor.
pub(crate) trait Role<P: Peer>: Sized + Send + Sync + Unpin + 'static {
    /// What it is sent.
    type Message: Send + 'static;
    /// Handles one message.
    fn handle(&mut self, message: Self::Message, here: &mut impl Here<P, Self>) -> Next;
}

/// What an actor can do while it handles a message.
pub(crate) trait Here<P: Peer, R: Role<P>> {
    /// Sends to itself.
    fn tell_self(&mut self, message: R::Message);
    /// Its own address.
    fn me(&self) -> P::Link<R>;
    /// The peer, to make actors.
    fn peer(&self) -> &P;
}

//! ractor: one enum per actor, its one (unbounded) mailbox, `spawn_instant` so that making an actor
//! does not wait for its start.

use std::marker::PhantomData;

use ::ractor::{Actor, ActorProcessingErr, ActorRef, ActorRuntime};
use ::tokio::runtime::{Handle, Runtime};

use super::tokio::{runtime, wakes};
use crate::compare::patterns;
use crate::compare::peer::{Contender, Here, Link, Next, Offered, Peer, Role};
use crate::compare::plan::{Impl, Run};
use crate::compare::trial::Measured;
use crate::error::BenchError;

/// A tokio runtime for ractor's actors.
pub(crate) struct Ractor {
    _runtime: Runtime,
    peer: RactorPeer,
}

#[derive(Clone)]
pub(super) struct RactorPeer {
    pub(super) handle: Handle,
}

impl Ractor {
    /// Starts the runtime.
    pub(crate) fn start(workers: usize) -> Result<Self, BenchError> {
        let runtime = runtime(Impl::Ractor, workers)?;
        let peer = RactorPeer { handle: runtime.handle().clone() };
        Ok(Self { _runtime: runtime, peer })
    }
}

impl Contender for Ractor {
    fn id(&self) -> Impl {
        Impl::Ractor
    }

    fn run(&mut self, run: &Run) -> Result<Option<Measured>, BenchError> {
        patterns::run(&self.peer, run)
    }

    fn memory(&mut self, actors: u64) -> Result<f64, BenchError> {
        patterns::memory(&self.peer, actors)
    }
}

impl Peer for RactorPeer {
    type Link<R: Role<Self>> = Address<R>;

    fn id(&self) -> Impl {
        Impl::Ractor
    }

    fn spawn<R: Role<Self>>(&self, role: R) -> Address<R> {
        let _entered = self.handle.enter();
        let state = Hosted { role, peer: self.clone() };
        let spawned = ActorRuntime::spawn_instant(None, Host::<R>(PhantomData), state);
        let (address, _join) = spawned.expect("an actor without a name collides with none");
        Address(address)
    }

    fn spawn_bounded<R: Role<Self>>(&self, _: R, _: usize) -> Option<Self::Link<R>> {
        // ractor has unbounded mailboxes only.
        None
    }

    fn wakes(&self) -> Option<u64> {
        Some(wakes(&self.handle))
    }
}

/// An actor's reference. A type of its own, since messages hold the addresses of actors that get
/// them.
pub(super) struct Address<R: Role<RactorPeer>>(ActorRef<R::Message>);

impl<R: Role<RactorPeer>> Clone for Address<R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<R: Role<RactorPeer>> Link<R::Message> for Address<R> {
    #[inline]
    fn tell(&self, message: R::Message) {
        // A closed mailbox shows as messages that were not handled.
        let _ = self.0.send_message(message);
    }

    fn offer(&self, message: R::Message) -> Offered {
        self.tell(message);
        Offered::Taken
    }
}

/// The behaviour; the state is apart, as ractor wants it.
struct Host<R>(PhantomData<fn() -> R>);

struct Hosted<R> {
    role: R,
    peer: RactorPeer,
}

impl<R: Role<RactorPeer>> Actor for Host<R> {
    type Msg = R::Message;
    type State = Hosted<R>;
    type Arguments = Hosted<R>;

    async fn pre_start(
        &self,
        _: ActorRef<Self::Msg>,
        hosted: Hosted<R>,
    ) -> Result<Hosted<R>, ActorProcessingErr> {
        Ok(hosted)
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut Hosted<R>,
    ) -> Result<(), ActorProcessingErr> {
        let mut here = RactorHere { me: &myself, peer: &state.peer };
        if state.role.handle(message, &mut here) == Next::Stop {
            myself.stop(None);
        }
        Ok(())
    }
}

struct RactorHere<'a, M> {
    me: &'a ActorRef<M>,
    peer: &'a RactorPeer,
}

impl<R: Role<RactorPeer>> Here<RactorPeer, R> for RactorHere<'_, R::Message> {
    fn tell_self(&mut self, message: R::Message) {
        // As above.
        let _ = self.me.send_message(message);
    }

    #[inline]
    fn me(&self) -> Address<R> {
        Address(self.me.clone())
    }

    fn peer(&self) -> &RactorPeer {
        self.peer
    }
}

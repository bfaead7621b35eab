//! kameo: unbounded mailboxes and `try_send`, the form without a boxed send future.

use std::convert::Infallible;

use ::kameo::actor::{Actor, ActorRef, Spawn};
use ::kameo::mailbox;
use ::kameo::message::{Context, Message};
use ::tokio::runtime::{Handle, Runtime};

use super::tokio::{runtime, wakes};
use crate::compare::patterns;
use crate::compare::peer::{Contender, Here, Link, Next, Offered, Peer, Role};
use crate::compare::plan::{Impl, Run};
use crate::compare::trial::Measured;
use crate::error::BenchError;

/// A tokio runtime for kameo's actors.
pub(crate) struct Kameo {
    _runtime: Runtime,
    peer: KameoPeer,
}

#[derive(Clone)]
pub(super) struct KameoPeer {
    pub(super) handle: Handle,
}

impl Kameo {
    /// Starts the runtime.
    pub(crate) fn start(workers: usize) -> Result<Self, BenchError> {
        let runtime = runtime(Impl::Kameo, workers)?;
        let peer = KameoPeer { handle: runtime.handle().clone() };
        Ok(Self { _runtime: runtime, peer })
    }
}

impl Contender for Kameo {
    fn id(&self) -> Impl {
        Impl::Kameo
    }

    fn run(&mut self, run: &Run) -> Result<Option<Measured>, BenchError> {
        patterns::run(&self.peer, run)
    }

    fn memory(&mut self, actors: u64) -> Result<f64, BenchError> {
        patterns::memory(&self.peer, actors)
    }
}

impl Peer for KameoPeer {
    type Link<R: Role<Self>> = ActorRef<Host<R>>;

    fn id(&self) -> Impl {
        Impl::Kameo
    }

    fn spawn<R: Role<Self>>(&self, role: R) -> ActorRef<Host<R>> {
        let _entered = self.handle.enter();
        Host::spawn_with_mailbox(Host { role, peer: self.clone() }, mailbox::unbounded())
    }

    fn spawn_bounded<R: Role<Self>>(&self, role: R, bound: usize) -> Option<Self::Link<R>> {
        let _entered = self.handle.enter();
        let host = Host { role, peer: self.clone() };
        Some(Host::spawn_with_mailbox(host, mailbox::bounded(bound)))
    }

    fn wakes(&self) -> Option<u64> {
        Some(wakes(&self.handle))
    }
}

impl<R: Role<KameoPeer>> Link<R::Message> for ActorRef<Host<R>> {
    #[inline]
    fn tell(&self, message: R::Message) {
        // A closed mailbox shows as messages that were not handled.
        let _ = ActorRef::tell(self, Envelope(message)).try_send();
    }

    #[inline]
    fn offer(&self, message: R::Message) -> Offered {
        match ActorRef::tell(self, Envelope(message)).try_send() {
            Ok(()) => Offered::Taken,
            Err(_) => Offered::Full,
        }
    }
}

/// The actor: its state is itself.
pub(super) struct Host<R> {
    role: R,
    peer: KameoPeer,
}

struct Envelope<M>(M);

impl<R: Role<KameoPeer>> Actor for Host<R> {
    type Args = Self;
    type Error = Infallible;

    async fn on_start(host: Self, _: ActorRef<Self>) -> Result<Self, Infallible> {
        Ok(host)
    }
}

impl<R: Role<KameoPeer>> Message<Envelope<R::Message>> for Host<R> {
    type Reply = ();

    async fn handle(&mut self, message: Envelope<R::Message>, context: &mut Context<Self, ()>) {
        let mut here = KameoHere { me: context.actor_ref(), peer: &self.peer };
        if self.role.handle(message.0, &mut here) == Next::Stop {
            context.stop();
        }
    }
}

struct KameoHere<'a, R: Role<KameoPeer>> {
    me: &'a ActorRef<Host<R>>,
    peer: &'a KameoPeer,
}

impl<R: Role<KameoPeer>> Here<KameoPeer, R> for KameoHere<'_, R> {
    fn tell_self(&mut self, message: R::Message) {
        Link::tell(self.me, message);
    }

    #[inline]
    fn me(&self) -> ActorRef<Host<R>> {
        self.me.clone()
    }

    fn peer(&self) -> &KameoPeer {
        self.peer
    }
}

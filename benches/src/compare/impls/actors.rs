//! Typed actors of Turnwheel: a message type and a `Handler` for each, through `Address::tell`.

use turnwheel::actors::{Actor, Address, Context, Handler, System, TellError};
use turnwheel_runtime::{Group, Mailbox, SubmitErrorKind};

use crate::compare::patterns;
use crate::compare::peer::{Contender, Here, Link, Next, Offered, Peer, Role};
use crate::compare::plan::{Impl, Run};
use crate::compare::trial::Measured;
use crate::error::BenchError;

/// A group with a system of actors.
pub(crate) struct Actors {
    group: Group,
    peer: ActorsPeer,
}

#[derive(Clone)]
struct ActorsPeer {
    system: System,
}

impl Actors {
    /// Starts the group.
    pub(crate) fn start(workers: usize) -> Result<Self, BenchError> {
        let group = Group::builder("compare").workers(workers).build();
        let group = group.map_err(|error| BenchError::Start {
            what: Impl::TurnwheelActors.to_string(),
            why: error.to_string(),
        })?;
        let peer = ActorsPeer { system: System::new(&group) };
        Ok(Self { group, peer })
    }
}

impl Drop for Actors {
    fn drop(&mut self) {
        // The process ends soon; what is left over has been counted as missing before.
        let _ = self.group.shutdown();
    }
}

impl Contender for Actors {
    fn id(&self) -> Impl {
        Impl::TurnwheelActors
    }

    fn run(&mut self, run: &Run) -> Result<Option<Measured>, BenchError> {
        patterns::run(&self.peer, run)
    }

    fn memory(&mut self, actors: u64) -> Result<f64, BenchError> {
        patterns::memory(&self.peer, actors)
    }
}

/// An actor that plays a role.
struct Host<R> {
    role: R,
    peer: ActorsPeer,
}

impl<R: Role<ActorsPeer>> Actor for Host<R> {
    type Error = std::convert::Infallible;
}

impl<R: Role<ActorsPeer>> Handler<R::Message> for Host<R> {
    type Reply = ();

    #[inline]
    fn handle(&mut self, message: R::Message, cx: &mut Context<'_, Self>) {
        let mut here = Inside { cx, peer: &self.peer };
        if self.role.handle(message, &mut here) == Next::Stop {
            cx.stop();
        }
    }
}

struct Inside<'a, 'b, R: Role<ActorsPeer>> {
    cx: &'a mut Context<'b, Host<R>>,
    peer: &'a ActorsPeer,
}

impl<R: Role<ActorsPeer>> Here<ActorsPeer, R> for Inside<'_, '_, R> {
    fn tell_self(&mut self, message: R::Message) {
        taken(self.cx.tell_self(message));
    }

    fn peer(&self) -> &ActorsPeer {
        self.peer
    }
}

impl Peer for ActorsPeer {
    type Link<R: Role<Self>> = Address<Host<R>>;

    fn id(&self) -> Impl {
        Impl::TurnwheelActors
    }

    fn spawn<R: Role<Self>>(&self, role: R) -> Address<Host<R>> {
        let host = Host { role, peer: self.clone() };
        let spawned = self.system.actor(host).mailbox(Mailbox::unbounded()).spawn();
        spawned.expect("the group runs until the contender is gone")
    }

    fn spawn_bounded<R: Role<Self>>(&self, role: R, bound: usize) -> Option<Address<Host<R>>> {
        let host = Host { role, peer: self.clone() };
        let spawned = self.system.actor(host).mailbox(Mailbox::bounded(bound as u64)).spawn();
        Some(spawned.expect("the group runs until the contender is gone"))
    }

    fn wakes(&self) -> Option<u64> {
        let metrics = self.system.group().metrics();
        Some(metrics.workers.iter().map(|worker| worker.wakes).sum())
    }
}

impl<R: Role<ActorsPeer>> Link<R::Message> for Address<Host<R>> {
    #[inline]
    fn tell(&self, message: R::Message) {
        taken(Address::tell(self, message));
    }

    #[inline]
    fn offer(&self, message: R::Message) -> Offered {
        match Address::tell(self, message) {
            Ok(()) => Offered::Taken,
            Err(error) if error.kind == SubmitErrorKind::Full => Offered::Full,
            Err(error) => {
                taken(Err(error));
                Offered::Full
            }
        }
    }
}

/// A message that is refused would make the run wait for ever.
#[inline]
fn taken<M>(told: Result<(), TellError<M>>) {
    if let Err(error) = told {
        eprintln!("turnwheel-bench: {error}");
        std::process::exit(1);
    }
}

//! actix: one arbiter a worker, actors spread over them in turn, `do_send`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::Arc;
use std::thread::JoinHandle;

use ::actix::{
    Actor, ActorContext, Addr, Arbiter, ArbiterHandle, AsyncContext, Context, Handler, Message,
    System,
};
use ::tokio::runtime::Handle;

use super::tokio::wakes;
use crate::compare::patterns;
use crate::compare::peer::{Contender, Here, Link, Next, Offered, Peer, Role};
use crate::compare::plan::{Impl, Run};
use crate::compare::trial::Measured;
use crate::error::BenchError;

/// An actix system on a thread of its own, with its arbiters.
pub(crate) struct Actix {
    peer: ActixPeer,
    system: System,
    thread: Option<JoinHandle<()>>,
}

#[derive(Clone)]
pub(super) struct ActixPeer(Arc<Shared>);

struct Shared {
    arbiters: Vec<ArbiterHandle>,
    /// The runtime of each arbiter, for its counts.
    handles: Vec<Handle>,
    next: AtomicUsize,
}

impl Actix {
    /// Starts the system and one arbiter a worker.
    pub(crate) fn start(workers: usize) -> Result<Self, BenchError> {
        let fail = |why: String| BenchError::Start { what: Impl::Actix.to_string(), why };
        let (sender, receiver) = mpsc::channel();
        let run = move || {
            let runner = System::new();
            let arbiters: Vec<Arbiter> = (0..workers).map(|_| Arbiter::new()).collect();
            let handles = arbiters.iter().map(Arbiter::handle).collect::<Vec<_>>();
            // The receiver waits for it.
            let _ = sender.send((System::current(), handles));
            // The exit code is ours.
            let _ = runner.run();
            for arbiter in arbiters {
                arbiter.stop();
                let _ = arbiter.join();
            }
        };
        let thread = std::thread::Builder::new()
            .name("actix-system".to_owned())
            .spawn(run)
            .map_err(|error| fail(error.to_string()))?;
        let (system, arbiters) = receiver.recv().map_err(|error| fail(error.to_string()))?;
        let mut handles = Vec::new();
        for arbiter in &arbiters {
            let (sender, receiver) = mpsc::channel();
            arbiter.spawn_fn(move || {
                let _ = sender.send(Handle::current());
            });
            handles.push(receiver.recv().map_err(|error| fail(error.to_string()))?);
        }
        let shared = Shared { arbiters, handles, next: AtomicUsize::new(0) };
        Ok(Self { peer: ActixPeer(Arc::new(shared)), system, thread: Some(thread) })
    }
}

impl Drop for Actix {
    fn drop(&mut self) {
        self.system.stop();
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed.
            let _ = thread.join();
        }
    }
}

impl Contender for Actix {
    fn id(&self) -> Impl {
        Impl::Actix
    }

    fn run(&mut self, run: &Run) -> Result<Option<Measured>, BenchError> {
        patterns::run(&self.peer, run)
    }

    fn memory(&mut self, actors: u64) -> Result<f64, BenchError> {
        patterns::memory(&self.peer, actors)
    }
}

impl ActixPeer {
    /// Each in turn.
    pub(super) fn next_arbiter(&self) -> &ArbiterHandle {
        let shared = &self.0;
        let at = shared.next.fetch_add(1, Ordering::Relaxed) % shared.arbiters.len();
        &shared.arbiters[at]
    }

    fn spawn_with<R: Role<Self>>(&self, role: R, bound: Option<usize>) -> Addr<Host<R>> {
        let peer = self.clone();
        Host::start_in_arbiter(self.next_arbiter(), move |context| {
            if let Some(bound) = bound {
                context.set_mailbox_capacity(bound);
            }
            Host { role, peer }
        })
    }
}

impl Peer for ActixPeer {
    type Link<R: Role<Self>> = Addr<Host<R>>;

    fn id(&self) -> Impl {
        Impl::Actix
    }

    fn spawn<R: Role<Self>>(&self, role: R) -> Addr<Host<R>> {
        self.spawn_with(role, None)
    }

    fn spawn_bounded<R: Role<Self>>(&self, role: R, bound: usize) -> Option<Self::Link<R>> {
        Some(self.spawn_with(role, Some(bound)))
    }

    fn wakes(&self) -> Option<u64> {
        Some(self.0.handles.iter().map(wakes).sum())
    }
}

impl<R: Role<ActixPeer>> Link<R::Message> for Addr<Host<R>> {
    #[inline]
    fn tell(&self, message: R::Message) {
        self.do_send(Envelope(message));
    }

    #[inline]
    fn offer(&self, message: R::Message) -> Offered {
        match self.try_send(Envelope(message)) {
            Ok(()) => Offered::Taken,
            Err(_) => Offered::Full,
        }
    }
}

pub(super) struct Host<R> {
    role: R,
    peer: ActixPeer,
}

struct Envelope<M>(M);

impl<M> Message for Envelope<M> {
    type Result = ();
}

impl<R: Role<ActixPeer>> Actor for Host<R> {
    type Context = Context<Self>;
}

impl<R: Role<ActixPeer>> Handler<Envelope<R::Message>> for Host<R> {
    type Result = ();

    fn handle(&mut self, message: Envelope<R::Message>, context: &mut Context<Self>) {
        let mut here = ActixHere { context, peer: &self.peer };
        if self.role.handle(message.0, &mut here) == Next::Stop {
            context.stop();
        }
    }
}

struct ActixHere<'a, R: Role<ActixPeer>> {
    context: &'a mut Context<Host<R>>,
    peer: &'a ActixPeer,
}

impl<R: Role<ActixPeer>> Here<ActixPeer, R> for ActixHere<'_, R> {
    fn tell_self(&mut self, message: R::Message) {
        self.context.address().do_send(Envelope(message));
    }

    #[inline]
    fn me(&self) -> Addr<Host<R>> {
        self.context.address()
    }

    fn peer(&self) -> &ActixPeer {
        self.peer
    }
}

//! tokio: a task that owns an mpsc receiver of an enum, on the multi-thread runtime.

use std::sync::Arc;

use ::tokio::runtime::{Builder, Handle, Runtime};
use ::tokio::sync::mpsc::{
    channel, unbounded_channel, Receiver, Sender, UnboundedReceiver, UnboundedSender,
    WeakUnboundedSender,
};

use crate::compare::patterns::{self, Count, Counter};
use crate::compare::peer::{Contender, Here, Link, Next, Offered, Peer, Role};
use crate::compare::plan::{Impl, Run, Shape, BOUND, CHUNK};
use crate::compare::trial::{Collector, Measured, Trial};
use crate::error::BenchError;

/// A running tokio runtime.
pub(crate) struct Tokio {
    runtime: Arc<Runtime>,
    peer: TokioPeer,
}

/// The handle that actors have.
#[derive(Clone)]
pub(super) struct TokioPeer {
    pub(super) handle: Handle,
}

/// Builds the runtime that tokio, ractor and kameo run on.
pub(super) fn runtime(what: Impl, workers: usize) -> Result<Runtime, BenchError> {
    Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_time()
        .build()
        .map_err(|error| BenchError::Start { what: what.to_string(), why: error.to_string() })
}

/// How often the workers of a runtime were woken: each wake-up ends one park.
pub(super) fn wakes(handle: &Handle) -> u64 {
    let metrics = handle.metrics();
    (0..metrics.num_workers()).map(|worker| metrics.worker_park_unpark_count(worker) / 2).sum()
}

impl Tokio {
    /// Starts the runtime.
    pub(crate) fn start(workers: usize) -> Result<Self, BenchError> {
        let runtime = runtime(Impl::Tokio, workers)?;
        let peer = TokioPeer { handle: runtime.handle().clone() };
        Ok(Self { runtime: Arc::new(runtime), peer })
    }

    /// Bounded: the producer waits for room, as a user of tokio would write it.
    fn count_bounded(&self, run: &Run) -> Result<Measured, BenchError> {
        let what = run.what(Impl::Tokio);
        let collector = Collector::new(1);
        let (sender, inbox) = channel(BOUND);
        let counter = Counter::new(run.messages, run, &collector);
        let (me, go_on) = unbounded_channel();
        self.runtime.spawn(host_bounded(counter, inbox, self.peer.clone()));
        self.runtime.spawn(produce_bounded(sender, run.messages, me.clone(), go_on));
        let trial = Trial::begin(self.peer.wakes());
        // The producer waits for it.
        let _ = me.send(());
        drop(me);
        let measured = trial.end(&what, run, &collector, || self.peer.wakes())?;
        collector.settle(&what, run)?;
        Ok(measured)
    }
}

impl Contender for Tokio {
    fn id(&self) -> Impl {
        Impl::Tokio
    }

    fn run(&mut self, run: &Run) -> Result<Option<Measured>, BenchError> {
        match run.shape {
            Shape::CountBounded => self.count_bounded(run).map(Some),
            _ => patterns::run(&self.peer, run),
        }
    }

    fn memory(&mut self, actors: u64) -> Result<f64, BenchError> {
        patterns::memory(&self.peer, actors)
    }
}

impl Peer for TokioPeer {
    type Link<R: Role<Self>> = Address<R>;

    fn id(&self) -> Impl {
        Impl::Tokio
    }

    fn spawn<R: Role<Self>>(&self, role: R) -> Address<R> {
        let (sender, inbox) = unbounded_channel();
        // A weak one, so that the actor ends when nobody else can reach it.
        let here = TokioHere { me: sender.downgrade(), peer: self.clone() };
        self.handle.spawn(host(role, inbox, here));
        Address(sender)
    }

    fn spawn_bounded<R: Role<Self>>(&self, _: R, _: usize) -> Option<Self::Link<R>> {
        // The bounded channel has another type of sender, and waits: `count_bounded` above.
        None
    }

    fn wakes(&self) -> Option<u64> {
        Some(wakes(&self.handle))
    }
}

/// A sender. A type of its own, since messages hold the addresses of actors that get them.
pub(super) struct Address<R: Role<TokioPeer>>(UnboundedSender<R::Message>);

impl<R: Role<TokioPeer>> Clone for Address<R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<R: Role<TokioPeer>> Link<R::Message> for Address<R> {
    #[inline]
    fn tell(&self, message: R::Message) {
        // A closed mailbox shows as messages that were not handled.
        let _ = self.0.send(message);
    }

    fn offer(&self, message: R::Message) -> Offered {
        self.tell(message);
        Offered::Taken
    }
}

struct TokioHere<M> {
    me: WeakUnboundedSender<M>,
    peer: TokioPeer,
}

impl<R: Role<TokioPeer>> Here<TokioPeer, R> for TokioHere<R::Message> {
    fn tell_self(&mut self, message: R::Message) {
        if let Some(me) = self.me.upgrade() {
            // As above.
            let _ = me.send(message);
        }
    }

    fn me(&self) -> Address<R> {
        Address(self.me.upgrade().expect("the run holds the addresses of all that ask for theirs"))
    }

    fn peer(&self) -> &TokioPeer {
        &self.peer
    }
}

async fn host<R: Role<TokioPeer>>(
    mut role: R,
    mut inbox: UnboundedReceiver<R::Message>,
    mut here: TokioHere<R::Message>,
) {
    while let Some(message) = inbox.recv().await {
        if role.handle(message, &mut here) == Next::Stop {
            return;
        }
    }
}

async fn host_bounded(mut counter: Counter, mut inbox: Receiver<Count>, peer: TokioPeer) {
    let (me, _) = unbounded_channel();
    let mut here = TokioHere { me: me.downgrade(), peer };
    while let Some(message) = inbox.recv().await {
        if counter.handle(message, &mut here) == Next::Stop {
            return;
        }
    }
}

async fn produce_bounded(
    target: Sender<Count>,
    mut left: u64,
    me: UnboundedSender<()>,
    mut go_on: UnboundedReceiver<()>,
) {
    while let Some(()) = go_on.recv().await {
        for _ in 0..CHUNK.min(left) {
            if target.send(Count::increment()).await.is_err() {
                return;
            }
        }
        left = left.saturating_sub(CHUNK);
        if left == 0 {
            return;
        }
        // It is ours: open.
        let _ = me.send(());
    }
}

//! Questions and answers: one asker of one actor, 64 askers of one, calls through a chain of eight:
//! `ask_lone`, `ask_64to1`, `ask_chain8`; from inside a handler: `pipe`; by key: `service`.

use std::future::Future;
use std::sync::Arc;

use dashmap::DashMap;

use crate::compare::peer::Peer;
use crate::compare::plan::{Run, ASKERS, SERVICE_KEYS};
use crate::compare::trial::{skewed, work, Collector, Measured, Trial};
use crate::error::BenchError;

/// What an actor that answers counts; each peer makes its own actor of it.
pub(crate) struct Answers {
    count: u64,
    work: u32,
    /// Says when the actor is gone.
    _collector: Collector,
}

impl Answers {
    pub(crate) fn new(run: &Run, collector: &Collector) -> Self {
        Self { count: 0, work: run.work, _collector: collector.clone() }
    }

    /// How many questions have been answered, this one included.
    #[inline]
    pub(crate) fn answer(&mut self) -> u64 {
        work(self.work);
        self.count += 1;
        self.count
    }
}

/// A peer's way to ask. The next asker, and the next in a chain, wait for each answer.
pub(crate) trait Asking: Peer {
    /// The address of an actor that answers.
    type Server: Clone + Send + Sync + 'static;

    /// Makes an actor that answers; with a `next` it asks that first and adds what it says.
    fn server(&self, answers: Answers, next: Option<Self::Server>) -> Self::Server;
    /// Runs somebody who asks.
    fn spawn_asker(&self, asker: impl Future<Output = ()> + Send + 'static);
    /// Asks and waits; nothing if there is no answer.
    fn ask(server: &Self::Server) -> impl Future<Output = Option<u64>> + Send;
    /// Asks the actor with this key and waits; nothing is locked meanwhile.
    fn ask_key(
        servers: &Servers<Self::Server>,
        key: u32,
    ) -> impl Future<Output = Option<u64>> + Send {
        async move {
            let server = servers.get(&key)?.clone();
            Self::ask(&server).await
        }
    }
    /// Makes an actor that takes the steps of `piper`, one a message that it sends itself, and sends
    /// it the first message.
    fn pipe(&self, piper: Piper<Self>);
    /// Ends an actor, where letting go of its address does not.
    fn end(_server: &Self::Server) {}
}

/// Actors by their keys.
pub(crate) type Servers<S> = DashMap<u32, S>;

/// What one asker was told, checked.
pub(crate) struct Told {
    depth: u64,
    last: u64,
    answered: u64,
}

impl Told {
    pub(crate) fn new(depth: u64) -> Self {
        Self { depth, last: 0, answered: 0 }
    }

    /// An answer counts for each actor on its way, if it is a later one than the one before.
    #[inline]
    pub(crate) fn take(&mut self, answer: Option<u64>) {
        if let Some(answer) = answer.filter(|answer| *answer >= self.last + self.depth) {
            self.last = answer;
            self.answered += self.depth;
        }
    }

    pub(crate) fn answered(&self) -> u64 {
        self.answered
    }
}

async fn asking<P: Asking>(server: P::Server, questions: u64, depth: u64, collector: Collector) {
    let mut told = Told::new(depth);
    for _ in 0..questions {
        told.take(P::ask(&server).await);
    }
    collector.report(told.answered());
}

pub(super) fn ask<P: Asking>(
    peer: &P,
    run: &Run,
    (askers, depth): (u64, u64),
    what: &str,
) -> Result<Measured, BenchError> {
    let collector = Collector::new(askers);
    let mut server = peer.server(Answers::new(run, &collector), None);
    let mut servers = vec![server.clone()];
    for _ in 1..depth {
        server = peer.server(Answers::new(run, &collector), Some(server));
        servers.push(server.clone());
    }
    let questions = run.messages / askers / depth;
    let trial = Trial::begin(peer.wakes());
    for _ in 0..askers {
        peer.spawn_asker(asking::<P>(server.clone(), questions, depth, collector.clone()));
    }
    let measured = trial.end(what, run, &collector, || peer.wakes())?;
    servers.iter().for_each(P::end);
    drop((server, servers));
    collector.settle(what, run)?;
    Ok(measured)
}

/// An actor that asks from inside its handler.
pub(crate) struct Piper<P: Asking> {
    pub(crate) server: P::Server,
    left: u64,
    told: Told,
    collector: Collector,
}

impl<P: Asking> Piper<P> {
    /// Asks and takes the answer; whether there is another step.
    pub(crate) async fn step(&mut self) -> bool {
        let answer = P::ask(&self.server).await;
        self.take(answer)
    }

    /// Takes the answer; whether there is another step.
    pub(crate) fn take(&mut self, answer: Option<u64>) -> bool {
        self.told.take(answer);
        self.left -= 1;
        if self.left == 0 {
            self.collector.report(self.told.answered());
        }
        self.left > 0
    }
}

pub(super) fn pipe<P: Asking>(peer: &P, run: &Run, what: &str) -> Result<Measured, BenchError> {
    let collector = Collector::new(1);
    let server = peer.server(Answers::new(run, &collector), None);
    let piper = Piper {
        server: server.clone(),
        left: run.messages,
        told: Told::new(1),
        collector: collector.clone(),
    };
    let trial = Trial::begin(peer.wakes());
    peer.pipe(piper);
    let measured = trial.end(what, run, &collector, || peer.wakes())?;
    P::end(&server);
    drop(server);
    collector.settle(what, run)?;
    Ok(measured)
}

/// The keys that each asker of `service` asks, in order, drawn by Zipf's law.
pub(crate) fn service_keys(run: &Run) -> Vec<Vec<u32>> {
    let keys = skewed(SERVICE_KEYS, run.messages as usize);
    keys.chunks((run.messages / ASKERS) as usize).map(<[u32]>::to_vec).collect()
}

async fn serve_keys<P: Asking>(
    servers: Arc<Servers<P::Server>>,
    keys: Vec<u32>,
    collector: Collector,
) {
    let mut answered = 0;
    for key in keys {
        answered += u64::from(P::ask_key(&servers, key).await.is_some());
    }
    collector.report(answered);
}

pub(super) fn service<P: Asking>(peer: &P, run: &Run, what: &str) -> Result<Measured, BenchError> {
    let sequences = service_keys(run);
    let collector = Collector::new(ASKERS);
    let server = |key| (key, peer.server(Answers::new(run, &collector), None));
    let servers: Arc<Servers<_>> = Arc::new((0..SERVICE_KEYS).map(server).collect());
    let trial = Trial::begin(peer.wakes());
    for keys in sequences {
        peer.spawn_asker(serve_keys::<P>(Arc::clone(&servers), keys, collector.clone()));
    }
    let measured = trial.end(what, run, &collector, || peer.wakes())?;
    servers.iter().for_each(|server| P::end(&server));
    drop(servers);
    collector.settle(what, run)?;
    Ok(measured)
}

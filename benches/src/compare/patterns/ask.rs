//! Questions and answers: one asker of one actor, 64 askers of one, calls through a chain of eight:
//! `ask_lone`, `ask_64to1`, `ask_chain8`.

use std::future::Future;

use crate::compare::peer::Peer;
use crate::compare::plan::Run;
use crate::compare::trial::{work, Collector, Measured, Trial};
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
    /// Ends an actor, where letting go of its address does not.
    fn end(_server: &Self::Server) {}
}

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

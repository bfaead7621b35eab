//! `service` on Turnwheel: the askers are tasks of a tokio runtime beside the group, with as many
//! threads as the group has. Typed entities are found by their keys; tasks by a map of the user's, as
//! with the peers.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;

use ::tokio::runtime::Runtime;
use turnwheel::actors::{Actor, Context, Entities, Entity, Handler, System};
use turnwheel_runtime::Group;

use super::actors::Question;
use super::turnwheel::Server;
use crate::compare::impls::actors::{sent, Actors};
use crate::compare::impls::tokio::{runtime, wakes};
use crate::compare::impls::turnwheel::Turnwheel;
use crate::compare::patterns::{service_keys, Answers, Servers};
use crate::compare::plan::{Impl, Run, ASKERS, SERVICE_KEYS};
use crate::compare::trial::{Collector, Measured, Trial};
use crate::error::BenchError;

/// A runtime for the askers of a group.
struct Askers {
    runtime: Runtime,
    group: Group,
}

impl Askers {
    fn start(id: Impl, group: &Group) -> Result<Self, BenchError> {
        let runtime = runtime(id, group.metrics().workers.len())?;
        Ok(Self { runtime, group: group.clone() })
    }

    fn wakes(&self) -> Option<u64> {
        let group: u64 = self.group.metrics().workers.iter().map(|worker| worker.wakes).sum();
        Some(group + wakes(self.runtime.handle()))
    }

    /// Times the askers; `ask` answers whether there was an answer.
    fn time<F: Future<Output = bool> + Send>(
        &self,
        what: &str,
        run: &Run,
        collector: &Collector,
        ask: impl Fn(u32) -> F + Clone + Send + Sync + 'static,
    ) -> Result<Measured, BenchError> {
        let sequences = service_keys(run);
        let trial = Trial::begin(self.wakes());
        for keys in sequences {
            let (ask, collector) = (ask.clone(), collector.clone());
            self.runtime.spawn(async move {
                let mut answered = 0;
                for key in keys {
                    answered += u64::from(ask(key).await);
                }
                collector.report(answered);
            });
        }
        trial.end(what, run, collector, || self.wakes())
    }
}

impl Turnwheel {
    pub(in crate::compare::impls) fn service(&self, run: &Run) -> Result<Measured, BenchError> {
        let what = run.what(Impl::Turnwheel);
        let askers = Askers::start(Impl::Turnwheel, &self.group)?;
        let collector = Collector::new(ASKERS);
        let server = |key| (key, self.spawn(Server::new(Answers::new(run, &collector), None)));
        let servers: Arc<Servers<_>> = Arc::new((0..SERVICE_KEYS).map(server).collect());
        let asked = Arc::clone(&servers);
        let measured = askers.time(&what, run, &collector, move |key| {
            let server = asked.get(&key).expect("every key has its server");
            let answer = server.call(|server, _| server.answer());
            async move { answer.await.is_ok() }
        })?;
        drop((askers, servers));
        collector.settle(&what, run)?;
        Ok(measured)
    }
}

/// An entity that answers once it is open.
struct Account(Option<Answers>);

struct Open(Answers);
struct Close;

impl Actor for Account {
    type Error = Infallible;
}

impl Entity for Account {
    type Key = u32;

    fn create(_: &u32) -> Self {
        Self(None)
    }
}

impl Handler<Open> for Account {
    type Reply = ();

    fn handle(&mut self, Open(answers): Open, _: &mut Context<'_, Self>) {
        self.0 = Some(answers);
    }
}

impl Handler<Close> for Account {
    type Reply = ();

    fn handle(&mut self, _: Close, cx: &mut Context<'_, Self>) {
        self.0 = None;
        cx.passivate();
    }
}

impl Handler<Question> for Account {
    type Reply = Option<u64>;

    #[inline]
    fn handle(&mut self, _: Question, _: &mut Context<'_, Self>) -> Option<u64> {
        self.0.as_mut().map(Answers::answer)
    }
}

impl Actors {
    pub(in crate::compare::impls) fn service(&self, run: &Run) -> Result<Measured, BenchError> {
        let what = run.what(Impl::TurnwheelActors);
        let askers = Askers::start(Impl::TurnwheelActors, &self.group)?;
        let collector = Collector::new(ASKERS);
        let entities = Entities::new(&System::new(&self.group));
        for key in 0..SERVICE_KEYS {
            sent(entities.get::<Account>(key).tell(Open(Answers::new(run, &collector))));
        }
        let asked = entities.clone();
        let measured = askers.time(&what, run, &collector, move |key| {
            let answer = asked.get::<Account>(key).ask(Question);
            async move { matches!(answer.await, Ok(Some(_))) }
        })?;
        drop(askers);
        (0..SERVICE_KEYS).for_each(|key| sent(entities.get::<Account>(key).tell(Close)));
        collector.settle(&what, run)?;
        Ok(measured)
    }
}

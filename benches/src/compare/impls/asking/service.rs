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
use crate::compare::peer::Contender;
use crate::compare::plan::{Impl, Run, Shape, ASKERS, SERVICE_KEYS};
use crate::compare::trial::{Collector, Measured, Trial};
use crate::error::BenchError;

/// A runtime for the askers of a group.
struct Askers {
    id: Impl,
    runtime: Arc<Runtime>,
    group: Group,
}

impl Askers {
    fn start(id: Impl, group: &Group) -> Result<Self, BenchError> {
        let runtime = Arc::new(runtime(id, group.metrics().workers.len())?);
        Ok(Self { id, runtime, group: group.clone() })
    }

    /// How often a thread was woken: tokio's, and the group's if it has its own.
    fn wakes(&self) -> Option<u64> {
        let workers = self.group.metrics().workers;
        let own =
            workers.iter().filter(|_| !self.id.is_hosted()).map(|worker| worker.wakes).sum::<u64>();
        Some(own + wakes(self.runtime.handle()))
    }

    /// Times the askers; `ask` answers whether there was an answer.
    fn time<F: Future<Output = bool> + Send>(
        &self,
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
        trial.end(&run.what(self.id), run, collector, || self.wakes())
    }
}

impl Turnwheel {
    pub(in crate::compare::impls) fn service(&self, run: &Run) -> Result<Measured, BenchError> {
        self.serve(run, Askers::start(Impl::Turnwheel, &self.group)?)
    }

    fn serve(&self, run: &Run, askers: Askers) -> Result<Measured, BenchError> {
        let what = run.what(askers.id);
        let collector = Collector::new(ASKERS);
        let server = |key| (key, self.spawn(Server::new(Answers::new(run, &collector), None)));
        let servers: Arc<Servers<_>> = Arc::new((0..SERVICE_KEYS).map(server).collect());
        let asked = Arc::clone(&servers);
        let measured = askers.time(run, &collector, move |key| {
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
        self.serve(run, Askers::start(Impl::TurnwheelActors, &self.group)?)
    }

    fn serve(&self, run: &Run, askers: Askers) -> Result<Measured, BenchError> {
        let what = run.what(askers.id);
        let collector = Collector::new(ASKERS);
        let entities = Entities::new(&System::new(&self.group));
        for key in 0..SERVICE_KEYS {
            sent(entities.get::<Account>(key).tell(Open(Answers::new(run, &collector))));
        }
        let asked = entities.clone();
        let measured = askers.time(run, &collector, move |key| {
            let answer = asked.get::<Account>(key).ask(Question);
            async move { matches!(answer.await, Ok(Some(_))) }
        })?;
        drop(askers);
        (0..SERVICE_KEYS).for_each(|key| sent(entities.get::<Account>(key).tell(Close)));
        collector.settle(&what, run)?;
        Ok(measured)
    }
}

/// A group whose workers are tasks of the runtime that the askers run on.
pub(in crate::compare::impls) struct Hosted {
    id: Impl,
    side: Side,
    runtime: Arc<Runtime>,
}

enum Side {
    Tasks(Turnwheel),
    Actors(Actors),
}

impl Hosted {
    pub(in crate::compare::impls) fn start(id: Impl, workers: usize) -> Result<Self, BenchError> {
        let runtime = Arc::new(runtime(id, workers)?);
        let built = Group::builder("compare").workers(workers).build_hosted();
        let (group, workers) = built
            .map_err(|error| BenchError::Start { what: id.to_string(), why: error.to_string() })?;
        workers.into_iter().for_each(|worker| drop(runtime.spawn(worker)));
        let side = match id {
            Impl::TurnwheelHosted => Side::Tasks(Turnwheel { group }),
            _ => Side::Actors(Actors { system: System::new(&group), group }),
        };
        Ok(Self { id, side, runtime })
    }
}

impl Contender for Hosted {
    fn id(&self) -> Impl {
        self.id
    }

    fn run(&mut self, run: &Run) -> Result<Option<Measured>, BenchError> {
        if run.shape != Shape::Service {
            return Ok(None);
        }
        let runtime = Arc::clone(&self.runtime);
        let askers = |group: &Group| Askers { id: self.id, runtime, group: group.clone() };
        let measured = match &self.side {
            Side::Tasks(tasks) => tasks.serve(run, askers(&tasks.group)),
            Side::Actors(actors) => actors.serve(run, askers(&actors.group)),
        };
        measured.map(Some)
    }

    fn memory(&mut self, _: u64) -> Result<f64, BenchError> {
        unreachable!("the parent asks no hosted contender for it")
    }
}

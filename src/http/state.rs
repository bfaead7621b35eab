//! State shared by the handlers of requests.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::{watch, OwnedSemaphorePermit, Semaphore};
use turnwheel_engine::World;

use super::access::Access;
use super::code::Code;
use super::figures::Figures;
use super::health::Prober;
use super::options::Options;
use super::problem::Problem;
use super::rate::Rates;
use super::session::Sessions;

/// A world as it is offered over HTTP. Clones share it.
#[derive(Clone)]
pub(super) struct Api(Arc<Shared>);

struct Shared {
    world: World,
    options: Options,
    /// The rule in force: that of the options, until it is replaced.
    access: RwLock<Arc<Access>>,
    rates: Rates,
    sessions: Sessions,
    figures: Figures,
    prober: Prober,
    is_stopping: watch::Sender<bool>,
    /// Places of requests that wait.
    waits: Arc<Semaphore>,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("world", &self.0.world).finish_non_exhaustive()
    }
}

impl Api {
    pub(super) fn new(world: World, options: Options) -> Self {
        let prober = Prober::new(world.states(), options.health_fresh, options.probe_within);
        Self(Arc::new(Shared {
            rates: Rates::new(options.rate),
            sessions: Sessions::default(),
            figures: Figures::new(&world),
            prober,
            is_stopping: watch::Sender::new(false),
            waits: Arc::new(Semaphore::new(options.waits_max)),
            access: RwLock::new(Arc::new(options.access.clone())),
            world,
            options,
        }))
    }

    pub(super) fn world(&self) -> &World {
        &self.0.world
    }

    pub(super) fn options(&self) -> &Options {
        &self.0.options
    }

    pub(super) fn access(&self) -> Arc<Access> {
        Arc::clone(&self.0.access.read())
    }

    /// Sessions end, because their tokens may be gone.
    pub(super) fn replace_access(&self, access: Access) {
        *self.0.access.write() = Arc::new(access);
        self.0.sessions.end_all();
    }

    pub(super) fn rates(&self) -> &Rates {
        &self.0.rates
    }

    pub(super) fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }

    pub(super) fn figures(&self) -> &Figures {
        &self.0.figures
    }

    pub(super) fn prober(&self) -> &Prober {
        &self.0.prober
    }

    /// Refuses new work from now on; other requests are answered.
    pub(super) fn stop(&self) {
        self.0.is_stopping.send_replace(true);
    }

    pub(super) fn is_stopping(&self) -> bool {
        *self.0.is_stopping.borrow()
    }

    /// Ends when the server stops.
    pub(super) fn stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut stopping = self.0.is_stopping.subscribe();
        async move {
            // Without a sender the server is gone.
            let _gone = stopping.wait_for(|is_stopping| *is_stopping).await;
        }
    }

    /// Takes a place for a request that waits: a stream of events, or a request that is answered
    /// when something has happened. It is free again when this is dropped.
    pub(super) fn wait(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.0.waits).try_acquire_owned().map_err(|_| {
            let detail = format!(
                "{} requests wait already, which is as many as may: streams of events and waits \
                 for plans, tasks and outputs. Ask again soon, or without a wait",
                self.options().waits_max
            );
            Problem::new(Code::ConnectionsFull, detail).again_after(1)
        })
    }

    /// Refuses new work while the server stops.
    pub(super) fn takes_work(&self) -> Result<(), Problem> {
        if self.is_stopping() {
            return Err(stopping());
        }
        Ok(())
    }
}

/// The answer to new work while the server stops.
pub(super) fn stopping() -> Problem {
    let detail = "the server is stopping and takes nothing new: ask again soon";
    Problem::new(Code::StopUnderWay, detail).again_after(5)
}

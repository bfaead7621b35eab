//! Whether the server does its work: a write to its store is durable within seconds.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use turnwheel_actors::entity::{StateStore, StoreError};
use turnwheel_engine::Time;

/// Under which name the store keeps the time of the last probe.
const ENTITY: &str = "turnwheel.health";
const KEY: &str = "probe";

/// Writers of states carry an epoch. Probes do not compete for a key, so all have the same.
const EPOCH: u64 = 1;

/// Commits to the store for a health check, and remembers the outcome for a while.
pub(super) struct Prober {
    states: Arc<dyn StateStore>,
    fresh: Duration,
    within: Duration,
    /// The holder of the lock probes; the others wait for its outcome.
    last: tokio::sync::Mutex<Option<(Instant, Probe)>>,
}

impl fmt::Debug for Prober {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prober").field("fresh", &self.fresh).finish_non_exhaustive()
    }
}

/// Outcome of a probe.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    pub(super) committed_at: Option<Time>,
    pub(super) took: Duration,
    pub(super) problem: Option<String>,
}

impl Prober {
    pub(super) fn new(states: Arc<dyn StateStore>, fresh: Duration, within: Duration) -> Self {
        Self { states, fresh, within, last: tokio::sync::Mutex::new(None) }
    }

    /// The outcome of a probe that is fresh; at most one is under way.
    pub(super) async fn probe(&self) -> Probe {
        let mut last = self.last.lock().await;
        if let Some((at, probe)) = &*last {
            // A bad outcome expires sooner, so that a repair shows soon.
            let fresh = if probe.problem.is_none() { self.fresh } else { self.fresh / 5 };
            if at.elapsed() < fresh {
                return probe.clone();
            }
        }
        let began = Instant::now();
        let committed = tokio::time::timeout(self.within, self.commit()).await;
        let problem = match committed {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("nothing was committed within {:?}", self.within)),
        };
        let at = Time::from(std::time::SystemTime::now());
        let before = last.as_ref().and_then(|(_, probe)| probe.committed_at);
        let committed_at = if problem.is_none() { Some(at) } else { before };
        let probe = Probe { committed_at, took: began.elapsed(), problem };
        *last = Some((Instant::now(), probe.clone()));
        probe
    }

    async fn commit(&self) -> Result<(), StoreError> {
        let known = self.states.load(ENTITY, KEY).await?;
        let at = Time::from(std::time::SystemTime::now()).to_string().into_bytes();
        match self.states.save(ENTITY, KEY, at, known.version, EPOCH).await {
            // Another server over the same store has just done it.
            Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

//! Whether the server does its work: a write to its store is durable within seconds.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;
use turnwheel_actors::entity::{StateStore, StoreError};
use turnwheel_engine::Time;

/// Under which name the store keeps the time of the last probe.
const ENTITY: &str = "turnwheel.health";
const KEY: &str = "probe";

/// Writers of states carry an epoch. Probes do not compete for a key, so all have the same.
const EPOCH: u64 = 1;

/// Time for which an answer waits for a probe, if the one before is recent.
const ANSWER_WITHIN: Duration = Duration::from_millis(50);

/// Commits to the store for a health check, and remembers the outcome for a while. Clones share it.
#[derive(Clone)]
pub(super) struct Prober(Arc<Shared>);

struct Shared {
    states: Arc<dyn StateStore>,
    fresh: Duration,
    within: Duration,
    probing: Mutex<bool>,
    last: watch::Sender<Option<(Instant, Probe)>>,
    /// Writes that were refused, and those of them before the last probe that has an outcome: an
    /// outcome is not believed after a later one.
    doubts: AtomicU64,
    settled: AtomicU64,
}

impl fmt::Debug for Prober {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prober").field("fresh", &self.0.fresh).finish_non_exhaustive()
    }
}

/// Outcome of a probe.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    pub(super) committed_at: Option<Time>,
    pub(super) took: Duration,
    pub(super) problem: Option<String>,
}

/// Ends the mark of a probe that is under way, also if the probe is dropped.
struct Probing<'a>(&'a Shared);

impl Drop for Probing<'_> {
    fn drop(&mut self) {
        *self.0.probing.lock() = false;
    }
}

impl Prober {
    pub(super) fn new(states: Arc<dyn StateStore>, fresh: Duration, within: Duration) -> Self {
        let (probing, last) = (Mutex::new(false), watch::Sender::new(None));
        let (doubts, settled) = (AtomicU64::new(0), AtomicU64::new(0));
        Self(Arc::new(Shared { states, fresh, within, probing, last, doubts, settled }))
    }

    /// A write was refused by the store: the next check probes it anew.
    pub(super) fn doubt(&self) {
        self.0.doubts.fetch_add(1, Ordering::Relaxed);
    }

    /// The last outcome; that nothing is known to be wrong if there is none.
    pub(super) fn last(&self) -> Probe {
        let last = self.0.last.borrow().as_ref().map(|(_, probe)| probe.clone());
        last.unwrap_or(Probe { committed_at: None, took: Duration::ZERO, problem: None })
    }

    /// The outcome of a probe that is fresh; at most one is under way.
    ///
    /// A store that takes long does not hold up the answer: after [`ANSWER_WITHIN`] it is the
    /// outcome before, if that is not older than a probe may take.
    pub(super) async fn probe(&self) -> Probe {
        let shared = &*self.0;
        let mut outcomes = shared.last.subscribe();
        let before = outcomes.borrow_and_update().clone();
        let before = before.filter(|(_, probe)| probe.problem.is_some() || !shared.is_doubted());
        if let Some((at, probe)) = &before {
            // A bad outcome expires sooner, so that a repair shows soon.
            let fresh = if probe.problem.is_none() { shared.fresh } else { shared.fresh / 5 };
            if at.elapsed() < fresh {
                return probe.clone();
            }
        }
        let is_first = !std::mem::replace(&mut *shared.probing.lock(), true);
        if is_first {
            let prober = self.clone();
            // Not in this request, which its client may give up.
            tokio::spawn(async move { prober.0.commit_and_tell().await });
        }
        let recent = before.filter(|(at, probe)| {
            probe.problem.is_none() && at.elapsed() < shared.fresh + shared.within
        });
        let within = if recent.is_some() { ANSWER_WITHIN } else { shared.within };
        match tokio::time::timeout(within, outcomes.changed()).await {
            Ok(_) => outcomes.borrow().clone().map(|(_, probe)| probe),
            Err(_) => recent.map(|(_, probe)| probe),
        }
        .unwrap_or_else(|| shared.outcome(shared.within, Some(shared.too_long())))
    }
}

impl Shared {
    fn is_doubted(&self) -> bool {
        self.doubts.load(Ordering::Relaxed) != self.settled.load(Ordering::Relaxed)
    }

    async fn commit_and_tell(&self) {
        let probing = Probing(self);
        let doubts = self.doubts.load(Ordering::Relaxed);
        let began = Instant::now();
        let problem = match tokio::time::timeout(self.within, self.commit()).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(self.too_long()),
        };
        let probe = self.outcome(began.elapsed(), problem);
        drop(probing);
        self.last.send_replace(Some((Instant::now(), probe)));
        self.settled.store(doubts, Ordering::Relaxed);
    }

    fn too_long(&self) -> String {
        format!("nothing was committed within {:?}", self.within)
    }

    fn outcome(&self, took: Duration, problem: Option<String>) -> Probe {
        let before = self.last.borrow().as_ref().and_then(|(_, probe)| probe.committed_at);
        let now = Time::from(std::time::SystemTime::now());
        let committed_at = if problem.is_none() { Some(now) } else { before };
        Probe { committed_at, took, problem }
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

#[cfg(test)]
mod tests {
    use turnwheel_actors::entity::{MemoryStore, Record, StoreFuture};

    use super::*;

    /// A store whose second write and those after it never end.
    #[derive(Debug, Default)]
    struct Hanging {
        store: MemoryStore,
        writes: Mutex<u32>,
    }

    impl StateStore for Hanging {
        fn load<'a>(&'a self, entity: &'a str, key: &'a str) -> StoreFuture<'a, Record> {
            self.store.load(entity, key)
        }

        fn save<'a>(
            &'a self,
            entity: &'a str,
            key: &'a str,
            bytes: Vec<u8>,
            expected: u64,
            epoch: u64,
        ) -> StoreFuture<'a, u64> {
            let mut writes = self.writes.lock();
            *writes += 1;
            match *writes {
                1 => self.store.save(entity, key, bytes, expected, epoch),
                _ => Box::pin(std::future::pending()),
            }
        }

        fn clear<'a>(
            &'a self,
            entity: &'a str,
            key: &'a str,
            expected: u64,
            epoch: u64,
        ) -> StoreFuture<'a, u64> {
            self.store.clear(entity, key, expected, epoch)
        }
    }

    #[test]
    fn health_does_not_wait_for_a_store_that_hangs_after_a_recent_commit() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async {
            let hour = Duration::from_secs(3_600);
            let prober = Prober::new(Arc::<Hanging>::default(), Duration::ZERO, hour);
            let first = prober.probe().await;
            assert_eq!(first.problem, None);
            for _ in 0..3 {
                let later = prober.probe().await;
                assert_eq!(later.problem, None);
                assert_eq!(later.committed_at, first.committed_at, "it is the one before");
            }
        });
    }

    #[test]
    fn nobody_is_told_of_a_commit_before_a_refused_write_while_the_store_is_probed_anew() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async {
            let (hour, within) = (Duration::from_secs(3_600), 4 * ANSWER_WITHIN);
            let prober = Prober::new(Arc::<Hanging>::default(), hour, within);
            assert_eq!(prober.probe().await.problem, None);
            prober.doubt();
            let (first, second) = tokio::join!(prober.probe(), prober.probe());
            assert!(first.problem.is_some() && second.problem.is_some());
        });
    }

    #[test]
    fn store_that_hangs_for_too_long_is_a_problem() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async {
            let (store, within) = (Arc::<Hanging>::default(), Duration::from_millis(1));
            let prober = Prober::new(store, Duration::ZERO, within);
            let first = prober.probe().await;
            while prober.probe().await.problem.is_none() {}
            let bad = prober.probe().await;
            assert!(bad.problem.expect("it is told").contains("within 1ms"));
            assert_eq!(bad.committed_at, first.committed_at);
        });
    }
}

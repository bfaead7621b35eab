//! Work for programs in other languages: a step offers its input, and waits for the answer.
//!
//! A plan with the action [`External`] offers its input under a *topic*. External programs lease
//! offers, send heartbeats, and complete or fail them; over HTTP they do so at `api/v1/work`.
//!
//! 1. The step writes its offer to the store and is suspended: no thread, next to no memory.
//! 2. A lease moves the offer's time to the end of the lease, in a write that fails if another
//!    worker was sooner. So an offer is with one worker at a time, even after a crash of the
//!    server.
//! 3. A lease that ends without an answer makes the offer ready again: the next worker gets it,
//!    with the number of the delivery. The former worker is refused from then on.
//!    Each offer wakes one waiting worker of its topic.
//! 4. The worker's answer becomes an event of the step, with an id, so that a repeated answer
//!    counts once. After that the offer is removed; an offer left by a crash is removed when it is
//!    found.
//!
//! Offers are among the reminders of the store, ordered by the time when they are ready: entity
//! `turnwheel.work`.

mod external;
mod offer;
mod waiting;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use turnwheel_actors::entity::{DueRange, ReminderStore, StoreError};
use turnwheel_engine::{PlanId, StepId, World, WorldBuilder};

pub use external::{External, ExternalCall, ExternalTask, Outcome};
pub use offer::{Offer, OfferId, OfferIdError};
use waiting::Waiting;

/// Number of further looks for offers after other workers were sooner.
const ROUNDS: usize = 16;

/// Time in which a worker must answer or send a heartbeat, by default.
pub const LEASE: Duration = Duration::from_secs(30);

/// The longest lease: a worker that is gone must not keep a task for ever.
pub const LEASE_MAX: Duration = Duration::from_secs(12 * 3_600);

/// Number of offers of a topic that are counted; of more it is only said that there are more.
const COUNTED_MAX: usize = 1_000;

/// Leases offers of steps. Clones share it.
#[derive(Clone)]
pub struct Workers {
    store: watch::Sender<Option<Arc<dyn ReminderStore>>>,
    waiting: Arc<Waiting>,
}

/// The offers of a topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backlog {
    /// Tasks without a worker.
    pub ready: u32,
    /// Tasks that workers have.
    pub leased: u32,
    /// When the one was offered that has been ready longest, in milliseconds since the begin of
    /// 1970.
    pub oldest_ms: Option<u64>,
    /// Whether there are more than these.
    pub is_more: bool,
}

/// External work for a world that is described.
pub trait WithWorkers {
    /// Lets steps offer work to these workers: the actions [`External`] and [`ExternalCall`].
    #[must_use]
    fn workers(self, workers: &Workers) -> Self;
}

impl WithWorkers for WorldBuilder {
    fn workers(self, workers: &Workers) -> Self {
        let call = ExternalCall(workers.action());
        self.action(workers.action()).action(call)
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").finish_non_exhaustive()
    }
}

impl Default for Workers {
    fn default() -> Self {
        Self::new()
    }
}

/// A task is not this worker's.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// The lease is over, and another worker may have the task; or it was answered.
    #[error("the lease is over: stop working on it, another worker has the task or it is done")]
    Lost,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Workers {
    /// Without a world; steps with an offer wait until there is one.
    pub fn new() -> Self {
        Self { store: watch::Sender::new(None), waiting: Arc::default() }
    }

    /// The action that offers its input, for the builder of the world. Flows need
    /// [`WithWorkers::workers`] instead.
    pub fn action(&self) -> External {
        External::new(self.store.subscribe(), Arc::clone(&self.waiting))
    }

    /// Keeps offers in the store of this world.
    pub fn attach(&self, world: &World) {
        self.store.send_replace(Some(world.reminders()));
    }

    fn store(&self) -> Result<Arc<dyn ReminderStore>, StoreError> {
        let store = self.store.borrow().clone();
        store.ok_or_else(|| StoreError::Failed("no world keeps the offers of steps".to_owned()))
    }

    /// Leases up to `limit` tasks of these topics, the longest waiting first.
    ///
    /// Cost: a look for each topic, regardless of the number of offers, and a write for each task.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn lease(
        &self,
        topics: &[String],
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<Offer>, StoreError> {
        let store = self.store()?;
        let mut leased = Vec::new();
        for _ in 0..ROUNDS {
            let mut ready = Vec::new();
            for topic in topics {
                let most = limit - leased.len();
                let range = DueRange::until(offer::now_ms(), most).of(offer::ENTITY, topic);
                ready.extend(store.list(&range).await?.into_iter().filter_map(Offer::of));
            }
            ready.sort_by_key(Offer::until_ms);
            let mut was_late = false;
            for mut offer in ready {
                if leased.len() == limit {
                    break;
                }
                offer.begin_lease(lease);
                match offer.write(&*store).await {
                    Ok(()) => leased.push(offer),
                    // Another worker was sooner.
                    Err(StoreError::Conflict { .. }) => was_late = true,
                    // The tasks leased so far are the worker's: they must reach it.
                    Err(_) if !leased.is_empty() => return Ok(leased),
                    Err(error) => return Err(error),
                }
            }
            if leased.len() == limit || !was_late {
                break;
            }
        }
        Ok(leased)
    }

    /// Waits until a task of these topics is offered after the call, or for so long. Each offer
    /// wakes one worker; one that stops waiting before it is told passes that on to the next.
    pub fn wait(&self, topics: &[String], limit: Duration) -> impl Future<Output = ()> + Send + '_ {
        // It counts from here on, also before it is polled.
        let mut place = self.waiting.join(topics);
        async move {
            let _late = tokio::time::timeout(limit, place.woken()).await;
        }
    }

    /// Counts the tasks of a topic, at most a thousand.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn backlog(&self, topic: &str) -> Result<Backlog, StoreError> {
        let now_ms = offer::now_ms();
        let range = DueRange::until(i64::MAX as u64, COUNTED_MAX + 1).of(offer::ENTITY, topic);
        let rows = self.store()?.list(&range).await?;
        let mut backlog = Backlog { is_more: rows.len() > COUNTED_MAX, ..Backlog::default() };
        for row in rows.iter().take(COUNTED_MAX) {
            if row.due_ms > now_ms {
                backlog.leased += 1;
                continue;
            }
            backlog.ready += 1;
            let oldest_ms = backlog.oldest_ms.unwrap_or(u64::MAX);
            backlog.oldest_ms = Some(oldest_ms.min(row.first_due_ms));
        }
        Ok(backlog)
    }

    /// The task that a worker has, if its lease is not over.
    ///
    /// # Errors
    ///
    /// It is not this worker's any more, or the store failed.
    pub async fn held(&self, id: &OfferId) -> Result<Offer, LeaseError> {
        let row = self.store()?.get(&id.row()).await?;
        let offer = row.and_then(Offer::of).filter(|offer| offer.is_leased_as(id.lease));
        offer.ok_or(LeaseError::Lost)
    }

    /// Whether the task of a lease is still offered, with this lease or another one: nobody has
    /// answered it.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn is_offered(&self, id: &OfferId) -> Result<bool, StoreError> {
        Ok(self.store()?.get(&id.row()).await?.and_then(Offer::of).is_some())
    }

    /// Makes a lease so long from now on; as long as it was made before if nothing is said.
    ///
    /// # Errors
    ///
    /// The task is not this worker's any more, or the store failed.
    pub async fn prolong(
        &self,
        mut offer: Offer,
        lease: Option<Duration>,
    ) -> Result<Offer, LeaseError> {
        offer.prolong(lease);
        match offer.write(&*self.store()?).await {
            Ok(()) => Ok(offer),
            Err(StoreError::Conflict { .. }) => Err(LeaseError::Lost),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives a task back that was not worked on: the next worker gets it at once, and its delivery
    /// does not count.
    ///
    /// # Errors
    ///
    /// The task is not this worker's any more, or the store failed.
    pub async fn release(&self, mut offer: Offer) -> Result<(), LeaseError> {
        offer.release();
        match offer.write(&*self.store()?).await {
            Ok(()) => {
                self.waiting.offered(&offer.topic);
                Ok(())
            }
            Err(StoreError::Conflict { .. }) => Err(LeaseError::Lost),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a task that was answered, or whose step does not wait any more.
    ///
    /// # Errors
    ///
    /// The store failed: the task is leased again, and then found to be over.
    pub async fn remove(&self, offer: &Offer) -> Result<(), StoreError> {
        match offer.remove(&*self.store()?).await {
            // Another thread removes it, or another worker has the task now.
            Err(StoreError::Conflict { .. }) => Ok(()),
            outcome => outcome,
        }
    }
}

/// Id of the event with the outcome: one for each attempt, however often it is sent.
pub fn event_id(plan: PlanId, step: StepId, attempt: u32) -> String {
    format!("work/{plan}/{step}/{attempt}")
}

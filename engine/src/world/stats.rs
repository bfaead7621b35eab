//! Statistics of a world.

use serde::Serialize;
use turnwheel_actors::Entities;
use turnwheel_runtime::{Failure, Group};

use super::{Asking, QueueStatus, World};
use crate::error::{PlanError, StoreError};
use crate::id::PlanId;
use crate::journal::JournalStats;
use crate::plan::Waiting;
use crate::store::{Filter, Order};
use crate::time::Time;

/// Statistics of a world, counted since its begin.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// When it was asked.
    pub at: Time,
    /// When the world began.
    pub since: Time,
    /// Plans, steps and commits.
    #[serde(flatten)]
    pub journal: JournalStats,
    /// The queues, the default one first.
    pub queues: Vec<QueueStatus>,
    /// Events that could not be delivered.
    pub dead_letters: u64,
    /// Locks that plans have or wait for.
    pub locks: u64,
}

/// The plans that wait for the same kind of thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WaitingPlans {
    /// Their reason for waiting.
    pub waiting: Waiting,
    /// Number of plans.
    pub plans: u64,
    /// The oldest plan, and its time of creation.
    pub oldest: Option<(PlanId, Time)>,
    /// Reason of the oldest plan's wait, in words for people.
    pub text: String,
}

impl World {
    /// The groups of workers that it runs in: that of its plans, and the one that waits for the disk.
    pub fn groups(&self) -> Vec<Group> {
        vec![self.shared.group.clone(), self.shared.hub.group.clone()]
    }

    /// The entities that its plans are: for looking at.
    pub fn plan_entities(&self) -> &Entities {
        &self.shared.plans
    }

    /// Statistics of the world. Cost: one request to the journal's writer; that writer counts for
    /// each entry, with two clock reads for each commit.
    ///
    /// # Errors
    ///
    /// The world was shut down.
    pub fn stats(&self) -> Asking<Stats, StoreError> {
        let world = self.clone();
        Asking::new(async move {
            let shared = &world.shared;
            let journal = shared.journal().stats().await;
            let journal = journal.map_err(|failure: Failure| StoreError::unanswered(&failure))?;
            Ok(Stats {
                at: shared.now(),
                since: shared.began(),
                journal,
                queues: world.queues(),
                dead_letters: shared.letters.counted(),
                locks: world.locks().len() as u64,
            })
        })
    }

    /// Reasons for waiting: for each kind the number of plans, and the oldest of them. The most
    /// frequent ones come first.
    ///
    /// Cost: a handful of rows, regardless of the number of plans.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub fn waiting(&self) -> Asking<Vec<WaitingPlans>, PlanError> {
        let world = self.clone();
        Asking::new(async move {
            let found = world.ask(|reader| {
                let mut all: Vec<WaitingPlans> = Vec::new();
                for count in reader.counts()? {
                    if count.waits == Waiting::Nothing || count.plans == 0 {
                        continue;
                    }
                    match all.iter_mut().find(|known| known.waiting == count.waits) {
                        Some(known) => known.plans += count.plans,
                        None => all.push(WaitingPlans {
                            waiting: count.waits,
                            plans: count.plans,
                            oldest: None,
                            text: String::new(),
                        }),
                    }
                }
                for known in &mut all {
                    let (waits, order) = (vec![known.waiting], Order::OldestFirst);
                    let filter = Filter { waits, order, limit: 1, ..Filter::default() };
                    if let Some(row) = reader.list(&filter)?.into_iter().next() {
                        known.oldest = Some((row.id, row.created_at));
                        known.text = row.waits_for;
                    }
                }
                all.sort_by_key(|known| (std::cmp::Reverse(known.plans), known.waiting));
                Ok(all)
            });
            Ok(found.await?)
        })
    }
}

//! The worlds over a store, for people: registered, answering, or dead.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::entities::has_entities;
use super::hub::{Hub, Patience};
use super::{shares, QueueStatus, Shared, World};
use crate::connect::ConnectError;
use crate::error::StoreError;
use crate::id::PlanId;
use crate::limits::PING_LIMIT;
use crate::store::{slot_of, Slots, WorldKind, WorldRow, Worlds};
use crate::time::Time;

/// Description that a world gives of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Meta {
    /// The version of the engine.
    pub version: String,
    /// The machine.
    pub host: String,
    /// The process.
    pub process: u32,
    /// The actions that it knows, by name; none if it runs no plans.
    pub actions: Vec<String>,
    /// Its queues with their sizes; none if it runs no plans.
    pub queues: Vec<(String, u32)>,
    /// Entries given to its builder, or by [`World::describe`].
    pub given: Vec<(String, String)>,
}

impl Meta {
    pub(super) fn here(
        actions: Vec<String>,
        queues: &[QueueStatus],
        given: Vec<(String, String)>,
    ) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: host.trim().to_owned(),
            process: std::process::id(),
            actions,
            queues: queues.iter().map(|queue| (queue.name.clone(), queue.size)).collect(),
            given,
        }
    }

    pub(super) fn of(row: &WorldRow) -> Self {
        serde_json::from_str(&row.meta).unwrap_or_default()
    }

    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).expect("it is made of texts and numbers")
    }

    /// The value of an entry that was given.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.given.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }
}

/// A world that is registered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorldView {
    /// Its number: later worlds have higher ones. It is the epoch of all its writes.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: WorldKind,
    /// When it was registered.
    pub since: Time,
    /// When it was last heard of by this process, if it was asked.
    pub heard: Option<Time>,
    /// In how many of [`SLOTS`](crate::store::SLOTS) parts it owns the plans.
    pub slots: usize,
    /// Its description of itself.
    pub meta: Meta,
}

impl WorldView {
    pub(super) fn of(row: &WorldRow, heard: Option<Time>) -> Self {
        Self {
            id: row.epoch,
            name: row.name.clone(),
            kind: row.kind,
            since: row.since,
            heard,
            slots: row.slots.len(),
            meta: Meta::of(row),
        }
    }
}

impl WorldView {
    /// The worlds of a table, the oldest first.
    pub fn all(worlds: &Worlds) -> Vec<Self> {
        worlds.rows.iter().map(|row| Self::of(row, None)).collect()
    }
}

/// Outcome of a check of a world.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Health {
    /// It answers.
    Valid,
    /// It does not, and is left as it is.
    Invalid(ConnectError),
    /// It did not, and is gone now: other worlds have its plans.
    Invalidated(ConnectError),
}

/// Treatment of worlds that do not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Only say so.
    Look,
    /// [Invalidate](World::invalidate) them.
    Invalidate,
}

impl World {
    /// The number of this world.
    pub fn id(&self) -> u64 {
        self.shared().epoch()
    }

    /// The worlds that this one found dead at its begin: their processes ended without closing, by
    /// a crash, by `kill -9` or by a loss of power. Their active plans continue here.
    ///
    /// ```
    /// use turnwheel_engine::{MemoryStore, World};
    ///
    /// let world = World::builder().build(MemoryStore::new())?;
    /// assert!(world.predecessors().is_empty());
    /// # world.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn predecessors(&self) -> &[WorldView] {
        self.shared().predecessors()
    }

    /// The worlds that are registered with the store, the oldest first.
    pub fn worlds(&self) -> Vec<WorldView> {
        let hub = self.shared().hub();
        let heard = hub.heard.lock();
        let view = |row: &WorldRow| WorldView::of(row, heard.get(&row.epoch).copied());
        hub.worlds().rows.iter().map(view).collect()
    }

    /// The world that owns a plan, or would if there was one with this id. `None` as long as no executor
    /// is there: its plans wait in the store.
    pub fn owner_of(&self, plan: PlanId) -> Option<u64> {
        Some(self.shared().hub().worlds().owner(slot_of(plan))).filter(|owner| *owner != 0)
    }

    /// Asks a world for an answer, on the threads on which it runs plans.
    ///
    /// # Errors
    ///
    /// It is not registered, or does not answer within [`PING_LIMIT`](crate::limits::PING_LIMIT).
    pub async fn ping(&self, world: u64) -> Result<(), ConnectError> {
        self.ping_within(world, PING_LIMIT).await
    }

    /// As [`World::ping`], with another limit.
    ///
    /// # Errors
    ///
    /// As [`World::ping`].
    pub async fn ping_within(&self, world: u64, limit: Duration) -> Result<(), ConnectError> {
        let hub = Arc::clone(self.shared().hub());
        if hub.worlds().find(world).is_none() {
            return Err(ConnectError::Unknown { world });
        }
        hub.ping(self.id(), world, limit).await
    }

    /// As [`World::ping`], but a world that has answered this process within `age` is not asked again.
    ///
    /// # Errors
    ///
    /// As [`World::ping`].
    pub async fn ping_cached(&self, world: u64, age: Duration) -> Result<(), ConnectError> {
        let hub = self.shared().hub();
        let heard = hub.heard.lock().get(&world).copied();
        let is_registered = hub.worlds().find(world).is_some();
        if is_registered && heard.is_some_and(|heard| heard.after(age) >= self.shared().wall()) {
            return Ok(());
        }
        self.ping(world).await
    }

    /// Declares a world dead: its record is removed, with its locks, and other executors get its
    /// plans. Without one, its plans wait in the store for the next that starts. Returns whether it
    /// was registered.
    ///
    /// It is one commit; a second call changes nothing. If the world is alive after all, its later
    /// writes are refused; code that runs there may run until it returns, and is called again
    /// elsewhere, as after a crash.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub async fn invalidate(&self, world: u64) -> Result<bool, StoreError> {
        self.shared().hub().change(move |worlds| shares::leave(worlds, &[world])).await
    }

    /// Asks all other worlds, or only some, whether they are there.
    ///
    /// # Errors
    ///
    /// The store failed while one was invalidated.
    pub async fn check_worlds(
        &self,
        check: Check,
        only: Option<&[u64]>,
    ) -> Result<Vec<(u64, Health)>, StoreError> {
        let mut found = Vec::new();
        for row in &self.shared().hub().worlds().rows {
            let world = row.epoch;
            if world == self.id() || only.is_some_and(|only| !only.contains(&world)) {
                continue;
            }
            let health = match self.ping(world).await {
                Ok(()) => Health::Valid,
                Err(why) if check == Check::Look => Health::Invalid(why),
                Err(why) => {
                    self.invalidate(world).await?;
                    Health::Invalidated(why)
                }
            };
            found.push((world, health));
        }
        Ok(found)
    }
}

impl Hub {
    /// The worlds that do not answer.
    pub(super) async fn dead(self: &Arc<Self>) -> Vec<WorldView> {
        let mut dead = Vec::new();
        for row in &self.worlds().rows {
            if Arc::clone(self).ping(0, row.epoch, PING_LIMIT).await.is_err() {
                dead.push(WorldView::of(row, None));
            }
        }
        dead
    }

    /// The slots that a world of this kind may not take when it joins: plans are under way in them,
    /// or their nodes have entities, which end in order before their slots are given.
    pub(super) async fn live_slots(&self, kind: WorldKind) -> Result<Slots, StoreError> {
        let lost = |failure: turnwheel_runtime::Failure| StoreError::unanswered(&failure);
        let others = self.worlds().rows.iter().any(|row| row.kind == WorldKind::Executor);
        if !others || kind != WorldKind::Executor {
            return Ok(Slots::default());
        }
        self.journal.flush().await.map_err(lost)??;
        let mut live = self.journal.read(|reader| reader.live()).await.map_err(lost)??;
        let worlds = self.worlds();
        let have = worlds.rows.iter().filter(|row| self.node.is_some() && has_entities(row));
        have.for_each(|row| row.slots.iter().for_each(|slot| live.add(slot)));
        Ok(live)
    }
}

impl Shared {
    fn predecessors(&self) -> &[WorldView] {
        &self.predecessors
    }

    /// Waiters for plans that this world does not own any more wait at the new owner.
    pub(crate) fn give_watchers_away(self: &Arc<Self>) {
        for (plan, watchers) in self.watchers().leave(|plan| self.owns(plan)) {
            for watcher in watchers {
                self.look_elsewhere(plan, false, watcher);
            }
        }
    }
}

/// A wait for the end of a plan survives the end of worlds.
pub(super) const FOR_THE_END: Patience = Patience { limit: None, waits: true, repeats: true };

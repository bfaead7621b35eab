//! The definitions in the store of a world, and how nodes learn of changes.
//!
//! Each journey is a state. One more state, the index, gives each new journey its number, and is
//! written after each change: a node whose catalogue was read at another version of the index reads
//! the definitions again. Users enter a definition only after the index names it, so no node finds
//! a pass whose definition it cannot read.

use std::sync::Arc;

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use turnwheel_actors::entity::{Record, StoreError};
use turnwheel_engine::store::StateScan;
use turnwheel_engine::TimedStates;

use crate::catalogue::{Catalogue, Kept};
use crate::definition::Definition;
use crate::error::JourneyError;
use crate::limits::{CONFLICTS_MAX, LIST_PAGE, VERSIONS_MAX};

/// Name of the states of definitions.
const JOURNEY: &str = "turnwheel.journey";

/// Name and key of the index.
pub(crate) const INDEX: (&str, &str) = ("turnwheel.journeys", "index");

/// Content of the index.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Index {
    /// The last number that was given to a journey.
    last: u32,
}

/// The definitions of a store.
#[derive(Debug)]
pub(crate) struct Definitions {
    states: TimedStates,
    /// Replaced as a whole.
    current: RwLock<Arc<Catalogue>>,
}

impl Definitions {
    pub(crate) async fn open(states: TimedStates) -> Result<Arc<Self>, JourneyError> {
        let definitions = Arc::new(Self { states, current: RwLock::default() });
        definitions.refresh().await?;
        Ok(definitions)
    }

    pub(crate) fn states(&self) -> &TimedStates {
        &self.states
    }

    pub(crate) fn current(&self) -> Arc<Catalogue> {
        Arc::clone(&self.current.read())
    }

    /// Reads definitions if some have changed.
    pub(crate) async fn look(&self) -> Result<Arc<Catalogue>, JourneyError> {
        let (_, version) = self.index().await?;
        self.reach(version).await
    }

    /// Reads definitions unless they are known as of this version of the index.
    pub(crate) async fn reach(&self, version: u64) -> Result<Arc<Catalogue>, JourneyError> {
        let known = self.current();
        if version <= known.seen {
            return Ok(known);
        }
        self.refresh().await
    }

    /// Reads all definitions whose stored versions are not known yet.
    pub(crate) async fn refresh(&self) -> Result<Arc<Catalogue>, JourneyError> {
        // The index first: what changes while the definitions are read is read again.
        let (_, seen) = self.index().await?;
        let known = self.current();
        let (mut fresh, mut after) = (Catalogue::clone(&known), String::new());
        loop {
            let rows = self.states.list(JOURNEY, StateScan::After(after), LIST_PAGE).await;
            let rows = rows.map_err(JourneyError::failed)?;
            let Some(last) = rows.last() else { break };
            after = last.key.clone();
            for row in rows {
                fresh.take(&row.key, &row.record);
            }
        }
        fresh.seen = seen;
        let mut current = self.current.write();
        if !Arc::ptr_eq(&known, &current) {
            fresh.take_newer(&current);
        }
        fresh.order_starts();
        *current = Arc::new(fresh);
        Ok(Arc::clone(&current))
    }

    /// Adds a version of a journey, and returns its number. A text that is stored already adds none.
    pub(crate) async fn put(
        &self,
        definition: &Definition,
        text: &str,
        (at, by): (u64, &str),
    ) -> Result<(Arc<Catalogue>, u32), JourneyError> {
        let name = &definition.name;
        for _ in 0..CONFLICTS_MAX {
            let known = self.refresh().await?;
            let (mut kept, stored) = match known.journeys.get(name) {
                Some(known) => {
                    if known.kept.is_new(text) {
                        known.check_moves(definition)?;
                    }
                    (known.kept.clone(), known.stored)
                }
                None => (Kept::new(self.next_number(&known).await?), 0),
            };
            let is_new = kept.add(text, at, by);
            if kept.versions.len() > VERSIONS_MAX {
                let problem = format!("«{name}» has {VERSIONS_MAX} versions: give it a new name");
                return Err(JourneyError::Invalid { what: "journey", problem });
            }
            if !is_new || self.save(name, &kept, stored).await? {
                // A caller that was not answered asks again: then the index may be all that lacks.
                self.announce().await?;
                let version = kept.versions.last().map_or(0, |newest| newest.version);
                return Ok((self.refresh().await?, version));
            }
        }
        Err(JourneyError::failed("others change journeys all the time"))
    }

    /// Removes a journey. Its name keeps its versions.
    pub(crate) async fn remove(&self, name: &str, at: u64) -> Result<(), JourneyError> {
        for _ in 0..CONFLICTS_MAX {
            let known = self.refresh().await?;
            let known = known.journeys.get(name);
            let known = known.ok_or_else(|| JourneyError::Unknown(name.to_owned()))?;
            let mut kept = known.kept.clone();
            kept.remove(at);
            if known.kept.is_removed || self.save(name, &kept, known.stored).await? {
                self.announce().await?;
                self.refresh().await?;
                return Ok(());
            }
        }
        Err(JourneyError::failed("others change journeys all the time"))
    }

    /// Writes a journey; false if another caller has changed it meanwhile.
    async fn save(&self, name: &str, kept: &Kept, stored: u64) -> Result<bool, JourneyError> {
        let bytes = serde_json::to_vec(kept).map_err(JourneyError::failed)?;
        won(self.states.save(JOURNEY, name, (Some(bytes), None), stored).await)
    }

    async fn index(&self) -> Result<(Index, u64), JourneyError> {
        let Record { bytes, version } =
            self.states.load(INDEX.0, INDEX.1).await.map_err(JourneyError::failed)?;
        let index = bytes.map_or(Ok(Index::default()), |bytes| serde_json::from_slice(&bytes));
        Ok((index.map_err(JourneyError::failed)?, version))
    }

    /// Changes the index from what is stored.
    async fn change_index<T>(&self, change: impl Fn(&mut Index) -> T) -> Result<T, JourneyError> {
        for _ in 0..CONFLICTS_MAX {
            let (mut index, version) = self.index().await?;
            let changed = change(&mut index);
            let bytes = serde_json::to_vec(&index).map_err(JourneyError::failed)?;
            if won(self.states.save(INDEX.0, INDEX.1, (Some(bytes), None), version).await)? {
                return Ok(changed);
            }
        }
        Err(JourneyError::failed("others change journeys all the time"))
    }

    /// Tells all nodes that definitions have changed.
    pub(crate) async fn announce(&self) -> Result<(), JourneyError> {
        self.change_index(|_| ()).await
    }

    /// The same at a start, since a process may have ended between a definition and its place in the
    /// index. Returns false if the store takes no write, because it is full: that keeps no start
    /// from going on. Without journeys there is nothing to tell.
    pub(crate) async fn announce_at_start(&self) -> bool {
        if self.current().journeys.is_empty() {
            return true;
        }
        let announced = self.announce().await;
        if let Err(error) = &announced {
            tracing::warn!(%error, "the journeys are not announced to other nodes yet");
        }
        announced.is_ok()
    }

    /// A number that no other journey gets, whoever else adds one.
    async fn next_number(&self, known: &Catalogue) -> Result<u32, JourneyError> {
        let stored = known.last_number();
        self.change_index(|index| {
            index.last = index.last.max(stored) + 1;
            index.last
        })
        .await
    }
}

/// Whether a write was made, or lost against another one.
fn won(saved: Result<u64, StoreError>) -> Result<bool, JourneyError> {
    match saved {
        Ok(_) => Ok(true),
        Err(StoreError::Conflict { .. }) => Ok(false),
        Err(error) => Err(JourneyError::failed(error)),
    }
}

//! The jobs in the store of a world: a record for each, pages of its history, and the names.
//!
//! A name is listed before its record is written, so that a crash in between leaves a name without a
//! job, and never a job that nobody finds.

use std::collections::BTreeSet;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use turnwheel_actors::entity::{StateStore, StoreError};
use turnwheel_engine::Time;

use crate::launch::Launch;
use crate::limits::NAME_PARTS;
use crate::record::Record;

/// Entities of the states.
const JOB: &str = "turnwheel.job";
const PAGE: &str = "turnwheel.job.page";
const NAMES: &str = "turnwheel.job.names";
const PAUSE: &str = "turnwheel.job.pause";
const PAUSE_KEY: &str = "changes";

/// The only epoch of the writers: one process has the store.
const EPOCH: u64 = 1;

/// The states of jobs.
#[derive(Clone, Debug)]
pub(crate) struct JobStore {
    pub(crate) states: Arc<dyn StateStore>,
}

/// A part of the list of names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) names: BTreeSet<String>,
    pub(crate) version: u64,
}

/// The part of the list that has a name.
pub(crate) fn part_of(name: &str) -> u64 {
    let digest = Sha256::digest(name);
    u64::from(digest[0]) % NAME_PARTS
}

fn malformed(entity: &str, key: &str, problem: impl ToString) -> StoreError {
    let problem = problem.to_string();
    StoreError::Malformed { entity: entity.to_owned(), key: key.to_owned(), problem }
}

impl JobStore {
    pub(crate) async fn names(&self, part: u64) -> Result<Names, StoreError> {
        let key = part.to_string();
        let kept = self.states.load(NAMES, &key).await?;
        let names = match kept.bytes {
            Some(bytes) => {
                serde_json::from_slice(&bytes).map_err(|error| malformed(NAMES, &key, error))?
            }
            None => BTreeSet::new(),
        };
        Ok(Names { names, version: kept.version })
    }

    pub(crate) async fn save_names(&self, part: u64, names: Names) -> Result<u64, StoreError> {
        let bytes = serde_json::to_vec(&names.names).unwrap_or_default();
        self.states.save(NAMES, &part.to_string(), bytes, names.version, EPOCH).await
    }

    /// A record, or why it cannot be read, and its version.
    pub(crate) async fn load(&self, name: &str) -> Result<(Option<Record>, u64), StoreError> {
        let kept = self.states.load(JOB, name).await?;
        let record = kept.bytes.map(|bytes| Record::decode(&bytes)).transpose();
        Ok((record.map_err(|problem| malformed(JOB, name, problem))?, kept.version))
    }

    pub(crate) async fn save(
        &self,
        name: &str,
        bytes: Vec<u8>,
        version: u64,
    ) -> Result<u64, StoreError> {
        self.states.save(JOB, name, bytes, version, EPOCH).await
    }

    pub(crate) async fn clear(&self, name: &str, version: u64) -> Result<u64, StoreError> {
        self.states.clear(JOB, name, version, EPOCH).await
    }

    fn page_key(name: &str, made: Time, page: u64) -> String {
        format!("{name}/{}/{page}", made.0)
    }

    pub(crate) async fn page(
        &self,
        name: &str,
        made: Time,
        page: u64,
    ) -> Result<Vec<Launch>, StoreError> {
        let key = Self::page_key(name, made, page);
        let kept = self.states.load(PAGE, &key).await?;
        let Some(bytes) = kept.bytes else { return Ok(Vec::new()) };
        serde_json::from_slice(&bytes).map_err(|error| malformed(PAGE, &key, error))
    }

    pub(crate) async fn save_page(
        &self,
        name: &str,
        made: Time,
        page: u64,
        launches: &[Launch],
    ) -> Result<(), StoreError> {
        let key = Self::page_key(name, made, page);
        let bytes = serde_json::to_vec(launches).unwrap_or_default();
        // A write that was lost before may have left one.
        let version = self.states.load(PAGE, &key).await?.version;
        self.states.save(PAGE, &key, bytes, version, EPOCH).await.map(drop)
    }

    pub(crate) async fn clear_page(
        &self,
        name: &str,
        made: Time,
        page: u64,
    ) -> Result<(), StoreError> {
        let key = Self::page_key(name, made, page);
        let kept = self.states.load(PAGE, &key).await?;
        match kept.bytes {
            Some(_) => self.states.clear(PAGE, &key, kept.version, EPOCH).await.map(drop),
            None => Ok(()),
        }
    }

    /// The user that has paused changes, and the version of that.
    pub(crate) async fn paused(&self) -> Result<(Option<String>, u64), StoreError> {
        let kept = self.states.load(PAUSE, PAUSE_KEY).await?;
        let by = kept.bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Ok((by, kept.version))
    }

    pub(crate) async fn save_paused(
        &self,
        by: Option<String>,
        version: u64,
    ) -> Result<u64, StoreError> {
        match by {
            Some(by) => self.states.save(PAUSE, PAUSE_KEY, by.into_bytes(), version, EPOCH).await,
            None => self.states.clear(PAUSE, PAUSE_KEY, version, EPOCH).await,
        }
    }
}

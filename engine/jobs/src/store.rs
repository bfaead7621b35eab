//! The jobs in the store of a world: a record for each, and pages of its history.

use serde::Deserialize;
use turnwheel_actors::entity::StoreError;
use turnwheel_engine::store::{Hold, StateScan};
use turnwheel_engine::{Time, TimedStates, World};

use crate::launch::Launch;
use crate::limits::LOAD_PAGE;
use crate::record::Record;
use crate::spec::After;

/// Entities of the states.
const JOB: &str = "turnwheel.job";
const PAGE: &str = "turnwheel.job.page";
const PAUSE: &str = "turnwheel.job.pause";
const PAUSE_KEY: &str = "changes";

/// The states of jobs. A world that serves them writes as long as it has the slot: the commit
/// checks the epoch.
#[derive(Clone, Debug)]
pub(crate) struct JobStore {
    states: TimedStates,
    hold: Option<Hold>,
}

/// All that is stored, apart from older history.
pub(crate) struct Loaded {
    /// The jobs, by name.
    pub(crate) jobs: Vec<Stored>,
    /// The user that has paused changes, and the version of that.
    pub(crate) paused: (Option<String>, u64),
}

/// A job as it is stored.
pub(crate) struct Stored {
    pub(crate) name: String,
    pub(crate) bytes: Box<[u8]>,
    pub(crate) version: u64,
    /// When it is to be looked at again, if it is at rest.
    pub(crate) wakes: Option<Time>,
    /// Its parents.
    pub(crate) after: Vec<String>,
}

/// The fields of a record that are read of each job at the start.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    wakes: Option<Time>,
    spec: HeadSpec,
}

#[derive(Deserialize)]
struct HeadSpec {
    #[serde(default)]
    after: Vec<After>,
}

fn malformed(entity: &str, key: &str, problem: impl ToString) -> StoreError {
    let problem = problem.to_string();
    StoreError::Malformed { entity: entity.to_owned(), key: key.to_owned(), problem }
}

impl JobStore {
    /// To read, and to write beside no server.
    pub(crate) fn of(world: &World) -> Self {
        Self { states: world.timed_states(), hold: None }
    }

    /// To write as the world that serves.
    pub(crate) fn held(world: &World, hold: Hold) -> Self {
        Self { hold: Some(hold), ..Self::of(world) }
    }

    async fn write(
        &self,
        name: &str,
        key: &str,
        bytes: Option<Vec<u8>>,
        version: u64,
    ) -> Result<u64, StoreError> {
        match self.hold {
            Some(hold) => self.states.save_held(hold, name, key, (bytes, None), version).await,
            None => self.states.save(name, key, (bytes, None), version).await,
        }
    }

    /// Reads all jobs. One that cannot be read is logged and left alone.
    pub(crate) async fn load_all(&self) -> Result<Loaded, StoreError> {
        let (mut jobs, mut after) = (Vec::new(), String::new());
        loop {
            let page = self.states.list(JOB, StateScan::After(after), LOAD_PAGE).await?;
            let is_last = page.len() < LOAD_PAGE;
            after = page.last().map(|row| row.key.clone()).unwrap_or_default();
            for row in page {
                let Some(bytes) = row.record.bytes else { continue };
                let head = match serde_json::from_slice::<Head>(&bytes) {
                    Ok(head) => head,
                    Err(error) => {
                        tracing::error!(job = row.key, %error, "a job cannot be read");
                        continue;
                    }
                };
                jobs.push(Stored {
                    name: row.key,
                    bytes: bytes.into(),
                    version: row.record.version,
                    wakes: head.wakes,
                    after: head.spec.after.into_iter().map(|after| after.job).collect(),
                });
            }
            if is_last {
                return Ok(Loaded { jobs, paused: self.paused().await? });
            }
        }
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
        self.write(JOB, name, Some(bytes), version).await
    }

    pub(crate) async fn clear(&self, name: &str, version: u64) -> Result<u64, StoreError> {
        self.write(JOB, name, None, version).await
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
        self.write(PAGE, &key, Some(bytes), version).await.map(drop)
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
            Some(_) => self.write(PAGE, &key, None, kept.version).await.map(drop),
            None => Ok(()),
        }
    }

    async fn paused(&self) -> Result<(Option<String>, u64), StoreError> {
        let kept = self.states.load(PAUSE, PAUSE_KEY).await?;
        let by = kept.bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Ok((by, kept.version))
    }

    pub(crate) async fn save_paused(
        &self,
        by: Option<String>,
        version: u64,
    ) -> Result<u64, StoreError> {
        self.write(PAUSE, PAUSE_KEY, by.map(String::into_bytes), version).await
    }
}

//! State that outlives an activation: a versioned record for each entity, written compare-and-set.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::Serialize;

use super::{Activation, Entity, EntityContext, Fencing, Ownership};

/// A stored state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The stored bytes; `None` if there are none, or they were removed.
    pub bytes: Option<Vec<u8>>,
    /// Increases with each write, and continues after a removal; 0 is «never written».
    pub version: u64,
}

/// Why a state was not read or written.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the text of an error names its fields")]
pub enum StoreError {
    /// Another writer has written the state since it was read.
    #[error("{entity} «{key}»: version {expected} was expected and {found} found")]
    Conflict { entity: String, key: String, expected: u64, found: u64 },
    /// The writer's ownership of the key has ended.
    #[error("{entity} «{key}»: epoch {epoch} is over; another owner has begun epoch {newest}")]
    Fenced { entity: String, key: String, epoch: u64, newest: u64 },
    /// Another activation of the key has taken over, or this one is over: it writes no more.
    #[error("{entity} «{key}»: this activation was replaced and writes no more")]
    Replaced { entity: String, key: String },
    /// The type of the entity has no name to store its state under: all such types would share it.
    #[error("entity type `{type_name}` has no `NAME` to store its state under: give it one")]
    Nameless { type_name: &'static str },
    /// The state cannot be decoded, or not be written as it is: nothing was written.
    #[error("{entity} «{key}»: {problem}")]
    Malformed { entity: String, key: String, problem: String },
    /// The store has failed: nobody knows whether a write was made.
    #[error("the state store failed: {0}")]
    Failed(String),
}

/// A future of a store.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Storage of the state of entities. One behaviour suite runs against every store.
pub trait StateStore: Send + Sync + fmt::Debug {
    /// Reads a state.
    fn load<'a>(&'a self, entity: &'a str, key: &'a str) -> StoreFuture<'a, Record>;

    /// Writes a state if its version is still `expected` (0: there is none) and no later epoch has
    /// written; returns the new version.
    fn save<'a>(
        &'a self,
        entity: &'a str,
        key: &'a str,
        bytes: Vec<u8>,
        expected: u64,
        epoch: u64,
    ) -> StoreFuture<'a, u64>;

    /// Removes a state under the same conditions; answers the new version.
    fn clear<'a>(
        &'a self,
        entity: &'a str,
        key: &'a str,
        expected: u64,
        epoch: u64,
    ) -> StoreFuture<'a, u64>;
}

/// A state store in memory: for tests, and for state that may go with the process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    records: Mutex<HashMap<(String, String), Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: Option<Vec<u8>>,
    version: u64,
    epoch: u64,
}

impl MemoryStore {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    fn write(
        &self,
        (entity, key): (&str, &str),
        bytes: Option<Vec<u8>>,
        expected: u64,
        epoch: u64,
    ) -> Result<u64, StoreError> {
        let mut records = self.records.lock();
        let kept = records.entry((entity.to_owned(), key.to_owned())).or_default();
        let (entity, key) = (entity.to_owned(), key.to_owned());
        if epoch < kept.epoch {
            return Err(StoreError::Fenced { entity, key, epoch, newest: kept.epoch });
        }
        if kept.version != expected {
            return Err(StoreError::Conflict { entity, key, expected, found: kept.version });
        }
        *kept = Kept { bytes, version: expected + 1, epoch };
        Ok(kept.version)
    }
}

impl StateStore for MemoryStore {
    fn load<'a>(&'a self, entity: &'a str, key: &'a str) -> StoreFuture<'a, Record> {
        let records = self.records.lock();
        let kept = records.get(&(entity.to_owned(), key.to_owned()));
        let record = kept.map(|kept| Record { bytes: kept.bytes.clone(), version: kept.version });
        Box::pin(std::future::ready(Ok(record.unwrap_or_default())))
    }

    fn save<'a>(
        &'a self,
        entity: &'a str,
        key: &'a str,
        bytes: Vec<u8>,
        expected: u64,
        epoch: u64,
    ) -> StoreFuture<'a, u64> {
        let written = self.write((entity, key), Some(bytes), expected, epoch);
        Box::pin(std::future::ready(written))
    }

    fn clear<'a>(
        &'a self,
        entity: &'a str,
        key: &'a str,
        expected: u64,
        epoch: u64,
    ) -> StoreFuture<'a, u64> {
        Box::pin(std::future::ready(self.write((entity, key), None, expected, epoch)))
    }
}

/// A state of an entity that is read from, and written to, the store.
///
/// A change is made on a copy, which replaces the value in memory once it is written. A failed
/// write leaves the memory unchanged; the stored value may be another one then.
#[derive(Debug)]
pub struct Stored<T> {
    value: T,
    version: u64,
    home: Arc<Home>,
}

/// Origin of a stored state.
#[derive(Debug)]
pub(crate) struct Home {
    store: Arc<dyn StateStore>,
    entity: &'static str,
    key: String,
    epoch: u64,
    fencing: Box<dyn Fencing>,
    /// Whether another writer has written since it was read, or a write may have been made that
    /// has failed.
    is_stale: AtomicBool,
}

impl<T> Deref for Stored<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Serialize + DeserializeOwned + Default + Clone + Send + Sync> Stored<T> {
    /// Reads the state of an entity; the default if there is none.
    ///
    /// # Errors
    ///
    /// The type of the entity has no [`NAME`](Entity::NAME); another process has come to own the
    /// key; the store fails, or its data under this key cannot be decoded.
    pub async fn load<E: Entity>(cx: &EntityContext<E>) -> Result<Self, StoreError> {
        if E::NAME.is_empty() {
            return Err(StoreError::Nameless { type_name: std::any::type_name::<E>() });
        }
        let (key, Ownership { is_local, epoch }) = (cx.key_text(), cx.place());
        if !is_local {
            // The key has moved since this activation was made: the epoch is of another owner.
            let (entity, before) = (E::NAME.to_owned(), epoch.saturating_sub(1));
            return Err(StoreError::Fenced { entity, key, epoch: before, newest: epoch });
        }
        let home = Home {
            store: Arc::clone(cx.store()),
            entity: E::NAME,
            key,
            epoch,
            fencing: Box::new(Activation::of(cx)),
            is_stale: AtomicBool::new(false),
        };
        let mut stored = Self { value: T::default(), version: 0, home: Arc::new(home) };
        stored.reload().await?;
        Ok(stored)
    }

    /// Reads the state again, as after a conflict.
    ///
    /// # Errors
    ///
    /// As [`Stored::load`].
    pub async fn reload(&mut self) -> Result<(), StoreError> {
        let home = &self.home;
        let record = home.store.load(home.entity, &home.key).await?;
        self.value = match record.bytes {
            None => T::default(),
            Some(bytes) => {
                serde_json::from_slice(&bytes).map_err(|error| home.malformed(&error))?
            }
        };
        self.version = record.version;
        home.is_stale.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Changes the state: on a copy, which counts once it is written.
    ///
    /// # Errors
    ///
    /// The store fails or finds a conflict: the value in memory is as before. Then the activation
    /// is passivated, unless the request reads the state [again](Stored::reload) or the type says
    /// [otherwise](Entity::ON_CONFLICT): after a failure too, as the write may have been made. An
    /// activation that was replaced writes nothing.
    pub async fn update<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> Result<R, StoreError> {
        let mut changed = self.value.clone();
        let answer = change(&mut changed);
        let home = &self.home;
        let bytes = serde_json::to_vec(&changed).map_err(|error| home.malformed(&error))?;
        home.may_write()?;
        let saved = home.store.save(home.entity, &home.key, bytes, self.version, home.epoch);
        self.version = home.judge(saved.await)?;
        self.value = changed;
        Ok(answer)
    }

    /// Removes the state; in memory it is the default then.
    ///
    /// # Errors
    ///
    /// As [`Stored::update`].
    pub async fn clear(&mut self) -> Result<(), StoreError> {
        let home = &self.home;
        home.may_write()?;
        let cleared = home.store.clear(home.entity, &home.key, self.version, home.epoch);
        self.version = home.judge(cleared.await)?;
        self.value = T::default();
        Ok(())
    }

    /// The version that was read or written last; 0 before the first write.
    pub fn version(&self) -> u64 {
        self.version
    }
}

impl Home {
    fn malformed(&self, problem: &dyn fmt::Display) -> StoreError {
        let (entity, key) = (self.entity.to_owned(), self.key.clone());
        StoreError::Malformed { entity, key, problem: problem.to_string() }
    }

    /// Whether the value in memory may be an old one.
    pub(crate) fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::Relaxed)
    }

    /// Refuses the late writes of an activation that was replaced.
    fn may_write(&self) -> Result<(), StoreError> {
        if self.fencing.is_current() {
            return Ok(());
        }
        Err(StoreError::Replaced { entity: self.entity.to_owned(), key: self.key.clone() })
    }

    /// Notes that the value in memory may be an old one: the activation is passivated, unless it
    /// reads the state again.
    fn judge(self: &Arc<Self>, written: Result<u64, StoreError>) -> Result<u64, StoreError> {
        use StoreError::{Conflict, Failed, Fenced};
        if matches!(written, Err(Conflict { .. } | Fenced { .. } | Failed(_)))
            && !self.is_stale.swap(true, Ordering::Relaxed)
        {
            // Weak: the state of an actor that has begun anew since is another one.
            self.fencing.passivate_if_stale(Arc::downgrade(self));
        }
        written
    }
}

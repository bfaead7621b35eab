//! A store that fails when it is told to, and that can be watched.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::StoreError;
use crate::id::PlanId;
use crate::store::{
    Batch, ScheduleWrite, Seq, Store, StoreKeeper, StoreReader, StoreWriter, Swap, Upkeep, Verdict,
    WorldsWrite,
};

/// A store over another one, whose commits fail when they are told to. Clones share everything.
///
/// Commits are counted from 1, over all writers. One that fails leaves nothing of itself behind, as the
/// contract of [`StoreWriter::commit`] says.
///
/// ```
/// use turnwheel_engine::store::{Batch, Store};
/// use turnwheel_engine::testkit::FaultStore;
/// use turnwheel_engine::{MemoryStore, StoreError};
///
/// let store = FaultStore::new(MemoryStore::new());
/// store.fail_at(2, StoreError::Full("no room".to_owned()));
/// let mut writer = store.writer()?;
/// let nothing = Batch { changes: &[], appends: &[], rows: &[], projected: 0 };
/// assert!(writer.commit(&nothing).is_ok());
/// assert!(matches!(writer.commit(&nothing), Err(StoreError::Full(_))));
/// assert!(writer.commit(&nothing).is_ok());
/// assert_eq!(store.commits(), 3);
/// # Ok::<(), StoreError>(())
/// ```
#[derive(Clone)]
pub struct FaultStore {
    inner: Arc<dyn Store>,
    script: Arc<Mutex<Script>>,
}

#[derive(Default)]
struct Script {
    commits: u64,
    at: BTreeMap<u64, StoreError>,
    from: Option<(u64, StoreError)>,
    observer: Option<Box<dyn Observer>>,
}

/// Looks at each commit, in the thread that makes it.
pub(super) trait Observer: Send {
    /// A commit is about to be made: nothing of it is durable.
    fn begins(&mut self);

    /// A commit was made: all of it is durable, and nobody knows.
    fn ended(&mut self, batch: &Batch<'_>, verdicts: &[Verdict]);
}

impl fmt::Debug for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultStore")
            .field("inner", &self.inner)
            .field("commits", &self.commits())
            .finish_non_exhaustive()
    }
}

impl FaultStore {
    /// Over this store; nothing fails yet.
    pub fn new(inner: impl Store + 'static) -> Self {
        Self { inner: Arc::new(inner), script: Arc::default() }
    }

    pub(super) fn watched(inner: Arc<dyn Store>, observer: Box<dyn Observer>) -> Self {
        let script = Script { observer: Some(observer), ..Script::default() };
        Self { inner, script: Arc::new(Mutex::new(script)) }
    }

    /// Fails one commit, by its number.
    pub fn fail_at(&self, commit: u64, error: StoreError) {
        self.script.lock().at.insert(commit, error);
    }

    /// Fails every commit from now on, until it is [healed](FaultStore::heal).
    pub fn fail(&self, error: StoreError) {
        let mut script = self.script.lock();
        script.from = Some((script.commits + 1, error));
    }

    /// Nothing fails any more.
    pub fn heal(&self) {
        let mut script = self.script.lock();
        script.at.clear();
        script.from = None;
    }

    /// How many commits were tried.
    pub fn commits(&self) -> u64 {
        self.script.lock().commits
    }
}

impl Store for FaultStore {
    fn writer(&self) -> Result<Box<dyn StoreWriter>, StoreError> {
        let (inner, script) = (self.inner.writer()?, Arc::clone(&self.script));
        Ok(Box::new(Writer { inner, script }))
    }

    fn reader(&self) -> Result<Box<dyn StoreReader>, StoreError> {
        self.inner.reader()
    }

    fn keeper(&self) -> Result<Box<dyn StoreKeeper>, StoreError> {
        self.inner.keeper()
    }

    fn name(&self) -> String {
        self.inner.name()
    }
}

struct Writer {
    inner: Box<dyn StoreWriter>,
    script: Arc<Mutex<Script>>,
}

impl StoreWriter for Writer {
    fn epoch(&self) -> u64 {
        self.inner.epoch()
    }

    fn last(&self) -> Seq {
        self.inner.last()
    }

    fn remove(&mut self, plans: &[(PlanId, Seq)]) -> Result<usize, StoreError> {
        self.inner.remove(plans)
    }

    fn takes_plans(&mut self) -> Result<(), StoreError> {
        self.inner.takes_plans()
    }

    fn upkeep(&self) -> Upkeep {
        self.inner.upkeep()
    }

    fn keep(&mut self) -> Result<(), StoreError> {
        self.inner.keep()
    }

    fn commit(&mut self, batch: &Batch<'_>) -> Result<Vec<Verdict>, StoreError> {
        let mut script = self.script.lock();
        script.count()?;
        if let Some(observer) = &mut script.observer {
            observer.begins();
        }
        let verdicts = self.inner.commit(batch)?;
        if let Some(observer) = &mut script.observer {
            observer.ended(batch, &verdicts);
        }
        Ok(verdicts)
    }

    fn write_schedules(&mut self, writes: &[ScheduleWrite]) -> Result<Vec<Swap>, StoreError> {
        let mut script = self.script.lock();
        script.count()?;
        let nothing = Batch { changes: &[], appends: &[], rows: &[], projected: 0 };
        if let Some(observer) = &mut script.observer {
            observer.begins();
        }
        let swaps = self.inner.write_schedules(writes)?;
        if let Some(observer) = &mut script.observer {
            observer.ended(&nothing, &[]);
        }
        Ok(swaps)
    }

    fn write_worlds(&mut self, write: &WorldsWrite) -> Result<Swap, StoreError> {
        let mut script = self.script.lock();
        script.count()?;
        let nothing = Batch { changes: &[], appends: &[], rows: &[], projected: 0 };
        if let Some(observer) = &mut script.observer {
            observer.begins();
        }
        let swap = self.inner.write_worlds(write)?;
        if let Some(observer) = &mut script.observer {
            observer.ended(&nothing, &[]);
        }
        Ok(swap)
    }
}

impl Script {
    /// One more commit; the error that it is to have.
    fn count(&mut self) -> Result<(), StoreError> {
        self.commits += 1;
        let number = self.commits;
        let error = match &self.from {
            Some((from, error)) if *from <= number => Some(error.clone()),
            _ => self.at.get(&number).cloned(),
        };
        error.map_or(Ok(()), Err)
    }
}

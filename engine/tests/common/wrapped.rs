//! A store in memory that a test looks into, or changes behind the back of its world.

use std::fmt::Debug;

use turnwheel_engine::store::{
    Batch, Removal, ScheduleWrite, Seq, StoreReader, StoreWriter, Swap, Upkeep, Verdict,
    WorldsWrite,
};
use turnwheel_engine::{MemoryStore, PlanId, Store, StoreError};

/// Actions of a test beside the writes of a world.
pub(crate) trait Beside: Clone + Debug + Send + Sync + 'static {
    /// This is about to be committed.
    fn commit(&self, _: &Batch<'_>) {}

    /// These schedules are about to be written.
    fn schedules(
        &self,
        _: &mut dyn StoreWriter,
        _: &[ScheduleWrite],
        _: &mut dyn StoreReader,
    ) -> Result<(), StoreError> {
        Ok(())
    }
}

/// The store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wrapped<B> {
    pub(crate) inner: MemoryStore,
    pub(crate) beside: B,
}

struct Writer<B> {
    inner: Box<dyn StoreWriter>,
    store: Wrapped<B>,
}

impl<B: Beside> Store for Wrapped<B> {
    fn open(&self) -> Result<Box<dyn StoreWriter>, StoreError> {
        let (inner, store) = (self.inner.open()?, self.clone());
        Ok(Box::new(Writer { inner, store }))
    }

    fn writer(&self) -> Result<Box<dyn StoreWriter>, StoreError> {
        let (inner, store) = (self.inner.writer()?, self.clone());
        Ok(Box::new(Writer { inner, store }))
    }

    fn reader(&self) -> Result<Box<dyn StoreReader>, StoreError> {
        self.inner.reader()
    }

    fn name(&self) -> String {
        self.inner.name()
    }
}

impl<B: Beside> StoreWriter for Writer<B> {
    fn epoch(&self) -> u64 {
        self.inner.epoch()
    }

    fn last(&self) -> Seq {
        self.inner.last()
    }

    fn remove(&mut self, plans: &[Removal]) -> Result<usize, StoreError> {
        self.inner.remove(plans)
    }

    fn free(&mut self, locks: &[(String, PlanId)]) -> Result<(), StoreError> {
        self.inner.free(locks)
    }

    fn upkeep(&self) -> Upkeep {
        self.inner.upkeep()
    }

    fn commit(&mut self, batch: &Batch<'_>) -> Result<Vec<Verdict>, StoreError> {
        self.store.beside.commit(batch);
        self.inner.commit(batch)
    }

    fn write_schedules(&mut self, writes: &[ScheduleWrite]) -> Result<Vec<Swap>, StoreError> {
        let mut reader = self.store.inner.reader()?;
        self.store.beside.schedules(&mut *self.inner, writes, &mut *reader)?;
        self.inner.write_schedules(writes)
    }

    fn write_worlds(&mut self, write: &WorldsWrite) -> Result<Swap, StoreError> {
        self.inner.write_worlds(write)
    }
}
